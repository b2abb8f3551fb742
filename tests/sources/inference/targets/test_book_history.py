"""What a target's pages amount to over time, where servers show their series late, not at all, or in another order."""

from __future__ import annotations

from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.targets.book import TargetBook
from tests.sources.inference.targets.pages import histogram, http, line, page

BOUNDS = (0.1, 0.5, 1.0)


def told(*pages: bytes, step_s: float = 10.0) -> dict[tuple[str, ...], float]:
    """Samples by family and labels, the target's own label left out, after the last of the pages."""
    book = TargetBook("t", None, 60.0, Telling(min_requests=1, aliases=False))
    for number, body in enumerate(pages):
        book.take(body, number * step_s)
    return {
        (sample.family, *(label for label in sample.labels if label != "t")): sample.value for sample in book.samples()
    }


def torchserve(count: float, prediction_ms: float) -> bytes:
    return page(
        line("Requests2XX", count, Level="Host"),
        line("PredictionTime", prediction_ms, ModelName="m"),
        line("WorkerLoadTime", prediction_ms * 2, WorkerName="w"),
        line("ts_inference_requests_total", count, model_name="m"),
        line("ts_inference_latency_microseconds", count * 1000, model_name="m"),
    )


def vllm(count: float, *more: str) -> bytes:
    return page(
        line("vllm:num_requests_running", 0, model_name="m"),
        histogram("vllm:e2e_request_latency_seconds", BOUNDS, (count, 0, 0, 0), count * 0.05, model_name="m"),
        line("vllm:request_success_total", count, finished_reason="stop", model_name="m"),
        http({"2xx": count, "5xx": 0}),
        more,
    )


def test_a_gauge_that_only_marks_the_server_makes_no_restart() -> None:
    seen = told(torchserve(100, 9), torchserve(110, 5), torchserve(120, 8), torchserve(130, 4))
    assert (seen["inference_target_restarts_total",], seen["inference_requests_total", "m", "success"]) == (0, 130)


def test_a_server_that_shows_errors_only_after_the_first_had_none_before() -> None:
    assert told(torchserve(100, 9), torchserve(110, 9))["inference_success_ratio", "m"] == 1.0


def test_sums_that_differ_in_the_last_bit_make_no_restart() -> None:
    """Pods are added up in another order each time."""
    totals = (0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1)
    assert totals[0] > totals[1]
    seen = told(
        *(
            page(
                line("request_received_total", 100, model_name="m"),
                line("request_success_total", 100, model_name="m"),
                histogram("e2e_request_latency_seconds", BOUNDS, (100, 0, 0, 0), total, model_name="m"),
            )
            for total in totals
        )
    )
    assert (seen["inference_target_restarts_total",], seen["inference_requests_total", "m", "success"]) == (0, 100)


def test_a_histogram_that_appears_leaves_the_window_of_others_alone() -> None:
    """Some servers show a histogram only after its first observation."""
    ttft = histogram("vllm:time_to_first_token_seconds", BOUNDS, (5, 0, 0, 0), 0.2, model_name="m")
    seen = told(vllm(100), vllm(110), vllm(120, *ttft))
    observations = {kind: seen["inference_latency_observations", "m", kind] for kind in ("e2e", "ttft")}
    assert observations == {"e2e": 20, "ttft": 5}


def test_series_that_were_away_for_a_page_did_not_begin_anew() -> None:
    away = page(line("vllm:num_requests_running", 0, model_name="m"))
    seen = told(vllm(100), away, vllm(110), step_s=50.0)
    assert seen["inference_requests_total", "m", "success"] == 110
    assert seen["inference_latency_observations", "m", "e2e"] == 10


def test_requests_of_the_http_layer_are_the_only_models_from_the_beginning() -> None:
    """Not only from the first abort on, which is when an old engine first names the model among what is counted."""
    abort = line("vllm:request_success_total", 1, finished_reason="abort", model_name="m")
    seen = told(vllm(100), vllm(110), vllm(120, abort))
    totals = {key[1:]: value for key, value in seen.items() if key[0] == "inference_requests_total"}
    assert totals == {("m", "success"): 120, ("m", "error"): 0, ("m", "aborted"): 1}


def test_requests_of_the_http_layer_belong_to_no_model_where_there_are_several() -> None:
    def served(total: float, broken: float) -> bytes:
        return page(
            [line("vllm:request_success_total", total / 2, finished_reason="stop", model_name=name) for name in "ab"],
            line("vllm:request_success_total", broken, finished_reason="error", model_name="a"),
            http({"2xx": total, "5xx": 0}),
        )

    seen = told(served(20, 0), served(43, 3))
    totals = {key[1:]: value for key, value in seen.items() if key[0] == "inference_requests_total"}
    assert totals == {("unknown", "success"): 40, ("unknown", "error"): 3, ("unknown", "aborted"): 0}


def test_what_watchers_ask_is_no_request_of_a_service() -> None:
    def service(served: float, watched: float) -> bytes:
        family = "http_request_duration_seconds"
        return page(
            histogram(family, BOUNDS, (0, 0, served, 0), served * 0.8, handler="/predict"),
            histogram(family, BOUNDS, (watched, 0, 0, 0), watched * 0.01, handler="/metrics"),
            http({"2xx": served, "5xx": 0}, handler="/predict"),
            http({"2xx": watched}, handler="/metrics"),
        )

    seen = told(service(0, 0), service(2, 50))
    assert seen["inference_requests_total", "unknown", "success"] == 2
    assert seen["inference_latency_seconds", "unknown", "e2e", "0.5"] == 0.75


def test_models_that_read_the_same_in_labels_are_one() -> None:
    def served(count: float) -> bytes:
        return page(
            *(
                histogram("vllm:e2e_request_latency_seconds", BOUNDS, (count, 0, 0, 0), 1.0, model_name=name)
                for name in ("x" * 128 + "1", "x" * 128 + "2")
            )
        )

    assert told(served(0), served(5))["inference_latency_observations", "x" * 128, "e2e"] == 10
