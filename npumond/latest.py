"""The newest value of something, for any number of readers: never a queue.

A slow reader skips what it missed and goes on with the newest value; the writer never waits and never blocks.

Why not an `asyncio.Condition`: it has a lock, and a writer that has to await a lock is no longer a plain call. Here the
writer replaces the future that readers wait for, which needs neither lock nor task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Holds the newest value and wakes every reader when it changes. Belongs to one event loop."""

    def __init__(self) -> None:
        self._value: T | None = None
        self._version = 0
        self._superseded = asyncio.Event()

    @property
    def version(self) -> int:
        """Number of values set so far; 0 while there is none."""
        return self._version

    def get(self) -> T | None:
        """The newest value; None before the first."""
        return self._value

    def set(self, value: T) -> None:
        """Replace the value and wake all readers, also when it equals the one before."""
        self._value = value
        self._version += 1
        superseded, self._superseded = self._superseded, asyncio.Event()
        superseded.set()

    async def changed(self, since_version: int = 0) -> tuple[int, T]:
        """Wait for a value newer than ``since_version``; return the newest version and its value.

        With the default it returns at once when there is a value at all. Nothing is awaited between the look at the
        version and the wait, so no change can slip through.
        """
        while self._version <= since_version:
            await self._superseded.wait()
        value: T = self._value  # type: ignore[assignment]  # a version above 0 means that a value was set
        return self._version, value

    async def __aiter__(self) -> AsyncIterator[T]:
        """The value there is, if any, and then each newer one that the reader is awake for."""
        version = 0
        while True:
            version, value = await self.changed(version)
            yield value
