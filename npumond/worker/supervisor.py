"""Keeps a worker process running, replaces one that is sick, and knows why there is none when there is none.

`run` is one task of the daemon. A worker that ends is followed by another after a pause that doubles. A worker that
still serves but is sick (a call hangs, it is silent, chips are missing) is replaced make-before-break: the successor
has to initialise, which can take seconds and can hang itself, and to finish a round that loses no chip, before it takes
over and the old one is ended. `dcmi_init` is a snapshot of the cards: chips that came late or back are the same case.

A machine without an NPU library is followed up too: a new worker looks again, so that a driver installed under a
running daemon is found.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from npumond.errors import DriverError, WorkerError
from npumond.model import DeviceRound, DriverFacts, PhyId
from npumond.pause import Pause
from npumond.worker.client import WorkerProcess
from npumond.worker.process import INIT_DEADLINE_S, how_it_ended
from npumond.worker.protocol import Busy, WorkerOptions
from npumond.worker.remedy import FIRST_PAUSE_S, LAST_PAUSE_S, LAST_QUARANTINE_S, Quarantine, successor_is_better

NO_WORKER_LAST_PAUSE_S = 60.0
LONG_LIFE_S = 30.0
"""A worker that lived so long is followed by another at once, however often that happens."""

TICK_S = 0.5
SILENCE_S = 10.0
"""A worker that says nothing for so long, not even that it is alive, is stopped or starved."""

MISSING_FOR_S = 10.0
"""How long chips have to be missing before a new worker looks for them: a reset takes some seconds."""

MISSING_LAST_PAUSE_S = 60.0

DRAIN_S = 5.0
"""How long a worker that was replaced may finish the rounds that somebody waits for."""

REDISCOVER_S = 300.0
"""How often a new worker looks for cards that were added while all others are well."""

MOST_LEFT_BEHIND = 2
"""Workers that cannot be killed, each holding what it holds; with so many no successor is started."""

OnChange = Callable[[str, dict[str, object]], None]
"""Told of each change of state: an event name and its fields."""


class Supervisor:
    """The worker that is running now, or the reason why none is."""

    def __init__(
        self, options: WorkerOptions, environ: Mapping[str, str], on_change: OnChange, call_timeout_s: float = 5.0
    ) -> None:
        self._options = options
        self._environ = environ
        self._on_change = on_change
        self._call_timeout_s = call_timeout_s
        self._started = asyncio.Event()
        self._settled = asyncio.Event()
        self._quarantine = Quarantine()
        self._remedies = {
            "hang": Pause(FIRST_PAUSE_S, LAST_QUARANTINE_S),
            "silent": Pause(FIRST_PAUSE_S, LAST_PAUSE_S),
            "missing": Pause(MISSING_FOR_S, MISSING_LAST_PAUSE_S),
        }
        self._rediscover = Pause(REDISCOVER_S, REDISCOVER_S)
        self._left_behind: list[WorkerProcess] = []
        self._missing_since: float | None = None
        self._up: frozenset[PhyId] = frozenset()
        self._known: set[PhyId] = set()
        self.worker: WorkerProcess | None = None
        self.facts: DriverFacts | None = None
        """Of the running worker, or of the last one that opened a driver."""
        self.trouble = "the worker has not started yet"
        """Why there is no worker; empty while there is one."""
        self.searched: tuple[str, ...] = ()
        self.restarts: Counter[str] = Counter()
        """Workers that were replaced, by reason: crashed, exited, hang, silent, missing, rediscover."""

    @property
    def left_behind(self) -> int:
        """Workers that were killed and are still there."""
        return len(self._left_behind)

    @property
    def expected(self) -> int:
        """Chips that the card list promises, or that were there before, whichever are more."""
        return max(self.facts.expected if self.facts is not None else 0, len(self._known))

    async def available(self, patience_s: float) -> WorkerProcess | None:
        """The running worker; waits for one to open its driver for at most ``patience_s``."""
        try:
            async with asyncio.timeout(patience_s):
                await self._started.wait()
        except TimeoutError:
            return None
        return self.worker

    async def opened(self) -> DriverFacts:
        """Wait until a worker that has opened its driver is in charge, and give what it found."""
        while True:
            await self._started.wait()
            if self.facts is not None:
                return self.facts

    async def settled(self) -> None:
        """Wait until the first worker has opened its driver, or has said that it cannot."""
        await self._settled.wait()

    def note_up(self, up: frozenset[PhyId]) -> None:
        """Which chips answer now; chips that are missing for a while are a reason to look with a new worker."""
        if len(up) >= self.expected:
            self._missing_since = None
            self._remedies["missing"].reset()
        elif self._missing_since is None:
            self._missing_since = asyncio.get_running_loop().time()
        self._up = up

    async def run(self) -> None:
        """Start workers, one after another, until cancelled; the last one is ended then."""
        pause = Pause(FIRST_PAUSE_S, NO_WORKER_LAST_PAUSE_S)
        loop = asyncio.get_running_loop()
        while True:
            opened_at = loop.time()
            if await self._first() and loop.time() - opened_at > LONG_LIFE_S:
                pause.reset()
            length_s = pause.begin(loop.time())
            await asyncio.sleep(length_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret

    # One worker after another.

    async def _first(self) -> bool:
        """Start a worker where there is none and tend it to its end; returns whether its driver opened."""
        worker = await self._start()
        if worker is None:
            return False
        try:
            self._take_over(worker, await worker.facts(INIT_DEADLINE_S))
            worker = None  # from here on it is self.worker, which may be another one in the end
            await self._tend()
        except DriverError as error:
            self._no_driver(error)
            return False
        except WorkerError as error:
            self._lost(str(error), None if worker is None else await worker.exit_status())
            return False
        finally:
            self._started.clear()
            current, self.worker = worker or self.worker, None
            if current is not None:
                await self._end(current)
        return True

    async def _start(self) -> WorkerProcess | None:
        now = asyncio.get_running_loop().time()
        options = replace(self._options, quarantine=self._quarantine.active(now))
        try:
            return await WorkerProcess.start(options, self._environ, self._on_output)
        except OSError as error:  # no memory, no descriptors, no processes left: all may pass
            self._lost(f"a worker could not be started: {error}", None)
            return None

    async def _tend(self) -> None:
        """Until the worker that is in charge ends; one that is sick is replaced meanwhile."""
        loop = asyncio.get_running_loop()
        while (worker := self.worker) is not None:
            woken_at = loop.time()
            ended = await worker.ended_within(TICK_S)
            if ended is not None:
                self._lost(ended, await worker.exit_status())
                return
            if loop.time() - woken_at > 2 * TICK_S:
                continue  # we were suspended ourselves: what looks old was only not read yet
            reason, hung = self._sick(worker, loop.time())
            if reason:
                await self._replace(worker, reason, hung)

    def _sick(self, worker: WorkerProcess, now: float) -> tuple[str, tuple[Busy, ...]]:
        """Why this worker should be replaced now, if it should; and the calls that hang, if that is why."""
        if len(self._still_left_behind()) >= MOST_LEFT_BEHIND:
            return "", ()
        hung = tuple(call for call in worker.busy if call.lane != "tool" and call.for_s > self._call_timeout_s)
        if not hung and not self._quarantine.active(now):
            self._remedies["hang"].reset()
        curable = self._quarantine.curable(hung, now)
        missing_s = 0.0 if self._missing_since is None or hung else now - self._missing_since
        reasons = {
            "hang": bool(curable),
            "silent": now - worker.heard_at > SILENCE_S,
            "missing": missing_s > MISSING_FOR_S,
        }
        for reason, holds in reasons.items():
            if holds and self._remedies[reason].over(now):
                return reason, curable
        return ("rediscover", ()) if not hung and self._rediscover.over(now) else ("", ())

    async def _replace(self, old: WorkerProcess, reason: str, hung: tuple[Busy, ...]) -> None:
        """Make before break: a successor that is ready takes over; one that is not is ended and tried again later."""
        loop = asyncio.get_running_loop()
        self._rediscover.begin(loop.time())
        if reason in self._remedies:
            self._remedies[reason].begin(loop.time())
        self._quarantine.strike(hung, loop.time())
        new = await self._start()
        if new is None:
            return
        try:
            facts = await new.facts(INIT_DEADLINE_S)
            rounds = await new.round("fast", tuple(d.phy_id for d in facts.devices), self._call_timeout_s)
        except (DriverError, WorkerError) as error:
            self._on_change("replacement_failed", {"reason": reason, "error": str(error)})
            await self._end(new)
            return
        except BaseException:
            await self._end(new)
            raise
        if not successor_is_better(_answering(rounds), self._up):
            self._on_change("replacement_failed", {"reason": reason, "error": "it reads fewer chips"})
            await self._end(new)
            return
        calls = [f"{call.call} on device {call.phy_id}" for call in hung]
        self._on_change("worker_replaced", {"reason": reason, "calls": calls, "devices": len(facts.devices)})
        self.restarts[reason] += 1
        self._take_over(new, facts)
        await old.quiet(DRAIN_S)
        await self._end(old)

    def _take_over(self, worker: WorkerProcess, facts: DriverFacts) -> None:
        changed = facts != self.facts
        self.worker, self.facts, self.trouble, self.searched = worker, facts, "", facts.searched
        self._known |= {device.phy_id for device in facts.devices}
        self._rediscover.begin(asyncio.get_running_loop().time())
        self._started.set()
        self._settled.set()
        if changed:
            self._on_change(
                "driver_open",
                {"backend": facts.backend, "api": facts.api, "library": facts.library, "devices": len(facts.devices),
                 "failed": [f"{chip.position}: {chip.reason}" for chip in facts.failed]},
            )  # fmt: skip

    async def _end(self, worker: WorkerProcess) -> None:
        if not await worker.stop():
            self._left_behind.append(worker)
            self._on_change("worker_unkillable", {"pid": worker.pid})

    def _still_left_behind(self) -> list[WorkerProcess]:
        self._left_behind = [worker for worker in self._left_behind if not worker.has_ended]
        return self._left_behind

    def _no_driver(self, error: DriverError) -> None:
        changed = self.trouble != str(error)
        self.trouble, self.searched = str(error), error.searched
        self._settled.set()
        if changed:
            self._on_change("no_driver", {"reason": self.trouble, "searched": list(self.searched)})

    def _lost(self, reason: str, status: int | None) -> None:
        self.trouble = f"{reason}{how_it_ended(status)}"
        self._settled.set()
        self.restarts["crashed" if status is not None and status < 0 else "exited"] += 1
        self._on_change("worker_lost", {"reason": self.trouble})

    def _on_output(self, line: str) -> None:
        self._on_change("worker_output", {"line": line})


def _answering(rounds: list[DeviceRound]) -> frozenset[PhyId]:
    return frozenset(done.phy_id for done in rounds if any(outcome.kind == "ok" for outcome in done.outcomes))
