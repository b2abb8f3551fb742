"""A histogram that a source keeps and shows in each of its batches."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from npumond.catalog import Family
from npumond.model import Sample


class Histogram:
    """Counts of observations under the bounds of one family's buckets, for one set of labels."""

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        self._family = family
        self._labels = labels
        self._counts = [0] * (len(family.buckets) + 1)
        self._sum = 0.0
        self._bucket_labels = tuple((*labels, le) for le in (*map(repr, family.buckets), "+Inf"))

    def observe(self, value: float) -> None:
        """Count one observation, in the family's unit."""
        self._counts[bisect_left(self._family.buckets, value)] += 1
        self._sum += value

    def samples(self) -> list[Sample]:
        """Cumulative buckets, sum and count, in the order of the page."""
        name = self._family.name
        totals = list(accumulate(self._counts))
        buckets = [
            Sample(name, labels, float(total), "_bucket")
            for labels, total in zip(self._bucket_labels, totals, strict=True)
        ]
        return [
            *buckets,
            Sample(name, self._labels, self._sum, "_sum"),
            Sample(name, self._labels, float(totals[-1]), "_count"),
        ]
