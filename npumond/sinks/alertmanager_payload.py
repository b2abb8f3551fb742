"""What is posted to Alertmanager, and which alerts of a board a server does not know yet. Pure: time comes in.

An alert is known there by its labels alone; annotations and times may change under it. It ends when ``endsAt`` passes
without a newer post, so that a daemon that died leaves no alert behind for ever.

Source: Alertmanager's API v2 (``api/v2/openapi.yaml``), and what 0.25 answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from npumond.rules import Alert, Board, Told

T = TypeVar("T")
Stage = tuple[str, float | None, float | None]

MOST_A_POST = 64
"""Alerts, half a KiB each or less."""
REFUSED_KEPT_S = 3600.0
"""After so long an alert that was refused is tried again as it is: the server may have been set right."""

_RENAMED = {"starts_at": "startsAt", "ends_at": "endsAt", "generator_url": "generatorURL"}


class Payload(Struct, frozen=True, kw_only=True, rename=_RENAMED):
    """One alert of ``POST /api/v2/alerts``."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: datetime
    ends_at: datetime
    """In the past for an alert that is over."""
    generator_url: str


class Setting(Struct, frozen=True, kw_only=True):
    """What the payloads of one daemon share."""

    node: str
    """The label ``instance``."""
    generator_url: str
    """Where an alert's link leads; Alertmanager refuses what is no URL."""
    runbooks: str
    """URL of the folder of runbooks, without the slash at its end."""
    lasting_s: float
    """How long a firing alert lasts there when it is not posted again."""


def payload(told: Told, setting: Setting, now: float) -> Payload:
    """A firing or resolved alert in Alertmanager's words. ``now`` is Unix seconds.

    The start is never after the end, which would be refused, and a resolved alert never ends in the future, where it
    would go on firing: the wall clock may have been set back since.
    """
    alert = told.alert
    ends_at = now + setting.lasting_s if alert.resolved_at is None else min(alert.resolved_at, now)
    starts_at = alert.since if alert.fired_at is None else alert.fired_at
    return Payload(
        labels=alert.labels | {"alertname": alert.rule, "severity": alert.severity, "instance": setting.node},
        annotations=_annotations(told, setting.runbooks),
        starts_at=_moment(min(starts_at, now, ends_at)),
        ends_at=_moment(ends_at),
        generator_url=setting.generator_url,
    )


def _annotations(told: Told, runbooks: str) -> dict[str, str]:
    texts = {
        "summary": told.alert.summary,
        "description": told.description,
        "runbook_url": f"{runbooks}/{told.runbook}.md" if told.runbook else "",
    }
    return {name: text for name, text in texts.items() if text}


def _moment(unix_s: float) -> datetime:
    return datetime.fromtimestamp(unix_s, UTC)


def batches(alerts: Sequence[T]) -> Iterator[Sequence[T]]:
    """Parts of at most `MOST_A_POST`; one empty part if there is nothing."""
    for start in range(0, len(alerts) or 1, MOST_A_POST):
        yield alerts[start : start + MOST_A_POST]


class _Entry(Struct, frozen=True):
    """An alert as a server was told of it."""

    told: Told
    refused_at: float | None = None
    """Monotonic seconds; None if it was taken."""

    @property
    def firing(self) -> bool:
        """Whether the server takes it to be firing, because of us."""
        return self.told.alert.state == "firing" and self.refused_at is None


class Knowledge:
    """What one server was told last of each alert, as far as it still matters: as long as the board at most."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    @property
    def refused(self) -> tuple[Alert, ...]:
        """Alerts that the server does not want as they are."""
        return tuple(entry.told.alert for entry in self._entries.values() if entry.refused_at is not None)

    def due(self, board: Board, now: float, *, everything: bool) -> list[Told]:
        """Alerts that are to be posted, the severest first: those whose stage is news, or all. ``now`` is monotonic.

        Pending ones never are. A firing one that is on the board no longer, or is pending again before its end was
        told, is posted as resolved. One that was refused waits for another stage, for `REFUSED_KEPT_S`, or until the
        server was away.
        """
        current = {told.alert.id: told for told in board.told if told.alert.state != "pending"}
        left = [entry for key, entry in self._entries.items() if key not in current]
        self._forget(entry.told.alert.id for entry in left if not entry.firing)
        gone = [_ended(entry.told, board.wall_at) for entry in left if entry.firing]
        return [told for told in current.values() if self._is_due(told, now, everything)] + gone

    def _is_due(self, told: Told, now: float, everything: bool) -> bool:
        entry = self._entries.get(told.alert.id)
        if entry is None or _stage(entry.told.alert) != _stage(told.alert):
            return True
        return everything if entry.refused_at is None else now - entry.refused_at >= REFUSED_KEPT_S

    def taken(self, batch: Iterable[Told]) -> None:
        """The server knows these now."""
        self._entries.update((told.alert.id, _Entry(told)) for told in batch)

    def refuse(self, told: Told, now: float) -> None:
        """The server does not want this one."""
        self._entries[told.alert.id] = _Entry(told, now)

    def forgive(self) -> None:
        """Refused alerts are news again: the server was away or unwell, and may be another one now."""
        self._forget([key for key, entry in self._entries.items() if entry.refused_at is not None])

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self._entries[key]


def _stage(alert: Alert) -> Stage:
    """What must differ for an alert to be news; its value and its words change with each sample."""
    return alert.state, alert.fired_at, alert.resolved_at


def _ended(told: Told, at: float) -> Told:
    return replace(told, alert=replace(told.alert, state="resolved", resolved_at=at))
