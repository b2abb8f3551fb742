"""The simulated driver: what each scenario promises, and that its figures could be those of a real node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest

from npumond.catalog import reading_rows
from npumond.drivers.driver import Driver
from npumond.drivers.simulated.driver import MAX_DEVICES, SimulatedDriver
from npumond.drivers.simulated.load import SCENARIOS, Curve, Pulse, Swell
from npumond.errors import DriverError
from npumond.model import CallOutcome, Device, PhyId

MULTI = "dcmi_get_device_multi_utilization_rate"
HBM = "dcmi_get_device_hbm_info"
TEMPERATURE = "dcmi_get_device_temperature"
POWER = "dcmi_get_device_power_info"
HEALTH = "dcmi_get_device_health"
CODES = "dcmi_get_device_errorcode_v2"
PROCESSES = "dcmi_get_device_resource_info"
REASONS = "dcmi_get_device_info[8,9]"
CLOCK = "dcmi_get_device_frequency[7]"
RATED = "dcmi_get_device_frequency[9]"
PACKETS = "dcmi_get_netdev_pkt_stats_info"
ECC = "dcmi_get_device_ecc_info[2]"
LINK = "hccn_tool -link"

PID_MAX_LIMIT = 4194304
TEN_MINUTES = range(0, 600, 2)
PERCENTAGES = {
    (MULTI, "aic_util"),
    (MULTI, "aiv_util"),
    (MULTI, "aicore_util"),
    (MULTI, "npu_util"),
    (HBM, "bandwith_util_rate"),
    ("dcmi_get_device_utilization_rate[3]", "rate"),
    ("dcmi_get_device_utilization_rate[4]", "rate"),
    ("dcmi_get_device_llc_perf_para", "rd_hit_rate"),
    ("dcmi_get_device_llc_perf_para", "wr_hit_rate"),
}
COUNTERS = {(source.call, source.field) for family, _, source in reading_rows() if family.kind == "counter"}


class Node:
    """A simulated node whose clock the test holds."""

    def __init__(self, scenario: str, *, seed: int = 1, devices: int = 8, start: float = 5000.0) -> None:
        self._start = self._now = start
        self.driver = SimulatedDriver(scenario, seed=seed, devices=devices, clock=lambda: self._now, wall=lambda: 1.7e9)
        self.devices = self.driver.open().devices

    def at(self, t: float, device: Device, call: str) -> CallOutcome:
        self._now = self._start + t
        return self.driver.call(device, call)

    def value(self, t: float, device: Device, call: str, field: str) -> float:
        (value,) = (reading.value for reading in self.at(t, device, call).readings if reading.field == field)
        return value

    def keys(self, t: float, device: Device, call: str, field: str) -> set[str]:
        """First part of the keys of the readings that are not zero."""
        found = self.at(t, device, call).readings
        return {reading.key[0] for reading in found if reading.field == field and reading.value}

    def series(self, times: Iterable[float], device: Device, call: str, field: str) -> list[float]:
        return [self.value(t, device, call, field) for t in times]

    def everything(self, t: float) -> Iterator[tuple[Device, CallOutcome]]:
        for device in self.devices:
            for call in self.driver.calls(device):
                yield device, self.at(t, device, call.name)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def hbm_ratio(node: Node, t: float, device: Device) -> float:
    return node.value(t, device, HBM, "memory_usage_ratio")


# The node as a whole


def test_it_keeps_the_drivers_contract() -> None:
    """The worker takes it for a driver like any other."""
    driver: Driver = SimulatedDriver()
    assert driver.open().backend == "simulated"


def test_unknown_scenario_names_the_known_ones() -> None:
    """Who mistypes a scenario reads which there are."""
    with pytest.raises(DriverError, match=r"no simulated scenario 'bussy'; there are: busy, idle, oom, fault, mixed"):
        SimulatedDriver("bussy")


@pytest.mark.parametrize("devices", [0, MAX_DEVICES + 1])
def test_a_number_of_devices_out_of_range_is_refused(devices: int) -> None:
    """The vendor's exporter knows 64 cards at most; so do we."""
    with pytest.raises(DriverError, match="from 1 to 64"):
        SimulatedDriver(devices=devices)


def test_devices_are_told_apart_on_a_full_node() -> None:
    """Ids, die ids and PCI addresses are unique with 64 chips, and one chip alone speaks for the node."""
    devices = Node("busy", devices=MAX_DEVICES).devices
    for unique in ("phy_id", "logic_id", "card_id", "uuid", "pci_address"):
        assert len({getattr(device, unique) for device in devices}) == MAX_DEVICES
    assert [device.phy_id for device in devices if device.first_of_node] == [0]


def test_facts_say_that_all_is_made_up() -> None:
    """Nobody can take the driver's facts for those of a real node."""
    facts = SimulatedDriver("oom").open()
    assert (facts.library, facts.api, facts.driver_version) == ("simulated:oom", "simulated", "25.2.0-simulated")
    assert facts.expected == 8


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_same_seed_and_time_give_the_same_answers(scenario: str) -> None:
    """Two nodes agree at any second, whatever their clocks said at the start and in whatever order they are asked."""
    one, other = Node(scenario, seed=7), Node(scenario, seed=7, start=123.0)
    forward = [list(one.everything(t)) for t in (0, 61.25, 400)]
    backward = [list(other.everything(t)) for t in (400, 61.25, 0)]
    assert forward == backward[::-1]


def test_seeds_differ() -> None:
    """Another seed is another node: other die ids and another course of the load."""
    one, other = Node("mixed", seed=1), Node("mixed", seed=2)
    assert {device.uuid for device in one.devices}.isdisjoint(device.uuid for device in other.devices)
    loads = [node.series(TEN_MINUTES, node.devices[2], MULTI, "aicore_util") for node in (one, other)]
    assert loads[0] != loads[1]


def test_a_later_worker_goes_on_with_the_story() -> None:
    """Handed the start, a new driver is where the old one is."""
    old = SimulatedDriver(clock=lambda: 100.0, started_at=40.0)
    new = SimulatedDriver(clock=lambda: 100.0, started_at=40.0)
    device = old.open().devices[3]
    assert old.call(device, HBM) == new.call(device, HBM) != SimulatedDriver(clock=lambda: 100.0).call(device, HBM)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_call_is_answered_with_fields_of_the_catalogue(scenario: str) -> None:
    """One reader serves the simulation and the real driver: no call fails, no field is unknown to it."""
    known = {(source.call, source.field) for _, _, source in reading_rows()}
    node = Node(scenario)
    for t in (0, 75):
        for _, outcome in node.everything(t):
            assert (outcome.kind, outcome.code) == ("ok", 0)
            assert {(outcome.call, reading.field) for reading in outcome.readings} <= known


def test_keys_complete_the_labels_of_the_family() -> None:
    """device_id (or card_id), the source's fixed labels and the reading's key are all the labels that the family has.

    Two labels are the reader's to add: the name of a process, the severity of a fault.
    """
    families = {(source.call, source.field): (family, source) for family, _, source in reading_rows()}
    added = {"npu_process_hbm_used_bytes": 1, "npu_fault_active": 1}
    for _, outcome in Node("fault").everything(75):
        for reading in outcome.readings:
            family, source = families[outcome.call, reading.field]
            place = len({"device_id", "card_id"}.intersection(family.labels))
            assert len(reading.key) == len(family.labels) - place - len(source.fixed) - added.get(family.name, 0)


def test_calls_of_the_node_are_the_first_chips() -> None:
    """The host driver's health is asked for once, not once a chip."""
    node = Node("idle")
    asks = [any(call.scope == "node" for call in node.driver.calls(device)) for device in node.devices]
    assert asks == [True] + [False] * 7


def test_a_call_that_the_chip_lacks_is_unsupported() -> None:
    """DDR is not on a 910B; a chip that is not there has nothing at all."""
    node = Node("idle")
    outcome = node.at(0, node.devices[0], "dcmi_get_device_memory_info_v3")
    assert (outcome.kind, outcome.code, outcome.readings) == ("unsupported", -8255, ())
    stranger = Device(phy_id=PhyId(63), logic_id=node.devices[0].logic_id, card_id=63, chip_id=0, chip="910B3")
    assert node.at(0, stranger, HEALTH).kind == "unsupported"


# Scenarios


def test_busy_keeps_every_chip_busy() -> None:
    """Over ten minutes each chip's AI Cores are busy for more than 70 % of the time."""
    node = Node("busy")
    assert all(mean(node.series(TEN_MINUTES, device, MULTI, "aicore_util")) > 70 for device in node.devices)


def test_training_pauses_for_checkpoints() -> None:
    """A few times in ten minutes the load of a busy chip falls nearly to nothing, and its HBM with it."""
    node = Node("busy")
    load = node.series(range(600), node.devices[0], MULTI, "aicore_util")
    used = [hbm_ratio(node, t, node.devices[0]) for t in range(600)]
    pauses = sum(before >= 20 > after for before, after in pairwise(load))
    assert 3 <= pauses <= 5
    assert max(used) - min(used) > 0.05


def test_idle_has_neither_load_nor_processes() -> None:
    """An idle chip holds a few gigabytes of its own, and says that its clock is low for want of work."""
    node = Node("idle")
    for device in node.devices:
        assert max(node.series(TEN_MINUTES, device, MULTI, "aicore_util")) < 5
        assert max(node.series(TEN_MINUTES, device, PROCESSES, "proc_num")) == 0
        assert 0.04 < hbm_ratio(node, 300, device) < 0.07
        assert node.keys(300, device, REASONS, "reason") == {"idle"}


def test_oom_fills_the_memory_within_a_minute() -> None:
    """The leak is over 90 % from the start and over 97 % within a minute, both long enough for a rule of a minute."""
    node = Node("oom")
    leaking = node.devices[0]
    assert min(hbm_ratio(node, t, leaking) for t in range(60)) > 0.90
    assert min(hbm_ratio(node, t, leaking) for t in range(55, 160)) > 0.97


def test_oom_ends_with_the_process_killed_and_back_under_another_pid() -> None:
    """The alert is seen to resolve: the memory is given back, and a new process begins."""
    node = Node("oom")
    leaking = node.devices[0]
    before = node.keys(150, leaking, PROCESSES, "proc_mem_usage")
    assert hbm_ratio(node, 200, leaking) < 0.1
    assert node.value(200, leaking, PROCESSES, "proc_num") == 0
    assert node.keys(260, leaking, PROCESSES, "proc_mem_usage").isdisjoint(before)


def test_fault_raises_a_code_after_ten_seconds() -> None:
    """All is well at first; then the first chip reports an HBM error of health 2 that stays."""
    node = Node("fault")
    broken = node.devices[0]
    assert node.value(9, broken, HEALTH, "health") == 0
    for t in (11, 60, 599):
        assert node.value(t, broken, HEALTH, "health") == 2
        assert node.keys(t, broken, CODES, "error_code") == {"80E01801"}


def test_fault_counts_double_bit_errors() -> None:
    """Every few minutes another one, both since the reset and over the lifetime."""
    node = Node("fault")
    for field in ("double_bit_error_cnt", "total_double_bit_error_cnt"):
        assert node.series((0, 60, 300, 600), node.devices[0], ECC, field) == [0, 1, 2, 3]


def test_fault_kills_the_job_which_is_started_again() -> None:
    """The processes vanish with the error and come back under other pids."""
    node = Node("fault")
    broken = node.devices[0]
    before, during, after = (node.keys(t, broken, PROCESSES, "proc_mem_usage") for t in (5, 30, 60))
    assert before
    assert not during
    assert after
    assert before.isdisjoint(after)


def test_fault_has_a_link_that_flaps() -> None:
    """One port is down in the first round, comes up and goes down again; its counters rest while it is down."""
    node = Node("fault")
    device = node.devices[1]
    assert node.series((0, 120, 180, 240, 300), device, LINK, "up") == [0, 0, 0, 1, 0]
    assert node.series((0, 240, 540), device, "hccn_tool -link_stat", "link_up_count") == [1, 2, 3]
    assert node.series((0, 240), device, "dcmi_get_device_network_health", "healthy") == [0, 1]
    assert node.keys(60, device, CODES, "error_code") == {"81078603"}
    sent = node.series((10, 190, 280), device, PACKETS, "roce_tx_all_pkt_num")
    assert sent[0] == sent[1] < sent[2]


def test_mixed_shows_one_of_everything() -> None:
    """Training, serving, a leak, a fault that comes and goes, a throttled chip, an underused one and an idle one."""
    node = Node("mixed")
    training, _, serving, leaking, flaky, hot, underused, idle = node.devices
    assert mean(node.series(TEN_MINUTES, training, MULTI, "aicore_util")) > 70
    assert 40 < mean(node.series(TEN_MINUTES, serving, MULTI, "aicore_util")) < 70
    assert max(hbm_ratio(node, t, leaking) for t in range(60)) > 0.97
    assert node.series((5, 60, 150, 270, 400), flaky, HEALTH, "health") == [0, 2, 0, 2, 0]
    assert "thermal" in node.keys(120, hot, REASONS, "reason")
    assert max(node.series(TEN_MINUTES, underused, MULTI, "aicore_util")) < 70
    assert min(node.series(TEN_MINUTES, underused, PROCESSES, "proc_num")) > 0
    assert max(node.series(TEN_MINUTES, idle, PROCESSES, "proc_num")) == 0


def test_mixed_throttles_for_five_minutes_on_end() -> None:
    """Long enough that the rule about throttling fires, and the one about heat with it."""
    node = Node("mixed")
    hot = node.devices[5]
    assert all("thermal" in node.keys(t, hot, REASONS, "reason") for t in range(400))
    assert min(node.series(range(400), hot, TEMPERATURE, "temperature")) > 85
    assert min(node.series(range(600, 800, 5), hot, TEMPERATURE, "temperature")) < 80


# Physics


def test_a_hot_chip_slows_down_until_it_has_cooled() -> None:
    """Throttling goes with heat over 90 degrees and a clock under its rating, and it ends."""
    node = Node("mixed")
    hot = node.devices[5]
    seen = set()
    for t in range(0, 900, 5):
        throttled = "thermal" in node.keys(t, hot, REASONS, "reason")
        slow = node.value(t, hot, CLOCK, "frequency") < node.value(t, hot, RATED, "frequency")
        assert slow or not throttled
        assert node.value(t, hot, TEMPERATURE, "temperature") >= 90 or not throttled
        seen.add(throttled)
    assert seen == {True, False}


def test_power_follows_load_at_once_and_heat_later() -> None:
    """A checkpoint takes the power down within a second or two, the temperature over the whole pause and beyond."""
    node = Node("busy")
    device = node.devices[0]
    pause = next(t for t in range(60, 600) if node.value(t, device, MULTI, "aicore_util") < 20)
    times = (pause - 5, pause, pause + 10, pause + 20)
    before, at_once, at_the_end, working_again = node.series(times, device, POWER, "power")
    assert min(before, working_again) > 2500 > 1500 > max(at_once, at_the_end)
    before, at_once, at_the_end, working_again = node.series(times, device, TEMPERATURE, "temperature")
    assert before - at_once <= 3
    assert before - at_the_end > 7
    assert before - working_again >= 2


def test_heat_does_not_jump() -> None:
    """While the load changes by half from one second to the next, the temperature moves by two degrees at most."""
    node = Node("busy")
    load = node.series(range(600), node.devices[0], MULTI, "aicore_util")
    heat = node.series(range(600), node.devices[0], TEMPERATURE, "temperature")
    assert max(abs(after - before) for before, after in pairwise(load)) > 40
    assert max(abs(after - before) for before, after in pairwise(heat)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_figures_stay_in_range_and_counters_never_fall_over_a_day(scenario: str) -> None:
    """Percentages, memory, temperatures, power and pids are possible ones; what is a counter only ever grows."""
    node = Node(scenario)
    last: dict[tuple[PhyId, str, str, tuple[str, ...]], float] = {}
    for t in range(0, 86_400, 607):
        for device, outcome in node.everything(t):
            assert_possible(outcome)
            for reading in outcome.readings:
                if (outcome.call, reading.field) in COUNTERS:
                    series = (device.phy_id, outcome.call, reading.field, reading.key)
                    assert reading.value >= last.get(series, 0)
                    last[series] = reading.value


def assert_possible(outcome: CallOutcome) -> None:
    assert 0 < outcome.duration_s < 1.5
    values = {reading.field: reading.value for reading in outcome.readings}
    for field, value in values.items():
        assert value >= 0
        assert (outcome.call, field) not in PERCENTAGES or (value <= 100 and value == int(value))
    assert 20 <= values.get("temperature", 20) <= 110
    if outcome.call == HBM:
        assert values["memory_usage"] <= values["memory_size"]
        assert values["memory_usage_ratio"] == values["memory_usage"] / values["memory_size"]
        assert 20 <= values["temp"] <= 110
    if outcome.call == POWER:
        assert 850 < values["power"] < 4000
    if outcome.call == PROCESSES:
        pids = [int(reading.key[0]) for reading in outcome.readings if reading.key]
        assert len(pids) == values["proc_num"]
        assert all(pid > PID_MAX_LIMIT for pid in pids)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_traffic_is_never_negative(scenario: str) -> None:
    """A curve that drives a counter stays above zero in every second of an hour, else the counter would fall."""
    for role in SCENARIOS[scenario]:
        assert min(role.job.traffic.at(t) for t in range(3600)) >= 0


def test_processes_hold_no_more_memory_than_is_used() -> None:
    """What the processes hold is part of what the chip says is used, in the same second."""
    node = Node("mixed")
    for device in node.devices:
        for t in range(0, 600, 20):
            held = [reading for reading in node.at(t, device, PROCESSES).readings if reading.key]
            assert sum(reading.value for reading in held) <= node.value(t, device, HBM, "memory_usage") * 2**20


def test_bytes_counted_agree_with_the_bandwidth() -> None:
    """Ten minutes of bandwidth samples add up to what the counter says, within a few percent."""
    node = Node("busy")
    device = node.devices[0]
    sampled = sum(node.series(range(600), device, "dcmi_get_rdma_bandwidth_info", "tx_bandwidth")) * 1e6
    first, last = node.series((0, 600), device, PACKETS, "mac_tx_total_oct_num")
    assert last - first == pytest.approx(sampled, rel=0.03)


def test_system_time_is_the_wall_clocks() -> None:
    """The chips' own clocks are right, so that no rule about drift fires."""
    node = Node("idle")
    assert node.value(0, node.devices[0], "dcmi_get_device_system_time", "time") == 1_700_000_000


# Curves


@pytest.mark.parametrize(
    "curve",
    [
        Curve(0.5),
        Curve(0.0, (Pulse(height=2.0, period_s=20, start_s=3, length_s=8, rise_s=4, fall_s=2),)),
        Curve(0.4, (Swell(height=0.3, period_s=17), Pulse(height=-0.1, period_s=7, length_s=2))),
    ],
    ids=["level", "pulse", "all"],
)
def test_area_is_the_integral_of_the_curve(curve: Curve) -> None:
    """Summed in small steps, before second 0 as well as after it."""
    step = 0.01
    for start in (-45.0, 0.0, 12.5):
        summed = sum(curve.at(start + (index + 0.5) * step) * step for index in range(5000))
        assert curve.area(start + 50) - curve.area(start) == pytest.approx(summed, abs=1e-3)


def test_a_counter_rests_exactly_between_pulses() -> None:
    """Not a byte is lost to rounding in a pause, even after days: it would look like a reset of the counter."""
    pulse = Pulse(height=0.9, period_s=240, length_s=205, rise_s=8, fall_s=1)
    for day in range(0, 30 * 86_400, 86_400):
        assert len({pulse.area(day + t) for t in range(206, 241)}) == 1
