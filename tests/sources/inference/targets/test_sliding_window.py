"""The window: what happened in the last minute, whatever the server's counters have seen before."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from npumond.sources.inference.targets.kinds import ServerKind
from npumond.sources.inference.targets.metrics_page import Key
from npumond.sources.inference.targets.sliding_window import MOST_PAGES, Scrape, SlidingWindow

WINDOW_S = 60.0
GOOD, BAD = Key("good_total", ()), Key("bad_total", ())
KIND = ServerKind(name="x", marks=())


def page(at: float, good: float, bad: float = 0.0, *, started_at: float | None = None, **more: float) -> Scrape:
    series = {GOOD: good, BAD: bad, **{Key(name, ()): value for name, value in more.items()}}
    return Scrape(at, series, series, started_at)


def window(*pages: Scrape) -> SlidingWindow:
    made = SlidingWindow(WINDOW_S)
    for one in pages:
        made.add(one)
    return made


def rise(seen: SlidingWindow) -> Mapping[Key, float]:
    found = seen.difference()
    assert found is not None
    return found


def test_the_first_page_gives_no_window() -> None:
    """The totals of a lifetime are not the last minute."""
    assert window(page(0, 1000)).difference() is None


def test_the_window_is_the_newest_page_less_the_oldest_that_is_in_it() -> None:
    seen = window(*(page(at, at) for at in range(0, 201, 10)))
    assert rise(seen)[GOOD] == 60
    assert seen.length_s == 60


def test_pages_further_apart_than_the_window_are_compared_all_the_same() -> None:
    assert rise(window(page(0, 5), page(90, 9)))[GOOD] == 4


def test_after_a_long_outage_there_is_no_window() -> None:
    seen = window(page(0, 5), page(10, 6), page(1000, 900))
    assert seen.difference() is None
    assert seen.step[GOOD] == 894


def test_an_idle_server_has_a_window_in_which_nothing_happened() -> None:
    assert rise(window(page(0, 5), page(30, 5))) == {GOOD: 0, BAD: 0}


def test_a_series_that_is_new_rose_from_nothing() -> None:
    assert rise(window(page(0, 5), page(30, 6, new_total=3)))[Key("new_total", ())] == 3


def test_a_counter_that_fell_is_a_restart_of_the_whole_target() -> None:
    """The other counter has its old value again, which by itself would look like nothing."""
    seen = window(page(0, 500, 2), page(30, 39, 2))
    assert rise(seen) == {GOOD: 39, BAD: 2}
    assert seen.restarts == 1


def test_another_start_time_is_a_restart_even_if_no_counter_fell() -> None:
    seen = window(page(0, 5, started_at=100.0), page(30, 7, started_at=200.0))
    assert rise(seen)[GOOD] == 7
    assert seen.restarts == 1


@pytest.mark.parametrize("started_at", [100.4, None])
def test_a_start_time_that_is_about_the_same_or_missing_is_no_restart(started_at: float | None) -> None:
    seen = window(page(0, 5, started_at=100.0), page(30, 7, started_at=started_at))
    assert (rise(seen)[GOOD], seen.restarts) == (2, 0)


def test_after_a_restart_the_window_goes_on() -> None:
    seen = window(page(0, 500), page(10, 3), page(20, 8))
    assert rise(seen)[GOOD] == 8
    seen.add(page(75, 20))
    assert rise(seen)[GOOD] == 12


def test_steps_add_up_to_all_that_ever_happened() -> None:
    """What the totals are made of: they never fall."""
    seen, total = SlidingWindow(WINDOW_S), 0.0
    for at, good in enumerate((10, 12, 12, 4, 9, 0, 1)):
        seen.add(page(at * 5.0, good))
        total += seen.step[GOOD]
    assert total == 12 + 9 + 0 + 1
    assert seen.restarts == 2


def test_other_bounds_begin_anew() -> None:
    """A server that was upgraded has other buckets, which cannot be compared."""
    old, new = Key("h_bucket", (), 0.3), Key("h_bucket", (), 0.1)
    seen = SlidingWindow(WINDOW_S)
    for at, key in ((0.0, old), (10.0, old), (20.0, new)):
        series = {key: at, GOOD: at}
        seen.add(Scrape(at, series, series, None))
    assert seen.difference() is None


def test_pages_that_come_very_fast_cost_no_more_memory() -> None:
    seen = window(*(page(number / 100, number) for number in range(20_000)))
    assert len(seen._scrapes) <= MOST_PAGES + 1
    assert rise(seen)[GOOD] == pytest.approx(6000, abs=100)
