"""A page is read whole, or the reason why not is in words that tell what to do."""

from __future__ import annotations

import asyncio
import gzip
import socket
from functools import partial
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from npumond.config.settings import Tls
from npumond.connection import WANTS_CERTIFICATE, Access, TlsContexts, new_session
from npumond.sources.inference.targets import fetching
from npumond.sources.inference.targets.fetching import Page, fetch
from tests.sources.inference import servers
from tests.sources.inference.servers import Authority, Handler

PAGE = b"# TYPE up gauge\nup 1\n"


serving = partial(servers.serving, path="/metrics")


async def got(url: str, access: Access | None = None, contexts: TlsContexts | None = None) -> Page:
    """One page by a session of its own."""
    async with new_session() as session:
        return await fetch(session, contexts or TlsContexts(), url, access or Access(5.0))


def answering(body: bytes = PAGE, status: int = 200, encoding: str = "identity", **headers: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={"Content-Encoding": encoding, **headers})

    return handle


async def test_a_page_is_read_whole() -> None:
    async with serving(answering()) as url:
        assert await got(url) == Page(PAGE, 200, "")


async def test_a_compressed_page_is_read_too() -> None:
    async with serving(answering(gzip.compress(PAGE), encoding="gzip")) as url:
        assert (await got(url)).body == PAGE


async def test_plain_text_is_asked_for_and_no_choice_is_left() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=request.headers["Accept"])

    async with serving(handle) as url:
        assert (await got(url)).body == b"text/plain;version=0.0.4"


async def test_the_body_of_an_error_is_kept_for_hints() -> None:
    async with serving(answering(b'{"message": "off"}', 500)) as url:
        assert await got(url) == Page(b'{"message": "off"}', 500, "HTTP 500")


async def test_a_redirection_is_named_and_not_followed() -> None:
    async with serving(answering(b"", 302, Location="http://elsewhere/")) as url:
        assert (await got(url)).reason == "HTTP 302: redirected to http://elsewhere/, which is not followed"


async def test_a_page_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_BYTES", 1 << 20)

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 16))

    async with serving(handle) as url:
        assert (await got(url)).reason == "the page is larger than 1 MiB"


async def test_a_small_answer_that_becomes_huge_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "MOST_BYTES", 1 << 20)
    bomb = gzip.compress(bytes(8 << 20))
    async with serving(answering(bomb, encoding="gzip")) as url:
        assert (await got(url)).reason == "the page is larger than 1 MiB"


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async def handle(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with serving(handle) as url:
        assert (await got(url, Access(0.1))).reason == "no answer within 0.1 s"


async def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/metrics"
        assert (await got(url)).reason == "connection refused"


async def test_a_name_that_nobody_has() -> None:
    assert (await got("http://nobody.invalid:1/metrics")).reason == "the name nobody.invalid cannot be resolved"


async def test_an_answer_that_is_cut_off_is_no_page() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    async with server:
        page = await got(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics")
    assert (page.body, page.reason) == (b"", "the answer was cut off")


async def test_a_token_is_sent_and_read_anew(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=request.headers.get("Authorization", "none"))

    token = tmp_path / "token"
    async with serving(handle) as url:
        token.write_text("first\n")
        first = await got(url, Access(5.0, token_file=str(token)))
        token.write_text("second\n")
        second = await got(url, Access(5.0, token_file=str(token)))
    assert (first.body, second.body) == (b"Bearer first", b"Bearer second")


async def test_a_token_that_is_missing_is_named(tmp_path: Path) -> None:
    async with serving(answering()) as url:
        page = await got(url, Access(5.0, token_file=str(tmp_path / "token")))
    assert page.reason == f"{tmp_path / 'token'}: No such file or directory"


async def test_a_server_with_a_private_authority_is_trusted_where_it_is_named(authority: Authority) -> None:
    async with serving(answering(), authority.context()) as url:
        assert (await got(url, Access(5.0, Tls(ca_file=authority.ca_file)))).body == PAGE


async def test_a_server_that_shows_a_certificate_to_a_client_that_shows_one(authority: Authority) -> None:
    tls = Tls(ca_file=authority.ca_file, cert_file=authority.cert_file, key_file=authority.key_file)
    async with serving(answering(), authority.context(of_client=True)) as url:
        assert (await got(url, Access(5.0, tls))).body == PAGE


async def test_a_client_without_a_certificate_is_told(authority: Authority) -> None:
    async with serving(answering(), authority.context(of_client=True)) as url:
        page = await got(url, Access(5.0, Tls(ca_file=authority.ca_file)))
    assert page.reason == WANTS_CERTIFICATE


async def test_an_unknown_authority_is_told(authority: Authority) -> None:
    async with serving(answering(), authority.context()) as url:
        page = await got(url)
    assert page.reason == "TLS: the certificate is not accepted: unable to get local issuer certificate"


async def test_a_certificate_of_another_name_is_told(authority: Authority) -> None:
    async with serving(answering(), authority.context("other.example")) as url:
        page = await got(url, Access(5.0, Tls(ca_file=authority.ca_file)))
    assert page.reason.startswith("TLS: the certificate is not accepted: IP address mismatch")


async def test_what_is_not_checked_is_taken_from_anybody(authority: Authority) -> None:
    async with serving(answering(), authority.context("other.example")) as url:
        assert (await got(url, Access(5.0, Tls(insecure=True)))).body == PAGE


async def test_a_server_without_tls_is_told() -> None:
    async with serving(answering()) as url:
        page = await got(url.replace("http:", "https:"), Access(5.0, Tls(insecure=True)))
    assert page.reason.startswith("TLS: ")


async def test_a_context_is_made_anew_when_its_file_has_changed(authority: Authority, tmp_path: Path) -> None:
    contexts, ca_file = TlsContexts(), tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(ca_file))
    access = Access(5.0, Tls(ca_file=str(ca_file)))
    async with serving(answering(), authority.context()) as url:
        refused = await got(url, access, contexts)
        authority.ca.cert_pem.write_to_path(str(ca_file))
        taken = await got(url, access, contexts)
    assert (refused.status, taken.status) == (None, 200)
    assert contexts.get(access.tls) is contexts.get(access.tls)
