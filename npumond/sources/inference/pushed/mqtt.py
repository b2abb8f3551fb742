"""Takes latencies that the applications of an edge box publish by MQTT into the book of requests.

A message is a JSON object, or an array of them, one for each request::

    {"model": "resnet50", "latency_ms": 12.5, "ttft_ms": 8, "itl_ms": 1.5, "status": "success"}

``model`` is needed; ``latency_s`` may stand for ``latency_ms``, but not beside it; ``status`` is success (default),
error or aborted; other keys are left aside. A request without a latency is counted only.

Retained messages are not taken: the broker gives them again with every new subscription, and they would be counted as
often. The subscription is of QoS 0, since a message that comes twice would be a request too many.

A broker that is away is tried again for ever, after a pause that doubles up to `LAST_PAUSE_S`, with jitter, so that the
boxes of a hall do not come all at once. Messages that come faster than they are read push out the oldest.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from aiomqtt import Client, Message, MqttError
from msgspec import Struct

from npumond.config import settings
from npumond.connection import TlsContexts
from npumond.pause import Pause
from npumond.sources.inference.labels import Status
from npumond.sources.inference.measured import Requests
from npumond.sources.source import Sampled, lasting_batch

TARGET = "mqtt"
"""The label ``target`` of what comes in here."""
LARGEST_BYTES = 256 << 10
"""Of a message."""
FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 60.0

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_TIMEOUT_S = 10.0
"""For the broker's answer to a connection and to a subscription."""
_KEEPALIVE_S = 15
"""A broker that is silent for half as long again is taken for dead."""
_MOST_WAITING = 256
"""Messages that wait to be read; 64 MiB at the very worst."""
_ELEMENTS_A_TURN = 500
"""Some 3 ms."""
_REFUSED = 0x80
"""Return codes of a subscription from here on are refusals."""


class Messages(Struct, frozen=True):
    """What came in, by what became of it. Requests and garbage are counted one by one, the others by message."""

    taken: int
    """Requests."""
    garbage: int
    """Messages that are no JSON, and elements that are no request."""
    too_large: int
    retained: int
    lost: int
    """Messages pushed out by newer ones before they were read."""


class _Told(Struct):
    """One element of a message."""

    model: str
    latency_ms: float | None = None
    latency_s: float | None = None
    ttft_ms: float | None = None
    itl_ms: float | None = None
    status: Status = "success"


_NO_JSON = (msgspec.DecodeError, RecursionError)
"""The latter for arrays that are nested without end."""
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_ELEMENT = msgspec.json.Decoder(_Told)


class MqttInput:
    """The subscription and its book. `run` is a task of the daemon."""

    name = "inference_mqtt"

    def __init__(
        self,
        wanted: settings.MqttInput,
        identifier: str,
        requests: Requests,
        interval_s: float,
        clock: Callable[[], float],
        pause: Pause | None = None,
    ) -> None:
        """``identifier`` is our name at the broker: two clients of one name throw each other out for ever."""
        self._wanted = wanted
        self._identifier = identifier
        self._requests = requests
        self._interval_s = interval_s
        self._clock = clock
        self._pause = pause or Pause(FIRST_PAUSE_S, LAST_PAUSE_S)
        self._contexts = TlsContexts()
        self._taken = self._garbage = self._too_large = self._retained = self._lost = 0
        self.reason = "not connected yet"
        """Why nothing is heard; empty while the subscription stands."""
        self.connections = 0
        """Subscriptions that were granted."""

    @property
    def intervals(self) -> dict[str, float]:
        """One group; what comes in between is booked as it comes."""
        return {"fast": self._interval_s}

    @property
    def messages(self) -> Messages:
        """What became of the messages so far."""
        return Messages(self._taken, self._garbage, self._too_large, self._retained, self._lost)

    async def sample(self, group: str) -> Sampled:
        """The book as it is now, also while the broker is away: then with the reason."""
        batch = lasting_batch(self.name, group, self._clock(), self._interval_s, self._requests.samples())
        return Sampled(batches=(batch,), reason=self.reason)

    async def run(self) -> None:
        """Connect, subscribe and take what comes, again and again, until cancelled."""
        while True:
            try:
                await self._listen()
            except (MqttError, OSError, UnicodeError) as error:  # ssl.SSLError is an OSError
                self.reason = self._in_words(error)
            length_s = self._pause.begin(self._clock())
            await asyncio.sleep(length_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret

    async def _listen(self) -> None:
        async with self._client() as client:
            await self._subscribe(client)
            self.reason = ""
            self.connections += 1
            self._pause.reset()
            async for message in client.messages:
                await self._take(message)

    async def _subscribe(self, client: Client) -> None:
        """Raises MqttError also for a topic that is no filter, and when the broker refuses."""
        try:
            codes = await client.subscribe(self._wanted.topic, qos=0)
        except ValueError as error:
            raise MqttError(f"the topic {self._wanted.topic!r} cannot be subscribed to: {error}") from error
        if any((code if isinstance(code, int) else code.value) >= _REFUSED for code in codes):
            raise MqttError(f"the subscription to {self._wanted.topic!r} is refused")

    def _client(self) -> Client:
        """A new one each time, with the password and the certificates as they are now."""
        broker = urlsplit(self._wanted.broker)
        password = None
        if self._wanted.password_file is not None:
            password = Path(self._wanted.password_file).read_text("utf-8").strip()
        return Client(
            broker.hostname or "",
            broker.port or _PORTS[broker.scheme],
            identifier=self._identifier,
            username=self._wanted.username or None,
            password=password,
            tls_context=self._contexts.get(self._wanted.tls) if broker.scheme == "mqtts" else None,
            keepalive=_KEEPALIVE_S,
            timeout=_TIMEOUT_S,
            queue_type=_inbox(self._on_full),
            max_queued_incoming_messages=_MOST_WAITING,
        )

    def _on_full(self) -> None:
        self._lost += 1

    def _in_words(self, error: BaseException) -> str:
        if isinstance(error, OSError) and error.filename is not None:
            return f"{error.filename}: {error.strerror}"
        return f"{self._wanted.broker}: {error}"

    async def _take(self, message: Message) -> None:
        if message.retain:
            self._retained += 1
        elif len(message.payload) > LARGEST_BYTES:
            self._too_large += 1
        else:
            for number, element in enumerate(self._elements(message.payload)):
                if number % _ELEMENTS_A_TURN == _ELEMENTS_A_TURN - 1:
                    await asyncio.sleep(0)  # everybody else's turn
                self._element(element)

    def _elements(self, payload: bytes) -> Sequence[bytes | msgspec.Raw]:
        if not payload.lstrip().startswith(b"["):
            return (payload,)
        try:
            return _ARRAY.decode(payload)
        except _NO_JSON:
            self._garbage += 1
            return ()

    def _element(self, element: bytes | msgspec.Raw) -> None:
        """Book one request, or count that it is none."""
        try:
            told = _ELEMENT.decode(element)
            if told.latency_ms is not None and told.latency_s is not None:
                raise ValueError("latency_ms and latency_s exclude each other")
            e2e_s = told.latency_s if told.latency_ms is None else told.latency_ms / 1000
            ttft_s, itl_s = _seconds(told.ttft_ms), _seconds(told.itl_ms)
            self._requests.request(told.model, TARGET, told.status, e2e_s, ttft_s=ttft_s, itl_s=itl_s)
        except (*_NO_JSON, ValueError):
            self._garbage += 1
        else:
            self._taken += 1


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _inbox(on_full: Callable[[], None]) -> type[asyncio.Queue[Message]]:
    """A queue that keeps the newest; aiomqtt's own would keep the oldest, and say so in the log for each one lost."""

    class Inbox(asyncio.Queue[Message]):
        def put_nowait(self, item: Message) -> None:
            if self.full():
                self.get_nowait()
                on_full()
            super().put_nowait(item)

    return Inbox
