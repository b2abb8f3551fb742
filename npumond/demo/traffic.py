"""What the made-up inference servers are asked, and how each request fares: a function of the second and a seed.

Why each second draws from a generator of its own: the same second has the same requests in every process and however
often, or seldom, somebody looks. Nothing has to run in between.

The two servers show two kinds of node. `FAST` is a small model whose requests take 40 to 80 ms, so that vLLM's bounds
at 0.1 and 0.2 s tell a good minute from a bad one; its bad spells are short, and alerts that wait for five minutes
stay pending. `CHAT` is a big model that takes seconds, for which a P99 of 100 ms is the wrong rule and MindIE's lowest
bound of 1 s says so with certainty; its failures last longer than the five minutes that the rule waits, so that
this alert is seen to fire and to resolve.
"""

from __future__ import annotations

import math
import random
from typing import Literal

from msgspec import Struct

Outcome = Literal["stop", "length", "error", "aborted", "refused"]
"""``error``: the server's fault, before the first token. ``aborted``: the client left half-way. ``refused``: by
validation, before it reached an engine. The others are answers."""

_STALL = 3.0
"""A step that also takes in another request's prompt is so much longer than others."""
_STALL_CHANCE = 0.25
_DISPATCH_S = 0.0004
"""What a request waits even where there is no queue."""


class Spell(Struct, frozen=True, kw_only=True):
    """Something that sets in ``start_s`` into each period and has gone ``length_s`` later, ramps included."""

    period_s: float
    start_s: float
    length_s: float
    ramp_s: float = 0.0

    def at(self, t: float) -> float:
        """Strength at second ``t``, 0 to 1."""
        x = t % self.period_s - self.start_s
        if not 0 <= x < self.length_s:
            return 0.0
        return min(1.0, x / self.ramp_s, (self.length_s - x) / self.ramp_s) if self.ramp_s else 1.0

    def touches(self, start: float, end: float) -> bool:
        """Whether any part of it lies in the seconds from ``start`` to ``end``."""
        into = (start - self.start_s) % self.period_s
        return into < self.length_s or into + end - start > self.period_s


class Traffic(Struct, frozen=True, kw_only=True):
    """The load of one server. Shares are from 0 to 1; tokens and durations are medians of log-normal draws."""

    per_second: float
    """Mean arrivals."""
    swing: float
    """How far the arrivals go up and down, as a share of the mean, within ``swing_period_s``."""
    swing_period_s: float
    slow: Spell
    slowdown: float
    """What every duration is multiplied with at the height of `slow`."""
    queue_s: float
    """What a request then waits on top."""
    failing: Spell
    failed_share: float
    """Of the requests within `failing`."""
    background_share: float
    """Of the requests at any other time that fail."""
    refused_share: float
    aborted_share: float
    prompt_tokens: int
    output_tokens: int
    output_spread: float
    """Sigma of the logarithm."""
    max_tokens: int
    """Answers are cut here."""
    prefill_s: float
    step_s: float
    """From token to token."""
    engines: int = 1


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One request. Times are seconds since the start, tokens are those that were made before it ended."""

    engine: int
    outcome: Outcome
    arrived_at: float
    started_at: float
    """When an engine took it from the queue."""
    first_at: float
    """First token; of an ``error``, when it broke."""
    finished_at: float
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    """Where the answer would be cut."""
    step_s: float
    stalls: int
    """Of the steps between its tokens, those that took `stall_s` and not ``step_s``."""
    preempted: bool

    @property
    def stall_s(self) -> float:
        """Length of a step that had to wait for another request's prompt."""
        return _STALL * self.step_s


FAST = Traffic(
    per_second=30,
    swing=0.35,
    swing_period_s=240,
    slow=Spell(period_s=300, start_s=60, length_s=100, ramp_s=6),
    slowdown=4.0,
    queue_s=0.12,
    failing=Spell(period_s=420, start_s=200, length_s=60),
    failed_share=0.02,
    background_share=0.00003,
    refused_share=0.003,
    aborted_share=0.002,
    prompt_tokens=180,
    output_tokens=8,
    output_spread=0.15,
    max_tokens=16,
    prefill_s=0.021,
    step_s=0.0042,
    engines=2,
)

CHAT = Traffic(
    per_second=3,
    swing=0.3,
    swing_period_s=360,
    slow=Spell(period_s=600, start_s=300, length_s=120, ramp_s=15),
    slowdown=2.5,
    queue_s=5.0,
    failing=Spell(period_s=1500, start_s=120, length_s=400),
    failed_share=0.06,
    # One failure in a minute of so few requests would already be under 99.9 %.
    background_share=0.0,
    refused_share=0.005,
    aborted_share=0.01,
    prompt_tokens=600,
    output_tokens=220,
    output_spread=0.5,
    max_tokens=800,
    prefill_s=0.35,
    step_s=0.028,
)


def rate(traffic: Traffic, t: float) -> float:
    """Arrivals a second at second ``t``."""
    return traffic.per_second * (1 + traffic.swing * math.sin(math.tau * t / traffic.swing_period_s))


def requests(traffic: Traffic, name: str, seed: int, second: int) -> list[Request]:
    """The requests that arrive in this second, in the order of their arrival: a Poisson process.

    ``name`` sets a server apart from others with the same seed.
    """
    source = random.Random(f"{seed}/{name}/{second}")  # noqa: S311 - a simulation, not a secret
    gaps = rate(traffic, second)
    arrived: list[Request] = []
    at = second + source.expovariate(gaps)
    while at < second + 1:
        arrived.append(request(traffic, source, at, _outcome(traffic, source, at)))
        at += source.expovariate(gaps)
    return arrived


def asked(traffic: Traffic, source: random.Random, at: float, max_tokens: int | None) -> Request:
    """What becomes of a request that somebody really sends at second ``at``: answered, or an error while it fails."""
    outcome: Outcome = "error" if source.random() < _failing_share(traffic, at) else "stop"
    return request(traffic, source, at, outcome, max_tokens)


def request(
    traffic: Traffic, source: random.Random, at: float, outcome: Outcome, max_tokens: int | None = None
) -> Request:
    """Draw the sizes of a request and work out its times from them and from how slow the server is just then."""
    strain = traffic.slow.at(at)
    limit = traffic.max_tokens if max_tokens is None else min(max_tokens, traffic.max_tokens)
    slowness = 1 + (traffic.slowdown - 1) * strain
    outcome, tokens = _answer(traffic, source, outcome, limit)
    step_s = slowness * traffic.step_s * source.lognormvariate(0, 0.08)
    stalls = 1 if tokens > 1 and source.random() < _STALL_CHANCE else 0
    started_at = at + _DISPATCH_S + traffic.queue_s * strain * source.lognormvariate(0, 0.3)
    first_at = started_at + slowness * traffic.prefill_s * source.lognormvariate(0, 0.15)
    return Request(
        engine=source.randrange(traffic.engines),
        outcome=outcome,
        arrived_at=at,
        started_at=started_at,
        first_at=first_at,
        finished_at=first_at + step_s * (max(0, tokens - 1) + (_STALL - 1) * stalls),
        prompt_tokens=max(1, round(traffic.prompt_tokens * source.lognormvariate(0, 0.4))),
        output_tokens=tokens,
        max_tokens=limit,
        step_s=step_s,
        stalls=stalls,
        preempted=source.random() < 0.03 * strain,
    )


def _answer(traffic: Traffic, source: random.Random, outcome: Outcome, limit: int) -> tuple[Outcome, int]:
    """How the answer ends, and its tokens."""
    wanted = max(1, round(traffic.output_tokens * source.lognormvariate(0, traffic.output_spread)))
    tokens = min(wanted, limit)
    match outcome:
        case "error" | "refused":
            return outcome, 0
        case "aborted":
            return outcome, max(1, tokens // 2)
    return ("length" if wanted > limit else "stop"), tokens


def _outcome(traffic: Traffic, source: random.Random, at: float) -> Outcome:
    drawn = source.random()
    for outcome, share in _shares(traffic, at):
        if drawn < share:
            return outcome
        drawn -= share
    return "stop"


def _shares(traffic: Traffic, at: float) -> tuple[tuple[Outcome, float], ...]:
    return (
        ("error", _failing_share(traffic, at)),
        ("refused", traffic.refused_share),
        ("aborted", traffic.aborted_share),
    )


def _failing_share(traffic: Traffic, at: float) -> float:
    strength = traffic.failing.at(at)
    return strength * traffic.failed_share + (1 - strength) * traffic.background_share
