"""Quantiles of a histogram's buckets, as Prometheus' ``histogram_quantile`` gives them, with what is certain of them.

Source: Prometheus, promql/quantile.go, by the rules in its documentation of ``histogram_quantile``. Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct


class Quantile(Struct, frozen=True):
    """A quantile and the bucket it fell in; in the unit of the bounds."""

    value: float
    lower: float
    """Edge of the bucket below: the quantile is at least this."""
    upper: float
    """Infinite where the quantile lies above the highest finite bound; then ``value`` is that bound."""

    @property
    def clamped(self) -> bool:
        """Whether the true value may be anything above ``value``."""
        return math.isinf(self.upper)


class Distribution(Struct, frozen=True):
    """Observations by bucket. ``counts`` are cumulative, one for each bound; the last bound is infinite."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float | None
    """Of the observations; None where the server does not give it."""

    @property
    def count(self) -> float:
        """Number of observations."""
        return self.counts[-1] if self.counts else 0.0

    @property
    def mean(self) -> float | None:
        """Exact, unlike a quantile; None without observations or without their sum."""
        return self.sum / self.count if self.sum is not None and self.count > 0 else None


def quantile(q: float, seen: Distribution) -> Quantile | None:
    """The quantile ``q`` (above 0, up to 1); None without observations or with fewer than two buckets."""
    return quantiles((q,), seen)[0]


def quantiles(shares: Sequence[float], seen: Distribution) -> list[Quantile | None]:
    """Each as `quantile` gives it."""
    counts = list(accumulate(seen.counts, max))  # a count below its predecessor is rounding, or a torn scrape
    if len(counts) < 2 or not counts[-1] > 0:
        return [None] * len(shares)
    return [_located(q * counts[-1], seen.bounds, counts) for q in shares]


def _located(rank: float, bounds: Sequence[float], counts: Sequence[float]) -> Quantile:
    """Where the observation of this rank lies, taken as spread evenly over its bucket."""
    index = min(bisect_left(counts, rank), len(bounds) - 1)
    if index == len(bounds) - 1:
        return Quantile(bounds[-2], bounds[-2], math.inf)
    upper = bounds[index]
    if index == 0 and upper <= 0:
        return Quantile(upper, -math.inf, upper)
    lower = bounds[index - 1] if index else 0.0
    below = counts[index - 1] if index else 0.0
    share = (rank - below) / (counts[index] - below)
    return Quantile(lower + (upper - lower) * share, lower, upper)
