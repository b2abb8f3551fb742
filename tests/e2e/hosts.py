"""The hosts that the real daemon is run on, and what was seen of each: one run a host in a whole test session."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.e2e.daemon import Daemon, Page, is_complete, series
from tests.e2e.truth import out_of_reach
from tests.standin.build import StandIn
from tests.standin.profiles import PROFILES, permute_ids, profile, sparse_cards, with_failed_card
from tests.standin.scenario import Scenario

VARIANTS: Mapping[str, Callable[[], Scenario]] = {
    "910b with permuted ids": lambda: permute_ids(profile("910b"), (3, 0, 7, 1, 6, 2, 5, 4)),
    "310p_duo on sparse cards": lambda: sparse_cards(permute_ids(profile("310p_duo")), (17, 61)),
    "a3 with a failed card": lambda: with_failed_card(profile("a3"), 3),
}


def host(name: str) -> Scenario:
    """The scenario of a host: a profile's name, or one of `VARIANTS`."""
    return out_of_reach(VARIANTS[name]() if name in VARIANTS else profile(name))


BOOKS_READ_AT = series("npumond_source_last_success_timestamp_seconds", source="self", group="normal")

HOSTS: tuple[str, ...] = (*PROFILES, *VARIANTS)


class Observed(NamedTuple):
    """What a run showed: pages and calls. The daemon has ended with exit status 0."""

    scenario: Scenario
    page: Page
    """The page in text once every lane of every device had its round."""
    openmetrics: Page
    """The same snapshot in the other format."""
    later: Page
    """A page of some rounds later."""
    started_at: float
    ended_at: float
    """Unix seconds before the start and after the last page."""
    calls: list[tuple[str, str]]
    """Every call that was made: function and subtype."""


def observe(directory: Path, standin: StandIn, scenario: Scenario) -> Observed:
    """Run the daemon on the host until it has shown everything."""
    started_at = time.time()
    with Daemon(directory, standin, scenario) as daemon:
        daemon.page_when(is_complete, "every lane of every device has reported")
        reported_at = time.time()
        daemon.page_when(lambda now: now.values[BOOKS_READ_AT] > reported_at, "the daemon's books tell of all of it")
        page, openmetrics = daemon.both()
        later = daemon.page_when(lambda now: _is_later(now, page), "every device had more rounds, and they are counted")
    return Observed(scenario, page, openmetrics, later, started_at, time.time(), daemon.calls)


def _is_later(page: Page, than: Page) -> bool:
    """Whether every device had another fast round, and the books of the calls were read again since."""
    count, calls = "npu_query_duration_seconds_count", "npumond_driver_calls_total"
    before, now = than.of(count), page.of(count)
    return all(now[device] > before[device] for device in before) and all(
        page.of(calls)[call] > than.of(calls)[call]
        for call in than.of(calls)
        if ("call", "dcmi_get_device_health") in call
    )
