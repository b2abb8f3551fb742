"""Everything that parses foreign bytes, as functions of bytes that must not raise what nobody expects.

Inputs are half noise and half valid messages with bytes changed, cut and doubled, since noise alone never gets past the
first check of a parser.
"""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any, cast

from npumond.config import parse
from npumond.drivers import hccn
from npumond.drivers.dcmi.calling import Caller
from npumond.drivers.dcmi.driver import WINDOWS_MS, outcome_of
from npumond.drivers.dcmi.events import read_event
from npumond.drivers.dcmi.rows import Chip, Question, Row
from npumond.drivers.dcmi.table import ROWS
from npumond.drivers.text import LONGEST, sanitised
from npumond.errors import ConfigError, WorkerError
from npumond.model import CallOutcome, Device, DeviceRound, LogicId, PhyId, Reading, Sample
from npumond.negotiation import content_type, wants_gzip
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.measured import Requests
from npumond.sources.inference.pushed.dogstatsd import Parser, Timed
from npumond.sources.inference.targets.book import TargetBook
from npumond.sources.readings import ReadingMap
from npumond.worker.event_protocol import FaultRaised, Missed, Subscribed, SubscribeFailed
from npumond.worker.event_protocol import encode as event_frame
from npumond.worker.event_protocol import reader as event_reader
from npumond.worker.protocol import Alive, Busy, OpenFailed, RoundDone, encode, reader
from tests.fuzz.webserver import answer

DEVICE = Device(phy_id=PhyId(5), logic_id=LogicId(3), card_id=2, chip_id=1, chip="910B3", generation="910B")
CHIP = Chip(device=DEVICE, hccs_links=(1, 2))
MAP = ReadingMap(lambda pid: "", 16, aliases=True)

Target = Callable[[bytes], None]


def frames(data: bytes) -> None:
    """A stream from the worker: messages, or an error of ours."""
    frames_in = reader()
    try:
        for start in range(0, len(data), 7):
            list(frames_in.feed(data[start : start + 7]))
    except WorkerError:
        pass


class _Filled:
    """A library that answers every call with rc 0 and these bytes."""

    def __init__(self, data: bytes) -> None:
        self.seconds = 0.0
        self._data = data

    def take(self, kind: type[Any], room: int = 0) -> Any:
        return kind()

    def call(self, symbol: str, *arguments: Any) -> int:
        for out in arguments:
            if not isinstance(out, int):
                wanted = ctypes.sizeof(out)
                repeated = (self._data * (wanted // max(1, len(self._data)) + 1))[:wanted]
                ctypes.memmove(ctypes.addressof(out), repeated, len(repeated))
        return 0


def structures(data: bytes) -> None:
    """Every row of the call table, filled with these bytes: finite readings, and samples that fit the catalogue."""
    for row in ROWS:
        for symbol in {row.v1, row.v2} - {None}:
            _check(_asked(row, cast("str", symbol), data))


def _asked(row: Row, symbol: str, data: bytes) -> CallOutcome:
    v2 = symbol.startswith("dcmiv2_")
    caller = cast("Caller", _Filled(data))
    return outcome_of(Question(row, symbol, CHIP, caller, v2=v2, windows_ms=WINDOWS_MS, chips=(CHIP,)))


def _check(outcome: CallOutcome) -> None:
    for reading in outcome.readings:
        assert math.isfinite(reading.value), (outcome.call, reading)
    if outcome.kind == "ok":
        for sample in MAP.samples(DEVICE, (outcome,)):
            _check_sample(sample)


def _check_sample(sample: Sample) -> None:
    assert math.isfinite(sample.value), sample
    assert all(text.isprintable() for text in sample.labels), sample


def tool(data: bytes) -> None:
    """What hccn_tool wrote, whatever it was asked."""
    text = data.decode("utf-8", "replace")
    for topic in hccn.TOPICS:
        for reading in topic.parse(text):
            assert math.isfinite(reading.value), (topic.name, reading)


def event_frames(data: bytes) -> None:
    """A stream from the process that listens for fault events."""
    frames_in = event_reader()
    try:
        for start in range(0, len(data), 7):
            list(frames_in.feed(data[start : start + 7]))
    except WorkerError:
        pass


def event_records(data: bytes) -> None:
    """A record as the library hands it to the callback: a fault that can be told, or a refusal."""
    try:
        event = read_event(data)
    except ValueError:
        return
    assert event.name.isprintable()
    assert len(event.code) == 8


def requests(data: bytes) -> None:
    """Bytes sent to the HTTP server: an answer in HTTP or none, and never one that says we made a mistake."""
    said = answer(data)
    assert not said or said.startswith(b"HTTP/"), said[:100]
    assert b" 500 " not in said.partition(b"\r\n")[0], said[:200]


def metrics_pages(data: bytes) -> None:
    """An inference server's page: series that make finite or unknown figures, or a refusal."""
    book = TargetBook("t", None, 60.0, Telling(min_requests=1, aliases=True))
    for at in (0.0, 5.0):
        book.take(data, at)
    for sample in book.samples():
        assert all(text.isprintable() for text in sample.labels), sample


def statsd_lines(data: bytes) -> None:
    """Lines of a datagram: each taken, foreign or garbage, and what is taken can be booked."""
    parser, book = Parser(), Requests("statsd", 60.0, Telling(min_requests=1, aliases=True), lambda: 1.0)
    for line in data.decode("utf-8", "replace").split("\n"):
        told = parser.parse(line)
        if isinstance(told, Timed):
            for duration_s in told.durations_s:
                book.request(told.model, "statsd", told.status, duration_s, weight=told.weight)
    for sample in book.samples():
        _check_sample(sample)


def texts(data: bytes) -> None:
    """A name out of a structure."""
    text = sanitised(data)
    assert text.isprintable()
    assert len(text) <= LONGEST


def configuration(data: bytes) -> None:
    """A configuration file: settings, or its mistakes."""
    try:
        parse(data.decode("utf-8", "replace"), "fuzz.yaml")
    except ConfigError as error:
        assert error.mistakes  # noqa: PT017 - an error without a word would help nobody


def headers(data: bytes) -> None:
    """Accept and Accept-Encoding."""
    text = data.decode("latin-1")
    assert content_type(text).startswith(("text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"))
    wants_gzip(text)


_ROUND = DeviceRound(
    PhyId(3), "slow", 12.5, (CallOutcome("dcmi_x[1]", "ok", 0, 0.25, (Reading("field", 739.0, ("1",)),)),), ("dcmi_y",)
)
SEEDS: Mapping[str, tuple[bytes, ...]] = {
    "frames": (
        encode(RoundDone(_ROUND)) * 2,
        encode(OpenFailed("no library", -8005, ("a: not there",))),
        encode(Alive((Busy(PhyId(1), "fast", "dcmi_x", 6.0),))),
    ),
    "structures": (bytes(64), b"\xff" * 64, bytes(range(256))),
    "tool": (
        b"link status: UP\n",
        b"Speed: 100000 Mb/s\n",
        b"Bandwidth TX: 1.52 MB/sec\nBandwidth RX: 0.00 MB/sec\n",
        b"mac_tx_mac_pause_num:0\nroce_rx_all_pkt_num:1000\n",
        b"present : present\nVcc : 3290.30 mV\ntemperature : 41 C\nTx_Power0 : 1.1 mW\n",
        b"[devid 0]link up count       : 3\n",
    ),
    "event_frames": (
        event_frame(FaultRaised(1.5, "80E01801", LogicId(3), "major", "raised", 5, 6, "fault", 1.7e9)) * 2,
        event_frame(Subscribed("/usr/lib64/libdcmi.so", "v2")) + event_frame(Missed(3, 4)),
        event_frame(SubscribeFailed(-8020, "occupied")),
    ),
    "event_records": (struct.pack("<i4xIH6B2i4xQ256s64x", 0, 0x80E01801, 5, 0, 0, 0, 0, 2, 1, 9, 10, 0, b"name"),),
    "requests": (
        b"GET /api/v1/alerts?state=firing HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /api/v1/history?metric=npu_power_watts&device_id=0&start=1&end=2&step=1s HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/plain;q=0.5\r\nAccept-Encoding: gzip\r\n\r\n",
        b"HEAD /-/ready HTTP/1.0\r\n\r\nGET /api/v1/devices HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /-/reload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ),
    "metrics_pages": (
        (
            b'vllm:e2e_request_latency_seconds_bucket{model_name="m",le="0.1"} 5\n'
            b'vllm:e2e_request_latency_seconds_bucket{model_name="m",le="+Inf"} 6\n'
            b'vllm:request_success_total{model_name="m",finished_reason="stop"} 6\nvllm:num_requests_running 1\n'
        ),
        (
            b'nv_inference_request_success{model="m"} 4\nnv_inference_request_summary_us_count{model="m"} 4\n'
            b'nv_inference_request_summary_us{model="m",quantile="0.99"} 3e5\n'
        ),
    ),
    "statsd_lines": (
        b"inference.request.duration:12.5|ms|@0.5|#model:m,status:error\ninference.request:3|c|#model:m",
        b"inference.request.ttft:1:2:3|h|c:abc|T1700000000\n_e{1,1}:a|b\n_sc|a|0\nusers:me|s",
    ),
    "texts": (b"910B3\0\0\0", "\u6606\u4ed1".encode(), b"\xff\xfe\x00"),
    "configuration": (
        b"sampling: {fast: 500ms, normal: 5s}\nserver: {listen: ['0.0.0.0:9090']}\n",
        b"rules: {overrides: {NpuHot: {threshold: 90}}, extra: [{name: A, metric: npu_power_watts, op: '>'}]}\n",
        b"a: &x [1]\nb: *x\n<<: {c: 1}\n",
    ),
    "headers": (
        b"application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        b"gzip;q=0, identity",
    ),
}
TARGETS: Mapping[str, Target] = {
    "frames": frames,
    "structures": structures,
    "tool": tool,
    "event_frames": event_frames,
    "event_records": event_records,
    "requests": requests,
    "metrics_pages": metrics_pages,
    "statsd_lines": statsd_lines,
    "texts": texts,
    "configuration": configuration,
    "headers": headers,
}


def inputs(name: str, count: int, seed: int) -> list[bytes]:
    """So many inputs for a target: noise, and valid ones with bytes changed, cut and doubled. Equal for equal seeds."""
    chance = random.Random(seed)
    return [
        chance.randbytes(chance.randrange(200)) if chance.random() < 0.3 else _mutated(chance, SEEDS[name])
        for _ in range(count)
    ]


def _mutated(chance: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[place : place + 1] = chance.randbytes(1)
            case 1:
                del data[place : place + chance.randrange(8)]
            case 2:
                data[place:place] = chance.randbytes(chance.randrange(8))
            case _:
                data[place:place] = data[max(0, place - 12) : place] * chance.randrange(1, 4)
    return bytes(data)
