"""Files for Prometheus that are made from the rules: the same thresholds there and on the node.

Pure: text out, nothing read and nothing written; `npumond.artifacts` puts the text into ``deploy/``.

Why generated: a rule typed twice is a rule that is changed once. The expressions come from `npumond.rules.promql`, the
words from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import yaml
from msgspec import Struct

from npumond.catalog import BY_NAME
from npumond.default_rules import DEFAULT_RULES
from npumond.rules import Rule, in_words, promql
from npumond.rules.table import PLACE, filled

RUNBOOKS = "https://npumond.example/deploy/runbooks"
"""Where the pages of ``deploy/runbooks/`` are served; point it to your own copy."""

MIN_REQUESTS = 10
"""A ratio of fewer requests within its window says nothing: one failure of three is no outage. The node's
``inference.min_requests`` has the same default."""

WINDOWS: Mapping[str, int] = {"5m": 300, "30m": 1800, "1h": 3600, "6h": 21600}
"""Windows of the success ratios, in seconds: the two long and two short ones of the burn-rate pair."""

_SERVICE, _NODE_SERVICE, _NODE = ("job, model", "job, instance, model", "job, instance")
"""What the levels of the recorded names keep: ``model``, ``instance_model`` and ``instance``."""

_HEAD = """\
# Alerting and recording rules for npumond. Generated from its table of rules by `npumond artifacts`: do not edit.
#
# Prometheus 2.42 and later, 3.x included. Older ones do not know keep_firing_for and refuse the file: leave those lines
# out for 2.40 and 2.41. The scrape job's name has to begin with npumond (NpumondDown, NpumondAbsent).
# Scrape every 15 s, every 30 s at most: the shortest window is two minutes, the shortest wait is one.
"""


class Recording(Struct, frozen=True):
    """A recording rule: a name of the form level:metric:operation, and what is kept under it."""

    record: str
    expr: str


def success_ratio(by: str, window: str) -> str:
    """PromQL of the share of requests that succeeded among those that succeeded or failed.

    Aborted ones are neither. No result without traffic, nor where the server does not count what fails: unknown is not
    a success.
    """
    errors = f'sum by ({by}) (rate(inference_requests_total{{status="error"}}[{window}]))'
    decided = f'sum by ({by}) (rate(inference_requests_total{{status=~"success|error"}}[{window}]))'
    return f"1 - {errors} / ({decided} >= {MIN_REQUESTS} / {WINDOWS[window]})"


RECORDINGS: tuple[Recording, ...] = (
    Recording("instance:npu_device_up:count", f"count by ({_NODE}) (npu_device_up)"),
    Recording("instance:npu_device_up:sum", f"sum by ({_NODE}) (npu_device_up)"),
    Recording("instance:npu_aicore_utilization_ratio:avg", f"avg by ({_NODE}) (npu_aicore_utilization_ratio)"),
    Recording("instance:npu_hbm_utilization_ratio:avg", f"avg by ({_NODE}) (npu_hbm_utilization_ratio)"),
    Recording("instance:npu_hbm_utilization_ratio:max", f"max by ({_NODE}) (npu_hbm_utilization_ratio)"),
    Recording("instance:npu_power_watts:sum", f"sum by ({_NODE}) (npu_power_watts)"),
    Recording(
        "chip:npu_aicore_utilization_ratio:avg",
        "avg by (job, chip) (npu_aicore_utilization_ratio "
        "* on (job, instance, device_id) group_left (chip) npu_device_info)",
    ),
    *(
        Recording(f"{level}:inference_requests:rate5m", f"sum by ({by}) (rate(inference_requests_total[5m]))")
        for level, by in (("instance_model", _NODE_SERVICE), ("model", _SERVICE))
    ),
    *(
        Recording(f"{level}:inference_success:ratio_rate{window}", success_ratio(by, window))
        for level, by in (("instance_model", _NODE_SERVICE), ("model", _SERVICE))
        for window in WINDOWS
    ),
)
"""What fleets ask for again and again: by node, by type of chip, by node and model, by model."""


def rules_yaml(
    rules: Iterable[Rule] = DEFAULT_RULES, recordings: Iterable[Recording] = RECORDINGS, runbooks: str = RUNBOOKS
) -> str:
    """``deploy/prometheus/rules.yml``: recording rules first, then the alerts in one group for each subject."""
    alerts: dict[str, list[object]] = {}
    for rule in rules:
        alerts.setdefault(_subject(rule), []).append(alerting(rule, runbooks))
    recorded = [{"record": recording.record, "expr": recording.expr} for recording in recordings]
    groups = {"npumond-aggregates": recorded} | alerts
    document = {"groups": [{"name": name, "rules": listed} for name, listed in groups.items()]}
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=1 << 20, allow_unicode=True)


def alerting(rule: Rule, runbooks: str = RUNBOOKS) -> dict[str, object]:
    """The row as one alerting rule of Prometheus; durations that are 0 are left out."""
    waits = {"for": rule.for_s, "keep_firing_for": rule.keep_firing_for_s}
    return {
        "alert": rule.name,
        "expr": promql(rule),
        **{key: f"{seconds:.0f}s" for key, seconds in waits.items() if seconds},
        "labels": {"severity": rule.severity},
        "annotations": {
            "summary": templated(rule, rule.summary),
            "description": templated(rule, rule.description),
            "runbook_url": f"{runbooks}/{rule.runbook}.md",
        },
    }


def templated(rule: Rule, text: str) -> str:
    """The row's text as a template of Prometheus: labels, the value in its unit, the threshold in words.

    A row that only Prometheus judges may hold such templates itself; they are left alone.
    """
    places = {name: f"{{{{ $labels.{name} }}}}" for name in PLACE.findall(text)}
    return filled(text, places | {"value": _value(rule), "threshold": in_words(rule.metric, rule.threshold)})


def _value(rule: Rule) -> str:
    if rule.kind == "increase":
        # Prometheus stretches a rise to the whole window, and no one has seen 2.03 errors.
        return '{{ $value | printf "%.0f" }}'
    unit = BY_NAME[rule.metric].unit if rule.metric else ""
    return _HUMANISED.get(unit, '{{ $value | printf "%.4g" }}')


_HUMANISED: Mapping[str, str] = {
    "ratio": "{{ $value | humanizePercentage }}",
    "seconds": "{{ $value | humanizeDuration }}",
    "bytes": "{{ $value | humanize1024 }}B",
    "hertz": "{{ $value | humanize }}Hz",
    "celsius": '{{ $value | printf "%.4g" }} °C',
    "watts": '{{ $value | printf "%.4g" }} W',
    "volts": '{{ $value | printf "%.4g" }} V',
    "joules": "{{ $value | humanize }}J",
}


def _subject(rule: Rule) -> str:
    """Name of the group: what the rule is about, by the first word of its name."""
    if rule.name.startswith("Inference"):
        return "npumond-inference"
    return "npumond-devices" if rule.name.startswith("Npu") and rule.name[3].isupper() else "npumond-daemon"


FILES: Mapping[str, Callable[[], str]] = {"deploy/prometheus/rules.yml": rules_yaml}
"""Path below the source tree to what makes the whole file."""
