"""Reading a book of requests in tests."""

from __future__ import annotations

from collections.abc import Iterable

from npumond.model import Sample


class Clock:
    """Monotonic seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def series(samples: Iterable[Sample], family: str) -> dict[tuple[str, ...], float]:
    """Values of one family by labels; of a histogram, of its count."""
    return {one.labels: one.value for one in samples if one.family == family and one.suffix in ("", "_count")}
