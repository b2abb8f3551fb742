"""The last minutes of one target: the difference of its counters over a sliding window, and totals that never fall.

Counters of a server tell its whole life. What happened within the window is the newest page less the oldest one that is
not older than the window: never only the last two pages, which at low traffic hold too few requests.

A server that restarts begins to count anew, and that is seen for the target as a whole: by its start time, or by any
counter that fell. Then every counter was 0 before. Looking at each series by itself would miss a counter that has
reached its old value again.

Pure: times are monotonic seconds and come in with the pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from npumond.sources.inference.targets.counts import counters
from npumond.sources.inference.targets.kinds import STARTED_AT, ServerKind
from npumond.sources.inference.targets.metrics_page import Key

MOST_PAGES = 30
"""Pages that are kept of a window; of those that come faster some are left out."""

MOST_CARRIED = 10_000
"""Counters that are remembered while they are not on the page."""

_START_DIFFERS_S = 1.0
"""Start times that differ by less are one: some servers compute theirs anew each time."""


class Scrape(Struct, frozen=True):
    """One page."""

    at: float
    series: Mapping[Key, float]
    counters: Mapping[Key, float]
    started_at: float | None
    """Unix seconds of the server's start; None where it does not tell."""


def scrape(kind: ServerKind, series: Mapping[Key, float], at: float) -> Scrape:
    """A page as it was read at this time."""
    return Scrape(at, series, counters(kind, series), series.get(Key(STARTED_AT, ())))


class SlidingWindow:
    """The pages of one target."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._scrapes: deque[Scrape] = deque()
        self.restarts = 0
        """How often the target's counters began anew."""
        self.step: Mapping[Key, float] = {}
        """What the newest page added to the counters: all of them at the first, the difference afterwards."""

    @property
    def newest(self) -> Scrape | None:
        """The last page; None before the first."""
        return self._scrapes[-1] if self._scrapes else None

    def add(self, new: Scrape) -> None:
        """Take the next page."""
        before = self.newest
        if before is None:
            self.step = new.counters
        elif _restarted(before, new):
            self.restarts += 1
            self.step = new.counters
            self._scrapes.clear()
            # The server counted from 0 some time after the last page, so that is what stands for its first.
            self._scrapes.append(Scrape(before.at, {}, dict.fromkeys(new.counters, 0.0), new.started_at))
        else:
            if _has_other_bounds(before, new):
                self._scrapes.clear()
            else:
                new = _carried(before, new)
            self.step = _difference(new, before)
        self._forget(new.at)
        if self._scrapes:  # only the newest page's gauges are of use, and pages can be large
            self._scrapes[-1] = replace(self._scrapes[-1], series={})
        self._scrapes.append(new)

    def difference(self) -> Mapping[Key, float] | None:
        """How much each counter rose within the window; None while there is only one page to look at.

        A series that is new since then rose from 0.
        """
        if len(self._scrapes) < 2:
            return None
        return _difference(self._scrapes[-1], self._scrapes[0])

    @property
    def length_s(self) -> float:
        """Seconds between the two pages that `difference` compares; 0 without two."""
        return self._scrapes[-1].at - self._scrapes[0].at if len(self._scrapes) > 1 else 0.0

    def _forget(self, now: float) -> None:
        """Leave out what is older than the window, but not the last page, and what comes too fast.

        The last page stays where pages are further apart than the window: their difference is all there is. After an
        outage of several windows it goes too, since that difference is not the last minute.
        """
        scrapes = self._scrapes
        while len(scrapes) > 1 and now - scrapes[0].at > self.window_s:
            scrapes.popleft()
        if len(scrapes) == 1 and now - scrapes[0].at > _OUTAGE * self.window_s:
            scrapes.clear()
        if len(scrapes) > 1 and scrapes[-1].at - scrapes[-2].at < self.window_s / MOST_PAGES:
            scrapes.pop()


_OUTAGE = 3.0
"""Windows without a page after which the one before is no longer compared with."""


_FELL = 1 - 1e-9
"""A sum of times that was added up in another order differs in its last bits, which is no restart."""


def _restarted(old: Scrape, new: Scrape) -> bool:
    if old.started_at and new.started_at and abs(old.started_at - new.started_at) > _START_DIFFERS_S:
        return True
    before = old.counters
    return any(value < before[key] * _FELL for key, value in new.counters.items() if key in before)


def _difference(new: Scrape, old: Scrape) -> dict[Key, float]:
    before = old.counters
    return {key: value - before.get(key, 0.0) for key, value in new.counters.items()}


def _carried(before: Scrape, new: Scrape) -> Scrape:
    """The new page with the last value of counters that are not on it: one that is back later did not begin anew."""
    gone = {key: value for key, value in before.counters.items() if key not in new.counters}
    if not gone or len(gone) > MOST_CARRIED:
        return new
    return Scrape(new.at, new.series, {**gone, **new.counters}, new.started_at)


def _has_other_bounds(before: Scrape, new: Scrape) -> bool:
    """Whether a histogram that both have is cut into other buckets; one that is new says nothing of that."""
    if before.counters.keys() == new.counters.keys():
        return False
    old, now = _bounds(before), _bounds(new)
    return any(old[name] != now[name] for name in old.keys() & now.keys())


def _bounds(one: Scrape) -> dict[str, set[float]]:
    found: dict[str, set[float]] = {}
    for key in one.counters:
        if key.le is not None:
            found.setdefault(key.name, set()).add(key.le)
    return found
