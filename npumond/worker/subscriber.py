"""The daemon's side of fault events: keeps the process that listens running, and knows why there is none.

`run` is one task of the daemon. Unlike a worker the listener owes no answers, so there is nothing to replace it for:
it is started again when it ends, after a pause that doubles. Two refusals last and are asked again slowly: no place
left among the host's subscribers (or a device that another container has), and a chip or driver without events.

Without events the daemon misses little, as the codes that are active are polled too; they only come later.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from npumond.errors import DriverError, WorkerError
from npumond.model import DriverFacts
from npumond.pause import Pause
from npumond.worker.event_protocol import FaultRaised, Message, Missed, Subscribed, SubscribeFailed, reader
from npumond.worker.process import INIT_DEADLINE_S, Child, how_it_ended
from npumond.worker.protocol import WorkerOptions
from npumond.worker.remedy import FIRST_PAUSE_S, LAST_PAUSE_S

REFUSED_PAUSE_S = 600.0
REFUSALS = frozenset({-8020, -8255})
"""RESOURCE_OCCUPIED and NOT_SUPPORT: no quick second try changes them."""
LONG_LIFE_S = 30.0
"""A listener that lived so long is followed by another soon, however often that happens."""

State = Literal["off", "starting", "subscribed", "ending", "waiting"]
OnChange = Callable[[str, dict[str, object]], None]
"""Told of each change of state: an event name and its fields."""


class Subscriber:
    """The listener that is running now, or the reason why none is."""

    def __init__(
        self,
        options: WorkerOptions,
        environ: Mapping[str, str],
        *,
        wanted: bool,
        opened: Callable[[], Awaitable[DriverFacts]],
        on_fault: Callable[[FaultRaised], None],
        on_gap: Callable[[float], None],
        on_change: OnChange,
    ) -> None:
        """Without ``wanted`` there is never a listener; before each start ``opened`` is awaited, which gives the facts
        of the driver once a worker has opened one. ``on_gap`` gets the monotonic time at which a listener that had
        subscribed was lost: from then on until the next one, events are missed."""
        self._options = options
        self._environ = environ
        self._wanted = wanted
        self._opened = opened
        self._on_fault = on_fault
        self._on_gap = on_gap
        self._on_change = on_change
        self._listener: Listener | None = None
        self._left_behind: Listener | None = None
        self._told: tuple[str, str] | None = None
        self._missed_before = Missed(0, 0)
        self.state: State = "starting"
        self.reason = "no driver is open yet"
        """Why there are no events; empty while there are."""
        self.retry_at: float | None = None
        """Monotonic seconds of the next try, while waiting for it."""
        self.starts = 0
        """Listeners that were started; each beyond the first is a restart."""

    @property
    def pid(self) -> int | None:
        """Process id of the listener; None while there is none."""
        return self._listener.pid if self._listener is not None else None

    @property
    def missed(self) -> Missed:
        """Events that were not told since the daemon's start, by all listeners."""
        before, now = self._missed_before, self._listener.missed if self._listener is not None else Missed(0, 0)
        return Missed(before.dropped + now.dropped, before.rejected + now.rejected)

    async def run(self) -> None:
        """Start listeners, one after another, until cancelled; the last one is ended then."""
        if not self._wanted:
            self.state, self.reason = "off", "driver.fault_events is off"
            return
        pause = Pause(FIRST_PAUSE_S, LAST_PAUSE_S)
        while True:
            backend = (await self._opened()).backend
            if backend != "dcmi":
                self.state, self.reason = "off", f"the {backend} driver has no events"
                await asyncio.sleep(REFUSED_PAUSE_S)  # the next worker may find another one
                continue
            started_at = time.monotonic()
            code = await self._one() if self._has_room() else None
            if time.monotonic() - started_at > LONG_LIFE_S:
                pause.reset()
            await self._wait(REFUSED_PAUSE_S if code in REFUSALS else pause.begin(time.monotonic()))

    def _has_room(self) -> bool:
        """Whether another may be started. One that cannot be killed keeps its place at the driver: another would be of
        no use, and there is no room for ever more of them."""
        left_behind = self._left_behind
        if left_behind is None or left_behind.has_ended:
            self._left_behind = None
            return True
        self._say("waiting", f"the listener {left_behind.pid} could not be killed and is still there", "events_lost")
        return False

    async def _wait(self, length_s: float) -> None:
        length_s *= random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret
        self.state, self.retry_at = "waiting", time.monotonic() + length_s
        await asyncio.sleep(length_s)
        self.retry_at = None

    async def _one(self) -> int | None:
        """One listener from its start to its end; returns the vendor's code when it could not subscribe."""
        self.state = "starting"
        self.starts += 1
        try:
            self._listener = Listener(self._on_fault, self._on_output)
            await self._listener.start(self._options, self._environ)
            subscribed = await self._listener.subscribed(INIT_DEADLINE_S)
            self._say("subscribed", "", "events_subscribed", library=subscribed.library, api=subscribed.api)
            try:
                await self._listener.ended()
            finally:
                self._on_gap(time.monotonic())
        except DriverError as error:
            self._say("ending", str(error), "events_unavailable", code=error.code)
            return error.code
        except (WorkerError, OSError) as error:  # no memory, no descriptors, no processes left: all may pass
            self._say("ending", str(error), "events_lost")
        finally:
            await self._end()
        return None

    async def _end(self) -> None:
        listener = self._listener
        if listener is None:
            return
        try:
            if not await listener.stop():
                self._left_behind = listener
                self._on_change("events_unkillable", {"pid": listener.pid})
        finally:
            self._missed_before, self._listener = self.missed, None

    def _say(self, state: State, reason: str, event: str, **fields: object) -> None:
        self.state, self.reason = state, reason
        if self._told != (event, reason):
            self._told = (event, reason)
            self._on_change(event, {**fields, **({"reason": reason} if reason else {})})

    def _on_output(self, line: str) -> None:
        self._on_change("worker_output", {"line": line})


class Listener(asyncio.Protocol):
    """One listening process from its start to its end."""

    def __init__(self, on_fault: Callable[[FaultRaised], None], on_output: Callable[[str], None]) -> None:
        loop = asyncio.get_running_loop()
        self._on_fault = on_fault
        self._child = Child(on_output)
        self._frames = reader()
        self._answer: asyncio.Future[Subscribed | SubscribeFailed] = loop.create_future()
        self._gone: asyncio.Future[str] = loop.create_future()
        self._transport: asyncio.BaseTransport | None = None
        self.missed = Missed(0, 0)
        """What this process said that it could not tell."""

    async def start(self, options: WorkerOptions, environ: Mapping[str, str]) -> None:
        """As `Child.start`."""
        await self._child.start("npumond.worker.events", options, environ, self)

    @property
    def pid(self) -> int | None:
        """Process id, None before the start."""
        return self._child.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone for good."""
        return self._child.has_ended

    async def subscribed(self, deadline_s: float) -> Subscribed:
        """Wait for the subscription. Raises `DriverError` when it was refused, `WorkerError` at the deadline or end."""
        either: set[asyncio.Future[Any]] = {self._answer, self._gone}  # of two types
        await asyncio.wait(either, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if not self._answer.done():
            if self._gone.done():
                await self.ended()
            raise WorkerError(f"the driver did not take the subscription within {deadline_s:g} s")
        answer = self._answer.result()
        if isinstance(answer, SubscribeFailed):
            raise DriverError(answer.message, answer.code)
        return answer

    async def ended(self) -> None:
        """Wait for the process's end, which is raised as `WorkerError`: it has no reason to end."""
        reason = await asyncio.shield(self._gone)
        raise WorkerError(f"{reason}{how_it_ended(await self._child.exit_status())}")

    async def stop(self) -> bool:
        """As `Child.stop`."""
        return await self._child.stop()

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._receive(message)
        except WorkerError as error:
            self._lost(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost("the listener closed its socket" if exc is None else f"the listener's socket broke: {exc}")

    def _receive(self, message: Message) -> None:
        if self._gone.done():
            return
        match message:
            case FaultRaised() if self._answer.done():
                self._on_fault(message)
            case Missed() if self._answer.done():
                self.missed = message
            case Subscribed() | SubscribeFailed() if not self._answer.done():
                self._answer.set_result(message)
            case _:
                raise WorkerError(f"the listener said {type(message).__name__} out of turn")

    def _lost(self, reason: str) -> None:
        if not self._gone.done():
            self._gone.set_result(reason)
        if self._transport is not None:
            self._transport.close()
