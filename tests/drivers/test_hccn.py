"""hccn_tool: what its answers mean, and what becomes of us when it hangs, floods or is not there."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from npumond.drivers.hccn import (
    BY_NAME,
    HccnTool,
    Parse,
    parse_bandwidth,
    parse_link,
    parse_link_stat,
    parse_optical,
    parse_speed,
    parse_statistics,
)
from npumond.model import CallOutcome, PhyId

Tool = Callable[..., CallOutcome]

OPTICAL = """optical info:
present              : present
temperature          : 44 C
Vcc                  : 3290.30 mV
Tx Power0            : 1.1234 mW
Tx Power1            :1.5 mW
Rx Power0            : NA
Rx Power3            : 0.6 mW
Vcc High Thres       : 3465.00 mV
TxPower High Thres   : 3.5481 mW
Temp High Thres      : 70 C
Rx Los Flag          : 0xff
vendor               : not supported
"""


def read(parse: Parse, text: str) -> list[tuple[object, ...]]:
    """Field, value and key parts of each reading."""
    return [(reading.field, reading.value, *reading.key) for reading in parse(text)]


@pytest.mark.parametrize(
    ("parse", "text", "readings"),
    [
        (parse_link, "link status: UP\n", [("up", 1.0)]),
        (parse_link, "link status:DOWN", [("up", 0.0)]),
        (parse_link, "link status: NA", []),
        (parse_speed, "Speed: 200000 Mb/s\n", [("speed", 200000.0)]),
        (parse_speed, "Speed: Unknown!", []),
        (
            parse_link_stat,
            "[device 0]link up count       : 2\n[device 0]link down count : 7\n",
            [("link_up_count", 2.0)],
        ),
        (parse_link_stat, "[devid 3]link up count : NA", []),
        (
            parse_bandwidth,
            "Bandwidth TX: 1.52 MB/sec\nBandwidth RX : 2.52 MB/sec\n",
            [("tx_bandwidth", 1.52), ("rx_bandwidth", 2.52)],
        ),
        (parse_bandwidth, "Bandwidth TX: not supported\nBandwidth RX: 0.00 MB/sec", [("rx_bandwidth", 0.0)]),
        (
            parse_statistics,
            "packet statistics:\nmac_tx_mac_pause_num:0\nroce_rx_all_pkt_num : 18446744073709551\nx:NA\ny:-1\nz:1 kB\n",
            [("mac_tx_mac_pause_num", 0.0), ("roce_rx_all_pkt_num", 18446744073709551.0)],
        ),
        (parse_optical, "present : not present", [("present", 0.0)]),
        (
            parse_optical,
            "Tx Power : 4.4035 mW\nRx Power : 1.0189 mW",
            [("Tx_Power", 4.4035, "0"), ("Rx_Power", 1.0189, "0")],
        ),
        (
            parse_optical,
            OPTICAL,
            [
                ("present", 1.0),
                ("temperature", 44.0),
                ("Vcc", 3290.3),
                ("Tx_Power", 1.1234, "0"),
                ("Tx_Power", 1.5, "1"),
                ("Rx_Power", 0.6, "3"),
            ],
        ),
    ],
)
def test_what_the_tool_prints_is_read_and_nothing_else_is(
    parse: Parse, text: str, readings: list[tuple[object, ...]]
) -> None:
    """Blanks do not matter; NA, flags, thresholds and unknown keys give nothing, and never 0."""
    assert read(parse, text) == readings


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    """Ask a tool that is this shell script."""

    def ask(script: str, topic: str = "hccn_tool -link", deadline_s: float = 5.0, mode: int = 0o755) -> CallOutcome:
        path = tmp_path / "hccn_tool"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(mode)
        return HccnTool(str(path), os.environ, deadline_s).ask(PhyId(7), BY_NAME[topic])

    return ask


def test_the_tool_is_given_the_physical_id_and_the_topic(tool: Tool, tmp_path: Path) -> None:
    """``-i <phy id> -link_stat -g``, and nothing on its stdin to wait for."""
    tool(f'echo "$@" > {tmp_path}/arguments; cat', topic="hccn_tool -link_stat")

    assert (tmp_path / "arguments").read_text() == "-i 7 -link_stat -g\n"


def test_an_answer_gives_readings_and_how_long_it_took(tool: Tool) -> None:
    """The plain case."""
    outcome = tool("echo 'link status: UP'")

    assert (outcome.call, outcome.kind, outcome.code, len(outcome.readings)) == ("hccn_tool -link", "ok", 0, 1)
    assert outcome.duration_s > 0


def test_the_driver_library_path_reaches_the_tool(tmp_path: Path) -> None:
    """Without it the tool does not find the driver."""
    path = tmp_path / "hccn_tool"
    path.write_text('#!/bin/sh\necho "seen:$LD_LIBRARY_PATH"\n')
    path.chmod(0o755)
    asked = HccnTool(str(path), {"LD_LIBRARY_PATH": "/driver/lib64", "PATH": os.environ["PATH"]})

    assert asked.ask(PhyId(0), BY_NAME["hccn_tool -stat"]).detail == "nothing known in: seen:/driver/lib64"


def test_a_missing_tool_is_unsupported_and_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """Containers seldom have it."""
    outcome = HccnTool(str(tmp_path / "gone"), {}).ask(PhyId(0), BY_NAME["hccn_tool -link"])

    assert (outcome.kind, outcome.detail) == ("unsupported", f"{tmp_path}/gone is not there")


@pytest.mark.parametrize(
    ("script", "kind", "detail"),
    [
        ("echo 'Cmd execute failed! Input device id is invalid.'; exit 1", "error", "exit 1: Cmd execute failed!"),
        ("echo 'This device does not support the command.'; exit 1", "unsupported", "exit 1: This device"),
        ("echo 'not supported'", "unsupported", "not supported"),
        ("kill -9 $$", "error", "exit -9: "),
        ("true", "ok", "nothing known in: "),
    ],
)
def test_a_refusal_is_told_from_an_answer(tool: Tool, script: str, kind: str, detail: str) -> None:
    """By exit status and words."""
    outcome = tool(script)

    assert (outcome.kind, outcome.readings) == (kind, ())
    assert outcome.detail.startswith(detail)


def test_a_tool_that_may_not_be_run_is_an_outcome_too(tool: Tool) -> None:
    """Root can run what nobody may; then the kernel still refuses a file without any x bit."""
    assert tool("echo 'link status: UP'", mode=0o644).kind == "denied"


@pytest.mark.slow
def test_a_hung_tool_and_its_children_are_killed_at_the_deadline(tool: Tool, tmp_path: Path) -> None:
    """Also a grandchild that keeps the pipe open after the tool is gone."""
    began = time.monotonic()

    outcome = tool(f"sleep 300 & echo $! > {tmp_path}/child; exit 0", deadline_s=0.3)

    assert (outcome.kind, outcome.detail) == ("timeout", "no answer in time")
    assert time.monotonic() - began < 5
    assert ends(int((tmp_path / "child").read_text()))


@pytest.mark.slow
def test_a_tool_that_never_ends_costs_a_deadline(tool: Tool) -> None:
    """Silent, with its pipe open."""
    assert tool("sleep 300", deadline_s=0.3).kind == "timeout"


@pytest.mark.slow
def test_a_flood_is_cut_off(tool: Tool) -> None:
    """1 MiB is a thousand times what it has to say."""
    outcome = tool("while :; do echo 0123456789012345678901234567890123456789; done")

    assert (outcome.kind, outcome.detail) == ("error", "printed more than 1048576 bytes")


def ends(pid: int) -> bool:
    """Whether the process ends within a few seconds, or has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 5.0)[0])
    finally:
        os.close(handle)
