"""A child process that holds the vendor's libraries: started by exec, spoken to by a socket, drained, ended in time.

Why exec and not multiprocessing: the libraries must never see a fork after init, print on standard output, and may
leave a process that cannot be killed. A plain child with its own socket has none of multiprocessing's helper processes,
semaphores and at-exit waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from time import monotonic

import msgspec
from msgspec.structs import replace

from npumond.worker.output import Output
from npumond.worker.protocol import WorkerOptions

INIT_DEADLINE_S = 90.0
"""dcmi_init asks every chip and may wait 60 s for one that does not answer."""

KILL_WAIT_S = 2.0
"""How long a killed process is waited for. One in uninterruptible sleep does not die; it is left behind."""


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The child's environment: ours, without what would bend device numbers or make the libraries chatty.

    ASCEND_RT_VISIBLE_DEVICES renumbers ACL's devices and is documented as not usable together with DCMI.
    """
    kept = {name: value for name, value in environ.items() if name != "ASCEND_RT_VISIBLE_DEVICES"}
    kept["ASCEND_SLOG_PRINT_TO_STDOUT"] = "0"
    kept.setdefault("MALLOC_ARENA_MAX", "1")  # else glibc keeps an arena for each of the lanes' threads
    return kept


class Child:
    """One process from its start to its end; what it says over its socket is its protocol's affair."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self._on_output = on_output
        self._output = Output()
        self._process: asyncio.subprocess.Process | None = None
        self._transport: asyncio.BaseTransport | None = None
        self._draining: list[asyncio.Task[None]] = []

    async def start(
        self, module: str, options: WorkerOptions, environ: Mapping[str, str], protocol: asyncio.Protocol
    ) -> None:
        """Run ``python -m module FD OPTIONS``; raises OSError when the machine has no room for another process.

        `stop` is due whatever happens: the process may be there when its socket could not be had.
        """
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, str(theirs.fileno()),
                msgspec.json.encode(replace(options, parent=os.getpid())).decode(),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=child_environment(environ),
                start_new_session=True,  # Ctrl-C at the terminal is for the daemon, which then ends its children
            )  # fmt: skip
            self._drain_output(self._process)
            loop = asyncio.get_running_loop()
            self._transport, _ = await loop.create_connection(lambda: protocol, sock=ours)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int | None:
        """Process id, None before the start."""
        return self._process.pid if self._process is not None else None

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone for good."""
        return self._process is None or self._process.returncode is not None

    async def exit_status(self) -> int | None:
        """Exit status of a process that ended, negative for a signal; None when it is still there after a moment."""
        if self._process is None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_WAIT_S):
                await self._process.wait()
        return self._process.returncode

    async def stop(self) -> bool:
        """End the process; returns whether it is gone. Never waits longer than `KILL_WAIT_S`."""
        if self._transport is not None:
            self._transport.close()
        if self._process is None:
            return True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            return await self.exit_status() is not None
        finally:
            for task in self._draining:
                task.cancel()

    def _drain_output(self, process: asyncio.subprocess.Process) -> None:
        self._draining = [
            asyncio.create_task(self._drain(stream), name=f"output-{process.pid}")
            for stream in (process.stdout, process.stderr)
            if stream is not None
        ]

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(1 << 16):
            for line in self._output.lines(chunk, monotonic()):
                self._on_output(line)


def how_it_ended(status: int | None) -> str:
    """The end of a sentence about a process that is gone; empty while its exit status is not known."""
    if status is None:
        return ""
    if status < 0:
        return f"; it was ended by {signal_name(-status)}"
    return f"; its exit status was {status}"


def signal_name(number: int) -> str:
    """``SIGSEGV``; ``signal 40`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
