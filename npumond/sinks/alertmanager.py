"""Posts alerts to every member of an Alertmanager cluster, independently: a dead or slow one delays no other.

There is no queue. What each member was told is remembered, and each newer board is compared with it: what is new
is posted at once, and everything each ``resend`` seconds, since Alertmanager ends a firing alert that nobody repeats. A
member that was away gets everything of the newest board, with the times at which it really began and ended.

Everything is posted also when it is nothing. The empty post shows a wrong address or password before the night in which
the first alert fires.

Why to each member and not to a load balancer: members tell each other of notifications and silences, not of alerts.
"""

from __future__ import annotations

import asyncio
import base64
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import aiohttp
import msgspec

from npumond.config import settings
from npumond.connection import FAILURES, Access, TlsContexts, new_session, reason_of
from npumond.latest import Latest
from npumond.pause import Pause
from npumond.rules import Board, Told
from npumond.sinks.alertmanager_payload import Knowledge, Setting, batches, payload

Outcome = Literal["taken", "refused", "failed"]

LASTING_ROUNDS = 4
"""A firing alert lasts for so many rounds of posts, or of judging, without being repeated."""
FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 60.0
"""Or one round of posts, if that is shorter: a member that is back must hear of an alert before it ends there."""

_PATH = "/api/v2/alerts"
_REFUSALS = (400, 413, 422)
"""At least one alert is invalid (the others may have been taken), or a proxy finds the post too large."""
_LONGEST_ANSWER = 64 << 10
_LONGEST_SHOWN = 200
_NO_MEMBER = "this is no Alertmanager, or one before 0.16"


class _Unwell(Exception):
    """An answer that is neither well nor about an alert; its text is for the status page."""


class AlertmanagerSink:
    """The members and what became of the posts to them. `run` is a task of the daemon."""

    def __init__(
        self,
        wanted: settings.Alertmanager,
        boards: Latest[Board],
        node: str,
        generator_url: str,
        clock: Callable[[], float],
        *,
        runbooks: str,
        interval_s: float = 1.0,
    ) -> None:
        """``clock`` is the boards' monotonic one; ``runbooks`` the URL of the folder; ``interval_s`` of the judge."""
        setting = Setting(
            node=node,
            generator_url=generator_url,
            runbooks=runbooks.rstrip("/"),
            lasting_s=LASTING_ROUNDS * max(wanted.resend, interval_s),
        )
        contexts = TlsContexts()
        self.members = tuple(Member(url, wanted, boards, setting, contexts, clock) for url in wanted.urls)

    async def run(self) -> None:
        """Post until cancelled. Nothing is posted on the way out: what fires goes on firing without us."""
        async with new_session() as session, asyncio.TaskGroup() as tasks:
            for member in self.members:
                tasks.create_task(member.run(session), name=f"alertmanager {member.url}")


class Member:
    """One server of the cluster."""

    def __init__(
        self,
        url: str,
        wanted: settings.Alertmanager,
        boards: Latest[Board],
        setting: Setting,
        contexts: TlsContexts,
        clock: Callable[[], float],
    ) -> None:
        self.url = url
        """As in the configuration."""
        self.posts: dict[Outcome, int] = {"taken": 0, "refused": 0, "failed": 0}
        """Requests by outcome; one that is refused is followed by two with half of its alerts each."""
        self.rejected = 0
        """Alerts that the server refused when they came alone."""
        self.taken_at: float | None = None
        """Unix seconds of the last post that was taken; None before the first."""
        self._address = url.rstrip("/") + _PATH
        self._wanted = wanted
        self._access = Access(wanted.timeout, wanted.tls, wanted.token_file)
        self._boards = boards
        self._setting = setting
        self._contexts = contexts
        self._clock = clock
        self._known = Knowledge()
        self._pause = Pause(min(FIRST_PAUSE_S, wanted.resend), min(LAST_PAUSE_S, wanted.resend))
        self._everything_at = -math.inf
        """Monotonic time from which on everything is due."""
        self._trouble = "not connected yet"
        self._refusal = ""

    @property
    def reason(self) -> str:
        """Why the server does not know all that it should; empty when well."""
        if self._trouble or not (refused := self._known.refused):
            return self._trouble
        return f"alerts that are refused: {len(refused)}; the last, {refused[-1].key}: {self._refusal}"

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Keep the server's knowledge equal to the newest board, until cancelled."""
        version = 0
        while True:
            version, board = await self._next(version)
            try:
                await self._tell(session, board)
                self._pause.reset()
            except (_Unwell, *FAILURES) as error:
                self.posts["failed"] += 1
                self._trouble = self._in_words(error)
                self._everything_at = -math.inf
                self._known.forgive()
                length_s = self._pause.begin(self._clock())
                await asyncio.sleep(length_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret

    async def _next(self, version: int) -> tuple[int, Board]:
        """The next newer board, or the one there is when everything is due."""
        board = self._boards.get()
        if board is None:
            return await self._boards.changed()
        try:
            async with asyncio.timeout(max(0.0, self._everything_at - self._clock())):
                return await self._boards.changed(version)
        except TimeoutError:
            return version, board

    async def _tell(self, session: aiohttp.ClientSession, board: Board) -> None:
        """Post what is due. Raises `_Unwell` and `FAILURES`; the batches before count as told."""
        now = self._clock()
        everything = now >= self._everything_at
        due = self._known.due(board, now, everything=everything)
        if everything:
            self._everything_at = now + self._wanted.resend
        elif not due:
            return
        wall_at = board.wall_at + now - board.at
        for batch in batches(due):
            await self._post(session, batch, wall_at)

    async def _post(self, session: aiohttp.ClientSession, batch: Sequence[Told], wall_at: float) -> None:
        """Post these and take note; if the server refuses, post each half, to find those that it does not want."""
        status, text = await self._request(session, [payload(told, self._setting, wall_at) for told in batch])
        if status in _REFUSALS and batch:
            self.posts["refused"] += 1
            await self._post_halves(session, batch, wall_at, text)
        elif status == 200:
            self.posts["taken"] += 1
            self.taken_at = wall_at
            self._known.taken(batch)
            self._trouble = ""
        else:
            raise _Unwell(_shown(status, text))

    async def _post_halves(
        self, session: aiohttp.ClientSession, batch: Sequence[Told], wall_at: float, text: str
    ) -> None:
        if len(batch) == 1:
            self.rejected += 1
            self._refusal = text
            self._trouble = ""
            self._known.refuse(batch[0], self._clock())
            return
        middle = len(batch) // 2
        await self._post(session, batch[:middle], wall_at)
        await self._post(session, batch[middle:], wall_at)

    async def _request(self, session: aiohttp.ClientSession, body: object) -> tuple[int, str]:
        """One POST; returns the answer's status and text. Redirects are not followed: a POST would become a GET."""
        async with asyncio.timeout(self._wanted.timeout):
            headers = {"Content-Type": "application/json", **self._authorization()}
            context = self._contexts.for_url(self.url, self._wanted.tls)
            async with session.post(
                self._address, data=msgspec.json.encode(body), headers=headers, ssl=context, allow_redirects=False
            ) as response:
                return response.status, _text(await response.content.read(_LONGEST_ANSWER))

    def _authorization(self) -> dict[str, str]:
        """Read anew each time, since passwords and tokens are renewed. Raises OSError, UnicodeError."""
        if self._wanted.password_file is None:
            return self._access.headers()
        password = Path(self._wanted.password_file).read_text("utf-8").strip()
        both = base64.b64encode(f"{self._wanted.username}:{password}".encode()).decode()
        return {"Authorization": f"Basic {both}"}

    def _in_words(self, error: BaseException) -> str:
        return str(error) if isinstance(error, _Unwell) else reason_of(error, self.url, self._access)


def _shown(status: int, text: str) -> str:
    if status == 404:
        text = _NO_MEMBER
    elif 300 <= status < 400:
        text = "a redirection, which is not followed"
    return f"HTTP {status}: {text}" if text else f"HTTP {status}"


def _text(body: bytes) -> str:
    """The beginning of an answer as one line; Alertmanager's own is a string of JSON or an object with a message."""
    text = body.decode("utf-8", "replace")
    try:
        match msgspec.json.decode(body):
            case str(told) | {"message": str(told)}:
                text = told
    except (msgspec.DecodeError, RecursionError):
        pass  # a proxy's page, or plain text
    return " ".join(text.split())[:_LONGEST_SHOWN]
