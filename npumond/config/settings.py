"""The settings and their defaults: what `npumond.yaml` may say.

Keys are named as in the file, except for Python's own words (``for_``, ``while_``). Every duration is in seconds and
every size in bytes here, however it was written. The structs are frozen: a reload makes a new `Config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from npumond.config.notation import DURATION, LISTEN, METRIC, NODE_NAME, RULE_NAME, SIZE, THRESHOLD, Listen

DAY = 86_400.0

Text = Annotated[str, Meta(min_length=1)]
Duration = Annotated[float, Meta(ge=0, le=365 * DAY, extra={"notation": DURATION})]
Interval = Annotated[float, Meta(ge=0.1, le=3600, extra={"notation": DURATION})]
CallTimeout = Annotated[float, Meta(ge=0.1, le=120, extra={"notation": DURATION})]
Window = Annotated[float, Meta(ge=1, le=3600, extra={"notation": DURATION})]
Retention = Annotated[float, Meta(ge=60, le=3650 * DAY, extra={"notation": DURATION})]
StoreSize = Annotated[int, Meta(ge=1 << 20, le=1 << 44, extra={"notation": SIZE})]
Threshold = Annotated[float, Meta(extra={"notation": THRESHOLD})]
Address = Annotated[Listen, Meta(extra={"notation": LISTEN})]
MetricName = Annotated[str, Meta(extra={"notation": METRIC})]
RuleName = Annotated[str, Meta(extra={"notation": RULE_NAME})]
NodeName = Annotated[str, Meta(extra={"notation": NODE_NAME, "null": ""})]

Op = Literal["<", ">", "<=", ">=", "==", "!="]
Severity = Literal["critical", "warning", "info"]


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP server."""

    listen: Annotated[tuple[Address, ...], Meta(min_length=1)] = (Listen("0.0.0.0", 9090),)  # noqa: S104 - scraped from elsewhere
    web_config: Text | None = None
    """Path of a file in the format of Prometheus' exporter-toolkit."""
    reload_endpoint: bool = False
    """Whether POST /-/reload reads the configuration again."""


class LatencyProbe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Round trips through ACL; off by default because an open context costs HBM."""

    enabled: bool = False
    interval: Window = 60.0


class Driver(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where NPU readings come from."""

    backend: Literal["auto", "dcmi", "acl", "simulated"] = "auto"
    dcmi_library: Text | None = None
    """Path that wins over the search order."""
    acl_library: Text | None = None
    hccn_tool: Text | None = None
    fault_events: bool = True
    """Whether a process of its own listens for the driver's fault events; it has the library loaded once more, some
    18 MiB. Without it faults are known by the polls of the normal group."""
    call_timeout: CallTimeout = 5.0
    latency_probe: LatencyProbe = LatencyProbe()


class Sampling(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Interval of each group; fast <= normal <= slow."""

    fast: Interval = 1.0
    normal: Interval = 5.0
    slow: Interval = 60.0


class Target(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An inference server whose own metrics are read."""

    url: Text
    server: Text = "auto"
    interval: Interval = 5.0
    device_ids: tuple[Annotated[int, Meta(ge=0)], ...] = ()


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of ours to an inference server."""

    url: Text
    method: Literal["GET", "POST"] = "POST"
    body: str = ""
    interval: Interval = 10.0
    model: str = ""


class Statsd(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where timings are taken as statsd lines."""

    listen: Text | None = None


class Inference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Inference servers beside the chips that serve them."""

    targets: tuple[Target, ...] = ()
    probes: tuple[Probe, ...] = ()
    statsd: Statsd = Statsd()
    window: Window = 60.0
    min_requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    """Under this many requests in the window there is no success ratio."""


class Workloads(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the owner of a chip is found, in this order."""

    sources: tuple[Literal["podresources", "annotation", "cgroup"], ...] = ("podresources", "annotation", "cgroup")


class Condition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold besides, for instance that a process is on the chip."""

    metric: MetricName
    op: Op
    threshold: Threshold


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An alert of the user's own; the fields are those of the default rules."""

    name: RuleName
    metric: MetricName
    labels: Mapping[str, str] = {}
    """Only series that have these label values are judged."""
    op: Op
    threshold: Threshold
    for_: Duration = field(name="for", default=0.0)
    clear: Threshold | None = None
    """Threshold at which a firing alert ends; None: the same as ``threshold``."""
    keep_firing_for: Duration = 0.0
    severity: Severity = "warning"
    while_: Condition | None = field(name="while", default=None)
    summary: str = ""


class Override(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs from a default rule; None leaves it as it is."""

    threshold: Threshold | None = None
    for_: Duration | None = field(name="for", default=None)
    clear: Threshold | None = None
    keep_firing_for: Duration | None = None
    severity: Severity | None = None
    enabled: bool = True


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is judged on the node."""

    defaults: bool = True
    overrides: Mapping[str, Override] = {}
    """By name of the default rule."""
    extra: tuple[Rule, ...] = ()


class Mqtt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alerts and state by MQTT."""

    broker: Text
    topic: Text = "npumond"
    qos: Annotated[int, Meta(ge=0, le=2)] = 1
    username: str = ""
    password_file: Text | None = None


class Alertmanager(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alerts to every member of an Alertmanager cluster."""

    urls: Annotated[tuple[Text, ...], Meta(min_length=1)]


class TensorBoard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NPU scalars as event files."""

    logdir: Text
    every: Interval = 10.0


class Sinks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where snapshots and alerts go besides the page; None is off."""

    mqtt: Mqtt | None = None
    alertmanager: Alertmanager | None = None
    tensorboard: TensorBoard | None = None


class History(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The local store."""

    path: Text = "/var/lib/npumond/history.db"
    retention: Retention = 7 * DAY
    max_bytes: StoreSize = 512 << 20


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names on the page besides our own."""

    aliases: bool = True
    npu_exporter: bool = False


class Log(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The daemon's own log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set; ``Config()`` is what an empty file says."""

    node: NodeName = ""
    """Name of this machine. Empty only after `parse`; `load` fills in $NODE_NAME or the host name."""
    server: Server = Server()
    driver: Driver = Driver()
    sampling: Sampling = Sampling()
    inference: Inference = Inference()
    workloads: Workloads = Workloads()
    rules: Rules = Rules()
    sinks: Sinks = Sinks()
    history: History | None = History()
    metrics: Metrics = Metrics()
    log: Log = Log()


NOT_YET: Mapping[str, str] = {
    "server.web_config": "TLS and users",
    "inference.targets": "metrics of inference servers",
    "inference.probes": "probes of inference servers",
    "inference.statsd.listen": "statsd timings",
    "workloads.sources": "owners of chips",
    "sinks.mqtt": "MQTT",
    "sinks.alertmanager": "Alertmanager",
    "sinks.tensorboard": "TensorBoard",
    "history": "the local store",
    "metrics.npu_exporter": "the official exporter's names",
}
"""Keys whose feature does not exist yet. Set to anything but their default or off they are mistakes, not ignored.

A feature that arrives takes its row out.
"""
