"""What we read agrees with what the driver's own exporter said of the same driver state.

The two readers share nothing but the vendor's bytes, so where they agree neither has mistaken a structure or a scale.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from npumond.model import CallOutcome
from tests.drivers.asked import Asked
from tests.standin.build import build
from tests.standin.profiles import from_exporter_sample

SAMPLES = Path(os.environ.get("NPUMOND_SHARED", Path(__file__).parents[3] / "shared")) / "samples/npu-exporter"
PREFIX = "npu_chip_info_"

_MULTI = "dcmi_get_device_multi_utilization_rate"
_UTIL = "dcmi_get_device_utilization_rate"
_HBM = "dcmi_get_device_hbm_info"
_ECC = "dcmi_get_device_ecc_info[2]"
_HCCS = "dcmi_get_hccs_link_bandwidth_info"
_FLITS = "dcmi_get_device_info[16,5]"

SAME: dict[str, tuple[tuple[str, tuple[str, ...], float], ...]] = {
    "temperature": (("dcmi_get_device_temperature", ("temperature",), 1),),
    "power": (("dcmi_get_device_power_info", ("power",), 0.1), ("dcmi_mcu_get_power_info", ("power",), 0.1)),
    "voltage": (("dcmi_get_device_voltage", ("voltage",), 0.01),),
    "aicore_current_freq": (("dcmi_get_device_frequency[7]", ("frequency",), 1),),
    "utilization": ((_MULTI, ("aicore_util",), 1), (f"{_UTIL}[2]", ("rate",), 1)),
    "overall_utilization": ((_MULTI, ("npu_util",), 1), (f"{_UTIL}[13]", ("rate",), 1)),
    "vector_utilization": ((_MULTI, ("aiv_util",), 1), (f"{_UTIL}[12]", ("rate",), 1)),
    "cube_utilization": ((_MULTI, ("aic_util",), 1),),
    "hbm_total_memory": ((_HBM, ("memory_size",), 1),),
    "hbm_used_memory": ((_HBM, ("memory_usage",), 1),),
    "hbm_temperature": ((_HBM, ("temp",), 1),),
    "hbm_bandwidth_utilization": ((_HBM, ("bandwith_util_rate",), 1),),
    "hbm_ecc_enable_flag": ((_ECC, ("enable_flag",), 1),),
    "hbm_ecc_single_bit_error_cnt": ((_ECC, ("single_bit_error_cnt",), 1),),
    "hbm_ecc_double_bit_error_cnt": ((_ECC, ("double_bit_error_cnt",), 1),),
    "hbm_ecc_total_single_bit_error_cnt": ((_ECC, ("total_single_bit_error_cnt",), 1),),
    "hbm_ecc_total_double_bit_error_cnt": ((_ECC, ("total_double_bit_error_cnt",), 1),),
    "total_memory": (("dcmi_get_device_memory_info_v3", ("memory_size",), 1),),
    "used_memory": (("dcmi_get_device_memory_info_v3", ("memory_used",), 1),),
    "process_info_num": (("dcmi_get_device_resource_info", ("proc_num",), 1),),
    "network_status": (("dcmi_get_device_network_health", ("healthy",), 1),),
    "link_status": (("hccn_tool -link", ("up",), 1),),
    "bandwidth_tx": (("hccn_tool -bandwidth", ("tx_bandwidth",), 1),),
    "bandwidth_rx": (("hccn_tool -bandwidth", ("rx_bandwidth",), 1),),
    "rx_fcs_num": (("hccn_tool -stat", ("mac_rx_fcs_err_pkt_num",), 1),),
    **{
        f"hccs_bandwidth_info_{way}_{link}": ((_HCCS, (f"{way}_bandwidth", str(link)), 1),)
        for way in ("tx", "rx")
        for link in range(1, 8)
    },
    **{
        f"hccs_statistic_info_{field}_{link}": ((_FLITS, (field, str(link)), 1),)
        for field in ("tx_cnt", "rx_cnt", "crc_err_cnt")
        for link in range(1, 8)
    },
}
"""Exporter family (without its prefix) to our call, reading and factor; the first call that gives a value counts."""


def page(path: Path) -> Iterator[tuple[str, int, float]]:
    """Family, chip and value of every series about a chip, but those with labels beyond the usual."""
    line = re.compile(rf'{PREFIX}(\w+)\{{[^}}]*\bid="(\d+)"[^}}]*\}} (\S+)$', re.MULTILINE)
    for family, chip, value in line.findall(path.read_text()):
        yield family, int(chip), float(value)


def ours(round_: dict[str, CallOutcome], family: str) -> float | None:
    """Our value for the exporter's family."""
    for call, wanted, factor in SAME[family]:
        for reading in round_[call].readings if call in round_ else ():
            if (reading.field, *reading.key) == wanted:
                return reading.value * factor
    return None


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"{SAMPLES} is not there")
@pytest.mark.parametrize("name", ["910b", "310p", "910"])
def test_we_read_what_the_official_exporter_reads(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Every series of the table above on the official page, chip by chip, to the noise of its 32-bit floats."""
    standin = build(tmp_path_factory.getbasetemp().parent / "standin")
    with Asked(standin, from_exporter_sample(SAMPLES / f"{name}.json"), tmp_path) as asked:
        rounds = asked.everything()

    theirs = [series for series in page(SAMPLES / f"{name}.prom") if series[0] in SAME]
    assert len(theirs) > 30
    for family, chip, value in theirs:
        assert ours(rounds[chip], family) == pytest.approx(value, rel=1e-6), (family, chip)
