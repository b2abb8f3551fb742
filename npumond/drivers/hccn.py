"""hccn_tool: what it knows of a chip's Ethernet port and DCMI may not.

Source: reference dcmi.md, section 13, and npu-exporter-metrics.md, sections 2.10 to 2.12. Each answer costs a process
and driver work; the tool is run one at a time, in a group of its own that is killed when the deadline passes. A key
that the tool does not print is absent, never 0.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from time import monotonic, perf_counter
from typing import IO, cast

from msgspec import Struct

from npumond.drivers.dcmi.structures import PACKET_COUNTERS
from npumond.drivers.text import sanitised
from npumond.model import CallOutcome, OutcomeKind, PhyId, Reading

DEFAULT_PATH = "/usr/local/Ascend/driver/tools/hccn_tool"
MOST_OUTPUT = 1 << 20

_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?:\s*([A-Za-z/%]+))?\s*$")
"""A number and perhaps its unit, and nothing else: ``3290.30 mV``, ``0x0`` and ``NA`` are told apart."""
_LANE = re.compile(r"(Tx|Rx)[ _]Power[ _]?(\d*)$", re.IGNORECASE)
_BANDWIDTH = re.compile(r"Bandwidth\s+(TX|RX)$", re.IGNORECASE)
_UNSUPPORTED = re.compile(r"not\s+support|no\s+such\s+command|unknown\s+command", re.IGNORECASE)

Parse = Callable[[str], Iterator[Reading]]


class Topic(Struct, frozen=True, kw_only=True):
    """One thing to ask the tool about, and what its answer gives."""

    name: str
    """``hccn_tool -link``: the row's name."""
    fields: frozenset[str]
    parse: Parse
    unless: str = ""
    """DCMI call whose answer makes this one needless."""
    counts: bool = False
    """Whether it gives counters, which are then not taken now from here and now from DCMI."""

    @property
    def option(self) -> str:
        """``-link``."""
        return self.name.partition(" ")[2]


# ---- what the tool prints ----


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """``key : value`` lines, whatever the blanks; a device in brackets before the key is dropped."""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield re.sub(r"^\s*\[[^\]]*\]", "", key).strip(), value.strip()


def _number(text: str) -> float | None:
    """The number in ``3290.30 mV``; None for NA, hexadecimal flags and words."""
    match = _NUMBER.match(text)
    return float(match[1]) if match else None


def _count(text: str) -> float | None:
    """A plain number without a unit and not below zero."""
    match = _NUMBER.match(text)
    return float(match[1]) if match and match[2] is None and float(match[1]) >= 0 else None


def parse_link(text: str) -> Iterator[Reading]:
    """``link status: UP``."""
    for key, value in _pairs(text):
        if key.lower() == "link status" and value.upper() in ("UP", "DOWN"):
            yield Reading("up", float(value.upper() == "UP"))


def parse_speed(text: str) -> Iterator[Reading]:
    """``Speed: 100000 Mb/s``; ``Unknown!`` is absent."""
    for key, value in _pairs(text):
        number = _number(value)
        if key.lower() == "speed" and number is not None and number >= 0:
            yield Reading("speed", number)


def parse_link_stat(text: str) -> Iterator[Reading]:
    """``[devid 0]link up count       : 2``."""
    for key, value in _pairs(text):
        number = _count(value)
        if key.lower() == "link up count" and number is not None:
            yield Reading("link_up_count", number)


def parse_bandwidth(text: str) -> Iterator[Reading]:
    """``Bandwidth TX: 0.00 MB/sec``."""
    for key, value in _pairs(text):
        way, number = _BANDWIDTH.match(key), _number(value)
        if way and number is not None and number >= 0:
            yield Reading(f"{way[1].lower()}_bandwidth", number)


def parse_statistics(text: str) -> Iterator[Reading]:
    """``mac_tx_mac_pause_num:0``: every name with a number is a field."""
    for key, value in _pairs(text):
        number = _count(value)
        if number is not None and key.isidentifier():
            yield Reading(key, number)


def parse_optical(text: str) -> Iterator[Reading]:
    """``Tx Power0 : 1.12 mW``; a module of one lane prints no lane number. Thresholds and flags are left out."""
    for key, value in _pairs(text):
        lane, number = _LANE.match(key), _number(value)
        if key.lower() == "present" and value.lower() in ("present", "not present"):
            yield Reading("present", float(value.lower() == "present"))
        elif number is None:
            continue
        elif lane:
            yield Reading(f"{lane[1].capitalize()}_Power", number, (lane[2] or "0",))
        elif key.lower() == "temperature":
            yield Reading("temperature", number)
        elif key.lower() == "vcc":
            yield Reading("Vcc", number)


_TOOL_COUNTERS = ("roce_unexpected_ack_num", "roce_out_of_order_num", "roce_qp_status_err_num")
"""Counters that the tool calls otherwise than the structure does."""

TOPICS: tuple[Topic, ...] = (
    Topic(name="hccn_tool -link", fields=frozenset({"up"}), parse=parse_link),
    Topic(name="hccn_tool -speed", fields=frozenset({"speed"}), parse=parse_speed),
    Topic(name="hccn_tool -link_stat", fields=frozenset({"link_up_count"}), parse=parse_link_stat),
    Topic(
        name="hccn_tool -optical",
        fields=frozenset({"present", "temperature", "Vcc", "Tx_Power", "Rx_Power"}),
        parse=parse_optical,
    ),
    Topic(
        name="hccn_tool -stat",
        fields=frozenset((*PACKET_COUNTERS, *_TOOL_COUNTERS)),
        parse=parse_statistics,
        unless="dcmi_get_netdev_pkt_stats_info",
        counts=True,
    ),
    Topic(
        name="hccn_tool -bandwidth",
        fields=frozenset({"tx_bandwidth", "rx_bandwidth"}),
        parse=parse_bandwidth,
        unless="dcmi_get_rdma_bandwidth_info",
    ),
)
"""The tool's rows. ``-stat`` gives every counter that it prints; ``fields`` names those that are known."""

BY_NAME: dict[str, Topic] = {topic.name: topic for topic in TOPICS}


# ---- running it ----


class _Answer(Struct):
    """What came of one run."""

    status: int
    output: bytes
    trouble: str = ""
    """Why the run was ended by us."""


class HccnTool:
    """The tool, run one at a time."""

    def __init__(self, path: str | None, environ: Mapping[str, str], deadline_s: float = 5.0) -> None:
        self._path = path or DEFAULT_PATH
        # LD_LIBRARY_PATH is what the tool finds the driver by; the C locale keeps numbers as the parsers know them.
        self._environ = {**environ, "LC_ALL": "C"}
        self._deadline_s = deadline_s
        self._one_at_a_time = threading.Lock()

    def ask(self, phy_id: PhyId, topic: Topic) -> CallOutcome:
        """What the tool says of a chip; ``code`` is its exit status."""
        with self._one_at_a_time:
            begun = perf_counter()
            try:
                answer = self._run([self._path, "-i", str(phy_id), topic.option, "-g"])
            except FileNotFoundError:
                return CallOutcome(topic.name, "unsupported", 0, 0.0, detail=f"{self._path} is not there")
            except OSError as error:
                kind: OutcomeKind = "denied" if isinstance(error, PermissionError) else "error"
                return CallOutcome(topic.name, kind, error.errno or 0, 0.0, detail=f"{self._path}: {error.strerror}")
            return _outcome(topic, answer, perf_counter() - begun)

    def _run(self, command: list[str]) -> _Answer:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environ,
            start_new_session=True,
        ) as process:
            try:
                output, trouble = _drain(process, monotonic() + self._deadline_s)
            finally:
                # The whole group: a grandchild may hold the pipe after the tool itself is gone. Until the tool is
                # waited for, its number cannot belong to another group.
                if process.returncode is None:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        return _Answer(status, output, trouble)


def _drain(process: subprocess.Popen[bytes], until: float) -> tuple[bytes, str]:
    """All that the process prints, or what it printed and why we stopped to listen."""
    pipe = cast("IO[bytes]", process.stdout).fileno()
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := until - monotonic()) > 0 and selector.select(left):
            piece = os.read(pipe, 65536)
            if not piece:
                return bytes(output), _reap(process, until)
            output += piece
            if len(output) > MOST_OUTPUT:
                return bytes(output[:MOST_OUTPUT]), f"printed more than {MOST_OUTPUT} bytes"
    return bytes(output), "no answer in time"


def _reap(process: subprocess.Popen[bytes], until: float) -> str:
    try:
        process.wait(max(0.0, until - monotonic()))
    except subprocess.TimeoutExpired:
        return "no answer in time"
    return ""


def _outcome(topic: Topic, answer: _Answer, seconds: float) -> CallOutcome:
    text = answer.output.decode("utf-8", errors="replace")
    said = next((sanitised(line.encode()) for line in text.splitlines() if line.strip()), "")
    if answer.trouble:
        kind: OutcomeKind = "timeout" if "time" in answer.trouble else "error"
        return CallOutcome(topic.name, kind, answer.status, seconds, detail=answer.trouble)
    if answer.status != 0:
        kind = "unsupported" if _UNSUPPORTED.search(text) else "error"
        return CallOutcome(topic.name, kind, answer.status, seconds, detail=f"exit {answer.status}: {said}")
    readings = tuple({(reading.field, reading.key): reading for reading in topic.parse(text)}.values())
    if not readings and _UNSUPPORTED.search(text):
        return CallOutcome(topic.name, "unsupported", 0, seconds, detail=said)
    return CallOutcome(topic.name, "ok", 0, seconds, readings, "" if readings else f"nothing known in: {said}")
