"""A child process that loads one stand-in library and makes the calls it is told to.

One JSON request a line on stdin, one JSON answer a line on the descriptor that was stdout; the library's own stdout
goes to the file named by PROBE_STDOUT. Every call runs on a thread of its own, so that one may hang while others go on;
a request with `"thread": "main"` runs on the reader's thread, for calls that depend on thread-local state.

Arguments: an integer; null for NULL; {"buf": size, "hex": initial bytes}; {"str": text}; {"filter": [flag, event id,
severity, node type]} by value; {"pair": [a, b]} for a structure of two integers by value; {"callback": true};
{"ref": name} for a handle kept from an earlier answer; a number of bytes {"size": n}.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from typing import Any


class EventFilter(ctypes.Structure):
    """`dcmi_event_filter`, passed by value."""

    _fields_ = (
        ("filter_flag", ctypes.c_uint64),
        ("event_id", ctypes.c_uint32),
        ("severity", ctypes.c_uint8),
        ("node_type", ctypes.c_uint8),
        ("resv", ctypes.c_uint8 * 32),
    )


class Pair(ctypes.Structure):
    """Two integers by value, such as `dcmi_ecc_record_type`."""

    _fields_ = (("first", ctypes.c_int), ("second", ctypes.c_int))


HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
events: list[dict[str, Any]] = []
handles: dict[str, ctypes.c_void_p] = {}


def on_event(address: int | None) -> None:
    """Keep a copy of the record and of the thread it came on."""
    assert address is not None
    events.append({"hex": ctypes.string_at(address, 360).hex(), "thread": threading.get_native_id()})


handler = HANDLER(on_event)


def convert(argument: Any, buffers: list[Any]) -> Any:
    """One JSON argument as ctypes wants it; buffers are remembered so that their content can be answered."""
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, int):
        return ctypes.c_int64(argument) if abs(argument) > 0xFFFFFFFF else ctypes.c_int(argument)
    if "buf" in argument:
        buffer = (ctypes.c_char * argument["buf"])()
        initial = bytes.fromhex(argument.get("hex", ""))
        ctypes.memmove(buffer, initial, len(initial))
        buffers.append(buffer)
        return buffer
    if "str" in argument:
        return ctypes.c_char_p(argument["str"].encode())
    if "filter" in argument:
        return EventFilter(*argument["filter"])
    if "pair" in argument:
        return Pair(*argument["pair"])
    if "size" in argument:
        return ctypes.c_size_t(argument["size"])
    if "ref" in argument:
        return handles[argument["ref"]]
    return handler


def call(library: ctypes.CDLL, request: dict[str, Any]) -> dict[str, Any]:
    """Make one call and describe what came of it."""
    if request["f"] == "events":
        return {"id": request["id"], "events": list(events), "main": threading.main_thread().native_id}
    try:
        function = getattr(library, request["f"])
    except AttributeError:
        return {"id": request["id"], "missing": True}
    buffers: list[Any] = []
    function.restype = ctypes.c_char_p if request.get("text") else ctypes.c_int
    result = function(*(convert(argument, buffers) for argument in request["a"]))
    if request.get("keep"):
        handles[request["keep"]] = ctypes.c_void_p(int.from_bytes(bytes(buffers[0])[:8], "little"))
    if isinstance(result, bytes):
        result = result.decode()
    return {"id": request["id"], "rc": result, "out": [bytes(buffer).hex() for buffer in buffers]}


def main() -> None:
    """Serve requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    log = os.open(os.environ.get("PROBE_STDOUT", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    library = ctypes.CDLL(sys.argv[1])
    lock = threading.Lock()

    def serve(request: dict[str, Any]) -> None:
        answer = json.dumps(call(library, request))
        with lock:
            print(answer, file=answers, flush=True)

    for line in sys.stdin:
        request = json.loads(line)
        if request.get("thread") == "main":
            serve(request)
        else:
            threading.Thread(target=serve, args=(request,), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
