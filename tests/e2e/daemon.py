"""The real daemon as a child process on the compiled stand-in, and its page as people and Prometheus get it.

Nothing is patched: `python -m npumond.cli run` with a configuration file, the stand-in's libdcmi.so and hccn_tool, real
sockets, SIGTERM at the end. Waiting is polling with a deadline; what is waited for is always something on the page.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from npumond.catalog import CATALOG
from tests.standin.build import StandIn
from tests.standin.scenario import Scenario

ROOT = Path(__file__).parents[2]
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"

QUICK: Mapping[str, str] = {"fast": "200ms", "normal": "300ms", "slow": "1s"}
"""Intervals with which a page is complete after a few seconds."""

START_LIMIT_S = 20.0
STOP_LIMIT_S = 5.0
"""What the daemon promises: exit 0 within 5 s of SIGTERM."""
POLL_S = 0.01
PAGE_POLL_S = 0.05
"""Reading a whole page takes a while; the daemon is to have the processor in between."""

FILLED_BY_DRIVERS = tuple(family.name for family in CATALOG if family.sources)

Series = tuple[str, frozenset[tuple[str, str]]]
"""Sample name and labels, in no order: what makes a series."""
Values = dict[Series, float]


def series(name: str, **labels: str | int) -> Series:
    """A series by its name and labels."""
    return name, frozenset((label, str(value)) for label, value in labels.items())


def show(one: Series) -> str:
    """A series as it stands on a page, labels in alphabetical order."""
    name, labels = one
    return f"{name}{{{', '.join(f'{label}={value!r}' for label, value in sorted(labels))}}}"


def values_of(families: Iterable[Metric]) -> Values:
    """Every sample that prometheus_client's parser reads; a series given twice is a failure."""
    values: Values = {}
    for family in families:
        for sample in family.samples:
            key = series(sample.name, **sample.labels)
            assert key not in values, f"{show(key)} is on the page twice"
            assert sample.timestamp is None, f"{show(key)} has a timestamp"
            values[key] = sample.value
    return values


class Page(NamedTuple):
    """One scrape."""

    body: str
    content_type: str

    @property
    def values(self) -> Values:
        """What the parser of this page's format reads."""
        return _read(self)

    def of(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """The series of one sample name by their labels."""
        return {labels: value for (sample, labels), value in self.values.items() if sample == name}


@lru_cache(maxsize=40)
def _read(page: Page) -> Values:
    """Parsing takes longer than anything that a test does with a page."""
    if page.content_type == OPENMETRICS:
        return values_of(read_openmetrics(page.body))  # type: ignore[no-untyped-call]  # their omission
    assert page.content_type == TEXT
    return values_of(read_text(page.body))


class Daemon:
    """`npumond run` in a scenario, from entering to leaving; leaving ends it by SIGTERM and wants exit status 0.

    `calls` afterwards lists every call that the stand-in was asked for.
    """

    def __init__(
        self,
        directory: Path,
        standin: StandIn,
        scenario: Scenario,
        *,
        sampling: Mapping[str, str] | None = QUICK,
        call_timeout: str = "5s",
        awaited: str = "/-/ready",
        driver: Mapping[str, Any] | None = None,
    ) -> None:
        self._awaited = awaited
        self._scenario_path = directory / "scenario"
        self._calls_path = directory / "calls"
        self._log_path = directory / "log"
        self._config_path = directory / "npumond.yaml"
        usual = {
            "backend": "dcmi",
            "dcmi_library": str(standin.dcmi),
            "hccn_tool": str(standin.hccn_tool),
            "call_timeout": call_timeout,
        }
        self._config: dict[str, Any] = {
            "node": "here",
            "server": {"listen": ["127.0.0.1:0"]},
            "driver": usual if driver is None else dict(driver),
            "log": {"format": "json"},
        }
        self.configure(**({} if sampling is None else {"sampling": dict(sampling)}))
        self.put(scenario)
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ("", 0)

    def put(self, scenario: Scenario) -> None:
        """Put another scenario in force while the daemon runs."""
        scenario.write(self._scenario_path)

    def configure(self, **sections: Any) -> None:
        """Write the configuration file with these sections beside the usual ones; read at the start and on SIGHUP."""
        self._config_path.write_text(json.dumps({**self._config, **sections}))  # JSON is YAML

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        assert self._process is not None
        return self._process.pid

    @property
    def worker(self) -> psutil.Process:
        """The one process that holds the vendor's library."""
        (worker,) = self.children("npumond.worker")
        return worker

    def children(self, module: str) -> list[psutil.Process]:
        """The daemon's child processes that run this module."""
        return [child for child in psutil.Process(self.pid).children() if module in child.cmdline()]

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._address

    # ---- its life ----

    def __enter__(self) -> Self:
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ASCEND_")},
            "NPUMOND_STANDIN_SCENARIO": str(self._scenario_path),
            "NPUMOND_STANDIN_CALLS": str(self._calls_path),
        }
        command = [sys.executable, "-m", "npumond.cli", "run", "--config", str(self._config_path)]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self.until(self._is_listening, "it listens", START_LIMIT_S)
            self.until(lambda: self.get(self._awaited)[0] == 200, f"{self._awaited} says yes", START_LIMIT_S)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            error.add_note(self._told())
            self._kill()

    def stop(self) -> None:
        """SIGTERM; the daemon ends with 0 within its limit."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._kill()
            raise AssertionError(f"still running {STOP_LIMIT_S:g} s after SIGTERM\n{self._told()}") from None
        assert status == 0, f"exit status {status}\n{self._told()}"

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_LIMIT_S)

    def log(self) -> str:
        """Everything that it has logged."""
        return self._log_path.read_text(errors="replace")

    def _told(self) -> str:
        return f"the daemon's log ends with:\n{self.log()[-4000:]}"

    def _is_listening(self) -> bool:
        assert self._process is not None
        status = self._process.poll()
        assert status is None, f"ended with {status} before it listened\n{self._told()}"
        for line in self._log_path.read_text().splitlines():
            if '"listening"' in line:
                host, _, port = json.loads(line)["addresses"][0].rpartition(":")
                self._address = (host, int(port))
        return self._address[1] != 0

    # ---- what it says ----

    def get(self, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers in lower case, and body of one request."""
        connection = http.client.HTTPConnection(*self._address, timeout=5)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def scrape(self, accept: str = "text/plain;version=0.0.4") -> Page:
        """The page in the format that is asked for."""
        status, headers, body = self.get("/metrics", Accept=accept)
        assert status == 200
        return Page(body.decode(), headers["content-type"])

    def both(self, within_s: float = 20.0) -> tuple[Page, Page]:
        """One snapshot in text and in OpenMetrics: the text is the same before and after the other was fetched."""
        found: list[tuple[Page, Page]] = []

        def fetched() -> bool:
            before, other, after = self.scrape(), self.scrape(OPENMETRICS), self.scrape()
            if before == after:
                found.append((before, other))
            return bool(found)

        self.until(fetched, "both formats come from one snapshot", within_s)
        return found[0]

    def page_when(self, holds: Callable[[Page], bool], what: str, within_s: float = 20.0) -> Page:
        """The first page of which ``holds`` is true; fails when there is none in time."""
        pages: list[Page] = []

        def seen() -> bool:
            pages[:] = [self.scrape()]
            return holds(pages[0])

        self.until(seen, what, within_s, PAGE_POLL_S)
        return pages[0]

    def until(self, holds: Callable[[], bool], what: str, within_s: float, pause_s: float = POLL_S) -> float:
        """Poll until ``holds``; returns how many seconds it took, and fails after ``within_s``."""
        begun = time.monotonic()
        while True:
            asked_at = time.monotonic()
            if holds():
                return time.monotonic() - begun
            assert asked_at - begun < within_s, f"not within {within_s:g} s: {what}\n{self._told()}"
            time.sleep(pause_s)

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Function and subtype of every call so far; for hccn_tool the subtype is its command."""
        lines = (line.split() for line in self._calls_path.read_text().splitlines())
        return [(line[0], line[2]) for line in lines if len(line) >= 3]


def is_complete(page: Page) -> bool:
    """Whether every lane of every device had its round: what a metric's support says is then known of all of them."""
    devices = page.body.count("\nnpu_device_up{")
    if devices == 0 or page.body.count("\nnpumond_metric_supported{") < devices * len(FILLED_BY_DRIVERS):
        return False
    return min(page.of("npumond_source_success").values(), default=0.0) == 1.0
