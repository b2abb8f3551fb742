"""The series of one latency: quantiles with what is certain of them, mean and number of observations. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npumond.model import Sample
from npumond.sources.inference.buckets import Distribution, quantiles
from npumond.sources.inference.labels import QUANTILES


class Telling(Struct, frozen=True):
    """How much is told."""

    min_requests: int
    """Under so many observations the lower bound is absent, and with it every verdict of a rule."""
    aliases: bool
    """Whether milliseconds are told beside seconds."""


def of_buckets(
    labels: tuple[str, ...], seen: Distribution, telling: Telling, observed: float | None = None
) -> Iterator[Sample]:
    """``labels`` are model, target and kind; ``observed`` is how many were really seen where some stand for more."""
    observed = seen.count if observed is None else observed
    yield from of_all(labels, seen.mean, observed)
    for (name, _), found in zip(QUANTILES, quantiles([share for _, share in QUANTILES], seen), strict=True):
        if found is None:
            continue
        each = (*labels, name)
        yield from of_quantile(each, found.value, found.lower if observed >= telling.min_requests else None, telling)
        if not found.clamped:
            yield Sample("inference_latency_resolution_seconds", each, found.upper - found.lower)


def of_all(labels: tuple[str, ...], mean_s: float | None, observed: float) -> Iterator[Sample]:
    """What is known without buckets; nothing without an observation."""
    if observed > 0:
        yield Sample("inference_latency_observations", labels, observed)
    if mean_s is not None:
        yield Sample("inference_latency_mean_seconds", labels, mean_s)


def of_quantile(labels: tuple[str, ...], seconds: float, lower_s: float | None, telling: Telling) -> Iterator[Sample]:
    """One quantile; ``labels`` end in its name."""
    yield Sample("inference_latency_seconds", labels, seconds)
    if lower_s is not None:
        yield Sample("inference_latency_lower_bound_seconds", labels, lower_s)
    if telling.aliases:
        yield Sample("inference_latency_ms", labels, seconds * 1000)
