"""A histogram that a source keeps and shows in each of its batches."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from npumond.catalog import Family
from npumond.model import Sample


class Histogram:
    """Counts of observations under the bounds of one family's buckets, for one set of labels."""

    def __init__(self, family: Family, labels: tuple[str, ...]) -> None:
        self._bounds = family.buckets
        self._name = family.name
        self._labels = labels
        self._counts = [0.0] * (len(family.buckets) + 1)
        self._sum = 0.0
        self._bucket_labels = tuple((*labels, le) for le in (*map(repr, family.buckets), "+Inf"))

    def observe(self, value: float, weight: float = 1.0) -> None:
        """Count one observation, in the family's unit, or as many equal ones as the weight says."""
        self._counts[bisect_left(self._bounds, value)] += weight
        self._sum += value * weight

    @property
    def count(self) -> float:
        """Observations so far."""
        return sum(self._counts)

    def samples(self) -> list[Sample]:
        """Cumulative buckets, sum and count, in the order of the page."""
        totals = list(accumulate(self._counts))
        buckets = [
            Sample(self._name, labels, total, "_bucket")
            for labels, total in zip(self._bucket_labels, totals, strict=True)
        ]
        return [
            *buckets,
            Sample(self._name, self._labels, self._sum, "_sum"),
            Sample(self._name, self._labels, totals[-1], "_count"),
        ]
