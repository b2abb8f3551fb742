"""The default rules: one table for the node and for Prometheus, and what a user's settings make of it.

A row whose metric's unit is a ratio has its threshold between 0 and 1. Descriptions end with the next step; the page
that ``runbook`` names says more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from npumond.catalog import BY_NAME
from npumond.errors import ConfigError
from npumond.rules import Condition, Matcher, Override, Rule, mistakes

MINUTE = 60.0

_BUSY = Condition(metric="npu_processes", op=">", threshold=0)
"""An idle chip is not a fault; one that somebody holds and does not use is a loss."""

_RESOLVED_BY_BUCKET = Condition(metric="inference_latency_lower_bound_seconds", op=">=", share=1.0)
"""Of a quantile we know that it lies in one bucket, and only the bucket's lower edge is certain: a first bucket of 0 to
0.3 s, in which every request may have taken 20 ms, says nothing about 0.1 s, while one of 0.1 to 0.15 s does. The edge
is not told of a window with fewer than ``inference.min_requests``: three requests make no quantile."""

_ASKED = (
    Condition(metric="npu_device_up", op="==", threshold=1),
    Condition(
        metric="npumond_source_success",
        labels=(Matcher("source", "npu"), Matcher("group", "normal")),
        on=(),
        op="==",
        threshold=1,
    ),
)
"""The chip answers and the round that reads its fault codes went well: a code that is not listed then is over."""

DEFAULT_RULES: tuple[Rule, ...] = (
    Rule(
        name="NpuAicoreUnderused",
        severity="warning",
        metric="npu_aicore_utilization_ratio",
        op="<",
        threshold=0.70,
        clear=0.75,
        conditions=(_BUSY,),
        for_s=10 * MINUTE,
        summary="NPU {device_id} is held by a process but little used",
        description="AI Core utilisation of NPU {device_id} is {value}, under {threshold}, "
        "while a process is on the chip. "
        "See where the time goes: npumond diagnose, and the host's CPU and input pipeline.",
        runbook="npu-aicore-underused",
    ),
    Rule(
        name="NpuHbmNearlyFull",
        severity="warning",
        metric="npu_hbm_utilization_ratio",
        op=">",
        threshold=0.90,
        clear=0.88,
        for_s=MINUTE,
        summary="HBM of NPU {device_id} is nearly full",
        description="{value} of the HBM of NPU {device_id} is in use. "
        "See which process holds it (npu_process_hbm_used_bytes); lower the batch size or the KV cache share.",
        runbook="npu-hbm-nearly-full",
    ),
    Rule(
        name="NpuHbmNearlyFull",
        severity="critical",
        metric="npu_hbm_utilization_ratio",
        op=">",
        threshold=0.97,
        clear=0.95,
        for_s=MINUTE,
        summary="HBM of NPU {device_id} is about to run out",
        description="{value} of the HBM of NPU {device_id} is in use; the next allocation may fail. "
        "See which process holds it (npu_process_hbm_used_bytes) and make room before it is killed.",
        runbook="npu-hbm-nearly-full",
    ),
    Rule(
        name="InferenceLatencyHigh",
        severity="critical",
        metric="inference_latency_seconds",
        labels=(Matcher("kind", "e2e"), Matcher("quantile", "0.99")),
        op=">",
        threshold=0.100,
        clear=0.090,
        conditions=(_RESOLVED_BY_BUCKET,),
        for_s=5 * MINUTE,
        summary="P99 latency of {model} at {target} is too high",
        description="P99 latency of {model} at {target} is {value}, above {threshold}. "
        "Compare with the queue of the server and the AI Core utilisation of its chips: waiting or computing?",
        runbook="inference-latency-high",
    ),
    Rule(
        name="InferenceSuccessLow",
        severity="critical",
        metric="inference_success_ratio",
        op="<",
        threshold=0.999,
        for_s=5 * MINUTE,
        summary="Requests to {model} at {target} fail",
        description="{value} of the requests to {model} at {target} succeed, under {threshold}. "
        "Read the server's log for the errors; inference_requests_total tells errors from aborts.",
        runbook="inference-success-low",
    ),
    Rule(
        # A server that is dead gives no ratio and no latency; without this row the two above would hold and be silent.
        name="InferenceTargetDown",
        severity="critical",
        metric="inference_target_up",
        op="==",
        threshold=0,
        for_s=2 * MINUTE,
        summary="Inference server {target} does not answer",
        description="The metrics of {server} at {target} cannot be read; the reason is in /api/v1/status. "
        "See whether the server runs and listens there.",
        runbook="inference-target-down",
    ),
    Rule(
        # A minute: a worker that hangs is replaced in less, and its chips come back by themselves.
        name="NpuLost",
        severity="critical",
        metric="npu_device_up",
        op="==",
        threshold=0,
        for_s=MINUTE,
        summary="NPU {device_id} does not answer",
        description="NPU {device_id} is lost, hung or failed at init; /api/v1/devices has the reason. "
        "Drain the node, look into dmesg and npu-smi info, then reset or reseat the card.",
        runbook="npu-lost",
    ),
    Rule(
        # A chip that failed at discovery has no number, hence no npu_device_up of its own.
        name="NpuMissing",
        severity="warning",
        metric="npu_devices_expected",
        op=">",
        threshold=0,
        conditions=(Condition(metric="npu_devices_seen", compare="difference", op=">", threshold=0),),
        for_s=5 * MINUTE,
        summary="Fewer NPUs answer than the driver's card list promises",
        description="The driver's card list promises {value} chips, and fewer answer. "
        "npumond doctor names the places in the list; compare with lspci and npu-smi info -l.",
        runbook="npu-missing",
    ),
    Rule(
        name="NpuUnhealthy",
        severity="warning",
        metric="npu_health_status",
        op="==",
        threshold=1,
        for_s=MINUTE,
        summary="NPU {device_id} reports a minor fault",
        description="The driver calls the health of NPU {device_id} minor (1). "
        "See its codes: npu_fault_active, or npu-smi info -t health.",
        runbook="npu-unhealthy",
    ),
    Rule(
        name="NpuUnhealthy",
        severity="critical",
        metric="npu_health_status",
        op=">=",
        threshold=2,
        for_s=MINUTE,
        summary="NPU {device_id} reports a serious fault",
        description="The driver calls the health of NPU {device_id} {value} (2 major, 3 critical). "
        "See its codes (npu_fault_active, or npu-smi info -t health) and take the chip out of use.",
        runbook="npu-unhealthy",
    ),
    Rule(
        name="NpuFault",
        severity="critical",
        metric="npu_fault_active",
        labels=(Matcher("severity", "critical"),),
        op="==",
        threshold=1,
        gone_if=_ASKED,
        summary="Critical fault {code} is active on NPU {device_id}",
        description="Fault {code} is active on NPU {device_id}: the chip needs a reset or has to leave the pool. "
        "Drain the node and follow the runbook.",
        runbook="npu-fault",
    ),
    Rule(
        # Notices too: some of them are the only early sign (isolated rows, over-temperature of the HBM).
        name="NpuFault",
        severity="warning",
        metric="npu_fault_active",
        labels=(Matcher("severity", "critical", "!="),),
        op="==",
        threshold=1,
        gone_if=_ASKED,
        summary="Fault {code} is active on NPU {device_id}",
        description="Fault {code} is active on NPU {device_id}. "
        "See what the code means and whether jobs on the chip failed.",
        runbook="npu-fault",
    ),
    Rule(
        # The counter outlives restarts of chip and daemon, so it is its rise that counts; told for an hour.
        name="NpuEccDoubleBit",
        severity="critical",
        metric="npu_ecc_errors_total",
        labels=(Matcher("kind", "double_bit"),),
        kind="increase",
        window_s=60 * MINUTE,
        op=">",
        threshold=0,
        summary="{memory} memory of NPU {device_id} had ECC errors that could not be corrected",
        description="{value} ECC errors of several bits in the {memory} memory of NPU {device_id} within an hour: "
        "data was lost. Results of the jobs on it are in doubt; "
        "see npu_ecc_isolated_pages and whether the card is due for replacement.",
        runbook="npu-ecc-double-bit",
    ),
    Rule(
        # The driver's bits are a momentary state, renewed each 100 ms: one sample without the bit is no recovery.
        name="NpuThrottled",
        severity="warning",
        metric="npu_throttled",
        labels=(Matcher("reason", "idle", "!="),),
        op="==",
        threshold=1,
        for_s=5 * MINUTE,
        keep_firing_for_s=MINUTE,
        summary="NPU {device_id} runs under its rated clock: {reason}",
        description="The AI Core clock of NPU {device_id} has been lowered for the reason {reason}. "
        "Compare npu_aicore_frequency_hertz with its rating; see cooling and power limits of the server.",
        runbook="npu-throttled",
    ),
    Rule(
        # The vendor's documents at hand give no limit. The chip lowers its clock and raises code 80E20207 by itself;
        # 85 leaves time to act before that, and lies well above what a cooled chip shows under load.
        name="NpuHot",
        severity="warning",
        metric="npu_temperature_celsius",
        op=">",
        threshold=85,
        clear=80,
        for_s=MINUTE,
        summary="NPU {device_id} is hot",
        description="NPU {device_id} is at {value}, above {threshold}. See fans, air inlet and the chips beside it.",
        runbook="npu-hot",
    ),
    Rule(
        # Two rounds of the slow group: one reading of hccn_tool is not taken for the truth.
        name="NpuLinkDown",
        severity="warning",
        metric="npu_link_up",
        op="==",
        threshold=0,
        for_s=2 * MINUTE,
        summary="Link {link} of NPU {device_id} is down",
        description="Link {link} of NPU {device_id} is down; collective operations over it fail or hang. "
        "See the cable, the optical module (npu_optical_power_watts) and the switch port.",
        runbook="npu-link-down",
    ),
    Rule(
        name="NpumondStale",
        severity="warning",
        metric="npumond_source_success",
        # A server that does not answer is no trouble of ours; InferenceTargetDown tells of it.
        labels=(Matcher("source", "inference|inference_probe", "!~"),),
        op="==",
        threshold=0,
        for_s=2 * MINUTE,
        summary="npumond cannot read {source} ({group})",
        description="Readings of {source} ({group}) fail; what they gave is leaving the page, and its alerts are held. "
        "The reason is in /api/v1/status; npumond doctor says what is missing.",
        runbook="npumond-stale",
    ),
    Rule(
        # Where no chip could be opened, none has a number, and so NpuLost has nobody to speak of.
        name="NpuNoneFound",
        severity="critical",
        metric="npu_devices_expected",
        op=">",
        threshold=0,
        conditions=(Condition(metric="npu_device_up", compare="absent"),),
        for_s=2 * MINUTE,
        summary="None of the NPUs of the driver's card list could be opened",
        description="The driver's card list promises {value} chips, and not one of them could be opened. "
        "npumond doctor names the places in the list and why; compare with dmesg and npu-smi info -l.",
        runbook="npu-none-found",
    ),
    Rule(
        # 14.4 times the rate at which 30 days would use the budget up: 2 % of it in one hour. The short window lets the
        # alert end soon after the failing has. Fleet-wide, for a budget belongs to a service and not to a node.
        name="InferenceErrorBudgetBurn",
        severity="critical",
        expr="model:inference_success:ratio_rate1h < 1 - 14.4 * 0.001 "
        "and model:inference_success:ratio_rate5m < 1 - 14.4 * 0.001",
        for_s=2 * MINUTE,
        summary="Requests to {model} use up the error budget within two days",
        description="{{ $value | humanizePercentage }} of the requests to {model} succeeded over the last hour; "
        "the goal is 99.9 %, and at this rate a month's budget lasts two days. "
        "See which servers fail: instance_model:inference_success:ratio_rate5m.",
        runbook="inference-error-budget-burn",
    ),
    Rule(
        # 5 % of the budget in six hours.
        name="InferenceErrorBudgetBurn",
        severity="warning",
        expr="model:inference_success:ratio_rate6h < 1 - 6 * 0.001 "
        "and model:inference_success:ratio_rate30m < 1 - 6 * 0.001",
        for_s=15 * MINUTE,
        summary="Requests to {model} use up the error budget within five days",
        description="{{ $value | humanizePercentage }} of the requests to {model} succeeded over six hours; "
        "the goal is 99.9 %, and at this rate a month's budget lasts five days. "
        "See which servers fail: instance_model:inference_success:ratio_rate30m.",
        runbook="inference-error-budget-burn",
    ),
    Rule(
        # Somebody may be editing, and the old configuration is in force: there is no hurry.
        name="NpumondConfigReloadFailed",
        severity="warning",
        metric="npumond_config_last_reload_successful",
        op="==",
        threshold=0,
        for_s=5 * MINUTE,
        summary="npumond could not take its new configuration",
        description="The configuration on disk has mistakes, and npumond works on with the one before; "
        "it will not start with this file. npumond check FILE lists every mistake.",
        runbook="npumond-config-reload-failed",
    ),
    Rule(
        # A kill takes effect at once unless the process sleeps inside the driver; five minutes is stuck.
        name="NpumondWorkerLeftBehind",
        severity="warning",
        metric="npumond_workers_left_behind",
        op=">",
        threshold=0,
        for_s=5 * MINUTE,
        summary="Worker processes of npumond cannot be killed",
        description="{value} killed worker processes are still held by the kernel, inside the driver. "
        "With two of them npumond replaces its worker no more; see dmesg, and reset the chip or the host.",
        runbook="npumond-worker-left-behind",
    ),
    Rule(
        # Again and again, not so many: how often is a rise above 0 in each window, which both judges know exactly.
        # Missing and rediscovered chips are reasons to look anew, not signs of trouble with the worker.
        name="NpumondWorkerRestarts",
        severity="warning",
        metric="npumond_worker_restarts_total",
        labels=(Matcher("reason", "crashed|exited|hang|silent", "=~"),),
        kind="increase",
        window_s=15 * MINUTE,
        op=">",
        threshold=0,
        for_s=30 * MINUTE,
        summary="npumond's worker is restarted again and again: {reason}",
        description="For half an hour the process that holds the vendor's library has been restarted at least every "
        "15 minutes for the reason {reason}. "
        "See worker_lost and worker_replaced in npumond's log, and which call of which device they name.",
        runbook="npumond-worker-restarts",
    ),
    Rule(
        # One hung call misses slots for seconds, and is over. The slow group asks tools that take their time.
        name="NpumondSlotsMissed",
        severity="warning",
        metric="npumond_missed_slots_total",
        labels=(Matcher("group", "slow", "!="),),
        kind="increase",
        window_s=2 * MINUTE,
        op=">",
        threshold=0,
        for_s=15 * MINUTE,
        summary="npumond's rounds of {source} ({group}) take longer than their interval",
        description="Slots of {source} ({group}) have been missed for 15 minutes: values are older than wished. "
        "npumond once --explain shows which calls take long; see the host's load, or set a longer interval.",
        runbook="npumond-slots-missed",
    ),
    Rule(
        # Nobody can tell that he is dead himself.
        name="NpumondDown",
        severity="critical",
        expr='up{job=~"npumond.*"} == 0',
        for_s=5 * MINUTE,
        summary="npumond does not answer on {instance}",
        description="Prometheus cannot scrape npumond on {instance}. See systemctl status npumond, or the pod.",
        runbook="npumond-down",
    ),
    Rule(
        # With no target there is no ``up`` either: NpumondDown is blind to a discovery that finds nothing.
        name="NpumondAbsent",
        severity="critical",
        expr='absent(up{job=~"npumond.*"})',
        for_s=15 * MINUTE,
        summary="Prometheus has no target of npumond",
        description="No job whose name begins with npumond has a target; nothing is judged. "
        "See the service discovery of Prometheus and the name of the job.",
        runbook="npumond-absent",
    ),
    Rule(
        name="NpumondRestarting",
        severity="warning",
        expr='changes(process_start_time_seconds{job=~"npumond.*"}[1h]) > 3',
        summary="npumond on {instance} is restarted again and again",
        description="npumond on {instance} began anew {{ $value }} times within an hour. "
        "See journalctl -u npumond, or the previous log of the pod.",
        runbook="npumond-restarting",
    ),
    Rule(
        # Its absence is the news: whoever receives it raises the alarm when it no longer comes.
        name="Watchdog",
        severity="info",
        expr="vector(1)",
        summary="The way of alerts from Prometheus to their receivers is open",
        description="This alert always fires; it is no fault. "
        "Have it sent to a service that speaks up when it stays away.",
        runbook="watchdog",
    ),
)


def rules_from(
    defaults: bool = True, overrides: Mapping[str, Override] | None = None, extra: Sequence[Rule] = ()
) -> tuple[Rule, ...]:
    """The rules in force: the default ones, changed as wished, then the user's own.

    An override is named after the rule (all rows of that name) or after one row, as ``NpuHbmNearlyFull/critical``; the
    latter wins. A threshold or severity of a rule with two rows has to name the row.

    Raises ConfigError with every mistake found.
    """
    table = DEFAULT_RULES if defaults else ()
    wanted = overrides or {}
    found = [*_name_mistakes(wanted), *_ambiguities(wanted)]
    rules = [*_overridden(table, wanted), *extra]
    found += [f"rules: {rule.key}: {line}" for rule in rules for line in mistakes(rule)]
    found += _repeated(rules)
    if found:
        raise ConfigError(tuple(found))
    return tuple(rules)


def _overridden(table: Iterable[Rule], overrides: Mapping[str, Override]) -> Iterable[Rule]:
    for row in table:
        chosen = [overrides[name] for name in (row.name, row.key) if name in overrides]
        if all(override.enabled for override in chosen):
            for override in chosen:
                row = _with(row, override)
            yield row


def _with(rule: Rule, override: Override) -> Rule:
    """The rule with the fields that are set. With a new threshold alone, ``clear`` moves along; ratios stay in 0..1."""
    changes = {
        name: value
        for name in ("threshold", "clear", "for_s", "keep_firing_for_s", "severity")
        if (value := getattr(override, name)) is not None
    }
    if rule.clear is not None and override.threshold is not None and override.clear is None:
        clear = round(rule.clear + override.threshold - rule.threshold, 12)
        changes["clear"] = min(max(clear, 0.0), 1.0) if BY_NAME[rule.metric].unit == "ratio" else clear
    return replace(rule, **changes)


def _name_mistakes(overrides: Mapping[str, Override]) -> Iterable[str]:
    known = {name for rule in DEFAULT_RULES for name in (rule.name, rule.key)}
    for name in overrides:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            yield f"rules.overrides: no default rule is called {name!r}" + (
                f"; did you mean {near[0]}?" if near else ""
            )


def _ambiguities(overrides: Mapping[str, Override]) -> Iterable[str]:
    for name, override in overrides.items():
        keys = [rule.key for rule in DEFAULT_RULES if rule.name == name]
        if len(keys) > 1 and (override.threshold, override.clear, override.severity) != (None, None, None):
            yield f"rules.overrides.{name}: there are {len(keys)} rules of that name; say {' or '.join(keys)}"


def _repeated(rules: Iterable[Rule]) -> Iterable[str]:
    seen: set[str] = set()
    for rule in rules:
        if rule.key in seen:
            yield f"rules: {rule.key}: there is a rule of that name and severity already"
        seen.add(rule.key)
