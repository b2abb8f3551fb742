"""What the command line shows people: tables of devices, calls, alerts and findings.

The only module that imports rich.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from npumond.api import Json
from npumond.catalog import CATALOG
from npumond.doctor import Finding
from npumond.model import CallOutcome, Device, DriverFacts, PhyId, Snapshot
from npumond.rules import Alert

HEALTH = {0.0: ("ok", "green"), 1.0: ("minor", "yellow"), 2.0: ("major", "red"), 3.0: ("critical", "bold red")}
VERDICT_STYLE = {"ok": "green", "missing": "red", "problem": "bold red", "note": "yellow"}
UNKNOWN = Text("-", style="dim")
GIB = 1 << 30


def console() -> Console:
    """Standard output; without colours where it is not a terminal, and never folded to 80 columns in a pipe."""
    out = Console(highlight=False, markup=False)  # markup would take [8,9] in a call's name for a style
    return out if out.is_terminal else Console(highlight=False, markup=False, width=200)


def driver_line(facts: DriverFacts) -> Text:
    """One line about the driver."""
    versions = f"driver {facts.driver_version or 'unknown'}, DCMI {facts.dcmi_version or 'unknown'}"
    return Text(
        f"{facts.library}  {versions}, API {facts.api}; {len(facts.devices)} of {facts.expected} chips identified"
    )


def devices_table(devices: Iterable[Json]) -> Table:
    """A table like npu-smi's, of entries of ``/api/v1/devices``."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("NPU", "Card/Chip", "Name", "Bus-Id", "Health"):
        table.add_column(name)
    for name in ("Power(W)", "Temp(C)", "AICore(%)", "HBM or DDR(GiB)", "Procs"):
        table.add_column(name, justify="right")
    for device in devices:
        table.add_row(*_device_row(device))
    return table


def _device_row(device: Json) -> Sequence[RenderableType]:
    readings = device["readings"]
    known: dict[str, float] = readings if isinstance(readings, dict) else {}
    return (
        str(device["device_id"]),
        f"{device['card_id']}/{device['chip_id']}",
        str(device["chip"]),
        str(device["pci_address"] or "-"),
        _health(device, known.get("npu_health_status")),
        _number(known.get("npu_power_watts"), "{:.1f}"),
        _number(known.get("npu_temperature_celsius"), "{:.0f}"),
        _percent(known.get("npu_aicore_utilization_ratio")),
        _memory(known),
        _number(known.get("npu_processes"), "{:.0f}"),
    )


def _health(device: Json, status: float | None) -> Text:
    if not device["up"]:
        return Text(f"down: {device['reason']}", style="bold red")
    if status is None:
        return Text("unknown", style="yellow")
    return Text(*HEALTH.get(status, (f"{status:g}", "yellow")))


def _number(value: float | None, form: str) -> Text:
    return UNKNOWN if value is None else Text(form.format(value))


def _percent(ratio: float | None) -> Text:
    return UNKNOWN if ratio is None else Text(f"{100 * ratio:.0f}")


def _memory(known: Mapping[str, float]) -> Text:
    for kind in ("hbm", "ddr"):
        used, total = known.get(f"npu_{kind}_used_bytes"), known.get(f"npu_{kind}_total_bytes")
        if used is not None and total is not None:
            return Text(f"{used / GIB:.1f} / {total / GIB:.1f}")
    return UNKNOWN


def alerts_table(alerts: Sequence[Alert]) -> RenderableType:
    """Pending and firing alerts."""
    if not alerts:
        return Text("no rule is pending or firing")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("State", "Severity", "Rule", "Value", "Summary"):
        table.add_column(name)
    for alert in alerts:
        table.add_row(alert.state, alert.severity, alert.rule, _number(alert.value, "{:g}"), alert.summary)
    return table


def calls_table(devices: Sequence[Device], outcomes: Mapping[tuple[PhyId, str], CallOutcome]) -> Table:
    """Every vendor call with its return code, time and what it gave."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("NPU", "Call", "Outcome", "Code", "ms", "Readings"):
        table.add_column(name, overflow="fold")
    for device in devices:
        for (phy_id, name), outcome in outcomes.items():
            if phy_id == device.phy_id:
                table.add_row(
                    str(phy_id),
                    name,
                    outcome.kind,
                    str(outcome.code),
                    f"{1000 * outcome.duration_s:.2f}",
                    _gave(outcome),
                )
    return table


def _gave(outcome: CallOutcome) -> str:
    readings = " ".join(
        f"{reading.field}{'[' + ','.join(reading.key) + ']' if reading.key else ''}={reading.value:g}"
        for reading in outcome.readings
    )
    return f"{readings} {outcome.detail}".strip()


def samples_table(snapshot: Snapshot) -> Table:
    """Every sample about the chips, in base units, by the catalogue's order."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("Series", overflow="fold")
    table.add_column("Value", justify="right")
    for family in CATALOG:
        for sample in snapshot.samples(family.name):
            if not sample.suffix:
                labels = ",".join(f'{name}="{value}"' for name, value in zip(family.labels, sample.labels, strict=True))
                table.add_row(f"{family.name}{{{labels}}}", f"{sample.value:.17g}")
    return table


def catalogue_table() -> Table:
    """The catalogue for people."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("Family", "Kind", "Group", "Meaning"):
        table.add_column(name, overflow="fold")
    for family in CATALOG:
        table.add_row(family.name, family.kind, family.group, family.help)
    return table


class Screen:
    """Shows a table again and again: in place on a terminal, one below the other in a pipe."""

    def __init__(self) -> None:
        self._console = console()
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, table: RenderableType) -> None:
        """Replace what is shown, or write it below."""
        if self._live is not None:
            self._live.update(table, refresh=True)
        else:
            self._console.print(table)
            self._console.file.flush()


def findings(found: Iterable[Finding]) -> Group:
    """What doctor found, a line each and its details below."""
    lines: list[RenderableType] = []
    for finding in found:
        head = Text(f"{finding.verdict:<8}", style=VERDICT_STYLE[finding.verdict])
        lines.append(head + Text(f"{finding.what}: {finding.text}", style=""))
        lines += [Text(f"           {detail}", style="dim") for detail in finding.details]
    return Group(*lines)
