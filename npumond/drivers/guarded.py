"""Output buffers that notice when a library writes past them.

A newer driver may fill a larger structure than the one we know. Each buffer therefore lies between two zones of a known
pattern inside one block of memory that is ours: an overrun damages the pattern instead of the heap, and is seen.

Why one arena a thread and not a buffer a call: laying out a buffer is one copy of a prepared template, so nothing is
saved by keeping hundreds of them, and a call that hangs keeps its own thread's memory only.
"""

from __future__ import annotations

from ctypes import sizeof
from functools import cache
from typing import Any, TypeVar

Buffer = TypeVar("Buffer", bound=Any)
"""A ctypes type; ctypes has no public name for what its types have in common."""

BEFORE = b"\xa5" * 256
AFTER = b"\x5a" * 1024
_ALIGNMENT = 16
_CAPACITY = 16 * 1024
"""Twice what the largest call needs (128 process records and a count); what lies behind is slack for wild writes."""


class Arena:
    """The output buffers of one vendor call after another, in one thread."""

    def __init__(self) -> None:
        self._memory = bytearray(_CAPACITY)
        self._taken: list[tuple[int, int, str]] = []
        self._end = 0
        self._spent = False

    def take(self, kind: type[Buffer], room: int = 0) -> Buffer:
        """A zeroed buffer of this ctypes type, with ``room`` bytes at least before the guard begins.

        It is good until the first `take` after `check`.
        """
        if self._spent:
            self._taken.clear()
            self._end = 0
            self._spent = False
        size = max(sizeof(kind), room)
        template = _template(size)
        start = self._end
        end = start + len(template)
        if end > _CAPACITY:
            raise ValueError(f"no room for {size} bytes in a call's buffers")
        self._memory[start:end] = template
        self._taken.append((start + len(BEFORE), size, kind.__name__))
        self._end = end
        buffer: Buffer = kind.from_buffer(self._memory, start + len(BEFORE))
        return buffer

    def check(self) -> str:
        """What was written outside the buffers of this call, in words; empty when nothing was."""
        self._spent = True
        for start, size, name in self._taken:
            end = start + size
            if not self._memory.startswith(AFTER, end):
                return f"wrote {self._reach(end)} bytes beyond the {size} of {name}"
            if not self._memory.startswith(BEFORE, start - len(BEFORE)):
                return f"wrote before the {size} bytes of {name}"
        return ""

    def _reach(self, end: int) -> int:
        """How many bytes behind a buffer are damaged, counted to the last one."""
        zone = self._memory[end : end + len(AFTER)]
        return len(zone.rstrip(AFTER[:1]))


@cache
def _template(size: int) -> bytes:
    body = BEFORE + bytes(size) + AFTER
    return body + bytes(-len(body) % _ALIGNMENT)
