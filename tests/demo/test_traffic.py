"""The load is the same for the same seed, and its spells are where they are said to be."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from npumond.demo.traffic import CHAT, FAST, Request, Spell, Traffic, asked, rate, request, requests

SPELL = Spell(period_s=100, start_s=20, length_s=30, ramp_s=10)


def typical(traffic: Traffic, at: float, max_tokens: int | None = None) -> float:
    """Mean duration of requests that are sent at this second."""
    source = random.Random(0)
    drawn = [asked(traffic, source, at, max_tokens) for _ in range(200)]
    return fmean(each.finished_at - each.arrived_at for each in drawn)


@pytest.mark.parametrize(
    ("t", "strength"), [(0, 0), (20, 0), (25, 0.5), (30, 1), (40, 1), (45, 0.5), (50, 0), (99, 0), (135, 1)]
)
def test_a_spell_ramps_up_and_down_in_each_period(t: float, strength: float) -> None:
    assert SPELL.at(t) == strength


@pytest.mark.parametrize(
    ("start", "end", "touched"),
    [(0, 19, False), (0, 21, True), (30, 35, True), (49, 60, True), (50, 119, False), (60, 121, True), (0, 400, True)],
)
def test_a_spell_knows_whether_it_touches_a_window(start: float, end: float, touched: bool) -> None:
    assert SPELL.touches(start, end) is touched


def test_a_second_has_the_same_requests_whenever_it_is_asked_for() -> None:
    assert requests(FAST, "vllm", 7, 31) == requests(FAST, "vllm", 7, 31)


def test_another_seed_and_another_server_have_other_requests() -> None:
    drawn = [requests(FAST, name, seed, 31) for name, seed in (("vllm", 1), ("vllm", 2), ("mindie", 1))]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


@pytest.mark.parametrize("traffic", [FAST, CHAT])
def test_requests_arrive_at_the_rate_of_the_hour(traffic: Traffic) -> None:
    arrived = sum(len(requests(traffic, "any", 1, second)) for second in range(120))
    expected = sum(rate(traffic, second) for second in range(120))
    assert arrived == pytest.approx(expected, abs=4 * expected**0.5)


@pytest.mark.parametrize("traffic", [FAST, CHAT])
def test_requests_are_in_the_order_of_their_arrival_and_within_their_second(traffic: Traffic) -> None:
    arrived = [each.arrived_at for second in range(60) for each in requests(traffic, "any", 1, second)]
    assert arrived == sorted(arrived)
    assert 0 <= arrived[0] < arrived[-1] < 60


@pytest.mark.parametrize("traffic", [FAST, CHAT])
def test_the_times_of_a_request_follow_each_other(traffic: Traffic) -> None:
    drawn = [each for second in range(0, 600, 10) for each in requests(traffic, "any", 1, second)]
    assert all(each.arrived_at < each.started_at < each.first_at <= each.finished_at for each in drawn)


def test_steps_and_stalls_make_up_the_time_after_the_first_token() -> None:
    drawn = [each for second in range(5) for each in requests(FAST, "vllm", 1, second) if each.output_tokens]
    assert [each.finished_at - each.first_at for each in drawn] == pytest.approx([decoding(each) for each in drawn])


def decoding(each: Request) -> float:
    """What the steps between the tokens add up to."""
    return (each.output_tokens - 1 - each.stalls) * each.step_s + each.stalls * each.stall_s


@pytest.mark.parametrize("outcome", ["error", "refused"])
def test_a_request_that_fails_has_no_answer(outcome: str) -> None:
    source = random.Random(0)
    drawn = request(FAST, source, 0.0, "error" if outcome == "error" else "refused")
    assert (drawn.output_tokens, drawn.finished_at) == (0, drawn.first_at)


@pytest.mark.parametrize("traffic", [FAST, CHAT])
def test_a_request_takes_longer_by_the_slowdown_while_the_server_is_slow(traffic: Traffic) -> None:
    slow_at = traffic.slow.start_s + traffic.slow.length_s / 2
    ratio = (typical(traffic, slow_at) - traffic.queue_s) / typical(traffic, 0)
    assert ratio == pytest.approx(traffic.slowdown, rel=0.15)


def test_an_answer_is_cut_where_the_client_wants_it_and_says_so() -> None:
    drawn = asked(CHAT, random.Random(0), 0.0, 4)
    assert (drawn.output_tokens, drawn.outcome) == (4, "length")


def test_requests_fail_in_the_failing_spell_alone() -> None:
    source = random.Random(0)
    failed = [[asked(CHAT, source, at, None).outcome == "error" for _ in range(1000)] for at in (100.0, 300.0)]
    assert [sum(each) for each in failed] == [0, pytest.approx(60, abs=30)]
