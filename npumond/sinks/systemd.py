"""Tells the service manager how we are: ready, status, alive, reloading, stopping (sd_notify, a datagram).

Alive means progress and not a timer: WATCHDOG=1 is sent only when the source of the chips has finished a round since
the last one. A daemon whose loop turns, and whose other sources go on, is restarted when its sampling has stopped.

READY=1 is sent at the first snapshot that says something of the driver: its chips, or that there is none. A node with
no driver starts, therefore, and one whose driver takes long to initialise is not taken for failed while it does.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Mapping

from npumond.latest import Latest
from npumond.model import Snapshot

STATUS_EVERY_S = 5.0
"""How often the status line may change."""


class Notifier:
    """Sends states to ``$NOTIFY_SOCKET``; does nothing where there is none."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self.wanted = bool(name)
        """Whether there is a manager that listens."""
        self.watchdog_s = _watchdog_s(environ) if self._address else None
        """Seconds within which the manager wants a sign of life; None where it wants none."""
        self.failures = 0
        """States that could not be sent; the manager was away or slow, which is its own affair."""

    def send(self, *states: str) -> None:
        """Send these states in one datagram. Never waits and never raises."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
                manager.sendto("\n".join(states).encode(), self._address)
        except OSError:
            self.failures += 1


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdigit() and int(microseconds) else None


class ServiceManager:
    """Follows the snapshots and tells the manager what they show."""

    def __init__(
        self, notifier: Notifier, snapshots: Latest[Snapshot], status: Callable[[], str], vital_source: str
    ) -> None:
        """``vital_source`` is the name of the source whose rounds are the sign of life."""
        self._notifier = notifier
        self._snapshots = snapshots
        self._status = status
        self._vital_source = vital_source
        self._ready = False
        self._said, self._said_at = "", -math.inf
        self._alive_at = self._progress_at = -math.inf

    async def run(self) -> None:
        """Until cancelled: one look at each snapshot. Ends at once where no manager listens."""
        if not self._notifier.wanted:
            return
        async for snapshot in self._snapshots:
            now = time.monotonic()
            if not self._ready and (snapshot.devices or snapshot.samples("npu_devices_seen")):
                self._notifier.send("READY=1")
                self._ready = True
            if self._ready and now - self._said_at >= STATUS_EVERY_S:
                self._tell_status(now)
            if self._notifier.watchdog_s is not None and now - self._alive_at >= self._notifier.watchdog_s / 4:
                self._tell_alive(snapshot, now)

    def _tell_status(self, now: float) -> None:
        if (status := self._status()) != self._said:
            self._notifier.send(f"STATUS={status}")
            self._said, self._said_at = status, now

    def _tell_alive(self, snapshot: Snapshot, now: float) -> None:
        progress_at = max(
            (state.ended_at for state in snapshot.sources if state.source == self._vital_source), default=-math.inf
        )
        if progress_at > self._progress_at:
            self._notifier.send("WATCHDOG=1")
            self._alive_at, self._progress_at = now, progress_at

    def reloading(self) -> None:
        """A reload begins."""
        self._notifier.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """A reload is over, well or not: we serve."""
        self._notifier.send("READY=1")

    def stopping(self) -> None:
        """The end has begun."""
        self._notifier.send("STOPPING=1")
