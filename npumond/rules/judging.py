"""Judging: rules and a snapshot in, alerts and their changes out.

A rule compares each series of one metric with a threshold. An alert is one rule's opinion of one series; what it is
known by is the rule's name, the severity and the labels of the series. `evaluate` is a pure function: the state goes in
and comes out, time is in the snapshot.

What is meant is what Prometheus means, so that one table can serve two judges:

* An alert is pending from the first evaluation that finds the expression true, and firing from the first at which it
  has been true for ``for_s``. One false evaluation ends a pending alert.
* ``clear`` is the threshold for an alert that fires already; ``keep_firing_for_s`` keeps it firing after the expression
  has become false.
* Two levels of one thing are two rules of one name and different severity; both may fire, as in Prometheus.

And where we differ from it, on purpose:

* **Unknown holds.** When the series, or what a condition asks about, has no sample, the alert stays as it is and its
  clocks stand still: a pending alert neither fires nor starts anew, a firing one neither resolves nor runs out of
  ``keep_firing_for_s``. Its value is None meanwhile. Prometheus takes absence for false. Absence has rules of its own
  (kind ``absent``, comparison ``absent``). A condition known to be false makes the whole false, whatever is unknown.
* An alert that is unknown for `UNKNOWN_KEPT_S` ends: a chip that left for good must not be held for ever.

Two clocks: durations follow ``snapshot.at`` (monotonic), so a jump of the wall clock neither fires nor resolves
anything. Times told to people are ``snapshot.wall_at``.

Why a table of rows and not PromQL: a row can be checked, shown and overridden field by field, and both judges can be
made from it; an evaluator of PromQL on the node would be larger than the daemon.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from npumond.model import Sample, Snapshot
from npumond.rules.table import (
    RESOLVED_KEPT_S,
    UNKNOWN_KEPT_S,
    After,
    Alert,
    Before,
    Condition,
    Counter,
    Matcher,
    Op,
    Rule,
    RuleState,
    Series,
    Transition,
    accepts,
    filled,
    identity,
    joined_on,
    label_names,
    limit,
)

_OPS: dict[Op, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_GRAINS = 120
"""Into how many parts the window of an ``increase`` rule is divided; bounds what is remembered of a busy counter."""
_SEEN_REFRESH_S = 3600.0
"""How coarsely a counter's last sight is noted: a quiet counter then costs no new record at each evaluation."""


# --- Rows made ready for judging -------------------------------------------------------------------------------------

_Admits = Callable[[Series], bool]


class _Join(Struct, frozen=True, eq=False):
    """A condition with its labels turned into positions."""

    condition: Condition
    threshold: float
    ours: tuple[int, ...]
    theirs: tuple[int, ...]
    admits: _Admits | None


class _Plan(Struct, frozen=True, eq=False, kw_only=True):
    """A rule with its labels turned into positions."""

    rule: Rule
    key: str
    names: tuple[str, ...]
    keeps: tuple[int, ...] | None
    """Positions of the labels that identify an alert; None: all of them."""
    admits: _Admits | None
    joins: tuple[_Join, ...]
    gone: tuple[_Join, ...]


def _admission(names: tuple[str, ...], matchers: Iterable[Matcher]) -> _Admits | None:
    """A test of a series' labels; None when everything passes. A label that the metric lacks is empty."""
    tests = [(names.index(m.label) if m.label in names else None, accepts(m)) for m in matchers]
    if not tests:
        return None
    return lambda labels: all(accept("" if at is None else labels[at]) for at, accept in tests)


def _join(rule: Rule, condition: Condition) -> _Join:
    ours, theirs = identity(rule), label_names(condition.metric)
    on = joined_on(ours, condition)
    return _Join(
        condition,
        limit(rule, condition),
        tuple(ours.index(name) for name in on),
        tuple(theirs.index(name) for name in on),
        _admission(theirs, condition.labels),
    )


@lru_cache(maxsize=1024)
def _plan(rule: Rule) -> _Plan:
    names, own = label_names(rule.metric), identity(rule)
    return _Plan(
        rule=rule,
        key=rule.key,
        names=own,
        keeps=None if own == names else tuple(names.index(name) for name in own if name in names),
        admits=_admission(names, rule.labels),
        joins=tuple(_join(rule, condition) for condition in rule.conditions),
        gone=tuple(_join(rule, condition) for condition in rule.gone_if),
    )


# --- One evaluation --------------------------------------------------------------------------------------------------

_Truth = bool | None
"""Of a rule's expression for one series; None is unknown."""
_Verdict = tuple[_Truth, float | None]
_Lookup = dict[Series, list[float]]


class _Moment(Struct, eq=False):
    """One evaluation: the time, and what was worked out for it so far."""

    snapshot: Snapshot
    before: float
    elapsed: float
    transitions: list[Transition]
    resolved: dict[str, Alert]
    lookups: dict[_Join, _Lookup]

    @property
    def at(self) -> float:
        return self.snapshot.at

    @property
    def wall_at(self) -> float:
        return self.snapshot.wall_at

    def lookup(self, join: _Join) -> _Lookup:
        """Values of a condition's metric by the labels it is joined on."""
        found = self.lookups.get(join)
        if found is None:
            found = self.lookups[join] = {}
            for sample in self.snapshot.samples(join.condition.metric):
                if join.admits is None or join.admits(sample.labels):
                    found.setdefault(tuple([sample.labels[i] for i in join.theirs]), []).append(sample.value)
        return found

    def tell(self, before: Before, after: After, alert: Alert) -> None:
        self.transitions.append(Transition(at=self.wall_at, before=before, after=after, alert=alert))


def evaluate(rules: Sequence[Rule], state: RuleState, snapshot: Snapshot) -> tuple[RuleState, tuple[Transition, ...]]:
    """Judge the snapshot: the new state, and what changed, in the order of the rules and of the labels.

    Evaluating the same moment twice changes nothing the second time. Alerts of rules that left the table end.
    Rules without mistakes are expected (`mistakes`); a metric that the catalogue lacks simply has no samples.
    """
    moment = _Moment(
        snapshot=snapshot,
        before=state.at,
        elapsed=max(0.0, snapshot.at - state.at),
        transitions=[],
        resolved=_still_told(state.resolved, snapshot.at),
        lookups={},
    )
    held, known = _by_rule(state.alerts), _by_rule(state.counters)
    alerts: list[Alert] = []
    counters: list[Counter] = []
    for plan in [_plan(rule) for rule in rules if rule.on_node]:
        mine = held.pop((plan.key, plan.names), {})
        counted = _counted(plan, known.get((plan.key, plan.names), {}), moment)
        counters += counted
        alerts += _judged(plan, mine, _current(plan, mine, counted, moment), moment)
    for orphans in held.values():
        for alert in orphans.values():
            _end(alert, None, moment)
    after = RuleState(
        at=snapshot.at,
        wall_at=snapshot.wall_at,
        alerts=tuple(alerts),
        resolved=tuple(moment.resolved.values()),
        counters=tuple(counters),
    )
    return after, tuple(moment.transitions)


def _still_told(resolved: Iterable[Alert], at: float) -> dict[str, Alert]:
    return {alert.id: alert for alert in resolved if at - alert.timer_at <= RESOLVED_KEPT_S}


_T = TypeVar("_T", Alert, Counter)


def _by_rule(records: Iterable[_T]) -> dict[tuple[str, tuple[str, ...]], dict[Series, _T]]:
    """Records by rule and by series. Label names are part of the key: a restored state may be of an older catalogue."""
    grouped: dict[tuple[str, tuple[str, ...]], dict[Series, _T]] = {}
    for record in records:
        grouped.setdefault((record.key, record.names), {})[record.series] = record
    return grouped


# What the snapshot says of a rule's series


def _series(plan: _Plan, labels: Series) -> Series:
    return labels if plan.keeps is None else tuple([labels[i] for i in plan.keeps])


def _current(
    plan: _Plan, mine: Mapping[Series, Alert], counted: Sequence[Counter], moment: _Moment
) -> dict[Series, float]:
    """The value to compare, by series. Without alerts to keep, those that do not cross the threshold are left out."""
    rule = plan.rule
    if rule.kind == "increase":
        return {counter.series: sum(rise for _, rise in counter.rises) for counter in counted}
    samples: Sequence[Sample] = moment.snapshot.samples(rule.metric)
    if rule.kind == "absent":
        return _absence(plan, samples)
    if not mine:
        crosses, threshold = _OPS[rule.op], rule.threshold
        samples = [sample for sample in samples if crosses(sample.value, threshold)]
    return _highest(plan, samples)


def _highest(plan: _Plan, samples: Iterable[Sample]) -> dict[Series, float]:
    """Values by series; where leaving out ``severity`` makes two series one, the higher value."""
    values: dict[Series, float] = {}
    for sample in samples:
        if plan.admits is None or plan.admits(sample.labels):
            series = _series(plan, sample.labels)
            values[series] = max(sample.value, values.get(series, sample.value))
    return values


def _absence(plan: _Plan, samples: Iterable[Sample]) -> dict[Series, float]:
    """One series, 1 when the metric has no sample; it is never unknown, so 0 stands for "it is there"."""
    there = any(plan.admits is None or plan.admits(sample.labels) for sample in samples)
    asked = {matcher.label: matcher.value for matcher in plan.rule.labels if matcher.op == "="}
    return {tuple(asked[name] for name in plan.names): 0.0 if there else 1.0}


def _counted(plan: _Plan, known: Mapping[Series, Counter], moment: _Moment) -> list[Counter]:
    """What an ``increase`` rule remembers after this snapshot, in the order of labels; empty for the other kinds."""
    if plan.rule.kind != "increase":
        return []
    values = _highest(plan, moment.snapshot.samples(plan.rule.metric))
    gone = [
        counter
        for series, counter in known.items()
        if series not in values and moment.at - counter.seen_at < UNKNOWN_KEPT_S
    ]
    seen = [_risen(plan, known.get(series), series, value, moment) for series, value in values.items()]
    return sorted(seen + gone, key=lambda counter: counter.series)


def _risen(plan: _Plan, counter: Counter | None, series: Series, value: float, moment: _Moment) -> Counter:
    """The record of a counter that now reads ``value``. The first sight of a counter is no rise: it may be old."""
    if counter is None:
        return Counter(key=plan.key, names=plan.names, series=series, last=value, seen_at=moment.at)
    if value == counter.last and not counter.rises and moment.at - counter.seen_at < _SEEN_REFRESH_S:
        return counter
    rise = value - counter.last if value >= counter.last else value
    start = moment.at - plan.rule.window_s
    rises = tuple(old for old in counter.rises if old[0] > start)  # left-open, as Prometheus 3 reads a range
    if rise > 0:
        rises = _added(rises, moment.before, rise, plan.rule.window_s / _GRAINS)
    return replace(counter, last=value, seen_at=moment.at, rises=rises)


def _added(
    rises: tuple[tuple[float, float], ...], at: float, rise: float, grain: float
) -> tuple[tuple[float, float], ...]:
    if rises and at - rises[-1][0] < grain:
        started, before = rises[-1]
        return (*rises[:-1], (started, before + rise))
    return (*rises, (at, rise))


# Whether the expression is true


def _holds(join: _Join, series: Series, value: float | None, moment: _Moment) -> _Truth:
    """Whether a condition holds for a series whose own value is ``value``."""
    condition = join.condition
    others = moment.lookup(join).get(tuple([series[i] for i in join.ours]), ())
    if condition.compare == "absent":
        return not others
    if not others or (condition.compare == "difference" and value is None):
        return None
    agrees, limit = _OPS[condition.op], join.threshold
    if condition.compare == "difference" and value is not None:
        return any(agrees(value - other, limit) for other in others)
    return any(agrees(other, limit) for other in others)


def _all_hold(joins: Iterable[_Join], series: Series, value: float | None, moment: _Moment) -> _Truth:
    """Kleene's and: one false makes it false, else one unknown makes it unknown."""
    truth: _Truth = True
    for join in joins:
        held = _holds(join, series, value, moment)
        if held is False:
            return False
        if held is None:
            truth = None
    return truth


def _truth(plan: _Plan, series: Series, value: float | None, alert: Alert | None, moment: _Moment) -> _Truth:
    """Of the rule's whole expression; an alert that fires is measured by ``clear`` where the rule has it."""
    if value is None:
        gone = bool(plan.gone) and _all_hold(plan.gone, series, None, moment)
        return False if gone or _all_hold(plan.joins, series, None, moment) is False else None
    rule = plan.rule
    if rule.kind == "absent":
        return value == 1.0 and _all_hold(plan.joins, series, value, moment)
    firing = alert is not None and alert.state == "firing"
    limit = rule.clear if firing and rule.clear is not None else rule.threshold
    return _OPS[rule.op](value, limit) and _all_hold(plan.joins, series, value, moment)


def _judged(plan: _Plan, mine: Mapping[Series, Alert], current: Mapping[Series, float], moment: _Moment) -> list[Alert]:
    """The rule's alerts after this snapshot, in the order of the labels."""
    alerts: list[Alert] = []
    for series in sorted(current.keys() | mine.keys()):
        value, alert = current.get(series), mine.get(series)
        truth = _truth(plan, series, value, alert, moment)
        after = _advanced(plan, series, alert, (truth, value), moment)
        if after is not None:
            alerts.append(after)
    return alerts


# What becomes of an alert


def _advanced(plan: _Plan, series: Series, alert: Alert | None, verdict: _Verdict, moment: _Moment) -> Alert | None:
    truth, value = verdict
    if alert is None:
        return _begun(plan, series, value, moment) if truth else None
    if truth is None:
        return _held(alert, moment)
    if truth:
        return _confirmed(plan, alert, value, moment)
    return _quietened(plan, alert, value, moment)


def _begun(plan: _Plan, series: Series, value: float | None, moment: _Moment) -> Alert:
    rule = plan.rule
    alert = Alert(
        id=_fingerprint(plan.key, plan.names, series),
        rule=rule.name,
        severity=rule.severity,
        names=plan.names,
        series=series,
        state="pending",
        value=value,
        summary=filled(rule.summary, dict(zip(plan.names, series, strict=True))),
        since=moment.wall_at,
        timer_at=moment.at,
    )
    if rule.for_s <= 0:
        return _fired(alert, "inactive", moment)
    moment.tell("inactive", "pending", alert)
    return alert


def _fingerprint(key: str, names: tuple[str, ...], series: Series) -> str:
    """Of what an alert is known by; labels in the order of their names, so that the catalogue may order them anew."""
    parts = [key, *(f"{name}={value}" for name, value in sorted(zip(names, series, strict=True)))]
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _fired(alert: Alert, before: Before, moment: _Moment) -> Alert:
    alert = replace(alert, state="firing", fired_at=moment.wall_at)
    moment.resolved.pop(alert.id, None)
    moment.tell(before, "firing", alert)
    return alert


def _confirmed(plan: _Plan, alert: Alert, value: float | None, moment: _Moment) -> Alert:
    """True again; nothing is made anew when nothing changed."""
    if value != alert.value or alert.quiet_at is not None or alert.unknown_at is not None:
        alert = replace(alert, value=value, quiet_at=None, unknown_at=None)
    if alert.state == "pending" and moment.at - alert.timer_at >= plan.rule.for_s:
        return _fired(alert, "pending", moment)
    return alert


def _quietened(plan: _Plan, alert: Alert, value: float | None, moment: _Moment) -> Alert | None:
    """False: a pending alert ends, a firing one resolves when ``keep_firing_for_s`` has passed."""
    quiet_at = moment.at if alert.quiet_at is None else alert.quiet_at
    if alert.state == "pending" or moment.at - quiet_at >= plan.rule.keep_firing_for_s:
        _end(alert, value, moment)
        return None
    return replace(alert, value=value, quiet_at=quiet_at, unknown_at=None)


def _held(alert: Alert, moment: _Moment) -> Alert | None:
    """Unknown: the alert's clocks stand still, which is to say that they start later by the time that passed.

    The time between two evaluations goes to the later one: what it finds is taken to hold since the one before.
    """
    unknown_at = moment.at if alert.unknown_at is None else alert.unknown_at
    if moment.at - unknown_at >= UNKNOWN_KEPT_S:
        _end(alert, None, moment)
        return None
    return replace(
        alert,
        value=None,
        timer_at=alert.timer_at + moment.elapsed,
        quiet_at=None if alert.quiet_at is None else alert.quiet_at + moment.elapsed,
        unknown_at=unknown_at,
    )


def _end(alert: Alert, value: float | None, moment: _Moment) -> None:
    """The alert is over; if it had fired, it is told as resolved for a while."""
    if alert.state == "pending":
        moment.tell("pending", "inactive", alert)
        return
    resolved = replace(
        alert,
        state="resolved",
        value=value,
        resolved_at=moment.wall_at,
        timer_at=moment.at,
        quiet_at=None,
        unknown_at=None,
    )
    moment.resolved[alert.id] = resolved
    moment.tell("firing", "resolved", resolved)


def restored(state: RuleState, at: float, wall_at: float) -> RuleState:
    """A state that was saved, made fit for a process whose monotonic clock reads ``at``.

    The time between is time in which nothing was known: it does not count for ``for_s`` and ``keep_firing_for_s``. For
    how long a resolved alert is told, how long an alert may be unknown, and for a counter's window it does count.
    """
    still = at - state.at
    passed = still - max(0.0, wall_at - state.wall_at)
    return RuleState(
        at=at,
        wall_at=wall_at,
        alerts=tuple(
            replace(
                alert,
                timer_at=alert.timer_at + still,
                quiet_at=None if alert.quiet_at is None else alert.quiet_at + still,
                unknown_at=(state.at if alert.unknown_at is None else alert.unknown_at) + passed,
            )
            for alert in state.alerts
        ),
        resolved=tuple(replace(alert, timer_at=alert.timer_at + passed) for alert in state.resolved),
        counters=tuple(
            replace(
                counter,
                seen_at=counter.seen_at + passed,
                rises=tuple((risen_at + passed, rise) for risen_at, rise in counter.rises),
            )
            for counter in state.counters
        ),
    )
