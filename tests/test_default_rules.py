"""The default rules: sound rows, and a timeline for every one of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npumond.catalog import BY_NAME
from npumond.default_rules import DEFAULT_RULES, rules_from
from npumond.errors import ConfigError
from npumond.model import Sample, Snapshot
from npumond.rules import (
    Override,
    Rule,
    RuleState,
    alert_json,
    description,
    evaluate,
    mistakes,
    parse_selector,
    promql,
    shown,
)

TIMELINES = Path(__file__).parent / "timelines" / "defaults.txt"
LETTERS = {"pending": "P", "firing": "F", "resolved": "R"}
BY_KEY = {rule.key: rule for rule in DEFAULT_RULES}
START = 1000.0
WALL = 1_800_000_000.0


class Timeline:
    """One block of a file of timelines."""

    def __init__(self, text: str) -> None:
        self.title, head, *rows = text.splitlines()
        _, self.rule, _, step = head.split()
        self.step = float(step)
        self.series = {name: columns(values) for name, values in (row.split(maxsplit=1) for row in rows[:-1])}
        self.want = "".join(columns(rows[-1].removeprefix("want")))

    def snapshots(self) -> Iterator[Snapshot]:
        for column in range(len(self.want)):
            families: dict[str, tuple[Sample, ...]] = {}
            for selector, values in self.series.items():
                if values[column] != "-":
                    one = sample(selector, float(values[column]))
                    families[one.family] = (*families.get(one.family, ()), one)
            yield Snapshot(at=START + column * self.step, wall_at=WALL + column * self.step, families=families)


def columns(text: str) -> list[str]:
    """``0.1x3 -`` as four columns."""
    return [value for word in text.split() for value in [word.partition("x")[0]] * int(word.partition("x")[2] or 1)]


def sample(selector: str, value: float) -> Sample:
    family, matchers = parse_selector(selector)
    labels = {matcher.label: matcher.value for matcher in matchers}
    return Sample(family, tuple(labels[name] for name in BY_NAME[family].labels), value)


def read_timelines() -> list[Timeline]:
    blocks = TIMELINES.read_text().split("\n\n")[1:]
    return [Timeline(block.strip("\n")) for block in blocks]


@pytest.mark.parametrize("timeline", read_timelines(), ids=lambda timeline: timeline.title.replace(" ", "_"))
def test_the_rule_takes_the_states_of_the_timeline(timeline: Timeline) -> None:
    """A row of values in, a row of states out."""
    state, states = RuleState(), ""
    for snapshot in timeline.snapshots():
        state, _ = evaluate([BY_KEY[timeline.rule]], state, snapshot)
        states += LETTERS[shown(state)[0].state] if shown(state) else "."

    assert states == timeline.want


def test_every_rule_that_the_node_judges_has_a_timeline_in_which_it_fires() -> None:
    """A rule without one may never fire, and nobody would know."""
    fired = {timeline.rule for timeline in read_timelines() if "F" in timeline.want}

    assert fired == {rule.key for rule in DEFAULT_RULES if rule.on_node}


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.key)
def test_a_default_rule_is_sound(rule: Rule) -> None:
    """Metrics and labels are in the catalogue, ratios between 0 and 1, ``clear`` on the healthy side."""
    assert mistakes(rule) == ()


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.key)
def test_a_default_rule_tells_people_what_and_what_next(rule: Rule) -> None:
    """Summary without the value, description of several sentences, a runbook named after the rule."""
    assert rule.summary
    assert "{value}" not in rule.summary
    assert rule.description.count(". ") >= 1 or "; " in rule.description
    assert rule.runbook.replace("-", "") == rule.name.lower()


def test_the_rules_of_the_design_are_there() -> None:
    """Their names are a promise."""
    names = {rule.name for rule in DEFAULT_RULES}

    assert names >= {
        "NpuAicoreUnderused", "NpuHbmNearlyFull", "InferenceLatencyHigh", "InferenceSuccessLow", "NpuLost",
        "NpuUnhealthy", "NpuFault", "NpuEccDoubleBit", "NpuThrottled", "NpuHot", "NpuLinkDown", "NpumondStale",
        "NpumondDown",
    }  # fmt: skip


def test_both_levels_of_hbm_fire_beside_each_other() -> None:
    """Two rows of one name are two alerts, as in Prometheus."""
    rules = [rule for rule in DEFAULT_RULES if rule.name == "NpuHbmNearlyFull"]
    state = RuleState()
    for at in (0.0, 60.0):
        full = sample('npu_hbm_utilization_ratio{device_id="0"}', 0.99)
        state, _ = evaluate(rules, state, Snapshot(at=at, wall_at=WALL, families={full.family: (full,)}))

    assert [(alert.severity, alert.state) for alert in shown(state)] == [("critical", "firing"), ("warning", "firing")]


def test_a_description_has_the_value_in_its_unit_and_the_next_step() -> None:
    """What a person reads at night."""
    rule = BY_KEY["NpuHbmNearlyFull/critical"]
    full = sample('npu_hbm_utilization_ratio{device_id="5"}', 0.981)
    state, _ = evaluate([rule], RuleState(), Snapshot(at=0, wall_at=WALL, families={full.family: (full,)}))

    assert description(rule, state.alerts[0]).startswith(
        "98.1 % of the HBM of NPU 5 is in use; the next allocation may fail. See"
    )
    assert alert_json(state.alerts[0])["summary"] == "HBM of NPU 5 is about to run out"


def test_an_override_changes_the_row_and_clear_moves_along() -> None:
    """A threshold of one's own keeps the distance of the hysteresis."""
    rules = rules_from(overrides={"NpuHot": Override(threshold=75, for_s=5), "NpuLinkDown": Override(enabled=False)})
    hot = next(rule for rule in rules if rule.name == "NpuHot")

    assert (hot.threshold, hot.clear, hot.for_s) == (75, 70, 5)
    assert "NpuLinkDown" not in {rule.name for rule in rules}


def test_an_override_names_one_row_of_two() -> None:
    """``name/severity`` is the row, the bare name is all rows."""
    rules = rules_from(
        overrides={"NpuHbmNearlyFull": Override(for_s=7), "NpuHbmNearlyFull/critical": Override(threshold=0.99)}
    )
    rows = [(rule.threshold, rule.clear, rule.for_s) for rule in rules if rule.name == "NpuHbmNearlyFull"]

    assert rows == [(0.9, 0.88, 7), (0.99, 0.97, 7)]


def test_every_mistake_in_the_settings_is_told_at_once() -> None:
    """Four mistakes, four lines."""
    rows = "NpuHbmNearlyFull/warning or NpuHbmNearlyFull/critical"
    with pytest.raises(ConfigError) as raised:
        rules_from(
            overrides={
                "NpuHott": Override(for_s=1),
                "NpuHbmNearlyFull": Override(threshold=0.8),
                "InferenceSuccessLow": Override(threshold=99.9),
            },
            extra=[Rule(name="Mine", metric="npu_nothing")],
        )

    assert raised.value.mistakes == (
        "rules.overrides: no default rule is called 'NpuHott'; did you mean NpuHot?",
        f"rules.overrides.NpuHbmNearlyFull: there are 2 rules of that name; say {rows}",
        "rules: InferenceSuccessLow/critical: threshold 99.9 cannot be: inference_success_ratio lies between 0 and 1",
        "rules: Mine/warning: metric 'npu_nothing' is not in the catalogue (npumond metrics)",
    )


def test_without_defaults_only_the_users_own_rules_are_in_force() -> None:
    """``rules.defaults: false``."""
    mine = Rule(name="Mine", metric="npu_power_watts", threshold=300)

    assert rules_from(defaults=False, extra=[mine]) == (mine,)


def test_a_rule_twice_is_a_mistake() -> None:
    """Name and severity tell alerts apart, so no two rows may share them."""
    with pytest.raises(ConfigError, match="there is a rule of that name and severity already"):
        rules_from(extra=[Rule(name="NpuHot", metric="npu_power_watts", threshold=300)])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_takes_the_states_of_the_timelines(tmp_path: Path) -> None:
    """The expressions made from the rows give the same alerts at the same times, wherever nothing is unknown."""
    write_rules(tmp_path)
    known = [timeline for timeline in read_timelines() if all("-" not in values for values in timeline.series.values())]
    files = [str(promtool_file(step, known, tmp_path)) for step in sorted({timeline.step for timeline in known})]

    run = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True, check=False, timeout=60)

    assert run.returncode == 0, run.stdout + run.stderr
    assert len(known) > 15


def write_rules(directory: Path) -> None:
    """Every default rule as Prometheus judges it, without words, as the file that tests of promtool name."""
    rules = [
        {
            "alert": rule.name,
            "expr": promql(rule),
            "for": f"{rule.for_s:.0f}s",
            "keep_firing_for": f"{rule.keep_firing_for_s:.0f}s",
            "labels": {"severity": rule.severity},
        }
        for rule in DEFAULT_RULES
    ]
    (directory / "rules.yml").write_text(json.dumps({"groups": [{"name": "npumond", "rules": rules}]}))


def promtool_file(step: float, timelines: list[Timeline], directory: Path) -> Path:
    """Timelines of one step in one file of promtool's, since the interval of evaluation is the file's."""
    path = directory / f"tests-{step:.0f}.yml"
    tests = [promtool_test(timeline) for timeline in timelines if timeline.step == step]
    path.write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": f"{step:.0f}s", "tests": tests}))
    return path


def promtool_test(timeline: Timeline) -> dict[str, object]:
    """The timeline as a test of promtool: what our own judge lets fire, by all rows of the rule's name, is expected."""
    name = timeline.rule.partition("/")[0]
    step = f"{timeline.step:.0f}s"
    return {
        "name": timeline.title,
        "interval": step,
        "input_series": [
            {"series": on_target(selector), "values": " ".join("stale" if value == "-" else value for value in values)}
            for selector, values in timeline.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{column * timeline.step:.0f}s", "alertname": name, "exp_alerts": alerts}
            for column, alerts in enumerate(firing(name, timeline))
        ],
    }


def firing(name: str, timeline: Timeline) -> Iterator[list[dict[str, object]]]:
    """At each step the alerts of that name that fire on the node, as promtool writes them."""
    rules = [rule for rule in DEFAULT_RULES if rule.name == name]
    state = RuleState()
    for snapshot in timeline.snapshots():
        state, _ = evaluate(rules, state, snapshot)
        alerts = [alert for alert in state.alerts if alert.state == "firing"]
        target = {"instance": "n:9090", "job": "npumond"}
        yield [{"exp_labels": alert.labels | {"severity": alert.severity} | target} for alert in alerts]


def on_target(selector: str) -> str:
    inside = selector.partition("{")[2].rstrip("}")
    return f'{selector.partition("{")[0]}{{{inside + "," if inside else ""}instance="n:9090",job="npumond"}}'
