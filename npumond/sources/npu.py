"""The source of everything about the chips: asks the worker, turns rounds into samples, tells who is up.

Groups: ``fast``, ``normal`` and ``slow`` are lanes of each device; ``tool`` is the node's single lane for hccn_tool and
runs at the slow interval. A device that owes an answer is not asked again, and nobody waits for it: its samples expire,
and `npu_device_up` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from npumond.catalog import BY_NAME
from npumond.config.settings import Config
from npumond.errors import WorkerGone
from npumond.model import Batch, CallOutcome, Device, DeviceRound, DeviceState, DriverFacts, Lane, PhyId, Sample
from npumond.sources.faultbook import FaultBook
from npumond.sources.histogram import Histogram
from npumond.sources.readings import ReadingMap, identity_sample
from npumond.sources.source import Sampled
from npumond.worker.client import WorkerProcess
from npumond.worker.event_protocol import FaultRaised
from npumond.worker.supervisor import Supervisor

NOT_READY = -8012
"""The vendor's return code of a chip that boots, is reset or is lost."""

LANE_PATIENCE_S = 10.0
"""Longest wait for a round of a lane: one device that hangs keeps the others' readings off the page for no longer."""

MOST_PATIENCE_S = 30.0
"""Longest wait for a round of the tool, which is run some dozens of times, one after another."""


class NpuSettings(Struct, frozen=True, kw_only=True):
    """What the source needs to know of the configuration. Durations in seconds."""

    fast_s: float = 1.0
    normal_s: float = 5.0
    slow_s: float = 60.0
    call_timeout_s: float = 5.0
    aliases: bool = True
    top_processes: int = 16
    keep_outcomes: bool = False
    """For people who ask why something is missing; a daemon has no use for some thousand raw readings."""

    def stale_after_s(self, interval_s: float) -> float:
        """The age at which a reading of a group with this interval is no longer shown or believed."""
        return 2 * interval_s + self.call_timeout_s

    @classmethod
    def of(cls, config: Config) -> NpuSettings:
        """What the configuration says."""
        return cls(
            fast_s=config.sampling.fast,
            normal_s=config.sampling.normal,
            slow_s=config.sampling.slow,
            call_timeout_s=config.driver.call_timeout,
            aliases=config.metrics.aliases,
        )


class _FastRound(Struct, frozen=True):
    """What the last fast round of a device said about its being there."""

    at: float
    answers: bool
    reason: str


class NpuSource:
    """Samples every chip through the worker that the supervisor keeps."""

    name = "npu"

    def __init__(self, supervisor: Supervisor, settings: NpuSettings, clock: Callable[[], float]) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._known: dict[PhyId, Device] = {}
        self._last_fast: dict[PhyId, _FastRound] = {}
        self._energy = _Energy()
        self._queries: dict[PhyId, Histogram] = {}
        self._support: dict[PhyId, dict[str, bool]] = {}
        self._lanes_seen: dict[PhyId, set[Lane]] = {}
        self._slow_done = False
        self.calls: Counter[tuple[str, str]] = Counter()
        """Vendor calls by name and outcome, since the start."""
        self.outcomes: dict[tuple[PhyId, str], CallOutcome] = {}
        """The newest outcome of every call on every device where ``keep_outcomes`` is set."""
        self.faults = FaultBook(settings.normal_s, settings.stale_after_s(settings.normal_s))
        """Which faults are active, from polls and events."""
        self.configure(settings)

    def configure(self, settings: NpuSettings) -> None:
        """Take new settings; rounds under way finish under the old ones."""
        self._settings = settings
        self.faults.configure(settings.normal_s, settings.stale_after_s(settings.normal_s))
        self._map = ReadingMap(process_name, settings.top_processes, settings.aliases)

    @property
    def intervals(self) -> dict[str, float]:
        """Group to interval in seconds; the tool runs as often as the slow lane."""
        settings = self._settings
        return {"fast": settings.fast_s, "normal": settings.normal_s, "slow": settings.slow_s, "tool": settings.slow_s}

    def heard(self, event: FaultRaised) -> None:
        """The driver told of a fault; see `FaultBook.heard`."""
        self.faults.heard(event, {device.logic_id: device.phy_id for device in self._known.values()})

    async def sample(self, group: str) -> Sampled:
        """One round of one lane over all devices that owe no answer."""
        lane = _lane(group)
        interval_s = self.intervals[group]
        patience_s = min(interval_s / 2, MOST_PATIENCE_S if lane == "tool" else LANE_PATIENCE_S)
        worker = await self._supervisor.available(patience_s)
        facts = self._supervisor.facts
        if worker is None or facts is None:
            return self._without_worker(lane)
        if lane == "tool" and not self._slow_done:
            return Sampled()  # only after the slow lanes is it known what the tool has to stand in for
        devices = {device.phy_id: device for device in facts.devices}
        try:
            rounds = await worker.round(lane, tuple(devices), patience_s)
        except WorkerGone as error:
            return Sampled(devices=self._states(facts, None), reason=str(error))
        self._slow_done |= lane == "slow"
        batches = [
            self._device_batch(devices[done.phy_id], done, interval_s) for done in rounds if done.phy_id in devices
        ]
        return self._sampled(lane, facts, worker, batches, rounds)

    # What is said of the node.

    def _sampled(
        self, lane: Lane, facts: DriverFacts, worker: WorkerProcess, batches: list[Batch], rounds: Sequence[DeviceRound]
    ) -> Sampled:
        reason = "" if any(_answers(done) for done in rounds) or lane != "fast" else "no chip answered"
        if lane == "normal":
            batches.append(self._support_batch())
        if lane != "fast":
            return Sampled(batches=tuple(batches), reason=reason)
        states = self._states(facts, worker)
        self._supervisor.note_up(frozenset(state.device.phy_id for state in states if state.up))
        batches.append(self._node_batch(facts, states))
        return Sampled(batches=tuple(batches), devices=states, reason=reason)

    def _without_worker(self, lane: Lane) -> Sampled:
        facts = self._supervisor.facts
        reason = self._supervisor.trouble or "no worker"
        if lane != "fast":
            return Sampled(reason=reason)
        if facts is None:
            seen_none = self._batch(
                "fast", "node", self._clock(), self._settings.fast_s, [_node("npu_devices_seen", 0.0)]
            )
            return Sampled(batches=(seen_none,), reason=reason)
        states = self._states(facts, None)
        return Sampled(batches=(self._node_batch(facts, states),), devices=states, reason=reason)

    def _node_batch(self, facts: DriverFacts, states: Sequence[DeviceState]) -> Batch:
        samples = [
            Sample("npu_driver_info", (facts.driver_version, facts.dcmi_version, facts.api), 1.0),
            _node("npu_devices_expected", float(self._supervisor.expected)),
            _node("npu_devices_seen", float(sum(state.up for state in states))),
        ]
        for state in states:
            device_id = (str(state.device.phy_id),)
            samples.append(identity_sample(state.device))
            samples.append(Sample("npu_device_up", device_id, float(state.up)))
            if state.device.aicore_count is not None:
                samples.append(Sample("npu_aicores", device_id, float(state.device.aicore_count)))
        now = self._clock()
        return self._batch("fast", "node", now, self._settings.fast_s, [*samples, *self.faults.samples(now)])

    def _states(self, facts: DriverFacts, worker: WorkerProcess | None) -> tuple[DeviceState, ...]:
        """Every chip that was ever identified; one that the driver no longer lists is down and keeps its number."""
        listed = {device.phy_id: device for device in facts.devices}
        self._known.update(listed)
        return tuple(
            self._state(device, worker)
            if phy_id in listed
            else DeviceState(device, up=False, reason="no longer in the driver's card list")
            for phy_id, device in sorted(self._known.items())
        )

    def _state(self, device: Device, worker: WorkerProcess | None) -> DeviceState:
        reason = self._why_down(device.phy_id, worker)
        return DeviceState(device, up=not reason, reason=reason)

    def _why_down(self, phy_id: PhyId, worker: WorkerProcess | None) -> str:
        if worker is None:
            return self._supervisor.trouble or "no worker"
        owed_since = worker.outstanding_since(phy_id, "fast")
        if owed_since is not None and self._clock() - owed_since > self._settings.call_timeout_s:
            calls = [busy.call for busy in worker.busy if (busy.phy_id, busy.lane) == (phy_id, "fast")]
            where = f" in {calls[0]}" if calls else ""
            return f"no answer for {self._clock() - owed_since:.0f} s{where}"
        last = self._last_fast.get(phy_id)
        if last is None:
            return "no round yet"
        return last.reason

    # What is said of one device.

    def _device_batch(self, device: Device, done: DeviceRound, interval_s: float) -> Batch:
        for outcome in done.outcomes:
            self.calls[outcome.call, outcome.kind] += 1
            if outcome.rejected and outcome.kind == "ok":
                self.calls[outcome.call, "rejected"] += 1
            if self._settings.keep_outcomes:
                self.outcomes[device.phy_id, outcome.call] = outcome
        samples = self._map.samples(device, done.outcomes)
        self._note_support(done, samples)
        self._note_faults(done)
        if done.lane == "fast":
            self._last_fast[device.phy_id] = _FastRound(done.at, _answers(done), _why_no_answer(done))
            self._note_lost(done)
            samples += self._derived(device, done, samples)
        return self._batch(done.lane, str(device.phy_id), done.at, interval_s, samples)

    def _derived(self, device: Device, done: DeviceRound, samples: Sequence[Sample]) -> list[Sample]:
        """Series made of the fast readings: energy, and the time that the queries took."""
        device_id = str(device.phy_id)
        histogram = self._queries.get(device.phy_id)
        if histogram is None:
            histogram = Histogram(BY_NAME["npu_query_duration_seconds"], (device_id,))
            self._queries[device.phy_id] = histogram
        for outcome in done.outcomes:
            histogram.observe(outcome.duration_s)
        watts = next((sample.value for sample in samples if sample.family == "npu_power_watts"), None)
        longest_gap_s = self._settings.stale_after_s(self._settings.fast_s)
        joules = self._energy.add(device.phy_id, done.at, watts, longest_gap_s)
        energy = [] if joules is None else [Sample("npu_energy_joules_total", (device_id,), joules)]
        return [*energy, *histogram.samples()]

    def _note_lost(self, done: DeviceRound) -> None:
        """A chip that only says "not ready" for a while is lost; one that boots or is reset is back sooner."""
        if not _answers(done) and any(outcome.code == NOT_READY for outcome in done.outcomes):
            self.faults.not_ready(done.phy_id, done.at)
        else:
            self.faults.ready(done.phy_id)

    def _note_faults(self, done: DeviceRound) -> None:
        for outcome in done.outcomes:
            if outcome.call == "dcmi_get_device_errorcode_v2" and outcome.kind == "ok":
                codes = [reading.key[0] for reading in outcome.readings if reading.key]
                self.faults.polled(done.phy_id, codes, done.at)

    def _note_support(self, done: DeviceRound, samples: Sequence[Sample]) -> None:
        self._support.setdefault(done.phy_id, {}).update(self._map.support(done, samples))
        self._lanes_seen.setdefault(done.phy_id, set()).add(done.lane)

    def _support_batch(self) -> Batch:
        """Which metrics each chip can give. What was never tried counts as lacking once every lane had its round."""
        samples = []
        for phy_id, known in self._support.items():
            complete = len(self._lanes_seen[phy_id]) == len(self.intervals)
            families = self._map.families() if complete else known.keys()
            device_id = str(phy_id)
            samples += [
                Sample("npumond_metric_supported", (family, device_id), float(known.get(family, False)))
                for family in sorted(families)
            ]
        return self._batch("normal", "support", self._clock(), self._settings.normal_s, samples)

    def _batch(self, group: str, key: str, at: float, interval_s: float, samples: Sequence[Sample]) -> Batch:
        expires_at = at + self._settings.stale_after_s(interval_s)
        return Batch(source=self.name, group=group, key=key, at=at, expires_at=expires_at, samples=tuple(samples))


class _Energy:
    """Joules by device: the integral of watts over the time in which they were known (trapezoids)."""

    def __init__(self) -> None:
        self._joules: dict[PhyId, float] = {}
        self._last: dict[PhyId, tuple[float, float]] = {}

    def add(self, phy_id: PhyId, at: float, watts: float | None, longest_gap_s: float) -> float | None:
        """Take a reading and return the joules so far; None while this device never gave its power.

        A gap longer than ``longest_gap_s`` is not bridged: what was drawn meanwhile is unknown.
        """
        if watts is not None:
            last = self._last.get(phy_id)
            gap_s = 0.0 if last is None else at - last[0]
            if last is None or gap_s > longest_gap_s:
                self._joules.setdefault(phy_id, 0.0)
            else:
                self._joules[phy_id] += gap_s * (watts + last[1]) / 2
            self._last[phy_id] = (at, watts)
        return self._joules.get(phy_id)


def process_name(pid: int) -> str:
    """Short name of a process on this host; empty when it cannot be seen (another pid namespace, or gone)."""
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes()
    except OSError:
        return ""
    return "".join(letter for letter in name.decode("utf-8", "replace").strip() if letter.isprintable())


def _lane(group: str) -> Lane:
    match group:
        case "fast" | "normal" | "slow" | "tool":
            return group
    raise ValueError(f"the npu source has no group {group!r}")


def _node(family: str, value: float) -> Sample:
    return Sample(family, (), value)


def _answers(done: DeviceRound) -> bool:
    return any(outcome.kind == "ok" for outcome in done.outcomes)


def _why_no_answer(done: DeviceRound) -> str:
    """Why a round without a single good answer had none; empty when it had one."""
    if _answers(done):
        return ""
    if not done.outcomes:
        return "none of the fast calls is supported by this chip and driver"
    kinds = Counter((outcome.kind, outcome.code) for outcome in done.outcomes)
    (kind, code), _ = kinds.most_common(1)[0]
    if kind == "rejected":
        return f"its answers cannot be true: {next(each.detail for each in done.outcomes if each.kind == kind)}"
    return f"{kind.replace('_', ' ')} ({code})"
