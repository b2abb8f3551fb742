"""What a server's series say of each model: latencies, requests by status and load, by the table of kinds.

The functions take differences of counters (over a window, or since the last page) and know nothing of time. Series of
engines, ranks and streaming are added up for each model; quantiles are never averaged.

Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from npumond.sources.inference.buckets import Distribution
from npumond.sources.inference.labels import LatencyKind, Status, clean_model
from npumond.sources.inference.targets.kinds import (
    STARTED_AT,
    Counting,
    Histogram,
    Latency,
    Mean,
    Selector,
    ServerKind,
    Summary,
)
from npumond.sources.inference.targets.metrics_page import Key

Series = Mapping[Key, float]


class Ready(Struct, frozen=True):
    """Latencies that a server has already made into quantiles or a mean; in seconds."""

    quantiles: Mapping[float, float]
    """By share, 0 to 1; over a window of the server's own. Empty where only a mean can be had."""
    count: float
    mean: float | None


class Requests(Struct, frozen=True):
    """Requests of one model by how they ended."""

    success: float
    error: float | None
    """None where this server does not count what fails."""
    aborted: float | None

    def by_status(self) -> dict[Status, float]:
        """Those that are counted."""
        counts: dict[Status, float | None] = {"success": self.success, "error": self.error, "aborted": self.aborted}
        return {status: count for status, count in counts.items() if count is not None}

    def ratio(self, min_requests: int) -> float | None:
        """Good ones among good and bad; None under so many, or where bad ones are not counted. Aborted are neither."""
        if self.error is None or self.success + self.error < max(1, min_requests):
            return None
        return self.success / (self.success + self.error)


class Load(Struct, frozen=True):
    """What the server has to do just now; None is unknown."""

    running: float | None
    waiting: float | None
    kv_cache_ratio: float | None
    """Of the fullest engine."""


def counters(kind: ServerKind, series: Series) -> dict[Key, float]:
    """The series that only ever grow while the server lives."""
    gauges = {*kind.running, *kind.waiting, *kind.kv_cache, STARTED_AT}
    return {
        key: value
        for key, value in series.items()
        if key.name not in gauges and not math.isnan(value) and _label(key, "quantile") is None
    }


def latencies(
    kind: ServerKind, difference: Series, newest: Series
) -> dict[str, dict[LatencyKind, Distribution | Ready]]:
    """Latencies by model and kind: of each kind the first way to tell it that is on the page."""
    found: dict[str, dict[LatencyKind, Distribution | Ready]] = defaultdict(dict)
    for what, ways in kind.latencies.items():
        for way in ways:
            by_model = _latency(kind, way, difference, newest)
            if by_model is not None:
                for model, seen in by_model.items():
                    found[model][what] = seen
                break
    return dict(found)


def _latency(
    kind: ServerKind, way: Latency, difference: Series, newest: Series
) -> Mapping[str, Distribution | Ready] | None:
    """By model; None when this way is not on the page."""
    match way:
        case Histogram():
            return _histogram(kind, way, difference)
        case Summary():
            return _summary(kind, way, difference, newest)
        case Mean():
            return _mean(kind, way, difference)


def _histogram(kind: ServerKind, way: Histogram, difference: Series) -> Mapping[str, Distribution] | None:
    names = (way.family, way.family + "_bucket")
    buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    series: dict[str, Counter[float]] = defaultdict(Counter)
    for key, count in difference.items():
        if key.le is not None and key.name in names and _accepts(way.labels, key):
            model = _model(kind, key)
            buckets[model][key.le] += count
            series[model][key.le] += 1
    if not buckets:
        return None
    sums = _selected(kind, (Selector(way.family + "_sum", way.labels),), difference)
    # Engines with different bounds cannot be added up: what lies between two of one is in one bucket of the other.
    same = (model for model, counts in series.items() if len(set(counts.values())) == 1)
    return {model: _distribution(buckets[model], sums.get(model), way.unit) for model in same}


def _distribution(buckets: Mapping[float, float], total: float | None, unit: float) -> Distribution:
    bounds = sorted(buckets)
    return Distribution(
        bounds=tuple(bound * unit for bound in bounds),
        counts=tuple(buckets[bound] for bound in bounds),
        sum=None if total is None else total * unit,
    )


def _summary(kind: ServerKind, way: Summary, difference: Series, newest: Series) -> Mapping[str, Ready] | None:
    """A model without a request in our window is left out: the server's own window may show what is long over."""
    counts = _by_model(kind, difference, way.family + "_count")
    if not counts:
        return None
    sums = _by_model(kind, difference, way.family + "_sum")
    quantiles: dict[str, dict[float, float]] = defaultdict(dict)
    for key, value in newest.items():
        share = _share(key) if key.name == way.family else None
        if share is not None and not math.isnan(value):
            model = quantiles[_model(kind, key)]
            model[share] = max(model.get(share, 0.0), value * way.unit)
    return {
        model: Ready(quantiles.get(model, {}), count, sums[model] * way.unit / count if model in sums else None)
        for model, count in counts.items()
        if count > 0
    }


def _share(key: Key) -> float | None:
    """The label ``quantile`` as a number; None without it, or where it says nothing of the kind."""
    try:
        return float(_label(key, "quantile") or "")
    except ValueError:
        return None


def _mean(kind: ServerKind, way: Mean, difference: Series) -> Mapping[str, Ready] | None:
    times = _by_model(kind, difference, way.time)
    counts = _by_model(kind, difference, way.requests)
    if not times or not counts:
        return None
    return {
        model: Ready({}, count, times[model] * way.unit / count)
        for model, count in counts.items()
        if count > 0 and model in times
    }


def requests(kind: ServerKind, difference: Series) -> dict[str, Requests]:
    """Requests by model, by the first way of counting whose successes are on the page."""
    for way in kind.requests:
        found = _counted(kind, way, difference)
        if found:
            return found
    return {}


def _counted(kind: ServerKind, way: Counting, difference: Series) -> dict[str, Requests]:
    success = _selected(kind, (way.success,), difference)
    error = _selected(kind, way.error, difference)
    aborted = _selected(kind, way.aborted, difference)
    late = _selected(kind, way.late_error, difference)
    if not success and not error:
        return {}
    counts_errors = _is_there(way.error, difference) or way.error_shows_late
    alone = _only_model(kind, difference, success)
    success, error, aborted, late = (_for_model(alone, part) for part in (success, error, aborted, late))
    return {
        model: _settled(
            way,
            success.get(model, 0.0),
            error.get(model, 0.0) if counts_errors else None,
            aborted.get(model, 0.0) if _is_there(way.aborted, difference) else None,
            late.get(model, 0.0),
        )
        for model in {**success, **error}
    }


def _settled(way: Counting, success: float, error: float | None, aborted: float | None, late: float) -> Requests:
    if way.success_includes_aborted and aborted is not None:
        success = max(0.0, success - aborted)
    if error is not None and late > error:
        # So many more broke after their status had been sent, and were counted as successes by it.
        success, error = max(0.0, success - (late - error)), late
    return Requests(success, error, aborted)


def tokens(kind: ServerKind, difference: Series) -> dict[str, dict[str, float]]:
    """Tokens by model and direction."""
    directions = {"prompt": kind.prompt_tokens, "generation": kind.generation_tokens}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for direction, names in directions.items():
        for model, count in _first(kind, difference, names).items():
            found[model][direction] = count
    return dict(found)


def preemptions(kind: ServerKind, difference: Series) -> dict[str, float]:
    """Requests that lost their place, by model."""
    return _first(kind, difference, kind.preemptions)


def loads(kind: ServerKind, newest: Series) -> dict[str, Load]:
    """Load by model."""
    running, waiting = _first(kind, newest, kind.running), _first(kind, newest, kind.waiting)
    cache: dict[str, float] = {}
    name = next((name for name in kind.kv_cache if any(key.name == name for key in newest)), None)
    for key, value in newest.items():
        if key.name == name and 0 <= value <= 1:
            model = _model(kind, key)
            cache[model] = max(cache.get(model, 0.0), value)
    return {
        model: Load(running.get(model), waiting.get(model), cache.get(model))
        for model in {**running, **waiting, **cache}
    }


def _first(kind: ServerKind, series: Series, names: Iterable[str]) -> dict[str, float]:
    """Sums by model of the first of these families that is there."""
    for name in names:
        found = _by_model(kind, series, name)
        if found:
            return found
    return {}


def _by_model(kind: ServerKind, series: Series, name: str) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for key, value in series.items():
        if key.name == name and not math.isnan(value):
            found[_model(kind, key)] += value
    return dict(found)


def _selected(kind: ServerKind, selectors: tuple[Selector, ...], series: Series) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for selector in selectors:
        for key, value in series.items():
            if key.name == selector.family and _accepts(selector.labels, key):
                found[_model(kind, key)] += value
    return dict(found)


def _accepts(labels: Mapping[str, str], key: Key) -> bool:
    return not labels or all(_pattern(wanted).fullmatch(_label(key, name) or "") for name, wanted in labels.items())


@lru_cache(maxsize=256)
def _pattern(wanted: str) -> re.Pattern[str]:
    return re.compile(wanted)


def _is_there(selectors: tuple[Selector, ...], series: Series) -> bool:
    families = {selector.family for selector in selectors}
    return any(key.name in families for key in series)


def _only_model(kind: ServerKind, series: Series, success: Mapping[str, float]) -> str | None:
    """Whose the counts are where successes have no model, as in an HTTP layer; None where they have.

    With one model on the page it is that one, whatever its series tell of. With several nobody knows, and all counts
    stay without a model.
    """
    if success.keys() - {""}:
        return None
    named = {_model(kind, key) for key in series} - {""}
    return named.pop() if len(named) == 1 else ""


def _for_model(alone: str | None, counts: dict[str, float]) -> dict[str, float]:
    if alone is None:
        return counts
    total = sum(counts.values())
    return {alone: total} if counts else {}


def _model(kind: ServerKind, key: Key) -> str:
    """As it stands in our labels, so that models which read the same there are one; empty where there is none."""
    name = _label(key, kind.model_label)
    return _clean(name) if name else ""


def _label(key: Key, name: str) -> str | None:
    for label, value in key.labels:
        if label == name:
            return value
    return None


_clean = lru_cache(maxsize=1024)(clean_model)
