"""Routes, answers and life of the HTTP server.

Nothing here waits for a driver, a disk or a network: every answer is made from what is already known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

import npumond
from npumond.config import Listen
from npumond.exposition import Renderer
from npumond.latest import Latest
from npumond.log import logger
from npumond.model import Snapshot
from npumond.negotiation import OPENMETRICS_CONTENT_TYPE, content_type, wants_gzip
from npumond.sinks.http.connections import Door, Guard, Limits
from npumond.sinks.http.listen import Listener, open_listeners
from npumond.sinks.http.overview import overview
from npumond.sinks.http.pages import Pages

_log = logger(__name__)

# Beside the package on disk. importlib.resources would do, at the price of 1 MiB for what it imports.
WEB = Path(npumond.__file__).parent / "web"

_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json; charset=utf-8"
_ALERT_STATES = ("pending", "firing", "resolved", "all")
_NOT_STORED = "the history store is not part of this version"

_PAGE_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_HEADERS = {"Content-Security-Policy": _PAGE_POLICY, "Referrer-Policy": "no-referrer"}

# aiohttp writes a traceback for each request that is not HTTP, so anybody could fill the log. Errors of our own are
# logged by `_answer`; this logger, which belongs to no tree, takes the rest.
_silent = logging.Logger("npumond.http", logging.CRITICAL + 1)  # noqa: LOG001


class HttpServer:
    """Serves pages, states and health on all its addresses, from `start` to `stop`, on the running loop.

    ``status``, ``alerts`` and ``devices`` give what /api/v1/ shows, as things that msgspec writes as JSON; NaN becomes
    null there. ``alerts`` takes a state or the empty string for all. ``ready`` gives whether the daemon is, and if not,
    why. ``reload``, where given, is offered at POST /-/reload; it gives whether the new configuration is in force, and
    if not, why.
    """

    def __init__(
        self,
        addresses: Sequence[Listen],
        *,
        snapshots: Latest[Snapshot],
        status: Callable[[], dict[str, Any]],
        alerts: Callable[[str], list[dict[str, Any]]],
        devices: Callable[[], list[dict[str, Any]]],
        ready: Callable[[], tuple[bool, str]],
        reload: Callable[[], Awaitable[tuple[bool, str]]] | None = None,
        renderer: Renderer | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._addresses = tuple(addresses)
        self._pages = Pages(snapshots, renderer or Renderer())
        self._status = status
        self._alerts = alerts
        self._devices = devices
        self._ready = ready
        self._reload = reload
        self._limits = limits or Limits()
        self._overview = Template((WEB / "index.html").read_text("utf-8"))
        self._style = (WEB / "style.css").read_bytes()
        self._listeners: list[Listener] = []
        self._servers: list[asyncio.Server] = []
        self._runner: web.AppRunner | None = None
        self._door: Door | None = None

    @property
    def bound(self) -> tuple[Listen, ...]:
        """The addresses in use; empty before `start` and after `stop`."""
        return tuple(listener.address for listener in self._listeners)

    @property
    def connections(self) -> int:
        """Number of clients connected."""
        return len(self._door) if self._door else 0

    async def start(self) -> None:
        """Listen and serve. Raises ListenError, naming address and owner, when an address cannot be had."""
        self._listeners = open_listeners(self._addresses)
        self._runner = self._make_runner()
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101 (set up in the line above; for the type checker)
        self._door = Door(self._limits, self._runner.server)
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            serve = loop.create_unix_server if listener.address.path else loop.create_server
            self._servers.append(await serve(self._door, sock=listener.sock))

    async def stop(self) -> None:
        """Stop listening, close idle connections at once, and wait for requests no longer than the limit."""
        for server in self._servers:
            server.close()
        for listener in self._listeners:
            listener.remove_file()
        if self._door is not None:
            await self._door.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._servers, self._listeners, self._door, self._runner = [], [], None, None

    def _make_runner(self) -> web.AppRunner:
        app = web.Application(middlewares=[self._answer], client_max_size=self._limits.body_bytes)
        app.add_routes(self._routes())
        return web.AppRunner(
            app,
            access_log=None,
            logger=_silent,
            keepalive_timeout=self._limits.idle_s,
            max_line_size=self._limits.line_bytes,
            max_field_size=self._limits.line_bytes,
            lingering_time=0.25,  # for bodies, which nobody should send
            shutdown_timeout=0.1,  # the door has waited already
        )

    def _routes(self) -> list[web.RouteDef]:
        routes = [
            web.get("/", self._get_overview),
            web.get("/style.css", self._get_style),
            web.get("/metrics", self._get_metrics),
            web.get("/-/healthy", self._get_healthy),
            web.get("/-/ready", self._get_ready),
            web.get("/api/v1/devices", self._get_devices),
            web.get("/api/v1/alerts", self._get_alerts),
            web.get("/api/v1/status", self._get_status),
            web.get("/api/v1/history", self._get_history),
        ]
        if self._reload is not None:
            routes.append(web.post("/-/reload", self._post_reload))
        return routes

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Around every request: the guard's clock, errors in the client's language, headers that all answers have."""
        guard = request.transport.get_protocol() if request.transport else None
        if isinstance(guard, Guard):
            guard.request_began()
        try:
            response = await self._handle(request, handler)
        finally:
            if isinstance(guard, Guard):
                guard.request_ended()
        response.headers["Server"] = "npumond"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    async def _handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if (request.content_length or 0) > self._limits.body_bytes:
            response = _error(request, 413, "no request here needs a body")
            response.force_close()
            return response
        try:
            return await handler(request)
        except web.HTTPException as error:
            response = _error(request, error.status, error.reason.lower())
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
            return response
        except Exception:  # noqa: BLE001 (one answer that cannot be made must not end the others)
            _log.exception("a request failed", path=request.path)
            return _error(request, 500, "this is a mistake in npumond; its log has the details")

    async def _get_overview(self, request: web.Request) -> web.Response:
        body = overview(self._overview, self._status(), self._devices(), self._alerts("all"))
        return web.Response(body=body, headers={"Content-Type": "text/html; charset=utf-8", **_PAGE_HEADERS})

    async def _get_style(self, request: web.Request) -> web.Response:
        return web.Response(body=self._style, headers={"Content-Type": "text/css; charset=utf-8", **_PAGE_HEADERS})

    async def _get_metrics(self, request: web.Request) -> web.Response:
        kind = content_type(_joined(request, "Accept"))
        compressed = wants_gzip(_joined(request, "Accept-Encoding"))
        headers = {"Content-Type": kind, "Vary": "Accept, Accept-Encoding"}
        if compressed:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=self._pages.page(kind == OPENMETRICS_CONTENT_TYPE, compressed), headers=headers)

    async def _get_healthy(self, request: web.Request) -> web.Response:
        return _text(200, "healthy")

    async def _get_ready(self, request: web.Request) -> web.Response:
        ready, reason = self._ready()
        return _text(200, "ready") if ready else _text(503, reason)

    async def _get_devices(self, request: web.Request) -> web.Response:
        return _json(200, {"devices": self._devices()})

    async def _get_alerts(self, request: web.Request) -> web.Response:
        state = request.query.get("state", "")
        if state and state not in _ALERT_STATES:
            return _error(request, 400, f"state is {state[:80]!r}, and has to be one of {', '.join(_ALERT_STATES)}")
        return _json(200, {"alerts": self._alerts(state)})

    async def _get_status(self, request: web.Request) -> web.Response:
        return _json(200, self._status())

    async def _get_history(self, request: web.Request) -> web.Response:
        return _error(request, 501, _NOT_STORED)

    async def _post_reload(self, request: web.Request) -> web.Response:
        assert self._reload is not None  # noqa: S101 (there is no route without it; for the type checker)
        reloaded, reason = await self._reload()
        return _text(200, "reloaded") if reloaded else _text(500, reason)


def _joined(request: web.Request, header: str) -> str:
    """A list header that may have been sent in several lines."""
    return ",".join(request.headers.getall(header, ()))


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, body=f"{text}\n".encode(), headers={"Content-Type": _TEXT})


def _json(status: int, value: dict[str, Any]) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(value) + b"\n", headers={"Content-Type": _JSON})


def _error(request: web.Request, status: int, reason: str) -> web.Response:
    """JSON for scripts, text for everybody else."""
    return _json(status, {"error": reason}) if request.path.startswith("/api/") else _text(status, reason)
