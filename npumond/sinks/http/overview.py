"""The page for people at ``/``: what the API says, as tables that are made when somebody asks for them.

A function of published values. It works without a script and reloads itself; nothing on it comes from another host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from string import Template
from typing import Any

Row = Mapping[str, Any]
"""One entry of the API's JSON. Any: what is shown is what the API has, whatever it is."""

Cell = Callable[[Row], str]

MOST_ENDED = 20
"""Alerts that ended, on the page; the API has more."""

UNKNOWN = "\N{EN DASH}"


def overview(template: Template, status: Row, devices: Sequence[Row], alerts: Sequence[Row]) -> bytes:
    """The whole page. ``template`` has a place for each section."""
    driver = status.get("driver", {})
    failing = [source for source in status.get("sources", ()) if not source["success"]]
    return template.substitute(
        node=escape(str(status.get("node", ""))),
        version=escape(str(status.get("version", ""))),
        driver=escape(_driver(driver)),
        devices=_table(DEVICES, devices, driver.get("reason") or "No chip was found yet."),
        alerts=_table(ALERTS, [alert for alert in alerts if alert["state"] != "resolved"], "None."),
        ended=_table(ENDED, [alert for alert in alerts if alert["state"] == "resolved"][:MOST_ENDED], "None."),
        targets=_table(TARGETS, status.get("targets", ()), "None is watched."),
        faults=_table(FAULTS, status.get("faults", ()), "None."),
        sources=_table(SOURCES, failing, "None."),
    ).encode()


def _driver(driver: Row) -> str:
    if not driver.get("backend"):
        return "no driver"
    version = driver.get("driver_version") or "unknown version"
    return f"{driver['backend']} driver, {version}"


def _table(columns: Mapping[str, Cell], rows: Iterable[Row], without: str) -> str:
    """A table with a row for each entry, or a sentence where there is none."""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell(row))}</td>' for cell in columns.values())}</tr>" for row in rows)
    if not body:
        return f"<p>{escape(without)}</p>"
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(key: str) -> Cell:
    return lambda row: UNKNOWN if row.get(key) is None else str(row[key])


def _reading(family: str, show: Callable[[float], str]) -> Cell:
    def cell(row: Row) -> str:
        value = row["readings"].get(family)
        return UNKNOWN if value is None else show(value)

    return cell


def _percent(ratio: float) -> str:
    return f"{ratio:.0%}"


def _moment(key: str) -> Cell:
    """A Unix time in UTC, to the second."""

    def cell(row: Row) -> str:
        at = row.get(key)
        return UNKNOWN if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")

    return cell


def _labels(row: Row) -> str:
    return ", ".join(f"{name}={value}" for name, value in row["labels"].items())


def _p99(latencies: Sequence[Row]) -> str:
    """Of whole requests, by model."""
    return "; ".join(f"{each['model']} {each['p99_s']:.3g} s" for each in latencies if each["kind"] == "e2e")


HEALTH = ("ok", "minor", "major", "critical")


def _health(value: float) -> str:
    return HEALTH[int(value)] if 0 <= value < len(HEALTH) else f"{value:g}"


DEVICES: Mapping[str, Cell] = {
    "NPU": _text("device_id"),
    "chip": _text("chip"),
    "AI Core": _reading("npu_aicore_utilization_ratio", _percent),
    "HBM": _reading("npu_hbm_utilization_ratio", _percent),
    "power": _reading("npu_power_watts", lambda watts: f"{watts:.1f} W"),
    "temperature": _reading("npu_temperature_celsius", lambda celsius: f"{celsius:.0f} \N{DEGREE SIGN}C"),
    "health": _reading("npu_health_status", _health),
    "state": lambda row: "up" if row["up"] else f"down: {row['reason']}",
}
ALERTS: Mapping[str, Cell] = {
    "rule": _text("rule"),
    "severity": _text("severity"),
    "state": _text("state"),
    "series": _labels,
    "summary": _text("summary"),
}
ENDED: Mapping[str, Cell] = {
    "rule": _text("rule"),
    "severity": _text("severity"),
    "series": _labels,
    "fired (UTC)": _moment("fired_at"),
    "resolved (UTC)": _moment("resolved_at"),
}
FAULTS: Mapping[str, Cell] = {
    "NPU": _text("device_id"),
    "code": _text("code"),
    "severity": _text("severity"),
    "meaning": _text("meaning"),
    "known by": _text("source"),
}
TARGETS: Mapping[str, Cell] = {
    "target": _text("target"),
    "server": _text("server"),
    "NPUs": lambda row: ", ".join(map(str, row["device_ids"])) or UNKNOWN,
    "P99": lambda row: _p99(row["latencies"]) or UNKNOWN,
    "state": lambda row: "up" if row["up"] else f"down: {row['reason']}",
    "note": lambda row: " ".join(row["notes"]),
}
SOURCES: Mapping[str, Cell] = {"source": _text("source"), "group": _text("group"), "reason": _text("reason")}
