"""The rules in force: the default table as the configuration changes and extends it."""

from __future__ import annotations

from npumond.config import check_rule_names, settings
from npumond.config.settings import Config
from npumond.default_rules import DEFAULT_RULES, rules_from
from npumond.errors import ConfigError
from npumond.rules import Condition, Matcher, Override, Rule, parse_selector


def rules_of(config: Config) -> tuple[Rule, ...]:
    """Every rule that is judged. Raises `ConfigError` for an override of a rule that does not exist."""
    known = {name for rule in DEFAULT_RULES for name in (rule.name, rule.key)}
    mistakes = check_rule_names(config, known)
    if mistakes:
        raise ConfigError(mistakes)
    overrides = {name: _override(override) for name, override in config.rules.overrides.items()}
    return tuple(rules_from(config.rules.defaults, overrides, [_rule(rule) for rule in config.rules.extra]))


def _override(override: settings.Override) -> Override:
    return Override(
        enabled=override.enabled,
        threshold=override.threshold,
        clear=override.clear,
        for_s=override.for_,
        keep_firing_for_s=override.keep_firing_for,
        severity=override.severity,
    )


def _rule(rule: settings.Rule) -> Rule:
    metric, matchers = parse_selector(rule.metric)
    op, threshold = rule.op or ">", rule.threshold or 0.0  # None only where the kind has no use for them
    said = f"no {rule.metric}" if rule.kind == "absent" else f"{rule.metric} {op} {threshold:g}"
    return Rule(
        name=rule.name,
        severity=rule.severity,
        metric=metric,
        labels=(*matchers, *(Matcher(label, value) for label, value in rule.labels.items())),
        kind=rule.kind,
        op=op,
        threshold=threshold,
        window_s=rule.window,
        clear=rule.clear,
        for_s=rule.for_,
        keep_firing_for_s=rule.keep_firing_for,
        conditions=() if rule.while_ is None else (_condition(rule.while_),),
        summary=rule.summary or f"{rule.name}: {said}",
        description=rule.description,
    )


def _condition(said: settings.Condition) -> Condition:
    metric, matchers = parse_selector(said.metric)
    return Condition(metric=metric, labels=matchers, op=said.op, threshold=said.threshold)
