"""What the sampler asks of a source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from npumond.model import Batch, DeviceState, Sample


class Sampled(Struct, frozen=True, kw_only=True):
    """What one round of one group gave."""

    batches: tuple[Batch, ...] = ()
    """Each replaces the earlier batch of the same source, group and key."""
    devices: tuple[DeviceState, ...] | None = None
    """The devices as they are now; None when this round says nothing about them."""
    reason: str = ""
    """Why the round failed; empty when it did not."""


def lasting_batch(
    source: str, group: str, at: float, interval_s: float, samples: Iterable[Sample], key: str = ""
) -> Batch:
    """A batch that is shown for three intervals: for sources whose rounds neither hang nor have a deadline."""
    expires_at = at + 3 * interval_s
    return Batch(source=source, group=group, key=key, at=at, expires_at=expires_at, samples=tuple(samples))


class Source(Protocol):
    """Gives samples, group by group."""

    @property
    def name(self) -> str:
        """Name in ``npumond_source_success{source}``."""
        ...

    @property
    def intervals(self) -> dict[str, float]:
        """Group to interval in seconds."""
        ...

    async def sample(self, group: str) -> Sampled:
        """One round of one group. Failures that are expected come back as a reason and are not raised."""
        ...
