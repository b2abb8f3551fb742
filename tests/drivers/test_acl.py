"""The ACL driver reads what the runtime knows, and says of the rest why it is not there."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec import json as msgjson

from npumond.drivers.acl import abi as acl_abi
from npumond.drivers.acl.abi import ERRORS, SIGNATURES, describe, outcome_kind, printable
from npumond.drivers.acl.driver import candidates, generation_of, load
from npumond.errors import DriverError
from npumond.model import CallOutcome, Device, DriverFacts, Generation, OutcomeKind, PhyId
from tests.standin.build import build
from tests.standin.profiles import permute_ids, profile, with_lost_chip
from tests.standin.scenario import Scenario

ROOT = Path(__file__).parents[2]
UTILIZATION = "aclrtGetDeviceUtilizationRate"
MEMORY = "aclrtGetDeviceInfo[301]"
MAPPING = "aclrtGetPhyDevIdByUserDevId"

SCRIPT = """
import os, sys, msgspec
from npumond.drivers.acl.driver import AclDriver
from npumond.errors import DriverError
driver = AclDriver(sys.argv[1] or None)
try:
    facts = driver.open()
    outcomes = {str(d.phy_id): [driver.call(d, c.name) for c in driver.calls(d)] for d in facts.devices}
    answer = {"facts": facts, "outcomes": outcomes, "environ": dict(os.environ)}
except DriverError as error:
    answer = {"error": str(error), "code": error.code, "searched": error.searched}
sys.stdout.buffer.write(b"\\n" + msgspec.json.encode(answer))
"""


class Answer(Struct):
    """What the driver said in a process of its own."""

    facts: DriverFacts | None = None
    outcomes: dict[PhyId, list[CallOutcome]] = {}
    environ: dict[str, str] = {}
    error: str = ""
    code: int | None = None
    searched: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that were found; the driver must have opened."""
        assert self.facts is not None, self.error
        return self.facts.devices

    def outcome(self, phy_id: int, name: str) -> CallOutcome:
        """What one call gave for one chip."""
        return next(outcome for outcome in self.outcomes[PhyId(phy_id)] if outcome.call == name)

    def values(self, phy_id: int, name: str) -> dict[str, float]:
        """The readings of one call of one chip by field."""
        return {reading.field: reading.value for reading in self.outcome(phy_id, name).readings}


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled stand-ins are kept; test processes and runs share it."""
    directory = tmp_path_factory.getbasetemp().parent / "standin"
    build(directory)
    return directory


class Machine:
    """A machine with a stand-in runtime, in a state that tests set."""

    def __init__(self, builds: Path, tmp_path: Path) -> None:
        self._builds = builds
        self._scenario = tmp_path / "scenario"

    def ask(self, scenario: Scenario, *, missing: Sequence[str] = (), **environ: str) -> Answer:
        """Open the driver and make each call once for each chip."""
        for chip in scenario.chips:
            chip.acl_attributes.setdefault(301, (64 + chip.phy_id) << 30)
        scenario.write(self._scenario)
        library = build(self._builds, missing=tuple(missing)).acl
        return ask(library, NPUMOND_STANDIN_SCENARIO=str(self._scenario), **environ)


@pytest.fixture
def machine(builds: Path, tmp_path: Path) -> Machine:
    """A machine for one test."""
    return Machine(builds, tmp_path)


def ask(library: Path | str, **environ: str) -> Answer:
    """What the driver says of a library, in a process of its own."""
    command = [sys.executable, "-c", SCRIPT, str(library)]
    done = subprocess.run(command, env=os.environ | environ, cwd=ROOT, capture_output=True, timeout=30, check=True)
    return msgjson.decode(done.stdout.splitlines()[-1], type=Answer)


def compile_library(path: Path, source: str, *options: str) -> Path:
    """A shared library of a few lines of C."""
    text = path.with_suffix(".c")
    text.write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, text, *options], check=True, timeout=60)
    return path


# What the headers say.


@pytest.mark.parametrize(
    ("structure", "size"),
    [(acl_abi.UtilizationInfo, 24), (acl_abi.Uuid, 16), (acl_abi.MemInfo, 16), (acl_abi.ApiVersion, 12)],
)
def test_structures_have_the_sizes_that_gcc_gives_them(structure: type[ctypes.Structure], size: int) -> None:
    """Sizes by the reference, section 10."""
    assert ctypes.sizeof(structure) == size


def test_the_fields_of_the_utilisation_lie_where_gcc_puts_them() -> None:
    """Offsets by the reference, section 3.1."""
    info = acl_abi.UtilizationInfo
    fields = (info.cubeUtilization, info.vectorUtilization, info.aicpuUtilization, info.memoryUtilization)
    assert [field.offset for field in (*fields, info.utilizationExtend)] == [0, 4, 8, 12, 16]


def test_no_call_is_bound_that_changes_a_device_or_waits_for_it_without_end() -> None:
    """No reset, no finalise, no synchronisation without a limit, and no status query that proves nothing."""
    assert not [name for name in SIGNATURES if "Reset" in name or "Finalize" in name or name.endswith("Status")]
    assert "aclrtSynchronizeStream" not in SIGNATURES


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0, "ok"),
        (107001, "not_ready"),
        (107020, "timeout"),
        (200001, "unsupported"),
        (207000, "unsupported"),
        (207001, "error"),
        (207006, "denied"),
        (507010, "fault"),
        (507033, "error"),
        (507046, "timeout"),
        (507054, "fault"),
        (507899, "fault"),
        (999999, "error"),
    ],
)
def test_a_code_is_of_the_class_that_the_reference_gives_it(code: int, kind: OutcomeKind) -> None:
    """Above all, a full HBM is no fault."""
    assert outcome_kind(code) == kind


def test_a_code_is_told_with_its_name_and_what_the_name_hides() -> None:
    """507033 is what a full card answers."""
    assert (
        describe(507033)
        == "ACL_ERROR_RT_DEV_SETUP_ERROR (507033): it cannot be opened; its HBM may be full, which is no fault"
    )
    assert describe(123) == "aclError 123"
    assert all(error.name.startswith("ACL_ERROR_") for error in ERRORS.values())


def test_what_a_library_says_becomes_one_printable_line() -> None:
    """Line ends, control characters, bytes that are no text, and a length."""
    assert printable(b"a\x1b[1m\r\n b\xff\0rest") == "a [1m b\N{REPLACEMENT CHARACTER}"
    assert len(printable(b"x" * 10000)) == acl_abi.MAX_TEXT


@pytest.mark.parametrize(
    ("chip", "generation"),
    [
        ("910B3", "910B"),
        ("910B2C", "910B"),
        ("910B4-1", "910B"),
        ("910B", "910"),
        ("910A", "910"),
        ("910ProB", "910"),
        ("910_9391", "A3"),
        ("950PR_9599", "950"),
        ("310P3", "310P"),
        ("310B1", "310B"),
        ("310", "310"),
        ("910X", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_generation_follows_from_the_soc_name(chip: str, generation: Generation) -> None:
    """A bare 910B is of the first generation."""
    assert generation_of(chip) == generation


# Finding the library.


def test_the_folders_of_the_environment_come_first_and_the_new_name_before_the_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LD_LIBRARY_PATH, the sourced CANN, the usual places, the loader."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/a:/b/")
    monkeypatch.setenv("ASCEND_HOME_PATH", "/cann")
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", "/cann")
    found = list(candidates())
    assert found[:6] == [f"{folder}/{name}" for folder in ("/a", "/b", "/cann/lib64") for name in NAMES]
    assert "/usr/local/Ascend/cann/lib64/libacl_rt.so" in found
    assert found[-2:] == list(NAMES)


NAMES = ("libacl_rt.so", "libascendcl.so")


def test_the_loader_is_not_asked_when_its_path_leads_to_stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the library to link against for a runtime."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/cann/devlib")
    assert not set(NAMES) & set(candidates())


@pytest.mark.parametrize("folder", ["devlib", "stub", "devlib/linux/x86_64", "lib64/stub/linux"])
def test_libraries_to_link_against_are_never_loaded(tmp_path: Path, folder: str) -> None:
    """Not even when the configuration names one, or a link leads there."""
    stub = tmp_path / folder / "libacl_rt.so"
    stub.parent.mkdir(parents=True)
    stub.write_bytes(b"")
    link = tmp_path / "libacl_rt.so"
    link.symlink_to(stub)
    for path in (stub, link):
        with pytest.raises(DriverError) as caught:
            load(str(path))
        assert caught.value.searched == (f"{path}: not tried, libraries there are for linking only",)


def test_every_path_tried_is_told_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing library is explained by what was looked for."""
    (tmp_path / "libacl_rt.so").write_bytes(b"no ELF")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(DriverError) as caught:
        load(None)
    searched = caught.value.searched
    assert searched[0].startswith(f"{tmp_path}/libacl_rt.so: ")
    assert searched[1] == f"{tmp_path}/libascendcl.so: not there"


@pytest.mark.slow
def test_what_the_library_needs_is_found_beside_it(tmp_path: Path) -> None:
    """A service has no LD_LIBRARY_PATH, and one set inside the process comes too late."""
    compile_library(
        tmp_path / "libstandin_needed.so", "int needed(void) { return 0; }", "-Wl,-soname,libstandin_needed.so"
    )
    source = "int needed(void); int aclInit(const char *p) { (void)p; return needed(); }"
    library = compile_library(tmp_path / "libacl_rt.so", source, f"-L{tmp_path}", "-lstandin_needed")
    assert "has no aclrtGetDeviceCount" in ask(library).error


# Reading a machine.


def test_values_are_those_of_the_chips(machine: Machine) -> None:
    """Identity and readings of every chip, under its physical number."""
    scenario = permute_ids(profile("910b"))
    answer = machine.ask(scenario)
    for chip in scenario.chips:
        device = next(d for d in answer.devices if d.phy_id == chip.phy_id)
        assert (device.logic_id, device.chip, device.generation) == (chip.logic_id, "910B3", "910B")
        assert device.aicore_count == chip.acl_attributes[101]
        assert device.uuid == (chip.acl_uuid or b"").hex().upper()
        assert device.pci_address.startswith("0000:")
        assert answer.values(chip.phy_id, MEMORY) == {"value": chip.acl_attributes[301]}
        assert answer.values(chip.phy_id, UTILIZATION) == {
            "cubeUtilization": chip.utilization[2],
            "vectorUtilization": chip.utilization[12],
            "aicpuUtilization": chip.utilization[3],
        }
    assert [d.logic_id for d in answer.devices if d.first_of_node] == [0]
    assert answer.facts is not None
    assert answer.facts.driver_version == scenario.driver_version
    assert answer.facts.searched[-1].endswith(f"ACL API 1.17.0, CANN runtime 8.5.0; physical ids by {MAPPING}")


def test_an_item_of_minus_one_is_absent(machine: Machine) -> None:
    """The first 910 has no vector unit, and memory is never told."""
    scenario = profile("910b")
    for chip in scenario.chips:
        del chip.utilization[12]
    assert set(machine.ask(scenario).values(0, UTILIZATION)) == {"cubeUtilization", "aicpuUtilization"}


def test_a_lost_chip_is_a_fault_and_costs_the_others_nothing(machine: Machine) -> None:
    """Utilisation succeeds with nothing in it, which proves nothing; the memory's size shows the fault."""
    answer = machine.ask(with_lost_chip(profile("910b"), 1))
    assert answer.outcome(1, UTILIZATION).kind == "unproven"
    memory = answer.outcome(1, MEMORY)
    assert (memory.kind, memory.code, memory.readings) == ("fault", 507899, ())
    assert "ACL_ERROR_RT_DRV_INTERNAL_ERROR (507899)" in memory.detail
    assert answer.outcome(0, MEMORY).kind == "ok"


def test_a_share_of_a_split_chip_has_no_utilisation(machine: Machine) -> None:
    """The vendor calls the figure meaningless there."""
    scenario = profile("910b")
    scenario.chip(1).acl_attributes[501] = 1
    answer = machine.ask(scenario)
    outcome = answer.outcome(1, UTILIZATION)
    assert (outcome.kind, outcome.readings) == ("unsupported", ())
    assert "split" in outcome.detail
    assert answer.outcome(0, UTILIZATION).kind == "ok"


def test_visible_devices_hide_and_renumber_nothing(machine: Machine) -> None:
    """npumond watches the machine; and an ill-formed list would make every call fail."""
    answer = machine.ask(profile("910b"), ASCEND_RT_VISIBLE_DEVICES="3,1")
    assert [(d.logic_id, d.phy_id) for d in answer.devices] == [(i, i) for i in range(8)]


@pytest.mark.slow
def test_old_cann_tells_physical_numbers_by_attribute(machine: Machine) -> None:
    """Before the mapping calls there was attribute 402."""
    scenario = permute_ids(profile("910b"))
    for chip in scenario.chips:
        chip.acl_attributes[402] = chip.phy_id
    answer = machine.ask(scenario, missing=(MAPPING, "aclsysGetVersionStr", "aclrtDeviceGetUuid"))
    assert {d.logic_id: d.phy_id for d in answer.devices} == {c.logic_id: c.phy_id for c in scenario.chips}
    assert {d.uuid for d in answer.devices} == {""}
    assert answer.facts is not None
    assert answer.facts.driver_version == ""


@pytest.mark.slow
def test_on_a3_the_attribute_names_the_chip_of_two_dies_and_is_not_taken(machine: Machine) -> None:
    """Two devices with one number would be one series."""
    scenario = profile("a3")
    for chip in scenario.chips:
        chip.acl_attributes[402] = chip.phy_id // 2
    answer = machine.ask(scenario, missing=(MAPPING,))
    assert all(int(d.phy_id) == int(d.logic_id) for d in answer.devices)
    assert answer.facts is not None
    assert "physical ids unknown to this CANN" in answer.facts.searched[-1]


def test_a_chip_whose_number_cannot_be_had_is_a_failed_chip(machine: Machine) -> None:
    """It is counted as expected and named, and the others are there."""
    answer = machine.ask(profile("910b").rc(MAPPING, 507899, logic=2))
    assert answer.facts is not None
    assert [chip.position for chip in answer.facts.failed] == ["device 2"]
    assert "507899" in answer.facts.failed[0].reason
    assert [d.phy_id for d in answer.devices] == [0, 1, 3, 4, 5, 6, 7]
    assert answer.facts.expected == 8


@pytest.mark.slow
def test_a_missing_function_is_unsupported(machine: Machine) -> None:
    """The set of functions grew with each CANN."""
    outcome = machine.ask(profile("910b"), missing=(UTILIZATION,)).outcome(0, UTILIZATION)
    assert (outcome.kind, outcome.detail) == ("unsupported", f"the library has no {UTILIZATION}")


def test_an_attribute_that_this_cann_does_not_know_is_unsupported(machine: Machine) -> None:
    """It answers "invalid parameter" to numbers that came later."""
    scenario = profile("910b").rc("aclrtGetDeviceInfo", 107000, subtype=301)
    assert machine.ask(scenario).outcome(0, MEMORY).kind == "unsupported"


def test_memory_that_is_no_hbm_is_not_told_as_hbm(machine: Machine) -> None:
    """310P has DDR alone."""
    scenario = profile("310p_duo")
    scenario.soc_name = "Ascend310P3"
    assert [outcome.call for outcome in machine.ask(scenario).outcomes[PhyId(0)]] == [UTILIZATION]


def test_a_machine_without_a_driver_is_told_as_such(machine: Machine) -> None:
    """The runtime cannot even read the name of the chip."""
    scenario = profile("910b")
    scenario.soc_name = None
    answer = machine.ask(scenario)
    assert answer.code == 500000
    assert "is the NPU driver loaded?" in answer.error
    assert answer.searched[0].endswith("libacl_rt.so: loaded")


def test_a_machine_without_a_device_is_told_as_such(machine: Machine) -> None:
    """No devices is an error code and not a count of zero."""
    answer = machine.ask(Scenario())
    assert (answer.code, "ACL_ERROR_RT_NO_DEVICE" in answer.error) == (207004, True)


def test_the_runtime_keeps_its_logs_to_itself(machine: Machine, tmp_path: Path) -> None:
    """No files below the user's home, nothing on standard output, no wait at the exit."""
    environ = machine.ask(profile("910b"), TMPDIR=str(tmp_path), ASCEND_SLOG_PRINT_TO_STDOUT="1").environ
    assert Path(environ["ASCEND_PROCESS_LOG_PATH"]).parent == tmp_path
    assert Path(environ["ASCEND_PROCESS_LOG_PATH"]).stat().st_mode & 0o777 == 0o700
    assert environ["ASCEND_GLOBAL_LOG_LEVEL"] == "4"
    assert environ["ASCEND_LOG_DEVICE_FLUSH_TIMEOUT"] == "0"
    assert "ASCEND_SLOG_PRINT_TO_STDOUT" not in environ


# A runtime newer than we know, or out of its mind.

ODD = """
int aclInit(const char *p) { (void)p; return 100002; }
const char *aclrtGetSocName(void) { return "Ascend910B3"; }
int aclrtGetDeviceCount(unsigned *count) { *count = 1; return 0; }
int aclrtGetPhyDevIdByUserDevId(int user, int *phy) { *phy = user; return 0; }
int aclrtGetDeviceInfo(unsigned d, int a, long long *v) { (void)d; *v = a == 501 ? 0 : -5; return 0; }
int aclrtGetDeviceUtilizationRate(int device, int *info)
{
    (void)device;
    for (int i = 0; i < WORDS; i++)
        info[i] = i == 1 ? 255 : i == 3 ? -1 : 50;
    return 0;
}
"""


def test_a_structure_larger_than_ours_is_rejected(tmp_path: Path) -> None:
    """What it wrote is not to be trusted, and did no harm."""
    outcome = ask(compile_library(tmp_path / "libacl_rt.so", ODD, "-DWORDS=16")).outcome(0, UTILIZATION)
    assert (outcome.kind, outcome.readings) == ("rejected", ())
    assert outcome.detail.startswith(f"{UTILIZATION} wrote 40 bytes beyond the 24")


def test_values_that_cannot_be_true_are_left_out(tmp_path: Path) -> None:
    """Good values beside a bad one are still good; a repeated initialisation is none of them."""
    answer = ask(compile_library(tmp_path / "libacl_rt.so", ODD, "-DWORDS=4"))
    assert answer.values(0, UTILIZATION) == {"cubeUtilization": 50, "aicpuUtilization": 50}
    assert answer.outcome(0, UTILIZATION).detail == "left out: vectorUtilization 255"
    assert answer.outcome(0, MEMORY).kind == "rejected"
    assert answer.devices[0].aicore_count is None
