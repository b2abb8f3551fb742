"""What the daemon and its worker process say to each other over their socket.

Frames are a four-byte big-endian length and that many bytes of MessagePack; every message is a tagged struct. Both
sides run the same code on the same machine, so there is no versioning. What arrives is still checked: the worker holds
foreign libraries and its memory is not to be trusted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from npumond.errors import WorkerError
from npumond.model import DeviceRound, DriverFacts, Lane, PhyId

MAX_FRAME = 16 << 20
"""Bytes. 64 devices' facts are some 30 KB; anything near this is garbage."""

_LENGTH = struct.Struct(">I")


class Quarantined(Struct, frozen=True, array_like=True):
    """A call on one device that hung, and is not to be made for a while."""

    phy_id: PhyId
    call: str
    for_s: float
    """Seconds from the worker's start."""


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """What a worker is told on its command line, as JSON: which driver to open, and where."""

    backend: Literal["auto", "dcmi", "acl", "simulated"] = "auto"
    dcmi_library: str | None = None
    acl_library: str | None = None
    hccn_tool: str | None = None
    scenario: str = "mixed"
    """Matters to the simulated driver only."""
    quarantine: tuple[Quarantined, ...] = ()
    parent: int | None = None
    """Process id of the daemon, with which the worker ends."""


class Read(Struct, frozen=True, tag="read"):
    """Daemon to worker: make one round of this lane on these devices."""

    lane: Lane
    phy_ids: tuple[PhyId, ...]


class Hello(Struct, frozen=True, tag="hello"):
    """Worker to daemon, once: the driver is open and this is what it found."""

    facts: DriverFacts


class OpenFailed(Struct, frozen=True, tag="open_failed"):
    """Worker to daemon, once, before it ends: no driver could be opened."""

    message: str
    code: int | None
    searched: tuple[str, ...]


class RoundDone(Struct, frozen=True, tag="round"):
    """Worker to daemon: one device finished one round of one lane."""

    round: DeviceRound


class Busy(Struct, frozen=True, array_like=True):
    """A call that has been running for a while."""

    phy_id: PhyId
    lane: Lane
    call: str
    for_s: float


class Alive(Struct, frozen=True, tag="alive"):
    """Worker to daemon, each second: this process turns, and these calls are taking long."""

    busy: tuple[Busy, ...]


Message = Read | Hello | OpenFailed | RoundDone | Alive

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """One frame, ready to be sent."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a byte stream into messages, however the stream was chopped up."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Messages completed by these bytes. Raises `WorkerError` on a frame that cannot be one of ours."""
        self._buffer += data
        while (body := self._next_body()) is not None:
            try:
                yield _decoder.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise WorkerError(f"a frame of {len(body)} bytes from the worker cannot be read: {error}") from error

    def _next_body(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_FRAME:
            raise WorkerError(f"a frame from the worker claims {length} bytes; the most is {MAX_FRAME}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return body
