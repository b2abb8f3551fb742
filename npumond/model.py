"""The values that flow from the driver to the page.

vendor call -> `CallOutcome` (raw readings) -> `Sample` (base units) -> `Batch` -> `Snapshot` -> bytes, alerts, sinks.

All of them are frozen; nothing published is changed later. The first three cross the process boundary, so they are
`msgspec.Struct`s that pack into a few bytes. This module is pure: no clock, no I/O, no logging.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NewType

from msgspec import Struct

PhyId = NewType("PhyId", int)
"""Physical chip number in the server: the ``device_id`` of every series, ``/dev/davinciN``, ``hccn_tool -i``."""

LogicId = NewType("LogicId", int)
"""Index of the chip inside this operating system or container; what ACL calls take."""

Group = Literal["fast", "normal", "slow"]
"""How often a call is made; the interval of each group is a setting."""

Lane = Literal["fast", "normal", "slow", "tool"]
"""What may be outstanding beside what: one call at a time in each lane of a device, one in all for ``tool``."""

GROUPS: tuple[Group, ...] = ("fast", "normal", "slow")

Generation = Literal["310", "310B", "310P", "910", "910B", "A3", "950", "unknown"]
"""Chip family in the vendor's terms; 910 is the first generation (910A, 910ProA, 910ProB, and a bare ``910B``)."""


class Device(Struct, frozen=True, kw_only=True):
    """One NPU chip as discovery saw it. What is not known is None or empty, never a made-up value."""

    phy_id: PhyId
    logic_id: LogicId
    card_id: int
    """Board number: the NPU ID column of npu-smi. On the v2 API, which has no cards, the slot or the phy id."""
    chip_id: int
    """Index of the chip on its card."""
    chip: str
    """Chip name as the driver gives it, for instance ``910B3``."""
    generation: Generation = "unknown"
    product: str = ""
    """Marketing name where the driver has one."""
    uuid: str = ""
    """Die id: five words of eight hexadecimal digits joined by ``-``."""
    pci_address: str = ""
    """``domain:bus:device.function`` in upper-case hexadecimal."""
    aicore_count: int | None = None
    board_id: int | None = None
    first_of_card: bool = True
    """Whether calls that speak of the whole card are made through this chip."""
    first_of_node: bool = True
    """Whether calls that speak of the whole node are made through this chip."""


class FailedChip(Struct, frozen=True):
    """A place in the driver's card list whose chip does not answer: card -1, or an error while it was identified."""

    position: str
    """Where: ``card list entry 3``, ``card 5 chip 1``."""
    reason: str


class DriverFacts(Struct, frozen=True, kw_only=True):
    """What opening a driver found."""

    backend: Literal["dcmi", "acl", "simulated"]
    api: str
    """``v1``, ``v2``, ``acl`` or ``simulated``: the API family in use."""
    library: str
    """Path or name the library was loaded by."""
    driver_version: str = ""
    dcmi_version: str = ""
    devices: tuple[Device, ...] = ()
    failed: tuple[FailedChip, ...] = ()
    searched: tuple[str, ...] = ()
    """Every path tried on the way, with what came of it."""

    @property
    def expected(self) -> int:
        """Number of chips that the card list promises, answering or not."""
        return len(self.devices) + len(self.failed)


OutcomeKind = Literal[
    "ok", "unsupported", "denied", "busy", "not_ready", "timeout", "fault", "error", "rejected", "unproven"
]
"""What came of a call, in classes that a reader can act on.

``unsupported``: chip, driver or library lacks it; ``denied``: needs a permission or place that we lack; ``busy``: owned
by another container or being upgraded; ``not_ready``: booting, resetting or lost; ``timeout``, ``fault``: the chip or
its link did not answer; ``error``: anything else the driver said; ``rejected``: rc 0 with a value that cannot be true;
``unproven``: rc 0 with a value that the reference says may stand for "not supported".
"""


LACKING: frozenset[OutcomeKind] = frozenset({"unsupported", "denied"})
"""Outcomes that mean "this chip cannot give that here", and not that something went wrong."""


class Reading(Struct, frozen=True, array_like=True, gc=False):
    """One raw value out of a vendor call, in the vendor's unit."""

    field: str
    """Name of the structure's field or of the output argument, as the vendor spells it."""
    value: float
    key: tuple[str, ...] = ()
    """What tells readings of one field apart (link, pid, fault code, reason), in the order of the family's labels."""


class CallOutcome(Struct, frozen=True, array_like=True, gc=False):
    """What one vendor call gave for one device."""

    call: str
    """Name of the row in the driver's call table: the vendor's C name, with ``[subtype]`` where the call has one."""
    kind: OutcomeKind
    code: int
    """The vendor's return code; 0 is success."""
    duration_s: float
    readings: tuple[Reading, ...] = ()
    detail: str = ""
    """What was rejected and why, or what an error said."""
    rejected: int = 0
    """How many fields had a value that cannot be true; with ``ok``, the others were kept."""


class DeviceRound(Struct, frozen=True, array_like=True):
    """The outcomes of one lane of one device in one round."""

    phy_id: PhyId
    lane: Lane
    at: float
    """Monotonic seconds when the last call of the round returned (CLOCK_MONOTONIC, the same in every process)."""
    outcomes: tuple[CallOutcome, ...]
    skipped: tuple[str, ...] = ()
    """Calls not made because this chip is known to lack them; they are asked again later."""


class Sample(Struct, frozen=True, gc=False):
    """One series' value in base units. A value that is not known makes no sample."""

    family: str
    """Name of the row in the catalogue."""
    labels: tuple[str, ...]
    """Label values in the order of the family's label names; a histogram bucket's ``le`` comes last."""
    value: float
    suffix: str = ""
    """``_bucket``, ``_sum`` or ``_count`` on the samples of a histogram."""


class Batch(Struct, frozen=True, kw_only=True):
    """What one source gave in one round, for one key (a device, a target), and until when it may be shown."""

    source: str
    group: str
    key: str = ""
    at: float
    """Monotonic seconds of the reading."""
    expires_at: float
    """Monotonic seconds after which these samples leave the page."""
    samples: tuple[Sample, ...]


class DeviceState(Struct, frozen=True):
    """A device beside what is known of its being there."""

    device: Device
    up: bool
    reason: str = ""
    """Why it is not up; empty when it is."""


class SourceState(Struct, frozen=True, kw_only=True):
    """How the last round of one group of one source went."""

    source: str
    group: str
    success: bool
    duration_s: float
    ended_at: float
    """Monotonic seconds of the end of the last round, good or not."""
    last_success_at: float | None
    """Monotonic seconds of the last good round; None before the first."""
    reason: str = ""
    """Why the last round failed; empty when it did not."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """Everything known at one moment. Readers share it; nobody changes it."""

    at: float
    """Monotonic seconds."""
    wall_at: float
    """Unix seconds of the same moment."""
    families: Mapping[str, tuple[Sample, ...]]
    """Samples by family name; a family without samples is not in it."""
    devices: tuple[DeviceState, ...] = ()
    sources: tuple[SourceState, ...] = ()

    def samples(self, family: str) -> tuple[Sample, ...]:
        """The samples of one family; empty when there are none."""
        return self.families.get(family, ())
