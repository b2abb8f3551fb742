"""What a row of the DCMI call table says, and the question that is made of it for one device.

A plain call is data: a symbol, the integers it takes, what it fills, and which members of that are values within which
range. Only a call that asks in another way, or means something else than its members say, has a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from ctypes import c_int, c_uint, sizeof
from typing import Any, Literal

from msgspec import Struct

from npumond.drivers.dcmi.calling import Caller
from npumond.drivers.dcmi.codes import OK
from npumond.drivers.driver import Scope
from npumond.model import Device, Generation, Lane, Reading

ALL_ONES = 0xFFFFFFFF
ALL_ONES_64 = 0xFFFFFFFFFFFFFFFF

Window = Literal["pcie", "hccs", "rdma", "ub"]
"""Calls that watch a link for a while before they answer."""


class Field(Struct, frozen=True):
    """A member of what a call fills: one value, in the vendor's unit."""

    name: str
    """The reading's field."""
    low: float = 0
    high: float = float(1 << 63)
    """Outside of these the value cannot be true and is rejected; the range rules are MC's, reference section 9."""
    absent: tuple[int, ...] = ()
    """Markers that stand for "not known"."""
    member: str = ""
    """Member of the structure where it is not called as the field is."""


class Row(Struct, frozen=True, kw_only=True):
    """One row of the call table."""

    name: str
    """The v1 C name, with ``[subtype]``; the C name itself for calls that only v2 has."""
    v2: str | None
    """The function of the v2 API; None where it has none."""
    lane: Lane
    fields: tuple[Field, ...] = ()
    """Values that are members of what the call fills."""
    derived: tuple[str, ...] = ()
    """Fields of readings that ``decode`` or ``ask`` makes."""
    out: Any = c_int
    """ctypes type that the call fills."""
    room: int = 0
    """Bytes to keep free for the call where newer drivers fill more than the structure has."""
    inputs: tuple[int, ...] = ()
    """Integers between the ids and the output."""
    after: tuple[int, ...] = ()
    """Integers behind the output."""
    window: Window | None = None
    scope: Scope = "device"
    unless: str = ""
    counts: bool = False
    """See `npumond.drivers.driver.Call`; said of stand-ins only."""
    planned: bool = True
    """Whether rounds make the call; the others are for those who ask by name."""
    applies: Callable[[Device], bool] = lambda _: True
    absent_codes: tuple[int, ...] = ()
    """Return codes that here mean "there is none" and not that something is wrong."""
    zeros_unproven: bool = False
    """The library answers zeros, rc 0, where the chip lacks the call: zeros count only once it gave something else."""
    ask: Callable[[Question], int] = lambda question: ask_output(question)
    decode: Callable[[Question, Any], None] = lambda question, out: by_field(question, out)

    @property
    def v1(self) -> str | None:
        """The function of the v1 API; None where it has none."""
        return None if self.name.startswith("dcmiv2_") else self.name.partition("[")[0]

    @property
    def gives(self) -> frozenset[str]:
        """Every field that a reading of this row can have."""
        return frozenset((*(field.name for field in self.fields), *self.derived))


class Chip(Struct, frozen=True, kw_only=True):
    """What the driver knows of a device beyond what the rest of npumond needs."""

    device: Device
    hccs_links: tuple[int, ...] = ()
    """Link indexes that exist on this product (reference, section 6.3)."""


class Question:
    """One row asked of one device, and what is known of the answer so far."""

    def __init__(
        self,
        row: Row,
        symbol: str,
        chip: Chip,
        caller: Caller,
        *,
        v2: bool,
        windows_ms: Mapping[Window, int],
        chips: Collection[Chip] = (),
    ) -> None:
        self.row = row
        self.symbol = symbol
        self.chip = chip
        self.caller = caller
        self.v2 = v2
        self.chips = chips
        """Every chip of the driver, this one too."""
        self.windows_ms = windows_ms
        self.filled = 0
        """Bytes that the library says it filled, for calls that say so."""
        self.readings: list[Reading] = []
        self.rejected: list[str] = []
        self.remarks: list[str] = []

    @property
    def ids(self) -> tuple[int, ...]:
        """The leading arguments: what the call speaks of."""
        return ids_of(self.chip.device, self.row.scope, v2=self.v2)

    @property
    def window(self) -> tuple[int, ...]:
        """The milliseconds for which the call watches; empty for a call without a window."""
        return () if self.row.window is None else (self.windows_ms[self.row.window],)

    def give(self, field: str, value: float, *key: str) -> None:
        """A value that needs no check."""
        self.readings.append(Reading(field, float(value), key))

    def put(self, field: Field, value: float, *key: str) -> None:
        """A value of the vendor's, if it can be true and stands for itself."""
        if value in field.absent:
            self.remarks.append(f"{field.name}: {int(value):#x} stands for unknown")
        elif not field.low <= value <= field.high:
            self.rejected.append(f"{field.name}: {value} is not within {field.low:g} and {field.high:g}")
        else:
            self.give(field.name, value, *key)

    def answer(self, code: int, out: Any) -> int:
        """Decode what a call that went well has filled; the code is handed through."""
        if code == OK:
            self.row.decode(self, out)
        return code


def ids_of(device: Device, scope: Scope, *, v2: bool) -> tuple[int, ...]:
    """v1 speaks of cards and chips on them, v2 of logical ids only."""
    if scope == "node":
        return ()
    if v2:
        return (device.logic_id,)
    return (device.card_id,) if scope == "card" else (device.card_id, device.chip_id)


def ask_output(question: Question) -> int:
    """``f(ids, inputs, [window,] &out, after)``."""
    row = question.row
    out = question.caller.take(row.out, row.room)
    code = question.caller.call(question.symbol, *question.ids, *row.inputs, *question.window, out, *row.after)
    return question.answer(code, out)


def ask_profiled(question: Question) -> int:
    """``f(ids, &out)`` where the window goes in by the structure's own ``profiling_time``."""
    out = question.caller.take(question.row.out)
    (out.profiling_time,) = question.window
    return question.answer(question.caller.call(question.symbol, *question.ids, out), out)


def ask_info(question: Question) -> int:
    """``f(ids, main, sub, &out, &size)``: the size goes in as the room there is and comes out as what was filled."""
    out = question.caller.take(question.row.out)
    return question.answer(call_info(question, question.row.inputs, out), out)


def call_info(question: Question, commands: tuple[int, ...], out: Any) -> int:
    """One ``get_device_info`` call into a buffer that was taken for it."""
    size = question.caller.take(c_uint)
    size.value = sizeof(out)
    code = question.caller.call(question.symbol, *question.ids, *commands, out, size)
    question.filled = min(size.value, sizeof(out))
    return code


def by_field(question: Question, out: Any, without: tuple[str, ...] = ()) -> None:
    """Each field of the row from the member of its name, or from the output itself where that is one number."""
    simple = isinstance(out, c_int | c_uint)
    for field in question.row.fields:
        if field.name not in without:
            question.put(field, out.value if simple else getattr(out, field.member or field.name))


def on(*generations: Generation) -> Callable[[Device], bool]:
    """Only on these generations, and where the generation is not known."""
    known = frozenset((*generations, "unknown"))
    return lambda device: device.generation in known
