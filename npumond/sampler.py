"""The sampler: one loop for each group of each source, on monotonic slots, and the snapshot made of what they give.

A slot that passes while the round before still runs is missed and counted, never made up for. Every finished round
makes a new snapshot out of the newest batches that are not too old; nothing waits in a queue.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from npumond.latest import Latest
from npumond.model import Batch, DeviceState, Sample, Snapshot, SourceState
from npumond.sources.source import Sampled, Source

Judge = Callable[[Snapshot], Sequence[Sample]]
"""Judges a snapshot by the rules and gives the samples that tell of it."""

BatchKey = tuple[str, str, str]


ByFamily = Mapping[str, tuple[Sample, ...]]


def by_family(samples: Iterable[Sample]) -> ByFamily:
    """Samples by family, in their order."""
    families: dict[str, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.family, []).append(sample)
    return {name: tuple(series) for name, series in families.items()}


class Shelf(NamedTuple):
    """A batch with its samples sorted by family once, since most batches are shown in many snapshots."""

    batch: Batch
    families: ByFamily


def assemble(shelves: Iterable[Shelf]) -> ByFamily:
    """Samples by family out of all batches. Of two samples of one series the first is kept.

    One series twice can only come from two batches of one key, where a stand-in call fills in for another.
    """
    parts: dict[str, dict[str, tuple[Sample, ...]]] = {}
    for shelf in shelves:
        for name, samples in shelf.families.items():
            by_key = parts.setdefault(name, {})
            known = by_key.get(shelf.batch.key)
            by_key[shelf.batch.key] = samples if known is None else _without_repeats((*known, *samples))
    return {name: tuple(chain.from_iterable(by_key.values())) for name, by_key in parts.items()}


def _without_repeats(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    first: dict[tuple[tuple[str, ...], str], Sample] = {}
    for sample in samples:
        first.setdefault((sample.labels, sample.suffix), sample)
    return tuple(first.values())


class Sampler:
    """Runs the sources and publishes snapshots."""

    def __init__(
        self,
        sources: Sequence[Source],
        latest: Latest[Snapshot],
        judge: Judge,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._sources = sources
        self._latest = latest
        self._judge = judge
        self._clock = clock
        self._wall_clock = wall_clock
        self._shelves: dict[BatchKey, Shelf] = {}
        self._devices: tuple[DeviceState, ...] = ()
        self._states: dict[tuple[str, str], SourceState] = {}
        self.missed: Counter[tuple[str, str]] = Counter()
        """Slots missed, by source and group."""
        self.lag_s = 0.0
        """How late the loop woke for its last slot."""

    @property
    def states(self) -> tuple[SourceState, ...]:
        """How the last round of every group of every source went."""
        return tuple(self._states.values())

    async def run(self) -> None:
        """Run every loop until cancelled. An error that no source expects ends them all."""
        async with asyncio.TaskGroup() as loops:
            for source in self._sources:
                for group in source.intervals:
                    loops.create_task(self._loop(source, group), name=f"sample-{source.name}-{group}")

    async def round(self, source: Source, group: str) -> None:
        """One round of one group, and the snapshot that follows from it."""
        started_at = self._clock()
        sampled = await source.sample(group)
        self._note(source.name, group, sampled, started_at)
        for batch in sampled.batches:
            self._shelves[batch.source, batch.group, batch.key] = Shelf(batch, by_family(batch.samples))
        if sampled.devices is not None:
            self._devices = sampled.devices
        self.publish()

    def publish(self) -> None:
        """Make a snapshot of the newest batches, judge it, and let the readers have it."""
        now = self._clock()
        self._shelves = {key: shelf for key, shelf in self._shelves.items() if shelf.batch.expires_at >= now}
        seen = self._snapshot(now, assemble(self._shelves.values()))
        verdicts = by_family(self._judge(seen))
        self._latest.set(self._snapshot(now, {**seen.families, **verdicts}))

    def _snapshot(self, now: float, families: ByFamily) -> Snapshot:
        return Snapshot(
            at=now, wall_at=self._wall_clock(), families=families, devices=self._devices, sources=self.states
        )

    def _note(self, source: str, group: str, sampled: Sampled, started_at: float) -> None:
        now = self._clock()
        before = self._states.get((source, group))
        success = not sampled.reason
        self._states[source, group] = SourceState(
            source=source,
            group=group,
            success=success,
            duration_s=now - started_at,
            ended_at=now,
            last_success_at=now if success else before.last_success_at if before is not None else None,
            reason=sampled.reason,
        )

    async def _loop(self, source: Source, group: str) -> None:
        slot = self._clock()
        while True:
            await asyncio.sleep(max(0.0, slot - self._clock()))
            self.lag_s = max(0.0, self._clock() - slot)
            await self.round(source, group)
            interval_s = source.intervals[group]
            slot += interval_s
            missed = max(0, int((self._clock() - slot) // interval_s))
            if missed:
                self.missed[source.name, group] += missed
                slot += missed * interval_s
