"""The settings and their defaults: what `npumond.yaml` may say.

Keys are named as in the file, except for Python's own words (``for_``, ``while_``). Every duration is in seconds and
every size in bytes here, however it was written. The structs are frozen: a reload makes a new `Config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from npumond.config.notation import (
    BROKER,
    DATAGRAMS,
    DURATION,
    LISTEN,
    METRIC,
    NODE_NAME,
    RULE_NAME,
    SELECTOR,
    SIZE,
    THRESHOLD,
    URL,
    Listen,
)

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
Datagrams = Annotated[Listen, Meta(extra={"notation": DATAGRAMS})]
Url = Annotated[str, Meta(extra={"notation": URL})]
Broker = Annotated[str, Meta(extra={"notation": BROKER})]
Selector = Annotated[str, Meta(extra={"notation": SELECTOR})]
DeviceId = Annotated[int, Meta(ge=0)]
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


class Tls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a connection by TLS is checked by, and what we show of ourselves."""

    ca_file: Text | None = None
    """Certificates that the server's is to be signed by, as PEM; None: those of the system."""
    cert_file: Text | None = None
    key_file: Text | None = None
    insecure: bool = False
    """Whether the server's certificate is not checked at all."""


class OwnServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of server that npumond does not know, by the names on its page."""

    model_label: str = ""
    """Label that names the model; empty where there is none."""
    unit: Literal["s", "ms", "us"] = "s"
    """Of the histograms."""
    e2e: str = ""
    """Histogram of whole requests, without ``_bucket``; empty where there is none. The same of the next two."""
    ttft: str = ""
    itl: str = ""
    success: Selector | None = None
    error: tuple[Selector, ...] = ()
    aborted: tuple[Selector, ...] = ()


SERVER_KINDS = ("vllm", "sglang", "lmdeploy", "triton", "tgi", "mindie", "torchserve", "http")


class Target(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An inference server whose own metrics are read."""

    url: Url
    name: str = ""
    """The label ``target``; empty: host and port of the URL."""
    server: Text = "auto"
    """One of `SERVER_KINDS`, or a name in ``inference.servers``; auto: by what is on the page."""
    interval: Interval = 5.0
    timeout: CallTimeout = 3.0
    device_ids: tuple[DeviceId, ...] = ()
    """Chips that it runs on; empty: found by its processes where they can be seen."""
    token_file: Text | None = None
    """File with a bearer token."""
    tls: Tls = Tls()

    @property
    def label(self) -> str:
        """The value of the label ``target``."""
        return self.name or urlsplit(self.url).netloc


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of ours to an inference server, which costs NPU time."""

    url: Url
    kind: Literal["auto", "openai_chat", "openai_completion", "kserve", "http"] = "auto"
    """What the endpoint speaks; auto: by the path of the URL."""
    method: Literal["auto", "GET", "POST"] = "auto"
    """auto: POST where there is something to send."""
    body: str = ""
    """Sent as it is; empty: a small request that fits the kind."""
    model: str = ""
    prompt: str = "Hello"
    max_tokens: Annotated[int, Meta(ge=1, le=4096)] = 8
    stream: bool = True
    """Whether an answer is asked for token by token, which tells the time to the first."""
    interval: Interval = 10.0
    timeout: CallTimeout = 5.0
    expect_status: Annotated[int, Meta(ge=100, le=599)] = 200
    token_file: Text | None = None
    tls: Tls = Tls()


class Statsd(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where timings are taken as DogStatsD lines."""

    listen: Datagrams | None = None


class MqttInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic on which applications publish their latencies."""

    broker: Broker
    topic: Text = "npumond/inference/#"
    username: str = ""
    password_file: Text | None = None
    tls: Tls = Tls()


class Inference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Inference servers beside the chips that serve them."""

    targets: tuple[Target, ...] = ()
    servers: Mapping[str, OwnServer] = {}
    """Kinds of servers by name, for ``server`` of a target."""
    probes: tuple[Probe, ...] = ()
    statsd: Statsd = Statsd()
    mqtt: MqttInput | None = None
    window: Window = 60.0
    min_requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    """Under this many requests in the window there is no success ratio."""


class Workloads(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the owner of a chip is found, in this order."""

    sources: tuple[Literal["podresources", "annotation", "cgroup"], ...] = ("podresources", "annotation", "cgroup")


class Condition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold besides, for instance that a process is on the chip."""

    metric: MetricName
    """Name, or a selector such as ``npu_ecc_errors_total{kind="double_bit"}``."""
    op: Op
    threshold: Threshold


_UNLESS_ABSENT = {"required_unless": ("kind", "absent")}


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An alert of the user's own; the fields are those of the default rules."""

    name: RuleName
    metric: MetricName
    """Name, or a selector such as ``npu_throttled{reason!="idle"}``: only such series are judged."""
    labels: Mapping[str, str] = {}
    """Only series that have these label values are judged."""
    kind: Literal["value", "increase", "absent"] = "value"
    """``increase``: by how much a counter rose in ``window``; ``absent``: no such series at all."""
    op: Annotated[Op, Meta(extra=_UNLESS_ABSENT)] | None = None
    threshold: Annotated[float, Meta(extra={"notation": THRESHOLD, **_UNLESS_ABSENT})] | None = None
    window: Duration = 0.0
    for_: Duration = field(name="for", default=0.0)
    clear: Threshold | None = None
    """Threshold at which a firing alert ends; None: the same as ``threshold``."""
    keep_firing_for: Duration = 0.0
    severity: Severity = "warning"
    while_: Condition | None = field(name="while", default=None)
    summary: str = ""
    """``{label}`` is filled in."""
    description: str = ""
    """``{label}``, ``{value}`` and ``{threshold}`` are filled in."""


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

    broker: Broker
    topic: Text = "npumond"
    qos: Annotated[int, Meta(ge=0, le=2)] = 1
    username: str = ""
    password_file: Text | None = None
    tls: Tls = Tls()
    telemetry: Interval | None = 10.0
    """How often the readings of each chip are published; null: never, only changes of state."""
    discovery: bool = False
    """Whether Home Assistant is told of the chips."""


class Alertmanager(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Alerts to every member of an Alertmanager cluster."""

    urls: Annotated[tuple[Text, ...], Meta(min_length=1)]
    username: str = ""
    password_file: Text | None = None
    token_file: Text | None = None
    tls: Tls = Tls()
    timeout: CallTimeout = 10.0
    resend: Window = 60.0
    """How often a firing alert is posted again; Alertmanager ends one that is not after four times as long."""


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
