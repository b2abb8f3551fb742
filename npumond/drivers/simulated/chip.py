"""The chip under a simulated load: how its power, heat, clock and memory follow from what it is asked to do.

Numbers are those of an Ascend 910B3 with 64 GiB in an air-cooled server: idle ones from npu-smi (97.9 W, 34 degrees,
3408 MB on 0 % load), the loaded ones plausible, not measured.
"""

from __future__ import annotations

from msgspec import Struct

from npumond.drivers.simulated.load import Role
from npumond.model import Device

HBM_MB = 65536
RATED_MHZ = 1800
IDLE_MHZ = 800
RATED_WATTS = 400
LINKS = tuple(str(link) for link in range(1, 8))
"""HCCS links to the seven other chips; the vendor counts them from 1."""

_OWN_MB = 3390
"""HBM that the chip's own firmware takes."""
_IDLE_WATTS = 92.0
_INLET_CELSIUS = 25.0
_THROTTLE_CELSIUS = 90.0
_OVERSHOOT = 0.3
"""What throttling lets through of each degree above its limit."""
_FIRST_PID = 1 << 22
"""Linux never gives a pid above this, so none of ours is ever somebody's."""


class Process(Struct, frozen=True):
    """A process that does not exist but holds memory of the chip."""

    pid: int
    hbm_bytes: int


class Moment(Struct, frozen=True, kw_only=True, gc=False):
    """A chip in one second."""

    t: int
    """Seconds since the start."""
    aicore: float
    """Busy share of the AI Cores, 0 to 1; ``cube``, ``vector`` and ``bandwidth`` are shares too."""
    cube: float
    vector: float
    bandwidth: float
    hbm_mb: int
    job_mb: int
    """The part of ``hbm_mb`` that belongs to processes; 0 when there are none."""
    celsius: float
    watts: float
    clock_mhz: int
    throttled: bool
    idle: bool
    codes: tuple[str, ...]
    health: int
    """0 ok, 1 minor, 2 major, 3 critical."""
    link_up: bool


class Chip:
    """One simulated chip: everything about it is a function of the second."""

    def __init__(self, device: Device, role: Role, seed: int) -> None:
        self.device = device
        self.role = role
        self.key = _hash(seed, int(device.phy_id) + 1)
        """What sets this chip's noise apart from that of the others."""
        node_key = _hash(seed, 0)
        shift = {"given": 0, "node": node_key % 150, "chip": self.key % 600}[role.job.phase]
        self._offset_s = role.job.offset_s + shift
        self._latest: Moment | None = None

    def at(self, t: int) -> Moment:
        """The chip in second ``t``; the newest answer is kept, since a round asks for the same second many times."""
        latest = self._latest
        if latest is None or latest.t != t:
            # Two lanes may both get here; they put the same thing.
            latest = self._latest = self._work_out(t)
        return latest

    def jitter(self, stream: int, t: int) -> float:
        """Noise from -1 to 1, new in every second, its own for each ``stream``."""
        return _hash(self.key, stream, t) / 0x7FFFFFFF - 1

    def bytes_so_far(self, rate: float, t: int) -> float:
        """The integral of the job's traffic at ``rate`` bytes a second."""
        return rate * self.role.job.traffic.area(t + self._offset_s)

    def traffic(self, t: int) -> float:
        """The job's traffic now, as a share of its full rate."""
        return self.role.job.traffic.at(t + self._offset_s)

    def processes(self, moment: Moment) -> tuple[Process, ...]:
        """Who uses the chip; pids change when the job is started again."""
        count = self.role.job.processes if moment.job_mb else 0
        run = int((moment.t + self._offset_s) / self.role.job.restart_s)
        first = _FIRST_PID + 10_000 * (self.device.phy_id + 1) + 10 * run
        return tuple(Process(first + index, (moment.job_mb << 20) // count) for index in range(count))

    def uncorrectable(self, t: int) -> int:
        """Double-bit errors since the start."""
        return sum(fault.count(t) for fault in self.role.faults if fault.part == "hbm")

    def link_ups(self, t: int) -> int:
        """How often the Ethernet port came up."""
        return 1 + sum(fault.recoveries(t) for fault in self.role.faults if fault.part == "link")

    def _work_out(self, t: int) -> Moment:
        job = self.role.job
        asked = job.aicore.at(t + self._offset_s)
        aicore = _clamp(asked * (1 + 0.04 * self.jitter(1, t)), 0.0, 1.0)
        job_mb = self._job_mb(t)
        celsius, spared = self._heat(t)
        faults = [fault for fault in self.role.faults if fault.active(t)]
        idle = job_mb == 0
        return Moment(
            t=t,
            aicore=aicore,
            cube=aicore * job.cube,
            vector=aicore * job.vector * (1 + 0.05 * self.jitter(2, t)),
            bandwidth=aicore * job.bandwidth * (1 + 0.05 * self.jitter(3, t)),
            hbm_mb=_OWN_MB + self.key % 20 + job_mb,
            job_mb=job_mb,
            celsius=celsius,
            watts=_IDLE_WATTS + self.key % 6 + job.watts * aicore * spared + 1.5 * self.jitter(4, t),
            # Dynamic power goes with the clock and the square of a voltage that follows it part of the way.
            clock_mhz=IDLE_MHZ if idle else round(RATED_MHZ * spared**0.4),
            throttled=spared < 0.99,
            idle=idle,
            codes=tuple(fault.code for fault in faults),
            health=max((fault.health for fault in faults), default=0),
            link_up=all(fault.part != "link" for fault in faults),
        )

    def _job_mb(self, t: int) -> int:
        """HBM of the processes: what the job holds, and a cache that follows the load of the last half minute."""
        job = self.role.job
        share = job.hbm.at(t + self._offset_s)
        if share <= 0:
            return 0
        if job.cache:
            share += job.cache * job.aicore.mean(t + self._offset_s, 30)
        share *= 1 + 0.002 * self.jitter(5, t)
        return int(_clamp(share * HBM_MB, 0, HBM_MB - _OWN_MB - 64))

    def _heat(self, t: int) -> tuple[float, float]:
        """Temperature, and the share of the dynamic power that throttling leaves.

        Silicon follows the power within seconds and the heat sink within a minute, hence two means. Above its limit
        the chip takes the clock down just so far that the power that is left gives the temperature that is told.
        """
        job, resistance = self.role.job, self.role.cooling.at(t)
        x = t + self._offset_s
        load = 0.5 * job.aicore.mean(x, 10) + 0.5 * job.aicore.mean(x, 60)
        resting = _INLET_CELSIUS + self.key % 5 + resistance * _IDLE_WATTS
        wanted = resting + resistance * job.watts * load
        if wanted <= _THROTTLE_CELSIUS:
            return wanted, 1.0
        celsius = _THROTTLE_CELSIUS + _OVERSHOOT * (wanted - _THROTTLE_CELSIUS)
        return celsius, (celsius - resting) / (wanted - resting)


def _hash(*words: int) -> int:
    """32 well-mixed bits of some integers: Python's own ``hash`` is not made to look random, and `random` has state."""
    mixed = 0x9E3779B9
    for word in words:
        mixed = (mixed ^ word) & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 16) * 0x7FEB352D & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 15) * 0x846CA68B & 0xFFFFFFFF
        mixed ^= mixed >> 16
    return mixed


def _clamp(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
