"""The HTTP server on real sockets, asked by real clients and by bad ones."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from npumond import __version__
from npumond.config import Listen
from npumond.errors import ListenError
from npumond.exposition import Renderer
from npumond.latest import Latest
from npumond.model import Sample, Snapshot
from npumond.negotiation import OPENMETRICS_CONTENT_TYPE, TEXT_CONTENT_TYPE
from npumond.sinks.http import HttpServer, Limits

LOOPBACK = Listen("127.0.0.1", 0)
READ = ["/", "/style.css", "/metrics", "/-/healthy", "/-/ready", "/api/v1/devices", "/api/v1/alerts", "/api/v1/status"]


def reading(value: float) -> Snapshot:
    """A snapshot with one temperature."""
    sample = Sample("npu_temperature_celsius", ("0",), value)
    return Snapshot(at=0.0, wall_at=0.0, families={sample.family: (sample,)})


class CountingRenderer(Renderer):
    """Knows how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def render(self, snapshot: Snapshot, openmetrics: bool) -> bytes:
        """As the real one, counted."""
        self.count += 1
        return super().render(snapshot, openmetrics)


class Daemon:
    """Stands for what the server is told by the rest of the daemon."""

    def __init__(self) -> None:
        self.snapshots: Latest[Snapshot] = Latest()
        self.snapshots.set(reading(73.9))
        self.renderer = CountingRenderer()
        self.is_ready = (True, "")
        self.reloaded = (True, "")
        self.asked_state: str | None = None
        readings = {"npu_power_watts": None, "npu_voltage_volts": math.nan}
        self.device = {"device_id": 0, "up": True, "readings": readings}

    def alerts(self, state: str) -> list[dict[str, Any]]:
        """Every alert, and a note of the filter."""
        self.asked_state = state
        return [{"rule": "NpuHot", "state": "firing", "labels": {}}]

    async def reload(self) -> tuple[bool, str]:
        """What the test decided."""
        return self.reloaded

    def server(self, *addresses: Listen, reload: bool = False, limits: Limits | None = None) -> HttpServer:
        """A server that is not started yet."""
        return HttpServer(
            addresses or (LOOPBACK,),
            snapshots=self.snapshots,
            status=lambda: {"node": "n1", "version": __version__, "ready": self.is_ready[0], "age_s": math.inf},
            alerts=self.alerts,
            devices=lambda: [self.device],
            ready=lambda: self.is_ready,
            reload=self.reload if reload else None,
            renderer=self.renderer,
            limits=limits,
        )

    @asynccontextmanager
    async def serving(self, *addresses: Listen, **options: Any) -> AsyncIterator[HttpServer]:
        """A server that is started and stopped."""
        server = self.server(*addresses, **options)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


@pytest.fixture
def daemon() -> Daemon:
    """A daemon with one device."""
    return Daemon()


@pytest.fixture
async def server(daemon: Daemon) -> AsyncIterator[HttpServer]:
    """A server with default limits."""
    async with daemon.serving() as server:
        yield server


@pytest.fixture
async def client(server: HttpServer) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of that server which leaves compression to the test."""
    async with aiohttp.ClientSession(f"http://{server.bound[0]}", auto_decompress=False) as session:
        yield session


async def raw(server: HttpServer, request: bytes) -> bytes:
    """Everything that the server answers to these bytes until it closes."""
    reader, writer = await connect(server)
    writer.write(request)
    try:
        return await reader.read()
    finally:
        writer.close()


async def connect(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection."""
    return await asyncio.open_connection(server.bound[0].host, server.bound[0].port)


def get(path: str, *headers: str) -> bytes:
    """A request that keeps the connection open."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


class TestMetrics:
    """/metrics: formats, compression, and how rarely they are made."""

    async def test_text_is_the_default(self, client: aiohttp.ClientSession) -> None:
        """Without wishes the client gets format 0.0.4, with the exact type that Prometheus 3 insists on."""
        async with client.get("/metrics", headers={"Accept": "*/*", "Accept-Encoding": "identity"}) as response:
            body = await response.read()

        assert response.headers["Content-Type"] == TEXT_CONTENT_TYPE
        assert response.headers["Content-Length"] == str(len(body))
        assert response.headers["Vary"] == "Accept, Accept-Encoding"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert body.endswith(b'npu_temperature_celsius{device_id="0"} 73.9\n')

    async def test_openmetrics_on_request(self, client: aiohttp.ClientSession) -> None:
        """A client that names OpenMetrics, in whatever version, gets 1.0.0."""
        headers = {"Accept": "application/openmetrics-text;version=9.9.9"}
        async with client.get("/metrics", headers=headers) as response:
            body = await response.read()

        assert response.headers["Content-Type"] == OPENMETRICS_CONTENT_TYPE
        assert gzip.decompress(body).endswith(b"# EOF\n")

    async def test_a_list_header_may_come_in_several_lines(self, server: HttpServer) -> None:
        """RFC 9110: lines of one name are one list."""
        request = get(
            "/metrics", "Accept: text/plain;q=0.1", "Accept: application/openmetrics-text", "Connection: close"
        )

        assert OPENMETRICS_CONTENT_TYPE.encode() in await raw(server, request)

    async def test_gzip_on_request(self, client: aiohttp.ClientSession) -> None:
        """The compressed page is the page."""
        async with client.get("/metrics", headers={"Accept-Encoding": "gzip"}) as response:
            body = await response.read()
        async with client.get("/metrics", headers={"Accept-Encoding": "gzip;q=0"}) as plain:
            expected = await plain.read()

        assert response.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in plain.headers
        assert gzip.decompress(body) == expected

    async def test_a_page_is_made_once_a_snapshot_and_format(
        self, client: aiohttp.ClientSession, daemon: Daemon
    ) -> None:
        """Ten scrapes of both encodings cost one rendering; a scrape that is not made costs none."""
        assert daemon.renderer.count == 0
        for _ in range(5):
            for encoding in ("gzip", "identity"):
                async with client.get("/metrics", headers={"Accept-Encoding": encoding}) as response:
                    await response.read()

        assert daemon.renderer.count == 1

    async def test_a_new_snapshot_is_served_at_once(self, client: aiohttp.ClientSession, daemon: Daemon) -> None:
        """The page after a round is that round's."""
        async with client.get("/metrics") as response:
            await response.read()
        daemon.snapshots.set(reading(12.5))
        async with client.get("/metrics", headers={"Accept-Encoding": "identity"}) as response:
            assert (await response.read()).endswith(b" 12.5\n")

    async def test_before_the_first_round_the_page_is_empty(self, daemon: Daemon) -> None:
        """No series is true; an error would say that the daemon is not there."""
        daemon.snapshots = Latest()
        async with daemon.serving() as server:
            answer = await raw(server, get("/metrics", "Connection: close"))

        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\n")

    async def test_parallel_scrapes_get_identical_bytes(self, client: aiohttp.ClientSession, daemon: Daemon) -> None:
        """64 scrapers see one and the same snapshot."""

        async def scrape() -> bytes:
            async with client.get("/metrics") as response:
                return await response.read()

        pages = await asyncio.gather(*(scrape() for _ in range(64)))

        assert len(set(pages)) == 1
        assert daemon.renderer.count == 1

    async def test_a_page_that_cannot_be_made_is_an_error_and_not_the_end(
        self, client: aiohttp.ClientSession, daemon: Daemon
    ) -> None:
        """A mistake in the program answers 500 without details, and the other pages go on."""
        sample = Sample("no_such_family", (), 1.0)
        daemon.snapshots.set(Snapshot(at=0, wall_at=0, families={sample.family: (sample,)}))

        async with client.get("/metrics") as response:
            assert response.status == 500
            assert b"no_such_family" not in await response.read()
        async with client.get("/-/healthy") as response:
            assert response.status == 200


class TestHealth:
    """/-/healthy and /-/ready."""

    async def test_healthy_does_not_depend_on_readiness(self, client: aiohttp.ClientSession, daemon: Daemon) -> None:
        """A dead driver must not make the kubelet restart the daemon."""
        daemon.is_ready = (False, "no round has completed yet")

        async with client.get("/-/healthy") as response:
            assert response.status == 200

    async def test_ready(self, client: aiohttp.ClientSession) -> None:
        """200 when the daemon says so."""
        async with client.get("/-/ready") as response:
            assert (response.status, await response.text()) == (200, "ready\n")

    async def test_not_ready_gives_the_reason(self, client: aiohttp.ClientSession, daemon: Daemon) -> None:
        """503 with the reason as text."""
        daemon.is_ready = (False, "every device is stale")

        async with client.get("/-/ready") as response:
            assert (response.status, await response.text()) == (503, "every device is stale\n")


class TestApi:
    """The JSON of /api/v1."""

    async def test_devices_are_wrapped_and_unknown_is_null(self, client: aiohttp.ClientSession) -> None:
        """None is null, and so is NaN, which JSON does not have."""
        async with client.get("/api/v1/devices") as response:
            body = await response.json()

        readings = {"npu_power_watts": None, "npu_voltage_volts": None}
        assert body == {"devices": [{"device_id": 0, "up": True, "readings": readings}]}

    async def test_status_has_no_infinity(self, client: aiohttp.ClientSession) -> None:
        """A number that JSON cannot say is null."""
        async with client.get("/api/v1/status") as response:
            assert await response.json() == {"node": "n1", "version": __version__, "ready": True, "age_s": None}

    @pytest.mark.parametrize(("query", "state"), [("", ""), ("?state=firing", "firing"), ("?state=&x=1", "")])
    async def test_alerts_are_filtered(
        self, client: aiohttp.ClientSession, daemon: Daemon, query: str, state: str
    ) -> None:
        """The state is handed on; other parameters are ignored."""
        async with client.get(f"/api/v1/alerts{query}") as response:
            assert await response.json() == {"alerts": [{"rule": "NpuHot", "state": "firing", "labels": {}}]}

        assert daemon.asked_state == state

    async def test_a_state_that_does_not_exist_is_refused(self, client: aiohttp.ClientSession) -> None:
        """400 names the value and what could be said instead."""
        async with client.get("/api/v1/alerts?state=fire") as response:
            assert response.status == 400
            assert await response.json() == {
                "error": "state is 'fire', and has to be one of pending, firing, resolved, all"
            }

    async def test_there_is_no_history_yet(self, client: aiohttp.ClientSession) -> None:
        """501 says so in JSON."""
        async with client.get("/api/v1/history?metric=npu_power_watts") as response:
            assert response.status == 501
            assert await response.json() == {"error": "the history store is not part of this version"}

    async def test_errors_are_json_for_scripts(self, client: aiohttp.ClientSession) -> None:
        """Under /api/ also a wrong path is answered in JSON."""
        async with client.get("/api/v2/nothing") as response:
            assert (response.status, await response.json()) == (404, {"error": "not found"})


class TestHttp:
    """Methods, paths, headers."""

    async def test_the_landing_page_has_links_and_no_script(self, client: aiohttp.ClientSession) -> None:
        """People find version and pages; the policy forbids everything else."""
        async with client.get("/") as response:
            text = await response.text()

        assert __version__ in text
        assert 'href="/metrics"' in text
        assert "<script" not in text
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")

    @pytest.mark.parametrize("path", READ)
    async def test_head_is_get_without_the_body(self, server: HttpServer, path: str) -> None:
        """Same status and headers, Content-Length included, and not a byte more."""
        close = "Connection: close"
        head = await raw(server, get(path, close).replace(b"GET", b"HEAD", 1))
        full = await raw(server, get(path, close))

        def lines(answer: bytes) -> list[bytes]:
            return [line for line in answer.split(b"\r\n\r\n")[0].split(b"\r\n") if not line.startswith(b"Date")]

        assert head.endswith(b"\r\n\r\n")
        assert lines(head) == lines(full)

    @pytest.mark.parametrize("path", [*READ, "/api/v1/history"])
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
    async def test_other_methods_are_refused(self, client: aiohttp.ClientSession, method: str, path: str) -> None:
        """405 names what is allowed."""
        async with client.request(method, path) as response:
            assert response.status == 405
            assert sorted(response.headers["Allow"].replace(" ", "").split(",")) == ["GET", "HEAD"]

    async def test_an_unknown_path_is_not_found(self, client: aiohttp.ClientSession) -> None:
        """404 as text, without the path in it."""
        async with client.get("/%3Cscript%3E") as response:
            assert (response.status, await response.text()) == (404, "not found\n")

    async def test_no_answer_names_the_server_s_libraries(self, client: aiohttp.ClientSession) -> None:
        """Versions of libraries are nobody's business."""
        async with client.get("/nothing") as response:
            assert response.headers["Server"] == "npumond"

    async def test_reload_is_off_by_default(self, client: aiohttp.ClientSession) -> None:
        """Where it is not enabled there is nothing."""
        async with client.post("/-/reload") as response:
            assert response.status == 404

    @pytest.mark.parametrize(
        ("outcome", "status", "text"),
        [((True, ""), 200, "reloaded\n"), ((False, "server.listen: no"), 500, "server.listen: no\n")],
    )
    async def test_reload_tells_what_came_of_it(
        self, daemon: Daemon, outcome: tuple[bool, str], status: int, text: str
    ) -> None:
        """200, or 500 with the mistakes."""
        daemon.reloaded = outcome
        async with daemon.serving(reload=True) as server, aiohttp.ClientSession(f"http://{server.bound[0]}") as client:
            async with client.post("/-/reload") as response:
                assert (response.status, await response.text()) == (status, text)
            async with client.get("/-/reload") as response:
                assert (response.status, response.headers["Allow"]) == (405, "POST")


class TestBadClients:
    """What one client does costs the others nothing."""

    async def healthy(self, server: HttpServer) -> bool:
        """Whether a decent client is served."""
        return (await raw(server, get("/-/healthy", "Connection: close"))).startswith(b"HTTP/1.1 200")

    @pytest.mark.slow
    async def test_a_body_is_refused(self, server: HttpServer) -> None:
        """Nothing here takes one; a big one is not even read."""
        answer = await raw(server, get("/metrics", "Content-Length: 1000000000"))

        assert answer.startswith(b"HTTP/1.1 413 ")

    async def test_a_huge_head_is_refused(self, server: HttpServer) -> None:
        """Headers without end are cut off; the server goes on."""
        reader, writer = await connect(server)
        writer.write(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(17)))
        answer = await reader.readline()
        writer.close()

        assert answer.startswith(b"HTTP/1.1 431 ")
        assert await self.healthy(server)

    async def test_a_huge_request_line_is_refused(self, server: HttpServer) -> None:
        """A path of ten thousand letters is nobody's."""
        assert b" 400 Bad Request" in await raw(server, get("/" + "a" * 10_000))
        assert await self.healthy(server)

    @pytest.mark.parametrize(
        "rubbish", [b"\x16\x03\x01\x02\x00\x01", b"\r\n\r\n\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
    )
    async def test_rubbish_is_refused_and_not_logged(
        self, server: HttpServer, rubbish: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        """TLS on a plain port, and worse: closed, without a line in the log."""
        answer = await raw(server, rubbish + b"\r\n\r\n")

        assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 ", b"HTTP/1.1 505 "))
        assert caplog.records == []
        assert await self.healthy(server)

    @pytest.mark.slow
    @pytest.mark.parametrize("sent", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
    async def test_a_head_that_does_not_end_is_cut_off(self, daemon: Daemon, sent: bytes) -> None:
        """Slowloris: a connection that does not get to its request in time is closed."""
        async with daemon.serving(limits=Limits(head_s=0.2)) as server, asyncio.timeout(5):
            reader, writer = await connect(server)
            writer.write(sent)
            assert await self.healthy(server)
            with pytest.raises(ConnectionResetError):
                raise await closed(reader)
            writer.close()

    @pytest.mark.slow
    async def test_a_second_head_that_does_not_end_is_cut_off(self, daemon: Daemon) -> None:
        """The clock runs for each request of a connection, not only for the first."""
        async with daemon.serving(limits=Limits(head_s=0.2)) as server, asyncio.timeout(5):
            reader, writer = await connect(server)
            writer.write(get("/-/healthy"))
            await reader.readuntil(b"healthy\n")
            writer.write(b"GET /")
            with pytest.raises(ConnectionResetError):
                raise await closed(reader)
            writer.close()

    @pytest.mark.slow
    async def test_an_idle_connection_outlives_the_limit_for_heads(self, daemon: Daemon) -> None:
        """A scraper comes once a minute; between its requests it may be silent until ``idle_s`` is over."""
        async with daemon.serving(limits=Limits(head_s=0.1, idle_s=0.6)) as server, asyncio.timeout(5):
            began = asyncio.get_running_loop().time()
            reader, writer = await connect(server)
            writer.write(get("/-/healthy"))
            await reader.readuntil(b"healthy\n")
            assert await reader.read() == b""
            writer.close()

        assert asyncio.get_running_loop().time() - began > 0.5

    @pytest.mark.slow
    async def test_a_client_that_does_not_read_is_cut_off(self, daemon: Daemon) -> None:
        """An answer that nobody takes does not stay in memory for ever."""
        samples = tuple(Sample("npu_process_hbm_used_bytes", ("0", str(n), "p" * 1000), 1.0) for n in range(8000))
        daemon.snapshots.set(Snapshot(at=0, wall_at=0, families={samples[0].family: samples}))
        async with daemon.serving(limits=Limits(write_s=0.2)) as server, asyncio.timeout(10):
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.connect((server.bound[0].host, server.bound[0].port))
                sock.sendall(get("/metrics", "Accept-Encoding: identity"))
                await until(lambda: server.connections == 1)
                await until(lambda: server.connections == 0)
            assert await self.healthy(server)

    async def test_a_half_open_client_gets_its_answer(self, server: HttpServer) -> None:
        """A client that closes its sending side after the request is still answered or closed, never kept."""
        async with asyncio.timeout(5):
            reader, writer = await connect(server)
            writer.write(get("/-/healthy", "Connection: close"))
            writer.write_eof()
            await reader.read()
            writer.close()
            await until(lambda: server.connections == 0)

    async def test_connections_over_the_limit_get_503(self, daemon: Daemon) -> None:
        """The one too many is told so and closed; those inside are served; a place that is left is free again."""
        async with daemon.serving(limits=Limits(connections=2)) as server, asyncio.timeout(5):
            inside = [await connect(server) for _ in range(2)]
            await until(lambda: server.connections == 2)

            assert (await raw(server, get("/-/healthy"))).startswith(b"HTTP/1.1 503 ")
            for reader, writer in inside:
                writer.write(get("/-/healthy"))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")

            inside[0][1].close()
            await until(lambda: server.connections == 1)
            assert await self.healthy(server)
            inside[1][1].close()


async def closed(reader: asyncio.StreamReader) -> Exception:
    """How the connection ended: cut off either with a reset or, where nothing was unread, without a word."""
    try:
        await reader.read()
    except ConnectionResetError as error:
        return error
    return ConnectionResetError()


async def until(condition: Callable[[], bool]) -> None:
    """Let the server work until the condition holds; the caller sets the limit of time."""
    while not condition():  # noqa: ASYNC110 (connections come and go in the kernel, which tells nobody)
        await asyncio.sleep(0.005)


class TestAddresses:
    """Where the server listens, and what it says when it cannot."""

    async def test_several_addresses_are_served(self, daemon: Daemon, tmp_path: Path) -> None:
        """A port, and a Unix socket that the group may use."""
        path = tmp_path / "http.sock"
        async with daemon.serving(LOOPBACK, Listen(path=str(path))):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            connector = aiohttp.UnixConnector(str(path))
            async with aiohttp.ClientSession(connector=connector) as client, client.get("http://x/-/ready") as response:
                assert response.status == 200

        assert not path.exists()

    async def test_ipv6_wildcard_takes_ipv4_too(self, daemon: Daemon) -> None:
        """As with every other exporter."""
        try:
            async with daemon.serving(Listen("::", 0)) as server:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.bound[0].port)
                writer.write(get("/-/healthy"))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                writer.close()
        except ListenError as error:
            pytest.skip(f"no IPv6 here: {error}")

    async def test_both_wildcards_of_one_port_go_together(self, daemon: Daemon) -> None:
        """With IPv4 on the list, [::] keeps to IPv6."""
        with socket.create_server(("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
        try:
            async with daemon.serving(Listen("0.0.0.0", port), Listen("::", port)) as server:
                assert len(server.bound) == 2
        except ListenError as error:
            pytest.skip(f"no IPv6 here: {error}")

    async def test_an_address_that_is_taken_names_its_owner(self, daemon: Daemon, server: HttpServer) -> None:
        """Address, owner and setting: all that somebody needs to get on."""
        with pytest.raises(ListenError) as caught:
            await daemon.server(server.bound[0]).start()

        assert str(caught.value).startswith(f"cannot listen on {server.bound[0]}: the address is taken by ")
        assert f"(pid {os.getpid()})" in str(caught.value)
        assert "server.listen" in str(caught.value)
        assert "--listen" in str(caught.value)

    async def test_all_addresses_or_none(self, daemon: Daemon, server: HttpServer, tmp_path: Path) -> None:
        """When one is taken the others are given back."""
        path = tmp_path / "http.sock"
        with pytest.raises(ListenError):
            await daemon.server(Listen(path=str(path)), server.bound[0]).start()

        assert not path.exists()

    async def test_an_address_that_is_not_ours(self, daemon: Daemon) -> None:
        """Another machine's address is refused with the system's reason."""
        with pytest.raises(ListenError, match=r"cannot listen on 192\.0\.2\.1:9: .+ --listen"):
            await daemon.server(Listen("192.0.2.1", 9)).start()

    async def test_the_socket_of_a_dead_server_is_replaced(self, daemon: Daemon, tmp_path: Path) -> None:
        """A crash leaves a file behind, which must not keep the next server from starting."""
        path = tmp_path / "http.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))

        async with daemon.serving(Listen(path=str(path))) as server:
            assert server.bound == (Listen(path=str(path)),)

    async def test_the_socket_of_a_living_server_is_taken(self, daemon: Daemon, tmp_path: Path) -> None:
        """Two servers do not fight over one path."""
        path = tmp_path / "http.sock"
        async with daemon.serving(Listen(path=str(path))):
            with pytest.raises(ListenError, match="is taken by"):
                await daemon.server(Listen(path=str(path))).start()

            assert path.exists()

    async def test_a_file_that_is_no_socket_is_left_alone(self, daemon: Daemon, tmp_path: Path) -> None:
        """A mistake in the configuration must not cost anybody a file."""
        path = tmp_path / "precious"
        path.write_text("data")

        with pytest.raises(ListenError, match="not a socket"):
            await daemon.server(Listen(path=str(path))).start()

        assert path.read_text() == "data"


class TestStop:
    """The end comes quickly and politely."""

    async def test_idle_connections_are_closed_at_once(self, daemon: Daemon) -> None:
        """Scrapers keep their connections; a daemon that waits for them would be killed."""
        server = daemon.server()
        await server.start()
        connections = [await connect(server) for _ in range(16)]
        for reader, writer in connections:
            writer.write(get("/-/healthy"))
            await reader.readuntil(b"healthy\n")

        async with asyncio.timeout(1):
            await server.stop()

        for reader, writer in connections:
            assert await reader.read() == b""
            writer.close()

    @pytest.mark.slow
    async def test_a_request_that_does_not_end_is_given_up(self, daemon: Daemon) -> None:
        """What is being answered may finish, within limits."""
        began = asyncio.Event()

        async def hang() -> tuple[bool, str]:
            began.set()
            await asyncio.Event().wait()
            return True, ""

        daemon.reload = hang  # type: ignore[method-assign]
        server = daemon.server(reload=True, limits=Limits(stop_s=0.2))
        await server.start()
        async with asyncio.timeout(4):
            reader, writer = await connect(server)
            writer.write(b"POST /-/reload HTTP/1.1\r\nHost: x\r\n\r\n")
            await began.wait()
            await server.stop()
            assert isinstance(await closed(reader), ConnectionResetError)
        writer.close()

    async def test_the_port_is_free_again(self, daemon: Daemon) -> None:
        """A server that stopped can be followed by another at once."""
        server = daemon.server()
        await server.start()
        address = server.bound[0]
        await server.stop()

        async with daemon.serving(address) as second:
            assert second.bound == (address,)


def test_json_has_no_nan() -> None:
    """The encoder's promise that the API relies on."""
    assert json.loads(msgspec.json.encode([math.nan, math.inf])) == [None, None]
