"""Alerts across restarts: a file with everything that the judge remembers.

Written when an alert changes its state, and every few seconds while clocks run, always as a whole beside the old one
and then put in its place: a crash at any moment leaves one or the other. Writing is done beside the loop, so a disk
that is slow, full or broken costs monitoring nothing; it is tried again with the next change.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from npumond.latest import Latest
from npumond.log import StateLog, logger
from npumond.rules import Board, Memory

log = logger()

FORMAT = 1
EVERY_S = 5.0
"""How often it is written while an alert is pending or firing: so much of a pending time a crash may cost."""


class _Saved(Struct, frozen=True):
    """The file's content."""

    format: int
    memory: Memory


class StateFile:
    """The file, and whether it is what it should be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told = StateLog(log, time.monotonic)
        self._key: tuple[object, ...] = ()
        self._saved_at = 0.0
        self.failures = 0
        """Times that it could not be written."""

    def load(self) -> Memory | None:
        """What was saved; None when there is nothing. A file that cannot be used is set aside and told of."""
        try:
            saved = msgspec.json.decode(self._path.read_bytes(), type=_Saved)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            self._set_aside(str(error))
            return None
        if saved.format != FORMAT:
            self._set_aside(f"its format is {saved.format}, and {FORMAT} is known here")
            return None
        return saved.memory

    def _set_aside(self, reason: str) -> None:
        aside = self._path.with_suffix(".unreadable")
        log.warning("alert_state_unreadable", path=str(self._path), reason=reason, kept_as=str(aside))
        try:
            self._path.replace(aside)
        except OSError as error:
            log.warning("alert_state_in_the_way", path=str(self._path), reason=str(error))

    async def follow(self, boards: Latest[Board], memory: Callable[[], Memory]) -> None:
        """Keep the file up to date until cancelled; ``memory`` gives what the judge remembers now."""
        async for board in boards:
            if self._is_due(board):
                await asyncio.to_thread(self.save, memory())

    def _is_due(self, board: Board) -> bool:
        key = tuple((told.alert.id, told.alert.state) for told in board.told)
        is_due = key != self._key or (bool(key) and board.at - self._saved_at >= EVERY_S)
        if is_due:
            self._key, self._saved_at = key, board.at
        return is_due

    def save(self, memory: Memory) -> None:
        """Write it now; blocks. A failure is counted and told once."""
        beside = self._path.with_suffix(".new")
        try:
            with beside.open("wb") as file:
                file.write(msgspec.json.encode(_Saved(FORMAT, memory)))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            self.failures += 1
            self._told.say(("write",), False, "alert_state_not_saved", path=str(self._path), reason=str(error))
        else:
            self._told.say(("write",), True, "alert_state_saved", path=str(self._path))
