"""The source of what the daemon knows about itself: its sources, its driver calls, its worker, its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from npumond.model import Sample, SourceState
from npumond.sources.source import Sampled, lasting_batch

Counts = Iterable[tuple[tuple[str, ...], float]]
"""Label values and counts."""


class SelfSource:
    """Turns the daemon's own books into samples; each book is a function that the daemon passes in."""

    name = "self"

    def __init__(
        self,
        interval_s: float,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        sources: Callable[[], Iterable[SourceState]],
        counters: Mapping[str, Callable[[], Counts]],
        gauges: Mapping[str, Callable[[], float]],
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._wall_clock = wall_clock
        self._sources = sources
        self._counters = counters
        self._gauges = gauges

    @property
    def intervals(self) -> dict[str, float]:
        """One group, at the interval given."""
        return {"normal": self._interval_s}

    async def sample(self, group: str) -> Sampled:
        """Read every book."""
        at = self._clock()
        samples = (*self._source_samples(), *self._counter_samples(), *self._gauge_samples())
        batch = lasting_batch(self.name, group, at, self._interval_s, samples)
        return Sampled(batches=(batch,))

    def _source_samples(self) -> Iterable[Sample]:
        unix_minus_monotonic = self._wall_clock() - self._clock()
        for state in self._sources():
            labels = (state.source, state.group)
            yield Sample("npumond_source_success", labels, float(state.success))
            yield Sample("npumond_source_duration_seconds", labels, state.duration_s)
            if state.last_success_at is not None:
                unix = state.last_success_at + unix_minus_monotonic
                yield Sample("npumond_source_last_success_timestamp_seconds", labels, round(unix, 3))

    def _counter_samples(self) -> Iterable[Sample]:
        for family, read in self._counters.items():
            for labels, count in read():
                yield Sample(family, labels, float(count))

    def _gauge_samples(self) -> Iterable[Sample]:
        for family, read in self._gauges.items():
            yield Sample(family, (), read())
