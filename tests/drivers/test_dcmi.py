"""The DCMI driver on the compiled stand-in: every value of every product, and every way in which drivers disappoint."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from npumond.drivers.dcmi.driver import DcmiDriver
from npumond.model import CallOutcome, Device
from tests.drivers.asked import Asked, Refused
from tests.drivers.truth import TRUTH
from tests.standin.build import StandIn, build
from tests.standin.profiles import PROFILES, permute_ids, profile, sparse_cards, with_failed_card, with_lost_chip
from tests.standin.scenario import Chip, Code, HccsLinks, Scenario

Start = Callable[..., Asked]

GENERATIONS = {"910": "910", "910b": "910B", "a3": "A3", "310p_duo": "310P", "310": "310", "950": "950"}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., StandIn]:
    """Compiles stand-ins into one place for the whole run."""
    place = tmp_path_factory.getbasetemp().parent / "standin"
    return lambda **options: build(place, **options)


@pytest.fixture
def start(tmp_path: Path, built: Callable[..., StandIn]) -> Start:
    """A driver on a scenario; options go to the compiler."""
    return lambda scenario, **options: Asked(built(**options), scenario, tmp_path)


def read(outcome: CallOutcome) -> dict[tuple[str, ...], float]:
    """Readings by field and key."""
    return {(reading.field, *reading.key): reading.value for reading in outcome.readings}


# ---- every value of every product ----


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_every_reading_is_the_truth(start: Start, name: str) -> None:
    """Each call of each chip, all chips at once, against the scenario: no more, no less, and no other chip's."""
    scenario = permute_ids(profile(name))
    with start(scenario) as asked:
        rounds = asked.everything()

    assert set(rounds) == {chip.phy_id for chip in scenario.chips}
    for chip in scenario.chips:
        for call, outcome in rounds[chip.phy_id].items():
            # The clock moves; it has a test of its own.
            if call == "dcmi_get_device_system_time":
                continue
            expected = TRUTH[call](scenario, chip)
            kind = "unsupported" if expected is None else "ok"
            assert (call, outcome.kind, read(outcome)) == (call, kind, expected or {})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["910b", "950"])
def test_a_whole_round_only_reads(start: Start, name: str) -> None:
    """The stand-in writes down every function that was called."""
    with start(profile(name)) as asked:
        asked.everything()
        called = {line.split()[0] for line in asked.calls_path.read_text().splitlines()}

    assert len(called) > 30
    assert {name for name in called if not re.fullmatch(r"hccn_tool|dcmi(v2)?_init|dcmi(v2)?_get_\w+", name)} == set()


@pytest.mark.parametrize("name", PROFILES)
def test_the_chip_s_own_clock_is_read(start: Start, name: str) -> None:
    """Chip i of a profile is i seconds ahead."""
    with start(profile(name)) as asked:
        outcome = asked.call("dcmi_get_device_system_time", 3)

    assert read(outcome)["time",] == pytest.approx(time.time() + 3, abs=5)


@pytest.mark.parametrize("name", PROFILES)
def test_every_chip_is_identified(start: Start, name: str) -> None:
    """Ids, place, name, generation, die, board, and which of them speaks for card and node."""
    scenario = sparse_cards(permute_ids(profile(name))) if name != "950" else permute_ids(profile(name))
    with start(scenario) as asked:
        facts = asked.facts

    assert (facts.backend, facts.api, facts.failed) == ("dcmi", f"v{scenario.api}", ())
    assert (facts.driver_version, facts.dcmi_version) == (scenario.driver_version, scenario.dcmi_version)
    assert [identity(device) for device in facts.devices] == [truth(scenario, chip) for chip in scenario.chips]
    assert {device.generation for device in facts.devices} == {GENERATIONS[name]}
    assert [device.first_of_node for device in facts.devices] == [True] + [False] * (len(facts.devices) - 1)
    assert sum(device.first_of_card for device in facts.devices) == len({chip.card_id for chip in scenario.chips})


def identity(device: Device) -> tuple[object, ...]:
    """What the scenario has a word on."""
    return (
        device.phy_id,
        device.logic_id,
        device.card_id,
        device.chip_id,
        device.chip,
        device.aicore_count,
        device.board_id,
        device.uuid,
        device.pci_address,
    )


def truth(scenario: Scenario, chip: Chip) -> tuple[object, ...]:
    """The same from the scenario."""
    card_id, chip_id = chip.slot_and_chip if isinstance(chip.slot_and_chip, tuple) else (chip.card_id, chip.chip_id)
    die, pcie, board = chip.vdie, chip.pcie, chip.board
    assert isinstance(die, tuple)
    assert isinstance(board, tuple)
    return (
        chip.phy_id,
        chip.logic_id,
        card_id,
        chip_id,
        chip.chip_name,
        chip.aicore_count,
        board[0],
        "-".join(f"{word:08X}" for word in die),
        f"{pcie[0]:04X}:{pcie[1]:02X}:{pcie[2]:02X}.{pcie[3]:X}" if isinstance(pcie, tuple) else "",
    )


def test_calls_that_are_not_planned_answer_by_name(start: Start) -> None:
    """Loads by core, topology, affinity, texts of faults."""
    scenario = profile("a3")
    scenario.chip(1).error_codes = [0x80E01801]
    scenario.error_texts = {0x80E01801: "HBM multi-bit ECC"}
    with start(scenario) as asked:
        loads = read(asked.call("dcmi_get_device_info[11,0]", 1))
        topology = read(asked.call("dcmi_get_topo_info_by_device_id", 1))
        affinity = read(asked.call("dcmi_get_affinity_cpu_info_by_device_id", 1))
        faults = read(asked.call("dcmi_get_device_errorcode_string", 1))
        planned = asked.names(1)

    assert loads == {("load", str(core)): 31 + core for core in range(24)}
    assert topology == {("topo_type", str(peer)): 6 if peer == 0 else 7 for peer in range(16) if peer != 1}
    assert affinity == {("affinity_cpu", "24-47"): 1}
    assert faults == {("error_code", "80E01801", "HBM multi-bit ECC"): 1}
    assert "dcmi_get_device_info[11,0]" not in planned


def test_310_and_310p_have_a_product_name(start: Start) -> None:
    """Where the newer chip info has none."""
    with start(profile("310p_duo")) as asked:
        assert {device.product for device in asked.facts.devices} == {"Atlas 300I Duo"}


# ---- chips that are not there ----


def test_a_failed_card_is_one_failed_chip_and_nothing_to_the_others(start: Start) -> None:
    """-1 in the card list."""
    with start(with_failed_card(profile("910b"), 3)) as asked:
        facts = asked.facts

    assert [device.phy_id for device in facts.devices] == [0, 1, 2, 4, 5, 6, 7]
    assert [chip.position for chip in facts.failed] == ["card list entry 3"]
    assert facts.expected == 8


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("dcmi_get_device_logic_id", -8012),
        ("dcmi_get_device_phyid_from_logicid", -8005),
        ("dcmi_get_device_chip_info*", -8006),
        ("dcmi_get_device_type", -8012),
    ],
)
def test_a_chip_that_cannot_be_identified_is_named_with_its_reason(start: Start, function: str, code: int) -> None:
    """A chip without a physical id would be another chip's series."""
    with start(profile("a3").rc(function, code, logic=5)) as asked:
        facts = asked.facts

    assert len(facts.devices) == 15
    assert [chip.position for chip in facts.failed] == ["card 2 chip 1"]
    assert f": {code}: " in facts.failed[0].reason


def test_the_second_die_speaks_for_the_card_when_the_first_is_gone(start: Start) -> None:
    """Card calls are made through a chip that is there."""
    with start(profile("310p_duo").rc("dcmi_get_device_logic_id", -8012, logic=0)) as asked:
        assert asked.device(1).first_of_card
        assert asked.device(1).first_of_node
        assert read(asked.call("dcmi_mcu_get_power_info", 1)) == {("power",): 1102}


@pytest.mark.parametrize("count", [0, -1, 5, 2**31 - 1])
def test_an_impossible_number_of_chips_on_a_card_is_not_believed(start: Start, count: int) -> None:
    """The limit is four."""
    scenario = profile("910b").fill("dcmi_get_device_num_in_card", count.to_bytes(4, "little", signed=True), card=2)
    with start(scenario) as asked:
        facts = asked.facts

    assert len(facts.devices) == 7
    assert [(chip.position, chip.reason) for chip in facts.failed] == [
        ("card 2", f"dcmi_get_device_num_in_card says {count} chips")
    ]


def test_two_chips_of_one_physical_id_are_not_one_series(start: Start) -> None:
    """The second is told, not shown."""
    scenario = profile("910b")
    scenario.chip(4).phy_id = 1
    with start(scenario) as asked:
        assert len(asked.facts.devices) == 7
        assert asked.facts.failed[0].reason == "physical id 1 is that of card 1 chip 0"


def test_a_chip_that_only_lacks_a_description_is_shown(start: Start) -> None:
    """Die, address, board, main board: none of them names a series."""
    scenario = profile("910b")
    chip = scenario.chip(2)
    chip.vdie, chip.pcie, chip.board, chip.mainboard_id = Code(-8005), Code(-8005), Code(-8005), Code(-8005)
    with start(scenario) as asked:
        device = asked.device(2)

    assert (device.uuid, device.pci_address, device.board_id) == ("", "", None)


@pytest.mark.parametrize("name", ["910b", "950"])
def test_a_chip_lost_later_answers_with_a_code_and_the_others_with_values(start: Start, name: str) -> None:
    """The library keeps the list that it made at init."""
    scenario = profile(name)
    with start(scenario) as asked:
        with_lost_chip(scenario, 2).write(asked.path)
        lost = asked.call("dcmi_get_device_temperature", 2)
        well = asked.call("dcmi_get_device_temperature", 3)

    assert (lost.kind, lost.code, lost.readings) == ("not_ready", -8012, ())
    assert read(well) == {("temperature",): 43}


def test_odd_text_in_a_chip_s_name_is_sanitised(start: Start) -> None:
    """It becomes a label."""
    scenario = profile("910b")
    scenario.chip(0).chip_name = b"910B3\x07\xff"
    with start(scenario) as asked:
        assert asked.device(0).chip == "910B3\N{REPLACEMENT CHARACTER}"


def test_atlas_9000_has_no_link_1(start: Start) -> None:
    """Its links begin with 2."""
    scenario = profile("a3")
    for chip in scenario.chips:
        chip.mainboard_id = 0x1C
    with start(scenario) as asked:
        outcome = asked.call("dcmi_get_device_info[16,5]", 0)

    assert {reading.key[0] for reading in outcome.readings} == {"2", "3", "4", "5", "6", "7"}


# ---- libraries of other versions ----


def test_a_missing_symbol_is_unsupported(start: Start) -> None:
    """Older drivers know fewer calls."""
    missing = ("dcmi_get_device_hbm_info", "dcmi_get_device_chip_info_v2")
    with start(profile("910b"), missing=missing) as asked:
        outcome = asked.call("dcmi_get_device_hbm_info")
        assert asked.device(0).chip == "910B3"

    assert (outcome.kind, outcome.code, outcome.detail) == ("unsupported", -8255, "no symbol dcmi_get_device_hbm_info")


def test_a_library_without_the_v1_api_is_asked_by_v2(start: Start) -> None:
    """The symbol may go one day."""
    with start(profile("950"), missing=("dcmi_init",)) as asked:
        assert asked.facts.api == "v2"


def test_a_newer_ecc_structure_fits_into_its_room(start: Start) -> None:
    """36 bytes where we know 28."""
    with start(profile("910b"), ecc_bytes=36) as asked:
        assert read(asked.call("dcmi_get_device_ecc_info[2]", 1))["total_single_bit_error_cnt",] == 22


@pytest.mark.parametrize(
    ("call", "function", "detail"),
    [
        ("dcmi_get_device_hbm_info", "dcmi_get_device_hbm_info", "wrote 16 bytes beyond the 32 of dcmi_hbm_info"),
        ("dcmi_get_device_temperature", "dcmi_get_device_temperature", "wrote 16 bytes beyond the 4 of c_int"),
        ("dcmi_get_device_info[16,0]", "dcmi_get_device_info", "wrote 16 bytes beyond the 12 of dcmi_hccs_statues"),
    ],
)
def test_a_larger_structure_is_rejected_by_name_and_the_next_call_is_well(
    start: Start, call: str, function: str, detail: str
) -> None:
    """Nothing of it is believed, and nothing is broken."""
    scenario = profile("910b")
    with start(scenario) as asked:
        scenario.overrun(function, 16).write(asked.path)
        outcome = asked.call(call)
        scenario.clear().write(asked.path)
        after = asked.call(call)

    assert (outcome.kind, outcome.code, outcome.readings) == ("rejected", 0, ())
    assert outcome.detail == f"{function} {detail}"
    assert after.kind == "ok"


def test_a_process_list_of_64_records_fits_whatever_their_number(start: Start) -> None:
    """The library fills all of them."""
    scenario = profile("910b")
    scenario.process_fill = True
    with start(scenario) as asked:
        assert read(asked.call("dcmi_get_device_resource_info", 0))["proc_num",] == 1


def test_older_drivers_have_32_bit_flit_counters(start: Start) -> None:
    """Sub command 3 where 5 is not known."""
    scenario = profile("910b")
    hccs = scenario.chip(0).hccs
    assert isinstance(hccs, HccsLinks)
    scenario.chip(0).hccs = hccs._replace(subs=(3,))
    with start(scenario) as asked:
        assert asked.call("dcmi_get_device_info[16,5]").kind == "unsupported"
        assert read(asked.call("dcmi_get_device_info[16,3]"))["tx_cnt", "3"] == 3


def test_noise_on_stdout_is_no_answer(start: Start) -> None:
    """The library prints; the child's protocol does not care."""
    scenario = profile("910b")
    scenario.noise_init = scenario.noise_call = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)"
    with start(scenario) as asked:
        assert read(asked.call("dcmi_get_device_temperature", 1)) == {("temperature",): 41}


# ---- init ----


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (-8020, "dcmi_init: -8020: the device is used by another container"),
        (-8005, "dcmi_init: -8005: inner error of the library"),
    ],
)
def test_an_init_that_fails_says_why(start: Start, code: int, meaning: str) -> None:
    """v2 is not tried: the library has said what it is."""
    with pytest.raises(Refused) as error, start(profile("910b").rc("dcmi_init", code)):
        pass

    assert error.value.code == code
    assert str(error.value).endswith(f"libdcmi.so: {meaning}")
    assert error.value.searched[0].endswith("libdcmi.so: loaded")


def test_a_library_that_speaks_neither_api_says_so_of_both(start: Start) -> None:
    """Both probes are in the message."""
    with pytest.raises(Refused) as error, start(profile("950").rc("dcmiv2_init", -8255)):
        pass

    assert error.value.code == -8255
    assert "dcmi_init: -8255" in str(error.value)
    assert "dcmiv2_init: -8255" in str(error.value)


def test_a_card_list_that_fails_is_an_error_of_the_driver(start: Start) -> None:
    """Without it there is nothing to observe."""
    with pytest.raises(Refused) as error, start(profile("910b").rc("dcmi_get_card_list", -8005)):
        pass

    assert error.value.code == -8005


def test_the_library_is_found_by_the_loader_s_path(tmp_path: Path, built: Callable[..., StandIn]) -> None:
    """And the places before it are told."""
    standin = built()
    environ = {"LD_LIBRARY_PATH": f"{tmp_path}/empty:{standin.directory}"}
    with Asked(standin, profile("910b"), tmp_path, explicit=False, **environ) as asked:
        assert asked.facts.library == str(standin.dcmi)
        assert asked.facts.searched == (f"{tmp_path}/empty/libdcmi.so: not there", f"{standin.dcmi}: loaded")


# ---- values that prove nothing ----


def test_zeros_of_the_multi_call_are_unproven_until_it_has_shown_itself(start: Start) -> None:
    """Per chip: rc 0 and zeros is also what it answers where the chip lacks it."""
    scenario = profile("910b")
    multi = "dcmi_get_device_multi_utilization_rate"
    for chip in scenario.chips:
        chip.multi_utilization = (0, 0, 0, 0)
    with start(scenario) as asked:
        first = asked.call(multi, 0)
        scenario.chip(0).multi_utilization = (0, 0, 7, 0)
        scenario.write(asked.path)
        shown = asked.call(multi, 0)
        scenario.chip(0).multi_utilization = (0, 0, 0, 0)
        scenario.write(asked.path)
        idle, other = asked.call(multi, 0), asked.call(multi, 1)

    assert (first.kind, first.readings) == ("unproven", ())
    assert shown.kind == "ok"
    assert (idle.kind, set(read(idle).values())) == ("ok", {0})
    assert other.kind == "unproven"


def test_only_utilisation_above_100_is_rejected(start: Start) -> None:
    """The real library turns it into 0; another one may not."""
    scenario = profile("910b")
    scenario.raw_utilization = True
    scenario.chip(0).multi_utilization = (60, 101, 30, 50)
    with start(scenario) as asked:
        outcome = asked.call("dcmi_get_device_multi_utilization_rate")

    assert outcome.kind == "ok"
    assert set(read(outcome)) == {("aic_util",), ("aicore_util",), ("npu_util",)}
    assert outcome.detail == "aiv_util: 101 is not within 0 and 100"


# ---- the rest ----


def test_a_call_s_time_is_the_vendor_s(start: Start) -> None:
    """Measured around the C function alone."""
    scenario = profile("910b").delay("dcmi_get_device_temperature", 30)
    with start(scenario) as asked:
        slow, quick = asked.call("dcmi_get_device_temperature"), asked.call("dcmi_get_device_voltage")

    assert 0.03 <= slow.duration_s < 0.5
    assert quick.duration_s < slow.duration_s


def test_a_name_that_is_no_row_is_a_mistake_of_the_caller() -> None:
    """Not an outcome."""
    device = Device(phy_id=0, logic_id=0, card_id=0, chip_id=0, chip="")  # type: ignore[arg-type]

    with pytest.raises(KeyError):
        DcmiDriver(environ={}).call(device, "dcmi_reset_device")


def test_a_window_beyond_the_vendor_s_bounds_is_refused() -> None:
    """226 ms is the most for UB."""
    with pytest.raises(ValueError, match="ub window: 227 ms is not within 1 and 226"):
        DcmiDriver(windows_ms={"ub": 227}, environ={})
