"""The faults that are active: listed by the chips, told by events in between, or seen by a card's silence."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npumond.faults import describe
from npumond.model import LogicId, PhyId
from npumond.sources.faultbook import LOST_AFTER_S, LOST_CARD, MOST_CODES, ONE_SHOT_S, FaultBook
from npumond.worker.event_protocol import FaultRaised

CHIP = PhyId(5)
IDS = {LogicId(3): CHIP, LogicId(4): PhyId(6)}
HBM = "80E01801"
LINK = "81078603"
NORMAL_S, STALE_S = 5.0, 15.0


def event(
    at: float, assertion: str = "raised", code: str = HBM, *, serial: int = 0, level: str = "major", logic: int = 3
) -> FaultRaised:
    return FaultRaised(at, code, LogicId(logic), level, assertion, serial, serial, "fault", None)  # type: ignore[arg-type]


@pytest.fixture
def book() -> FaultBook:
    return FaultBook(NORMAL_S, STALE_S)


def seen(book: FaultBook, now: float) -> list[tuple[str, str]]:
    return [(fault.code, fault.source) for fault in book.active(now)]


def test_a_listed_code_is_active_while_it_is_listed_and_fresh(book: FaultBook) -> None:
    book.polled(CHIP, [HBM], 10.0)
    assert seen(book, 10.0) == seen(book, 10.0 + STALE_S) == [(HBM, "polled")]
    assert not seen(book, 10.1 + STALE_S)
    book.polled(CHIP, [], 15.0)
    assert not seen(book, 15.0)


def test_a_list_that_comes_late_changes_nothing(book: FaultBook) -> None:
    book.polled(CHIP, [HBM], 10.0)
    book.polled(CHIP, [], 9.0)
    assert seen(book, 10.0) == [(HBM, "polled")]


def test_an_event_is_active_before_a_poll_can_know_of_it(book: FaultBook) -> None:
    book.polled(CHIP, [], 10.0)
    assert book.heard(event(11.0), IDS)
    assert seen(book, 11.0) == [(HBM, "event")]
    book.polled(CHIP, [HBM], 15.0)
    assert seen(book, 15.0) == [(HBM, "polled")]


def test_a_recovery_is_seen_before_a_poll_can_know_of_it(book: FaultBook) -> None:
    book.polled(CHIP, [HBM], 10.0)
    book.heard(event(11.0, "recovered"), IDS)
    assert not seen(book, 11.0)
    book.polled(CHIP, [HBM], 16.0)
    assert not seen(book, 16.0)


@pytest.mark.parametrize(("assertion", "listed"), [("raised", []), ("recovered", [HBM])])
def test_a_poll_newer_by_more_than_an_interval_wins(book: FaultBook, assertion: str, listed: list[str]) -> None:
    """Events may be lost; what the chip lists rules in the end."""
    book.heard(event(10.0, assertion), IDS)
    book.polled(CHIP, listed, 15.0)
    assert seen(book, 15.0) == ([(HBM, "event")] if assertion == "raised" else [])
    book.polled(CHIP, listed, 15.1)
    assert seen(book, 15.1) == ([] if assertion == "raised" else [(HBM, "polled")])


def test_an_event_that_a_poll_overruled_does_not_return_when_polls_stop(book: FaultBook) -> None:
    book.heard(event(10.0), IDS)
    book.polled(CHIP, [], 16.0)
    assert not seen(book, 100.0)


def test_what_happened_once_is_shown_for_a_minute(book: FaultBook) -> None:
    book.heard(event(10.0, "one_shot"), IDS)
    for at in (15.0, 20.0, 60.0):
        book.polled(CHIP, [], at)
    assert seen(book, 10.0 + ONE_SHOT_S) == [(HBM, "event")]
    assert not seen(book, 10.1 + ONE_SHOT_S)
    book.polled(CHIP, [HBM], 80.0)
    assert seen(book, 80.0) == [(HBM, "polled")]


def test_a_double_does_not_make_an_event_younger(book: FaultBook) -> None:
    book.heard(event(10.0, "one_shot", serial=4), IDS)
    assert not book.heard(event(50.0, "one_shot", serial=4), IDS)
    assert not seen(book, 71.0)


def test_a_raise_that_comes_after_its_recovery_is_late(book: FaultBook) -> None:
    book.heard(event(10.0, "recovered", serial=8), IDS)
    assert not book.heard(event(11.0, "raised", serial=7), IDS)
    assert not seen(book, 11.0)


def test_numbers_may_wrap_and_begin_anew(book: FaultBook) -> None:
    book.heard(event(10.0, "raised", serial=(1 << 31) - 1), IDS)
    book.heard(event(11.0, "recovered", serial=-(1 << 31)), IDS)
    assert not seen(book, 11.0)
    assert book.heard(event(30.0, "raised", serial=1), IDS)
    assert seen(book, 30.0) == [(HBM, "event")]


def test_after_a_gap_the_next_poll_rules(book: FaultBook) -> None:
    """The recovery may have been missed; until a poll tells, the fault does not flicker."""
    book.heard(event(10.0), IDS)
    book.gap(11.0)
    assert seen(book, 11.5) == [(HBM, "event")]
    book.polled(CHIP, [], 12.0)
    assert not seen(book, 12.0)


def test_after_a_gap_without_polls_an_event_is_not_believed_for_ever(book: FaultBook) -> None:
    book.heard(event(10.0), IDS)
    book.gap(11.0)
    assert not seen(book, 11.1 + STALE_S)
    book.heard(event(40.0), IDS)
    assert seen(book, 400.0) == [(HBM, "event")]


def test_the_chip_s_own_severity_wins_and_stays(book: FaultBook) -> None:
    """The labels of a series do not change while the fault lasts."""
    book.polled(CHIP, [HBM, LINK], 9.0)
    book.heard(event(10.0, level="critical"), IDS)
    for at in range(10, 200, 5):
        book.polled(CHIP, [HBM, LINK], float(at))
        assert [sample.labels for sample in book.samples(float(at))] == [
            ("5", HBM, "critical"),
            ("5", LINK, "notice"),
        ]


def test_a_level_that_is_none_leaves_the_table_s(book: FaultBook) -> None:
    book.heard(event(10.0, code=LINK, level="unknown"), IDS)
    assert [fault.severity for fault in book.active(10.0)] == ["notice"]


def test_an_event_of_a_device_that_nobody_knows_is_counted(book: FaultBook) -> None:
    assert not book.heard(event(10.0, logic=9), IDS)
    assert (book.active(10.0), book.unmatched) == ([], 1)


def test_a_card_that_stays_not_ready_is_lost_and_comes_back(book: FaultBook) -> None:
    """One that boots or is reset is back sooner."""
    for at in (10.0, 20.0, 10.0 + LOST_AFTER_S):
        book.not_ready(CHIP, at)
    assert not seen(book, 10.0 + LOST_AFTER_S)
    assert [(f.code, f.source, f.severity, f.since) for f in book.active(40.1)] == [
        (LOST_CARD, "synthetic", "critical", 10.0)
    ]
    book.ready(CHIP)
    assert not seen(book, 41.0)


def test_a_lost_card_that_the_driver_tells_of_is_one_fault(book: FaultBook) -> None:
    book.not_ready(CHIP, 10.0)
    book.heard(event(12.0, code=LOST_CARD), IDS)
    assert seen(book, 50.0) == [(LOST_CARD, "event")]


def test_the_json_says_what_how_and_since_when(book: FaultBook) -> None:
    book.heard(event(10.0, level="minor"), IDS)
    book.json(11.0, 1011.0)
    book.polled(CHIP, [HBM], 15.0)
    assert book.json(20.0, 1020.0) == [
        {
            "device_id": 5,
            "code": HBM,
            "severity": "minor",
            "meaning": describe(HBM),
            "name": "fault",
            "source": "polled",
            "since": 1010.0,
        }
    ]


def test_a_fault_that_comes_again_is_new(book: FaultBook) -> None:
    for at, listed in ((10.0, [HBM]), (15.0, []), (20.0, [HBM]), (25.0, [HBM])):
        book.polled(CHIP, listed, at)
        since = [fault.since for fault in book.active(at)]
    assert since == [20.0]


@pytest.mark.slow
@given(st.lists(st.sampled_from(["raised", "recovered"]), min_size=1, max_size=12), st.randoms(), st.integers(1, 3))
def test_doubles_and_changes_of_order_end_where_the_order_would(
    assertions: list[str], shuffle: random.Random, times: int
) -> None:
    """The one with the highest number has the last word, whenever it comes."""
    events = [event(0.0, assertion, serial=number) for number, assertion in enumerate(assertions, 1)] * times
    shuffle.shuffle(events)
    book = FaultBook(NORMAL_S, STALE_S)
    for position, one in enumerate(events):
        book.heard(event(position * 0.1, one.assertion, serial=one.notify_serial), IDS)
    assert bool(book.active(5.0)) == (assertions[-1] == "raised")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("polled"), st.sets(st.sampled_from([HBM, LINK, LOST_CARD]))),
        st.tuples(
            st.just("heard"),
            st.builds(
                event,
                st.floats(0, 100),
                st.sampled_from(["raised", "recovered", "one_shot"]),
                st.sampled_from([HBM, LINK]),
                serial=st.integers(-(1 << 31), (1 << 31) - 1),
                logic=st.integers(0, 5),
            ),
        ),
        st.tuples(st.sampled_from(["gap", "not_ready", "ready"]), st.none()),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(STEPS)
def test_whatever_was_told_the_list_rules_in_the_end(steps: list[tuple[str, object]]) -> None:
    """Two polls later than everything else, only they count; and no series is there twice at any time."""
    book = FaultBook(NORMAL_S, STALE_S)
    for at, (what, value) in enumerate(steps):
        match what:
            case "heard":
                assert isinstance(value, FaultRaised)
                book.heard(value, IDS)
            case "polled":
                book.polled(CHIP, value, float(at))  # type: ignore[arg-type]
            case "gap":
                book.gap(float(at))
            case _:
                (book.not_ready(CHIP, float(at)) if what == "not_ready" else book.ready(CHIP))
        labels = [sample.labels for sample in book.samples(float(at))]
        assert len(labels) == len({label[:2] for label in labels})
    end = 100.0 + ONE_SHOT_S + 1.0
    for phy_id in IDS.values():
        book.ready(phy_id)
        book.polled(phy_id, [LINK] if phy_id == CHIP else [], end)
    assert [(fault.phy_id, fault.code, fault.source) for fault in book.active(end)] == [(CHIP, LINK, "polled")]


def test_a_flood_of_codes_is_bounded(book: FaultBook) -> None:
    codes = [f"{number:08X}" for number in range(1, 5000)]
    for at, code in enumerate(codes):
        book.heard(event(at * 0.001, code=code, serial=at + 1), IDS)
    assert len(book.active(5.0)) == MOST_CODES
    book.polled(CHIP, codes, 5.0)
    assert len(book.active(5.0)) <= 2 * MOST_CODES
    for at in range(10, 100, 5):
        book.polled(CHIP, [], float(at))
        book.active(float(at))
    chip = book._chips[CHIP]
    assert not chip.events
    assert not chip.told
    assert not chip.since
