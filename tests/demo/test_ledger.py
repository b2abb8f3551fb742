"""Totals are right whoever looks and whenever, and the spells can be seen in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pytest

from npumond.demo.ledger import MOST_SECONDS, Ledger
from npumond.demo.page import MINDIE_BOUNDS, VLLM_BOUNDS
from npumond.demo.traffic import CHAT, FAST, Spell, Traffic, asked, requests
from tests.demo.windows import Window, totals, windows

LATE_S = 15
"""So long after a spell there may still be requests that came in it."""


def vllm() -> Ledger:
    """A new one."""
    return Ledger(FAST, "vllm", 1, VLLM_BOUNDS)


def mindie() -> Ledger:
    """A new one."""
    return Ledger(CHAT, "mindie", 1, MINDIE_BOUNDS, whole_ms=True)


@cache
def fast(seed: int) -> list[Window]:
    """Half an hour of the small model."""
    return windows(FAST, "vllm", seed, VLLM_BOUNDS, 1800)


@cache
def chat(seed: int) -> list[Window]:
    """An hour of the big model."""
    return windows(CHAT, "mindie", seed, MINDIE_BOUNDS, 3600)


def outside(spell: Spell, among: list[Window]) -> list[Window]:
    """The windows that have nothing of it."""
    return [window for window in among if not spell.touches(window.start - LATE_S, window.end)]


def inside(spell: Spell, among: list[Window]) -> list[Window]:
    """The windows that have it at full strength from their beginning to their end."""
    starts = ((window, (window.start - LATE_S) % spell.period_s - spell.start_s - spell.ramp_s) for window in among)
    room = spell.length_s - 2 * spell.ramp_s
    return [window for window, into in starts if into >= 0 and into + LATE_S + 60 <= room]


@pytest.mark.parametrize("make", [vllm, mindie])
def test_it_does_not_matter_how_often_somebody_looks(make: Callable[[], Ledger]) -> None:
    often, once = make(), make()
    for step in range(300):
        often.advance(step * 0.37)
    once.advance(299 * 0.37)
    # Not to the last digit: sums are added up in another order.
    assert list(totals(often)) == pytest.approx(list(totals(once)), rel=1e-12)
    assert often.output_tokens_per_second == once.output_tokens_per_second


@pytest.mark.slow
@pytest.mark.parametrize("make", [vllm, mindie])
def test_no_total_falls_in_ten_thousand_random_steps(make: Callable[[], Ledger]) -> None:
    ledger, source = make(), random.Random(3)
    before, t = list(totals(ledger)), 0.0
    for _ in range(10_000):
        t += source.choice((0.0, 0.001, 0.02, 0.1)) * source.random()
        ledger.advance(t)
        after = list(totals(ledger))
        assert all(then <= now for then, now in zip(before, after, strict=True))
        before = after


def test_a_request_is_counted_as_answered_when_it_has_ended() -> None:
    ledger = vllm()
    ledger.advance(49.5)
    came = [each for second in range(50) for each in requests(FAST, "vllm", 1, second) if each.outcome != "aborted"]
    ended = sum(each.outcome == "refused" or each.finished_at <= 49.5 for each in came)
    assert ledger.http_statuses.total() == ended


def test_a_client_that_left_is_in_no_count_of_finished_requests() -> None:
    ledger = vllm()
    ledger.advance(60)
    assert sum(engine.finished["aborted"] for engine in ledger.engines) == 0


def test_a_gap_is_caught_up_with_in_bounds() -> None:
    ledger = mindie()
    ledger.advance(1e7 + 0.5)
    assert 0 < ledger.received < MOST_SECONDS * 2 * CHAT.per_second


def test_a_request_that_somebody_really_sent_is_counted_too() -> None:
    ledger, other = mindie(), mindie()
    other.advance(30)
    ledger.advance(10)
    ledger.take(asked(CHAT, random.Random(0), 10, 4))
    ledger.advance(30)
    assert ledger.http_statuses["2xx"] == other.http_statuses["2xx"] + 1


def test_whole_milliseconds_are_told_where_the_server_has_no_finer_ones() -> None:
    ledger = mindie()
    ledger.advance(60)
    assert ledger.engines[0].histograms["ttft"].sum * 1000 == pytest.approx(
        round(ledger.engines[0].histograms["ttft"].sum * 1000), abs=1e-6
    )


def test_requests_wait_and_the_cache_fills_while_the_server_is_slow() -> None:
    ledger = mindie()
    ledger.advance(250)
    calm = ledger.engines[0].waiting, ledger.engines[0].held_tokens
    ledger.advance(400)
    assert (ledger.engines[0].waiting, ledger.engines[0].held_tokens) > calm
    assert calm[0] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
class TestSpells:
    def test_the_p99_of_the_small_model_is_under_100_ms_while_it_is_well(self, seed: int) -> None:
        assert all(window.p99 < 0.1 for window in outside(FAST.slow, fast(seed)))

    def test_the_p99_of_the_small_model_is_certainly_over_100_ms_while_it_is_slow(self, seed: int) -> None:
        slow = inside(FAST.slow, fast(seed))
        assert slow
        assert all(window.p99 > 0.2 and window.bucket_of_p99[0] >= 0.1 for window in slow)

    def test_the_p99_of_the_big_model_is_seconds_at_any_time(self, seed: int) -> None:
        assert all(window.bucket_of_p99[0] >= 1 for window in chat(seed))

    @pytest.mark.parametrize("traffic", [FAST, CHAT], ids=["fast", "chat"])
    def test_success_is_under_three_nines_while_the_server_fails(self, seed: int, traffic: Traffic) -> None:
        failing = inside(traffic.failing, of(traffic, seed)) or at_the_end(traffic.failing, of(traffic, seed))
        assert failing
        assert all(window.success < 0.999 for window in failing)

    @pytest.mark.parametrize("traffic", [FAST, CHAT], ids=["fast", "chat"])
    def test_success_is_three_nines_at_any_other_time(self, seed: int, traffic: Traffic) -> None:
        well = outside(traffic.failing, of(traffic, seed))
        assert well
        assert all(window.success >= 0.999 for window in well)

    def test_the_big_model_fails_for_longer_than_the_rule_waits(self, seed: int) -> None:
        failing = [window.end for window in chat(seed) if window.success < 0.999 and window.end < 700]
        assert failing[-1] - failing[0] > 300
        assert len(failing) == 1 + (failing[-1] - failing[0]) / 5


def of(traffic: Traffic, seed: int) -> list[Window]:
    """All windows of this traffic."""
    return fast(seed) if traffic is FAST else chat(seed)


def at_the_end(spell: Spell, among: list[Window]) -> list[Window]:
    """The windows that begin and end with the spell, where it is as long as they are."""
    return [window for window in among if window.start % spell.period_s == spell.start_s]
