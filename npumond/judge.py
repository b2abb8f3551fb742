"""Keeps what the rules remember from one snapshot to the next, and tells what changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from npumond.latest import Latest
from npumond.model import Sample, Snapshot
from npumond.rules import (
    Alert,
    Board,
    Memory,
    Rule,
    RuleState,
    Transition,
    alert_json,
    board,
    evaluate,
    restored,
    shown,
    state_samples,
)

MOST_ENDED = 500
"""Alerts that are remembered after they ended, some 600 bytes each."""

OnTransition = Callable[[Transition], None]


class Judge:
    """The node's own judge: one state, replaced at each snapshot."""

    def __init__(self, rules: Sequence[Rule], on_transition: OnTransition) -> None:
        self._on_transition = on_transition
        self._state = RuleState()
        self._ended: deque[Alert] = deque(maxlen=MOST_ENDED)
        self.boards: Latest[Board] = Latest()
        """The newest alerts, for those who deliver them."""
        self.rules = tuple(rules)
        """May be replaced between snapshots; alerts of rules that are gone end at the next one."""

    def __call__(self, snapshot: Snapshot) -> Sequence[Sample]:
        """Judge a snapshot; returns the samples that tell of it."""
        self._state, transitions = evaluate(self.rules, self._state, snapshot)
        self.boards.set(board(self.rules, self._state))
        for transition in transitions:
            if transition.after == "resolved":
                self._ended.append(transition.alert)
            self._on_transition(transition)
        return state_samples(self.rules, self._state)

    @property
    def memory(self) -> Memory:
        """Everything that is remembered, to be saved."""
        return Memory(state=self._state, ended=tuple(self._ended))

    def restore(self, memory: Memory, at: float, wall_at: float) -> None:
        """Take over what an earlier process remembered; before the first snapshot. Times as in `restored`."""
        self._state = restored(memory.state, at, wall_at)
        self._ended.extend(memory.ended)

    def alerts(self, state: str = "") -> list[dict[str, object]]:
        """``/api/v1/alerts``: alerts in that state, or pending, firing and lately resolved ones.

        ``all`` is these and then the ones that ended before, the newest first.
        """
        now = shown(self._state)
        if state != "all":
            return [alert_json(alert) for alert in now if not state or alert.state == state]
        told = {(alert.id, alert.resolved_at) for alert in now}
        earlier = (alert for alert in reversed(self._ended) if (alert.id, alert.resolved_at) not in told)
        return [alert_json(alert) for alert in (*now, *earlier)]
