"""Back-off for whatever is tried again: a worker, a broker, a server. Pure: time comes in."""

from __future__ import annotations


class Pause:
    """A pause that doubles with each use up to a cap, and begins anew after a good spell."""

    def __init__(self, first_s: float, last_s: float) -> None:
        self._first_s = first_s
        self._last_s = last_s
        self._next_s = first_s
        self._over_at = 0.0

    def over(self, now: float) -> bool:
        """Whether the pause that was begun last is over."""
        return now >= self._over_at

    def begin(self, now: float) -> float:
        """Begin the next pause; returns its length in seconds."""
        length_s, self._next_s = self._next_s, min(2 * self._next_s, self._last_s)
        self._over_at = now + length_s
        return length_s

    def reset(self) -> None:
        """All was well: the next pause is the first again."""
        self._next_s = self._first_s
