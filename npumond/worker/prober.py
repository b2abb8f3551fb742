"""The daemon's side of the round-trip probe: start the process, read its one line, end it at the deadline.

Why the loop's own `subprocess_exec` and not `asyncio.create_subprocess_exec`: its transport can be closed. A probe that
hangs in the kernel cannot be killed; closing the transport gives back our ends of its pipes all the same, and nothing
ever waits for a process or for a pipe without a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from npumond.model import Device, PhyId
from npumond.worker.process import signal_name

KILL_WAIT_S: Final = 2.0
"""How long a killed probe is waited for."""

MAX_OUTPUT: Final = 1 << 20
"""Bytes kept of each stream; the rest is read and dropped."""

STEP_MARK: Final = "npumond probe: "
"""How the probe begins the line that names its step; the same as in `npumond.worker.probe`."""

Seconds = Annotated[float, Meta(ge=0)]


class ProbeResult(Struct, frozen=True, kw_only=True):
    """What one run of the probe gave for one chip."""

    phy_id: PhyId
    kind: Literal["ok", "timeout", "error"]
    """``timeout``: a copy was not done in time, or the process did not end in time. ``error``: anything else."""
    roundtrips_s: tuple[Seconds, ...] = ()
    """Round trips in order, without the warm-up; those before the failure when there was one."""
    set_device_s: Seconds | None = None
    """How long opening the context took; seconds are normal."""
    memory_free: int | None = None
    """Bytes of HBM that the chip's allocator has left, with the probe's own context in place."""
    memory_total: int | None = None
    error: int | None = None
    """The vendor's code, where one of its calls failed."""
    detail: str = ""


async def roundtrip(device: Device, *, library: str | None, count: int, deadline_s: float) -> ProbeResult:
    """Run the probe on one chip. Never raises for what chip or library do; is over soon after the deadline.

    It opens a context for as long as it runs: see `npumond.worker.probe` for what that costs.
    """
    with tempfile.TemporaryDirectory(prefix="npumond-probe-", ignore_cleanup_errors=True) as log_folder:
        child = _Child()
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: child,
            *_command(device, library, count, log_folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # a group of its own: Ctrl-C at the terminal is for the daemon
        )
        try:
            await asyncio.wait({child.ended}, timeout=deadline_s)
            status = transport.get_returncode()
        finally:
            await _end(transport, child)
    return _result(device.phy_id, child, status, deadline_s)


def _command(device: Device, library: str | None, count: int, log_folder: str) -> tuple[str, ...]:
    return (
        sys.executable, "-m", "npumond.worker.probe",
        "--device", str(device.logic_id),  # what ACL calls a user id: the same, as the probe sees every device
        "--phy-id", str(device.phy_id),
        "--count", str(count),
        "--log-folder", log_folder,
        "--parent", str(os.getpid()),
        *(("--library", library) if library else ()),
    )  # fmt: skip


class _Child(asyncio.SubprocessProtocol):
    """Drains a child's pipes and knows when it has ended."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        """Done when the process is no more."""
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when, moreover, all it wrote has been read."""
        self._output = {1: bytearray(), 2: bytearray()}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self._output[fd]
        kept += data[: MAX_OUTPUT - len(kept)]

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def answer(self) -> bytes:
        """The line that the probe wrote; empty when it wrote none to its end."""
        line, newline, _ = bytes(self._output[1]).partition(b"\n")
        return line if newline else b""

    @property
    def errors(self) -> list[str]:
        """What the probe and the libraries printed, by lines."""
        lines = self._output[2].decode("utf-8", "replace").splitlines()
        return [line.strip()[:500] for line in lines if line.strip()]

    @property
    def step(self) -> str:
        """The step that the probe began last."""
        steps = (line.removeprefix(STEP_MARK) for line in reversed(self.errors) if line.startswith(STEP_MARK))
        return next(steps, "its start")


async def _end(transport: asyncio.SubprocessTransport, child: _Child) -> None:
    if transport.get_returncode() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
    await asyncio.wait({child.exited}, timeout=KILL_WAIT_S)
    transport.close()


def _result(phy_id: PhyId, child: _Child, status: int | None, deadline_s: float) -> ProbeResult:
    """What came of it. An answer counts even when the process was slow to leave after it."""
    if child.answer:
        return _read(phy_id, child.answer)
    if status is None:
        left = "" if child.exited.done() else "; it could not be killed and was left behind"
        detail = f"no answer within {deadline_s:g} s, in {child.step}{left}"
        return ProbeResult(phy_id=phy_id, kind="timeout", detail=detail)
    words = [line for line in child.errors if not line.startswith(STEP_MARK)]
    said = f": {words[-1]}" if words else ""
    return ProbeResult(phy_id=phy_id, kind="error", detail=f"the probe {_how_it_ended(status)} in {child.step}{said}")


def _read(phy_id: PhyId, answer: bytes) -> ProbeResult:
    try:
        result = msgspec.json.decode(answer, type=ProbeResult)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return ProbeResult(phy_id=phy_id, kind="error", detail=f"the probe's answer cannot be read: {error}")
    if result.phy_id != phy_id:
        detail = f"the probe answered for chip {result.phy_id}"
        return ProbeResult(phy_id=phy_id, kind="error", detail=detail)
    return result


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by {signal_name(-status)}"
