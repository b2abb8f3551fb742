"""What the worker asks of a driver: open, say which calls there are, make one.

Why a protocol of three methods: the DCMI, ACL and simulated drivers differ in everything but this, and the worker's
lanes, capability memory and framing are then the same for all. Implementations may block and may crash; only the worker
process imports them.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from npumond.model import CallOutcome, Device, DriverFacts, Lane

Scope = Literal["device", "card", "node"]
"""What a call speaks of; card and node calls are made once, through the first chip of the card or node."""


class Call(Struct, frozen=True, kw_only=True):
    """One row of a driver's call table, as the worker needs to see it."""

    name: str
    """The vendor's C name, with ``[subtype]`` where the call has one; the catalogue and `CallOutcome` use it too."""
    lane: Lane
    scope: Scope = "device"
    unless: str = ""
    """Not made while the call of this name gives an answer for the same device: this row is its stand-in."""
    counts: bool = False
    """Whether it gives counters. As a stand-in it is then not made any more once the other call has answered, even if
    that fails now: a counter that changes its source falls, or jumps up by billions."""


class Driver(Protocol):
    """A way to reach the chips."""

    def open(self) -> DriverFacts:
        """Load the library, initialise it and identify every chip. Called once; may take seconds or hang.

        Raises `DriverError` when there is no library, or it cannot be initialised.
        """
        ...

    def calls(self, device: Device) -> tuple[Call, ...]:
        """The calls that make sense for this device, in the order in which a round makes them."""
        ...

    def call(self, device: Device, name: str) -> CallOutcome:
        """Make one vendor call and read its answer. Never raises for what the vendor's code says or returns.

        Called from several threads at once, never twice at once for the same device and lane.
        """
        ...
