"""A scenario made from an exporter sample is the driver state that the sample's page was read from."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.standin.build import StandIn
from tests.standin.client import INT, Probe, Start, buf, info
from tests.standin.profiles import from_exporter_sample

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT.parent / "shared" / "samples" / "npu-exporter"


@pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not here")
@pytest.mark.parametrize("name", ["910b", "910", "310p"])
def test_sample_states(start: Start, name: str) -> None:
    """A few values of the sample, through the library; what its page has no series of is not supported."""
    probe = start(from_exporter_sample(SAMPLES / f"{name}.json"))
    assert probe.number("dcmi_get_device_temperature", 2, 0) == 47
    assert probe.number("dcmi_get_device_utilization_rate", 2, 0, 2) == 62
    assert probe.call("dcmi_get_card_elabel_v2", 2, buf(1280)).out[0][1024:].rstrip(b"\0") == b"SN00000002"
    die = probe.call("dcmi_get_device_die_v2", 2, 0, 1, buf(20)).unpack("5I")
    assert "-".join(f"{word:08X}" for word in die) == "185011D4-21104518-A0C4ED94-14CC040A-56102002"
    codes = probe.call("dcmi_get_device_errorcode_v2", 3, 0, INT, buf(512), 128)
    assert (codes.number(), codes.unpack("I", 1)) == (1, (2166623240,))
    multi = probe.call("dcmi_get_device_multi_utilization_rate", 2, 0, buf(48))
    hbm = probe.call("dcmi_get_device_hbm_info", 2, 0, buf(32))
    assert multi.rc == (0 if name == "910b" else -8255)
    assert hbm.rc == (-8255 if name == "310p" else 0)
    if name == "910b":
        hccs = probe.call("dcmi_get_hccs_link_bandwidth_info", 2, 0, buf(280, struct.pack("i", 1)))
        assert hccs.unpack("i4x2d") == (1, 45.5, 47.25)
        assert probe.number("dcmi_get_device_network_health", 5, 0) == 1
    if name == "310p":
        assert probe.number("dcmi_mcu_get_power_info", 2) == 1100
        assert probe.call("dcmi_get_device_power_info", 2, 0, INT).rc == -8255


def page(path: Path) -> dict[tuple[str, int, str], float]:
    """The samples of an exporter page by metric name, chip and PCIe kind."""
    line = re.compile(r'npu_chip_(?:info_)?(\w+)\{.*?\bid="(\d+)".*?(?:pcie_bw_type="(\w+)".*?)?\} (\S+)')
    found = (line.match(text) for text in path.read_text().splitlines())
    return {(match[1], int(match[2]), match[3] or ""): float(match[4]) for match in found if match}


def driver_says(probe: Probe, card: int) -> dict[tuple[str, str], float]:
    """What the official exporter would make of the calls for one chip, for those that answer."""
    said: dict[tuple[str, str], float] = {}

    def ask(
        call: str, layout: str, names: str, *arguments: Any, size: int, initial: bytes = b"", scale: float = 1
    ) -> None:
        reply = probe.call(f"dcmi_get_{call}", card, 0, *arguments, buf(size, initial))
        if reply.rc == 0:
            said.update(
                {(name, ""): value * scale for name, value in zip(names.split(), reply.unpack(layout), strict=True)}
            )

    ask("device_temperature", "i", "temperature", size=4)
    ask("device_power_info", "i", "power", size=4, scale=0.1)
    ask("device_voltage", "I", "voltage", size=4, scale=0.01)
    ask("device_frequency", "I", "aicore_current_freq", 7, size=4)
    for kind, name in ((2, "utilization"), (12, "vector_utilization"), (6, "hbm_utilization")):
        ask("device_utilization_rate", "I", name, kind, size=4)
    ask("device_multi_utilization_rate", "4I", "cube_utilization - - overall_utilization", size=48)
    hbm = "hbm_total_memory - hbm_used_memory hbm_temperature hbm_bandwidth_utilization"
    ask("device_hbm_info", "QI4xQiI", hbm, size=32)
    ecc = "enable_flag single_bit_error_cnt double_bit_error_cnt total_single_bit_error_cnt total_double_bit_error_cnt"
    ask("device_ecc_info", "5I", " ".join(f"hbm_ecc_{name}" for name in ecc.split()), 2, size=64)
    links = [f"hccs_bandwidth_info_{way}_{i}" for way in ("tx", "rx") for i in range(16)]
    totals = "- hccs_bandwidth_info_total_tx hccs_bandwidth_info_total_rx "
    window = struct.pack("i", 1)
    ask("hccs_link_bandwidth_info", "i4x2d32d", totals + " ".join(links), size=280, initial=window)
    rc, flits = info(probe, 16, 5, 1024, card, 0)
    if rc == 0:
        names = [f"hccs_statistic_info_{what}_cnt_{i}" for what in ("tx", "rx", "crc_err") for i in range(16)]
        said.update({(name, ""): value for name, value in zip(names, struct.unpack_from("=48Q", flits), strict=True)})
    pcie = probe.call("dcmi_get_pcie_link_bandwidth_info", card, 0, buf(88, window))
    if pcie.rc == 0:
        keys = ("tx_p", "tx_np", "tx_cpl", "latency", "rx_p", "rx_np", "rx_cpl")
        columns = [(f"pcie_{key}_bw", f"{kind}PcieBw") for key in keys for kind in ("min", "max", "avg")]
        said.update(zip(columns, pcie.unpack("i21I")[1:], strict=True))
    return said


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not here")
@pytest.mark.parametrize(("name", "compared"), [("910b", 8 * 73), ("910", 8 * 15), ("310p", 4 * 5)])
def test_what_the_driver_says_in_a_sample_state_is_what_the_exporter_showed(
    start: Start, name: str, compared: int
) -> None:
    """Every figure of the page that comes from these calls, for every chip."""
    probe = start(from_exporter_sample(SAMPLES / f"{name}.json"))
    shown = page(SAMPLES / f"{name}.prom")
    checked = 0
    for card in range(4 if name == "310p" else 8):
        for (metric, kind), value in driver_says(probe, card).items():
            if (metric, card, kind) in shown:
                assert shown[metric, card, kind] == pytest.approx(value, rel=1e-6), (metric, card, kind)
                checked += 1
    assert checked == compared


TOOL_NAMES = {
    "mac_rx_pause_num": "mac_rx_mac_pause_num",
    "mac_tx_pause_num": "mac_tx_mac_pause_num",
    "rx_fcs_num": "mac_rx_fcs_err_pkt_num",
    "rx_ecn_num": "roce_ecn_db_num",
}
"""Exporter names that are not the tool's own key."""


@pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not here")
def test_what_the_tool_says_in_a_sample_state_is_what_the_exporter_showed(
    tmp_path: Path, built: Callable[..., StandIn]
) -> None:
    """RoCE statistics and optical values of one chip, each figure of the page."""
    from_exporter_sample(SAMPLES / "910b.json").write(tmp_path / "scenario")
    shown = {name: value for (name, chip, _), value in page(SAMPLES / "910b.prom").items() if chip == 6}
    env = {"NPUMOND_STANDIN_SCENARIO": str(tmp_path / "scenario")}

    def run(command: str) -> dict[str, str]:
        arguments = [str(built().hccn_tool), "-i", "6", f"-{command}", "-g"]
        lines = subprocess.run(arguments, capture_output=True, text=True, check=True, env=env).stdout.splitlines()
        pairs = (line.partition(":") for line in lines)
        return {key.strip().replace(" ", "_").lower(): value.strip() for key, _, value in pairs}

    statistics = run("stat")
    roce = [name for name in shown if name.startswith(("mac_", "roce_"))] + ["rx_fcs_num", "rx_ecn_num"]
    assert len(roce) == 21
    for name in roce:
        assert float(statistics[TOOL_NAMES.get(name, name)]) == shown[name], name
    optical = run("optical")
    assert float(optical["temperature"].split()[0]) == shown["optical_temp"]
    assert float(optical["vcc"].split()[0]) == pytest.approx(shown["optical_vcc"])
    for lane in range(4):
        for way in ("tx", "rx"):
            value = float(optical[f"{way}_power{lane}"].split()[0])
            assert value == pytest.approx(shown[f"optical_{way}_power_{lane}"], rel=1e-6)
