"""The service manager's watchdog is fed by rounds of the chips' source alone."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from npumond.latest import Latest
from npumond.model import Snapshot, SourceState
from npumond.sinks.systemd import Notifier, ServiceManager


def snapshot(**ended_at: float) -> Snapshot:
    """A snapshot in which these sources finished their last rounds at these times."""
    sources = tuple(
        SourceState(source=name, group="fast", success=True, duration_s=0.1, ended_at=at, last_success_at=at)
        for name, at in ended_at.items()
    )
    return Snapshot(at=0.0, wall_at=0.0, families={}, sources=sources)


async def test_a_source_that_goes_on_beside_a_vital_one_that_stopped_is_no_sign_of_life(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "4"}
        snapshots: Latest[Snapshot] = Latest()
        task = asyncio.create_task(ServiceManager(Notifier(environ), snapshots, str, "npu").run())

        async def fed(seen: Snapshot) -> bool:
            snapshots.set(seen)
            for _ in range(5):
                await asyncio.sleep(0)
            try:
                return manager.recv(100) == b"WATCHDOG=1"
            except BlockingIOError:
                return False

        answers = [
            await fed(snapshot(npu=1.0, self=1.0)),
            await fed(snapshot(npu=1.0, self=2.0)),
            await fed(snapshot(npu=3.0, self=2.0)),
        ]
        task.cancel()
    assert answers == [True, False, True]


async def test_without_a_manager_nothing_is_followed() -> None:
    await asyncio.wait_for(ServiceManager(Notifier({}), Latest(), str, "npu").run(), 1)
