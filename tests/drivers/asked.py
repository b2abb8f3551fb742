"""The DCMI driver in a process of its own, as the worker has it.

A process can load a vendor library once and initialise it once, so each test has a child. Run as a program this module
is the child: one JSON request a line on stdin, one JSON answer a line on what was stdout. The stand-in prints to stdout
as the real library does, so stdout is turned away before the library is loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

import msgspec

from npumond.drivers.dcmi.driver import DcmiDriver
from npumond.errors import DriverError
from npumond.model import CallOutcome, Device, DriverFacts
from tests.standin.build import StandIn
from tests.standin.scenario import Scenario

ROOT = Path(__file__).parents[2]
FASTEST: dict[str, int] = {"pcie": 1, "hccs": 1, "rdma": 100, "ub": 1}
"""Windows as short as the vendor allows."""


class Refused(Exception):
    """`DcmiDriver.open` raised `DriverError`."""

    def __init__(self, message: str, code: int | None, searched: list[str]) -> None:
        super().__init__(message)
        self.code = code
        self.searched = searched


class Asked:
    """The parent's side: a driver on a scenario, opened when it is entered."""

    def __init__(
        self, standin: StandIn, scenario: Scenario, directory: Path, *, explicit: bool = True, **environ: str
    ) -> None:
        self.path = directory / "scenario"
        scenario.write(self.path)
        self.calls_path = directory / "calls"
        self._library = str(standin.dcmi) if explicit else ""
        self._tool = str(standin.hccn_tool)
        self._environ = {
            **{name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"},
            "NPUMOND_STANDIN_SCENARIO": str(self.path),
            "NPUMOND_STANDIN_CALLS": str(self.calls_path),
            **environ,
        }
        self.facts: DriverFacts

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.drivers.asked", self._library, self._tool],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environ,
            cwd=ROOT,
        )
        try:
            answer = self._ask({"open": True})
            if "refused" in answer:
                raise Refused(*answer["refused"])
        except BaseException:
            self._end()
            raise
        self.facts = msgspec.convert(answer["facts"], DriverFacts)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def device(self, phy_id: int) -> Device:
        """The device of a physical id."""
        return next(device for device in self.facts.devices if device.phy_id == phy_id)

    def call(self, name: str, phy_id: int = 0) -> CallOutcome:
        """One call."""
        return msgspec.convert(self._ask({"call": name, "phy_id": phy_id})["outcome"], CallOutcome)

    def names(self, phy_id: int = 0) -> list[str]:
        """The calls that the driver plans for a device."""
        return cast("list[str]", self._ask({"names": True, "phy_id": phy_id})["names"])

    def everything(self) -> dict[int, dict[str, CallOutcome]]:
        """Every planned call of every device, a thread a device."""
        rounds = msgspec.convert(self._ask({"everything": True})["rounds"], dict[str, list[CallOutcome]])
        return {int(phy_id): {outcome.call: outcome for outcome in outcomes} for phy_id, outcomes in rounds.items()}

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        stdin, stdout = cast("IO[bytes]", self._child.stdin), cast("IO[bytes]", self._child.stdout)
        stdin.write(msgspec.json.encode(request) + b"\n")
        stdin.flush()
        line = stdout.readline()
        assert line, f"the child ended: {self._child.wait(5)}"
        return cast("dict[str, Any]", msgspec.json.decode(line))

    def _end(self) -> None:
        for pipe in (self._child.stdin, self._child.stdout):
            cast("IO[bytes]", pipe).close()
        self._child.kill()
        self._child.wait(5)


# ---- the child's side ----


def serve(driver: DcmiDriver, answers: IO[bytes]) -> None:
    """Answer requests until stdin ends."""
    facts: DriverFacts | None = None
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line)
        if "open" in request:
            answer, facts = opened(driver)
        else:
            assert facts is not None
            answer = answered(driver, facts, request)
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def opened(driver: DcmiDriver) -> tuple[dict[str, Any], DriverFacts | None]:
    """What came of opening."""
    try:
        facts = driver.open()
    except DriverError as error:
        return {"refused": [str(error), error.code, list(error.searched)]}, None
    return {"facts": facts}, facts


def answered(driver: DcmiDriver, facts: DriverFacts, request: Mapping[str, Any]) -> dict[str, Any]:
    """What came of one request."""
    if "everything" in request:
        with ThreadPoolExecutor(len(facts.devices)) as pool:
            rounds = pool.map(lambda device: everything_of(driver, device), facts.devices)
        return {"rounds": dict(zip((str(device.phy_id) for device in facts.devices), rounds, strict=True))}
    device = next(device for device in facts.devices if device.phy_id == request["phy_id"])
    if "names" in request:
        return {"names": [call.name for call in driver.calls(device)]}
    return {"outcome": driver.call(device, request["call"])}


def everything_of(driver: DcmiDriver, device: Device) -> list[CallOutcome]:
    """Every planned call, one after the other."""
    return [driver.call(device, call.name) for call in driver.calls(device)]


def main(library: str, tool: str) -> None:
    """The child."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    serve(DcmiDriver(library or None, tool, FASTEST, os.environ), answers)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
