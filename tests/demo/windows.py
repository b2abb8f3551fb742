"""Sliding windows over a made-up server's totals, as whoever scrapes it sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from npumond.demo.ledger import Bounds, Ledger
from npumond.demo.traffic import Traffic

STEP_S = 5
WINDOW_S = 60


class Window(NamedTuple):
    """What has been counted between two moments."""

    start: float
    end: float
    bounds: tuple[float, ...]
    e2e: tuple[int, ...]
    good: int
    bad: int

    @property
    def bucket_of_p99(self) -> tuple[float, float]:
        """Edges of the bucket with the P99."""
        rank = 0.99 * sum(self.e2e)
        edges = (0.0, *self.bounds, float("inf"))
        index = next(index for index, total in enumerate(accumulate(self.e2e)) if total >= rank)
        return edges[index], edges[index + 1]

    @property
    def p99(self) -> float:
        """As histogram_quantile has it: linear within the bucket, and the last bound where it is above all."""
        lower, upper = self.bucket_of_p99
        if upper == float("inf"):
            return lower
        index = self.bounds.index(upper)
        below = sum(self.e2e[:index])
        return lower + (upper - lower) * (0.99 * sum(self.e2e) - below) / self.e2e[index]

    @property
    def success(self) -> float:
        """Share of the requests that were answered."""
        return self.good / (self.good + self.bad)


def windows(traffic: Traffic, name: str, seed: int, bounds: Bounds, seconds: int) -> list[Window]:
    """All windows of `WINDOW_S` from the start to this second, one every `STEP_S`."""
    ledger = Ledger(traffic, name, seed, bounds)
    looks = [_look(ledger, t) for t in range(0, seconds + 1, STEP_S)]
    edges = tuple(float(bound) for bound in bounds["e2e_s"])
    return list(_between(looks, edges))


def totals(ledger: Ledger) -> Iterator[float]:
    """Everything on a page that may never fall, always in the same order."""
    yield ledger.received
    yield from (ledger.http_statuses[status] for status in ("2xx", "4xx", "5xx"))
    histograms = [*ledger.http.values(), *(each for engine in ledger.engines for each in engine.histograms.values())]
    for buckets in histograms:
        yield from accumulate(buckets.counts)
        yield buckets.sum
    for engine in ledger.engines:
        yield from (engine.finished[outcome] for outcome in ("stop", "length", "error"))
        yield from (engine.prompt_tokens, engine.cached_tokens, engine.output_tokens, engine.preemptions)


class _Look(NamedTuple):
    t: float
    e2e: tuple[int, ...]
    http: Mapping[str, int]


def _look(ledger: Ledger, t: float) -> _Look:
    ledger.advance(t)
    engines = (engine.histograms["e2e_s"].counts for engine in ledger.engines)
    return _Look(t, tuple(map(sum, zip(*engines, strict=True))), dict(ledger.http_statuses))


def _between(looks: list[_Look], bounds: tuple[float, ...]) -> Iterator[Window]:
    for old, new in zip(looks, looks[WINDOW_S // STEP_S :], strict=False):
        good, bad = (new.http.get(status, 0) - old.http.get(status, 0) for status in ("2xx", "5xx"))
        e2e = tuple(now - then for then, now in zip(old.e2e, new.e2e, strict=True))
        yield Window(old.t, new.t, bounds, e2e, good, bad)
