"""What each chip is known to lack, so that it is not asked every second for what it cannot give.

Why forget after a while: drivers are upgraded under a running daemon, containers get privileges, a chip that was split
is whole again. "Unsupported" is true now, not for ever.
"""

from __future__ import annotations

from collections.abc import Callable

from npumond.model import LACKING, OutcomeKind, PhyId

RECHECK_S = 600.0
"""How long a chip's "no" is believed."""
DOUBT_S = 5.0
"""How long it is believed of a call that has answered before: the driver is in trouble rather than the call gone."""


class Capabilities:
    """Remembers, per device and call, the last outcome and since when the call is known to be lacking.

    Read and written by the lanes' threads; each entry belongs to one lane of one device, and single dictionary
    operations are atomic, so there is no lock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[tuple[PhyId, str], OutcomeKind] = {}
        self._ask_again_at: dict[tuple[PhyId, str], float] = {}
        self._answered: set[tuple[PhyId, str]] = set()
        self._quarantined_until: dict[tuple[PhyId, str], float] = {}

    def lacks(self, device: PhyId, call: str) -> bool:
        """Whether the chip said "no" to this call and it is too early to ask again."""
        return self._ask_again_at.get((device, call), 0.0) > self._clock()

    def quarantine(self, device: PhyId, call: str, for_s: float) -> None:
        """Do not make this call for so many seconds: it hung in the worker before this one."""
        self._quarantined_until[device, call] = self._clock() + for_s

    def quarantined(self, device: PhyId, call: str) -> bool:
        """Whether the call is not to be made yet. Says nothing about whether the chip supports it."""
        return self._quarantined_until.get((device, call), 0.0) > self._clock()

    def answers(self, device: PhyId, call: str) -> bool:
        """Whether the last time this call was made it gave readings."""
        return self._last.get((device, call)) == "ok"

    def steady(self, device: PhyId, call: str) -> bool:
        """Whether this call has ever answered, or hung before it could: nothing else is to count in its place."""
        return (device, call) in self._answered or self.quarantined(device, call)

    def note(self, device: PhyId, call: str, kind: OutcomeKind) -> None:
        """Remember what came of a call."""
        key = (device, call)
        self._last[key] = kind
        if kind == "ok":
            self._answered.add(key)
        elif kind in LACKING:
            self._ask_again_at[key] = self._clock() + (DOUBT_S if key in self._answered else RECHECK_S)
