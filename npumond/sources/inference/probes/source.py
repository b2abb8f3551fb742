"""The source of what our own requests to inference endpoints find: true latencies, at the price of NPU time.

There are no probes unless the configuration names some: each is work for the chips, for as long as there is a daemon.
Each is a group of its own, made at its interval; the first one waits for a random part of that, and the later ones keep
that distance, so that the daemons of a fleet do not all ask at once. All book into one book, which the group `BOOK`
shows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from msgspec.structs import replace

from npumond.config.settings import Probe
from npumond.connection import TlsContexts, new_session
from npumond.model import Batch, Sample
from npumond.sources.inference.measured import Requests
from npumond.sources.inference.probes.request import Endpoint, Outcome, ProbeError, endpoint, made_up, model_of, send
from npumond.sources.source import Sampled, lasting_batch

BOOK = "book"
"""The group that shows what was found."""
SERVER = "probe"
"""The label ``server`` of what answers a probe."""


def target_of(probe: Probe) -> str:
    """The label ``target``: the URL without query and fragment. A host and port would be the scraped target's."""
    return urlunsplit((*urlsplit(probe.url)[:3], "", ""))


class _Probe:
    """One probe and what it found last."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.pause_s = probe.interval
        """From the slot that runs now to the next."""
        self.target = target_of(probe)
        self.endpoint: Endpoint = endpoint(probe)
        self.model = model_of(probe)
        self.last: Outcome | None = None

    @property
    def group(self) -> str:
        """Name of its group: the target, and the model where the settings name one."""
        return f"{self.target} {self.probe.model}".rstrip()

    @property
    def reason(self) -> str:
        """Why the last request failed; empty when it did not."""
        return "not asked yet" if self.last is None else self.last.reason


def _numbered(probes: Iterable[_Probe]) -> dict[str, _Probe]:
    """Probes by group. Those whose URLs differ in the query alone have the same name: the later ones get a number."""
    groups: dict[str, _Probe] = {}
    for probe in probes:
        group, number = probe.group, 1
        while group in groups:
            number += 1
            group = f"{probe.group} ({number})"
        groups[group] = probe
    return groups


class ProbeSource:
    """Makes every probe at its interval."""

    name = "inference_probe"

    def __init__(
        self,
        probes: Sequence[Probe],
        book: Requests,
        interval_s: float,
        clock: Callable[[], float],
        jitter: Callable[[float], float] = lambda most: random.uniform(0, most),  # noqa: S311 - not a secret
    ) -> None:
        """``interval_s`` is how often the book is shown; ``jitter`` gives a wait of at most so many seconds."""
        self._probes = _numbered(map(_Probe, probes))
        self._book = book
        self._interval_s = interval_s
        self._clock = clock
        self._jitter = jitter
        self._contexts = TlsContexts()
        self._session: aiohttp.ClientSession | None = None

    @property
    def intervals(self) -> dict[str, float]:
        """A group for each probe, and one that shows what they found.

        After a probe's first request its interval is once longer, by what that one waited: slots count from the start,
        and without this all the later requests of a fleet would be made at once.
        """
        return {BOOK: self._interval_s, **{group: probe.pause_s for group, probe in self._probes.items()}}

    async def close(self) -> None:
        """Give back every connection."""
        if self._session is not None:
            await self._session.close()

    async def sample(self, group: str) -> Sampled:
        """One request of one probe, or what all of them have found so far."""
        if group == BOOK:
            return Sampled(batches=(self._batch(),))
        probe = self._probes[group]
        probe.pause_s = probe.probe.interval
        if probe.last is None:
            wait_s = self._jitter(probe.probe.interval)
            await asyncio.sleep(wait_s)
            probe.pause_s += wait_s
        outcome = await self._ask(probe)
        probe.last = outcome
        model = probe.model = probe.model or outcome.model
        self._book.request(
            model, probe.target, outcome.status, outcome.e2e_s, ttft_s=outcome.ttft_s, itl_s=outcome.itl_s
        )
        return Sampled(reason=outcome.reason)

    async def _ask(self, probe: _Probe) -> Outcome:
        if self._session is None:
            self._session = new_session()
        try:
            if probe.endpoint.kind == "kserve" and not probe.endpoint.body:
                body = await made_up(self._session, self._contexts, probe.probe)
                probe.endpoint = replace(probe.endpoint, body=body)
        except ProbeError as error:
            return Outcome(status="error", reason=str(error))
        outcome = await send(self._session, self._contexts, probe.probe, probe.endpoint, self._clock)
        if outcome.status == "error":
            # What was made up is made anew next time: the model may be another by now.
            probe.endpoint = endpoint(probe.probe)
        return outcome

    def _batch(self) -> Batch:
        at = self._clock()
        up: dict[str, float] = {}
        for probe in self._probes.values():
            if probe.last is not None:
                up[probe.target] = min(up.get(probe.target, 1.0), float(not probe.reason))
        samples = (
            *(Sample("inference_target_up", (target, SERVER), value) for target, value in up.items()),
            *self._book.samples(),
        )
        return lasting_batch(self.name, BOOK, at, self._interval_s, samples)

    def json(self) -> list[dict[str, object]]:
        """The probes among the targets of ``/api/v1/status``."""
        return [
            {
                "target": probe.target,
                "server": SERVER,
                "up": probe.last is not None and not probe.reason,
                "reason": probe.reason,
                "device_ids": [],
                "url": probe.target,
                "latencies": [],
                "notes": [],
                "model": probe.model or None,
                "last_e2e_s": None if probe.last is None else probe.last.e2e_s,
                "last_ttft_s": None if probe.last is None else probe.last.ttft_s,
            }
            for probe in self._probes.values()
        ]
