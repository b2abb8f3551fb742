"""Reads a server's metrics page by HTTP, with limits on time and size, or says in words why not."""

from __future__ import annotations

import asyncio

import aiohttp
from msgspec import Struct

from npumond.connection import FAILURES, Access, TlsContexts, reason_of

MOST_BYTES = 16 << 20
"""Of a page after decompression. A page of vLLM with 16 engines has some hundred KiB."""

_ACCEPT = "text/plain;version=0.0.4"
"""Asked plainly: with a choice some servers answer OpenMetrics, whose counters have other names."""

_CHUNK = 1 << 16


class Page(Struct, frozen=True):
    """A page, or why there is none."""

    body: bytes
    status: int | None
    """Of the answer, if there was one."""
    reason: str
    """Empty when the body is whole and the status 200."""


async def fetch(session: aiohttp.ClientSession, contexts: TlsContexts, url: str, access: Access) -> Page:
    """One GET. Never raises what a server, the network or a file can cause; those are reasons."""
    try:
        async with asyncio.timeout(access.timeout_s):
            headers = {"Accept": _ACCEPT, **access.headers()}
            context = contexts.for_url(url, access.tls)
            async with session.get(url, headers=headers, ssl=context, allow_redirects=False) as response:
                return await _read(response)
    except FAILURES as error:
        return Page(b"", None, reason_of(error, url, access))


async def _read(response: aiohttp.ClientResponse) -> Page:
    if 300 <= response.status < 400:
        where = response.headers.get("Location", "nowhere")
        return Page(b"", response.status, f"HTTP {response.status}: redirected to {where[:200]}, which is not followed")
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > MOST_BYTES:
            return Page(b"", response.status, f"the page is larger than {MOST_BYTES >> 20} MiB")
    return Page(bytes(body), response.status, "" if response.status == 200 else f"HTTP {response.status}")
