"""Fault events: the library calls us when a fault is raised or recovers, on a thread of its own.

Source: reference dcmi.md, sections 6.4, 8 (`dcmi_event`, `dcmi_event_filter`) and 11.3. One subscription a process, at
most 64 on a host, and no way to end one but to end the process; nothing that happened before it is told.

Why not the structures and buffers of the other calls: here the library owns the memory, and only for as long as the
handler runs. 360 bytes are copied out and read later, on a thread that the library does not wait for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from ctypes import CFUNCTYPE, Structure, c_int, c_ubyte, c_uint, c_uint64, c_void_p, string_at
from typing import Any, Literal, NamedTuple

from npumond.drivers.dcmi.calling import Functions
from npumond.drivers.dcmi.codes import NOT_SUPPORT, OK, meaning_of
from npumond.drivers.dcmi.discovery import initialise
from npumond.drivers.dcmi.library import load
from npumond.drivers.text import sanitised
from npumond.errors import DriverError
from npumond.faults import FaultSeverity

EVENT_BYTES = 360
"""Size of `dcmi_event`."""

Assertion = Literal["recovered", "raised", "one_shot"]

_RECORD = struct.Struct("<i4xIH6B2i4xQ256s")
"""`dcmi_event` up to its name; hosts of these chips are all little-endian. What follows differs between headers."""

_DMS_FAULT = 0
_SEVERITIES: tuple[FaultSeverity, ...] = ("notice", "minor", "major", "critical")
_ASSERTIONS: tuple[Assertion, ...] = ("recovered", "raised", "one_shot")

_YEAR_2000_S = 946_684_800
_MILLISECONDS_FROM = 10**11
"""As seconds this is the year 5138, as milliseconds 1973: what is smaller counts seconds."""
_NO_TIME_FROM = 10**14

_RESOURCE_OCCUPIED = -8020
_HANDLER = CFUNCTYPE(None, c_void_p)
_kept: list[Any] = []
"""Handlers that a library calls until the process ends: one that were collected would be called all the same."""


class dcmi_event_filter(Structure):  # noqa: N801 - the vendor's own name
    """Which events are wanted, passed by value; flag 0 wants all."""

    _fields_ = (
        ("filter_flag", c_uint64),
        ("event_id", c_uint),
        ("severity", c_ubyte),
        ("node_type", c_ubyte),
        ("resv", c_ubyte * 32),
    )


class FaultEvent(NamedTuple):
    """One notification, as the library gave it."""

    code: str
    """Eight upper-case hexadecimal digits."""
    logic_id: int
    """The device as the library numbers it."""
    severity: FaultSeverity
    """The chip's own word; ``unknown`` for a level that is none of the four."""
    assertion: Assertion
    event_serial: int
    notify_serial: int
    name: str
    raised_at: float | None
    """Unix seconds by the chip's clock; None where the record has no time that could be one."""


class Subscription(NamedTuple):
    """What was subscribed to, and through which library."""

    library: str
    api: Literal["v1", "v2"]


def read_event(record: bytes) -> FaultEvent:
    """The fields of a `dcmi_event`.

    Raises ValueError for a record that is too short, is no fault, has no code, or says neither raised nor recovered:
    a fault series must not be made of garbage.
    """
    if len(record) < _RECORD.size:
        raise ValueError(f"an event of {len(record)} bytes; {EVENT_BYTES} were expected")
    kind, code, device, *nodes, event_serial, notify_serial, raised_at, name = _RECORD.unpack_from(record)
    severity, assertion = nodes[-2:]
    if kind != _DMS_FAULT:
        raise ValueError(f"event type {kind} is not known")
    if not code or assertion >= len(_ASSERTIONS):
        raise ValueError(f"code {code:08X} with assertion {assertion} is no fault event")
    return FaultEvent(
        code=f"{code:08X}",
        logic_id=device,
        severity=_SEVERITIES[severity] if severity < len(_SEVERITIES) else "unknown",
        assertion=_ASSERTIONS[assertion],
        event_serial=event_serial,
        notify_serial=notify_serial,
        name=sanitised(name),
        raised_at=_unix_seconds(raised_at),
    )


def _unix_seconds(raw: int) -> float | None:
    """The vendor's manual says milliseconds, its other programs seconds; 0 and a clock never set are no time."""
    if raw >= _NO_TIME_FROM:
        return None
    seconds = raw / 1000 if raw >= _MILLISECONDS_FROM else float(raw)
    return seconds if seconds >= _YEAR_2000_S else None


def subscribe(path: str | None, environ: Mapping[str, str], on_event: Callable[[bytes], None]) -> Subscription:
    """Load, initialise and subscribe to every event of every device; takes seconds and may hang.

    ``on_event`` gets each record of `EVENT_BYTES`, on the library's thread: it must be quick, must not raise and must
    not call the library. Raises `DriverError` with the vendor's code, or with the paths tried and no code.
    """
    library = load(path, environ)
    try:
        v2 = initialise(Functions(library).caller())
    except DriverError as error:
        raise DriverError(f"{library.path}: {error}", error.code, library.searched) from error
    symbol = "dcmiv2_subscribe_fault_event" if v2 else "dcmi_subscribe_fault_event"
    all_devices = (-1,) if v2 else (-1, -1)
    function = library.bind(symbol, (*[c_int for _ in all_devices], dcmi_event_filter, _HANDLER))
    if function is None:
        raise DriverError(f"{library.path}: no symbol {symbol}", NOT_SUPPORT, library.searched)
    handler = _handler(on_event)
    _kept.append(handler)
    code = function(*all_devices, dcmi_event_filter(), handler)
    if code != OK:
        raise DriverError(f"{library.path}: {symbol}: {_meaning(code)}", code, library.searched)
    return Subscription(library.path, "v2" if v2 else "v1")


def _handler(on_event: Callable[[bytes], None]) -> Any:
    """A handler in the library's terms. ``Any``: ctypes has no type for its functions."""

    def handle(address: int | None) -> None:
        if address is not None:
            on_event(string_at(address, EVENT_BYTES))

    return _HANDLER(handle)


def _meaning(code: int) -> str:
    if code == _RESOURCE_OCCUPIED:
        return f"{code}: all places of subscribers on this host are taken, or another container has the device"
    return meaning_of(code)
