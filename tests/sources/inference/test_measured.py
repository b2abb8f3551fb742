"""The book tells what was measured, no more, and stays small."""

from __future__ import annotations

import math
import random
import statistics
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npumond.catalog import BY_NAME
from npumond.sources.inference.labels import Status, clean_model
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.measured import EDGES, Requests
from tests.sources.inference.pushed.book import Clock, series

E2E = ("resnet50", "statsd", "e2e")


def book(
    clock: Clock | None = None, window_s: float = 60.0, min_requests: int = 10, most_models: int = 100
) -> Requests:
    return Requests("statsd", window_s, Telling(min_requests, aliases=False), clock or Clock(), most_models)


def booked(requests: Requests, *durations_s: float, status: Status = "success", weight: float = 1.0) -> Requests:
    for duration_s in durations_s:
        requests.request("resnet50", "statsd", status, duration_s, weight=weight)
    return requests


def test_every_sample_is_of_the_catalogue_and_has_its_labels() -> None:
    requests = booked(book(min_requests=1), 0.01, 0.02, 2000.0)
    requests.request("resnet50", "statsd", "error", ttft_s=0.1, itl_s=0.01)
    for sample in requests.samples():
        family = BY_NAME[sample.family]
        assert len(sample.labels) == len(family.labels) + (sample.suffix == "_bucket"), sample


def test_a_book_without_requests_is_empty() -> None:
    assert book().samples() == []


@given(st.lists(st.floats(2e-5, 900), min_size=1, max_size=200), st.sampled_from(["0.5", "0.9", "0.99"]))
def test_a_quantile_is_off_by_no_more_than_its_bucket(durations_s: list[float], quantile: str) -> None:
    """The observation of the quantile's rank lies in the bucket that is told."""
    samples = booked(book(min_requests=1), *durations_s).samples()
    true = sorted(durations_s)[max(0, math.ceil(float(quantile) * len(durations_s) - 1e-9) - 1)]
    lower = series(samples, "inference_latency_lower_bound_seconds")[*E2E, quantile]
    width = series(samples, "inference_latency_resolution_seconds")[*E2E, quantile]
    value = series(samples, "inference_latency_seconds")[*E2E, quantile]
    assert lower <= true <= lower + width * (1 + 1e-9)
    assert lower <= value <= lower + width * (1 + 1e-9)
    assert width <= max(0.02 * lower * (1 + 1e-9), EDGES[0])


def test_p99_of_many_requests_is_that_of_the_list() -> None:
    source = random.Random(3)
    durations_s = [source.lognormvariate(-3, 0.5) for _ in range(5000)]
    told = series(booked(book(), *durations_s).samples(), "inference_latency_seconds")[*E2E, "0.99"]
    assert told == pytest.approx(statistics.quantiles(durations_s, n=100)[98], rel=0.02)


def test_requests_of_exactly_the_threshold_do_not_pass_it() -> None:
    samples = booked(book(), *[0.1] * 100).samples()
    assert series(samples, "inference_latency_seconds")[*E2E, "0.99"] <= 0.1
    assert series(samples, "inference_latency_lower_bound_seconds")[*E2E, "0.99"] < 0.1


def test_requests_just_above_the_threshold_are_surely_above_it() -> None:
    samples = booked(book(), *[0.1000001] * 100).samples()
    assert series(samples, "inference_latency_lower_bound_seconds")[*E2E, "0.99"] == 0.1


def test_a_latency_beyond_the_last_edge_is_at_least_that_edge_and_has_no_width() -> None:
    samples = booked(book(min_requests=1), 5000.0).samples()
    assert series(samples, "inference_latency_seconds")[*E2E, "0.5"] == EDGES[-1]
    assert series(samples, "inference_latency_lower_bound_seconds")[*E2E, "0.5"] == EDGES[-1]
    assert series(samples, "inference_latency_resolution_seconds") == {}


def test_the_mean_is_exact() -> None:
    samples = booked(book(), 0.010, 0.011, 0.027).samples()
    assert series(samples, "inference_latency_mean_seconds")[E2E] == pytest.approx(0.016, rel=1e-12)


def test_a_window_that_has_passed_leaves_no_quantile_and_no_ratio() -> None:
    clock = Clock()
    requests = booked(book(clock, min_requests=1), 0.010)
    clock.now += 60
    families = {sample.family for sample in requests.samples()}
    assert families == {"inference_requests_total", "inference_request_duration_seconds"}


def test_nothing_in_the_window_is_older_than_the_window() -> None:
    clock = Clock()
    requests = booked(book(clock), 1.0)
    clock.now += 59.9
    booked(requests, 0.010)
    clock.now += 0.2
    observations = series(requests.samples(), "inference_latency_observations")
    assert observations == {E2E: 1}


def test_the_window_holds_eleven_twelfths_of_its_length_at_least() -> None:
    clock = Clock()
    requests = booked(book(clock), 1.0)
    clock.now += 54.9
    assert series(requests.samples(), "inference_latency_observations") == {E2E: 1}


def test_the_window_slides_over_a_steady_load() -> None:
    clock = Clock()
    requests = book(clock)
    for _ in range(200):
        booked(requests, 0.010)
        clock.now += 1
        requests.samples()
    assert 55 <= series(requests.samples(), "inference_latency_observations")[E2E] <= 60


def test_totals_and_histogram_never_fall() -> None:
    clock = Clock()
    requests = booked(book(clock), 0.010, 0.020)
    clock.now += 1e6
    booked(requests, 0.030)
    samples = requests.samples()
    assert series(samples, "inference_requests_total") == {("resnet50", "statsd", "success"): 3}
    assert series(samples, "inference_request_duration_seconds") == {("resnet50", "statsd"): 3}


def test_a_status_that_was_never_seen_makes_no_zero() -> None:
    samples = booked(book(), 0.010).samples()
    assert series(samples, "inference_requests_total") == {("resnet50", "statsd", "success"): 1}


def test_the_ratio_is_that_of_good_and_bad_and_aborts_are_neither() -> None:
    requests = booked(book(), *[0.010] * 9)
    booked(requests, 0.010, status="error")
    booked(requests, *[0.010] * 30, status="aborted")
    assert series(requests.samples(), "inference_success_ratio") == {("resnet50", "statsd"): 0.9}


def test_under_the_minimum_there_is_no_ratio_and_no_sure_bound_but_a_quantile() -> None:
    samples = booked(book(min_requests=10), *[0.010] * 9).samples()
    assert series(samples, "inference_success_ratio") == {}
    assert series(samples, "inference_latency_lower_bound_seconds") == {}
    assert len(series(samples, "inference_latency_seconds")) == 3


def test_aborted_requests_alone_make_no_ratio() -> None:
    samples = booked(book(min_requests=1), *[0.010] * 30, status="aborted").samples()
    assert series(samples, "inference_success_ratio") == {}


def test_errors_and_aborts_do_not_enter_the_latency() -> None:
    """A server that refuses at once would look fast."""
    requests = booked(book(), 0.0001, status="error")
    booked(requests, 0.0001, status="aborted")
    assert {sample.family for sample in requests.samples()} == {"inference_requests_total"}


def test_a_first_token_counts_whatever_became_of_the_request() -> None:
    requests = book()
    requests.request("llama", "statsd", "aborted", ttft_s=0.2, itl_s=0.03)
    assert series(requests.samples(), "inference_latency_observations") == {
        ("llama", "statsd", "ttft"): 1,
        ("llama", "statsd", "itl"): 1,
    }


def test_a_latency_told_by_itself_counts_no_request() -> None:
    requests = book()
    requests.latency("llama", "statsd", "itl", 0.03)
    samples = requests.samples()
    assert series(samples, "inference_latency_observations") == {("llama", "statsd", "itl"): 1}
    assert series(samples, "inference_requests_total") == {}


def test_a_weight_counts_in_totals_and_histogram_but_not_as_observations() -> None:
    samples = booked(book(min_requests=10), *[0.010] * 9, weight=100).samples()
    assert series(samples, "inference_requests_total") == {("resnet50", "statsd", "success"): 900}
    assert series(samples, "inference_request_duration_seconds") == {("resnet50", "statsd"): 900}
    assert series(samples, "inference_latency_observations") == {E2E: 9}
    assert series(samples, "inference_success_ratio") == {}


def test_a_weight_counts_in_the_quantile() -> None:
    requests = booked(book(), *[0.010] * 10)
    booked(requests, 1.0, weight=90)
    assert series(requests.samples(), "inference_latency_seconds")[*E2E, "0.5"] == pytest.approx(1.0, rel=0.02)


def test_targets_of_one_model_share_its_histogram_and_nothing_else() -> None:
    requests = book()
    requests.request("llama", "a:8000", "success", 0.1)
    requests.request("llama", "b:8000", "success", 0.2)
    samples = requests.samples()
    assert series(samples, "inference_request_duration_seconds") == {("llama", "statsd"): 2}
    assert len(series(samples, "inference_requests_total")) == 2


@pytest.mark.parametrize("duration_s", [-0.001, math.nan, math.inf, -math.inf, 1e9])
@pytest.mark.parametrize("key", ["e2e_s", "ttft_s", "itl_s"])
def test_an_impossible_duration_is_refused_and_books_nothing(key: str, duration_s: float) -> None:
    requests = book()
    with pytest.raises(ValueError, match="a duration of"):
        requests.request("resnet50", "statsd", "success", **{key: duration_s})
    assert requests.samples() == []


@pytest.mark.parametrize("weight", [0, -1, math.nan, math.inf])
def test_an_impossible_weight_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="a weight of"):
        book().request("resnet50", "statsd", "success", weight=weight)


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(ValueError, match="status 'fine' is none of success, error, aborted"):
        book().request("resnet50", "statsd", "fine")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("resnet50", "resnet50"),
        ("Qwen/Qwen2-7B 指令", "Qwen/Qwen2-7B 指令"),
        ("", "unknown"),
        (" \n", "unknown"),
        ("a\nb\x00c\x7f", "a_b_c_"),
        ("x" * 500, "x" * 128),
    ],
)
def test_a_model_becomes_a_label(name: str, label: str) -> None:
    requests = book()
    requests.request(name, "statsd", "success")
    assert clean_model(name) == label
    assert series(requests.samples(), "inference_requests_total") == {(label, "statsd", "success"): 1}


@given(st.text())
def test_every_label_of_a_model_is_printable_and_short(name: str) -> None:
    label = clean_model(name)
    assert label.isprintable()
    assert 0 < len(label) <= 128
    assert clean_model(label) == label


def test_models_beyond_the_limit_are_other_and_counted() -> None:
    requests = book(most_models=2)
    for name in ("a", "b", "c", "d", "c", "a"):
        requests.request(name, "statsd", "success")
    totals = series(requests.samples(), "inference_requests_total")
    assert {labels[0]: total for labels, total in totals.items()} == {"a": 2, "b": 1, "other": 3}
    assert requests.overflowed == 3


def test_a_name_that_needs_cleaning_leaves_nothing_behind_each_time() -> None:
    requests = book()
    for number in range(1000):
        requests.request("resnet50" + "\n" * (number % 7), "statsd", "success")
    assert series(requests.samples(), "inference_requests_total") == {("resnet50", "statsd", "success"): 1000}


@pytest.mark.slow
def test_memory_of_a_busy_model_is_bounded() -> None:
    """An hour of latencies all over the scale."""
    clock = Clock()
    requests = book(clock)
    source = random.Random(1)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20_000):
            booked(requests, 10 ** source.uniform(-5, 3))
            clock.now += 0.18
        requests.samples()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000
