"""Rendering, beside prometheus_client with the same series in the same run: ``python -m tests.bench.render``."""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from npumond.catalog import CATALOG
from npumond.exposition import Renderer
from npumond.model import Sample, Snapshot

SERIES = 2500
DEVICES = 64
ROUNDS = 15

Values = Callable[[random.Random], float]

READINGS: Values = lambda source: source.randrange(10_000) / 10  # noqa: E731 (a value with a driver's resolution)
NOISE: Values = lambda source: source.random() * 100  # noqa: E731 (seventeen digits: the dearest numbers there are)

FAMILIES = [family for family in CATALOG if family.labels == ("device_id",) and family.kind == "gauge"]


def series() -> list[tuple[str, str]]:
    """(family, device) of every series, family by family."""
    pairs = itertools.product((family.name for family in FAMILIES), map(str, range(DEVICES)))
    return list(itertools.islice(pairs, SERIES))


def snapshot(values: Values, source: random.Random) -> Snapshot:
    """A new snapshot in which nothing is shared with the one before, as after a round."""
    families: dict[str, list[Sample]] = {}
    for name, device in series():
        families.setdefault(name, []).append(Sample(name, ("".join(device),), values(source)))
    return Snapshot(at=0, wall_at=0, families={name: tuple(samples) for name, samples in families.items()})


class Client:
    """The same series as prometheus_client's objects."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        help_texts = {family.name: family.help for family in FAMILIES}
        gauges = {
            name: Gauge(name, help_texts[name], ["device_id"], registry=self.registry)
            for name in dict.fromkeys(name for name, _ in series())
        }
        self.children = [gauges[name].labels(device) for name, device in series()]

    def set(self, values: Values, source: random.Random) -> None:
        """Change every value."""
        for child in self.children:
            child.set(values(source))


def medians_ms(*sides: Iterable[Callable[[], object]]) -> list[float]:
    """Median duration of each side's calls in milliseconds; the sides take turns, so that both meet the same weather.

    Without the garbage collector, whose pauses belong to nobody.
    """
    durations: list[list[float]] = [[] for _ in sides]
    gc.disable()
    for calls in zip(*sides, strict=True):
        for call, taken in zip(calls, durations, strict=True):
            began = time.perf_counter()
            call()
            taken.append((time.perf_counter() - began) * 1000)
    gc.enable()
    return [statistics.median(taken) for taken in durations]


def ours(values: Values, openmetrics: bool, changed: bool) -> Iterator[Callable[[], object]]:
    """Rounds of our renderer: new values each time, or equal ones in new samples."""
    renderer = Renderer()
    for number in range(ROUNDS + 1):
        current = snapshot(values, random.Random(number if changed else 0))
        if number == 0:
            renderer.render(current, openmetrics)
        else:
            yield lambda current=current: renderer.render(current, openmetrics)  # type: ignore[misc]


def churning(values: Values) -> Iterator[Callable[[], object]]:
    """Rounds in which every series is new to the renderer: its worst case, met at start only."""
    for number in range(ROUNDS):
        current = snapshot(values, random.Random(number))
        yield lambda current=current: Renderer().render(current, openmetrics=False)  # type: ignore[misc]


def theirs(values: Values, openmetrics: bool, changed: bool) -> Iterator[Callable[[], object]]:
    """The same rounds of prometheus_client; setting the values is not counted."""
    client = Client()
    generate = generate_openmetrics if openmetrics else generate_latest
    for number in range(ROUNDS):
        client.set(values, random.Random(number if changed else 0))
        yield lambda: generate(client.registry)


def main() -> None:
    """Print the table."""
    print(f"{SERIES} series, median of {ROUNDS} pages\n")
    print(f"{'format':12} {'values':28} {'prometheus_client':>18} {'npumond':>10} {'ratio':>7}")
    cases = [
        ("all changed, readings", READINGS, True),
        ("all changed, 17 digits", NOISE, True),
        ("none changed", READINGS, False),
    ]
    for openmetrics in (False, True):
        for name, values, changed in cases:
            sides = theirs(values, openmetrics, changed), ours(values, openmetrics, changed)
            row("OpenMetrics" if openmetrics else "text", name, *medians_ms(*sides))
    sides = theirs(READINGS, openmetrics=False, changed=True), churning(READINGS)
    row("text", "first page, nothing prepared", *medians_ms(*sides))


def row(kind: str, name: str, baseline: float, own: float) -> None:
    """Print one line of the table."""
    print(f"{kind:12} {name:28} {baseline:15.2f} ms {own:7.2f} ms {baseline / own:6.1f}x")


if __name__ == "__main__":
    main()
