"""What the page says of values that are odd, absent, impossible or gone: never a made-up number, and never silence.

One host with a different oddity on each chip, and one whose chips and calls come and go while the daemon runs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Daemon, Page, is_complete, series
from tests.e2e.hosts import Observed, host, observe
from tests.e2e.truth import truth
from tests.standin.build import StandIn
from tests.standin.profiles import with_lost_chip
from tests.standin.scenario import Code, Hbm, Scenario

pytestmark = pytest.mark.slow

FROZEN, DEAF, BEYOND, EMPTY, UNKNOWN, UNLISTED, PARTLY, IDLE = map(str, range(8))
"""Device ids of the odd chips, by what is odd about them."""

NOT_SUPPORTED, NOT_READY = -8255, -8012
CALLS = "npumond_driver_calls_total"
MULTI = "dcmi_get_device_multi_utilization_rate"


def odd_host() -> Scenario:
    """Eight 910B3. The driver does not turn utilisation above 100 into 0, as the real one would."""
    scenario = host("910b")
    scenario.raw_utilization = True
    frozen, deaf, beyond, empty, unknown, unlisted, partly, idle = scenario.chips
    frozen.temperature, frozen.power = -1, 739
    frozen.hbm = Hbm(65536, 30000, 1600, -1, 20)
    frozen.processes = [(os.getpid(), 1 << 30)]
    deaf.temperature = deaf.power = deaf.network_health = None  # each call answers -8255
    beyond.multi_utilization, beyond.utilization = None, beyond.utilization | {2: 130, 3: 101, 12: 100}
    empty.hbm = Hbm(0, 30000, 1600, 45, 20)
    unknown.health, unlisted.health = 4, 0xFFFFFFFF
    partly.multi_utilization = (60, 40, 130, 50)
    partly.error_codes = [0x80E18402, 0x81078603, 0x12345678]
    partly.throttle = 1 << 2 | 1 << 5
    idle.multi_utilization = (0, 0, 0, 0)
    idle.utilization |= {2: 0, 12: 0, 13: 0}
    return scenario


@pytest.fixture(scope="module")
def odd(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """A run on the odd host."""
    return observe(tmp_path_factory.mktemp("odd"), standin, odd_host())


def by_device(page: Page, family: str) -> dict[str, float]:
    """The family's values by device id, of families with no other label."""
    return {dict(labels)["device_id"]: value for labels, value in page.of(family).items()}


def rejections(page: Page, call: str) -> float:
    """How often the call's answer was rejected."""
    return page.values.get(series(CALLS, call=call, outcome="rejected"), 0.0)


def test_a_true_minus_one_degree_is_served(odd: Observed) -> None:
    """-1 °C is a temperature, of the chip and of its HBM; the official exporter drops it."""
    assert by_device(odd.page, "npu_temperature_celsius")[FROZEN] == -1.0
    assert by_device(odd.page, "npu_hbm_temperature_celsius")[FROZEN] == -1.0


def test_a_value_prints_with_the_digits_that_the_driver_gave(odd: Observed) -> None:
    """739 tenths of a watt are 73.9, not 73.90000000000001 or, by way of 32 bits, 73.9000015258789."""
    assert f'\nnpu_power_watts{{device_id="{FROZEN}"}} 73.9\n' in odd.page.body
    assert f'\nnpu_power_watts{{device_id="{FROZEN}"}} 73.9\n' in odd.openmetrics.body


def test_what_the_chip_does_not_support_is_absent_and_said_to_be_unsupported(odd: Observed) -> None:
    """-8255 is no value: not 0, not -1. The chip stays up, and its neighbours have their values."""
    for family in ("npu_temperature_celsius", "npu_power_watts", "npu_network_healthy"):
        shown = by_device(odd.page, family)
        assert DEAF not in shown
        assert len(shown) == 7
        supported = {dict(labels)["device_id"]: value for labels, value in _supported(odd.page, family).items()}
        assert supported == {str(chip.phy_id): float(str(chip.phy_id) != DEAF) for chip in odd.scenario.chips}
    assert by_device(odd.page, "npu_device_up")[DEAF] == 1.0


def _supported(page: Page, family: str) -> dict[frozenset[tuple[str, str]], float]:
    return {
        labels: value
        for labels, value in page.of("npumond_metric_supported").items()
        if ("metric", family) in labels
    }  # fmt: skip


def test_utilisation_above_100_percent_is_rejected_and_counted(odd: Observed) -> None:
    """130 % is no load: no series, no 1.0, no 1.3, and a count that grows. 100 % is one."""
    for family in ("npu_aicore_utilization_ratio", "npu_aicore_utilization", "npu_aicpu_utilization_ratio"):
        assert BEYOND not in by_device(odd.page, family)
    assert by_device(odd.page, "npu_vector_utilization_ratio")[BEYOND] == 1.0
    counted = [rejections(page, "dcmi_get_device_utilization_rate[2]") for page in (odd.page, odd.later)]
    assert 0 < counted[0] < counted[1]
    assert rejections(odd.page, "dcmi_get_device_utilization_rate[3]") > 0


def test_one_impossible_figure_among_four_is_left_out_and_the_others_are_served(odd: Observed) -> None:
    """The multi call said 60, 40, 130 and, as the larger one counts, 130 %: cube and vector are true."""
    assert by_device(odd.page, "npu_cube_utilization_ratio")[PARTLY] == 0.6
    assert by_device(odd.page, "npu_vector_utilization_ratio")[PARTLY] == 0.4
    for family in ("npu_aicore_utilization_ratio", "npu_aicore_utilization", "npu_overall_utilization_ratio"):
        assert PARTLY not in by_device(odd.page, family)


def test_one_impossible_figure_among_four_is_counted(odd: Observed) -> None:
    """An answer of which a part was thrown away is one that people must be able to see."""
    counted = [rejections(page, MULTI) for page in (odd.page, odd.later)]
    assert 0 < counted[0] < counted[1]


def test_a_chip_that_says_it_has_no_hbm_at_all_shows_none(odd: Observed) -> None:
    """A size of 0 makes no ratio of a division by zero, and nothing else of the answer is believed; it is counted."""
    families = {
        name for name, labels in odd.page.values if name.startswith("npu_hbm_") and ("device_id", EMPTY) in labels
    }
    assert families == set()
    assert len(by_device(odd.page, "npu_hbm_utilization_ratio")) == 7
    assert rejections(odd.page, "dcmi_get_device_hbm_info") > 0


def test_unknown_health_is_absent_and_not_well(odd: Observed) -> None:
    """4 is the library's "unknown", all ones a device that it does not know; neither is 0, nor a fifth level."""
    assert by_device(odd.page, "npu_health_status") == {
        device: 0.0 for device in by_device(odd.page, "npu_device_up") if device not in (UNKNOWN, UNLISTED)
    }


def test_idle_is_zero_and_not_absent(odd: Observed) -> None:
    """Zeros of the multi call may stand for "not supported"; the single calls say what is true."""
    assert by_device(odd.page, "npu_aicore_utilization_ratio")[IDLE] == 0.0
    assert by_device(odd.page, "npu_vector_utilization_ratio")[IDLE] == 0.0
    assert by_device(odd.page, "npu_overall_utilization_ratio")[IDLE] == 0.0
    assert IDLE not in by_device(odd.page, "npu_cube_utilization_ratio")


def test_active_fault_codes_are_shown_with_their_severity(odd: Observed) -> None:
    """Eight hexadecimal digits and the level of the vendor's handling; a code that no table has is unknown."""
    assert odd.page.of("npu_fault_active") == {
        series("", device_id=PARTLY, code=code, severity=severity)[1]: 1.0
        for code, severity in (("80E18402", "critical"), ("81078603", "notice"), ("12345678", "unknown"))
    }


def test_a_throttled_chip_says_why(odd: Observed) -> None:
    """The bits of the reduction word by their names; every other reason is 0."""
    reasons = {
        dict(labels)["reason"] for labels, value in odd.page.of("npu_throttled").items()
        if value == 1.0 and ("device_id", PARTLY) in labels
    }  # fmt: skip
    assert reasons == {"thermal", "power_break"}
    assert sum(odd.page.of("npu_throttled").values()) == 2


def test_a_process_that_can_be_seen_has_its_name(odd: Observed) -> None:
    """The pid that the driver lists is this test's own."""
    name = Path("/proc/self/comm").read_text().strip()
    shown = odd.page.of("npu_process_hbm_used_bytes")
    assert shown[series("", device_id=FROZEN, pid=os.getpid(), process=name)[1]] == float(1 << 30)


def test_no_value_about_a_chip_is_nan_or_infinite(odd: Observed) -> None:
    """What cannot be said is absent."""
    assert [key for key, value in odd.page.values.items() if not math.isfinite(value)] == []


# ---- chips and calls that come and go ----


@pytest.fixture
def running(standin: StandIn, tmp_path: Path) -> Iterator[Daemon]:
    """The daemon on eight 910B3, all of which have reported; readings of a silent call leave the page after 1.4 s."""
    with Daemon(tmp_path, standin, host("910b"), call_timeout="1s") as daemon:
        daemon.page_when(is_complete, "every lane of every device has reported")
        yield daemon


def shows(
    scenario: Scenario, without: Callable[[tuple[str, frozenset[tuple[str, str]]]], bool]
) -> Callable[[Page], bool]:
    """Whether a page has every true series of the scenario but those ``without`` names, and none of these."""
    true = truth(scenario)
    wanted = {key: value for key, value in true.items() if not without(key)}
    unwanted = true.keys() - wanted.keys()

    def holds(page: Page) -> bool:
        values = page.values
        return wanted.items() <= values.items() and not unwanted & values.keys()

    return holds


def test_a_lost_chip_leaves_alone_and_returns_under_its_own_number(running: Daemon) -> None:
    """Its fast values vanish and `npu_device_up` is 0; the other chips keep every series, value and number."""
    scenario = host("910b")
    lost = str(scenario.chip(5).phy_id)
    fast = ("npu_temperature_celsius", "npu_power_watts", "npu_hbm_used_bytes", "npu_aicore_utilization_ratio")
    known_by_the_node = ("npu_device_info", "npu_device_up", "npu_aicores", "npu_devices_seen", "npu_card_info")
    up = frozenset({("device_id", lost)})

    running.put(with_lost_chip(scenario, 5))
    page = running.page_when(
        lambda page: page.of("npu_device_up")[up] == 0 and not any(up in page.of(family) for family in fast),
        "the chip is gone",
        5.0,
    )
    others = {
        key: value for key, value in truth(scenario).items()
        if ("device_id", lost) not in key[1] and key[0] not in known_by_the_node
    }  # fmt: skip
    assert others.items() <= page.values.items()
    assert page.values["npu_devices_seen", frozenset()] == 7
    assert page.values["npu_devices_expected", frozenset()] == 8
    assert sum(page.of("npu_device_up").values()) == 7

    running.put(scenario)
    back = running.page_when(shows(scenario, lambda _: False), "the chip is back with everything", 10.0)
    assert sum(back.of("npu_device_up").values()) == 8


def test_a_call_that_fails_takes_its_own_values_off_the_page_and_no_others(running: Daemon) -> None:
    """-8012 on the temperature of one chip: absent while it lasts, there again afterwards; the chip stays up."""
    scenario = host("910b")
    gone = series("npu_temperature_celsius", device_id=scenario.chip(2).phy_id)
    broken = host("910b")
    broken.chip(2).temperature = Code(NOT_READY)

    running.put(broken)
    page = running.page_when(shows(scenario, lambda key: key == gone), "the temperature is gone, nothing else", 5.0)
    assert page.values[series("npu_device_up", device_id=scenario.chip(2).phy_id)] == 1
    running.put(scenario)
    running.page_when(shows(scenario, lambda _: False), "the temperature is back", 5.0)
