"""The real HTTP server on a loopback port, in a thread of its own, for inputs that are sent to it as they are."""

from __future__ import annotations

import asyncio
import socket
import threading
from functools import cache

from npumond.config.notation import Listen
from npumond.latest import Latest
from npumond.model import Sample, Snapshot
from npumond.sinks.http.server import HttpServer

PATIENCE_S = 10.0


@cache
def port() -> int:
    """Where the server listens; it is started by the first who asks and lives as long as this process."""
    ready = threading.Event()
    found: list[int] = []

    async def serve() -> None:
        snapshots: Latest[Snapshot] = Latest()
        sample = Sample("npu_power_watts", ("0",), 73.9)
        snapshots.set(Snapshot(at=1.0, wall_at=1.0, families={sample.family: (sample,)}))
        server = HttpServer(
            (Listen("127.0.0.1", 0),),
            snapshots=snapshots,
            status=lambda: {"node": "fuzz", "version": "0"},
            alerts=lambda state: [],
            devices=list,
            ready=lambda: (True, ""),
        )
        await server.start()
        found.append(server.bound[0].port)
        ready.set()
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(serve()), name="fuzzed-server", daemon=True).start()
    assert ready.wait(PATIENCE_S)
    return found[0]


def answer(request: bytes) -> bytes:
    """Everything that the server says to these bytes until it closes the connection, as it must once we have."""
    said = bytearray()
    with socket.create_connection(("127.0.0.1", port()), PATIENCE_S) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                said += data
        except (ConnectionResetError, BrokenPipeError):
            pass  # its way to refuse what is far too long
    return bytes(said)
