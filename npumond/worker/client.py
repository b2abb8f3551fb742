"""The daemon's side of the worker: ask it for rounds, know what it owes, know when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from npumond.config.settings import Driver
from npumond.errors import DriverError, WorkerError, WorkerGone
from npumond.model import DeviceRound, DriverFacts, Lane, PhyId
from npumond.worker.process import Child
from npumond.worker.protocol import (
    Alive,
    Busy,
    Hello,
    Message,
    OpenFailed,
    Read,
    RoundDone,
    WorkerOptions,
    encode,
    reader,
)


def worker_options(driver: Driver, scenario: str) -> WorkerOptions:
    """What the configuration says of the driver."""
    return WorkerOptions(
        backend=driver.backend,
        dcmi_library=driver.dcmi_library,
        acl_library=driver.acl_library,
        hccn_tool=driver.hccn_tool,
        scenario=scenario,
    )


class WorkerProcess(asyncio.Protocol):
    """One worker process from its start to its end."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self._child = Child(on_output)
        self._frames = reader()
        self._hello: asyncio.Future[DriverFacts] = asyncio.get_running_loop().create_future()
        self._gone = asyncio.get_running_loop().create_future()
        self._transport: asyncio.WriteTransport | None = None
        self._outstanding: dict[tuple[PhyId, Lane], float] = {}
        self._arrived: dict[Lane, list[DeviceRound]] = {}
        self._progress = asyncio.Event()
        self._waiting = 0
        self.busy: tuple[Busy, ...] = ()
        """Calls that were taking long when the worker last said so."""
        self.heard_at = asyncio.get_running_loop().time()
        """Loop time of the last word from the worker, whatever it was."""

    @classmethod
    async def start(
        cls, options: WorkerOptions, environ: Mapping[str, str], on_output: Callable[[str], None]
    ) -> WorkerProcess:
        """Start a process; it greets when its driver is open (see `facts`). Raises OSError when there is no room."""
        worker = cls(on_output)
        try:
            await worker._child.start("npumond.worker", options, environ, worker)
        except BaseException:
            await worker.stop()
            raise
        return worker

    @property
    def pid(self) -> int | None:
        """Process id, None before the start."""
        return self._child.pid

    async def facts(self, deadline_s: float) -> DriverFacts:
        """What the driver found. Raises `DriverError` when none opened, `WorkerGone`, `WorkerError` at the deadline."""
        try:
            async with asyncio.timeout(deadline_s):
                return await asyncio.shield(self._hello)
        except TimeoutError:
            raise WorkerError(f"the driver did not finish its initialisation within {deadline_s:g} s") from None

    async def ended_within(self, patience_s: float) -> str | None:
        """Wait for the worker's end for so long; says how it ended, None while it has not."""
        await asyncio.wait({self._gone}, timeout=patience_s)
        return str(self._gone.result()) if self._gone.done() else None

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone for good."""
        return self._child.has_ended

    async def exit_status(self) -> int | None:
        """As `Child.exit_status`."""
        return await self._child.exit_status()

    def outstanding_since(self, phy_id: PhyId, lane: Lane) -> float | None:
        """Loop time since which this lane of this device owes an answer; None when it owes none."""
        return self._outstanding.get((phy_id, lane))

    async def round(self, lane: Lane, phy_ids: Sequence[PhyId], patience_s: float) -> list[DeviceRound]:
        """Ask each device that owes no answer for a round of this lane, and wait for them for ``patience_s``.

        Returns what has arrived in this lane since the last call, late answers to earlier rounds included; a device
        that did not answer is simply not in it. Raises `WorkerGone` when the worker is no more.
        """
        if self._transport is None or self._gone.done():
            raise WorkerGone(self._farewell())
        loop = asyncio.get_running_loop()
        free = tuple(phy_id for phy_id in phy_ids if (phy_id, lane) not in self._outstanding)
        for phy_id in free:
            self._outstanding[phy_id, lane] = loop.time()
        if free:
            self._transport.write(encode(Read(lane, free)))
        self._waiting += 1
        try:
            async with asyncio.timeout(patience_s):
                await self._all_in(lane, free)
        except TimeoutError:
            pass  # whoever did not answer is not in the result, which is what the caller looks at
        finally:
            self._waiting -= 1
            self._progress.set()
        return self._arrived.pop(lane, [])

    async def quiet(self, patience_s: float) -> None:
        """Wait until nobody waits for a round any more, or for ``patience_s``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._waiting:
                    self._progress.clear()
                    await self._progress.wait()

    async def stop(self) -> bool:
        """As `Child.stop`."""
        return await self._child.stop()

    async def _all_in(self, lane: Lane, phy_ids: Sequence[PhyId]) -> None:
        while any((phy_id, lane) in self._outstanding for phy_id in phy_ids):
            if self._gone.done():
                raise WorkerGone(self._farewell())
            self._progress.clear()
            await self._progress.wait()

    def _farewell(self) -> str:
        return str(self._gone.result()) if self._gone.done() else "the worker has not started"

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's socket transports are not registered as WriteTransport, though they are it.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        try:
            for message in self._frames.feed(data):
                self._receive(message)
        except WorkerError as error:
            self._end(str(error))
        self._progress.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("the worker closed its socket" if exc is None else f"the worker's socket broke: {exc}")

    def _receive(self, message: Message) -> None:
        match message:
            case RoundDone(done):
                self._outstanding.pop((done.phy_id, done.lane), None)
                self._arrived.setdefault(done.lane, []).append(done)
            case Alive(busy):
                self.busy = busy
            case Hello(facts) if not self._hello.done():
                self._hello.set_result(facts)
            case OpenFailed(text, code, searched) if not self._hello.done():
                self._fail_hello(DriverError(text, code, searched))
            case _:
                raise WorkerError(f"the worker said {type(message).__name__} out of turn")

    def _end(self, reason: str) -> None:
        if not self._gone.done():
            self._gone.set_result(reason)
        if not self._hello.done():
            self._fail_hello(WorkerGone(reason))
        if self._transport is not None:
            self._transport.close()
        self._progress.set()

    def _fail_hello(self, error: Exception) -> None:
        self._hello.set_exception(error)
        self._hello.exception()  # marks it as seen: nobody may be waiting when a worker is stopped early
