"""One round of everything without a daemon: what `npumond once` and `npumond devices` show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from npumond import api
from npumond.config.settings import Config
from npumond.errors import DriverError
from npumond.model import CallOutcome, DriverFacts, PhyId, Snapshot
from npumond.rules import Alert, Rule, RuleState, alert_json, evaluate
from npumond.sampler import by_family
from npumond.sources.npu import MOST_PATIENCE_S, NpuSettings, NpuSource
from npumond.worker.protocol import WorkerOptions
from npumond.worker.supervisor import Supervisor

ROUNDS_OF_ONCE = ("fast", "normal", "slow", "tool")


class Once(Struct, frozen=True, kw_only=True):
    """What one look at the node gave."""

    facts: DriverFacts
    snapshot: Snapshot
    alerts: tuple[Alert, ...]
    """Rules judged on this one snapshot; those that need time are pending at most."""
    outcomes: Mapping[tuple[PhyId, str], CallOutcome]
    """Every vendor call that was made, by device and call."""

    def as_json(self) -> api.Json:
        """What ``npumond once --json`` prints."""
        return {
            "driver": api.driver_json(self.facts, "", self.facts.searched),
            "devices": api.devices_json(self.snapshot),
            "alerts": [alert_json(alert) for alert in self.alerts],
            "samples": [api.sample_json(sample) for samples in self.snapshot.families.values() for sample in samples],
            "calls": [api.call_json(phy_id, outcome) for (phy_id, _), outcome in self.outcomes.items()],
        }


def once_settings(config: Config) -> NpuSettings:
    """Settings for one look: as patient as the longest call, since nobody waits for the next slot."""
    patience_s = 2 * config.driver.call_timeout
    usual = NpuSettings.of(config)
    return replace(usual, fast_s=patience_s, normal_s=patience_s, slow_s=2 * MOST_PATIENCE_S, keep_outcomes=True)


class Look:
    """A worker of our own for as long as the context lasts; each `take` is one look.

    Entering raises `DriverError` when there is no driver to look through.
    """

    def __init__(self, options: WorkerOptions, environ: Mapping[str, str], settings: NpuSettings) -> None:
        self._supervisor = Supervisor(options, environ, lambda event, fields: None)
        self._source = NpuSource(self._supervisor, settings, time.monotonic)
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._supervisor.run(), name="worker")
        await self._supervisor.settled()
        if self._supervisor.worker is None:
            await self.__aexit__()
            raise DriverError(self._supervisor.trouble, searched=self._supervisor.searched)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def take(self, rules: Sequence[Rule], groups: Sequence[str] = ROUNDS_OF_ONCE) -> Once:
        """One round of each group, judged. Raises `DriverError` when the worker ended meanwhile."""
        sampled = [await self._source.sample(group) for group in groups]
        facts = self._supervisor.facts
        if facts is None or self._supervisor.worker is None:
            raise DriverError(self._supervisor.trouble, searched=self._supervisor.searched)
        now = time.monotonic()
        snapshot = Snapshot(
            at=now,
            wall_at=time.time(),
            families=by_family(sample for part in sampled for batch in part.batches for sample in batch.samples),
            devices=next((part.devices for part in reversed(sampled) if part.devices is not None), ()),
        )
        state, _ = evaluate(rules, RuleState(), snapshot)
        return Once(facts=facts, snapshot=snapshot, alerts=state.alerts, outcomes=dict(self._source.outcomes))
