"""Real HTTP servers on loopback for the sources of inference, with and without TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import trustme
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None, path: str = "") -> AsyncIterator[str]:
    """A server that answers everything by this handler; gives its address, and the path after it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}{path}"
    finally:
        await runner.cleanup()


class Authority:
    """A private certificate authority, and a client's certificate by it."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.ca_file = str(folder / "ca.pem")
        self.cert_file = str(folder / "client.pem")
        self.key_file = str(folder / "client.key")
        self.both_file = str(folder / "both.pem")
        """Certificate and key in one."""
        self.ca.cert_pem.write_to_path(self.ca_file)
        client = self.ca.issue_cert("npumond")
        client.cert_chain_pems[0].write_to_path(self.cert_file)
        client.private_key_pem.write_to_path(self.key_file)
        client.private_key_and_cert_chain_pem.write_to_path(self.both_file)

    def context(self, name: str = "127.0.0.1", *, of_client: bool = False, expired: bool = False) -> ssl.SSLContext:
        """A server's side; ``of_client`` asks for a certificate of the client too."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ended = datetime(2020, 1, 1, tzinfo=UTC) if expired else None
        self.ca.issue_cert(name, not_after=ended).configure_cert(context)
        if of_client:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context
