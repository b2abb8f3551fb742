"""What the process that listens for fault events says to the daemon. It is told nothing: closing the socket ends it.

A module of its own, since neither side of the worker's protocol may take these messages for its own.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from npumond.faults import FaultSeverity
from npumond.model import LogicId
from npumond.worker.frames import Frames, frame

MAX_FRAME = 64 << 10
"""Bytes. The longest message carries a name of 128 characters, or the paths where a library was looked for."""

Code = Annotated[str, Meta(pattern="^[0-9A-F]{8}$")]


class Subscribed(Struct, frozen=True, tag="subscribed"):
    """Once: from here on every event is told."""

    library: str
    api: str


class SubscribeFailed(Struct, frozen=True, tag="failed"):
    """Once, before the process ends: there will be no events, and why."""

    code: int | None
    """The vendor's code; None where no library could be loaded."""
    message: str


class FaultRaised(Struct, frozen=True, tag="fault", gc=False):
    """A fault was raised, recovered, or happened once; ``assertion`` says which."""

    heard_at: float
    """Monotonic seconds when the library told it (CLOCK_MONOTONIC, the same in every process)."""
    code: Code
    logic_id: LogicId
    """The device as the library numbers it."""
    severity: FaultSeverity
    assertion: Literal["recovered", "raised", "one_shot"]
    event_serial: int
    notify_serial: int
    name: str
    raised_at: float | None
    """Unix seconds by the chip's clock, where it has one."""


class Missed(Struct, frozen=True, tag="missed"):
    """Events that were not told, since the start: too many at once, and records that made no sense."""

    dropped: int
    rejected: int


Message = Subscribed | SubscribeFailed | FaultRaised | Missed

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """One frame, ready to be sent."""
    return frame(message)


def reader() -> Frames[Message]:
    """Cuts what arrives into messages."""
    return Frames(_decoder, MAX_FRAME, "the listener")
