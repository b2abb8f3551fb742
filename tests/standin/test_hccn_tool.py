"""The stand-in of hccn_tool prints what its readers look for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.standin.build import StandIn
from tests.standin.profiles import permute_ids, profile


def tool(standin: StandIn, scenario: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run hccn_tool in a scenario."""
    env = {"NPUMOND_STANDIN_SCENARIO": str(scenario)}
    return subprocess.run([standin.hccn_tool, *arguments], capture_output=True, text=True, check=False, env=env)


def test_hccn_tool_output_parses_as_the_reference_says(built: Callable[..., StandIn], tmp_path: Path) -> None:
    """Words and columns are where the official exporter looks for them; -i is the physical id."""
    scenario = permute_ids(profile("910b"))
    scenario.write(tmp_path / "scenario")

    def run(command: str) -> str:
        done = tool(built(), tmp_path / "scenario", "-i", "5", f"-{command}", "-g")
        assert done.returncode == 0
        return done.stdout

    assert run("link").split(" ") == ["link", "status:", "UP\n"]
    assert run("speed").split() == ["Speed:", "200000", "Mb/s"]
    counted = [line.split() for line in run("link_stat").splitlines() if "link up count" in line]
    assert [(len(words), words[5]) for words in counted] == [(6, "5")]
    assert [line.split()[:3] for line in run("bandwidth").splitlines()] == [
        ["Bandwidth", "TX:", "3.25"],
        ["Bandwidth", "RX:", "4.75"],
    ]
    statistics = dict(line.split(":") for line in run("stat").splitlines()[1:])
    assert int(statistics["roce_ecn_db_num"]) == 220
    optical = {key.strip().replace(" ", "_"): value.strip() for key, _, value in
               (line.partition(":") for line in run("optical").splitlines())}  # fmt: skip
    assert optical["present"] == "present"
    assert optical["temperature"] == "42 C"
    assert optical["Tx_Power3"].split() == ["1.3200", "mW"]


def test_hccn_tool_refuses_and_is_subject_to_rules(built: Callable[..., StandIn], tmp_path: Path) -> None:
    """Unknown device, unsupported product, link down, unknown speed and a forced failure."""
    scenario = profile("910b").rc("hccn_tool", 3, logic=1, subtype="stat")
    hccn = scenario.chip(2).hccn
    assert hccn is not None
    hccn.link = "DOWN"
    hccn.speed_mbps = None
    scenario.write(tmp_path / "scenario")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return tool(built(), tmp_path / "scenario", *arguments)

    assert run("-i", "8", "-link", "-g").returncode != 0
    assert run("-i", "1", "-stat", "-g").returncode != 0
    assert run("-i", "1", "-link", "-g").returncode == 0
    assert run("-i", "2", "-link", "-g").stdout == "link status: DOWN\n"
    assert run("-i", "2", "-speed", "-g").stdout == "Speed: Unknown!\n"
    profile("310p_duo").write(tmp_path / "scenario")
    assert run("-i", "1", "-link", "-g").returncode != 0


def test_hccn_tool_of_a_950(built: Callable[..., StandIn], tmp_path: Path) -> None:
    """Ports are asked by die and number; speed and optical power come as tables."""
    profile("950").write(tmp_path / "scenario")

    def run(command: str, *more: str) -> str:
        done = tool(built(), tmp_path / "scenario", "-g", f"-{command}", "-i", "2", "-u", "1", "-p", "4", *more)
        assert done.returncode == 0
        return done.stdout

    assert run("link") == "link status: UP\n"
    assert run("bandwidth", "-time", "10").splitlines()[0].split() == ["Bandwidth", "TX:", "314.00", "MB/sec"]
    rows = [line for line in run("speed").splitlines() if "|" in line and "+" not in line]
    assert rows[1].split("|")[4].split() == ["400", "G"]
    assert "rx_busi_flit_num:" in run("stat")
    assert "TxPower0 | 1.500" in run("optical")
