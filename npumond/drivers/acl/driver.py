"""The ACL runtime as a second source, for machines that have CANN but no DCMI.

It knows little next to DCMI: how many chips there are, what they are, how busy they are and how much memory they have.
Only calls are made that need no context, so nothing is opened on a chip and npumond is in nobody's process list.

Why not ``aclrtQueryDeviceStatus`` for health: it reads a flag that this process's own failed tasks set. A process
without tasks is told "normal" for ever, whatever state the chip is in.

Source: API reference of CANN 7.0 to 9.1, device management; ``src/acl/aclrt_impl/device.cpp`` of the open CANN runtime.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from npumond.drivers.acl.abi import (
    AICORE_COUNT,
    INVALID_PARAM,
    IS_VIRTUAL,
    OUT,
    PARAM_INVALID,
    PHY_CHIP_ID,
    REPEAT_INITIALIZE,
    SUCCESS,
    TOTAL_GLOBAL_MEMORY,
    Acl,
    ApiVersion,
    CallError,
    Int32,
    Int64,
    Out,
    Text,
    UInt32,
    UtilizationInfo,
    Uuid,
    describe,
)
from npumond.drivers.driver import Call
from npumond.errors import DriverError
from npumond.model import CallOutcome, Device, DriverFacts, FailedChip, Generation, LogicId, OutcomeKind, PhyId, Reading

MAX_DEVICES: Final = 256
"""More than any server holds; a count beyond it is garbage."""

MAX_MEMORY_BYTES: Final = 4 << 40
"""More than any chip holds; a size beyond it is garbage."""


# Finding and loading the library.

LIBRARIES: Final = ("libacl_rt.so", "libascendcl.so")
"""The second is what CANN had before the split, and a compatibility library since then."""

CANN_HOMES: Final = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/nnrt/latest",
    "/usr/local/Ascend/latest",
)
USER_HOMES: Final = ("Ascend/cann", "Ascend/ascend-toolkit/latest", "Ascend/nnrt/latest")
"""Below ``$HOME``: where CANN installs itself for users other than root."""

STUB_FOLDERS: Final = frozenset({"devlib", "stub", "stubs"})
"""Folders with libraries to link against: same names, same symbols, no content. They may stand in LD_LIBRARY_PATH."""


def prepare_environment(log_folder: str) -> None:
    """Set what the runtime reads from the environment while it is loaded. To be called before `load`.

    ``ASCEND_RT_VISIBLE_DEVICES`` renumbers the devices of a process. It is documented as not usable together with DCMI
    and hccn_tool, which do not know it, and an ill-formed one makes every call fail. npumond watches the machine, so
    its numbers must be the machine's. The runtime reads it once, when it is initialised.

    The runtime writes a log file for each process below the user's home, and more on standard output when asked to.
    """
    os.environ.pop("ASCEND_RT_VISIBLE_DEVICES", None)
    for name in ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT"):
        os.environ.pop(name, None)
    os.environ["ASCEND_PROCESS_LOG_PATH"] = log_folder
    os.environ["ASCEND_GLOBAL_LOG_LEVEL"] = "4"  # off; what matters comes back as a code and aclGetRecentErrMsg
    os.environ["ASCEND_LOG_DEVICE_FLUSH_TIMEOUT"] = "0"  # the exit waits 2 s for the device's log otherwise


def load(explicit: str | None) -> tuple[Acl, str, tuple[str, ...]]:
    """Load the ACL runtime; a configured path wins over the search. Returns it, its path, and what was tried.

    Raises `DriverError` with every path tried when there is none, which is normal on a machine without CANN.
    """
    searched: list[str] = []
    for path in (explicit,) if explicit else candidates():
        library, came_of_it = _try_path(path)
        searched.append(f"{path}: {came_of_it}")
        if library is not None:
            return Acl(library), path, tuple(searched)
    wanted = explicit or " or ".join(LIBRARIES)
    raise DriverError(f"no ACL runtime: {wanted} could not be loaded", searched=tuple(searched))


def candidates() -> Iterator[str]:
    """Paths of the library in the order in which they are tried.

    Why folder by folder and not name by name: the first folder that has either is the CANN that the environment points
    to, and an older CANN there is meant more than a newer one elsewhere.
    """
    for folder in dict.fromkeys(_folders()):
        for name in LIBRARIES:
            yield f"{folder}/{name}"
    if not any(_is_stub(Path(folder)) for folder in _library_path()):
        yield from LIBRARIES  # by the loader's cache; it walks LD_LIBRARY_PATH too, where a stub would be taken


def _folders() -> Iterator[str]:
    yield from _library_path()
    homes = [os.environ.get("ASCEND_HOME_PATH", ""), os.environ.get("ASCEND_TOOLKIT_HOME", ""), *CANN_HOMES]
    if user := os.environ.get("HOME"):
        homes += [f"{user}/{home}" for home in USER_HOMES]
    yield from (f"{home.rstrip('/')}/lib64" for home in homes if home)


def _library_path() -> list[str]:
    return [folder.rstrip("/") for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.strip("/")]


def _is_stub(path: Path) -> bool:
    return not STUB_FOLDERS.isdisjoint(path.parts) or not STUB_FOLDERS.isdisjoint(path.resolve().parts)


def _try_path(path: str) -> tuple[ctypes.CDLL | None, str]:
    """The library, or None, and what came of it."""
    if "/" in path and not Path(path).exists():
        return None, "not there"
    if "/" in path and _is_stub(Path(path)):
        return None, "not tried, libraries there are for linking only"
    try:
        return _load_with_needs(path), "loaded"
    except OSError as error:
        return None, str(error)


_MODE: Final = os.RTLD_LAZY | ctypes.RTLD_GLOBAL  # the runtime's plug-ins expect its symbols to be global
_NOT_FOUND: Final = re.compile(r"^([^/\s]+): cannot open shared object file")
_DRIVER_FOLDERS: Final = tuple(f"/usr/local/Ascend/driver/lib64{part}" for part in ("", "/common", "/driver"))
_MAX_NEEDS: Final = 64
"""The runtime stands on some twenty libraries."""


def _load_with_needs(path: str, needed_by: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Load a library and, by their paths, those it needs that the loader does not find. Raises `OSError`.

    A service has not sourced CANN's ``set_env.sh``, and LD_LIBRARY_PATH is read when a process starts and never again.
    """
    for _ in range(_MAX_NEEDS):
        try:
            return ctypes.CDLL(path, mode=_MODE)
        except OSError as error:
            needed = _beside(path, str(error))
            if needed is None or needed in needed_by:
                raise
            _load_with_needs(needed, (*needed_by, path))
    raise OSError(f"{path} needs more than {_MAX_NEEDS} libraries")


def _beside(path: str, complaint: str) -> str | None:
    """Where the library is that the loader did not find; None when that is not what it complains of."""
    missing = _NOT_FOUND.match(complaint)
    if missing is None or "/" not in path or missing[1] == Path(path).name:
        return None
    places = (Path(folder) / missing[1] for folder in (str(Path(path).parent), *_DRIVER_FOLDERS))
    return next((str(place) for place in places if place.exists() and not _is_stub(place)), None)


# What a chip is.

_GENERATIONS: Final[tuple[tuple[str, Generation], ...]] = (
    (r"950", "950"),
    (r"910_93", "A3"),
    (r"910B\d", "910B"),
    (r"910(A|B|Pro[AB]|PremiumA)?$", "910"),
    (r"310P", "310P"),
    (r"310B", "310B"),
    (r"310$", "310"),
)
"""First match counts. A first-generation chip may call itself ``910B``, without a digit."""


def generation_of(chip: str) -> Generation:
    """Chip family by the SoC name without ``Ascend``, for instance ``910B3`` or ``910_9391``."""
    return next((family for pattern, family in _GENERATIONS if re.match(pattern, chip)), "unknown")


def _soc_name(acl: Acl) -> str:
    """``Ascend910B3`` -> ``910B3``. Always the name of device 0: a machine holds one kind. Empty when unknown."""
    try:
        return acl.text("aclrtGetSocName").removeprefix("Ascend")
    except CallError:
        return ""


def _attribute(acl: Acl, device_id: int, attribute: int) -> int:
    """One attribute of a device. Raises `CallError`, ``unsupported`` for one that this CANN does not know yet."""
    try:
        return int(acl.get("aclrtGetDeviceInfo", Int64, device_id, attribute, OUT).value)
    except CallError as error:
        if error.code not in (INVALID_PARAM, PARAM_INVALID):
            raise
        raise CallError("unsupported", error.code, error.detail) from error  # its answer to an unknown attribute


def _attribute_or_none(acl: Acl, device_id: int, attribute: int) -> int | None:
    try:
        return _attribute(acl, device_id, attribute)
    except CallError:
        return None


def _aicore_count(acl: Acl, device_id: int) -> int | None:
    count = _attribute_or_none(acl, device_id, AICORE_COUNT)
    return count if count is not None and 0 < count <= 1024 else None


_PCI_ADDRESS: Final = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]")


def _pci_address(acl: Acl, device_id: int) -> str:
    """``domain:bus:device.function``; empty on chips that are not attached by PCIe or too old to say."""
    try:
        raw: bytes = acl.get("aclrtDeviceGetPCIBusId", Text, device_id, OUT, 32).value
    except CallError:
        return ""
    address = raw.decode("ascii", "replace").upper()
    return address if _PCI_ADDRESS.fullmatch(address) else ""


def _uuid(acl: Acl, device_id: int) -> str:
    """32 hexadecimal digits; empty where there is none (before A2). Not DCMI's die id, as far as is known."""
    try:
        raw = bytes(acl.get("aclrtDeviceGetUuid", Uuid, device_id, OUT).bytes)
    except CallError:
        return ""
    return raw.hex().upper() if any(raw) else ""


def _mapped_phy_id(acl: Acl, device_id: int) -> int:
    return int(acl.get("aclrtGetPhyDevIdByUserDevId", Int32, device_id, OUT).value)


def _chip_attribute(acl: Acl, device_id: int) -> int:
    return _attribute(acl, device_id, PHY_CHIP_ID)


PhyIds = dict[int, PhyId]


def _phy_ids(acl: Acl, count: int, generation: Generation) -> tuple[PhyIds, tuple[FailedChip, ...], str]:
    """Physical numbers by device id, the chips that failed to say, and where the numbers are from.

    Attribute 402 is the number of the physical chip: on A3 the two dies of a chip share it, so that it stands in for
    the mapping on other chips only, and only when no two devices have the same.
    """
    ways: list[tuple[str, Callable[[Acl, int], int]]] = [("aclrtGetPhyDevIdByUserDevId", _mapped_phy_id)]
    if generation != "A3":
        ways.append(("aclrtGetDeviceInfo[402]", _chip_attribute))
    for name, ask in ways:
        answer = _ask_all(acl, count, ask)
        if answer is not None and len(set(answer[0].values())) == len(answer[0]):
            return *answer, f"physical ids by {name}"
    own = {device_id: PhyId(device_id) for device_id in range(count)}
    return own, (), "physical ids unknown to this CANN; taken to equal the logical ones, which containers may renumber"


def _ask_all(acl: Acl, count: int, ask: Callable[[Acl, int], int]) -> tuple[PhyIds, tuple[FailedChip, ...]] | None:
    """Physical numbers by device id, and the chips that failed to say. None when this CANN does not know the way."""
    found: PhyIds = {}
    failed: list[FailedChip] = []
    for device_id in range(count):
        try:
            found[device_id] = _phy_id(ask(acl, device_id))
        except CallError as error:
            if error.kind == "unsupported":
                return None
            failed.append(FailedChip(f"device {device_id}", error.detail))
    return found, tuple(failed)


def _phy_id(number: int) -> PhyId:
    if 0 <= number < MAX_DEVICES:
        return PhyId(number)
    raise CallError("rejected", SUCCESS, f"its physical number {number} cannot be true")


# The calls of a round.


class _Answer(Struct, frozen=True):
    """What a row's reader made of a vendor call that succeeded."""

    readings: tuple[Reading, ...] = ()
    unproven: str = ""
    """Why the values prove nothing, when they do not."""
    rejected: str = ""
    """What could not be true, and was left out."""


class _Row(Struct, frozen=True):
    """One row of the call table."""

    call: Call
    read: Callable[[Acl, int], _Answer]
    """Makes the call for a device id. Raises `CallError` when there is no answer."""
    not_on: tuple[Generation, ...] = ()
    """Chip families for which the value would not mean what its metric says."""
    whole_chips_only: bool = False
    """Whether the value means nothing on a share of a split chip."""


_UTILIZATION_FIELDS: Final = ("cubeUtilization", "vectorUtilization", "aicpuUtilization", "memoryUtilization")


def _read_utilization(acl: Acl, device_id: int) -> _Answer:
    """Percent. The call succeeds even when each of its items failed; those are -1 and make no reading."""
    info = acl.get("aclrtGetDeviceUtilizationRate", UtilizationInfo, device_id, OUT)
    values = {field: int(getattr(info, field)) for field in _UTILIZATION_FIELDS}
    told = {field: value for field, value in values.items() if value != -1}
    good = tuple(Reading(field, value) for field, value in told.items() if 0 <= value <= 100)
    bad = ", ".join(f"{field} {value}" for field, value in told.items() if not 0 <= value <= 100)
    return _Answer(good, unproven="" if told else "every item is -1: failed or not supported", rejected=bad)


def _read_total_memory(acl: Acl, device_id: int) -> _Answer:
    """Bytes of the chip's memory, as its allocator sees it: without what the system keeps for itself."""
    size = _attribute(acl, device_id, TOTAL_GLOBAL_MEMORY)
    if 0 < size <= MAX_MEMORY_BYTES:
        return _Answer((Reading("value", size),))
    return _Answer(rejected=f"a memory of {size} bytes")


_ROWS: Final = (
    _Row(Call(name="aclrtGetDeviceUtilizationRate", lane="fast"), _read_utilization, whole_chips_only=True),
    # Chips with DDR alone: their memory is no HBM, and the metric that this row feeds is.
    _Row(Call(name="aclrtGetDeviceInfo[301]", lane="fast"), _read_total_memory, not_on=("310", "310B", "310P")),
)
_BY_NAME: Final = {row.call.name: row for row in _ROWS}


class AclDriver:
    """The ACL runtime behind the `Driver` protocol."""

    def __init__(self, library: str | None = None) -> None:
        self._explicit = library
        self._acl: Acl | None = None
        self._split: frozenset[LogicId] = frozenset()

    def open(self) -> DriverFacts:
        """Load, initialise, and identify every chip.

        Raises `DriverError` without a library, or when the runtime sees no driver or no device.
        """
        prepare_environment(_log_folder())
        acl, path, searched = load(self._explicit)
        initialise(acl, searched)
        count = _device_count(acl, searched)
        chip = _soc_name(acl)
        phy_ids, failed, origin = _phy_ids(acl, count, generation_of(chip))
        first = min(phy_ids, default=None)
        devices = tuple(_identify(acl, chip, number, phy_id, number == first) for number, phy_id in phy_ids.items())
        self._acl = acl
        self._split = frozenset(d.logic_id for d in devices if _attribute_or_none(acl, d.logic_id, IS_VIRTUAL))
        return DriverFacts(
            backend="acl",
            api="acl",
            library=path,
            driver_version=_package_version(acl, b"driver"),
            devices=devices,
            failed=failed,
            searched=(*searched, f"{path}: {_versions(acl)}; {origin}"),
        )

    def calls(self, device: Device) -> tuple[Call, ...]:
        """The rows of the table that mean something on this kind of chip."""
        return tuple(row.call for row in _ROWS if device.generation not in row.not_on)

    def call(self, device: Device, name: str) -> CallOutcome:
        """Make one call. On a share of a split chip, utilisation is not asked for: the vendor calls it meaningless."""
        row = _BY_NAME[name]
        if row.whole_chips_only and device.logic_id in self._split:
            return CallOutcome(name, "unsupported", SUCCESS, 0.0, (), "a share of a split chip: means nothing there")
        started = time.perf_counter()
        try:
            answer = row.read(self._opened(), device.logic_id)
        except CallError as error:
            return CallOutcome(name, error.kind, error.code, time.perf_counter() - started, (), error.detail)
        return _outcome(name, answer, time.perf_counter() - started)

    def _opened(self) -> Acl:
        if self._acl is None:
            raise DriverError("the ACL driver has not been opened")
        return self._acl


def _outcome(name: str, answer: _Answer, duration_s: float) -> CallOutcome:
    """``rejected`` only when nothing is left; good values beside a bad one are still good, and the detail names it."""
    detail = f"left out: {answer.rejected}" if answer.rejected else answer.unproven
    kind: OutcomeKind = "ok"
    if not answer.readings:
        kind = "rejected" if answer.rejected else "unproven"
    return CallOutcome(name, kind, SUCCESS, duration_s, answer.readings, detail)


def initialise(acl: Acl, searched: tuple[str, ...] = ()) -> None:
    """``aclInit`` with defaults; a repeat is fine. Raises `DriverError` when there is no driver or no device.

    Why never a configuration file: one with a default device makes calls open a context that need none.
    """
    try:
        code = acl.rc("aclInit", None)
    except CallError as error:
        raise DriverError(f"not an ACL runtime: {error.detail}", searched=searched) from error
    if code not in (SUCCESS, REPEAT_INITIALIZE):
        raise DriverError(f"aclInit gave {describe(code)}; is the NPU driver loaded?", code, searched)


def _device_count(acl: Acl, searched: tuple[str, ...]) -> int:
    try:
        count = int(acl.get("aclrtGetDeviceCount", UInt32, OUT).value)
    except CallError as error:
        raise DriverError(error.detail, error.code, searched) from error
    if count > MAX_DEVICES:
        raise DriverError(f"aclrtGetDeviceCount gave {count}, which cannot be true", searched=searched)
    return count


def _identify(acl: Acl, chip: str, device_id: int, phy_id: PhyId, first: bool) -> Device:
    """One chip. ACL knows no cards, so each chip stands for a card of its own, with the physical number."""
    return Device(
        phy_id=phy_id,
        logic_id=LogicId(device_id),
        card_id=phy_id,
        chip_id=0,
        chip=chip,
        generation=generation_of(chip),
        uuid=_uuid(acl, device_id),
        pci_address=_pci_address(acl, device_id),
        aicore_count=_aicore_count(acl, device_id),
        first_of_node=first,
    )


def _versions(acl: Acl) -> str:
    runtime = _package_version(acl, b"runtime")
    return f"ACL API {_api_version(acl)}" + (f", CANN runtime {runtime}" if runtime else "")


def _api_version(acl: Acl) -> str:
    offsets: Sequence[Out] = (Out(0), Out(4), Out(8))
    try:
        version = acl.get("aclrtGetVersion", ApiVersion, *offsets)
    except CallError:
        return "unknown"
    return f"{version.major}.{version.minor}.{version.patch}"


def _package_version(acl: Acl, package: bytes) -> str:
    """Version of a package by its name in CANN's ``share/info``; empty before CANN 9.0, which cannot say."""
    try:
        raw: bytes = acl.get("aclsysGetVersionStr", Text, package, OUT).value
    except CallError:
        return ""
    return raw.decode("ascii", "replace") if raw.isascii() else ""


def _log_folder() -> str:
    """Where the runtime's log files go: one folder per user, so that restarts do not leave more and more of them.

    A folder of that name that is not ours alone is not used: what root writes there could be led elsewhere.
    """
    folder = Path(tempfile.gettempdir()) / f"npumond-acl-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if state.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink() and not state.st_mode & 0o077:
        return str(folder)
    return tempfile.mkdtemp(prefix="npumond-acl-")
