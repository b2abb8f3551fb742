"""Which chips there are and who they are, by either API.

One chip that cannot be identified is a `FailedChip` for its place and nothing to the others. A number that would name a
series wrongly is worse than a missing chip: without a physical id there is no device. What merely describes a chip
(name, die, PCI address, board) may be missing.

Source: reference dcmi.md, section 3 (v1) and 12 (v2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ctypes import c_int, c_ubyte, c_uint
from functools import partial
from typing import Any

from msgspec import Struct, structs

from npumond.drivers.dcmi import structures as s
from npumond.drivers.dcmi.calling import Caller, NoSymbolError, OverrunError
from npumond.drivers.dcmi.codes import NOT_SUPPORT, OK, kind_of, meaning_of
from npumond.drivers.dcmi.rows import ALL_ONES, Chip
from npumond.drivers.text import sanitised
from npumond.errors import DriverError
from npumond.model import Device, FailedChip, Generation, LogicId, PhyId

MOST_CARDS = 64
MOST_CHIPS_PER_CARD = 4
MOST_IDS = 256
"""Limits of the driver's own exporter; an answer beyond them is not believed."""
MOST_AICORES = 1024
"""Chips have some dozens; a larger number is not believed."""

_NPU = 0
_VDIE, _DDIE = 1, 2
_A3_BOARDS = frozenset((0xB0, 0xB1, 0xB2, 0xB3, 0xB4, 0x81, 0x83, 0xD1, 0xD3))
_LINKS_FROM_2 = frozenset((0x1C, 0x1D))
"""Main boards (Atlas 9000 A3) whose HCCS links begin with 2."""

_LIST = c_int * MOST_CARDS
_TEXT = c_ubyte * 64


class Found(Struct, frozen=True):
    """What discovery found."""

    chips: tuple[Chip, ...]
    failed: tuple[FailedChip, ...]


class _Unidentified(Exception):
    """The chip cannot be told from the others; the message says which call failed and how."""


class _Place(Struct, frozen=True):
    """Where a chip is and how either API asks about it."""

    position: str
    ids: tuple[int, ...]
    """Leading arguments of every call."""
    card_id: int
    chip_id: int


class _Names(Struct, frozen=True):
    """What the two APIs call the same questions."""

    chip_info: str
    die: str
    die_kind: int
    pcie: str
    board: str
    mainboard: str


_V1 = _Names(
    "dcmi_get_device_chip_info_v2",
    "dcmi_get_device_die_v2",
    _VDIE,
    "dcmi_get_device_pcie_info_v2",
    "dcmi_get_device_board_info",
    "dcmi_get_mainboard_id",
)
_V2 = _Names(
    "dcmiv2_get_device_chip_info",
    "dcmiv2_get_device_die_id",
    _DDIE,
    "dcmiv2_get_device_pcie_info",
    "dcmiv2_get_device_board_info",
    "dcmiv2_get_mainboard_id",
)


# ---- v1: cards and chips on them ----


def discover_v1(caller: Caller) -> Found:
    """Every chip of every card; the management controller and the CPU of a card are not counted among them."""
    chips: list[Chip] = []
    failed: list[FailedChip] = []
    for entry, card_id in enumerate(_card_list(caller)):
        if not 0 <= card_id < MOST_IDS:
            failed.append(FailedChip(f"card list entry {entry}", f"the driver could not initialise it (id {card_id})"))
            continue
        try:
            count = _chips_on(caller, card_id)
        except _Unidentified as error:
            failed.append(FailedChip(f"card {card_id}", str(error)))
            continue
        for chip_id in range(count):
            place = _Place(f"card {card_id} chip {chip_id}", (card_id, chip_id), card_id, chip_id)
            _identify(place.position, partial(_chip_v1, caller, place), chips, failed)
    return Found(_with_firsts(chips), tuple(failed))


def _card_list(caller: Caller) -> list[int]:
    count, cards = caller.take(c_int), caller.take(_LIST)
    _require(caller, "dcmi_get_card_list", count, cards, MOST_CARDS)
    return _believed("dcmi_get_card_list", count.value, cards)


def _chips_on(caller: Caller, card_id: int) -> int:
    count = caller.take(c_int)
    _must(caller, "dcmi_get_device_num_in_card", card_id, count)
    number = int(count.value)
    if not 1 <= number <= MOST_CHIPS_PER_CARD:
        raise _Unidentified(f"dcmi_get_device_num_in_card says {number} chips")
    return number


def _chip_v1(caller: Caller, place: _Place) -> Chip | None:
    """The chip, or None where something else than an NPU sits in this place."""
    if not _is_npu(caller, place):
        return None
    logic = caller.take(c_int)
    _must(caller, "dcmi_get_device_logic_id", logic, *place.ids)
    logic_id = _in_range("dcmi_get_device_logic_id", logic.value)
    phy = caller.take(c_uint)
    _must(caller, "dcmi_get_device_phyid_from_logicid", logic_id, phy)
    phy_id = _in_range("dcmi_get_device_phyid_from_logicid", phy.value)
    info = _chip_info_v1(caller, place)
    board_id = _board_id(caller, place, _V1)
    chip = sanitised(bytes(info.chip_name)) if info else ""
    return _described(caller, place, _V1, logic_id, phy_id, info, board_id, generation_of(chip, board_id))


def _is_npu(caller: Caller, place: _Place) -> bool:
    kind = caller.take(c_int)
    code = _ask(caller, "dcmi_get_device_type", *place.ids, kind)
    if code == NOT_SUPPORT:
        return True
    if code != OK:
        raise _Unidentified(f"dcmi_get_device_type: {meaning_of(code)}")
    return bool(kind.value == _NPU)


def _chip_info_v1(caller: Caller, place: _Place) -> Any:
    """The newer call first: older drivers have only the other."""
    return _chip_info(caller, place, _V1.chip_info, s.dcmi_chip_info_v2) or _chip_info(
        caller, place, "dcmi_get_device_chip_info", s.dcmi_chip_info
    )


# ---- v2: devices by logical id ----


def discover_v2(caller: Caller) -> Found:
    """Every device of the list. v2 has no cards: the slot stands for one where the driver knows it."""
    chips: list[Chip] = []
    failed: list[FailedChip] = []
    for entry, dev_id in enumerate(_device_list(caller)):
        if not 0 <= dev_id < MOST_IDS:
            failed.append(FailedChip(f"device list entry {entry}", f"the driver could not initialise it (id {dev_id})"))
        else:
            _identify(f"device {dev_id}", partial(_chip_v2, caller, dev_id), chips, failed)
    return Found(_with_firsts(chips), tuple(failed))


def _device_list(caller: Caller) -> list[int]:
    devices, count = caller.take(_LIST), caller.take(c_int)
    # The list comes first here, unlike in v1.
    _require(caller, "dcmiv2_get_device_list", devices, count, MOST_CARDS)
    return _believed("dcmiv2_get_device_list", count.value, devices)


def _chip_v2(caller: Caller, dev_id: int) -> Chip:
    phy = caller.take(c_uint)
    _must(caller, "dcmiv2_get_chip_phy_id_by_dev_id", dev_id, phy)
    phy_id = _in_range("dcmiv2_get_chip_phy_id_by_dev_id", phy.value)
    card_id, chip_id = _slot_and_chip(caller, dev_id, phy_id)
    place = _Place(f"device {dev_id}", (dev_id,), card_id, chip_id)
    info = _chip_info(caller, place, _V2.chip_info, s.dcmi_chip_info_v2)
    # Only this generation speaks v2, whatever its chip and board are called.
    return _described(caller, place, _V2, dev_id, phy_id, info, _board_id(caller, place, _V2), "950")


def _slot_and_chip(caller: Caller, dev_id: int, phy_id: int) -> tuple[int, int]:
    slot, chip = caller.take(c_uint), caller.take(c_uint)
    code = _ask(caller, "dcmiv2_get_slot_id_and_chip_id_by_dev_id", dev_id, slot, chip)
    known = code == OK and slot.value < MOST_IDS and chip.value < MOST_IDS
    return (slot.value, chip.value) if known else (phy_id, 0)


# ---- what both describe a chip by ----


def generation_of(chip: str, board_id: int | None) -> Generation:
    """The chip family, tested in the order of the driver's own exporter: names overlap.

    A first-generation card may call itself ``910B``, without a digit; an A3 is known by its board alone.
    """
    if board_id in _A3_BOARDS:
        return "A3"
    names: tuple[tuple[str, Generation], ...] = (
        (r"^Ascend950", "950"),
        (r"^310P\d?|^I2\d?", "310P"),
        (r"310B", "310B"),
        (r"310", "310"),
        (r"^910B\d|^A2G\d", "910B"),
        (r"^910", "910"),
    )
    return next((generation for pattern, generation in names if re.search(pattern, chip)), "unknown")


def hccs_links(generation: Generation, mainboard_id: int | None) -> tuple[int, ...]:
    """HCCS link indexes that exist: none where the product has no HCCS counters."""
    if generation not in ("910B", "A3", "unknown"):
        return ()
    return tuple(range(2 if mainboard_id in _LINKS_FROM_2 else 1, 8))


def _described(
    caller: Caller,
    place: _Place,
    names: _Names,
    logic_id: int,
    phy_id: int,
    info: Any,
    board_id: int | None,
    generation: Generation,
) -> Chip:
    device = Device(
        phy_id=PhyId(phy_id),
        logic_id=LogicId(logic_id),
        card_id=place.card_id,
        chip_id=place.chip_id,
        chip=sanitised(bytes(info.chip_name)) if info else "",
        generation=generation,
        product=_product(caller, place, info, generation),
        uuid=_uuid(caller, place, names),
        pci_address=_pci_address(caller, place, names),
        aicore_count=_aicores(info),
        board_id=board_id,
    )
    mainboard = _optional(caller, names.mainboard, place, c_uint)
    mainboard_id = None if mainboard is None else int(mainboard.value)
    return Chip(device=device, hccs_links=hccs_links(generation, mainboard_id))


def _chip_info(caller: Caller, place: _Place, symbol: str, kind: type[Any]) -> Any:
    """The structure; None where this driver lacks the call or has a larger one. No answer at all is no chip."""
    info = caller.take(kind)
    try:
        code = _ask(caller, symbol, *place.ids, info)
    except _Unidentified:  # a structure larger than ours: what it says is lost, but it only describes the chip
        return None
    if code == OK:
        # A copy: the buffer belongs to the next call.
        return kind.from_buffer_copy(info)
    if kind_of(code) in ("unsupported", "denied"):
        return None
    raise _Unidentified(f"{symbol}: {meaning_of(code)}")


def _product(caller: Caller, place: _Place, info: Any, generation: Generation) -> str:
    name = sanitised(bytes(info.npu_name)) if info and hasattr(info, "npu_name") else ""
    if name or generation not in ("310", "310P"):
        return name
    text = caller.take(_TEXT)
    code = _ask(caller, "dcmi_get_product_type", *place.ids, text, len(text))
    return sanitised(bytes(text)) if code == OK else ""


def _aicores(info: Any) -> int | None:
    return int(info.aicore_cnt) if info and 0 < info.aicore_cnt <= MOST_AICORES else None


def _uuid(caller: Caller, place: _Place, names: _Names) -> str:
    die = _optional(caller, names.die, place, s.dcmi_die_id, names.die_kind)
    words = [] if die is None else list(die.soc_die)
    # All zeros and all ones are nobody's, and would be those of several chips.
    return "" if set(words) <= {0} or set(words) == {ALL_ONES} else "-".join(f"{word:08X}" for word in words)


def _pci_address(caller: Caller, place: _Place, names: _Names) -> str:
    info = _optional(caller, names.pcie, place, s.dcmi_pcie_info_all)
    if info is None or info.bdf_busid > 0xFF or info.bdf_deviceid > 0x1F or info.bdf_funcid > 7:
        return ""
    return f"{info.domain & 0xFFFFFFFF:04X}:{info.bdf_busid:02X}:{info.bdf_deviceid:02X}.{info.bdf_funcid:X}"


def _board_id(caller: Caller, place: _Place, names: _Names) -> int | None:
    board = _optional(caller, names.board, place, s.dcmi_board_info)
    return int(board.board_id) if board else None


def _with_firsts(chips: list[Chip]) -> tuple[Chip, ...]:
    """Mark the chips through which card and node calls are made."""
    seen: set[int] = set()
    marked = []
    for index, chip in enumerate(chips):
        first_of_card = chip.device.card_id not in seen
        seen.add(chip.device.card_id)
        device = structs.replace(chip.device, first_of_card=first_of_card, first_of_node=index == 0)
        marked.append(structs.replace(chip, device=device))
    return tuple(marked)


# ---- asking ----


def _identify(position: str, identify: Callable[[], Chip | None], chips: list[Chip], failed: list[FailedChip]) -> None:
    try:
        chip = identify()
    except _Unidentified as error:
        failed.append(FailedChip(position, str(error)))
        return
    if chip is None:
        return
    twin = next((other.device for other in chips if other.device.phy_id == chip.device.phy_id), None)
    if twin is None:
        chips.append(chip)
    else:
        reason = f"physical id {twin.phy_id} is that of card {twin.card_id} chip {twin.chip_id}"
        failed.append(FailedChip(position, reason))


def _ask(caller: Caller, symbol: str, *arguments: Any) -> int:
    """The return code; a missing symbol is "not supported"."""
    try:
        return caller.call(symbol, *arguments)
    except NoSymbolError:
        return NOT_SUPPORT
    except OverrunError as error:
        raise _Unidentified(str(error)) from error


def _must(caller: Caller, symbol: str, *arguments: Any) -> None:
    code = _ask(caller, symbol, *arguments)
    if code != OK:
        raise _Unidentified(f"{symbol}: {meaning_of(code)}")


def _require(caller: Caller, symbol: str, *arguments: Any) -> None:
    """A call without which there is nothing to observe.

    Raises `DriverError`.
    """
    try:
        code = _ask(caller, symbol, *arguments)
    except _Unidentified as error:
        raise DriverError(str(error)) from error
    if code != OK:
        raise DriverError(f"{symbol}: {meaning_of(code)}", code)


def _optional(caller: Caller, symbol: str, place: _Place, kind: type[Any], *inputs: int) -> Any:
    """What describes the chip; None when the driver does not say, for whatever reason."""
    out = caller.take(kind)
    try:
        return out if _ask(caller, symbol, *place.ids, *inputs, out) == OK else None
    except _Unidentified:
        return None


def _in_range(symbol: str, number: int) -> int:
    if not 0 <= number < MOST_IDS:
        raise _Unidentified(f"{symbol} says {number}")
    return number


def _believed(symbol: str, count: int, entries: Any) -> list[int]:
    if not 0 <= count <= MOST_CARDS:
        raise DriverError(f"{symbol} says {count} entries")
    return list(entries[:count])


def read_text(caller: Caller, symbol: str) -> str:
    """A version of the driver or the library; empty when it is not known."""
    text = caller.take(_TEXT)
    try:
        code = _ask(caller, symbol, text, len(text))
    except _Unidentified:
        return ""
    return sanitised(bytes(text)) if code == OK else ""


_INIT = (("dcmi_init", False), ("dcmiv2_init", True))
"""What initialises the library, and whether that is the v2 API: v1 first, since only a 950 speaks v2."""


def initialise(caller: Caller) -> bool:
    """Initialise the API that this machine speaks; whether that is v2.

    Raises `DriverError` with the vendor's code and its meaning.
    """
    said = []
    code = NOT_SUPPORT
    for symbol, v2 in _INIT:
        try:
            code = caller.call(symbol)
        except NoSymbolError:
            said.append(f"{symbol}: no symbol")
            continue
        if code == OK:
            return v2
        said.append(f"{symbol}: {meaning_of(code)}")
        if code != NOT_SUPPORT:
            break
    raise DriverError("; ".join(said), code)
