"""Two judges, one verdict: generated timelines give the same alerts on the node and in Prometheus, step by step.

Where nothing is unknown: a missing sample holds an alert here and ends it there, which is the documented difference.
Series of faults, whose absence has a meaning of its own (`Rule.gone_if`), come and go all the same.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npumond.default_rules import DEFAULT_RULES
from npumond.rules import Condition, Matcher, Rule
from npumond.rules.table import label_names, limit
from tests.test_default_rules import Timeline, promtool_file, write_rules

PER_RULE = 32
COLUMNS = 32
STEPS_S = (15, 60)

GONE = "-"


class Generator:
    """Timelines of one rule."""

    def __init__(self, rule: Rule, seed: int) -> None:
        self._rule = rule
        self._chance = random.Random(f"{rule.key}/{seed}")
        self._step_s = self._chance.choice(STEPS_S)

    def text(self, title: str) -> str:
        """As a block of a file of timelines."""
        rows = dict(self._rows())
        lines = [f"{name}  {' '.join(values)}" for name, values in rows.items()]
        return "\n".join((title, f"rule {self._rule.key} step {self._step_s}", *lines, f"want  .x{COLUMNS}"))

    def _rows(self) -> Iterator[tuple[str, list[str]]]:
        rule = self._rule
        for number in range(self._chance.randint(1, 3)):
            labels = {name: str(number) for name in label_names(rule.metric)}
            labels |= {matcher.label: self._matching(matcher) for matcher in rule.labels}
            values = self._rising() if rule.kind == "increase" else self._around(rule.threshold, rule.clear)
            yield _selector(rule.metric, labels), self._with_gaps(values) if rule.gone_if else values
            for condition in (*rule.conditions, *rule.gone_if):
                yield self._condition(condition, labels)

    def _condition(self, condition: Condition, ours: dict[str, str]) -> tuple[str, list[str]]:
        """Values about the condition's own threshold, of the series that joins; those in ``gone_if`` are all true."""
        names = label_names(condition.metric)
        labels = {name: ours.get(name, "0") for name in names}
        threshold = limit(self._rule, condition)
        if condition in self._rule.gone_if:
            labels |= {matcher.label: matcher.value for matcher in condition.labels}
            return _selector(condition.metric, labels), [f"{threshold:g}"] * COLUMNS
        labels |= {matcher.label: self._matching(matcher) for matcher in condition.labels}
        if condition.compare == "difference":
            threshold = self._rule.threshold - threshold
        return _selector(condition.metric, labels), self._around(threshold, None)

    def _matching(self, matcher: Matcher) -> str:
        """A label's value that the matcher takes, or sometimes one that it does not."""
        takes = matcher.value if matcher.op == "=" else "something"
        refuses = "something" if matcher.op == "=" else matcher.value.partition("|")[0]
        return takes if self._chance.random() < 0.8 else refuses

    def _around(self, threshold: float, clear: float | None) -> list[str]:
        """Values that stay for a while, near the threshold, on it, and near the other one."""
        step = abs(threshold) / 20 or 1.0
        marks = [threshold] if clear is None else [threshold, clear, (threshold + clear) / 2]
        choices = [mark + move for mark in marks for move in (-step, 0.0, step)]
        return self._lasting([repr(round(value, 6)) for value in choices])

    def _rising(self) -> list[str]:
        value, values = 0.0, []
        for _ in range(COLUMNS):
            value += self._chance.choice((0, 0, 0, 0, 0, 0, 1, 3))
            if self._chance.random() < 0.03:
                value = 0.0
            values.append(repr(value))
        return values

    def _lasting(self, choices: list[str]) -> list[str]:
        values = [self._chance.choice(choices)]
        while len(values) < COLUMNS:
            values.append(values[-1] if self._chance.random() < 0.7 else self._chance.choice(choices))
        return values

    def _with_gaps(self, values: list[str]) -> list[str]:
        there = True
        told = []
        for value in values:
            there = there if self._chance.random() < 0.8 else not there
            told.append(value if there else GONE)
        return told


def _selector(metric: str, labels: dict[str, str]) -> str:
    inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{inside}}}" if inside else metric


def timelines() -> list[Timeline]:
    """So many for each rule that both can judge and whose series have to be there."""
    judged = [rule for rule in DEFAULT_RULES if rule.on_node and rule.kind != "absent"]
    return [Timeline(Generator(rule, seed).text(f"{rule.key} {seed}")) for rule in judged for seed in range(PER_RULE)]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_and_the_node_let_the_same_alerts_fire_at_every_step(tmp_path: Path) -> None:
    write_rules(tmp_path)
    made = timelines()
    assert len(made) >= 500
    for step_s in STEPS_S:
        path = promtool_file(step_s, made, tmp_path)
        run = subprocess.run(
            ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False, timeout=300
        )
        assert run.returncode == 0, (run.stdout + run.stderr)[:5000]
