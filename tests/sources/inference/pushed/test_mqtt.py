"""What applications publish by MQTT is booked, and a broker that comes back is heard again."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiomqtt
import pytest
import trustme

from npumond.config import settings
from npumond.pause import Pause
from npumond.sources.inference.latency_samples import Telling
from npumond.sources.inference.measured import Requests
from npumond.sources.inference.pushed import mqtt
from npumond.sources.inference.pushed.mqtt import LARGEST_BYTES, Messages, MqttInput
from tests.sources.inference.pushed.book import series

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed"),
]
TOPIC = "npumond/inference/app"
REQUEST = {"model": "resnet50", "latency_ms": 12.5}


class Broker:
    """A mosquitto on a free loopback port, which can be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._config = folder / "mosquitto.conf"
        lines = ("user root", f"listener {self.port} 127.0.0.1", *(options or ("allow_anonymous true",)))
        self._config.write_text("\n".join((*lines, "")))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it takes connections."""
        assert MOSQUITTO is not None
        self._process = await asyncio.create_subprocess_exec(
            MOSQUITTO, "-c", str(self._config), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        await until(self._is_open)

    def _is_open(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    async def kill(self) -> None:
        """Without a word to its clients."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    async def publish(self, *payloads: bytes, retain: bool = False) -> None:
        """As an application does it."""
        async with aiomqtt.Client("127.0.0.1", self.port) as client:
            for payload in payloads:
                await client.publish(TOPIC, payload, qos=1, retain=retain)


async def until(holds: Callable[[], bool], deadline_s: float = 10.0) -> None:
    """Let the loop turn until this holds."""
    async with asyncio.timeout(deadline_s):
        while not holds():  # noqa: ASYNC110 - the other side is a process and sets no event
            await asyncio.sleep(0.005)


@asynccontextmanager
async def brokering(folder: Path, *options: str) -> AsyncIterator[Broker]:
    broker = Broker(folder, *options)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.kill()


@asynccontextmanager
async def listening(broker: Broker, **wanted: object) -> AsyncIterator[MqttInput]:
    """The source, running; it tries again at once."""
    address = f"{wanted.pop('scheme', 'mqtt')}://127.0.0.1:{broker.port}"
    source = MqttInput(
        settings.MqttInput(broker=address, **wanted),  # type: ignore[arg-type]
        "npumond-test",
        Requests("mqtt", 60.0, Telling(1, aliases=False), time.monotonic),
        1.0,
        time.monotonic,
        Pause(0.02, 0.05),
    )
    task = asyncio.create_task(source.run())
    try:
        yield source
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def told(folder: Path, *payloads: bytes) -> tuple[MqttInput, dict[tuple[str, ...], float]]:
    """The source after these messages, and its totals."""
    async with brokering(folder) as broker, listening(broker) as source:
        await until(lambda: not source.reason)
        await broker.publish(*payloads, b'{"model": "last", "status": "aborted"}')
        await until(lambda: "last" in str(source._requests.samples()))
        return source, await totals(source)


async def totals(source: MqttInput) -> dict[tuple[str, ...], float]:
    (batch,) = (await source.sample("fast")).batches
    found = series(batch.samples, "inference_requests_total")
    return {labels: total for labels, total in found.items() if labels[0] != "last"}


def packed(*requests: object) -> bytes:
    return json.dumps(requests[0] if len(requests) == 1 else requests).encode()


async def test_an_object_is_a_request(tmp_path: Path) -> None:
    source, counted = await told(tmp_path, packed({**REQUEST, "ttft_ms": 8, "itl_ms": 1.5, "user": "x"}))
    (batch,) = (await source.sample("fast")).batches
    assert counted == {("resnet50", "mqtt", "success"): 1}
    means = series(batch.samples, "inference_latency_mean_seconds")
    assert {labels[2]: mean for labels, mean in means.items()} == pytest.approx(
        {"e2e": 0.0125, "ttft": 0.008, "itl": 0.0015}
    )


async def test_an_array_is_a_request_for_each_element(tmp_path: Path) -> None:
    _, counted = await told(tmp_path, packed(REQUEST, {**REQUEST, "status": "error"}, {"model": "b", "latency_s": 1}))
    assert counted == {
        ("resnet50", "mqtt", "success"): 1,
        ("resnet50", "mqtt", "error"): 1,
        ("b", "mqtt", "success"): 1,
    }


async def test_an_array_of_thousands_is_taken_whole(tmp_path: Path) -> None:
    _, counted = await told(tmp_path, packed(*[{"model": "a"}] * 5000))
    assert counted == {("a", "mqtt", "success"): 5000}


GARBAGE = [
    {"latency_ms": 1},
    {"model": 5},
    {"model": "a", "latency_ms": -1},
    {"model": "a", "latency_ms": "1"},
    {"model": "a", "latency_ms": 1, "latency_s": 1},
    {"model": "a", "status": "fine"},
    {"model": "a", "ttft_ms": 1e300},
    ["model"],
    None,
]


async def test_an_element_that_is_no_request_spoils_nothing_beside_it(tmp_path: Path) -> None:
    source, counted = await told(tmp_path, packed(*GARBAGE, REQUEST))
    assert counted == {("resnet50", "mqtt", "success"): 1}
    assert source.messages == Messages(taken=2, garbage=len(GARBAGE), too_large=0, retained=0, lost=0)


async def test_a_message_that_is_no_request_is_garbage(tmp_path: Path) -> None:
    others = (b"", b"\xff", b"[" * 100_000, b"[1, 2", packed({"model": "a", "latency_ms": math.nan}))
    source, counted = await told(tmp_path, *map(packed, GARBAGE), *others)
    assert counted == {}
    assert source.messages.garbage == len(GARBAGE) + len(others)


async def test_a_message_that_is_too_large_is_refused(tmp_path: Path) -> None:
    source, counted = await told(tmp_path, packed({**REQUEST, "note": "x" * LARGEST_BYTES}), packed(REQUEST))
    assert counted == {("resnet50", "mqtt", "success"): 1}
    assert source.messages.too_large == 1


async def test_a_retained_message_is_not_counted_with_every_subscription(tmp_path: Path) -> None:
    async with brokering(tmp_path) as broker:
        await broker.publish(packed(REQUEST), retain=True)
        async with listening(broker) as source:
            await until(lambda: source.messages.retained == 1)
            assert await totals(source) == {}


async def test_a_broker_that_is_killed_and_comes_back_is_heard_again(tmp_path: Path) -> None:
    async with brokering(tmp_path) as broker, listening(broker) as source:
        await until(lambda: not source.reason)
        await broker.publish(packed(REQUEST))
        await until(lambda: source.messages.taken == 1)
        await broker.kill()
        await until(lambda: bool(source.reason))
        await broker.start()
        await until(lambda: not source.reason)
        await broker.publish(packed(REQUEST))
        await until(lambda: source.messages.taken == 2)
        assert source.connections == 2


async def test_a_broker_that_is_away_at_the_start_is_found_when_it_comes(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    async with listening(broker) as source:
        await until(lambda: "Connection refused" in source.reason)
        await broker.start()
        await until(lambda: not source.reason)
        await broker.kill()


async def test_while_the_broker_is_away_the_round_says_why_and_keeps_its_book(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    async with listening(broker) as source:
        source._requests.request("a", "mqtt", "success")
        await until(lambda: "Connection refused" in source.reason)
        sampled = await source.sample("fast")
        assert sampled.reason.startswith(f"mqtt://127.0.0.1:{broker.port}: ")
        assert await totals(source) == {("a", "mqtt", "success"): 1}


async def test_a_source_that_is_stopped_leaves_the_broker(tmp_path: Path) -> None:
    """The will of a client that vanishes would be published; one that says goodbye has none."""
    async with brokering(tmp_path) as broker:
        async with listening(broker) as source:
            await until(lambda: not source.reason)
        async with listening(broker) as second:
            await until(lambda: not second.reason)
            assert second.connections == 1


def password_file(folder: Path, user: str, password: str) -> Path:
    """As mosquitto reads it."""
    path = folder / "passwords"
    path.write_text(f"{user}:{password}\n")
    path.chmod(0o600)
    tool = shutil.which("mosquitto_passwd")
    if tool is None:
        pytest.skip("mosquitto_passwd is not installed")
    subprocess.run([tool, "-U", str(path)], check=True)
    return path


async def test_a_password_is_read_anew_for_each_connection(tmp_path: Path) -> None:
    options = ("allow_anonymous false", f"password_file {password_file(tmp_path, 'edge', 'right')}")
    secret = tmp_path / "secret"
    secret.write_text("wrong\n")
    async with (
        brokering(tmp_path, *options) as broker,
        listening(broker, username="edge", password_file=str(secret)) as source,
    ):
        await until(lambda: "not authori" in source.reason.lower() or "bad user" in source.reason.lower())
        secret.write_text("right\n")
        await until(lambda: not source.reason)


async def test_a_password_file_that_is_missing_is_named(tmp_path: Path) -> None:
    async with listening(Broker(tmp_path), username="edge", password_file=f"{tmp_path}/none") as source:
        await until(lambda: source.reason == f"{tmp_path}/none: No such file or directory")


async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A broker that takes the connection and refuses the subscription; mosquitto has no setting for it."""
    await reader.readuntil(b"npumond-test")
    writer.write(bytes.fromhex("20020000"))  # CONNACK
    subscribe = await reader.readexactly(4)
    writer.write(bytes.fromhex("9003") + subscribe[2:4] + b"\x80")  # SUBACK with the number of the request
    await reader.read()
    writer.close()


async def test_a_subscription_that_is_refused_is_a_reason(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    async with await asyncio.start_server(refusing, "127.0.0.1", broker.port), listening(broker, topic="a/#") as source:
        await until(lambda: source.reason.endswith("the subscription to 'a/#' is refused"))


async def test_a_broker_that_does_not_answer_is_a_reason_and_its_connections_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt, "_TIMEOUT_S", 0.05)
    monkeypatch.setattr(mqtt, "_KEEPALIVE_S", 1)
    broker, connections = Broker(tmp_path), 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.read()
        connections -= 1
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", broker.port), listening(broker) as source:
        await until(lambda: "timed out" in source.reason)
    await until(lambda: connections == 0)


async def test_a_topic_that_is_no_filter_is_a_reason(tmp_path: Path) -> None:
    async with brokering(tmp_path) as broker, listening(broker, topic="a/#/b") as source:
        await until(lambda: "a/#/b" in source.reason)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")  # paho leaves the refused one to Python
async def test_tls_is_checked_by_the_certificates_given(tmp_path: Path, authority: trustme.CA) -> None:
    own = authority.issue_cert("127.0.0.1")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    options = ("allow_anonymous true", f"certfile {tmp_path}/cert.pem", f"keyfile {tmp_path}/key.pem")
    async with brokering(tmp_path, *options) as broker:
        async with listening(broker, scheme="mqtts") as source:
            await until(lambda: "CERTIFICATE_VERIFY_FAILED" in source.reason)
        async with listening(broker, scheme="mqtts", tls=settings.Tls(ca_file=f"{tmp_path}/ca.pem")) as source:
            await until(lambda: not source.reason)


async def test_messages_that_come_too_fast_push_out_the_oldest() -> None:
    lost: list[None] = []
    inbox = mqtt._inbox(lambda: lost.append(None))(maxsize=2)
    for number in range(5):
        inbox.put_nowait(aiomqtt.Message("t", b"%d" % number, 0, False, 1, None))
    assert [inbox.get_nowait().payload for _ in range(2)] == [b"3", b"4"]
    assert len(lost) == 3
