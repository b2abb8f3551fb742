"""What the daemon and its worker process say to each other over their socket.

Every message is a tagged struct; how they travel is said in `npumond.worker.frames`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from npumond.model import DeviceRound, DriverFacts, Lane, PhyId
from npumond.worker.frames import Frames, frame

MAX_FRAME = 16 << 20
"""Bytes. 64 devices' facts are some 30 KB; anything near this is garbage."""


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

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """One frame, ready to be sent."""
    return frame(message)


def reader() -> Frames[Message]:
    """Cuts what arrives into messages."""
    return Frames(_decoder, MAX_FRAME, "the worker")
