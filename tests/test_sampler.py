"""The sampler publishes what is fresh, drops what is old, counts what it missed, and waits for nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from npumond.latest import Latest
from npumond.model import Batch, Sample, Snapshot
from npumond.sampler import Sampler, Shelf, assemble, by_family
from npumond.sources.source import Sampled


class Clock:
    """Time that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def batch(key: str, value: float, *, at: float = 100.0, expires_at: float = 107.0) -> Batch:
    samples = (Sample("npu_power_watts", (key,), value),)
    return Batch(source="fake", group="fast", key=key, at=at, expires_at=expires_at, samples=samples)


class FakeSource:
    """Gives what the test put into it."""

    name = "fake"

    def __init__(self, interval_s: float = 1.0) -> None:
        self.intervals = {"fast": interval_s}
        self.next = Sampled()
        self.asked = 0
        self.on_sample: Callable[[], None] = lambda: None

    async def sample(self, group: str) -> Sampled:
        self.asked += 1
        self.on_sample()
        return self.next


def no_judge(snapshot: Snapshot) -> Sequence[Sample]:
    return ()


def sampler_of(source: FakeSource, clock: Callable[[], float]) -> tuple[Sampler, Latest[Snapshot]]:
    latest: Latest[Snapshot] = Latest()
    return Sampler((source,), latest, no_judge, clock, lambda: 1_800_000_000.0), latest


def published(latest: Latest[Snapshot]) -> Snapshot:
    snapshot = latest.get()
    assert snapshot is not None
    return snapshot


async def test_a_round_is_published_at_once() -> None:
    source = FakeSource()
    sampler, latest = sampler_of(source, Clock())
    source.next = Sampled(batches=(batch("0", 73.9),))
    await sampler.round(source, "fast")
    assert published(latest).samples("npu_power_watts") == (Sample("npu_power_watts", ("0",), 73.9),)


async def test_a_device_that_says_nothing_new_keeps_its_value_until_it_is_too_old() -> None:
    clock, source = Clock(), FakeSource()
    sampler, latest = sampler_of(source, clock)
    source.next = Sampled(batches=(batch("0", 1.0), batch("1", 2.0)))
    await sampler.round(source, "fast")
    clock.now = 107.0
    source.next = Sampled(batches=(batch("1", 3.0, at=107.0, expires_at=114.0),))
    await sampler.round(source, "fast")
    still = {sample.labels[0]: sample.value for sample in published(latest).samples("npu_power_watts")}
    clock.now = 107.5
    sampler.publish()
    later = {sample.labels[0]: sample.value for sample in published(latest).samples("npu_power_watts")}
    assert (still, later) == ({"0": 1.0, "1": 3.0}, {"1": 3.0})


async def test_a_published_snapshot_does_not_change_when_the_next_one_comes() -> None:
    source = FakeSource()
    sampler, latest = sampler_of(source, Clock())
    source.next = Sampled(batches=(batch("0", 1.0),))
    await sampler.round(source, "fast")
    first = published(latest)
    source.next = Sampled(batches=(batch("0", 2.0),))
    await sampler.round(source, "fast")
    assert first.samples("npu_power_watts")[0].value == 1.0


async def test_a_failed_round_is_told_and_remembers_the_last_good_one() -> None:
    clock, source = Clock(), FakeSource()
    sampler, latest = sampler_of(source, clock)
    await sampler.round(source, "fast")
    clock.now = 103.0
    source.next = Sampled(reason="no NPU library")
    await sampler.round(source, "fast")
    (state,) = published(latest).sources
    assert (state.success, state.reason, state.last_success_at) == (False, "no NPU library", 100.0)


def test_a_series_given_twice_is_shown_once() -> None:
    first = batch("0", 1.0)
    again = replace(first, group="tool", samples=batch("0", 2.0).samples)
    shelves = [Shelf(each, by_family(each.samples)) for each in (first, again)]
    assert assemble(shelves)["npu_power_watts"] == (Sample("npu_power_watts", ("0",), 1.0),)


def test_what_the_judge_says_is_on_the_same_snapshot() -> None:
    source = FakeSource()
    latest: Latest[Snapshot] = Latest()

    def judge(snapshot: Snapshot) -> Sequence[Sample]:
        return (Sample("npumond_rule_state", ("R",), 2.0), Sample("npumond_rule_state", ("S",), 0.0))

    sampler = Sampler((source,), latest, judge, Clock(), lambda: 0.0)
    sampler.publish()
    assert [sample.labels for sample in published(latest).samples("npumond_rule_state")] == [("R",), ("S",)]


async def test_a_source_that_is_slower_than_its_interval_misses_slots_and_they_are_counted() -> None:
    source = FakeSource(interval_s=0.01)
    sampler, _ = sampler_of(source, time.monotonic)
    enough = asyncio.Event()

    def block() -> None:
        time.sleep(0.035)  # the point of the test: a round that takes three and a half slots
        if source.asked == 3:
            enough.set()

    source.on_sample = block
    running = asyncio.create_task(sampler.run())
    await asyncio.wait_for(enough.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sampler.missed["fake", "fast"] >= 4
    assert sampler.lag_s >= 0.0


async def test_an_error_that_no_source_expects_ends_the_sampler() -> None:
    source = FakeSource()
    sampler, _ = sampler_of(source, time.monotonic)

    def fail() -> None:
        raise ZeroDivisionError

    source.on_sample = fail
    with pytest.raises(ExceptionGroup) as caught:
        await sampler.run()
    assert caught.group_contains(ZeroDivisionError)
