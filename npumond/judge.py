"""Keeps what the rules remember from one snapshot to the next, and tells what changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npumond.latest import Latest
from npumond.model import Sample, Snapshot
from npumond.rules import Board, Rule, RuleState, Transition, alert_json, board, evaluate, shown, state_samples

OnTransition = Callable[[Transition], None]


class Judge:
    """The node's own judge: one state, replaced at each snapshot."""

    def __init__(self, rules: Sequence[Rule], on_transition: OnTransition) -> None:
        self._on_transition = on_transition
        self._state = RuleState()
        self.boards: Latest[Board] = Latest()
        """The newest alerts, for those who deliver them."""
        self.rules = tuple(rules)
        """May be replaced between snapshots; alerts of rules that are gone end at the next one."""

    def __call__(self, snapshot: Snapshot) -> Sequence[Sample]:
        """Judge a snapshot; returns the samples that tell of it."""
        self._state, transitions = evaluate(self.rules, self._state, snapshot)
        self.boards.set(board(self.rules, self._state))
        for transition in transitions:
            self._on_transition(transition)
        return state_samples(self.rules, self._state)

    @property
    def state(self) -> RuleState:
        """Everything that is remembered, to be saved."""
        return self._state

    def restore(self, state: RuleState) -> None:
        """Take over what an earlier process remembered; before the first snapshot."""
        self._state = state

    def alerts(self, state: str = "") -> list[dict[str, object]]:
        """``/api/v1/alerts``: alerts in that state, or pending, firing and lately resolved ones."""
        return [alert_json(alert) for alert in shown(self._state) if not state or alert.state == state]
