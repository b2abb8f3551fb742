"""The book of requests that were measured on this node: pushed by applications, or made by a probe.

By model and target it keeps totals for ever and, for the sliding window, the outcome and the latencies. The window is a
ring of `SLOTS` slots of time; it holds the running slot and those before it, so nothing in it is older than the window
and the youngest twelfth of it may still be filling. Latencies lie in buckets 2 % wide, so a quantile is at most 2 %
off, and one edge is 0.1 s to the bit: the threshold of the default rule falls between two buckets and not into one.

Only requests that succeeded enter the latency ``e2e`` and the histogram, as on the servers' own pages: an error that
comes at once would make a broken server look fast, and an abort tells how long somebody waited. ``ttft`` and ``itl``
are taken from every request, since that token did come. Aborted requests are neither good nor bad.

A sampled request stands for ``weight`` requests in totals, ratio and quantiles, while ``min_requests`` asks how many
were really seen: one packet at a rate of 1 % speaks for a hundred requests and is still one observation.

Why not a sketch (t-digest, DDSketch): fixed buckets add up slot by slot and have an edge that can be named, which is
what the rule is judged by. Memory is bounded: 7.5 KiB for each slot in which a latency was seen, 120 KiB in all for
each kind of each model.

Pure: the clock is passed in.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from operator import add
from typing import Literal, get_args

from npumond.catalog import BY_NAME
from npumond.model import Sample
from npumond.sources.histogram import Histogram
from npumond.sources.inference.buckets import Distribution
from npumond.sources.inference.labels import LatencyKind, Status, clean_model
from npumond.sources.inference.latency_samples import Telling, of_buckets

SLOTS = 12
"""Of the window. More would follow it more smoothly and cost memory in proportion."""
MOST_MODELS = 100
OTHER = "other"
"""The model under which requests are kept once there are too many models."""
LONGEST_S = 1e6
"""Eleven days; longer is no latency but a mistake, which would drown every sum it gets into."""

_MOST_WEIGHT = 1e15
"""Up to here every whole number is a float."""
_CELL: Mapping[Status, int] = {status: cell for cell, status in enumerate(get_args(Status))}
_DECIDED = len(_CELL)
"""Cell after the statuses: requests really seen that were good or bad."""
_WIDTH = 1.02
EDGES = tuple(0.1 * _WIDTH**step for step in range(-465, 466))
"""Upper edges of the buckets in seconds, from 10 us to 1000 s. Longer latencies have a bucket without an upper edge."""
_BOUNDS = (*EDGES, math.inf)
_BUCKETS = len(_BOUNDS)
_SUM, _SEEN = _BUCKETS, _BUCKETS + 1
"""Cells after the buckets: weighted sum of the latencies, and how many were really seen."""


class _Ring:
    """Sums over the sliding window, cell by cell: one row for each slot of time in which something was added."""

    def __init__(self, cells: int) -> None:
        self._zeros = bytes(8 * cells)
        self._rows: dict[int, array[float]] = {}
        self._closed_at = -1
        self._closed: list[float] = []

    def row(self, slot: int) -> array[float]:
        """The row of the slot that runs now, to add to."""
        row = self._rows.get(slot)
        if row is None:
            self._forget(slot)
            row = self._rows[slot] = array("d", self._zeros)
        return row

    def totals(self, slot: int) -> list[float] | None:
        """The window's sums at this slot; None when nothing was added in it."""
        if self._closed_at != slot:
            self._close(slot)
        running = self._rows.get(slot)
        if running is None:
            return self._closed or None
        return list(map(add, self._closed, running)) if self._closed else list(running)

    def _close(self, slot: int) -> None:
        """Add up the slots that are over. Anew each time: taking the oldest off the sum would leave rounding errors."""
        self._forget(slot)
        rows = [row for at, row in self._rows.items() if at != slot]
        self._closed = list(map(sum, zip(*rows, strict=True))) if rows else []
        self._closed_at = slot

    def _forget(self, slot: int) -> None:
        for old in [at for at in self._rows if at <= slot - SLOTS]:
            del self._rows[old]


class _Series:
    """What is kept for one model at one target."""

    def __init__(self, model: str, target: str, histogram: Histogram) -> None:
        self.labels = (model, target)
        self.histogram = histogram
        """Of the model at all targets."""
        self.totals: dict[Status, float] = {}
        self.outcomes = _Ring(_DECIDED + 1)
        self.latencies: dict[LatencyKind, _Ring] = {}

    def count(self, status: Status, slot: int, weight: float, seen: float) -> None:
        """Add a request to totals and window."""
        self.totals[status] = self.totals.get(status, 0.0) + weight
        row = self.outcomes.row(slot)
        row[_CELL[status]] += weight
        if status != "aborted":
            row[_DECIDED] += seen

    def observe(self, kind: LatencyKind, slot: int, latency_s: float, weight: float, seen: float) -> None:
        """Add a latency to the window."""
        ring = self.latencies.get(kind)
        if ring is None:
            ring = self.latencies[kind] = _Ring(_SEEN + 1)
        row = ring.row(slot)
        row[bisect_left(EDGES, latency_s)] += weight
        row[_SUM] += latency_s * weight
        row[_SEEN] += seen


class Requests:
    """The book of one source; its name is the label ``source`` of the histogram."""

    def __init__(
        self,
        source: str,
        window_s: float,
        telling: Telling,
        clock: Callable[[], float],
        most_models: int = MOST_MODELS,
    ) -> None:
        """``clock`` gives monotonic seconds."""
        self._source = source
        self._slot_s = window_s / SLOTS
        self._telling = telling
        self._clock = clock
        self._most_models = most_models
        self._series: dict[tuple[str, str], _Series] = {}
        self._histograms: dict[str, Histogram] = {}
        self.overflowed = 0
        """Entries that went to the model ``other`` since there were too many models."""

    def request(
        self,
        model: str,
        target: str,
        status: Status,
        e2e_s: float | None = None,
        *,
        ttft_s: float | None = None,
        itl_s: float | None = None,
        weight: float = 1.0,
        seen: float = 1.0,
    ) -> None:
        """Book one request, or ``weight`` equal ones of which ``seen`` were really observed.

        Durations in seconds, None where not measured. Raises ValueError, with nothing booked, for a duration that is
        negative, longer than `LONGEST_S` or no number, a weight that is not positive, and an unknown status.
        """
        if status not in _CELL:
            raise ValueError(f"status {status!r} is none of {', '.join(_CELL)}")
        _check(e2e_s, weight)
        if ttft_s is not None or itl_s is not None:
            _check(ttft_s)
            _check(itl_s)
        series = self._series.get((model, target)) or self._find(model, target)
        slot = int(self._clock() / self._slot_s)
        series.count(status, slot, weight, seen)
        if e2e_s is not None and status == "success":
            series.histogram.observe(e2e_s, weight)
            series.observe("e2e", slot, e2e_s, weight, seen)
        if ttft_s is not None:
            series.observe("ttft", slot, ttft_s, weight, seen)
        if itl_s is not None:
            series.observe("itl", slot, itl_s, weight, seen)

    def latency(
        self, model: str, target: str, kind: Literal["ttft", "itl"], latency_s: float, weight: float = 1.0
    ) -> None:
        """Book the latency of a token that was told by itself: it counts no request. Raises ValueError as `request`."""
        _check(latency_s, weight)
        series = self._series.get((model, target)) or self._find(model, target)
        series.observe(kind, int(self._clock() / self._slot_s), latency_s, weight, 1.0)

    def samples(self) -> list[Sample]:
        """Everything known now: what the window lacks is absent, totals and histograms stay for ever."""
        slot = int(self._clock() / self._slot_s)
        samples: list[Sample] = []
        for series in self._series.values():
            samples += self._outcomes(series, slot)
            for kind, ring in series.latencies.items():
                samples += self._latencies((*series.labels, kind), ring.totals(slot))
        for histogram in self._histograms.values():
            if histogram.count:
                samples += histogram.samples()
        return samples

    def _find(self, model: str, target: str) -> _Series:
        """The series of a name that is new, or not clean, or one too many."""
        name = clean_model(model)
        if name not in self._histograms and len(self._histograms) - (OTHER in self._histograms) >= self._most_models:
            name = OTHER
            self.overflowed += 1
        series = self._series.get((name, target))
        if series is None:
            histogram = self._histograms.get(name)
            if histogram is None:
                family = BY_NAME["inference_request_duration_seconds"]
                histogram = self._histograms[name] = Histogram(family, (name, self._source))
            series = self._series[name, target] = _Series(name, target, histogram)
        return series

    def _outcomes(self, series: _Series, slot: int) -> Iterator[Sample]:
        for status, total in series.totals.items():
            yield Sample("inference_requests_total", (*series.labels, status), total)
        sums = series.outcomes.totals(slot)
        if sums is not None and sums[_DECIDED] >= self._telling.min_requests:
            good, bad = sums[_CELL["success"]], sums[_CELL["error"]]
            yield Sample("inference_success_ratio", series.labels, good / (good + bad))

    def _latencies(self, labels: tuple[str, ...], sums: list[float] | None) -> Iterator[Sample]:
        if sums is not None:
            seen = Distribution(_BOUNDS, tuple(accumulate(sums[:_BUCKETS])), sums[_SUM])
            yield from of_buckets(labels, seen, self._telling, sums[_SEEN])


def _check(duration_s: float | None, weight: float = 1.0) -> None:
    if duration_s is not None and not 0 <= duration_s <= LONGEST_S:
        raise ValueError(f"a duration of {duration_s!r} s: must be from 0 to {LONGEST_S:g}")
    if not 0 < weight <= _MOST_WEIGHT:
        raise ValueError(f"a weight of {weight!r}: must be positive, and {_MOST_WEIGHT:g} at most")
