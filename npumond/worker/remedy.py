"""When to replace a worker, and what its successor must leave alone: pure decisions, time comes in.

A vendor call that hangs holds one lane of one device, and only a new process gives that lane back. The successor leaves
the call that hung alone for a while (quarantine), so that the device's other readings return at once. A device on which
one call after another hangs is left to hang: it is the chip, and no process can help it but a later one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from npumond.model import PhyId
from npumond.worker.protocol import Busy, Quarantined

FIRST_QUARANTINE_S = 10.0
LAST_QUARANTINE_S = 60.0
"""Also the longest that a chip stays down after it answers again while the call that hung on it never returns: a call
that returns brings its chip back at once. A new worker a minute costs some tenths of a percent of a core."""
STRIKES_KEPT_S = 900.0
"""After so long without a hang a call's record is clean."""

FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 300.0


class Strike:
    """How often a call hung on a device, and until when it is left alone."""

    def __init__(self) -> None:
        self.count = 0
        self.last_at = 0.0
        self.until = 0.0


class Quarantine:
    """The calls that hung: by device and call, with back-off."""

    def __init__(self) -> None:
        self._strikes: dict[tuple[PhyId, str], Strike] = {}

    def curable(self, hung: Iterable[Busy], now: float) -> tuple[Busy, ...]:
        """The hung calls that a new worker could do without.

        Not those of a device that already has another call in quarantine: there the chip hangs and not the call.
        """
        held = {phy_id for (phy_id, _), strike in self._strikes.items() if strike.until > now}
        return tuple(call for call in hung if call.phy_id not in held)

    def strike(self, hung: Iterable[Busy], now: float) -> None:
        """Leave these calls alone: twice as long each time they hang."""
        for call in hung:
            strike = self._strikes.setdefault((call.phy_id, call.call), Strike())
            strike.count = strike.count + 1 if now - strike.last_at < STRIKES_KEPT_S else 1
            strike.last_at = now
            strike.until = now + min(FIRST_QUARANTINE_S * 2 ** (strike.count - 1), LAST_QUARANTINE_S)

    def active(self, now: float) -> tuple[Quarantined, ...]:
        """What a worker that starts now has to leave alone."""
        self._strikes = {key: it for key, it in self._strikes.items() if now - it.last_at < STRIKES_KEPT_S}
        return tuple(
            Quarantined(phy_id, call, strike.until - now)
            for (phy_id, call), strike in self._strikes.items()
            if strike.until > now
        )


def successor_is_better(new_up: Collection[PhyId], old_up: Collection[PhyId]) -> bool:
    """Whether a new worker may take over: it reads a chip at all, and loses none that the old one reads."""
    return bool(new_up) and set(new_up) >= set(old_up)
