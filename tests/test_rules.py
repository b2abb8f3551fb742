"""The judge: timelines of one rule at a time, and what must hold for any row of values."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npumond.model import Sample, Snapshot
from npumond.rules import (
    RESOLVED_KEPT_S,
    UNKNOWN_KEPT_S,
    Alert,
    Condition,
    Matcher,
    Rule,
    RuleState,
    Transition,
    alert_json,
    evaluate,
    in_words,
    mistakes,
    parse_selector,
    promql,
    restored,
    shown,
    state_samples,
)

WALL = 1_800_000_000.0
LETTERS = {"pending": "P", "firing": "F", "resolved": "R"}
FULL = Rule(name="Full", metric="npu_hbm_utilization_ratio", threshold=0.9, summary="NPU {device_id} is full")


def snapshot(at: float, *samples: Sample, wall_at: float | None = None) -> Snapshot:
    families: dict[str, tuple[Sample, ...]] = {}
    for sample in samples:
        families[sample.family] = (*families.get(sample.family, ()), sample)
    return Snapshot(at=at, wall_at=WALL + at if wall_at is None else wall_at, families=families)


def hbm(value: float, device_id: str = "0") -> Sample:
    return Sample("npu_hbm_utilization_ratio", (device_id,), value)


def played(rule: Rule, values: Sequence[float | None], step: float = 10.0) -> tuple[str, list[Transition], RuleState]:
    """One letter a step (. P F R), everything told on the way, and the state at the end."""
    state, letters = RuleState(), ""
    told: list[Transition] = []
    for column, value in enumerate(values):
        samples = () if value is None else (Sample(rule.metric, ("0",), value),)
        state, transitions = evaluate([rule], state, snapshot(column * step, *samples))
        told += transitions
        letters += LETTERS[shown(state)[0].state] if shown(state) else "."
    return letters, told, state


def row(text: str) -> list[float | None]:
    return [None if word == "-" else float(word) for word in text.split()]


@pytest.mark.parametrize(
    ("changes", "values", "states"),
    [
        pytest.param({}, "0.5 0.95 0.95 0.5", ".FFR", id="without_for_it_fires_at_once"),
        pytest.param({"for_s": 20}, "0.95 0.95 0.95 0.95", "PPFF", id="it_fires_once_it_was_true_for_the_whole_time"),
        pytest.param({"for_s": 20}, "0.95 0.95 0.5 0.95 0.95 0.95", "PP.PPF", id="one_false_sample_starts_anew"),
        pytest.param({"for_s": 20}, "0.95 - - 0.95 0.95", "PPPPF", id="unknown_time_does_not_count"),
        pytest.param({}, "0.95 - - 0.95 0.5", "FFFFR", id="a_value_that_disappears_holds_the_state"),
        pytest.param({}, "- - 0.5 -", "....", id="nothing_comes_of_nothing"),
        pytest.param({"clear": 0.8}, "0.85 0.95 0.85 0.81 0.8 0.85", ".FFFRR", id="hysteresis_holds_what_fires"),
        pytest.param(
            {"clear": 0.8, "for_s": 20}, "0.95 0.85 0.95", "P.P", id="hysteresis_does_not_hold_what_is_pending"
        ),
        pytest.param({"keep_firing_for_s": 20}, "0.95 0.5 0.5 0.5", "FFFR", id="it_keeps_firing_for_a_while"),
        pytest.param({"keep_firing_for_s": 20}, "0.95 0.5 0.95 0.5 0.5 0.5", "FFFFFR", id="truth_renews_that_while"),
        pytest.param({"keep_firing_for_s": 20}, "0.95 0.5 - - 0.5 0.5", "FFFFFR", id="unknown_does_not_use_it_up"),
        pytest.param({"keep_firing_for_s": 20, "for_s": 10}, "0.95 0.5", "P.", id="what_is_pending_is_not_kept"),
        pytest.param(
            {"op": "<", "threshold": 0.7, "clear": 0.75}, "0.6 0.7 0.74 0.75", "FFFR", id="low_is_bad_as_well"
        ),
        pytest.param({"for_s": 10}, "0.95 0.95 0.5 0.95 0.95", "PFRPF", id="what_was_resolved_begins_again_as_pending"),
    ],
)
def test_timeline(changes: dict[str, float], values: str, states: str) -> None:
    """A row of values in, a row of states out; ten seconds a step."""
    assert played(msgspec.structs.replace(FULL, **changes), row(values))[0] == states


def test_an_alert_has_the_shape_that_scripts_hang_on() -> None:
    """Stamps are wall clock; the value is the newest."""
    _, _, state = played(msgspec.structs.replace(FULL, for_s=10), row("0.5 0.95 0.99 0.2"))
    (alert,) = shown(state)

    assert alert_json(alert) == {
        "id": alert.id,
        "rule": "Full",
        "labels": {"device_id": "0"},
        "state": "resolved",
        "value": 0.2,
        "since": WALL + 10,
        "fired_at": WALL + 20,
        "resolved_at": WALL + 30,
        "severity": "warning",
        "summary": "NPU 0 is full",
    }


def test_an_unknown_value_is_null() -> None:
    """Held is not the same as known."""
    assert played(FULL, row("0.95 -"))[2].alerts[0].value is None


def test_every_change_is_told_once() -> None:
    """What sinks deliver."""
    _, told, _ = played(msgspec.structs.replace(FULL, for_s=10), row("0.95 0.5 0.95 0.95 0.95 0.5 0.5"))

    assert [(change.before, change.after, change.at - WALL) for change in told] == [
        ("inactive", "pending", 0),
        ("pending", "inactive", 10),
        ("inactive", "pending", 20),
        ("pending", "firing", 30),
        ("firing", "resolved", 50),
    ]


def test_a_resolved_alert_is_told_for_fifteen_minutes() -> None:
    """Then it is forgotten."""
    state, _ = evaluate([FULL], RuleState(), snapshot(0, hbm(0.95)))
    state, _ = evaluate([FULL], state, snapshot(1, hbm(0.5)))
    kept, _ = evaluate([FULL], state, snapshot(1 + RESOLVED_KEPT_S, hbm(0.5)))
    after, _ = evaluate([FULL], kept, snapshot(2 + RESOLVED_KEPT_S, hbm(0.5)))

    assert [alert.state for alert in shown(kept)] == ["resolved"]
    assert shown(after) == ()


def test_a_jump_of_the_wall_clock_fires_nothing() -> None:
    """Durations are monotonic; only the stamps jump."""
    rule = msgspec.structs.replace(FULL, for_s=60)
    state, _ = evaluate([rule], RuleState(), snapshot(0, hbm(0.95), wall_at=WALL))
    state, told = evaluate([rule], state, snapshot(1, hbm(0.95), wall_at=WALL + 86400))

    assert told == ()
    assert state.alerts[0].state == "pending"


def test_a_series_that_never_comes_back_is_let_go_after_a_day() -> None:
    """What is remembered is bounded; the end is told."""
    state, _ = evaluate([FULL], RuleState(), snapshot(0, hbm(0.95)))
    state, _ = evaluate([FULL], state, snapshot(1))
    held, _ = evaluate([FULL], state, snapshot(UNKNOWN_KEPT_S))
    after, told = evaluate([FULL], held, snapshot(1 + UNKNOWN_KEPT_S))

    assert len(held.alerts) == 1
    assert after.alerts == ()
    assert [(change.before, change.after) for change in told] == [("firing", "resolved")]


def test_alerts_of_a_rule_that_is_gone_end() -> None:
    """A reload without the rule."""
    state, _ = evaluate([FULL], RuleState(), snapshot(0, hbm(0.95)))
    state, told = evaluate([], state, snapshot(1, hbm(0.95)))

    assert state.alerts == ()
    assert [change.after for change in told] == ["resolved"]


def test_a_condition_known_to_be_false_ends_what_is_otherwise_unknown() -> None:
    """An idle chip is idle, whether or not its utilisation can be read."""
    rule = msgspec.structs.replace(FULL, conditions=(Condition(metric="npu_processes", op=">", threshold=0),))
    busy, idle = (Sample("npu_processes", ("0",), count) for count in (1.0, 0.0))
    state, _ = evaluate([rule], RuleState(), snapshot(0, hbm(0.95), busy))
    state, told = evaluate([rule], state, snapshot(1, idle))

    assert [change.after for change in told] == ["resolved"]


def test_a_condition_speaks_only_for_its_own_device() -> None:
    """Joined on device_id."""
    rule = msgspec.structs.replace(FULL, conditions=(Condition(metric="npu_processes", op=">", threshold=0),))
    processes = [Sample("npu_processes", (device,), count) for device, count in (("0", 0.0), ("1", 2.0))]
    state, _ = evaluate([rule], RuleState(), snapshot(0, hbm(0.95, "0"), hbm(0.95, "1"), *processes))

    assert [alert.labels for alert in state.alerts] == [{"device_id": "1"}]


def test_a_condition_may_ask_for_absence() -> None:
    """A chip that answers but gives no temperature."""
    rule = Rule(
        name="Blind", metric="npu_device_up", op="==", threshold=1,
        conditions=(Condition(metric="npu_temperature_celsius", compare="absent"),),
    )  # fmt: skip
    up = [Sample("npu_device_up", (device,), 1.0) for device in ("0", "1")]
    state, _ = evaluate([rule], RuleState(), snapshot(0, *up, Sample("npu_temperature_celsius", ("0",), 40.0)))

    assert [alert.labels for alert in state.alerts] == [{"device_id": "1"}]


def test_an_absent_metric_is_an_alert_of_its_own() -> None:
    """Its labels are those that were asked for; it is never unknown."""
    rule = Rule(name="Gone", kind="absent", metric="npu_device_up", labels=(Matcher("device_id", "3"),), for_s=5)
    up = Sample("npu_device_up", ("3",), 1.0)
    state, _ = evaluate([rule], RuleState(), snapshot(0))
    state, _ = evaluate([rule], state, snapshot(5))
    _, told = evaluate([rule], state, snapshot(6, up))

    assert [(alert.labels, alert.state) for alert in state.alerts] == [({"device_id": "3"}, "firing")]
    assert [change.after for change in told] == ["resolved"]


def test_a_busy_counter_is_remembered_in_bounded_space() -> None:
    """A rise at every second of an hour."""
    rule = Rule(name="Busy", kind="increase", metric="npu_roce_retries_total", window_s=3600, threshold=1e9)
    state = RuleState()
    for at in range(4000):
        state, _ = evaluate([rule], state, snapshot(at, Sample("npu_roce_retries_total", ("0",), float(at))))

    assert len(state.counters[0].rises) <= 121
    assert sum(rise for _, rise in state.counters[0].rises) == pytest.approx(3600, rel=0.02)


def test_a_restart_counts_as_time_in_which_nothing_was_known() -> None:
    """The pending timer goes on where it was, on a clock that began anew."""
    rule = msgspec.structs.replace(FULL, for_s=60)
    state, _ = evaluate([rule], RuleState(), snapshot(1000, hbm(0.95)))
    state, _ = evaluate([rule], state, snapshot(1040, hbm(0.95)))
    saved = msgspec.json.decode(msgspec.json.encode(state), type=RuleState)

    back = restored(saved, at=5.0, wall_at=state.wall_at + 600)
    early, _ = evaluate([rule], back, snapshot(24, hbm(0.95)))
    late, _ = evaluate([rule], early, snapshot(25, hbm(0.95)))

    assert saved == state
    assert (early.alerts[0].state, late.alerts[0].state) == ("pending", "firing")
    assert late.alerts[0].id == state.alerts[0].id


def test_a_resolved_alert_ages_while_the_daemon_is_down() -> None:
    """Fifteen minutes are fifteen minutes."""
    state, _ = evaluate([FULL], RuleState(), snapshot(0, hbm(0.95)))
    state, _ = evaluate([FULL], state, snapshot(1, hbm(0.5)))
    back = restored(state, at=7.0, wall_at=state.wall_at + RESOLVED_KEPT_S - 1)
    still, _ = evaluate([FULL], back, snapshot(8, hbm(0.5)))
    after, _ = evaluate([FULL], still, snapshot(9, hbm(0.5)))

    assert (len(still.resolved), len(after.resolved)) == (1, 0)


def test_a_severity_label_gives_way_to_the_severity_of_the_rule() -> None:
    """Two series that differ in it alone are one alert, with the higher value."""
    rule = Rule(name="F", metric="npu_fault_active", op="==", threshold=1, severity="critical")
    faults = [
        Sample("npu_fault_active", ("0", "80E01801", word), value) for word, value in (("major", 1.0), ("minor", 0.0))
    ]
    for order in (faults, faults[::-1]):
        state, _ = evaluate([rule], RuleState(), snapshot(0, *order))
        assert [(a.labels, a.severity) for a in state.alerts] == [({"device_id": "0", "code": "80E01801"}, "critical")]


def test_the_judge_tells_of_itself_in_samples() -> None:
    """Zeros included, so that a query of them is never empty."""
    state, _ = evaluate([FULL], RuleState(), snapshot(0, hbm(0.95)))
    samples = {(sample.family, sample.labels): sample.value for sample in state_samples([FULL], state)}

    assert samples["npumond_alerts", ("firing", "warning")] == 1
    assert samples["npumond_alerts", ("pending", "critical")] == 0
    assert samples["npumond_rule_state", ("Full",)] == 2


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (Rule(name="A", metric="npu_x"), "metric 'npu_x' is not in the catalogue (npumond metrics)"),
        (Rule(name="A", metric="npu_query_duration_seconds"), "metric 'npu_query_duration_seconds' is a histogram"),
        (Rule(name="A", metric="npu_power_watts", labels=(Matcher("x", "1"),)), "npu_power_watts has no label 'x'"),
        (
            Rule(name="A", metric="npu_power_watts", labels=(Matcher("device_id", "(", "=~"),)),
            "not a regular expression",
        ),
        (Rule(name="A", metric="npu_hbm_utilization_ratio", threshold=90), "threshold 90 cannot be"),
        (Rule(name="A", metric="npu_power_watts", threshold=9, clear=10), "clear 10 must be below the threshold 9"),
        (
            Rule(name="A", metric="npu_power_watts", threshold=9, clear=8, op="<"),
            "clear 8 must be above the threshold 9",
        ),
        (Rule(name="A", metric="npu_power_watts", op="==", clear=1), "clear has no meaning with =="),
        (Rule(name="A", metric="npu_ecc_errors_total"), "is a counter and only ever rises; use kind increase"),
        (Rule(name="A", metric="npu_power_watts", kind="increase", window_s=5), "kind increase wants a counter"),
        (Rule(name="A", metric="npu_ecc_errors_total", kind="increase"), "kind increase wants a window above 0"),
        (Rule(name="A", metric="npu_power_watts", for_s=-1), "for must not be negative"),
        (Rule(name="A", metric="npu_power_watts", summary="{who}"), "summary: nothing is known as {who}"),
        (Rule(name="A", metric="npu_power_watts", conditions=(Condition(metric="b"),)), "condition on b: metric 'b'"),
    ],
)
def test_a_mistake_in_a_rule_is_named(rule: Rule, line: str) -> None:
    """What a user reads when the configuration is refused."""
    assert [line in told for told in mistakes(rule)] == [True]


def test_a_selector_is_read_as_prometheus_writes_it() -> None:
    """Quotes may be escaped; a label may be excluded."""
    assert parse_selector('npu_throttled{reason!="idle", device_id=~"0|1\\"",}') == (
        "npu_throttled",
        (Matcher("reason", "idle", "!="), Matcher("device_id", '0|1"', "=~")),
    )
    with pytest.raises(ValueError, match="label matchers look like"):
        parse_selector("npu_throttled{reason}")


def test_values_are_said_in_their_unit() -> None:
    """By the suffix of the metric's name."""
    assert in_words("npu_hbm_utilization_ratio", 0.9312) == "93.12 %"
    assert in_words("inference_latency_seconds", 0.12) == "0.12 s"
    assert in_words("npu_temperature_celsius", None) == "unknown"


def test_hysteresis_in_promql_looks_at_what_fired_before() -> None:
    """The ALERTS series stands in for our memory."""
    assert promql(msgspec.structs.replace(FULL, clear=0.8)) == (
        "(npu_hbm_utilization_ratio > 0.9 or (npu_hbm_utilization_ratio > 0.8 and on (device_id, instance, job) "
        'ALERTS{alertname="Full",alertstate="firing",severity="warning"}))'
    )


VALUES = st.lists(st.one_of(st.none(), st.sampled_from([0.5, 0.8, 0.85, 0.9, 0.95])), max_size=25)
RULES = st.builds(
    lambda wait, keep, clear: msgspec.structs.replace(FULL, for_s=wait, keep_firing_for_s=keep, clear=clear),
    st.sampled_from([0.0, 10.0, 25.0]),
    st.sampled_from([0.0, 15.0]),
    st.sampled_from([None, 0.8]),
)


@given(RULES, VALUES)
def test_pending_is_never_skipped_and_every_change_follows_the_one_before(
    rule: Rule, values: list[float | None]
) -> None:
    """For any row of values: the changes told form one unbroken chain."""
    _, told, _ = played(rule, values)
    last = "inactive"
    for change in told:
        assert change.before == last
        assert change.before == "pending" or change.after != "firing" or rule.for_s == 0
        last = "inactive" if change.after == "resolved" else change.after


@given(RULES, VALUES)
def test_judging_the_same_moment_twice_changes_nothing(rule: Rule, values: list[float | None]) -> None:
    """For any row of values."""
    state = RuleState()
    for column, value in enumerate(values):
        seen = snapshot(column * 10, *(() if value is None else (hbm(value),)))
        state, _ = evaluate([rule], state, seen)
        assert evaluate([rule], state, seen) == (state, ())


@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_the_series_does_not_matter(rows: list[list[float]], dice: random.Random) -> None:
    """For any values of four devices."""
    counter = Rule(name="C", kind="increase", metric="npu_roce_retries_total", window_s=30)
    one = two = RuleState()
    for column, values in enumerate(rows):
        samples = [hbm(value, str(device)) for device, value in enumerate(values)]
        samples += [Sample("npu_roce_retries_total", (str(device),), value) for device, value in enumerate(values)]
        one, told = evaluate([FULL, counter], one, snapshot(column * 10, *samples))
        dice.shuffle(samples)
        two, told_too = evaluate([FULL, counter], two, snapshot(column * 10, *samples))
        assert (one, told) == (two, told_too)


@given(VALUES)
def test_without_unknowns_a_restart_at_any_step_changes_nothing(values: list[float | None]) -> None:
    """Saved and restored without delay is as if nothing had happened."""
    rule = msgspec.structs.replace(FULL, for_s=20, keep_firing_for_s=15, clear=0.8)
    through = again = RuleState()
    for column, value in enumerate(values):
        seen = snapshot(column * 10, *(() if value is None else (hbm(value),)))
        through, told = evaluate([rule], through, seen)
        saved = msgspec.json.decode(msgspec.json.encode(again), type=RuleState)
        again, told_again = evaluate([rule], restored(saved, saved.at, saved.wall_at), seen)
        assert [(c.before, c.after) for c in told] == [(c.before, c.after) for c in told_again]


def test_ids_tell_alerts_apart() -> None:
    """By rule, severity and labels."""
    critical = msgspec.structs.replace(FULL, severity="critical")
    state, _ = evaluate([FULL, critical], RuleState(), snapshot(0, hbm(0.95, "0"), hbm(0.95, "1")))
    alerts: tuple[Alert, ...] = state.alerts

    assert len({alert.id for alert in alerts}) == 4
