"""What is shipped for Prometheus and Alertmanager: generated, taken by their own tools, a page for each rule."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from npumond.artifacts import GENERATED, stale
from npumond.catalog import BY_NAME
from npumond.config import Config
from npumond.default_rules import DEFAULT_RULES
from npumond.deployment import MIN_REQUESTS, RECORDINGS, RUNBOOKS, WINDOWS, alerting, rules_yaml, templated
from npumond.rules import Rule
from tests.bench.daemon import free_port

ROOT = Path(__file__).parent.parent
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
RUNBOOK_PAGES = ROOT / "deploy" / "runbooks"
HEADINGS = ("What it means", "How to check", "Likely causes", "What to do", "When it resolves")

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
needs_amtool = pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed")
needs_alertmanager = pytest.mark.skipif(
    shutil.which("prometheus-alertmanager") is None, reason="prometheus-alertmanager is not installed"
)


def tool(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def groups() -> dict[str, list[dict[str, Any]]]:
    return {group["name"]: group["rules"] for group in yaml.safe_load(rules_yaml())["groups"]}


def alerts() -> list[dict[str, Any]]:
    return [rule for rules in groups().values() for rule in rules if "alert" in rule]


# The generated file


def test_every_row_is_an_alert_and_every_recording_is_there() -> None:
    """None is lost on the way, and none is made up."""
    recorded = [rule["record"] for rule in groups()["npumond-aggregates"]]

    assert {(rule["alert"], rule["labels"]["severity"]) for rule in alerts()} == {
        (rule.name, rule.severity) for rule in DEFAULT_RULES
    }
    assert recorded == [recording.record for recording in RECORDINGS]


def test_alerts_are_grouped_by_what_they_are_about() -> None:
    """Chips, inference, the daemon itself."""
    names = {group: {rule.get("alert") for rule in rules} for group, rules in groups().items()}

    assert "NpuHot" in names["npumond-devices"]
    assert "InferenceLatencyHigh" in names["npumond-inference"]
    assert names["npumond-daemon"] >= {"NpumondDown", "NpumondAbsent", "Watchdog"}


def test_durations_that_are_nought_are_left_out() -> None:
    """A fault fires at once; only what flickers is kept firing."""
    rows = {rule["alert"]: rule for rule in alerts()}

    assert "for" not in rows["NpuFault"]
    assert (rows["NpuThrottled"]["for"], rows["NpuThrottled"]["keep_firing_for"]) == ("300s", "60s")
    assert [name for name, rule in rows.items() if "keep_firing_for" in rule] == ["NpuThrottled"]


def test_each_alert_has_the_address_of_its_page() -> None:
    """Built from a prefix that can be another."""
    hot = next(rule for rule in DEFAULT_RULES if rule.name == "NpuHot")

    assert all(re.fullmatch(rf"{RUNBOOKS}/[a-z-]+\.md", rule["annotations"]["runbook_url"]) for rule in alerts())
    assert "runbook_url: https://here/npu-hot.md" in rules_yaml([hot], runbooks="https://here")


@pytest.mark.parametrize(
    ("metric", "kind", "words"),
    [
        ("npu_hbm_utilization_ratio", "value", "{{ $value | humanizePercentage }}"),
        ("inference_latency_seconds", "value", "{{ $value | humanizeDuration }}"),
        ("npu_hbm_used_bytes", "value", "{{ $value | humanize1024 }}B"),
        ("npu_temperature_celsius", "value", '{{ $value | printf "%.4g" }} °C'),
        ("npu_processes", "value", '{{ $value | printf "%.4g" }}'),
        ("npu_ecc_errors_total", "increase", '{{ $value | printf "%.0f" }}'),
    ],
)
def test_the_value_is_told_in_its_unit(metric: str, kind: str, words: str) -> None:
    """Each unit in Prometheus' own functions; a rise, which Prometheus stretches, as a whole number."""
    rule = Rule(name="Mine", metric=metric, kind="increase" if kind == "increase" else "value")

    assert templated(rule, "{value}") == words


def test_labels_become_templates_and_the_threshold_words() -> None:
    """As the node says them, with names where the node has values."""
    rule = Rule(name="Mine", metric="npu_hbm_utilization_ratio", threshold=0.9)

    assert templated(rule, "NPU {device_id} above {threshold}") == "NPU {{ $labels.device_id }} above 90 %"


def test_an_override_is_in_the_expression() -> None:
    """The function takes any rules, so that a fleet can generate a file from its own table."""
    hot = next(rule for rule in DEFAULT_RULES if rule.name == "NpuHot")

    assert "npu_temperature_celsius > 70 " in str(alerting(replace(hot, threshold=70, clear=65))["expr"])


def test_series_that_alerts_ask_for_are_recorded_or_in_the_catalogue() -> None:
    """A name that is mistyped gives no alert and no error."""
    known = {*BY_NAME, *(recording.record for recording in RECORDINGS)}
    expressions = [re.sub(r'"[^"]*"', "", rule["expr"]) for rules in groups().values() for rule in rules]
    asked = {name for text in expressions for name in re.findall(r"(?:\w+:)*\b(?:npu|npumond|inference)_[\w:]+", text)}

    assert asked - known == set()
    assert len(asked) > 20


def test_the_windows_of_the_ratios_are_what_their_names_say() -> None:
    """The least number of requests is counted over the same time as the rate, and is the node's."""
    units = {"m": 60, "h": 3600}

    assert {name: int(name[:-1]) * units[name[-1]] for name in WINDOWS} == WINDOWS
    assert Config().inference.min_requests == MIN_REQUESTS


# Prometheus as the judge


@needs_promtool
def test_promtool_takes_the_generated_file() -> None:
    run = tool("promtool", "check", "rules", RULES)

    assert (run.returncode, run.stderr) == (0, "")
    assert f"{len(DEFAULT_RULES) + len(RECORDINGS)} rules found" in run.stdout


def series(status: str, values: str, instance: str = "n1:9090") -> dict[str, str]:
    labels = f'model="m",target="t",status="{status}",instance="{instance}",job="npumond"'
    return {"series": f"inference_requests_total{{{labels}}}", "values": values}


def burning(severity: str, value: str, over: str, days: str) -> dict[str, Any]:
    return {
        "exp_labels": {"severity": severity, "model": "m", "job": "npumond"},
        "exp_annotations": {
            "summary": f"Requests to m use up the error budget within {days} days",
            "description": f"{value} of the requests to m succeeded over {over}; the goal is 99.9 %, and at this rate "
            f"a month's budget lasts {days} days. "
            f"See which servers fail: instance_model:inference_success:ratio_rate{'5m' if days == 'two' else '30m'}.",
            "runbook_url": f"{RUNBOOKS}/inference-error-budget-burn.md",
        },
    }


def burn(at: str, *expected: dict[str, Any]) -> dict[str, Any]:
    return {"eval_time": at, "alertname": "InferenceErrorBudgetBurn", "exp_alerts": list(expected)}


TWO_DAYS = burning("critical", "98%", "the last hour", "two")
CASES: dict[str, dict[str, Any]] = {
    "two of a hundred fail: the fast pair fires, and the slow one after its fifteen minutes": {
        "input_series": [series("success", "0+98x90"), series("error", "0+2x90")],
        "alert_rule_test": [
            burn("6m", TWO_DAYS),
            burn("90m", TWO_DAYS, burning("warning", "98%", "six hours", "five")),
        ],
    },
    "one of a hundred fails: only the slow pair": {
        "input_series": [series("success", "0+99x90"), series("error", "0+1x90")],
        "alert_rule_test": [burn("10m"), burn("90m", burning("warning", "99%", "six hours", "five"))],
    },
    "five of a thousand fail: more than the goal allows, and slow enough": {
        "input_series": [series("success", "0+995x90"), series("error", "0+5x90")],
        "alert_rule_test": [burn("90m")],
    },
    "the failing ends: the short window ends the alert though the long one remembers": {
        "input_series": [series("success", "0+98x20 2058+100x40"), series("error", "0+2x20 40x41")],
        "alert_rule_test": [burn("20m", TWO_DAYS, burning("warning", "98%", "six hours", "five")), burn("60m")],
    },
    "everything fails and nothing ever succeeded": {
        "input_series": [series("error", "0+10x30")],
        "alert_rule_test": [burn("10m", burning("critical", "0%", "the last hour", "two"))],
    },
    "too few requests to tell": {
        "input_series": [series("success", "0+0.5x30"), series("error", "0+0.5x30")],
        "alert_rule_test": [burn("5m")],
    },
    "a server that does not count what fails": {
        "input_series": [series("success", "0+100x30")],
        "alert_rule_test": [burn("20m")],
        "promql_expr_test": [{"expr": "model:inference_success:ratio_rate5m", "eval_time": "20m", "exp_samples": []}],
    },
    "aborted requests are neither good nor bad": {
        "input_series": [series("success", "0+100x30"), series("error", "0x30"), series("aborted", "0+100x30")],
        "promql_expr_test": [
            {
                "expr": "model:inference_success:ratio_rate5m",
                "eval_time": "20m",
                "exp_samples": [
                    {"labels": 'model:inference_success:ratio_rate5m{job="npumond",model="m"}', "value": 1}
                ],
            }
        ],
    },
    "the counters begin anew: no failure is made of it": {
        "input_series": [series("success", "0+100x10 0+100x10"), series("error", "5x10 0x10")],
        "alert_rule_test": [burn("20m")],
    },
    "a node that fails is told from one that does not": {
        "input_series": [
            series("success", "0+100x30"),
            series("error", "0x30"),
            series("success", "0+50x30", "n2:9090"),
            series("error", "0+50x30", "n2:9090"),
        ],
        "promql_expr_test": [
            {
                "expr": 'instance_model:inference_success:ratio_rate5m{instance="n2:9090"}',
                "eval_time": "20m",
                "exp_samples": [
                    {
                        "labels": "instance_model:inference_success:ratio_rate5m"
                        '{instance="n2:9090",job="npumond",model="m"}',
                        "value": 0.5,
                    }
                ],
            }
        ],
    },
    "aggregates of a node": {
        "input_series": [
            {"series": f'{metric}{{device_id="{chip}",instance="n1:9090",job="npumond"}}', "values": f"{value}x5"}
            for chip, value in (("0", 0.25), ("1", 0.75))
            for metric in ("npu_aicore_utilization_ratio", "npu_hbm_utilization_ratio")
        ],
        "promql_expr_test": [
            {
                "expr": name,
                "eval_time": "3m",
                "exp_samples": [{"labels": f'{name}{{instance="n1:9090",job="npumond"}}', "value": value}],
            }
            for name, value in (
                ("instance:npu_aicore_utilization_ratio:avg", 0.5),
                ("instance:npu_hbm_utilization_ratio:max", 0.75),
            )
        ],
    },
    "chips are averaged by their type": {
        "input_series": [
            {"series": f'{metric},device_id="0",instance="{node}",job="npumond"}}', "values": f"{value}x5"}
            for node, load in (("n1:9090", 0.25), ("n2:9090", 0.75))
            for metric, value in (('npu_device_info{chip="910B3"', 1), ('npu_aicore_utilization_ratio{x=""', load))
        ],
        "promql_expr_test": [
            {
                "expr": "chip:npu_aicore_utilization_ratio:avg",
                "eval_time": "3m",
                "exp_samples": [
                    {"labels": 'chip:npu_aicore_utilization_ratio:avg{chip="910B3",job="npumond"}', "value": 0.5}
                ],
            }
        ],
    },
    "the words of a hot chip": {
        "input_series": [
            {"series": 'npu_temperature_celsius{device_id="3",instance="n1:9090",job="npumond"}', "values": "91x5"}
        ],
        "alert_rule_test": [
            {
                "eval_time": "3m",
                "alertname": "NpuHot",
                "exp_alerts": [
                    {
                        "exp_labels": {
                            "severity": "warning", "device_id": "3", "instance": "n1:9090", "job": "npumond",
                        },
                        "exp_annotations": {
                            "summary": "NPU 3 is hot",
                            "description": "NPU 3 is at 91 °C, above 85 °C. "
                            "See fans, air inlet and the chips beside it.",
                            "runbook_url": f"{RUNBOOKS}/npu-hot.md",
                        },
                    }
                ],
            }
        ],
    },
    "npumond does not answer; another node does": {
        "input_series": [
            {"series": 'up{instance="n1:9090",job="npumond"}', "values": "0x10"},
            {"series": 'up{instance="n2:9090",job="npumond"}', "values": "1x10"},
            {"series": 'up{instance="n3:9100",job="node"}', "values": "0x10"},
        ],
        "alert_rule_test": [
            {"eval_time": "4m", "alertname": "NpumondDown", "exp_alerts": []},
            {
                "eval_time": "6m",
                "alertname": "NpumondDown",
                "exp_alerts": [
                    {
                        "exp_labels": {"severity": "critical", "instance": "n1:9090", "job": "npumond"},
                        "exp_annotations": {
                            "summary": "npumond does not answer on n1:9090",
                            "description": "Prometheus cannot scrape npumond on n1:9090. "
                            "See systemctl status npumond, or the pod.",
                            "runbook_url": f"{RUNBOOKS}/npumond-down.md",
                        },
                    }
                ],
            },
            {"eval_time": "10m", "alertname": "NpumondAbsent", "exp_alerts": []},
        ],
    },
}  # fmt: skip
"""Title to a test of promtool's, one column a minute."""


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize("title", CASES)
def test_prometheus_judges_the_generated_rules_as_told(title: str, tmp_path: Path) -> None:
    """The shipped file itself, words included."""
    path = tmp_path / "tests.yml"
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", **CASES[title]}],
    }
    path.write_text(json.dumps(document))

    run = tool("promtool", "test", "rules", path)

    assert run.returncode == 0, run.stdout + run.stderr


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize(
    ("alert", "selector", "values", "at", "labels"),
    [
        ("Watchdog", "up{}", "1x5", "0m", {"severity": "info"}),
        ("NpumondAbsent", 'up{job="node"}', "1x20", "14m", None),
        ("NpumondAbsent", 'up{job="node"}', "1x20", "16m", {"severity": "critical"}),
        (
            "NpumondRestarting", 'process_start_time_seconds{job="npumond",instance="n"}', "1 2 3 4 5 5 5", "6m",
            {"severity": "warning", "job": "npumond", "instance": "n"},
        ),
        ("NpumondRestarting", 'process_start_time_seconds{job="npumond",instance="n"}', "1 2 3 4 4 4", "5m", None),
    ],
)  # fmt: skip
def test_the_rules_of_prometheus_alone_fire_when_they_should(
    alert: str, selector: str, values: str, at: str, labels: dict[str, str] | None, tmp_path: Path
) -> None:
    """Those that no node can judge have no timeline; labels are compared, words are not."""
    expr = f'count by (severity, job, instance) (ALERTS{{alertname="{alert}",alertstate="firing"}})'
    inside = ", ".join(f'{name}="{value}"' for name, value in (labels or {}).items())
    samples = [] if labels is None else [{"labels": f"{{{inside}}}", "value": 1}]
    case = {
        "interval": "1m",
        "input_series": [{"series": selector, "values": values}],
        "promql_expr_test": [{"expr": expr, "eval_time": at, "exp_samples": samples}],
    }
    path = tmp_path / "tests.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))

    run = tool("promtool", "test", "rules", path)

    assert run.returncode == 0, run.stdout + run.stderr


# The command that writes it


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree in which everything is fresh."""
    shutil.copy(ROOT / "README.md", tmp_path)
    stale(tmp_path, write=True)
    return tmp_path


def test_a_fresh_tree_has_nothing_to_write(tree: Path) -> None:
    assert stale(tree, write=True) == ()


def test_a_generated_file_that_is_missing_is_written(tree: Path) -> None:
    """Directories too."""
    shutil.rmtree(tree / "deploy")

    assert set(stale(tree, write=True)) == {tree / name for name in GENERATED}
    assert (tree / "deploy/prometheus/rules.yml").read_text() == rules_yaml()


def test_a_generated_file_that_was_edited_is_found_and_left_by_a_check(tree: Path) -> None:
    path = tree / "deploy/prometheus/rules.yml"
    path.write_text(path.read_text() + "# mine\n")

    assert stale(tree, write=False) == (path,)
    assert path.read_text().endswith("# mine\n")


# Runbooks


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    """An alert at night without a page is worth half; a page without a rule is never read."""
    assert {page.stem for page in RUNBOOK_PAGES.glob("*.md")} == {rule.runbook for rule in DEFAULT_RULES}


@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.key)
def test_a_page_names_its_rule_and_its_severity_and_has_every_section(rule: Rule) -> None:
    """In the order in which they are read."""
    lines = (RUNBOOK_PAGES / f"{rule.runbook}.md").read_text().splitlines()

    assert lines[0] == f"# {rule.name}"
    assert rule.severity in "\n".join(lines).lower()
    assert tuple(line.removeprefix("## ") for line in lines if line.startswith("## ")) == HEADINGS


@pytest.mark.parametrize("page", sorted(RUNBOOK_PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_speaks_only_of_what_there_is(page: Path) -> None:
    """Metrics of the catalogue, rules of the table, recorded series."""
    text = page.read_text()
    known = {*BY_NAME, *(recording.record for recording in RECORDINGS)}
    metrics = set(re.findall(r"(?:\w+:)*\b(?:npu|npumond|inference)_[\w:]+", text))
    rules = set(re.findall(r"\b(?:Npu|Npumond|Inference)[A-Z]\w+", text))

    assert metrics - known == set()
    assert rules - {rule.name for rule in DEFAULT_RULES} == set()
    assert not re.search(r"npu-smi (?:set|clear|upgrade)", text)


# Alertmanager


@needs_amtool
def test_amtool_takes_the_configuration() -> None:
    run = tool("amtool", "check-config", ALERTMANAGER)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 templates" in run.stdout


@needs_amtool
@pytest.mark.parametrize("rule", DEFAULT_RULES, ids=lambda rule: rule.key)
def test_each_alert_goes_to_the_receiver_of_its_severity(rule: Rule) -> None:
    """Critical to the pager, warnings to the chat; the Watchdog to the dead man's switch."""
    wanted = "dead-man" if rule.name == "Watchdog" else {"critical": "pager", "warning": "chat"}[rule.severity]

    run = tool(
        "amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", f"--verify.receivers={wanted}",
        f"alertname={rule.name}", f"severity={rule.severity}", "instance=n1:9090",
    )  # fmt: skip

    assert (run.returncode, run.stdout.strip()) == (0, wanted)


def test_routes_wait_and_repeat_as_agreed() -> None:
    """Half a minute, five minutes, four hours; critical ones each hour."""
    route = yaml.safe_load(ALERTMANAGER.read_text())["route"]
    critical = next(child for child in route["routes"] if child["receiver"] == "pager")

    assert route["group_by"] == ["alertname", "instance"]
    assert (route["group_wait"], route["group_interval"], route["repeat_interval"]) == ("30s", "5m", "4h")
    assert critical["repeat_interval"] == "1h"


def test_no_secret_stands_in_the_configuration() -> None:
    """Each is read from a file."""
    keys = re.findall(r"^\s*(\w*(?:api_url|key|password|token|credentials|bearer)\w*):", ALERTMANAGER.read_text(), re.M)

    assert keys
    assert [key for key in keys if not key.endswith("_file")] == []


@needs_amtool
def test_a_message_has_what_a_person_needs(tmp_path: Path) -> None:
    """Title with state, rule and node; severity, summary, next step and page; what is over in one line."""
    firing = {"summary": "NPU 3 is hot", "description": "NPU 3 is at 91 °C.", "runbook_url": "https://here/npu-hot.md"}
    data = tmp_path / "data.json"
    data.write_text(json.dumps({
        "status": "firing",
        "groupLabels": {"alertname": "NpuHot", "instance": "n1:9090"},
        "alerts": [
            {"status": "firing", "labels": {"severity": "warning"}, "annotations": firing},
            {"status": "resolved", "labels": {"severity": "warning"}, "annotations": {"summary": "NPU 4 is hot"}},
        ],
    }))  # fmt: skip

    run = tool(
        "amtool", "template", "render", f"--template.glob={ALERTMANAGER.parent}/templates/*.tmpl",
        f"--template.data={data}", '--template.text={{ template "npumond.title" . }}\n{{ template "npumond.text" . }}',
    )  # fmt: skip

    assert run.stdout.split("\n")[:6] == [
        "[FIRING 1] NpuHot on n1:9090",
        "WARNING: NPU 3 is hot",
        "NPU 3 is at 91 °C.",
        "Runbook: https://here/npu-hot.md",
        "",
        "Over: NPU 4 is hot",
    ]


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The real one with the shipped configuration; its port on loopback."""
    storage = tmp_path_factory.mktemp("alertmanager")
    port = free_port()
    with (storage / "log").open("w") as log:
        process = subprocess.Popen(
            ["prometheus-alertmanager", f"--config.file={ALERTMANAGER}", f"--storage.path={storage}",
             f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            until(lambda: ready(port), "Alertmanager is ready", (storage / "log").read_text)
            yield port
        finally:
            process.terminate()
            process.wait(20)


def until(true: Callable[[], bool], what: str, detail: Callable[[], object]) -> None:
    """Asks anew until it is true; twenty seconds at most."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, f"not within 20 s: {what}\n{detail()}"
        time.sleep(0.02)


def ask(port: int, method: str, path: str, body: object = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def ready(port: int) -> bool:
    try:
        return ask(port, "GET", "/-/ready")[0] == 200
    except OSError:
        return False


def silenced(port: int, *labels: dict[str, str], at_least: str) -> set[str]:
    """Posts the alerts of one node, waits until one is silenced by another of them, and names all that are."""
    assert ask(port, "POST", "/api/v2/alerts", [{"labels": {"job": "npumond", **one}} for one in labels])[0] == 200
    seen: dict[str, bool] = {}

    def look() -> bool:
        text = ask(port, "GET", f"/api/v2/alerts?filter=instance=%22{labels[0]['instance']}%22")[1]
        for one in json.loads(text):
            seen["{alertname}/{severity}".format(**one["labels"])] = bool(one["status"]["inhibitedBy"])
        return len(seen) == len(labels) and seen.get(at_least, False)

    until(look, f"{at_least} is silenced", lambda: seen)
    return {name for name, is_silenced in seen.items() if is_silenced}


def alert(name: str, severity: str = "warning", **labels: str) -> dict[str, str]:
    return {"alertname": name, "severity": severity, **labels}


@needs_alertmanager
@pytest.mark.slow
def test_a_silent_daemon_silences_everything_else_of_its_instance(alertmanager: int) -> None:
    assert silenced(
        alertmanager,
        alert("NpumondDown", "critical", instance="a"),
        alert("NpuLost", "critical", instance="a", device_id="0"),
        alert("InferenceSuccessLow", "critical", instance="a", model="m"),
        alert("NpumondStale", instance="a"),
        alert("NodeDiskFull", instance="a"),
        at_least="NpuLost/critical",
    ) == {"NpuLost/critical", "InferenceSuccessLow/critical", "NpumondStale/warning"}


@needs_alertmanager
@pytest.mark.slow
def test_a_lost_chip_silences_its_own_details_and_no_others(alertmanager: int) -> None:
    assert silenced(
        alertmanager,
        alert("NpuLost", "critical", instance="b", device_id="0"),
        alert("NpuUnhealthy", "critical", instance="b", device_id="0"),
        alert("NpuFault", "critical", instance="b", device_id="0", code="40F84E00"),
        alert("NpuHot", instance="b", device_id="1"),
        alert("NpuMissing", instance="b"),
        at_least="NpuFault/critical",
    ) == {"NpuUnhealthy/critical", "NpuFault/critical"}


@needs_alertmanager
@pytest.mark.slow
def test_critical_silences_the_warning_of_the_same_alert_and_series(alertmanager: int) -> None:
    """Another code on the chip is another fault."""
    assert silenced(
        alertmanager,
        alert("NpuHbmNearlyFull", "critical", instance="c", device_id="0"),
        alert("NpuHbmNearlyFull", instance="c", device_id="0"),
        alert("NpuFault", "critical", instance="c", device_id="0", code="80E18402"),
        alert("NpuFault", instance="c", device_id="0", code="80E01801"),
        at_least="NpuHbmNearlyFull/warning",
    ) == {"NpuHbmNearlyFull/warning"}


def test_levels_are_told_apart_by_every_label_of_rules_that_have_two() -> None:
    """A label that was forgotten would silence the warning of another series."""
    names = [rule.name for rule in DEFAULT_RULES]
    rules = [rule for rule in DEFAULT_RULES if names.count(rule.name) > 1 and rule.on_node]
    labels = {name for rule in rules for name in BY_NAME[rule.metric].labels} - {"severity"}
    inhibited = yaml.safe_load(ALERTMANAGER.read_text())["inhibit_rules"]
    equal = next(rule["equal"] for rule in inhibited if rule["source_matchers"] == ['severity="critical"'])

    assert labels <= set(equal)


def test_alerts_that_are_named_for_silencing_are_rules() -> None:
    """A name that is mistyped silences nothing."""
    text = json.dumps(yaml.safe_load(ALERTMANAGER.read_text())["inhibit_rules"])
    whole = set(re.findall(r'alertname=\\"(\w+)\\"', text))
    details = {f"Npu{word}" for word in re.findall(r"Npu\((.*?)\)", text)[0].split("|")}

    assert whole | details <= {rule.name for rule in DEFAULT_RULES}
