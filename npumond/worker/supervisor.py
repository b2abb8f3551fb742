"""Keeps one worker process running, and knows why there is none when there is none.

`run` is one task of the daemon. A worker that ends is replaced after a pause that doubles up to a minute; one that
lived long starts the pauses anew. A machine without an NPU library is the same case: a new worker looks again, so that
a driver installed under a running daemon is found.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping

from npumond.errors import DriverError, WorkerError
from npumond.model import DriverFacts
from npumond.worker.client import WorkerProcess
from npumond.worker.protocol import WorkerOptions

INIT_DEADLINE_S = 90.0
"""dcmi_init asks every chip and may wait 60 s for one that does not answer."""

FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 60.0
LONG_LIFE_S = 120.0

OnChange = Callable[[str, dict[str, object]], None]
"""Told of each change of state: an event name and its fields."""


class Supervisor:
    """The worker that is running now, or the reason why none is."""

    def __init__(self, options: WorkerOptions, environ: Mapping[str, str], on_change: OnChange) -> None:
        self._options = options
        self._environ = environ
        self._on_change = on_change
        self._started = asyncio.Event()
        self._settled = asyncio.Event()
        self.worker: WorkerProcess | None = None
        self.facts: DriverFacts | None = None
        """Of the running worker, or of the last one that opened a driver."""
        self.trouble = "the worker has not started yet"
        """Why there is no worker; empty while there is one."""
        self.searched: tuple[str, ...] = ()
        self.restarts: Counter[str] = Counter()
        """Ends of workers by reason: crashed, exited, init_timeout, protocol."""

    async def available(self, patience_s: float) -> WorkerProcess | None:
        """The running worker; waits for one to open its driver for at most ``patience_s``."""
        try:
            async with asyncio.timeout(patience_s):
                await self._started.wait()
        except TimeoutError:
            return None
        return self.worker

    async def settled(self) -> None:
        """Wait until the first worker has opened its driver, or has said that it cannot."""
        await self._settled.wait()

    async def run(self) -> None:
        """Start workers, one after another, until cancelled; the last one is ended then."""
        pause_s = FIRST_PAUSE_S
        while True:
            lived_s = await self._one_life()
            pause_s = FIRST_PAUSE_S if lived_s > LONG_LIFE_S else pause_s
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
            pause_s = min(2 * pause_s, LAST_PAUSE_S)

    async def _one_life(self) -> float:
        """One worker from start to end; returns how long its driver was open, in seconds."""
        try:
            worker = await WorkerProcess.start(self._options, self._environ, self._on_output)
        except OSError as error:  # no memory, no descriptors, no processes left: all may pass
            self._lost(f"a worker could not be started: {error}", None)
            return 0.0
        loop = asyncio.get_running_loop()
        opened_at = loop.time()
        try:
            self._opened(worker, await worker.facts(INIT_DEADLINE_S))
            opened_at = loop.time()
            self._lost(await worker.ended(), await worker.exit_status())
        except DriverError as error:
            self._no_driver(error)
        except WorkerError as error:
            self._lost(str(error), await worker.exit_status())
        finally:
            self._started.clear()
            self.worker = None
            if not await worker.stop():
                self._on_change("worker_unkillable", {"pid": worker.pid})
        return loop.time() - opened_at

    def _opened(self, worker: WorkerProcess, facts: DriverFacts) -> None:
        self.worker, self.facts, self.trouble, self.searched = worker, facts, "", facts.searched
        self._started.set()
        self._settled.set()
        self._on_change(
            "driver_open",
            {"backend": facts.backend, "api": facts.api, "library": facts.library, "devices": len(facts.devices),
             "failed": [f"{chip.position}: {chip.reason}" for chip in facts.failed]},
        )  # fmt: skip

    def _no_driver(self, error: DriverError) -> None:
        changed = self.trouble != str(error)
        self.trouble, self.searched = str(error), error.searched
        self._settled.set()
        if changed:
            self._on_change("no_driver", {"reason": self.trouble, "searched": list(self.searched)})

    def _lost(self, reason: str, status: int | None) -> None:
        self.trouble = f"{reason}{_explain(status)}"
        self._settled.set()
        self.restarts["crashed" if status is not None and status < 0 else "exited"] += 1
        self._on_change("worker_lost", {"reason": self.trouble})

    def _on_output(self, line: str) -> None:
        self._on_change("worker_output", {"line": line})


def _explain(status: int | None) -> str:
    if status is None:
        return ""
    if status < 0:
        return f"; it was ended by {signal.Signals(-status).name}"
    return f"; its exit status was {status}"
