"""The kinds of inference servers: how each is recognised, and which of its series tell latency, success and load.

A new kind, or a new name for something, is a row or a name here. Where names have changed over a server's versions they
stand in order of preference, and the first that is on the page is taken.

Sources: the servers' own code and documentation; vLLM 0.4 to 0.29, MindIE-LLM and MindIE-Motor, SGLang, Triton,
TorchServe, LMDeploy, TGI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from npumond.sources.inference.labels import LatencyKind

SECONDS, MILLISECONDS, MICROSECONDS = 1.0, 1e-3, 1e-6


class Histogram(Struct, frozen=True):
    """A family of cumulative buckets; only series whose labels match, values as in `Selector`."""

    family: str
    unit: float = SECONDS
    labels: Mapping[str, str] = {}


class Summary(Struct, frozen=True):
    """A family of ready quantiles over a window of the server's own."""

    family: str
    unit: float = SECONDS


class Mean(Struct, frozen=True):
    """A counter of time and one of requests, of which only a mean can be had."""

    time: str
    requests: str
    unit: float = SECONDS


Latency = Histogram | Summary | Mean


class Selector(Struct, frozen=True):
    """Counters of one family whose labels match; values are regular expressions that match whole values."""

    family: str
    labels: Mapping[str, str] = {}


class Counting(Struct, frozen=True, kw_only=True):
    """One way in which a server counts its requests; it is used when ``success`` is on the page."""

    success: Selector
    error: tuple[Selector, ...] = ()
    """Empty: this server does not count what fails, so there is no ratio."""
    aborted: tuple[Selector, ...] = ()
    late_error: tuple[Selector, ...] = ()
    """Counted where the answer is made. A stream that broke half-way is an error here and a success by its status,
    which was sent before: of the two counts of errors the larger is taken."""
    success_includes_aborted: bool = False
    error_shows_late: bool = False
    """The server has no series of errors before the first one: without it there were none."""


class ServerKind(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    marks: tuple[tuple[str, ...], ...]
    """It is this kind when all families of one of these tuples are on the page."""
    model_label: str = ""
    latencies: Mapping[LatencyKind, tuple[Latency, ...]] = {}
    requests: tuple[Counting, ...] = ()
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    kv_cache: tuple[str, ...] = ()
    """Share in use, 0 to 1."""
    prompt_tokens: tuple[str, ...] = ()
    generation_tokens: tuple[str, ...] = ()
    preemptions: tuple[str, ...] = ()
    hints: Mapping[int, str] = {}
    """What an HTTP status in place of the page means."""
    empty_hint: str = ""
    """Why none of the families may be on the page."""

    def families(self) -> frozenset[str]:
        """Every family that is read. Marks are not: `detect` finds them, and some are gauges that tell nothing."""
        return frozenset((*self._named(), STARTED_AT))

    def _named(self) -> Iterator[str]:
        for latencies in self.latencies.values():
            for latency in latencies:
                yield from (latency.time, latency.requests) if isinstance(latency, Mean) else (latency.family,)
        for counting in self.requests:
            for selector in (counting.success, *counting.error, *counting.aborted, *counting.late_error):
                yield selector.family
        for names in (self.running, self.waiting, self.kv_cache, self.prompt_tokens, self.generation_tokens):
            yield from names
        yield from self.preemptions


STARTED_AT = "process_start_time_seconds"

_HTTP = "http_requests_total"
_HANDLERS = (
    "/(v1/|inference/v1/|v2/)?(chat/completions|completions|embeddings|responses|messages|rerank|score|generate"
    "|audio/[a-z]+|pooling|classify|invocations)"
)
"""What serves requests; not the metrics, health, models and documentation of the same server."""
_FINISHED = "vllm:request_success_total"

_VLLM = ServerKind(
    name="vllm",
    marks=(
        ("vllm:num_requests_running",),
        ("vllm:e2e_request_latency_seconds",),
        ("vllm:request_success_total",),
        ("vllm:time_to_first_token_seconds",),
    ),
    model_label="model_name",
    latencies={
        "e2e": (Histogram("vllm:e2e_request_latency_seconds"),),
        "ttft": (Histogram("vllm:time_to_first_token_seconds"),),
        "itl": (Histogram("vllm:inter_token_latency_seconds"), Histogram("vllm:time_per_output_token_seconds")),
    },
    requests=(
        Counting(
            success=Selector(_HTTP, {"handler": _HANDLERS, "status": "2.."}),
            error=(Selector(_HTTP, {"handler": _HANDLERS, "status": "5.."}),),
            aborted=(Selector(_FINISHED, {"finished_reason": "abort"}),),
            late_error=(Selector(_FINISHED, {"finished_reason": "error"}),),
        ),
        Counting(
            success=Selector(_FINISHED, {"finished_reason": "stop|length|repetition"}),
            error=(Selector(_FINISHED, {"finished_reason": "error"}),),
            aborted=(Selector(_FINISHED, {"finished_reason": "abort"}),),
        ),
    ),
    running=("vllm:num_requests_running",),
    waiting=("vllm:num_requests_waiting",),
    kv_cache=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    prompt_tokens=("vllm:prompt_tokens_total",),
    generation_tokens=("vllm:generation_tokens_total",),
    preemptions=("vllm:num_preemptions_total",),
    empty_hint="vLLM has no such series when it runs with --disable-log-stats",
)

_MINDIE = ServerKind(
    name="mindie",
    marks=(
        ("request_received_total", "request_success_total"),
        ("e2e_request_latency_seconds", "npu_cache_usage_perc"),
        ("e2e_request_latency_seconds", "request_failed_total"),
    ),
    model_label="model_name",
    latencies={
        "e2e": (Histogram("e2e_request_latency_seconds"),),
        "ttft": (Histogram("time_to_first_token_seconds"),),
        "itl": (Histogram("time_per_output_token_seconds"),),
    },
    requests=(Counting(success=Selector("request_success_total"), error=(Selector("request_failed_total"),)),),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
    kv_cache=("npu_cache_usage_perc",),
    prompt_tokens=("prompt_tokens_total",),
    generation_tokens=("generation_tokens_total",),
    preemptions=("num_preemptions_total",),
    hints={500: "MindIE answers so unless it was started with MIES_SERVICE_MONITOR_MODE=1"},
)

_SGLANG = ServerKind(
    name="sglang",
    marks=(
        ("sglang:num_running_reqs",),
        ("sglang:e2e_request_latency_seconds",),
        ("sglang:time_to_first_token_seconds",),
        ("sglang:num_requests_total",),
    ),
    model_label="model_name",
    latencies={
        "e2e": (Histogram("sglang:e2e_request_latency_seconds"),),
        "ttft": (Histogram("sglang:time_to_first_token_seconds"),),
        "itl": (
            Histogram("sglang:inter_token_latency_seconds"),
            Histogram("sglang:time_per_output_token_seconds"),
        ),
    },
    requests=(
        Counting(
            success=Selector("sglang:num_requests_total"),
            error=(
                Selector("sglang:num_bootstrap_failed_reqs_total"),
                Selector("sglang:num_transfer_failed_reqs_total"),
            ),
            aborted=(Selector("sglang:num_aborted_requests_total"),),
            success_includes_aborted=True,
        ),
    ),
    running=("sglang:num_running_reqs",),
    waiting=("sglang:num_queue_reqs",),
    kv_cache=("sglang:token_usage",),
    prompt_tokens=("sglang:prompt_tokens_total",),
    generation_tokens=("sglang:generation_tokens_total",),
    hints={404: "SGLang has this page only when it was started with --enable-metrics"},
)

_TRITON = ServerKind(
    name="triton",
    marks=(("nv_inference_request_success",), ("nv_inference_count",)),
    model_label="model",
    latencies={
        "e2e": (
            Summary("nv_inference_request_summary_us", MICROSECONDS),
            Mean("nv_inference_request_duration_us", "nv_inference_request_success", MICROSECONDS),
        ),
        "ttft": (Histogram("nv_inference_first_response_histogram_ms", MILLISECONDS),),
    },
    requests=(
        Counting(
            success=Selector("nv_inference_request_success"),
            error=(Selector("nv_inference_request_failure", {"reason": "|REJECTED|BACKEND|OTHER"}),),
            aborted=(Selector("nv_inference_request_failure", {"reason": "CANCELED"}),),
        ),
    ),
    waiting=("nv_inference_pending_request_count",),
)

_TGI = ServerKind(
    name="tgi",
    marks=(("tgi_request_count",), ("tgi_request_success",), ("tgi_queue_size",)),
    latencies={
        "e2e": (Histogram("tgi_request_duration"),),
        "itl": (Histogram("tgi_request_mean_time_per_token_duration"),),
    },
    requests=(
        Counting(
            success=Selector("tgi_request_success"),
            error=(Selector("tgi_request_failure", {"err": "overloaded|generation|incomplete|dropped"}),),
            error_shows_late=True,
        ),
    ),
    running=("tgi_batch_current_size",),
    waiting=("tgi_queue_size",),
)

_LMDEPLOY_FINISHED = "lmdeploy:request_success_total"
_LMDEPLOY = ServerKind(
    name="lmdeploy",
    marks=(
        ("lmdeploy:e2e_request_latency_seconds",),
        ("lmdeploy:request_success_total",),
        ("lmdeploy:num_requests_running",),
        ("lmdeploy:num_requests_succeeded",),
    ),
    model_label="model_name",
    latencies={
        "e2e": (Histogram("lmdeploy:e2e_request_latency_seconds"),),
        "ttft": (Histogram("lmdeploy:time_to_first_token_seconds"),),
        "itl": (Histogram("lmdeploy:iter_token_latency"), Histogram("lmdeploy:time_per_output_token_seconds")),
    },
    requests=(
        Counting(
            success=Selector(_LMDEPLOY_FINISHED, {"finished_reason": ".*(FINISH|SUCCESS)"}),
            error=(Selector(_LMDEPLOY_FINISHED, {"finished_reason": r"(?!.*(FINISH|SUCCESS|CANCEL)$).*"}),),
            aborted=(Selector(_LMDEPLOY_FINISHED, {"finished_reason": ".*CANCEL"}),),
        ),
        Counting(
            success=Selector("lmdeploy:num_requests_succeeded"),
            error=(Selector("lmdeploy:num_requests_failed"),),
        ),
    ),
    running=("lmdeploy:num_requests_running",),
    waiting=("lmdeploy:num_requests_waiting",),
    kv_cache=("lmdeploy:gpu_cache_usage_perc",),
    prompt_tokens=("lmdeploy:prompt_tokens_total",),
    generation_tokens=("lmdeploy:generation_tokens_total",),
)

_TORCHSERVE = ServerKind(
    name="torchserve",
    marks=(("ts_inference_requests_total",), ("Requests2XX",), ("WorkerLoadTime", "PredictionTime")),
    model_label="model_name",
    latencies={
        "e2e": (Mean("ts_inference_latency_microseconds", "ts_inference_requests_total", MICROSECONDS),),
    },
    requests=(Counting(success=Selector("Requests2XX"), error=(Selector("Requests5XX"),), error_shows_late=True),),
    empty_hint="TorchServe tells of requests only with metrics_mode=prometheus",
)

_NOT_SERVED = "(?!/(v1/)?(metrics|health[a-z]*|ping|ready|readyz|livez|models|docs|openapi.json)/?$).*"
"""All but what watchers of a server ask it, ours among them; also where there is no such label."""
_SERVED = dict.fromkeys(("handler", "path", "endpoint", "route"), _NOT_SERVED)

_HTTP_SERVICE = ServerKind(
    name="http",
    marks=(
        ("http_request_duration_seconds", _HTTP),
        ("http_request_duration_milliseconds", _HTTP),
        ("http_request_duration_seconds",),
    ),
    latencies={
        "e2e": (
            Histogram("http_request_duration_seconds", labels=_SERVED),
            Histogram("http_request_duration_milliseconds", MILLISECONDS, _SERVED),
        )
    },
    requests=(
        Counting(
            success=Selector(_HTTP, {"status": "[23].."} | _SERVED),
            error=(Selector(_HTTP, {"status": "5.."} | _SERVED),),
        ),
        Counting(
            success=Selector(_HTTP, {"code": "[23].."} | _SERVED),
            error=(Selector(_HTTP, {"code": "5.."} | _SERVED),),
        ),
    ),
)

KINDS: Mapping[str, ServerKind] = {
    kind.name: kind for kind in (_VLLM, _SGLANG, _LMDEPLOY, _TRITON, _TGI, _MINDIE, _TORCHSERVE, _HTTP_SERVICE)
}
"""By name, in the order in which a page is tried: prefixes of a server's own first, the service of no kind last."""


def detect(body: bytes) -> ServerKind | None:
    """The kind of server whose page this is, by the names on it; None when it is none of them."""
    names = frozenset(_NAME.findall(body))
    return next((kind for kind in KINDS.values() if _is_kind(kind, names)), None)


_NAME = re.compile(rb"^(?:# TYPE )?([a-zA-Z_:][a-zA-Z0-9_:]*)", re.MULTILINE)


def _is_kind(kind: ServerKind, names: frozenset[bytes]) -> bool:
    return any(all(_has(names, family) for family in mark) for mark in kind.marks)


def _has(names: frozenset[bytes], family: str) -> bool:
    raw = family.encode()
    return raw in names or raw + b"_bucket" in names or raw + b"_total" in names
