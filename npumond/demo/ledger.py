"""What a made-up server has counted up to a moment: all that its metrics page tells.

It is brought up to date when somebody asks (`Ledger.advance`), and costs nothing in between.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from npumond.demo.traffic import Request, Traffic, requests

MOST_SECONDS = 300
"""So many seconds are made up at once at most. What lies further back had no requests: after a night in which nobody
looked, an answer must not take minutes."""

SMOOTHING_S = 10
"""Over how many seconds, roughly, a throughput is told."""

REFUSAL_S = 0.002
"""How long it takes to see that a request is not valid."""

Bounds = Mapping[str, Sequence[float]]
"""Upper bounds of a server's histograms. Of what `_measures` tells, a server keeps those that it has bounds for."""


class Buckets:
    """One histogram: counts between its bounds, and the sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


class Engine:
    """Totals of one engine of a server."""

    def __init__(self, bounds: Bounds) -> None:
        self.histograms = {name: Buckets(each) for name, each in bounds.items()}
        self.finished: Counter[str] = Counter()
        """By outcome; an aborted request is in none of them."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        """Of the prompts, those that were found in the prefix cache."""
        self.output_tokens = 0
        self.preemptions = 0
        self.running = 0
        self.waiting = 0
        self.batch = 1
        """Requests that share a step, as of the last whole second."""
        self.held_tokens = 0
        """In the cache of keys and values now."""

    def observe(self, name: str, value: float, times: int = 1) -> None:
        """Count a value in this histogram, where the server has one of that name."""
        if buckets := self.histograms.get(name):
            buckets.observe(value, times)


class Ledger:
    """Totals of one server. Times are seconds since its start and must not go back.

    ``whole_ms``: durations are told in whole milliseconds, as MindIE measures them.
    """

    def __init__(self, traffic: Traffic, name: str, seed: int, bounds: Bounds, *, whole_ms: bool = False) -> None:
        self.t = 0.0
        self.received = 0
        self.http_statuses: Counter[str] = Counter()
        self.http = {name: Buckets(each) for name, each in bounds.items() if name.startswith("http")}
        own = {name: each for name, each in bounds.items() if name not in self.http}
        self.engines = tuple(Engine(own) for _ in range(traffic.engines))
        self.prompt_tokens_per_second = 0.0
        self.output_tokens_per_second = 0.0
        self._traffic = traffic
        self._name = name
        self._seed = seed
        self._whole_ms = whole_ms
        self._open: list[Request] = []
        self._next_second = 0
        self._tokens_before = (0, 0)

    def advance(self, t: float) -> None:
        """Count everything up to second ``t``."""
        last = math.floor(t)
        self._next_second = max(self._next_second, last - MOST_SECONDS)
        while self._next_second <= last:
            self._settle(float(self._next_second))
            self._tick()
            for request in requests(self._traffic, self._name, self._seed, self._next_second):
                self.take(request)
            self._next_second += 1
        self._settle(t)

    def take(self, request: Request) -> None:
        """A request has come, or comes later in this second."""
        self.received += 1
        if request.outcome == "refused":
            self._answered("4xx", REFUSAL_S)
        else:
            self._open.append(request)

    def _settle(self, t: float) -> None:
        """Count what became of the open requests since the last time."""
        if t <= self.t:
            return
        still_open = []
        for request in self._open:
            if self.t < request.first_at <= t and request.outcome != "error":
                self._first_token(request)
            if request.finished_at <= t:
                self._finished(request)
            else:
                still_open.append(request)
        self._open = still_open
        self.t = t
        self._look_at_engines(t)

    def _look_at_engines(self, t: float) -> None:
        for engine in self.engines:
            engine.running = engine.waiting = engine.held_tokens = 0
        for request in self._open:
            engine = self.engines[request.engine]
            if request.started_at <= t:
                engine.running += 1
                engine.held_tokens += request.prompt_tokens + request.output_tokens // 2
            elif request.arrived_at <= t:
                engine.waiting += 1

    def _first_token(self, request: Request) -> None:
        engine = self.engines[request.engine]
        cached = 3 * request.prompt_tokens // 10
        engine.prompt_tokens += request.prompt_tokens
        engine.cached_tokens += cached
        engine.observe("ttft", self._measured(request.first_at - request.arrived_at))
        engine.observe("computed_tokens", request.prompt_tokens - cached)
        engine.observe("iteration_tokens", request.prompt_tokens - cached + engine.batch)

    def _finished(self, request: Request) -> None:
        engine = self.engines[request.engine]
        engine.preemptions += request.preempted
        engine.output_tokens += request.output_tokens
        self._observe_steps(engine, request)
        if request.outcome == "aborted":
            # vLLM counts a client that left nowhere, and neither do the per-request histograms.
            return
        engine.finished[request.outcome] += 1
        self._answered("5xx" if request.outcome == "error" else "2xx", request.finished_at - request.arrived_at)
        if request.outcome != "error" or not self._whole_ms:
            for name, value in _measures(request):
                engine.observe(name, self._measured(value) if name.endswith("_s") else value)

    def _observe_steps(self, engine: Engine, request: Request) -> None:
        steps = max(0, request.output_tokens - 1)
        engine.observe("itl", self._measured(request.step_s), steps - request.stalls)
        engine.observe("itl", self._measured(request.stall_s), request.stalls)
        engine.observe("iteration_tokens", engine.batch, round(steps / engine.batch))

    def _answered(self, status: str, duration_s: float) -> None:
        self.http_statuses[status] += 1
        for buckets in self.http.values():
            buckets.observe(duration_s)

    def _measured(self, seconds: float) -> float:
        return round(seconds, 3) if self._whole_ms else seconds

    def _tick(self) -> None:
        """What changes with whole seconds alone, so that it does not matter who looked in between."""
        for engine in self.engines:
            engine.batch = max(1, engine.running)
        tokens = sum(each.prompt_tokens for each in self.engines), sum(each.output_tokens for each in self.engines)
        prompt, output = (now - then for now, then in zip(tokens, self._tokens_before, strict=True))
        self.prompt_tokens_per_second += (prompt - self.prompt_tokens_per_second) / SMOOTHING_S
        self.output_tokens_per_second += (output - self.output_tokens_per_second) / SMOOTHING_S
        self._tokens_before = tokens


def _measures(request: Request) -> Iterator[tuple[str, float]]:
    """What a server tells of a request when it ends; durations in seconds end in ``_s``."""
    yield "e2e_s", request.finished_at - request.arrived_at
    yield "queue_s", request.started_at - request.arrived_at
    yield "prefill_s", request.first_at - request.started_at
    yield "decode_s", request.finished_at - request.first_at
    yield "inference_s", request.finished_at - request.started_at
    yield "prompt_tokens", request.prompt_tokens
    yield "output_tokens", request.output_tokens
    yield "max_tokens", request.max_tokens
    yield "answers", 1
    if request.output_tokens > 1:
        yield "per_token_s", (request.finished_at - request.first_at) / (request.output_tokens - 1)
