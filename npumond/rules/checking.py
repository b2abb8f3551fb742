"""What can be wrong with a row: unknown names, impossible thresholds, templates that ask for what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from npumond.catalog import BY_NAME
from npumond.rules.table import PLACE, Matcher, MatchOp, Rule, accepts, identity, label_names, limit

_SELECTOR = re.compile(r"\s*([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_MATCH_OPS: dict[str, MatchOp] = {"=": "=", "!=": "!=", "=~": "=~", "!~": "!~"}
_MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')


def parse_selector(text: str) -> tuple[str, tuple[Matcher, ...]]:
    """``metric{label="value",other!="value"}`` taken apart; ValueError when it is not of that form."""
    whole = _SELECTOR.fullmatch(text)
    if whole is None:
        raise ValueError(f'{text!r} is not a selector; write it as metric or metric{{label="value"}}')
    rest, matchers = whole[2] or "", []
    while rest.strip():
        part = _MATCHER.match(rest)
        if part is None:
            raise ValueError(f'{text!r}: label matchers look like label="value", with one of = != =~ !~')
        matchers.append(Matcher(part[1], _ESCAPED.sub(r"\1", part[3]), _MATCH_OPS[part[2]]))
        rest = rest[part.end() :]
    return whole[1], tuple(matchers)


def mistakes(rule: Rule) -> tuple[str, ...]:
    """Everything wrong with a row, one line each, without the row's name; empty for a sound one."""
    if not rule.on_node:
        return tuple(_duration_mistakes(rule))
    found = _metric_mistakes(rule.metric, rule.labels, "")
    if found:
        return (*found, *_duration_mistakes(rule))
    checks = (_kind_mistakes, _threshold_mistakes, _condition_mistakes, _template_mistakes, _duration_mistakes)
    return tuple(line for check in checks for line in check(rule))


def _metric_mistakes(metric: str, matchers: Iterable[Matcher], where: str) -> list[str]:
    family = BY_NAME.get(metric)
    if family is None:
        return [f"{where}metric {metric!r} is not in the catalogue (npumond metrics)"]
    if family.kind == "histogram":
        return [f"{where}metric {metric!r} is a histogram; rules judge single values"]
    found = [f"{where}{metric} has no label {m.label!r}" for m in matchers if m.label not in family.labels]
    return found + [
        f"{where}label {m.label!r}: {m.value!r} is not a regular expression" for m in matchers if not _sound(m)
    ]


def _sound(matcher: Matcher) -> bool:
    try:
        accepts(matcher)
    except re.error:
        return False
    return True


def _kind_mistakes(rule: Rule) -> Iterable[str]:
    counter = BY_NAME[rule.metric].kind == "counter"
    if rule.kind == "increase" and not counter:
        yield f"kind increase wants a counter; {rule.metric} is none"
    if rule.kind == "increase" and rule.window_s <= 0:
        yield "kind increase wants a window above 0"
    if rule.kind == "value" and counter:
        yield f"{rule.metric} is a counter and only ever rises; use kind increase with a window"


def _threshold_mistakes(rule: Rule) -> Iterable[str]:
    if rule.kind == "absent":
        return
    for name, value in (("threshold", rule.threshold), ("clear", rule.clear)):
        if value is not None and rule.kind == "value" and _impossible(rule.metric, value):
            yield f"{name} {value:g} cannot be: {rule.metric} lies between 0 and 1"
    if rule.clear is not None:
        yield from _clear_mistakes(rule, rule.clear)


def _impossible(metric: str, value: float) -> bool:
    return BY_NAME[metric].unit == "ratio" and not 0 <= value <= 1


def _clear_mistakes(rule: Rule, clear: float) -> Iterable[str]:
    if rule.op in ("==", "!="):
        yield f"clear has no meaning with {rule.op}"
    elif (clear > rule.threshold) if rule.op in (">", ">=") else (clear < rule.threshold):
        side = "below" if rule.op in (">", ">=") else "above"
        yield f"clear {clear:g} must be {side} the threshold {rule.threshold:g}"


def _condition_mistakes(rule: Rule) -> Iterable[str]:
    for condition in (*rule.conditions, *rule.gone_if):
        where = f"condition on {condition.metric}: "
        found = _metric_mistakes(condition.metric, condition.labels, where)
        yield from found
        if found:
            continue
        ours, theirs = identity(rule), label_names(condition.metric)
        yield from (
            f"{where}no label {name!r} to join on"
            for name in condition.on or ()
            if name not in ours or name not in theirs
        )
        if condition.compare == "value" and _impossible(condition.metric, limit(rule, condition)):
            yield f"{where}threshold {limit(rule, condition):g} cannot be: it lies between 0 and 1"


def _template_mistakes(rule: Rule) -> Iterable[str]:
    labels = set(identity(rule))
    for name, text, known in (
        ("summary", rule.summary, labels),
        ("description", rule.description, labels | {"value", "threshold"}),
    ):
        yield from (f"{name}: nothing is known as {{{place}}}" for place in PLACE.findall(text) if place not in known)


def _duration_mistakes(rule: Rule) -> Iterable[str]:
    for name, value in (("for", rule.for_s), ("keep_firing_for", rule.keep_firing_for_s), ("window", rule.window_s)):
        if value < 0:
            yield f"{name} must not be negative"
