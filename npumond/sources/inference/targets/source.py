"""The source of what inference servers on the node say of themselves: reads their metrics pages, each at its interval.

Each target is a group of its own, so ``npumond_source_success{source="inference"}`` tells of each. A target that does
not answer is asked less often, up to every `MOST_PAUSE_S`; one that answers again is back with its next page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

import aiohttp

from npumond.config.settings import Target
from npumond.connection import Access, TlsContexts, new_session
from npumond.model import Batch, Sample
from npumond.pause import Pause
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.targets.book import TargetBook, unresolved
from npumond.sources.inference.targets.fetching import Page, fetch
from npumond.sources.inference.targets.kinds import ServerKind
from npumond.sources.inference.targets.serving import devices_served
from npumond.sources.source import Sampled

MOST_PAUSE_S = 30.0
"""Longest pause between two tries at a target that does not answer."""

LOOK_EVERY_S = 30.0
"""How often the chips of a target are looked for."""

IN_A_THREAD = 256 << 10
"""Bytes of a page from which on it is read beside the loop: a page of 1 MiB takes some 20 ms."""

Processes = Callable[[], Mapping[int, frozenset[int]]]
"""Process ids on each chip, by device id, as the driver tells them now."""


class _Target:
    """One target: its settings, its pages, and when it is asked again."""

    def __init__(self, settings: Target, kind: ServerKind | None, window_s: float, telling: Telling) -> None:
        self.settings = settings
        self.book = TargetBook(settings.label, kind, window_s, telling)
        self.access = Access(min(settings.timeout, settings.interval), settings.tls, settings.token_file)
        self.device_ids = settings.device_ids
        self.pause = Pause(min(settings.interval, MOST_PAUSE_S), MOST_PAUSE_S)
        self.looked_at: float | None = None


class TargetSource:
    """Reads every target's page."""

    name = "inference"

    def __init__(
        self,
        targets: Sequence[tuple[Target, ServerKind | None]],
        window_s: float,
        telling: Telling,
        processes: Processes,
        clock: Callable[[], float],
    ) -> None:
        """Each target with its kind of server; None: by what is on its page."""
        self._targets = {target.label: _Target(target, kind, window_s, telling) for target, kind in targets}
        self._processes = processes
        self._clock = clock
        self._contexts = TlsContexts()
        self._session: aiohttp.ClientSession | None = None

    @property
    def intervals(self) -> dict[str, float]:
        """A group for each target, named by its label."""
        return {label: target.settings.interval for label, target in self._targets.items()}

    async def close(self) -> None:
        """Give back every connection."""
        if self._session is not None:
            await self._session.close()

    async def sample(self, group: str) -> Sampled:
        """One page of one target. What is wrong with a target is the reason, never an error."""
        target = self._targets[group]
        if target.pause.over(self._clock()):
            await self._read(target)
            await self._find_devices(target)
        return Sampled(batches=(self._batch(target),), reason=target.book.reason)

    async def _read(self, target: _Target) -> None:
        if self._session is None:
            self._session = new_session()
        page = await fetch(self._session, self._contexts, target.settings.url, target.access)
        await self._take(target.book, page)
        if target.book.up:
            target.pause.reset()
        else:
            # Half an interval earlier, since the round that is meant may begin a little before its time.
            target.pause.begin(self._clock() - target.settings.interval / 2)

    async def _take(self, book: TargetBook, page: Page) -> None:
        if page.reason:
            book.fail(page.reason, page.status)
        elif len(page.body) < IN_A_THREAD:
            book.take(page.body, self._clock())
        else:
            await asyncio.to_thread(book.take, page.body, self._clock())

    async def _find_devices(self, target: _Target) -> None:
        """By the target's processes, unless the settings say which."""
        now = self._clock()
        is_due = target.looked_at is None or now - target.looked_at >= LOOK_EVERY_S
        if target.settings.device_ids or not target.book.up or not is_due:
            return
        address = urlsplit(target.settings.url)
        port = address.port or (443 if address.scheme == "https" else 80)
        pids = self._processes()
        if pids:
            target.looked_at = now
            target.device_ids = await asyncio.to_thread(devices_served, address.hostname or "", port, pids)

    def _batch(self, target: _Target) -> Batch:
        at = self._clock()
        settings = target.settings
        label = settings.label
        owned = [
            Sample("npu_workload_info", (str(device_id), "", "", label, self.name), 1.0)
            for device_id in target.device_ids
        ]
        return Batch(
            source=self.name,
            group=label,
            key=label,
            at=at,
            expires_at=at + 2 * settings.interval + target.access.timeout_s,
            samples=(*target.book.samples(), *owned),
        )

    def json(self, threshold_s: float | None) -> list[dict[str, object]]:
        """The targets' part of ``/api/v1/status``; ``threshold_s`` is that of the rule on the P99."""
        return [_json(target, threshold_s) for target in self._targets.values()]


def _json(target: _Target, threshold_s: float | None) -> dict[str, object]:
    book = target.book
    views = book.views
    return {
        "target": book.label,
        "server": book.kind.name if book.kind is not None else None,
        "up": book.up,
        "reason": book.reason,
        "device_ids": list(target.device_ids),
        "url": target.settings.url,
        "latencies": [
            {
                "model": view.model,
                "kind": view.kind,
                "p99_s": view.p99_s,
                "p99_at_least_s": view.lower_s,
                "observations": view.count,
            }
            for view in views
        ],
        "notes": [] if threshold_s is None else unresolved(views, threshold_s),
    }
