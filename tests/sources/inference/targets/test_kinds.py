"""Every kind of server is known by its page, and its latencies, successes and failures are read by its own rules."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from npumond.config.settings import SERVER_KINDS, OwnServer
from npumond.demo.ledger import Ledger
from npumond.demo.page import MINDIE_BOUNDS, VLLM_BOUNDS, Served, mindie_page, vllm_page
from npumond.demo.traffic import CHAT, FAST
from npumond.sources.inference.buckets import Distribution
from npumond.sources.inference.targets.counts import Load, Ready, Requests, counters, latencies, loads, requests, tokens
from npumond.sources.inference.targets.kinds import KINDS, ServerKind, detect
from npumond.sources.inference.targets.metrics_page import Key, PageReader
from npumond.sources.inference.targets.own_kinds import own_kind
from tests.sources.inference.targets.pages import histogram, http, line, page

E2E = "vllm:e2e_request_latency_seconds"


def read(kind: str | ServerKind, body: bytes) -> tuple[ServerKind, dict[Key, float]]:
    """All counters of a page, as if they had risen from nothing; the page tells its kind itself."""
    if isinstance(kind, str):
        assert detect(body) is KINDS[kind]
        kind = KINDS[kind]
    return kind, PageReader(kind.families()).read(body)


def counted(kind: str | ServerKind, *parts: str | list[str]) -> dict[str, Requests]:
    row, series = read(kind, page(*parts))
    return requests(row, counters(row, series))


def found(kind: str, *parts: str | list[str]) -> Mapping[str, Mapping[str, Distribution | Ready]]:
    row, series = read(kind, page(*parts))
    return latencies(row, counters(row, series), series)  # type: ignore[return-value]  # keys are a Literal


def finished(**reasons: float) -> list[str]:
    return [
        line("vllm:request_success_total", count, model_name="m", engine="0", finished_reason=reason)
        for reason, count in reasons.items()
    ]


def test_the_configuration_offers_every_kind_of_the_table() -> None:
    assert set(SERVER_KINDS) == set(KINDS)


def test_a_page_of_nobody_has_no_kind() -> None:
    assert detect(page(line("node_load1", 0.5))) is None


def test_the_simulated_servers_are_known() -> None:
    served = Served(model="m", started_at=1.0, cache_tokens=8192)
    assert detect(vllm_page(Ledger(FAST, "v", 1, VLLM_BOUNDS), served).encode()) is KINDS["vllm"]
    assert detect(mindie_page(Ledger(CHAT, "m", 1, MINDIE_BOUNDS), served).encode()) is KINDS["mindie"]


# ---- vLLM ----


def test_ranks_of_vllm_are_added_up() -> None:
    ranks = [histogram(E2E, (0.1, 1.0), (5, 3, 2), 4.0, model_name="m", engine=str(rank)) for rank in range(2)]
    assert found("vllm", *ranks)["m"]["e2e"] == Distribution((0.1, 1.0, float("inf")), (10, 16, 20), 8.0)


def test_models_of_one_page_stay_apart() -> None:
    both = [histogram(E2E, (0.1, 1.0), (number, 0, 0), 0.1, model_name=f"m{number}") for number in (1, 2)]
    assert {model: seen["e2e"].count for model, seen in found("vllm", *both).items()} == {"m1": 1, "m2": 2}


def test_ranks_with_other_bounds_are_not_added_up() -> None:
    one = histogram(E2E, (0.1, 1.0), (5, 3, 2), 4.0, model_name="m", engine="0")
    other = histogram(E2E, (0.3, 1.0), (5, 3, 2), 4.0, model_name="m", engine="1")
    assert found("vllm", one, other) == {}


@pytest.mark.parametrize("name", ["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"])
def test_the_time_between_tokens_has_a_name_for_each_version(name: str) -> None:
    assert found("vllm", finished(stop=1), histogram(name, (0.1,), (5, 1), 1.0, model_name="m"))["m"]["itl"].count == 6


def test_the_http_layer_counts_what_the_engine_does_not_see() -> None:
    """And leaves out 4xx, other handlers, and what was refused before it got a handler."""
    noise = [*http({"2xx": 50, "5xx": 7}, "/metrics"), *http({"4xx": 9}, "none")]
    seen = counted("vllm", finished(stop=90, length=8, abort=1), http({"2xx": 98, "4xx": 5, "5xx": 2}), noise)
    assert seen == {"m": Requests(98, 2, 1)}


def test_a_stream_that_broke_was_a_success_by_its_status_only() -> None:
    """Of the two counts of errors the larger is taken."""
    assert counted("vllm", finished(stop=94, error=6), http({"2xx": 98, "5xx": 2})) == {"m": Requests(94, 6, 0)}


def test_without_the_http_layer_the_reasons_are_counted() -> None:
    assert counted("vllm", finished(stop=5, length=3, repetition=1, error=1, abort=4)) == {"m": Requests(9, 1, 4)}


def test_the_v0_engine_shows_only_reasons_that_occurred() -> None:
    assert counted("vllm", finished(stop=5)) == {"m": Requests(5, 0, 0)}


# ---- the others ----


def test_mindie_counts_its_own_failures_and_nothing_is_made_of_what_it_received() -> None:
    seen = counted("mindie", *(line(f"request_{what}_total", count, model_name="a & b")
                               for what, count in (("received", 3188), ("success", 2267), ("failed", 3))))  # fmt: skip
    assert seen == {"a & b": Requests(2267, 3, None)}


SGLANG = {"model_name": "m", "engine_type": "unified", "tp_rank": "0"}


def test_sglang_has_no_ratio_since_it_counts_no_failures() -> None:
    (seen,) = counted(
        "sglang",
        line("sglang:num_requests_total", 100, **SGLANG),
        line("sglang:num_aborted_requests_total", 4, **SGLANG),
    ).values()
    assert seen == Requests(96, None, 4)
    assert seen.ratio(1) is None


def test_sglang_counts_what_fails_between_prefill_and_decode() -> None:
    (seen,) = counted(
        "sglang",
        line("sglang:num_requests_total", 99, **SGLANG),
        line("sglang:num_transfer_failed_reqs_total", 1, **SGLANG),
    ).values()
    assert seen.ratio(1) == 0.99


def test_streams_and_others_of_sglang_are_one_model() -> None:
    parts = [
        histogram("sglang:e2e_request_latency_seconds", (0.1, 0.2), (1, 2, 0), 0.3, **SGLANG, is_streaming=word)
        for word in ("true", "false")
    ]
    assert found("sglang", *parts)["m"]["e2e"].count == 6


def triton(**reasons: float) -> list[str]:
    return [
        line("nv_inference_request_failure", count, model="m", version="1", reason=why)
        for why, count in reasons.items()
    ]


def test_triton_tells_cancelled_requests_from_failures() -> None:
    success = line("nv_inference_request_success", 97, model="m", version="1")
    assert counted("triton", success, triton(REJECTED=1, BACKEND=1, OTHER=1, CANCELED=5)) == {"m": Requests(97, 3, 5)}


def test_an_old_triton_has_failures_without_a_reason() -> None:
    lines = (line(f"nv_inference_request_{what}", count, model="m") for what, count in (("success", 9), ("failure", 1)))
    assert counted("triton", *lines) == {"m": Requests(9, 1, 0)}


def test_of_triton_without_summaries_a_mean_is_known() -> None:
    lines = (
        line("nv_inference_request_success", 4, model="m"),
        line("nv_inference_request_duration_us", 2e6, model="m"),
    )
    assert found("triton", *lines)["m"]["e2e"] == Ready({}, 4, 0.5)


def test_tgi_tells_the_servers_failures_from_the_clients() -> None:
    failures = [
        line("tgi_request_failure", 1, err=why) for why in ("overloaded", "generation", "validation", "template")
    ]
    assert counted("tgi", line("tgi_request_count", 12), line("tgi_request_success", 8), failures) == {
        "": Requests(8, 2, None)
    }


def test_lmdeploy_names_its_reasons_as_python_does() -> None:
    lines = [
        line("lmdeploy:request_success_total", count, model_name="m", engine="0", finished_reason=f"ResponseType.{why}")
        for why, count in (("FINISH", 7), ("SUCCESS", 1), ("CANCEL", 3), ("INTERNAL_ENGINE_ERROR", 2))
    ]
    assert counted("lmdeploy", lines) == {"m": Requests(8, 2, 3)}


def test_torchserve_counts_for_all_models_at_once() -> None:
    lines = [
        line(f"Requests{status}XX", count, Level="Host", Hostname="h") for status, count in ((2, 9), (4, 5), (5, 1))
    ]
    assert counted("torchserve", lines) == {"": Requests(9, 1, None)}


@pytest.mark.parametrize("label", ["status", "code"])
def test_any_service_with_the_usual_names_is_read(label: str) -> None:
    lines = [
        line("http_requests_total", count, **{label: text})
        for text, count in (("200", 8), ("302", 1), ("503", 1), ("404", 5))
    ]
    seconds = histogram("http_request_duration_seconds", (0.1, 1.0), (9, 1, 0), 1.0)
    assert counted("http", lines, seconds) == {"": Requests(9, 1, None)}
    assert found("http", lines, seconds)[""]["e2e"].count == 10


def test_a_kind_of_ones_own() -> None:
    kind = own_kind(
        "mine",
        OwnServer(
            model_label="net",
            unit="ms",
            e2e="took",
            success='done{code=~"2..",path!="/health"}',
            error=('done{code!~"[24].."}',),
        ),
    )
    answers = (("200", "/a", 5), ("204", "/a", 1), ("200", "/health", 9), ("500", "/a", 2), ("404", "/a", 3))
    lines = [line("done", count, net="m", code=code, path=path) for code, path, count in answers]
    row, series = read(kind, page(lines, histogram("took", (100, 200), (1, 1, 0), 200, net="m")))
    assert requests(row, counters(row, series)) == {"m": Requests(6, 2, None)}
    seen = latencies(row, counters(row, series), series)["m"]["e2e"]
    assert isinstance(seen, Distribution)
    assert seen.bounds[:2] == (0.1, 0.2)
    assert seen.mean == pytest.approx(0.1)


# ---- load ----


def test_load_is_added_up_over_ranks_and_the_cache_is_the_fullest_one() -> None:
    lines = [
        part
        for rank, cache in ((0, 0.25), (1, 0.75))
        for part in (
            line("vllm:num_requests_running", 3, model_name="m", engine=str(rank)),
            line("vllm:num_requests_waiting", 1, model_name="m", engine=str(rank)),
            line("vllm:kv_cache_usage_perc", cache, model_name="m", engine=str(rank)),
            line("vllm:prompt_tokens_total", 100, model_name="m", engine=str(rank)),
        )
    ]
    row, series = read("vllm", page(lines))
    assert loads(row, series) == {"m": Load(6, 2, 0.75)}
    assert tokens(row, counters(row, series)) == {"m": {"prompt": 200}}


def test_a_cache_that_does_not_know_is_not_empty() -> None:
    row, series = read("vllm", page(line("vllm:num_requests_running", 0, model_name="m"),
                                    line("vllm:gpu_cache_usage_perc", -1, model_name="m")))  # fmt: skip
    assert loads(row, series)["m"].kv_cache_ratio is None


@pytest.mark.parametrize(("good", "bad", "ratio"), [(9, 1, 0.9), (9, 0, None), (0, 0, None), (0, 10, 0.0)])
def test_too_few_requests_make_no_ratio(good: float, bad: float, ratio: float | None) -> None:
    assert Requests(good, bad, 100).ratio(10) == ratio
