"""A rule, and what judging it leaves behind: plain frozen values.

What makes a row one of a kind is (name, severity); an alert is known by those and by the labels of its series.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from npumond.catalog import BY_NAME

MatchOp = Literal["=", "!=", "=~", "!~"]
Op = Literal[">", ">=", "<", "<=", "==", "!="]
Severity = Literal["critical", "warning", "info"]
Kind = Literal["value", "increase", "absent"]
AlertState = Literal["pending", "firing", "resolved"]
Before = Literal["inactive", "pending", "firing"]
After = Literal["inactive", "pending", "firing", "resolved"]
Series = tuple[str, ...]
"""Label values of an alert, in the order of the metric's labels."""

PLACE = re.compile(r"\{(\w+)\}")
"""A label's place in a template: ``{device_id}``."""

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
RESOLVED_KEPT_S = 15 * 60.0
UNKNOWN_KEPT_S = 24 * 3600.0


class Matcher(Struct, frozen=True):
    """A condition on one label, as in a Prometheus selector; regular expressions match the whole value."""

    label: str
    value: str
    op: MatchOp = "="


class Condition(Struct, frozen=True, kw_only=True):
    """Another metric that must agree before a rule's series counts; joined on shared labels.

    With several series on the other side, one that agrees is enough.
    """

    metric: str
    labels: tuple[Matcher, ...] = ()
    on: tuple[str, ...] | None = None
    """Labels that must be equal; None: all that both metrics have."""
    compare: Literal["value", "difference", "absent"] = "value"
    """``value``: the other's value is compared. ``difference``: the rule's value less the other's is. ``absent``: true
    when the other has no sample, and never unknown."""
    op: Op = ">"
    threshold: float = 0.0
    share: float | None = None
    """If set, the threshold is this share of the rule's threshold and follows it when that is overridden."""


class Rule(Struct, frozen=True, kw_only=True):
    """One row of the table; what makes a row one of a kind is (name, severity)."""

    name: str
    """CamelCase; the alert's name in both judges."""
    severity: Severity = "warning"
    metric: str = ""
    labels: tuple[Matcher, ...] = ()
    kind: Kind = "value"
    """What is compared with the threshold: the sample (``value``), or by how much the counter rose in ``window_s``
    (``increase``; a counter that fell began anew at 0). ``absent`` is true when the metric has no sample at all."""
    op: Op = ">"
    threshold: float = 0.0
    """In the metric's base unit."""
    clear: float | None = None
    """Hysteresis: once firing, the alert stays until the value passes this, on the healthy side of the threshold."""
    window_s: float = 0.0
    for_s: float = 0.0
    keep_firing_for_s: float = 0.0
    conditions: tuple[Condition, ...] = ()
    """All must hold; see `Condition`."""
    gone_if: tuple[Condition, ...] = ()
    """For metrics whose series exist only while something is active (faults): a series that is missing while all of
    these hold has ended, and is not unknown."""
    summary: str = ""
    """One line without the value, which would make a new notification of each change; ``{label}`` is filled in."""
    description: str = ""
    """What it means and what to do next; ``{label}``, ``{value}`` and ``{threshold}`` are filled in. A row with an
    ``expr`` may hold templates of Prometheus."""
    runbook: str = ""
    """Name of the page in ``deploy/runbooks/``, without ``.md``."""
    expr: str = ""
    """PromQL of a rule that only Prometheus can judge; such a row has no metric."""

    @property
    def key(self) -> str:
        """``name/severity``: what the row is called in settings and in the state."""
        return f"{self.name}/{self.severity}"

    @property
    def on_node(self) -> bool:
        """Whether `evaluate` judges it."""
        return not self.expr


class Override(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a user changes of a default rule; None leaves a field as it is."""

    enabled: bool = True
    threshold: float | None = None
    clear: float | None = None
    """Unset while ``threshold`` is set: the default's distance between the two is kept."""
    for_s: float | None = None
    keep_firing_for_s: float | None = None
    severity: Severity | None = None


class Alert(Struct, frozen=True, kw_only=True):
    """One rule's opinion of one series, while it is pending, firing, or was resolved a short time ago."""

    id: str
    """Made from rule, severity and labels: the same again after a restart."""
    rule: str
    severity: Severity
    names: tuple[str, ...]
    series: Series
    state: AlertState
    value: float | None
    """The newest value in base units; None while it is unknown."""
    summary: str
    since: float
    """Unix seconds when the expression became true."""
    fired_at: float | None = None
    resolved_at: float | None = None
    timer_at: float
    """Monotonic start of the clock that runs: of ``for_s`` while pending, of the 15 minutes once resolved."""
    quiet_at: float | None = None
    """Monotonic start of ``keep_firing_for_s``; None while the expression is true."""
    unknown_at: float | None = None
    """Monotonic time since which it is unknown; None while it is known."""

    @property
    def key(self) -> str:
        """`Rule.key` of the rule it came from."""
        return f"{self.rule}/{self.severity}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the series; a label ``severity`` of the metric gives way to the alert's own."""
        return dict(zip(self.names, self.series, strict=True))


class Counter(Struct, frozen=True, kw_only=True):
    """What an ``increase`` rule remembers of one series."""

    key: str
    names: tuple[str, ...]
    series: Series
    last: float
    seen_at: float
    """Monotonic, give or take an hour."""
    rises: tuple[tuple[float, float], ...] = ()
    """(monotonic time of the sample before, by how much it rose), oldest first, inside the window."""


class RuleState(Struct, frozen=True, kw_only=True):
    """Everything the judge remembers. Plain values throughout: msgspec writes it as JSON and reads it back."""

    at: float = 0.0
    """Monotonic time of the last evaluation."""
    wall_at: float = 0.0
    alerts: tuple[Alert, ...] = ()
    """Pending and firing."""
    resolved: tuple[Alert, ...] = ()
    counters: tuple[Counter, ...] = ()


class Memory(Struct, frozen=True, kw_only=True):
    """What survives a restart: the judge's state, and the alerts that ended, oldest first."""

    state: RuleState
    ended: tuple[Alert, ...] = ()


class Transition(Struct, frozen=True, kw_only=True):
    """A change of an alert's state. ``inactive`` before: it is new; after: it ended without having fired."""

    at: float
    """Unix seconds."""
    before: Before
    after: After
    alert: Alert
    """As it is after the change; as it last was if it ended without having fired."""


def label_names(metric: str) -> tuple[str, ...]:
    family = BY_NAME.get(metric)
    return family.labels if family else ()


def identity(rule: Rule) -> tuple[str, ...]:
    """Names of the labels that tell the rule's alerts apart.

    A label ``severity`` is left out: the rule's own severity takes its place, as in Prometheus. An absent metric has
    only the labels that were asked for, as with PromQL's absent().
    """
    if rule.kind == "absent":
        return tuple(matcher.label for matcher in rule.labels if matcher.op == "=" and matcher.label != "severity")
    return tuple(name for name in label_names(rule.metric) if name != "severity")


def joined_on(identity: tuple[str, ...], condition: Condition) -> tuple[str, ...]:
    if condition.on is not None:
        return condition.on
    theirs = label_names(condition.metric)
    return tuple(name for name in identity if name in theirs)


def limit(rule: Rule, condition: Condition) -> float:
    return condition.threshold if condition.share is None else condition.share * rule.threshold


def accepts(matcher: Matcher) -> Callable[[str], bool]:
    wanted = matcher.value
    if matcher.op == "=":
        return lambda value: value == wanted
    if matcher.op == "!=":
        return lambda value: value != wanted
    pattern = re.compile(wanted)
    if matcher.op == "=~":
        return lambda value: pattern.fullmatch(value) is not None
    return lambda value: pattern.fullmatch(value) is None


def filled(template: str, values: Mapping[str, str]) -> str:
    """Only whole words in braces are replaced, not what str.format would do with a user's text."""
    return PLACE.sub(lambda place: values.get(place[1], place[0]), template)
