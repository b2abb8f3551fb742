"""What must agree between settings: order, uniqueness, thresholds that can be met.

A check yields (key, what is wrong) for one struct whose own values are all well; ``written`` gives a key's text
in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from npumond.catalog import BY_NAME
from npumond.config.document import join
from npumond.config.notation import did_you_mean, show_duration
from npumond.config.settings import (
    SERVER_KINDS,
    Condition,
    Config,
    Inference,
    Op,
    OwnServer,
    Rule,
    Rules,
    Sampling,
    Server,
    Target,
    Tls,
)

Mistakes = Iterator[tuple[str, str]]
Written = Callable[[str], str]

_NEVER = {(">", 1.0), ("<", 0.0)}
"""Comparisons that no ratio can meet."""


def check_rule_names(config: Config, known: Collection[str]) -> tuple[str, ...]:
    """Mistakes in names that depend on the table of default rules, whose names are ``known``."""
    unknown = (name for name in config.rules.overrides if name not in known)
    taken = ((index, rule.name) for index, rule in enumerate(config.rules.extra) if rule.name in known)
    return (
        *(f"rules.overrides.{name}: there is no such default rule{did_you_mean(name, known)}" for name in unknown),
        *(
            f"rules.extra[{at}].name: is a default rule, change it in rules.overrides (got {name})"
            for at, name in taken
        ),
    )


def _sampling(sampling: Sampling, _written: Written) -> Mistakes:
    if sampling.normal < sampling.fast:
        yield "normal", f"must not be shorter than sampling.fast, which is {show_duration(sampling.fast)}"
    if sampling.slow < sampling.normal:
        yield "slow", f"must not be shorter than sampling.normal, which is {show_duration(sampling.normal)}"


def _server(server: Server, _written: Written) -> Mistakes:
    for index, first in _repeated([str(address) for address in server.listen]):
        yield f"listen[{index}]", f"is the same address as server.listen[{first}]"


def _rules(rules: Rules, _written: Written) -> Mistakes:
    for index, first in _repeated([rule.name for rule in rules.extra]):
        yield f"extra[{index}].name", f"is the name of rules.extra[{first}] too"


def _tls(tls: Tls, _written: Written) -> Mistakes:
    for key, other, value in (("key_file", "cert_file", tls.cert_file), ("cert_file", "key_file", tls.key_file)):
        if value is not None and getattr(tls, key) is None:
            yield key, f"is missing: {other} is of no use without it"
    if tls.insecure and tls.ca_file is not None:
        yield "insecure", "must not be true where ca_file says what to check by"


def _target(target: Target, _written: Written) -> Mistakes:
    for index, first in _repeated([str(device_id) for device_id in target.device_ids]):
        yield f"device_ids[{index}]", f"is device_ids[{first}] too"


def _own_server(server: OwnServer, _written: Written) -> Mistakes:
    if not (server.e2e or server.ttft or server.itl or server.success):
        yield "e2e", "is missing, and so are ttft, itl and success: nothing would be read of such a server"
    if server.success is None and (server.error or server.aborted):
        yield "success", "is missing: what fails makes no ratio without what succeeds"


def _inference(inference: Inference, _written: Written) -> Mistakes:
    for index, first in _repeated([target.label for target in inference.targets]):
        label = inference.targets[index].label
        yield f"targets[{index}].url", f"has the label {label} of targets[{first}]; give one of them a name"
    known = ("auto", *SERVER_KINDS, *inference.servers)
    for index, target in enumerate(inference.targets):
        if target.server not in known:
            yield f"targets[{index}].server", f"must be one of {', '.join(known)}{did_you_mean(target.server, known)}"
    for name in inference.servers:
        if name in ("auto", *SERVER_KINDS):
            yield f"servers.{name}", "is the name of a kind that npumond knows; choose another"
    for index, first in _repeated([f"{probe.url} {probe.model}" for probe in inference.probes]):
        yield f"probes[{index}].url", f"has the url and model of probes[{first}]"


def _repeated(values: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(index, index of the first that is equal); port 0 is another port each time."""
    first: dict[str, int] = {}
    for index, value in enumerate(values):
        if first.setdefault(value, index) != index and not value.endswith(":0"):
            yield index, first[value]


def _rule(rule: Rule, written: Written) -> Mistakes:
    metric = family_of(rule.metric)
    if rule.kind != "absent":
        said = {"op": rule.op, "threshold": rule.threshold}
        yield from ((key, "must not be null") for key, value in said.items() if value is None)
    if rule.op is not None and rule.threshold is not None:
        yield from _thresholds(rule, metric, rule.op, rule.threshold, written)
    known = BY_NAME[metric].labels
    for label in rule.labels:
        if label not in known:
            names = f" (it has {', '.join(known)})" if known else " (it has no labels)"
            yield join("labels", label), f"{metric} has no such label{did_you_mean(label, known) or names}"


def _thresholds(rule: Rule, metric: str, op: Op, threshold: float, written: Written) -> Mistakes:
    if rule.kind == "value":
        yield from _threshold("threshold", metric, op, threshold, written)
    if rule.clear is not None:
        if rule.kind == "value":
            yield from _threshold("clear", metric, None, rule.clear, written)
        yield from _clear(op, threshold, rule.clear)


def family_of(selector: str) -> str:
    """The metric's name without the selector's braces."""
    return selector.partition("{")[0].strip()


def _condition(condition: Condition, written: Written) -> Mistakes:
    yield from _threshold("threshold", family_of(condition.metric), condition.op, condition.threshold, written)


def _threshold(key: str, metric: str, op: Op | None, value: float, written: Written) -> Mistakes:
    if BY_NAME[metric].unit != "ratio":
        if written(key).strip("'\"").endswith("%"):
            yield key, f"{metric} is not a ratio, so a percentage has no meaning"
    elif not 0 <= value <= 1:
        yield key, f"impossible threshold: {metric} is a ratio from 0 to 1"
    elif (op, value) in _NEVER:
        yield key, f"impossible threshold: a ratio is never {op} {value:g}"


def _clear(op: Op, threshold: float, clear: float) -> Mistakes:
    """A firing alert ends when the value passes ``clear``, which therefore lies on the healthy side."""
    if op in ("==", "!="):
        yield "clear", f"has no meaning with {op}"
    elif op in ("<", "<=") and clear < threshold:
        yield "clear", f"must not be below the threshold of a rule with {op}"
    elif op in (">", ">=") and clear > threshold:
        yield "clear", f"must not be above the threshold of a rule with {op}"


def _config(config: Config, _written: Written) -> Mistakes:
    """A rule on a name that is left off the page would be silent for ever."""
    for index, rule in enumerate(config.rules.extra):
        for key, metric in (("metric", rule.metric), ("while.metric", rule.while_.metric if rule.while_ else "")):
            family = BY_NAME.get(family_of(metric))
            if family is not None and family.alias and not config.metrics.aliases:
                yield f"rules.extra[{index}].{key}", "is an alias, and metrics.aliases is false"


CHECKS: Mapping[type, Callable[[Any, Written], Mistakes]] = {
    Sampling: _sampling,
    Server: _server,
    Rules: _rules,
    Tls: _tls,
    Target: _target,
    OwnServer: _own_server,
    Inference: _inference,
    Rule: _rule,
    Condition: _condition,
    Config: _config,
}
"""Checks by struct; Any, since each takes its own."""
