"""The worker process: the only one that loads the vendor's libraries.

Started by exec with one end of a socket pair. It opens the driver, says what it found and then answers rounds until the
socket closes. It may hang or crash; the daemon may not. Standard output and error belong to the vendor's libraries,
which print; the daemon drains them into its log.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from npumond.drivers.driver import Driver
from npumond.errors import DriverError
from npumond.model import DriverFacts
from npumond.worker.lanes import Lanes
from npumond.worker.orphan import end_with_parent
from npumond.worker.protocol import (
    Alive,
    Hello,
    Message,
    OpenFailed,
    Quarantined,
    Read,
    RoundDone,
    WorkerOptions,
    encode,
    reader,
)

BEAT_S = 1.0
"""How often the worker says that it is alive, and what takes long."""

STACK_BYTES = 1 << 20
"""Per lane thread. The vendor's calls put a few KB on the stack; the default of 8 MB costs address space 200-fold with
64 devices."""


def main(daemon: socket.socket, options: WorkerOptions) -> int:
    """Open the driver, greet, serve. Returns 0 when the daemon closed the socket, 1 when no driver could be opened."""
    end_with_parent(options.parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash in the vendor's library is to cost no disk
    threading.stack_size(STACK_BYTES)
    try:
        driver, facts = open_first(candidates(options))
    except DriverError as error:
        daemon.sendall(encode(OpenFailed(str(error), error.code, error.searched)))
        return 1
    daemon.sendall(encode(Hello(facts)))
    serve(daemon, driver, facts, options.quarantine)
    return 0


def candidates(options: WorkerOptions) -> Iterator[Driver]:
    """The drivers to try, in order. Each is imported when its turn comes: a worker is to stay small."""
    if options.backend == "simulated":
        from npumond.drivers.simulated.driver import SimulatedDriver

        yield SimulatedDriver(options.scenario)
    if options.backend in ("auto", "dcmi"):
        from npumond.drivers.dcmi.driver import DcmiDriver

        yield DcmiDriver(options.dcmi_library, hccn_tool=options.hccn_tool)
    if options.backend in ("auto", "acl"):
        from npumond.drivers.acl.driver import AclDriver

        yield AclDriver(options.acl_library)


def open_first(drivers: Iterable[Driver]) -> tuple[Driver, DriverFacts]:
    """The first driver that opens. Raises `DriverError` with every reason and every path when none does."""
    reasons: list[str] = []
    searched: list[str] = []
    code: int | None = None
    for driver in drivers:
        try:
            facts = driver.open()
            return driver, replace(facts, searched=(*searched, *facts.searched))
        except DriverError as error:
            reasons.append(str(error))
            searched.extend(error.searched)
            code = error.code if code is None else code
    raise DriverError("; ".join(reasons), code, tuple(searched))


def serve(daemon: socket.socket, driver: Driver, facts: DriverFacts, quarantine: tuple[Quarantined, ...] = ()) -> None:
    """Answer rounds until the daemon closes its end, which it does even when it is killed."""
    sending = threading.Lock()

    def send(message: Message) -> None:
        frame = encode(message)
        with sending:
            daemon.sendall(frame)

    def beat() -> None:
        while True:
            time.sleep(BEAT_S)
            send(Alive(lanes.busy(BEAT_S / 2)))

    lanes = Lanes(driver, facts.devices, lambda done: send(RoundDone(done)), time.monotonic, quarantine)
    threading.Thread(target=beat, name="beat", daemon=True).start()
    frames = reader()
    while data := daemon.recv(1 << 16):
        for message in frames.feed(data):
            _begin(lanes, message)


def _begin(lanes: Lanes, message: Message) -> None:
    if isinstance(message, Read):
        lanes.start_round(message.lane, message.phy_ids)


def _end_on_any_error(args: threading.ExceptHookArgs) -> None:
    """A lane that died would be a device that silently goes stale: end the process, the daemon starts another."""
    traceback.print_exception(args.exc_type, args.exc_value, args.exc_traceback)
    os._exit(1)


if __name__ == "__main__":
    threading.excepthook = _end_on_any_error
    status = main(socket.socket(fileno=int(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=WorkerOptions))
    sys.stdout.flush()
    os._exit(status)  # lane threads may hang in vendor calls; waiting for them would hang the exit
