"""The round-trip probe measures a chip, says what stops it, and is gone when its time is up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import uvloop

from npumond.model import Device, LogicId, PhyId
from npumond.worker import probe, prober
from npumond.worker.prober import ProbeResult, roundtrip
from tests.standin.build import build
from tests.standin.profiles import permute_ids, profile
from tests.standin.scenario import Scenario

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20.0
"""For probes that are to finish: far beyond what a busy machine takes."""


class Lab:
    """A machine with a stand-in runtime, and the probe of its chip 1."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library = str(library)
        self.scenario = folder / "scenario"
        self.calls = folder / "calls"
        self.temporary = folder / "tmp"
        self.device = Device(phy_id=PhyId(1), logic_id=LogicId(1), card_id=1, chip_id=0, chip="910B3")

    async def probe(self, scenario: Scenario, deadline_s: float = DEADLINE_S, count: int = 4) -> ProbeResult:
        """Run the probe on chip 1 of this scenario."""
        scenario.write(self.scenario)
        return await roundtrip(self.device, library=self.library, count=count, deadline_s=deadline_s)

    def called(self) -> set[str]:
        """Names of the functions that the probe called."""
        return {line.split()[0] for line in self.calls.read_text().splitlines()}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled runtime; test processes and runs share it."""
    return build(tmp_path_factory.getbasetemp().parent / "standin").acl


@pytest.fixture
def lab(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A machine for one test, which must leave no child and no file behind."""
    lab = Lab(library, tmp_path)
    lab.temporary.mkdir()
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NPUMOND_STANDIN_SCENARIO", str(lab.scenario))
    monkeypatch.setenv("NPUMOND_STANDIN_CALLS", str(lab.calls))
    monkeypatch.setattr(tempfile, "tempdir", str(lab.temporary))
    yield lab
    assert not probes(os.getpid())
    assert not list(lab.temporary.iterdir())


def probes(parent: int) -> list[psutil.Process]:
    """The probe processes below a process, zombies included."""
    found = []
    for child in psutil.Process(parent).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE or "npumond.worker.probe" in child.cmdline():
                found.append(child)
    return found


async def test_round_trips_are_timed_and_memory_is_told(lab: Lab) -> None:
    """As many as asked for, each at least what the chip takes."""
    scenario = profile("910b")
    scenario.chip(1).acl_latency_us = 2000
    scenario.chip(1).acl_memory = (20 << 30, 64 << 30)
    result = await lab.probe(scenario, count=6)
    assert (result.kind, result.error, result.detail) == ("ok", None, "")
    assert len(result.roundtrips_s) == 6
    assert min(result.roundtrips_s) >= 0.002
    assert (result.memory_free, result.memory_total) == (20 << 30, 64 << 30)
    assert not {name for name in lab.called() if "Reset" in name or "Finalize" in name}


@pytest.mark.slow
async def test_opening_the_context_is_timed_by_itself(lab: Lab) -> None:
    """The first takes seconds, and they are no round trip."""
    scenario = profile("910b")
    scenario.acl_set_device_ms = (300, 0)
    result = await lab.probe(scenario)
    assert result.set_device_s is not None
    assert result.set_device_s >= 0.3
    assert max(result.roundtrips_s) < 0.3


async def test_the_chip_is_found_whatever_is_visible(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable would make chip 1 another one, or none."""
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5")
    scenario = permute_ids(profile("910b"))
    scenario.chip(1).acl_memory = (1 << 30, 2 << 30)
    assert (await lab.probe(scenario)).memory_total == 2 << 30


async def test_what_the_library_prints_does_not_reach_the_answer(lab: Lab) -> None:
    """The vendor's libraries print on standard output."""
    scenario = profile("910b")
    scenario.noise_init = '{"phy_id": 9}\n'
    scenario.noise_call = "DrvMngGetConsoleLogLevel failed"
    assert (await lab.probe(scenario)).kind == "ok"


@pytest.mark.slow
async def test_a_stuck_stream_is_a_timeout_and_is_not_waited_for(lab: Lab) -> None:
    """507046 after half a second; a reset would wait for ever."""
    scenario = profile("910b")
    scenario.chip(1).acl_stuck = True
    result = await lab.probe(scenario)
    assert (result.kind, result.error, result.roundtrips_s) == ("timeout", 507046, ())
    assert "aclrtSynchronizeStreamWithTimeout" in result.detail
    assert "aclrtResetDevice" not in lab.called()


@pytest.mark.slow
async def test_a_call_that_hangs_is_named_and_its_process_killed(lab: Lab) -> None:
    """The deadline is ours, since the vendor has none."""
    started = time.monotonic()
    result = await lab.probe(profile("910b").hang("aclrtSetDevice"), deadline_s=1.0)
    assert (result.kind, result.detail) == ("timeout", "no answer within 1 s, in aclrtSetDevice")
    assert time.monotonic() - started < 1.0 + prober.KILL_WAIT_S


async def test_a_full_card_is_told_as_full_and_not_as_broken(lab: Lab) -> None:
    """SetDevice answers 507033 then."""
    scenario = profile("910b")
    scenario.acl_context_mb = 1 << 20
    result = await lab.probe(scenario)
    assert (result.kind, result.error) == ("error", 507033)
    assert "its HBM may be full, which is no fault" in result.detail


async def test_a_crash_of_the_library_is_told_with_its_place(lab: Lab) -> None:
    """And costs nobody else anything."""
    result = await lab.probe(profile("910b").crash("aclrtCreateStream"))
    assert (result.kind, result.error) == ("error", None)
    assert result.detail == "the probe was ended by SIGSEGV in aclrtCreateStream and buffers"


async def test_a_machine_without_the_library_is_told_as_such(lab: Lab) -> None:
    """With the path and the reason."""
    lab.library = "/nowhere/libacl_rt.so"
    result = await lab.probe(profile("910b"))
    assert (result.kind, result.error) == ("error", None)
    assert "/nowhere/libacl_rt.so: not there" in result.detail


CORRUPTING = """
#include <stdlib.h>
#include <string.h>
int aclInit(const char *p) { (void)p; return 0; }
int aclrtSetDevice(int d) { (void)d; return 0; }
int aclrtCreateStream(void **s) { *s = malloc(1); return 0; }
int aclrtMallocHost(void **p, size_t n) { *p = malloc(n); return 0; }
int aclrtMalloc(void **p, size_t n, int policy) { (void)policy; *p = malloc(n); return 0; }
int aclrtSynchronizeStreamWithTimeout(void *s, int ms) { (void)s, (void)ms; return 0; }
int aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t n, int kind, void *s)
{
    (void)room, (void)s;
    memcpy(to, from, n);
    if (kind == 2)
        ((char *)to)[n - 1] ^= 1;
    return 0;
}
"""


@pytest.fixture
def corrupting(tmp_path: Path) -> Path:
    """A runtime that changes a bit on the way back, and lacks what is not needed."""
    source, library = tmp_path / "corrupting.c", tmp_path / "libacl_rt.so"
    source.write_text(CORRUPTING)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return library


async def test_bytes_that_come_back_changed_are_an_error(lab: Lab, corrupting: Path) -> None:
    """A round trip in no time that moved nothing would look like a quick one."""
    lab.library = str(corrupting)
    result = await lab.probe(profile("910b"))
    assert (result.kind, result.error, result.memory_total) == ("error", None, None)
    assert result.detail == "round trip 0: the 64 bytes that came back are not those sent"


@pytest.mark.slow
async def test_a_probe_ends_when_nobody_waits_for_it_any_more(lab: Lab) -> None:
    """Cancelling kills the process before it returns; the fixture sees that none is left."""
    task = asyncio.create_task(lab.probe(profile("910b").hang("aclInit")))
    await asyncio.to_thread(wait_until, lambda: bool(probes(os.getpid())))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.slow
async def test_a_probe_that_cannot_be_killed_is_left_behind_and_costs_no_descriptors(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in uninterruptible sleep does not die; here, the signal is lost on its way."""
    await lab.probe(profile("910b"))  # whatever the loop opens once is open now
    descriptors = psutil.Process().num_fds()
    monkeypatch.setattr(prober, "KILL_WAIT_S", 0.1)
    monkeypatch.setattr(os, "killpg", lambda group, number: None)
    result = await lab.probe(profile("910b").hang("aclrtSetDevice"), deadline_s=0.5)
    assert result.detail.endswith("it could not be killed and was left behind")
    await asyncio.to_thread(wait_until, lambda: not probes(os.getpid()))  # closing the transport sends a signal, too
    assert psutil.Process().num_fds() <= descriptors


@pytest.mark.slow
def test_the_daemon_s_own_event_loop_runs_and_ends_probes_too(lab: Lab) -> None:
    """uvloop has its own way with processes."""
    assert uvloop.run(lab.probe(profile("910b"))).kind == "ok"
    result = uvloop.run(lab.probe(profile("910b").hang("aclrtSetDevice"), deadline_s=0.5))
    assert result.detail == "no answer within 0.5 s, in aclrtSetDevice"
    assert "SIGSEGV" in uvloop.run(lab.probe(profile("910b").crash("aclrtMalloc"))).detail


PARENT = """
import asyncio, sys
from npumond.model import Device
from npumond.worker.prober import roundtrip
device = Device(phy_id=1, logic_id=1, card_id=1, chip_id=0, chip="910B3")
asyncio.run(roundtrip(device, library=sys.argv[1], count=1, deadline_s=60))
"""


@pytest.mark.slow
def test_a_probe_ends_with_its_parent(lab: Lab) -> None:
    """Even one that was killed and could not say goodbye."""
    profile("910b").hang("aclrtSetDevice").write(lab.scenario)
    environ = os.environ | {"TMPDIR": str(lab.scenario.parent)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, lab.library], env=environ)
    wait_until(lambda: lab.calls.exists() and "aclInit" in lab.called())
    (child,) = probes(parent.pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def wait_until(condition: Callable[[], bool]) -> None:
    """Look until it is so; another process makes it so, and tells nobody."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"{", "cannot be read"),
        (b'{"phy_id": 1, "kind": "splendid"}', "cannot be read"),
        (b'{"phy_id": 1, "kind": "ok", "roundtrips_s": [-1]}', "cannot be read"),
        (b'{"phy_id": 2, "kind": "ok"}', "answered for chip 2"),
    ],
)
def test_an_answer_that_makes_no_sense_is_an_error(answer: bytes, detail: str) -> None:
    """A library may have written where it should not."""
    result = prober._read(PhyId(1), answer)
    assert result.kind == "error"
    assert detail in result.detail


def test_both_sides_mean_the_same_line() -> None:
    """The daemon's side may not import the probe's, which imports the drivers."""
    assert prober.STEP_MARK == probe.STEP_MARK


def test_the_daemon_s_side_does_not_open_the_door_to_the_driver() -> None:
    """Only worker processes load ctypes bindings."""
    code = (
        "import sys, npumond.worker.prober; sys.exit(any(name.startswith('npumond.drivers') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=30)
