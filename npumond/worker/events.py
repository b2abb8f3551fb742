"""The process that listens for fault events: subscribes, hands on what the library tells, ends with the socket.

Started by exec with one end of a socket pair, as the worker is (`npumond.worker.subscriber` starts it). A process of
its own, because the library grants one subscription a process and ends it with the process only: a worker is replaced
whenever a call hangs, and its successor subscribes while it still lives.

The library's thread only puts a copy of the record into a queue; another thread reads, packs and sends. A daemon that
is stopped or slow therefore never blocks the library: events beyond the queue's room are dropped, counted and told.
"""

from __future__ import annotations

import os
import queue
import resource
import socket
import sys
import threading
import time
import traceback

import msgspec

from npumond.drivers.dcmi.events import FaultEvent, read_event, subscribe
from npumond.errors import DriverError
from npumond.model import LogicId
from npumond.worker.event_protocol import FaultRaised, Message, Missed, Subscribed, SubscribeFailed, encode
from npumond.worker.orphan import end_with_parent
from npumond.worker.protocol import WorkerOptions

QUEUE_ROOM = 4096
"""Events that wait to be sent, some 400 bytes each."""

MOST_MESSAGE = 8000
"""Characters of a failure's message; the paths tried are part of it."""


class Outbox:
    """Events between the library's thread, which must not wait, and the socket, which may."""

    def __init__(self, room: int = QUEUE_ROOM) -> None:
        self._waiting: queue.Queue[tuple[float, bytes]] = queue.Queue(room)
        self._dropped = 0
        self._rejected = 0
        self._told = Missed(0, 0)

    def put(self, record: bytes) -> None:
        """Take an event now, or count it as dropped. Never waits, never raises."""
        try:
            self._waiting.put_nowait((time.monotonic(), record))
        except queue.Full:
            self._dropped += 1

    def take(self) -> list[Message]:
        """Wait for an event; what there is to tell of it, and of those that were lost before it."""
        heard_at, record = self._waiting.get()
        messages: list[Message] = []
        try:
            messages.append(_told(heard_at, read_event(record)))
        except ValueError:
            self._rejected += 1
        missed = Missed(self._dropped, self._rejected)
        if missed != self._told:
            self._told = missed
            messages.append(missed)
        return messages


def _told(heard_at: float, event: FaultEvent) -> FaultRaised:
    return FaultRaised(
        heard_at=heard_at,
        code=event.code,
        logic_id=LogicId(event.logic_id),
        severity=event.severity,
        assertion=event.assertion,
        event_serial=event.event_serial,
        notify_serial=event.notify_serial,
        name=event.name,
        raised_at=event.raised_at,
    )


def main(daemon: socket.socket, options: WorkerOptions) -> int:
    """Subscribe and serve. Returns 0 when the daemon closed the socket, 1 when there is nothing to subscribe to."""
    end_with_parent(options.parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash in the vendor's library is to cost no disk
    outbox = Outbox()
    try:
        subscription = subscribe(options.dcmi_library, os.environ, outbox.put)
    except DriverError as error:
        daemon.sendall(encode(SubscribeFailed(error.code, str(error)[:MOST_MESSAGE])))
        return 1
    daemon.sendall(encode(Subscribed(subscription.library, subscription.api)))
    serve(daemon, outbox)
    return 0


def serve(daemon: socket.socket, outbox: Outbox) -> None:
    """Send what arrives until the daemon closes its end, which it does even when it is killed."""

    def send() -> None:
        while True:
            daemon.sendall(b"".join(encode(message) for message in outbox.take()))

    threading.Thread(target=send, name="send", daemon=True).start()
    while daemon.recv(1 << 10):
        pass


def _end_on_any_error(args: threading.ExceptHookArgs) -> None:
    """Without its sender the process would be deaf and look well: end it, the daemon starts another."""
    if not isinstance(args.exc_value, OSError):  # that is the daemon gone
        traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)


if __name__ == "__main__":
    threading.excepthook = _end_on_any_error
    status = main(socket.socket(fileno=int(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=WorkerOptions))
    sys.stdout.flush()
    os._exit(status)  # the library's thread may be in our handler; its exit handlers would wait for that
