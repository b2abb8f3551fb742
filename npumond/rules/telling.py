"""Alerts as people, scripts and Prometheus are told of them."""

from __future__ import annotations

from collections.abc import Sequence

from npumond.catalog import BY_NAME
from npumond.model import Sample
from npumond.rules.table import SEVERITIES, Alert, AlertState, Rule, RuleState, filled

_ORDER: dict[AlertState, int] = {"firing": 0, "pending": 1, "resolved": 2}


def shown(state: RuleState) -> tuple[Alert, ...]:
    """Alerts for people: firing, pending, resolved; the severest first. Each id once: a resolved alert that is pending
    again is shown as pending."""
    active = {alert.id for alert in state.alerts}
    alerts = [*state.alerts, *(alert for alert in state.resolved if alert.id not in active)]
    return tuple(sorted(alerts, key=lambda a: (_ORDER[a.state], SEVERITIES.index(a.severity), a.rule, a.series)))


def alert_json(alert: Alert) -> dict[str, object]:
    """One element of ``/api/v1/alerts``."""
    return {
        "id": alert.id,
        "rule": alert.rule,
        "labels": alert.labels,
        "state": alert.state,
        "value": alert.value,
        "since": alert.since,
        "fired_at": alert.fired_at,
        "resolved_at": alert.resolved_at,
        "severity": alert.severity,
        "summary": alert.summary,
    }


def description(rule: Rule, alert: Alert) -> str:
    """The rule's description with the alert's labels and newest value filled in."""
    values = {
        "value": in_words(rule.metric, alert.value),
        "threshold": in_words(rule.metric, rule.threshold),
    }
    return filled(rule.description, alert.labels | values)


def in_words(metric: str, value: float | None) -> str:
    """A value for people, by the unit in the metric's name: ``93.1 %``, ``0.12 s``, ``91 °C``; ``unknown`` for None."""
    if value is None:
        return "unknown"
    unit = BY_NAME[metric].unit if metric in BY_NAME else ""
    if unit == "ratio":
        return f"{value * 100:.4g} %"
    return f"{value:.4g}{_SYMBOLS.get(unit, '')}"


_SYMBOLS = {
    "seconds": " s",
    "celsius": " °C",
    "watts": " W",
    "volts": " V",
    "hertz": " Hz",
    "bytes": " B",
    "joules": " J",
}


def state_samples(rules: Sequence[Rule], state: RuleState) -> tuple[Sample, ...]:
    """Samples of ``npumond_alerts`` and ``npumond_rule_state``: every combination and rule, zeros included."""
    counts = {(kind, severity): 0 for kind in ("pending", "firing") for severity in SEVERITIES}
    worst = {rule.name: 0 for rule in rules if rule.on_node}
    for alert in state.alerts:
        counts[alert.state, alert.severity] += 1
        worst[alert.rule] = max(worst.get(alert.rule, 0), 2 if alert.state == "firing" else 1)
    return (
        *(Sample("npumond_alerts", labels, float(count)) for labels, count in counts.items()),
        *(Sample("npumond_rule_state", (name,), float(level)) for name, level in worst.items()),
    )
