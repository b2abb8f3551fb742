"""The opt-in source of ACL round trips: one short-lived process a chip and round, one chip after another.

Opening a context costs HBM and some seconds (see `npumond.worker.probe`), so never two at once, and a chip that did not
answer is left alone for a while: a process that hangs in the kernel cannot be ended, and they must not pile up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from npumond.catalog import BY_NAME
from npumond.model import Batch, Device, DriverFacts, PhyId, Sample
from npumond.sources.histogram import Histogram
from npumond.sources.source import Sampled, lasting_batch
from npumond.worker.prober import ProbeResult

Probe = Callable[[Device], Awaitable[ProbeResult]]

ROUNDS_LEFT_OUT = 10
"""How many rounds a chip is left alone after a probe that timed out."""


class RoundtripSource:
    """Keeps a histogram of round trips for each chip, and the chip's memory where DCMI does not tell it."""

    name = "roundtrip"

    def __init__(
        self, interval_s: float, facts: Callable[[], DriverFacts | None], probe: Probe, clock: Callable[[], float]
    ) -> None:
        self._interval_s = interval_s
        self._facts = facts
        self._probe = probe
        self._clock = clock
        self._histograms: dict[PhyId, Histogram] = {}
        self._left_out: dict[PhyId, int] = {}

    @property
    def intervals(self) -> dict[str, float]:
        """One group, at the interval of the probe."""
        return {"slow": self._interval_s}

    async def sample(self, group: str) -> Sampled:
        """Probe every chip in turn. The reason names each chip that gave no round trip, and why."""
        facts = self._facts()
        if facts is None:
            return Sampled(reason="no driver is open")
        batches: list[Batch] = []
        failures: list[str] = []
        for device in facts.devices:
            result = await self._probe_unless_left_out(device)
            if result is None:
                failures.append(f"device {device.phy_id}: left alone after a probe that timed out")
                continue
            if result.kind != "ok":
                code = "" if result.error is None else f" ({result.error})"
                failures.append(f"device {device.phy_id}: {result.detail}{code}")
            batches.append(self._batch(group, facts, result))
        return Sampled(batches=tuple(batches), reason="; ".join(failures))

    async def _probe_unless_left_out(self, device: Device) -> ProbeResult | None:
        if (left := self._left_out.get(device.phy_id, 0)) > 0:
            self._left_out[device.phy_id] = left - 1
            return None
        result = await self._probe(device)
        if result.kind == "timeout":
            self._left_out[device.phy_id] = ROUNDS_LEFT_OUT
        return result

    def _batch(self, group: str, facts: DriverFacts, result: ProbeResult) -> Batch:
        labels = (str(result.phy_id),)
        histogram = self._histograms.get(result.phy_id)
        if histogram is None:
            histogram = self._histograms[result.phy_id] = Histogram(BY_NAME["npu_roundtrip_seconds"], labels)
        for roundtrip_s in result.roundtrips_s:
            histogram.observe(roundtrip_s)
        memory = _memory(labels, result) if facts.backend == "acl" else []
        samples = (*histogram.samples(), *memory)
        return lasting_batch(self.name, group, self._clock(), self._interval_s, samples, key=labels[0])


def _memory(labels: tuple[str, ...], result: ProbeResult) -> list[Sample]:
    """HBM as ACL's allocator sees it: free and total of the whole chip without what the system reserves."""
    if result.memory_free is None or not result.memory_total:
        return []
    used = result.memory_total - result.memory_free
    return [
        Sample("npu_hbm_used_bytes", labels, float(used)),
        Sample("npu_hbm_utilization_ratio", labels, used / result.memory_total),
    ]
