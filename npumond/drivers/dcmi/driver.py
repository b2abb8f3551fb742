"""The driver that speaks to libdcmi.so: chips by discovery, readings by the rows of the call table.

Why ctypes and not an extension: nothing has to be built on the host, the table stays data, and a foreign call releases
the interpreter's lock, so devices are read in parallel.

`dcmi_init` is a snapshot of the cards and there is no exit call: chips that come later are seen by a new process only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from npumond.drivers import hccn
from npumond.drivers.dcmi.calling import Caller, Functions, NoSymbolError, OverrunError
from npumond.drivers.dcmi.codes import NOT_SUPPORT, OK, kind_of, meaning_of
from npumond.drivers.dcmi.discovery import discover_v1, discover_v2, initialise, read_text
from npumond.drivers.dcmi.library import Library, load
from npumond.drivers.dcmi.rows import Chip, Question, Row, Window
from npumond.drivers.dcmi.table import BY_NAME, rows_of
from npumond.drivers.driver import Call
from npumond.errors import DriverError
from npumond.model import CallOutcome, Device, DriverFacts, OutcomeKind, PhyId

WINDOWS_MS: Mapping[Window, int] = {"pcie": 200, "hccs": 200, "rdma": 100, "ub": 50}
"""How long calls that watch a link watch it. UB is asked port by port, up to 36 of them in one round of 5 seconds."""

_WINDOW_LIMITS: Mapping[Window, tuple[int, int]] = {
    "pcie": (0, 2000),
    "hccs": (1, 1000),
    "rdma": (100, 10000),
    "ub": (1, 226),
}
"""The vendor's bounds, reference section 4."""

_ETHERNET = ("910", "910B", "A3")
"""Generations whose chips have an Ethernet port that hccn_tool knows."""


class DcmiDriver:
    """The vendor's management library, and hccn_tool beside it. Implements `npumond.drivers.driver.Driver`."""

    def __init__(
        self,
        library: str | None = None,
        hccn_tool: str | None = None,
        windows_ms: Mapping[Window, int] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """``library`` and ``hccn_tool`` are paths that win over the places where they are looked for."""
        self._explicit = library
        self._environ = environ
        self._tool = hccn.HccnTool(hccn_tool, environ)
        self._windows_ms = _windows({**WINDOWS_MS, **(windows_ms or {})})
        self._functions: Functions
        self._v2 = False
        self._chips: dict[PhyId, Chip] = {}
        self._proven: set[tuple[PhyId, str]] = set()

    def open(self) -> DriverFacts:
        """Load, initialise, identify every chip; takes seconds and may hang.

        Raises `DriverError` with the paths tried, or with the vendor's code.
        """
        library = load(self._explicit, self._environ)
        self._functions = Functions(library)
        caller = self._functions.caller()
        try:
            self._v2 = initialise(caller)
            found = (discover_v2 if self._v2 else discover_v1)(caller)
        except DriverError as error:
            raise DriverError(f"{library.path}: {error}", error.code, library.searched) from error
        self._chips = {chip.device.phy_id: chip for chip in found.chips}
        return self._facts(library, caller, tuple(chip.device for chip in found.chips), found.failed)

    def _facts(self, library: Library, caller: Caller, devices: tuple[Device, ...], failed: Any) -> DriverFacts:
        prefix = "dcmiv2" if self._v2 else "dcmi"
        return DriverFacts(
            backend="dcmi",
            api="v2" if self._v2 else "v1",
            library=library.path,
            driver_version=read_text(caller, f"{prefix}_get_driver_version"),
            dcmi_version=read_text(caller, f"{prefix}_get_dcmi_version"),
            devices=devices,
            failed=failed,
            searched=library.searched,
        )

    def calls(self, device: Device) -> tuple[Call, ...]:
        """The planned rows that make sense for the device, in the order of the table; the tool's rows come last."""
        rows = (row for row in rows_of(device, v2=self._v2) if row.planned)
        calls = tuple(
            Call(name=row.name, lane=row.lane, scope=row.scope, unless=row.unless, counts=row.counts) for row in rows
        )
        if device.generation not in _ETHERNET:
            return calls
        return calls + tuple(
            Call(name=topic.name, lane="tool", unless=topic.unless, counts=topic.counts) for topic in hccn.TOPICS
        )

    def call(self, device: Device, name: str) -> CallOutcome:
        """Make the row's call.

        Raises `KeyError` for a name that is no row or a device that `open` did not find: mistakes of the caller. What
        the vendor's code says or returns raises nothing.
        """
        topic = hccn.BY_NAME.get(name)
        if topic is not None:
            return self._ask_tool(device, topic)
        row = BY_NAME[name]
        symbol = row.v2 if self._v2 else row.v1
        if symbol is None:
            return CallOutcome(name, "unsupported", NOT_SUPPORT, 0.0, detail="not in this API")
        question = Question(
            row,
            symbol,
            self._chips[device.phy_id],
            self._functions.caller(),
            v2=self._v2,
            windows_ms=self._windows_ms,
            chips=self._chips.values(),
        )
        return self._judged(device, outcome_of(question))

    def _ask_tool(self, device: Device, topic: hccn.Topic) -> CallOutcome:
        if device.generation not in _ETHERNET:
            return CallOutcome(
                topic.name, "unsupported", NOT_SUPPORT, 0.0, detail="no Ethernet port that the tool knows"
            )
        return self._tool.ask(device.phy_id, topic)

    def _judged(self, device: Device, outcome: CallOutcome) -> CallOutcome:
        """Zeros that may stand for "not supported" count once the chip has shown that it has the call."""
        if outcome.kind != "ok" or not outcome.readings or not BY_NAME[outcome.call].zeros_unproven:
            return outcome
        proof = (device.phy_id, outcome.call)
        if any(reading.value for reading in outcome.readings):
            self._proven.add(proof)
        if proof in self._proven:
            return outcome
        detail = "all zero, as where the chip lacks the call"
        return CallOutcome(outcome.call, "unproven", outcome.code, outcome.duration_s, detail=detail)


def outcome_of(question: Question) -> CallOutcome:
    """Ask, and say what came of it."""
    row, caller = question.row, question.caller
    try:
        code = row.ask(question)
    except NoSymbolError as error:
        return CallOutcome(row.name, "unsupported", NOT_SUPPORT, caller.seconds, detail=f"no symbol {error}")
    except OverrunError as error:
        return CallOutcome(row.name, "rejected", OK, caller.seconds, detail=str(error))
    if code != OK:
        return CallOutcome(row.name, _kind(row, code), code, caller.seconds, detail=meaning_of(code))
    kind: OutcomeKind = "rejected" if question.rejected and not question.readings else "ok"
    detail = "; ".join((*question.rejected, *question.remarks))
    return CallOutcome(
        row.name, kind, code, caller.seconds, tuple(question.readings), detail, rejected=len(question.rejected)
    )


def _kind(row: Row, code: int) -> OutcomeKind:
    return "unsupported" if code in row.absent_codes else kind_of(code)


def _windows(windows_ms: Mapping[Window, int]) -> Mapping[Window, int]:
    for window, value in windows_ms.items():
        low, high = _WINDOW_LIMITS[window]
        if not low <= value <= high:
            raise ValueError(f"{window} window: {value} ms is not within {low} and {high}")
    return windows_ms
