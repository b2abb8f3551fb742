"""Tells the service manager how we are: ready, status, alive, reloading, stopping (sd_notify, a datagram).

Alive means progress and not a timer: WATCHDOG=1 is sent only when a new snapshot has come since the last one, and
snapshots come from finished rounds. A daemon whose loop turns but whose sampling has stopped is restarted.

READY=1 is sent at the first snapshot that says something of the driver: its chips, or that there is none. A node with
no driver starts, therefore, and one whose driver takes long to initialise is not taken for failed while it does.
"""

from __future__ import annotations

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

    def __init__(self, notifier: Notifier, snapshots: Latest[Snapshot], status: Callable[[], str]) -> None:
        self._notifier = notifier
        self._snapshots = snapshots
        self._status = status

    async def run(self) -> None:
        """Until cancelled: one look at each snapshot."""
        ready = False
        said, said_at, alive_at = "", 0.0, 0.0
        async for snapshot in self._snapshots:
            now = time.monotonic()
            if not ready and (snapshot.devices or snapshot.samples("npu_devices_seen")):
                self._notifier.send("READY=1")
                ready = True
            if ready and (status := self._status()) != said and now - said_at >= STATUS_EVERY_S:
                self._notifier.send(f"STATUS={status}")
                said, said_at = status, now
            if self._notifier.watchdog_s is not None and now - alive_at >= self._notifier.watchdog_s / 4:
                self._notifier.send("WATCHDOG=1")
                alive_at = now

    def reloading(self) -> None:
        """A reload begins."""
        self._notifier.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """A reload is over, well or not: we serve."""
        self._notifier.send("READY=1")

    def stopping(self) -> None:
        """The end has begun."""
        self._notifier.send("STOPPING=1")
