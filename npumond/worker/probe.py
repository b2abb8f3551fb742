"""The round-trip probe: 64 bytes to the chip and back, timed, in a short-lived process of its own.

Opt-in, because it opens a context: the first one takes seconds, costs 120 to 550 MB of HBM while it exists, starts a
helper on the chip, and puts this process into every user's process list. The time is that of the host's launch path,
the task scheduler and the DMA, waiting behind the workload's tasks included: how responsive the chip is, not how fast.

Why a process for each run: a context is given back by the driver when its process dies, whatever state the chip is in.
``aclFinalize`` and ``aclrtResetDevice`` wait for the chip, for ever when a task is stuck, so they are never called.

One line of JSON is the answer; see `npumond.worker.prober`, which starts this and reads it. Standard error names the
step that has begun, so that a probe that hangs can be told where.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from npumond.drivers.acl.abi import (
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    MALLOC_NORMAL_ONLY,
    MEM_HBM,
    OUT,
    Acl,
    CallError,
    Handle,
    MemInfo,
    Out,
    peek,
    poke,
)
from npumond.drivers.acl.driver import initialise, load, prepare_environment
from npumond.errors import DriverError
from npumond.worker.orphan import end_with_parent

SIZE: Final = 64
WARM_UPS: Final = 3
SYNC_TIMEOUT_MS: Final = 500
STEP_MARK: Final = "npumond probe: "


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the answer, and leave at once; never returns."""
    options = _arguments().parse_args(argv)
    end_with_parent(options.parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash in the vendor's library is to cost no disk
    answer = take_standard_output()
    log_folder = options.log_folder or tempfile.mkdtemp(prefix="npumond-probe-")
    prepare_environment(log_folder)
    report = measure(options.device, options.phy_id, options.count, options.library)
    with os.fdopen(answer, "wb") as out:
        out.write(msgspec.json.encode(report) + b"\n")
    if not options.log_folder:
        shutil.rmtree(log_folder, ignore_errors=True)
    os._exit(0)  # the libraries' exit handlers would wait for the chip


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="npumond.worker.probe", description="Internal: started by the npumond daemon."
    )
    parser.add_argument("--device", type=int, required=True, help="device id as ACL counts")
    parser.add_argument("--phy-id", type=int, required=True, help="physical chip number, for the answer")
    parser.add_argument("--count", type=int, default=10, help="round trips to time")
    parser.add_argument("--library", help="path of the ACL runtime")
    parser.add_argument("--log-folder", help="where the runtime writes its log files; a temporary one by default")
    parser.add_argument("--parent", type=int, help="process id of the starter; without it there is nothing to do")
    return parser


def take_standard_output() -> int:
    """A descriptor of what was standard output; the libraries print, and what they print goes to standard error."""
    sys.stdout.flush()
    taken = os.dup(1)
    os.dup2(2, 1)
    return taken


def measure(device_id: int, phy_id: int, count: int, library: str | None) -> dict[str, Any]:
    """Everything that could be measured, and what stopped it. ``Any``: the values are of every JSON type."""
    report: dict[str, Any] = {
        "phy_id": phy_id, "kind": "ok", "roundtrips_s": [], "set_device_s": None,
        "memory_free": None, "memory_total": None, "error": None, "detail": "",
    }  # fmt: skip
    try:
        _measure(device_id, count, library, report)
    except DriverError as error:
        detail = "; ".join((str(error), *error.searched))
        report.update(kind="error", error=error.code, detail=detail)
    except CallError as error:
        kind = "timeout" if error.kind == "timeout" else "error"
        report.update(kind=kind, error=error.code or None, detail=error.detail)
    return report


def _measure(device_id: int, count: int, library: str | None, report: dict[str, Any]) -> None:
    _begin("aclInit")
    acl, _, _ = load(library)
    initialise(acl)
    _begin("aclrtSetDevice")
    started = time.perf_counter()
    acl.do("aclrtSetDevice", device_id)
    report["set_device_s"] = time.perf_counter() - started
    _begin("aclrtGetMemInfo")
    report["memory_free"], report["memory_total"] = _memory(acl)
    _begin("aclrtCreateStream and buffers")
    path = _Path(acl)
    _begin("round trips")
    for number in range(WARM_UPS):
        path.trip(number)
    for number in range(count):
        report["roundtrips_s"].append(path.trip(WARM_UPS + number))


def _begin(step: str) -> None:
    os.write(2, f"{STEP_MARK}{step}\n".encode())


def _memory(acl: Acl) -> tuple[int | None, int | None]:
    """Free and total bytes of HBM as the chip's allocator sees it, device-wide; None where the chip has none."""
    with contextlib.suppress(CallError):
        info = acl.get("aclrtGetMemInfo", MemInfo, MEM_HBM, Out(MemInfo.free.offset), Out(MemInfo.total.offset))
        if info.total:
            return int(info.free), int(info.total)
    return None, None


class _Path:
    """A stream and the buffers at both ends.

    Two host buffers: with one for both ways, bytes that never left would pass for bytes that came back.
    """

    def __init__(self, acl: Acl) -> None:
        self._acl = acl
        self._stream = acl.get("aclrtCreateStream", Handle, OUT).value
        self._sent = int(acl.get("aclrtMallocHost", Handle, OUT, SIZE).value)
        self._back = int(acl.get("aclrtMallocHost", Handle, OUT, SIZE).value)
        self._chip = int(acl.get("aclrtMalloc", Handle, OUT, SIZE, MALLOC_NORMAL_ONLY).value)

    def trip(self, number: int) -> float:
        """Seconds of one round trip. Raises `CallError` when a call fails or other bytes come back than were sent."""
        sent = bytes((number + i) & 0xFF for i in range(SIZE))
        poke(self._sent, sent)
        poke(self._back, bytes(255 - b for b in sent))
        started = time.perf_counter()
        self._copy(self._chip, self._sent, HOST_TO_DEVICE)
        self._copy(self._back, self._chip, DEVICE_TO_HOST)
        self._acl.do("aclrtSynchronizeStreamWithTimeout", self._stream, SYNC_TIMEOUT_MS)
        ended = time.perf_counter()
        if peek(self._back, SIZE) != sent:
            raise CallError("error", 0, f"round trip {number}: the {SIZE} bytes that came back are not those sent")
        return ended - started

    def _copy(self, to: int, source: int, kind: int) -> None:
        self._acl.do("aclrtMemcpyAsync", to, SIZE, source, SIZE, kind, self._stream)


if __name__ == "__main__":
    main()
