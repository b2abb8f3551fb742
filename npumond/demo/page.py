"""The metrics pages of the made-up servers, line by line what vLLM and MindIE write.

Names, labels, bounds and the order within a family are theirs, so that what reads the page here reads the real one;
the help texts are our own words.

Sources: vLLM 0.2x, ``vllm/v1/metrics/loggers.py`` and prometheus-fastapi-instrumentator; MindIE-LLM server, metrics
page of its service; both in reference: inference-metrics.md, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from npumond.demo.ledger import Bounds, Buckets, Engine, Ledger

_REQUEST_S = (
    *(0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_TTFT_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_TOKEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_LATER_TOKEN_S = (*_TOKEN_S, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_TOKENS = (*(float(digit * 10**power) for power in range(4) for digit in (1, 2, 5)), 10000.0, 20000.0)
"""To a context of 32768 tokens."""

VLLM_BOUNDS: Bounds = {
    "prompt_tokens": _TOKENS,
    "output_tokens": _TOKENS,
    "computed_tokens": _TOKENS,
    "max_tokens": _TOKENS,
    "answers": (1.0, 2.0, 5.0, 10.0, 20.0),
    "iteration_tokens": (1.0, 8.0, *(float(1 << power) for power in range(4, 15))),
    "ttft": (*_TTFT_S, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
    "itl": _LATER_TOKEN_S,
    "per_token_s": _LATER_TOKEN_S,
    "e2e_s": _REQUEST_S,
    "queue_s": _REQUEST_S,
    "inference_s": _REQUEST_S,
    "prefill_s": _REQUEST_S,
    "decode_s": _REQUEST_S,
    "http_highr": (
        *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5),
        *(10.0, 30.0, 60.0),
    ),
    "http": (0.1, 0.5, 1.0),
}

_MINDIE_TOKENS = (10, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 16000, 20000, 32000, 50000, 64000, 128000)

MINDIE_BOUNDS: Bounds = {
    "ttft": _TTFT_S,
    "itl": _TOKEN_S,
    "e2e_s": (1, 2.5, 5, 10, 15, 20, 30, 40, 50, 60),
    "prompt_tokens": _MINDIE_TOKENS,
    "output_tokens": _MINDIE_TOKENS,
}


class Served(Struct, frozen=True, kw_only=True):
    """What a page tells of its server beside the totals."""

    model: str
    started_at: float
    """Unix seconds."""
    cache_tokens: int
    """Room in the cache of keys and values of one engine."""


Labels = tuple[tuple[str, str], ...]
"""Names and values; values are ours and need no escaping."""


def vllm_page(ledger: Ledger, served: Served) -> str:
    """The page of vLLM's API server, with one series an engine."""
    lines: list[str] = []
    for process_family in _PROCESS:
        value = process_family.value(ledger, served)
        lines += _family(process_family.name, process_family.kind, process_family.help, (((), value),))
    for gauge in _VLLM_GAUGES:
        lines += _family(gauge.name, "gauge", gauge.help, _engine_series(gauge, ledger, served))
    for counter in _VLLM_COUNTERS:
        series = _engine_series(counter, ledger, served)
        lines += _family(counter.name, "counter", counter.help, series)
        lines += _created(counter.name.removesuffix("_total"), counter.help, (each for each, _ in series), served)
    for name, text, key in _VLLM_HISTOGRAMS:
        lines += _engine_histogram(name, text, key, ledger, served)
    lines += _http(ledger, served)
    return "\n".join(lines) + "\n"


def mindie_page(ledger: Ledger, served: Served) -> str:
    """The page of a MindIE server: one engine, names without a prefix, the model as the only label."""
    labels = f'model_name="{served.model}"'
    lines: list[str] = []
    for row in _MINDIE:
        value = row.value(ledger, served)
        lines += (f"# HELP {row.name} {row.help}", f"# TYPE {row.name} {row.kind}")
        lines.append(f"{row.name}{{{labels}}} {value:.16g}")
    for name, text, key in _MINDIE_HISTOGRAMS:
        lines += (f"# HELP {name} {text}", f"# TYPE {name} histogram")
        buckets = ledger.engines[0].histograms[key]
        lines += (f"{name}_count{{{labels}}} {sum(buckets.counts)}", f"{name}_sum{{{labels}}} {buckets.sum:.16g}")
        bounds = (*(f"{bound:g}" for bound in buckets.bounds), "+Inf")
        for bound, total in zip(bounds, accumulate(buckets.counts), strict=True):
            lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {total}')
    return "\n".join(lines) + "\n"


class _Row(Struct, frozen=True):
    """A family of one series about the server as a whole."""

    name: str
    kind: str
    help: str
    value: Callable[[Ledger, Served], float]


class _EngineRow(Struct, frozen=True):
    """A vLLM family with series for each engine: for each, further labels and a value."""

    name: str
    help: str
    series: Callable[[Engine, Served], Iterable[tuple[Labels, float]]]


def _engine_row(name: str, text: str, value: Callable[[Engine], float]) -> _EngineRow:
    return _EngineRow(name, text, lambda engine, _served: (((), value(engine)),))


def _cache_use(engine: Engine, served: Served) -> float:
    return min(1.0, engine.held_tokens / served.cache_tokens)


def _by(label: str, values: Sequence[tuple[str, float]]) -> Iterator[tuple[Labels, float]]:
    return ((((label, name),), value) for name, value in values)


_REASONS = ("stop", "length", "abort", "error", "repetition")

_VLLM_GAUGES = (
    _engine_row("vllm:num_requests_running", "Requests that the engine computes now.", lambda engine: engine.running),
    _engine_row("vllm:num_requests_waiting", "Requests in the engine's queue.", lambda engine: engine.waiting),
    _EngineRow(
        "vllm:num_requests_waiting_by_reason",
        "Requests in the queue by what they wait for.",
        lambda engine, _served: _by("reason", (("capacity", engine.waiting), ("deferred", 0))),
    ),
    _EngineRow(
        "vllm:engine_sleep_state",
        "1 for the state of sleep that the engine is in.",
        lambda _engine, _served: _by("sleep_state", (("awake", 1), ("weights_offloaded", 0), ("discard_all", 0))),
    ),
    _EngineRow(
        "vllm:kv_cache_usage_perc",
        "Share of the cache of keys and values that is taken, 0 to 1.",
        lambda engine, served: (((), _cache_use(engine, served)),),
    ),
    _EngineRow(
        "vllm:cache_config_info",
        "Settings of the cache of keys and values.",
        lambda _engine, served: (((("block_size", "128"), ("num_gpu_blocks", str(served.cache_tokens // 128))), 1.0),),
    ),
)

_VLLM_COUNTERS = (
    _engine_row(
        "vllm:prefix_cache_queries_total",
        "Prompt tokens looked up in the prefix cache.",
        lambda engine: engine.prompt_tokens,
    ),
    _engine_row(
        "vllm:prefix_cache_hits_total",
        "Prompt tokens found in the prefix cache.",
        lambda engine: engine.cached_tokens,
    ),
    _engine_row(
        "vllm:external_prefix_cache_queries_total", "Tokens looked up in a cache shared by servers.", lambda _engine: 0
    ),
    _engine_row(
        "vllm:external_prefix_cache_hits_total", "Tokens found in a cache shared by servers.", lambda _engine: 0
    ),
    _engine_row("vllm:mm_cache_queries_total", "Images and the like looked up in their cache.", lambda _engine: 0),
    _engine_row("vllm:mm_cache_hits_total", "Images and the like found in their cache.", lambda _engine: 0),
    _engine_row("vllm:num_preemptions_total", "Requests put back into the queue.", lambda engine: engine.preemptions),
    _engine_row("vllm:prompt_tokens_total", "Tokens of prompts.", lambda engine: engine.prompt_tokens),
    _EngineRow(
        "vllm:prompt_tokens_by_source_total",
        "Tokens of prompts by where their keys and values came from.",
        lambda engine, _served: _by(
            "source",
            (
                ("local_compute", engine.prompt_tokens - engine.cached_tokens),
                ("local_cache_hit", engine.cached_tokens),
                ("external_kv_transfer", 0),
            ),
        ),
    ),
    _engine_row(
        "vllm:prompt_tokens_cached_total", "Tokens of prompts not computed anew.", lambda engine: engine.cached_tokens
    ),
    _engine_row("vllm:generation_tokens_total", "Tokens of answers.", lambda engine: engine.output_tokens),
    _EngineRow(
        "vllm:request_success_total",
        "Requests that the engine finished, by reason.",
        lambda engine, _served: _by("finished_reason", tuple((reason, engine.finished[reason]) for reason in _REASONS)),
    ),
)

_VLLM_HISTOGRAMS = (
    ("vllm:request_prompt_tokens", "Tokens of a request's prompt.", "prompt_tokens"),
    ("vllm:request_generation_tokens", "Tokens of a request's answer.", "output_tokens"),
    ("vllm:iteration_tokens_total", "Tokens computed in one step of the engine.", "iteration_tokens"),
    ("vllm:request_max_num_generation_tokens", "Longest answer to a request.", "output_tokens"),
    ("vllm:request_params_n", "Answers that a request asks for.", "answers"),
    ("vllm:request_params_max_tokens", "Tokens that a request asks for at most.", "max_tokens"),
    ("vllm:time_to_first_token_seconds", "From arrival to the first token.", "ttft"),
    ("vllm:inter_token_latency_seconds", "From token to token.", "itl"),
    ("vllm:request_time_per_output_token_seconds", "Mean time from token to token of a request.", "per_token_s"),
    ("vllm:e2e_request_latency_seconds", "From arrival to the last token.", "e2e_s"),
    ("vllm:request_queue_time_seconds", "Time of a request in the queue.", "queue_s"),
    ("vllm:request_inference_time_seconds", "Time of a request in the engine.", "inference_s"),
    ("vllm:request_prefill_time_seconds", "From the queue to the first token.", "prefill_s"),
    ("vllm:request_decode_time_seconds", "From the first token to the last.", "decode_s"),
    ("vllm:request_prefill_kv_computed_tokens", "Tokens of a prompt that were computed.", "computed_tokens"),
)

_PROCESS = (
    _Row("process_virtual_memory_bytes", "gauge", "Virtual memory in bytes.", lambda _ledger, _served: 41.9e9),
    _Row("process_resident_memory_bytes", "gauge", "Resident memory in bytes.", lambda _ledger, _served: 2.31e9),
    _Row(
        "process_start_time_seconds",
        "gauge",
        "When the process began, in Unix seconds.",
        lambda _ledger, served: served.started_at,
    ),
    _Row(
        "process_cpu_seconds_total",
        "counter",
        "Time of processors used, in seconds.",
        lambda ledger, _served: 38.5 + round(0.4 * ledger.t, 2),
    ),
    _Row("process_open_fds", "gauge", "Open file descriptors.", lambda _ledger, _served: 97),
    _Row("process_max_fds", "gauge", "Most file descriptors that may be open.", lambda _ledger, _served: 65535),
)

_MINDIE = (
    _Row("request_received_total", "counter", "Requests received.", lambda ledger, _served: ledger.received),
    _Row(
        "request_success_total",
        "counter",
        "Requests answered.",
        lambda ledger, _served: ledger.http_statuses["2xx"],
    ),
    _Row(
        "request_failed_total", "counter", "Requests that failed.", lambda ledger, _served: ledger.http_statuses["5xx"]
    ),
    _Row("prompt_tokens_total", "counter", "Tokens of prompts.", lambda ledger, _: ledger.engines[0].prompt_tokens),
    _Row(
        "generation_tokens_total",
        "counter",
        "Tokens of answers.",
        lambda ledger, _served: ledger.engines[0].output_tokens,
    ),
    _Row(
        "num_preemptions_total",
        "counter",
        "Requests put back into the queue.",
        lambda ledger, _served: ledger.engines[0].preemptions,
    ),
    _Row(
        "num_requests_running",
        "gauge",
        "Requests that are computed now.",
        lambda ledger, _served: ledger.engines[0].running,
    ),
    _Row("num_requests_waiting", "gauge", "Requests in the queue.", lambda ledger, _served: ledger.engines[0].waiting),
    _Row("num_requests_swapped", "gauge", "Requests moved to the host's memory.", lambda _ledger, _served: 0),
    _Row(
        "avg_prompt_throughput_toks_per_s",
        "gauge",
        "Tokens of prompts a second.",
        lambda ledger, _served: ledger.prompt_tokens_per_second,
    ),
    _Row(
        "avg_generation_throughput_toks_per_s",
        "gauge",
        "Tokens of answers a second.",
        lambda ledger, _served: ledger.output_tokens_per_second,
    ),
    _Row(
        "failed_request_perc",
        "gauge",
        "Share of the requests since the start that failed, 0 to 1.",
        lambda ledger, _served: ledger.http_statuses["5xx"] / max(1, ledger.received),
    ),
    _Row(
        "npu_cache_usage_perc",
        "gauge",
        "Share of the cache of keys and values on the chips that is taken, 0 to 1.",
        lambda ledger, served: _cache_use(ledger.engines[0], served),
    ),
    _Row("cpu_cache_usage_perc", "gauge", "Same of the host's cache.", lambda _ledger, _served: 0),
    _Row(
        "npu_prefix_cache_hit_rate",
        "gauge",
        "Share of the prompt tokens that the prefix cache had, 0 to 1.",
        lambda ledger, _served: ledger.engines[0].cached_tokens / max(1, ledger.engines[0].prompt_tokens),
    ),
)

_MINDIE_HISTOGRAMS = (
    ("time_to_first_token_seconds", "From arrival to the first token.", "ttft"),
    ("time_per_output_token_seconds", "From token to token.", "itl"),
    ("e2e_request_latency_seconds", "From arrival to the last token.", "e2e_s"),
    ("request_prompt_tokens", "Tokens of a request's prompt.", "prompt_tokens"),
    ("request_generation_tokens", "Tokens of a request's answer.", "output_tokens"),
)

_HANDLER: Labels = (("handler", "/v1/chat/completions"), ("method", "POST"))


def _http(ledger: Ledger, served: Served) -> list[str]:
    """The layer in front of vLLM's engines. A status shows from its first answer on."""
    name, text = "http_requests_total", "Requests by handler, method and class of status."
    series = [((*_HANDLER, ("status", status)), count) for status, count in ledger.http_statuses.items()]
    lines = _family(name, "counter", text, series)
    lines += _created("http_requests", text, (labels for labels, _ in series), served)
    for name, text, key, labels in (
        ("http_request_duration_highr_seconds", "Duration of requests, in many buckets.", "http_highr", ()),
        ("http_request_duration_seconds", "Duration of requests by handler.", "http", _HANDLER),
    ):
        lines += _head(name, "histogram", text)
        lines += _histogram(name, labels, ledger.http[key])
        lines += _created(name, text, (labels,), served)
    return lines


def _engine_series(row: _EngineRow, ledger: Ledger, served: Served) -> list[tuple[Labels, float]]:
    return [
        (tuple(sorted((*_engine_labels(index, served), *labels))), value)
        for index, engine in enumerate(ledger.engines)
        for labels, value in row.series(engine, served)
    ]


def _engine_histogram(name: str, text: str, key: str, ledger: Ledger, served: Served) -> list[str]:
    lines = _head(name, "histogram", text)
    for index, engine in enumerate(ledger.engines):
        lines += _histogram(name, _engine_labels(index, served), engine.histograms[key])
    every = (_engine_labels(index, served) for index in range(len(ledger.engines)))
    return [*lines, *_created(name, text, every, served)]


def _engine_labels(index: int, served: Served) -> Labels:
    return (("engine", str(index)), ("model_name", served.model))


def _histogram(name: str, labels: Labels, buckets: Buckets) -> Iterator[str]:
    """The lines of one series: buckets, count, sum. Labels are in the order of their names, ``le`` among them."""
    before = "".join(f'{label}="{value}",' for label, value in labels if label < "le")
    after = "".join(f',{label}="{value}"' for label, value in labels if label > "le")
    totals = tuple(accumulate(buckets.counts))
    for bound, total in zip((*map(_number, buckets.bounds), "+Inf"), totals, strict=True):
        yield f'{name}_bucket{{{before}le="{bound}"{after}}} {_number(total)}'
    yield f"{name}_count{_braces(labels)} {_number(totals[-1])}"
    yield f"{name}_sum{_braces(labels)} {_number(buckets.sum)}"


def _family(name: str, kind: str, text: str, series: Iterable[tuple[Labels, float]]) -> list[str]:
    return _head(name, kind, text) + [f"{name}{_braces(labels)} {_number(value)}" for labels, value in series]


def _created(name: str, text: str, series: Iterable[Labels], served: Served) -> list[str]:
    """When each series began: to the Prometheus client a family of gauges of its own."""
    return _family(f"{name}_created", "gauge", text, ((labels, served.started_at) for labels in series))


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _braces(labels: Labels) -> str:
    return "{" + ",".join(f'{label}="{value}"' for label, value in labels) + "}" if labels else ""


def _number(value: float) -> str:
    """As Python's Prometheus client writes it: always a float, with an exponent from a million on."""
    text = repr(float(value))
    whole, dot, rest = text.partition(".")
    if not dot or len(whole) <= 6 or "e" in rest:
        return text
    return f"{whole[0]}.{(whole[1:] + rest).rstrip('0') or '0'}e+{len(whole) - 1:02d}"
