"""The same rows as PromQL, for Prometheus as the second judge."""

from __future__ import annotations

from collections.abc import Iterable

from npumond.rules.table import Condition, Matcher, Rule, identity, joined_on, label_names, limit

_TARGET = ("instance", "job")
"""Labels that Prometheus adds; joins must not mix two nodes."""


def promql(rule: Rule) -> str:
    """The rule's expression for Prometheus, which says the same as `evaluate` except that absence is false.

    Hysteresis looks at the ALERTS series that Prometheus writes of the evaluation before.
    """
    if rule.expr:
        return rule.expr
    if rule.kind == "absent":
        return f"absent({_selector(rule.metric, rule.labels)})" + _conditions_promql(rule)
    left = _left_promql(rule)
    crossing = f"{left} {rule.op} {rule.threshold:.12g}"
    if rule.clear is not None:
        firing = f'ALERTS{{alertname="{rule.name}",alertstate="firing",severity="{rule.severity}"}}'
        crossing = f"({crossing} or ({left} {rule.op} {rule.clear:.12g} and {_on(identity(rule))} {firing}))"
    return crossing + _conditions_promql(rule)


def _left_promql(rule: Rule) -> str:
    selector = _selector(rule.metric, rule.labels)
    if rule.kind == "increase":
        return f"increase({selector}[{rule.window_s:.0f}s])"
    return f"max without (severity) ({selector})" if "severity" in label_names(rule.metric) else selector


def _conditions_promql(rule: Rule) -> str:
    return "".join(_condition_promql(rule, condition) for condition in rule.conditions)


def _condition_promql(rule: Rule, condition: Condition) -> str:
    on = _on(joined_on(identity(rule), condition))
    other = _selector(condition.metric, condition.labels)
    if condition.compare == "absent":
        return f" unless {on} {other}"
    if condition.compare == "difference":
        other = f"({_left_promql(rule)} - {on} {other})"
    return f" and {on} {other} {condition.op} {limit(rule, condition):.12g}"


def _on(names: Iterable[str]) -> str:
    return f"on ({', '.join([*names, *_TARGET])})"


def _selector(metric: str, matchers: Iterable[Matcher]) -> str:
    inside = ",".join(f"{m.label}{m.op}{_quoted(m.value)}" for m in matchers)
    return f"{metric}{{{inside}}}" if inside else metric


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
