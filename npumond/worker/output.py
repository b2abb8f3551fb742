"""What a process prints, as lines for a log that stays small however much it prints.

The vendor's libraries print for people, now and then; a library in trouble may print megabytes. A burst of lines is
passed on, then a line each second; what is left out is measured and told with the next line. Pure: time comes in.
"""

from __future__ import annotations

from collections.abc import Iterator

MAX_LINE = 2000
"""Characters of a line that are passed on."""
BURST = 20
"""Lines that are passed on at once."""
REFILL_S = 1.0
"""Seconds after which one line more is passed on."""


class Output:
    """Chunks in, lines out. Looks at no more of a chunk than it passes on, so that draining a flood costs nothing."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at = 0.0
        self._unsaid = 0

    def lines(self, chunk: bytes, now: float) -> Iterator[str]:
        """The lines of this chunk that are worth telling; ``now`` is in monotonic seconds."""
        self._left = min(BURST, self._left + max(0.0, now - self._at) / REFILL_S)
        self._at = now
        while chunk and self._left >= 1:
            line, _, chunk = chunk.partition(b"\n")
            text = line[: 4 * MAX_LINE].decode("utf-8", "replace").strip()[:MAX_LINE]
            if text:
                self._left -= 1
                yield self._with_unsaid(text)
        self._unsaid += len(chunk)

    def _with_unsaid(self, text: str) -> str:
        unsaid, self._unsaid = self._unsaid, 0
        return f"{text} (after {unsaid} bytes that are not told)" if unsaid else text
