"""Fault events come from a process of their own, which is kept running and never outlives the daemon."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal

import psutil
import pytest
import uvloop
from hypothesis import example, given
from hypothesis import strategies as st

from npumond.drivers.dcmi.events import EVENT_BYTES, dcmi_event_filter, read_event
from npumond.drivers.text import LONGEST
from npumond.errors import WorkerError
from npumond.model import DriverFacts
from npumond.worker import process
from npumond.worker import subscriber as module
from npumond.worker.event_protocol import FaultRaised, Message, Missed, Subscribed, encode, reader
from npumond.worker.events import Outbox
from npumond.worker.protocol import WorkerOptions
from npumond.worker.subscriber import REFUSED_PAUSE_S, Subscriber
from tests.standin.build import build
from tests.standin.profiles import profile
from tests.standin.scenario import Scenario

Backend = Literal["dcmi", "acl", "simulated"]
ROOT = Path(__file__).parents[2]
PATIENCE_S = 20.0


async def opened(backend: Backend) -> DriverFacts:
    """As the supervisor tells it once a worker has opened a driver."""
    return DriverFacts(backend=backend, api="v1", library="")


class Lab:
    """A machine with a stand-in driver, and a subscriber to its events."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library = str(library)
        self.path = folder / "scenario"
        self.scenario: Scenario = profile("910b")
        self.faults: list[FaultRaised] = []
        self.gaps: list[float] = []
        self.told: list[tuple[str, dict[str, object]]] = []

    def subscriber(self, backend: Backend = "dcmi", *, wanted: bool = True) -> Subscriber:
        self.scenario.write(self.path)
        options = WorkerOptions(backend=backend, dcmi_library=self.library)
        return Subscriber(
            options,
            os.environ | {"NPUMOND_STANDIN_SCENARIO": str(self.path)},
            wanted=wanted,
            opened=partial(opened, backend),
            on_fault=self.faults.append,
            on_gap=self.gaps.append,
            on_change=lambda event, fields: self.told.append((event, fields)),
        )

    @asynccontextmanager
    async def running(self, until: str = "subscribed", backend: Backend = "dcmi") -> AsyncIterator[Subscriber]:
        """A subscriber in that state, ended and reaped afterwards."""
        subscriber = self.subscriber(backend)
        task = asyncio.create_task(subscriber.run())
        try:
            await become(lambda: subscriber.state == until)
            yield subscriber
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=PATIENCE_S)
            assert task.cancelled()

    def raise_fault(self, code: int, **fields: int | str | bytes) -> None:
        self.scenario.event(3, code, **fields)  # type: ignore[arg-type]
        self.scenario.write(self.path)


async def become(condition: Callable[[], bool]) -> None:
    """Look until it is so; another process makes it so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.005)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled driver; test processes and runs share it."""
    return build(tmp_path_factory.getbasetemp().parent / "standin").dcmi


@pytest.fixture
def lab(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(ROOT)
    return Lab(library, tmp_path)


def listeners(parent: int) -> list[psutil.Process]:
    """The listening processes below a process, zombies included."""
    found = []
    for child in psutil.Process(parent).children(recursive=True):
        try:
            if child.status() == psutil.STATUS_ZOMBIE or "npumond.worker.events" in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


# ---- with a driver ----


@pytest.mark.slow
@pytest.mark.parametrize("host", ["910b", "950"])
async def test_a_fault_that_is_raised_and_recovers_is_heard_twice(lab: Lab, host: str) -> None:
    """Through either API, with the chip's severity and name; what was before the subscription is not told."""
    lab.scenario = profile(host)
    lab.scenario.event(3, 0x80E18402)
    before = time.monotonic()
    async with lab.running():
        lab.raise_fault(0x80E01801, severity=3, serial=7, name=b"HBM \xff\x07fault")
        await become(lambda: len(lab.faults) == 1)
        lab.raise_fault(0x80E01801, severity=3, serial=8, assertion=0)
        await become(lambda: len(lab.faults) == 2)
    first, second = lab.faults
    assert (first.code, first.logic_id, first.severity, first.assertion) == ("80E01801", 3, "critical", "raised")
    assert (first.event_serial, first.notify_serial, first.name) == (7, 7, "HBM \ufffdfault")
    assert (second.code, second.assertion, second.notify_serial) == ("80E01801", "recovered", 8)
    assert before < first.heard_at < second.heard_at < time.monotonic()
    assert not listeners(os.getpid())


@pytest.mark.slow
async def test_a_burst_comes_whole_and_in_order(lab: Lab) -> None:
    """500 at once, from a thread of the library's."""
    async with lab.running() as subscriber:
        for serial in range(1, 501):
            lab.scenario.event(3, 0x80CB8008, serial=serial)
        lab.scenario.write(lab.path)
        await become(lambda: len(lab.faults) == 500)
        assert subscriber.missed == Missed(0, 0)
    assert [fault.notify_serial for fault in lab.faults] == list(range(1, 501))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "seconds"), [(1780000000, 1780000000.0), (1780000000123, 1780000000.123), (0, None), (99, None)]
)
async def test_the_chip_s_time_is_in_seconds_or_milliseconds(lab: Lab, raw: int, seconds: float | None) -> None:
    async with lab.running():
        lab.raise_fault(0x80E01801, raised_at=raw)
        await become(lambda: bool(lab.faults))
    assert lab.faults[0].raised_at == seconds


@pytest.mark.slow
@pytest.mark.parametrize("code", [-8020, -8255])
async def test_a_refusal_is_told_once_and_asked_again_slowly(lab: Lab, code: int) -> None:
    lab.scenario.rc("dcmi_subscribe_fault_event", code)
    async with lab.running("waiting") as subscriber:
        assert f"dcmi_subscribe_fault_event: {code}" in subscriber.reason
        assert subscriber.retry_at is not None
        assert subscriber.retry_at - time.monotonic() > REFUSED_PAUSE_S / 2
        assert not listeners(os.getpid())
    assert [(event, fields["code"]) for event, fields in lab.told] == [("events_unavailable", code)]
    assert not lab.gaps


@pytest.mark.slow
async def test_a_machine_without_the_library_or_without_events_says_so(lab: Lab, library: Path) -> None:
    lab.library = "/nowhere/libdcmi.so"
    async with lab.running("waiting") as subscriber:
        assert "/nowhere/libdcmi.so: not there" in subscriber.reason
    old = build(library.parent.parent, missing=("dcmi_subscribe_fault_event",))
    lab.library = str(old.dcmi)
    async with lab.running("waiting") as subscriber:
        assert "no symbol dcmi_subscribe_fault_event" in subscriber.reason


async def test_other_drivers_have_no_events(lab: Lab) -> None:
    async with lab.running("off", backend="simulated") as subscriber:
        assert (subscriber.reason, subscriber.starts) == ("the simulated driver has no events", 0)


async def test_without_a_driver_nobody_listens(lab: Lab) -> None:
    """No process is started for a library that no worker could open."""
    subscriber = lab.subscriber()
    subscriber._opened = asyncio.Event().wait  # type: ignore[assignment]
    task = asyncio.create_task(subscriber.run())
    await asyncio.sleep(0)
    task.cancel()
    assert (subscriber.state, subscriber.reason, subscriber.starts) == ("starting", "no driver is open yet", 0)


async def test_nobody_listens_where_events_are_not_wanted(lab: Lab) -> None:
    subscriber = lab.subscriber(wanted=False)
    await subscriber.run()
    assert (subscriber.state, subscriber.reason, subscriber.starts) == ("off", "driver.fault_events is off", 0)


@pytest.mark.slow
async def test_a_listener_that_is_killed_is_followed_by_another(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the gap is told, since recoveries may have been missed."""
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    async with lab.running() as subscriber:
        assert subscriber.pid is not None
        os.kill(subscriber.pid, signal.SIGKILL)
        await become(lambda: subscriber.starts == 2 and subscriber.state == "subscribed")
        assert len(lab.gaps) == 1
        lab.raise_fault(0x80E01801)
        await become(lambda: bool(lab.faults))
        assert len(listeners(os.getpid())) == 1
    reasons = [fields["reason"] for event, fields in lab.told if event == "events_lost"]
    assert reasons == ["the listener closed its socket; it was ended by SIGKILL"]


@pytest.mark.slow
async def test_a_crash_in_the_library_costs_the_listener_only(lab: Lab) -> None:
    lab.scenario.crash("dcmi_subscribe_fault_event")
    async with lab.running("waiting") as subscriber:
        assert "SIGSEGV" in subscriber.reason


@pytest.mark.slow
async def test_an_initialisation_that_hangs_is_given_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INIT_DEADLINE_S", 1.0)
    lab.scenario.hang("dcmi_init")
    async with lab.running("waiting") as subscriber:
        assert subscriber.reason == "the driver did not take the subscription within 1 s"
        assert not listeners(os.getpid())


@pytest.mark.slow
async def test_a_listener_that_cannot_be_killed_has_no_second_beside_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its place at the driver; here, the signal is lost on its way and the process is stopped."""
    monkeypatch.setattr(process, "KILL_WAIT_S", 0.1)
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "LAST_PAUSE_S", 0.01)
    monkeypatch.setattr(os, "killpg", lambda group, number: None)
    async with lab.running() as subscriber:
        pid = subscriber.pid
        assert pid is not None
        assert subscriber._listener is not None
        os.kill(pid, signal.SIGSTOP)
        subscriber._listener._lost("nonsense")
        await become(lambda: "could not be killed" in subscriber.reason)
        assert len(listeners(os.getpid())) == 1
        os.kill(pid, signal.SIGKILL)
        await become(lambda: subscriber.state == "subscribed")
    await become(lambda: not listeners(os.getpid()))


@pytest.mark.slow
def test_the_daemon_s_own_event_loop_listens_too(lab: Lab) -> None:
    """uvloop has its own way with processes."""

    async def listen() -> None:
        async with lab.running():
            lab.raise_fault(0x80E01801)
            await become(lambda: bool(lab.faults))

    uvloop.run(listen())
    assert not listeners(os.getpid())


PARENT = """
import asyncio, os, sys
from npumond.model import DriverFacts
from npumond.worker.protocol import WorkerOptions
from npumond.worker.subscriber import Subscriber
async def opened():
    return DriverFacts(backend="dcmi", api="v1", library=sys.argv[1])
ignore = lambda *_: None
subscriber = Subscriber(
    WorkerOptions(backend="dcmi", dcmi_library=sys.argv[1]), os.environ, wanted=True, opened=opened,
    on_fault=ignore, on_gap=ignore, on_change=lambda event, fields: print(event, flush=True),
)
asyncio.run(subscriber.run())
"""


@pytest.mark.slow
def test_a_listener_ends_with_its_parent(lab: Lab) -> None:
    """Even one that was killed and could not say goodbye."""
    lab.scenario.write(lab.path)
    environ = os.environ | {"NPUMOND_STANDIN_SCENARIO": str(lab.path)}
    command = [sys.executable, "-c", PARENT, lab.library]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "events_subscribed\n"
        (child,) = listeners(parent.pid)
        parent.send_signal(signal.SIGKILL)
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


# ---- the queue and the frames ----

RECORD = struct.pack("<i4xIH6B2i4xQ256s64x", 0, 0x80E01801, 5, 0, 0, 0, 0, 2, 1, 9, 10, 0, b"name")


def test_more_events_than_there_is_room_for_are_counted_and_told() -> None:
    """The library's thread never waits for a daemon that does not read."""
    outbox = Outbox(room=2)
    for _ in range(5):
        outbox.put(RECORD)
    event, missed = outbox.take()
    assert isinstance(event, FaultRaised)
    assert (event.notify_serial, event.event_serial, missed) == (10, 9, Missed(3, 0))
    assert len(outbox.take()) == 1


def test_a_record_that_is_no_fault_is_counted_and_told() -> None:
    outbox = Outbox()
    outbox.put(b"\xff" * EVENT_BYTES)
    assert outbox.take() == [Missed(0, 1)]


@given(st.lists(st.integers(1, 40), min_size=1))
def test_frames_arrive_however_the_stream_is_cut(cuts: list[int]) -> None:
    sent: list[Message] = [Subscribed("libdcmi.so", "v1"), Missed(1, 2)]
    stream = b"".join(encode(message) for message in sent)
    stream_reader = reader()
    got: list[Message] = []
    for cut in [*cuts, len(stream)]:
        got += stream_reader.feed(stream[:cut])
        stream = stream[cut:]
    assert got == sent


@given(st.binary(max_size=200))
@example(b"\xff\xff\xff\xff")
@example(b"\0\0\0\x01\xc0")
def test_garbage_on_the_socket_is_an_error_of_ours(data: bytes) -> None:
    with suppress(WorkerError):
        list(reader().feed(data))


def test_a_code_that_is_none_is_no_message() -> None:
    """It becomes a label."""
    good = encode(FaultRaised(0.0, "80E01801", 3, "major", "raised", 1, 1, "", None))  # type: ignore[arg-type]
    assert list(reader().feed(good))
    with pytest.raises(WorkerError):
        list(reader().feed(good.replace(b"80E01801", b'80E0"}1\n')))


# ---- the record ----


@given(st.binary(min_size=EVENT_BYTES, max_size=EVENT_BYTES))
@example(bytes(EVENT_BYTES))
@example(RECORD)
def test_any_360_bytes_are_an_event_or_refused(data: bytes) -> None:
    """What is taken is fit for labels and messages."""
    for record in (data, bytes(4) + data[4:18] + bytes([data[18] % 4, data[19] % 3]) + data[20:]):
        try:
            event = read_event(record)
        except ValueError:
            continue
        assert f"{int(event.code, 16):08X}" == event.code != "00000000"
        assert 0 <= event.logic_id < 1 << 16
        assert event.severity in ("notice", "minor", "major", "critical", "unknown")
        assert event.assertion in ("recovered", "raised", "one_shot")
        assert event.name.isprintable()
        assert len(event.name) <= LONGEST
        assert event.raised_at is None or 946_684_800 <= event.raised_at < 10**11


@pytest.mark.parametrize("record", [b"", RECORD[:100], b"\x01" + RECORD[1:], RECORD[:8] + bytes(4) + RECORD[12:]])
def test_what_is_no_fault_event_is_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match="event"):
        read_event(record)


def test_the_filter_is_laid_out_as_the_vendor_s() -> None:
    """It goes by value."""
    offsets = {name: getattr(dcmi_event_filter, name).offset for name, _ in dcmi_event_filter._fields_}
    assert offsets == {"filter_flag": 0, "event_id": 8, "severity": 12, "node_type": 13, "resv": 14}
    assert ctypes.sizeof(dcmi_event_filter) == 48
    assert len(RECORD) == EVENT_BYTES


def test_the_daemon_s_side_does_not_open_the_door_to_the_driver() -> None:
    """Only worker processes load ctypes bindings."""
    code = (
        "import sys, npumond.worker.subscriber, npumond.sources.faultbook; "
        "sys.exit(any(name.startswith('npumond.drivers') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=30)
