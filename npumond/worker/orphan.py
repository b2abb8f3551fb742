"""A process that must not outlive the one that started it, whatever it is blocked in."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def end_with_parent(parent: int | None) -> None:
    """Let the kernel kill this process when its parent ends, and leave if that was before we asked.

    A closed socket would tell as well, but not a process that hangs in a vendor's initialisation.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl.restype, prctl.argtypes = ctypes.c_int, (ctypes.c_int, ctypes.c_ulong)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
