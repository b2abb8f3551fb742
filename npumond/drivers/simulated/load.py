"""What the simulated chips are asked to do, as functions of the seconds since the start.

Why closed forms and no random walk: the same second gives the same load in every process and however often it is asked,
and a curve's integral is known too, so that a counter of bytes agrees with the bandwidth beside it without any state.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct, structs


class Pulse(Struct, frozen=True, kw_only=True):
    """A trapezoid that returns: it begins to rise at ``start_s`` of each period and to fall ``length_s`` later.

    It must end within its period: ``start_s + length_s + fall_s <= period_s``.
    """

    height: float
    period_s: float
    start_s: float = 0.0
    length_s: float
    rise_s: float = 2.0
    fall_s: float = 2.0

    def at(self, t: float) -> float:
        """Value at second ``t``."""
        x = t % self.period_s - self.start_s
        return self.height * (_ramp(x, self.rise_s) - _ramp(x - self.length_s, self.fall_s))

    def area(self, t: float) -> float:
        """Integral from 0 to ``t``."""
        rounds, x = divmod(t, self.period_s)
        x -= self.start_s
        whole = self.length_s + (self.fall_s - self.rise_s) / 2
        if x >= self.length_s + self.fall_s:
            # Exactly flat until the next pulse: a counter that lost one to rounding would look like a reset.
            return self.height * ((rounds + 1) * whole)
        part = _ramp_area(x, self.rise_s) - _ramp_area(x - self.length_s, self.fall_s)
        return self.height * (rounds * whole + part)


class Swell(Struct, frozen=True, kw_only=True):
    """A sine: the day of a service, pressed into minutes."""

    height: float
    period_s: float

    def at(self, t: float) -> float:
        """Value at second ``t``."""
        return self.height * math.sin(math.tau * t / self.period_s)

    def area(self, t: float) -> float:
        """Integral from 0 to ``t``."""
        return self.height * self.period_s / math.tau * (1 - math.cos(math.tau * t / self.period_s))


class Curve(Struct, frozen=True):
    """A level with pulses and swells on it. What drives a counter must never be below zero."""

    level: float
    terms: tuple[Pulse | Swell, ...] = ()

    def at(self, t: float) -> float:
        """Value at second ``t``."""
        value = self.level
        for term in self.terms:
            value += term.at(t)
        return value

    def area(self, t: float) -> float:
        """Integral from 0 to ``t``."""
        value = self.level * t
        for term in self.terms:
            value += term.area(t)
        return value

    def mean(self, t: float, window_s: float) -> float:
        """Mean over the last ``window_s`` seconds: what a thing that lags behind the curve shows."""
        return (self.area(t) - self.area(t - window_s)) / window_s


class Job(Struct, frozen=True, kw_only=True):
    """What runs on a chip. Shares are from 0 to 1; rates are bytes a second in one direction while traffic is 1."""

    aicore: Curve
    """Share of time in which the AI Cores are busy."""
    hbm: Curve
    """Share of the HBM held by the processes, the cache left out; while it is zero there are no processes."""
    traffic: Curve
    cache: float = 0.0
    """Share of the HBM that the cache of keys and values would take at full load."""
    cube: float = 0.95
    """Busy time of the Cube units as a share of the AI Cores' own; `vector` and `bandwidth` likewise."""
    vector: float = 0.45
    bandwidth: float = 0.6
    watts: float = 240.0
    """What full load adds to the power of an idle chip."""
    processes: int = 1
    roce: float = 0.0
    hccs: float = 0.0
    """For each of the links between the chips."""
    pcie: float = 0.0
    offset_s: float = 0.0
    """Where in its curves the job is at second 0."""
    phase: Literal["given", "node", "chip"] = "given"
    """Whether the seed moves the start: not at all, on all chips alike (they share the job), or on each by its own."""
    restart_s: float = math.inf
    """The processes are new ones every so many seconds."""


class Fault(Struct, frozen=True, kw_only=True):
    """Something that breaks, again and again: ``first_at`` seconds after the start and then every ``period_s``."""

    code: str
    """Eight hexadecimal digits (reference: dcmi.md, section 11.2)."""
    part: Literal["hbm", "link"]
    """``hbm``: an uncorrectable ECC error each time. ``link``: the Ethernet port is down while it lasts."""
    health: int
    first_at: float
    period_s: float
    lasts_s: float = math.inf

    def count(self, t: float) -> int:
        """How often it has happened by second ``t``."""
        return 0 if t < self.first_at else 1 + int((t - self.first_at) / self.period_s)

    def active(self, t: float) -> bool:
        """Whether it shows at second ``t``."""
        return t >= self.first_at and (t - self.first_at) % self.period_s < self.lasts_s

    def recoveries(self, t: float) -> int:
        """How often it has gone away by second ``t``."""
        return 0 if math.isinf(self.lasts_s) else self.count(t - self.lasts_s)


class Role(Struct, frozen=True, kw_only=True):
    """A job on a chip in its place: how well that is cooled, and what breaks there."""

    job: Job
    cooling: Curve = Curve(0.105)
    """Kelvin above the inlet air for each watt; it may change slowly."""
    faults: tuple[Fault, ...] = ()


# The checkpoint falls between two waits for data (seconds 45 and 70), so that the load stays above zero.
_CHECKPOINT = Pulse(height=-0.85, period_s=150, start_s=50, length_s=12)
_DATA_WAIT = Pulse(height=-0.45, period_s=25, start_s=20, length_s=1.5, rise_s=1, fall_s=1)
_STEPS = Curve(0.94, (_CHECKPOINT, _DATA_WAIT))
_BURST = Pulse(height=0.15, period_s=37, start_s=5, length_s=7)
_DAY = Swell(height=0.25, period_s=240)
_REQUESTS = Curve(0.55, (_DAY, _BURST))

_TRAINING = Job(
    aicore=_STEPS,
    hbm=Curve(0.80, (Pulse(height=-0.10, period_s=150, start_s=50, length_s=13),)),
    traffic=_STEPS,
    roce=6.5e9,
    hccs=9.0e9,
    pcie=2.5e9,
    phase="node",
)

# No checkpoints: in one of them the chip would cool, and a rule that wants five hot minutes on end would never fire.
_PRETRAINING = structs.replace(
    _TRAINING, aicore=Curve(0.92, (_DATA_WAIT,)), hbm=Curve(0.80), traffic=Curve(0.92, (_DATA_WAIT,))
)

_SERVING = Job(
    aicore=_REQUESTS,
    hbm=Curve(0.46),
    traffic=_REQUESTS,
    cache=0.34,
    cube=0.55,
    vector=0.70,
    bandwidth=0.85,
    watts=190,
    processes=2,
    roce=0.4e9,
    hccs=3.0e9,
    pcie=1.2e9,
    phase="chip",
)

_IDLE = Job(aicore=Curve(0.0), hbm=Curve(0.0), traffic=Curve(0.0), processes=0)

_UNDERUSED = Job(
    aicore=Curve(0.22, (Pulse(height=0.2, period_s=20, start_s=3, length_s=4),)),
    hbm=Curve(0.35),
    traffic=Curve(0.2),
    cube=0.4,
    vector=0.6,
    pcie=3.0e9,
    phase="chip",
)

_LIFE_S = 240.0
_LEAK_PERIOD_S = 300.0


def _while_alive(height: float, start_s: float, rise_s: float) -> Pulse:
    """Something a leaking job takes at ``start_s`` of its life and gives back when it is killed."""
    return Pulse(
        height=height, period_s=_LEAK_PERIOD_S, start_s=start_s, length_s=_LIFE_S - start_s, rise_s=rise_s, fall_s=1
    )


# Weights, then a cache that fills, then the leak proper: at 0.92 with the chip's own share when the simulation starts,
# over 0.97 some 40 seconds later, killed for want of memory after 170, and back a minute after that.
_LEAKING = Job(
    aicore=Curve(0.0, (_while_alive(0.78, 25, 5),)),
    hbm=Curve(0.0, (_while_alive(0.50, 0, 25), _while_alive(0.37, 25, 45), _while_alive(0.07, 70, 60))),
    traffic=Curve(0.0, (_while_alive(0.8, 25, 5),)),
    cube=0.55,
    vector=0.70,
    bandwidth=0.85,
    watts=190,
    roce=0.4e9,
    hccs=3.0e9,
    pcie=1.2e9,
    offset_s=70,
    restart_s=_LEAK_PERIOD_S,
)

_FAULT_AT_S = 10.0
_FAULT_PERIOD_S = 240.0
_RESTART_AFTER_S = 35.0


def _until_fault(height: float) -> Curve:
    """Something that a stricken job has from its restart to the next fault."""
    length_s = _FAULT_PERIOD_S - _RESTART_AFTER_S
    return Curve(0.0, (Pulse(height=height, period_s=_FAULT_PERIOD_S, length_s=length_s, rise_s=8, fall_s=1),))


# The uncorrectable error kills the job; it is started again half a minute later, as the vendor's handling class of
# that code asks (RestartBusiness).
_STRICKEN = Job(
    aicore=_until_fault(0.90),
    hbm=_until_fault(0.74),
    traffic=_until_fault(0.90),
    roce=6.5e9,
    hccs=9.0e9,
    pcie=2.5e9,
    offset_s=_FAULT_PERIOD_S - _RESTART_AFTER_S - _FAULT_AT_S,
    restart_s=_FAULT_PERIOD_S,
)

# Down from the first second on, so that the first slow round shows it; long enough for a rule that wants three of them.
_LINK_DOWN_S = 200.0
_LINK_PERIOD_S = 300.0
_OFF_THE_NET = Job(
    aicore=_REQUESTS,
    hbm=Curve(0.60),
    traffic=Curve(
        0.0,
        (
            Pulse(
                height=0.7,
                period_s=_LINK_PERIOD_S,
                start_s=_LINK_DOWN_S,
                length_s=_LINK_PERIOD_S - _LINK_DOWN_S - 2,
            ),
        ),
    ),
    cube=0.55,
    vector=0.70,
    watts=190,
    roce=0.4e9,
    pcie=1.2e9,
)


def _uncorrectable(lasts_s: float) -> Fault:
    return Fault(code="80E01801", part="hbm", health=2, first_at=_FAULT_AT_S, period_s=_FAULT_PERIOD_S, lasts_s=lasts_s)


_PORT_DOWN = Fault(code="81078603", part="link", health=1, first_at=0, period_s=_LINK_PERIOD_S, lasts_s=_LINK_DOWN_S)

TRAINING = Role(job=_TRAINING)
SERVING = Role(job=_SERVING)
IDLE = Role(job=_IDLE)
LEAKING = Role(job=_LEAKING)
UNDERUSED = Role(job=_UNDERUSED)
HOT = Role(job=_PRETRAINING, cooling=Curve(0.24, (Swell(height=0.075, period_s=900),)))
"""Training where the air does not come through: hot enough to throttle for two thirds of every quarter of an hour."""
BROKEN = Role(job=_STRICKEN, faults=(_uncorrectable(math.inf),))
FLAKY = Role(job=_STRICKEN, faults=(_uncorrectable(100.0),))
"""Like `BROKEN`, but the code goes away after a while, so that its alert is seen to resolve."""
UNLINKED = Role(job=_OFF_THE_NET, faults=(_PORT_DOWN,))

SCENARIOS: dict[str, tuple[Role, ...]] = {
    "busy": (TRAINING,),
    "idle": (IDLE,),
    "oom": (LEAKING, TRAINING, SERVING, TRAINING),
    "fault": (BROKEN, UNLINKED, TRAINING, SERVING, TRAINING, TRAINING, SERVING, IDLE),
    "mixed": (TRAINING, TRAINING, SERVING, LEAKING, FLAKY, HOT, UNDERUSED, IDLE),
}
"""Roles of the chips in the order of their numbers; more chips than roles begin again at the first."""


def _ramp(x: float, width: float) -> float:
    """From 0 at 0 to 1 at ``width``."""
    return 0.0 if x <= 0 else 1.0 if x >= width else x / width


def _ramp_area(x: float, width: float) -> float:
    """Integral of `_ramp` up to ``x``."""
    return 0.0 if x <= 0 else x - width / 2 if x >= width else x * x / (2 * width)
