"""One inference server whose metrics page is read: what its pages say, as samples and in words.

Pure: pages, times and failures come in.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from npumond.model import Sample
from npumond.sources.inference.buckets import Distribution, quantile
from npumond.sources.inference.labels import QUANTILES, LatencyKind, Status, clean_model
from npumond.sources.inference.latency_samples import Telling, of_all, of_buckets, of_quantile
from npumond.sources.inference.targets.counts import (
    Load,
    Ready,
    latencies,
    loads,
    preemptions,
    requests,
    tokens,
)
from npumond.sources.inference.targets.kinds import STARTED_AT, ServerKind, detect
from npumond.sources.inference.targets.metrics_page import Key, PageError, PageReader
from npumond.sources.inference.targets.sliding_window import SlidingWindow, scrape


class View(Struct, frozen=True):
    """One latency of one model over the window, with what the status page tells of it."""

    model: str
    kind: LatencyKind
    p99_s: float
    lower_s: float
    upper_s: float
    """Infinite where the quantile lies above the server's highest bucket."""
    count: float


class TargetBook:
    """The pages of one target so far."""

    def __init__(self, label: str, kind: ServerKind | None, window_s: float, telling: Telling) -> None:
        """Without a ``kind`` it is found by what is on the page."""
        self.label = label
        self._fixed_kind = kind
        self._telling = telling
        self._window = SlidingWindow(window_s)
        self._reader: PageReader | None = None
        self._difference: Mapping[Key, float] | None = None
        self._seen: Mapping[str, Mapping[LatencyKind, Distribution | Ready]] = {}
        self._requests: dict[tuple[str, Status], float] = defaultdict(float)
        self._tokens: dict[tuple[str, str], float] = defaultdict(float)
        self._preemptions: dict[str, float] = defaultdict(float)
        self.kind = kind
        """What the server is; None before the first page that tells."""
        self.up = False
        self.reason = "not read yet"
        """Why there is nothing of it; empty while there is."""

    @property
    def views(self) -> list[View]:
        """The P99 of each latency that has buckets."""
        return [
            view
            for model, by_kind in self._seen.items()
            for kind, seen in by_kind.items()
            if isinstance(seen, Distribution)
            for view in _view(clean_model(model), kind, seen)
        ]

    def take(self, body: bytes, at: float) -> None:
        """A page that was read at this time (monotonic seconds)."""
        try:
            kind, series = self._read(body)
        except PageError as error:
            self.fail(str(error), None)
            return
        self.up, self.reason = True, ""
        self._window.add(scrape(kind, series, at))
        self._add_up(kind, self._window.step)
        self._difference = self._window.difference()
        self._seen = {} if self._difference is None else latencies(kind, self._difference, series)

    def fail(self, reason: str, status: int | None) -> None:
        """There was no page; ``status`` is that of the HTTP answer, where there was one."""
        hint = self.kind.hints.get(status) if self.kind is not None and status is not None else None
        self.up, self.reason, self._seen = False, f"{reason}: {hint}" if hint else reason, {}

    def _read(self, body: bytes) -> tuple[ServerKind, Mapping[Key, float]]:
        """The page by the kind that the server was last known to be; by what is on it where that gives nothing."""
        series = _telling(self._reader, body)
        if not series:
            self._begin(self._fixed_kind or detect(body), body)
            series = _telling(self._reader, body)
        if self.kind is None:
            raise PageError("the page has series of no server that is known; name its kind with `server`")
        if not series:
            hint = f": {self.kind.empty_hint}" if self.kind.empty_hint else ""
            raise PageError(f"none of the series of {self.kind.name} is on the page{hint}")
        return self.kind, series

    def _begin(self, kind: ServerKind | None, body: bytes) -> None:
        if kind is None:
            PageReader(()).read(body)  # raises where it is no page at all, which says more than that it is unknown
        elif kind is not self.kind or self._reader is None:
            self.kind, self._reader = kind, PageReader(kind.families())
            self._window = SlidingWindow(self._window.window_s)

    def _add_up(self, kind: ServerKind, step: Mapping[Key, float]) -> None:
        for model, counted in requests(kind, step).items():
            for status, count in counted.by_status().items():
                self._requests[clean_model(model), status] += count
        for model, directions in tokens(kind, step).items():
            for direction, count in directions.items():
                self._tokens[clean_model(model), direction] += count
        for model, count in preemptions(kind, step).items():
            self._preemptions[clean_model(model)] += count

    # What comes out.

    def samples(self) -> list[Sample]:
        """Everything that is known of the target now. Totals stay while it is down, what is of the moment does not."""
        server = self.kind.name if self.kind is not None else "unknown"
        samples = [Sample("inference_target_up", (self.label, server), float(self.up)), *self._totals()]
        newest, kind = self._window.newest, self.kind
        if self.up and newest is not None and kind is not None:
            samples += self._loads(loads(kind, newest.series))
            if self._difference is not None:
                samples += self._ratios(kind, self._difference)
        return [*samples, *self._latencies()]

    def _totals(self) -> Iterator[Sample]:
        for (model, status), count in self._requests.items():
            yield Sample("inference_requests_total", (model, self.label, status), count)
        for (model, direction), count in self._tokens.items():
            yield Sample("inference_tokens_total", (model, self.label, direction), count)
        for model, count in self._preemptions.items():
            yield Sample("inference_preemptions_total", (model, self.label), count)
        yield Sample("inference_target_restarts_total", (self.label,), float(self._window.restarts))

    def _loads(self, by_model: Mapping[str, Load]) -> Iterator[Sample]:
        for model, load in by_model.items():
            values = {
                "inference_requests_running": load.running,
                "inference_requests_waiting": load.waiting,
                "inference_kv_cache_utilization_ratio": load.kv_cache_ratio,
            }
            for family, value in values.items():
                if value is not None:
                    yield Sample(family, (clean_model(model), self.label), value)

    def _ratios(self, kind: ServerKind, difference: Mapping[Key, float]) -> Iterator[Sample]:
        for model, counted in requests(kind, difference).items():
            ratio = counted.ratio(self._telling.min_requests)
            if ratio is not None:
                yield Sample("inference_success_ratio", (clean_model(model), self.label), ratio)

    def _latencies(self) -> Iterator[Sample]:
        for model, by_kind in self._seen.items():
            for kind, seen in by_kind.items():
                labels = (clean_model(model), self.label, kind)
                if isinstance(seen, Ready):
                    yield from self._ready(labels, seen)
                else:
                    yield from of_buckets(labels, seen, self._telling)

    def _ready(self, labels: tuple[str, ...], seen: Ready) -> Iterator[Sample]:
        """A quantile that the server computed is as exact as the server is: it is its own lower bound."""
        yield from of_all(labels, seen.mean, seen.count)
        is_enough = seen.count >= self._telling.min_requests
        for name, share in QUANTILES:
            value = seen.quantiles.get(share)
            if value is not None:
                yield from of_quantile((*labels, name), value, value if is_enough else None, self._telling)


def _telling(reader: PageReader | None, body: bytes) -> Mapping[Key, float]:
    """The wanted series; nothing where there are none but the start time, which every process has."""
    series = reader.read(body) if reader is not None else {}
    return series if any(key.name != STARTED_AT for key in series) else {}


def _view(model: str, kind: LatencyKind, seen: Distribution) -> Iterator[View]:
    found = quantile(0.99, seen)
    if found is not None:
        yield View(model, kind, found.value, found.lower, found.upper, seen.count)


def unresolved(views: Sequence[View], threshold_s: float) -> list[str]:
    """What the buckets do not tell of the P99 of whole requests at this threshold, and what can be done."""
    return [
        f"P99 of {view.model} lies between {view.lower_s:g} and {_bound(view)}: the server's buckets do not tell "
        f"whether it is above {threshold_s:g} s. Set the rule's threshold to a bound of its buckets, judge the kind "
        "ttft or itl by a rule of your own, or measure with a probe."
        for view in views
        if view.kind == "e2e" and view.lower_s < threshold_s < view.upper_s
    ]


def _bound(view: View) -> str:
    return "no known bound" if math.isinf(view.upper_s) else f"{view.upper_s:g} s"
