"""All alerts of one moment with what people are told of them: what sinks deliver."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npumond.rules.table import Alert, Rule, RuleState
from npumond.rules.telling import description, shown


class Told(Struct, frozen=True, kw_only=True):
    """An alert and its words."""

    alert: Alert
    description: str
    """With the newest value; it changes with each sample, unlike the alert's summary."""
    runbook: str
    """Name of the page in ``deploy/runbooks/``, without ``.md``; empty for a rule of the user's own."""


class Board(Struct, frozen=True, kw_only=True):
    """Every alert that is pending, firing or was resolved in the last 15 minutes; the severest first."""

    at: float
    """Monotonic seconds of the snapshot that was judged."""
    wall_at: float
    """Unix seconds of the same moment."""
    told: tuple[Told, ...] = ()


def board(rules: Sequence[Rule], state: RuleState) -> Board:
    """What is to be told after an evaluation."""
    by_key = {rule.key: rule for rule in rules}
    return Board(
        at=state.at, wall_at=state.wall_at, told=tuple(_told(by_key.get(alert.key), alert) for alert in shown(state))
    )


def _told(rule: Rule | None, alert: Alert) -> Told:
    """The rule is None where a reload took it away and its alert is still remembered."""
    if rule is None:
        return Told(alert=alert, description="", runbook="")
    return Told(alert=alert, description=description(rule, alert), runbook=rule.runbook)
