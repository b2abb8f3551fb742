"""The rules in force: the default table as the configuration changes and extends it."""

from __future__ import annotations

from npumond.config import check_rule_names
from npumond.config import settings as said
from npumond.config.settings import Config
from npumond.default_rules import DEFAULT_RULES, rules_from
from npumond.errors import ConfigError
from npumond.rules import Condition, Matcher, Override, Rule


def rules_of(config: Config) -> tuple[Rule, ...]:
    """Every rule that is judged. Raises `ConfigError` for an override of a rule that does not exist."""
    known = {name for rule in DEFAULT_RULES for name in (rule.name, rule.key)}
    mistakes = check_rule_names(config, known)
    if mistakes:
        raise ConfigError(mistakes)
    overrides = {name: _override(override) for name, override in config.rules.overrides.items()}
    return tuple(rules_from(config.rules.defaults, overrides, [_rule(rule) for rule in config.rules.extra]))


def _override(override: said.Override) -> Override:
    return Override(
        enabled=override.enabled,
        threshold=override.threshold,
        clear=override.clear,
        for_s=override.for_,
        keep_firing_for_s=override.keep_firing_for,
        severity=override.severity,
    )


def _rule(rule: said.Rule) -> Rule:
    busy = rule.while_
    conditions = () if busy is None else (Condition(metric=busy.metric, op=busy.op, threshold=busy.threshold),)
    return Rule(
        name=rule.name,
        severity=rule.severity,
        metric=rule.metric,
        labels=tuple(Matcher(label, value) for label, value in rule.labels.items()),
        op=rule.op,
        threshold=rule.threshold,
        clear=rule.clear,
        for_s=rule.for_,
        keep_firing_for_s=rule.keep_firing_for,
        conditions=conditions,
        summary=rule.summary or f"{rule.name}: {rule.metric} {rule.op} {rule.threshold:g}",
    )
