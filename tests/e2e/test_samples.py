"""In the driver state of each of the official exporter's sample pages our page says what the official one says.

The two programs share nothing but the vendor's bytes. Each official family is in `SAME`, with what it is by our page in
its own unit, or in `LEFT_OUT`, with the reason; a family that is in neither fails.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.daemon import Values, series
from tests.e2e.hosts import Observed, observe
from tests.standin.build import StandIn
from tests.standin.profiles import from_exporter_sample

pytestmark = pytest.mark.slow

SHARED = Path(os.environ.get("NPUMOND_SHARED") or Path(__file__).parents[3] / "shared")
SAMPLES = SHARED / "samples" / "npu-exporter"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.json"))
CHIP = "npu_chip_info_"
AGREEMENT = 1e-6
"""Relative: official figures have passed through 32-bit floats."""


class Ours:
    """Our page, asked about one chip."""

    def __init__(self, values: Values, device_id: str) -> None:
        self._values = values
        self.device_id = device_id

    def get(self, family: str, **labels: str | int) -> float | None:
        """The value of the chip's series."""
        return self._values.get(series(family, device_id=self.device_id, **labels))

    def of_card(self, family: str) -> float | None:
        """The value of the series of the chip's card."""
        return self._values.get(series(family, card_id=self.card_id))

    def total(self, family: str, **labels: str) -> float:
        """The sum over the chip's series with these labels, whatever others they have."""
        wanted = {("device_id", self.device_id), *labels.items()}
        return sum(value for (name, has), value in self._values.items() if name == family and wanted <= has)

    def info(self, family: str, **labels: str) -> dict[str, str]:
        """The labels of the one ``_info`` series with these labels; by default the chip's own."""
        wanted = set((labels or {"device_id": self.device_id}).items())
        (found,) = (dict(has) for name, has in self._values if name == family and wanted <= has)
        return found

    @property
    def card_id(self) -> str:
        """The chip's card."""
        return self.info("npu_device_info")["card_id"]


Official = Mapping[str, str]
Said = Callable[[Ours, Official], float | None]
"""What our page says for a series of the official page with these labels, in the official unit."""


def reading(family: str, unit: float = 1, **labels: str | int) -> Said:
    """Our value in the official unit: ``unit`` is the size of theirs in our base unit."""

    def said(ours: Ours, _: Official) -> float | None:
        value = ours.get(family, **labels)
        return None if value is None else value / unit

    return said


def power(ours: Ours, _: Official) -> float | None:
    """The chip's; on a 310P, whose chips have none, the official one repeats the board's, which we have by card."""
    watts = ours.get("npu_power_watts")
    return ours.of_card("npu_board_power_watts") if watts is None else watts


def health(ours: Ours, _: Official) -> float | None:
    """Official: 1 well, 0 anything else; ours has the driver's four levels."""
    level = ours.get("npu_health_status")
    return None if level is None else float(level == 0)


def hbm_usage(ours: Ours, _: Official) -> float | None:
    """Official: the driver's whole percent, rounded down; ours is the exact share."""
    ratio = ours.get("npu_hbm_utilization_ratio")
    return None if ratio is None else math.floor(100 * ratio + 1e-9)


def fault(ours: Ours, _: Official) -> float | None:
    """Official: the first code as a number; ours has a series for each code."""
    return float(int(ours.info("npu_fault_active")["code"], 16))


def pcie(way: str, transaction: str) -> Said:
    """Official: the statistic in a label of its own spelling, in MB/ms."""

    def said(ours: Ours, official: Official) -> float | None:
        statistic = official["pcie_bw_type"].removesuffix("PcieBw")
        value = ours.get(
            "npu_pcie_bandwidth_bytes_per_second", direction=way, transaction=transaction, statistic=statistic
        )
        return None if value is None else value / 1e9

    return said


def hccs_total(way: str) -> Said:
    """Official: the driver's sum over the links, which we leave to the query."""
    return lambda ours, _: ours.total("npu_hccs_bandwidth_bytes_per_second", direction=way) / 2**30


def named(ours: Ours, official: Official) -> float:
    """Name, die and PCI address are labels on both pages."""
    info = ours.info("npu_device_info")
    same = (
        official["name"].partition("-")[0] == info["chip"]
        and official["vdie_id"] == info["uuid"]
        and official["pcie_bus_info"] == info["pci_address"]
    )
    return float(same)


def serial_number(ours: Ours, official: Official) -> float:
    """By chip there, by card here."""
    return float(ours.info("npu_card_info", card_id=ours.card_id)["serial_number"] == official["serial_number"])


def product_type(ours: Ours, official: Official) -> float:
    """A label on both pages."""
    return float(ours.info("npu_device_info")["product"] == official["product_type"])


MIB = float(1 << 20)
MEGA = 1e6

SAME: dict[str, Said] = {
    f"{CHIP}name": named,
    f"{CHIP}serial_number": serial_number,
    f"{CHIP}product_type": product_type,
    f"{CHIP}temperature": reading("npu_temperature_celsius"),
    f"{CHIP}power": power,
    f"{CHIP}voltage": reading("npu_voltage_volts"),
    f"{CHIP}aicore_current_freq": reading("npu_aicore_frequency_hertz", MEGA),
    f"{CHIP}health_status": health,
    f"{CHIP}error_code": fault,
    f"{CHIP}network_status": reading("npu_network_healthy"),
    f"{CHIP}process_info_num": reading("npu_processes"),
    f"{CHIP}utilization": reading("npu_aicore_utilization_ratio", 0.01),
    f"{CHIP}overall_utilization": reading("npu_overall_utilization_ratio", 0.01),
    f"{CHIP}vector_utilization": reading("npu_vector_utilization_ratio", 0.01),
    f"{CHIP}cube_utilization": reading("npu_cube_utilization_ratio", 0.01),
    f"{CHIP}total_memory": reading("npu_ddr_total_bytes", MIB),
    f"{CHIP}used_memory": reading("npu_ddr_used_bytes", MIB),
    f"{CHIP}hbm_total_memory": reading("npu_hbm_total_bytes", MIB),
    f"{CHIP}hbm_used_memory": reading("npu_hbm_used_bytes", MIB),
    f"{CHIP}hbm_utilization": hbm_usage,
    f"{CHIP}hbm_temperature": reading("npu_hbm_temperature_celsius"),
    f"{CHIP}hbm_bandwidth_utilization": reading("npu_hbm_bandwidth_utilization_ratio", 0.01),
    f"{CHIP}hbm_ecc_enable_flag": reading("npu_ecc_enabled", memory="hbm"),
    **{
        f"{CHIP}hbm_ecc_{official.format(bits)}": reading(family, memory="hbm", kind=f"{bits}_bit")
        for bits in ("single", "double")
        for official, family in (
            ("{}_bit_error_cnt", "npu_ecc_errors_since_reset"),
            ("total_{}_bit_error_cnt", "npu_ecc_errors_total"),
            ("{}_bit_isolated_pages_cnt", "npu_ecc_isolated_pages"),
        )
    },
    **{
        f"{CHIP}hccs_bandwidth_info_{way}_{link}": reading(
            "npu_hccs_bandwidth_bytes_per_second", 2**30, direction=way, link=link
        )
        for way in ("tx", "rx")
        for link in range(8)
    },
    **{f"{CHIP}hccs_bandwidth_info_total_{way}": hccs_total(way) for way in ("tx", "rx")},
    **{
        f"{CHIP}hccs_statistic_info_{official}_cnt_{link}": reading(f"npu_hccs_{family}_total", link=link)
        for official, family in (("tx", "tx_flits"), ("rx", "rx_flits"), ("crc_err", "crc_errors"))
        for link in range(8)
    },
    **{f"{CHIP}sio_crc_{way}_err_cnt": reading("npu_sio_crc_errors_total", direction=way) for way in ("tx", "rx")},
    **{
        f"{CHIP}pcie_{way}_{short}_bw": pcie(way, transaction)
        for way in ("tx", "rx")
        for short, transaction in (("p", "posted"), ("np", "nonposted"), ("cpl", "completion"))
    },
    f"{CHIP}link_status": reading("npu_link_up", link="roce"),
    "npu_chip_link_speed": reading("npu_link_speed_bytes_per_second", MEGA / 8, link="roce"),
    "npu_chip_link_up_num": reading("npu_link_up_changes_total", link="roce"),
    **{
        f"{CHIP}bandwidth_{way}": reading("npu_roce_bandwidth_bytes_per_second", MEGA, direction=way)
        for way in ("tx", "rx")
    },
    **{
        f"npu_chip_{official.format(way)}": reading(family, direction=way)
        for way in ("tx", "rx")
        for official, family in (
            ("mac_{}_pause_num", "npu_network_pause_frames_total"),
            ("mac_{}_pfc_pkt_num", "npu_network_pfc_frames_total"),
            ("mac_{}_bad_pkt_num", "npu_network_bad_packets_total"),
            ("mac_{}_bad_oct_num", "npu_network_bad_bytes_total"),
            ("roce_{}_all_pkt_num", "npu_roce_packets_total"),
            ("roce_{}_err_pkt_num", "npu_roce_error_packets_total"),
            ("roce_{}_cnp_pkt_num", "npu_roce_cnp_packets_total"),
        )
    },
    f"{CHIP}rx_fcs_num": reading("npu_network_fcs_errors_total"),
    f"{CHIP}rx_ecn_num": reading("npu_roce_ecn_packets_total"),
    "npu_chip_roce_new_pkt_rty_num": reading("npu_roce_retries_total"),
    "npu_chip_roce_unexpected_ack_num": reading("npu_roce_unexpected_acks_total"),
    "npu_chip_roce_out_of_order_num": reading("npu_roce_out_of_order_total"),
    "npu_chip_roce_verification_err_num": reading("npu_roce_verification_errors_total"),
    "npu_chip_roce_qp_status_err_num": reading("npu_roce_qp_status_errors_total"),
    "npu_chip_optical_state": reading("npu_optical_present"),
    "npu_chip_optical_vcc": reading("npu_optical_voltage_volts", 1e-3),
    "npu_chip_optical_temp": reading("npu_optical_temperature_celsius"),
    **{
        f"npu_chip_optical_{way}_power_{lane}": reading("npu_optical_power_watts", 1e-3, direction=way, lane=lane)
        for way in ("tx", "rx")
        for lane in range(4)
    },
}
"""Official families about a chip."""

NODE: dict[str, Callable[[Values], float]] = {
    "machine_npu_nums": lambda values: values["npu_devices_seen", frozenset()],
    "machine_card_nums": lambda values: len(
        {dict(labels)["card_id"] for name, labels in values if name == "npu_device_info"}
    ),
    "machine_healthy_npu_nums": lambda values: sum(level == 0 for level in _levels(values)),
    "machine_unhealthy_npu_nums": lambda values: sum(level > 0 for level in _levels(values)),
    "machine_unknown_npu_nums": lambda values: values["npu_devices_seen", frozenset()] - len(_levels(values)),
}
"""Official families about the node."""

LEFT_OUT = {
    "npu_exporter_version_info": "the version of their program",
    "node_base_info": "has the versions as labels; a test of its own compares them",
    f"{CHIP}hccs_bandwidth_info_profiling_time": "the window that their program is set to, not a reading",
}
"""Official families that are not compared, and why."""


def _levels(values: Values) -> list[float]:
    return [value for (name, _), value in values.items() if name == "npu_health_status"]


def official_page(name: str) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and value of every series of a sample page."""
    families = text_string_to_metric_families((SAMPLES / f"{name}.prom").read_text())
    return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


@pytest.fixture(scope="module")
def sampled(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Observed]:
    """What a run in a sample's driver state showed."""
    return cache(
        lambda name: observe(tmp_path_factory.mktemp("sample"), standin, from_exporter_sample(SAMPLES / f"{name}.json"))
    )


samples = pytest.mark.parametrize(
    "name", NAMES or [pytest.param("none", marks=pytest.mark.skip(reason=f"no samples in {SAMPLES}"))]
)


@samples
def test_every_official_series_of_a_chip_has_the_same_value_on_our_page(
    sampled: Callable[[str], Observed], name: str
) -> None:
    """Chip by chip and family by family, to the noise of 32-bit floats."""
    values = sampled(name).page.values
    compared = set()
    for family, labels, value in official_page(name):
        if family in SAME:
            said = SAME[family](Ours(values, labels["id"]), labels)
            assert said == pytest.approx(value, rel=AGREEMENT), (family, labels)
            compared.add((family, labels["id"]))
    assert len(compared) >= 13 * len(sampled(name).scenario.chips)


@samples
def test_every_official_series_of_the_node_has_the_same_value_on_our_page(
    sampled: Callable[[str], Observed], name: str
) -> None:
    """Numbers of chips by their state, and the library's version."""
    values = sampled(name).page.values
    (driver,) = (dict(labels) for family, labels in values if family == "npu_driver_info")
    official = official_page(name)

    assert {family: NODE[family](values) for family, _, _ in official if family in NODE} == {
        family: value for family, _, value in official if family in NODE
    }
    assert {labels["driverVersion"] for family, labels, _ in official if family == "node_base_info"} == {
        driver["dcmi_version"]
    }


@samples
def test_every_official_family_is_accounted_for(name: str) -> None:
    """Compared, or left out for a reason that is written down; and none twice."""
    families = {family for family, _, _ in official_page(name)}

    assert families - SAME.keys() - NODE.keys() - LEFT_OUT.keys() == set()
    assert (SAME.keys() | NODE.keys()) & LEFT_OUT.keys() == set()
