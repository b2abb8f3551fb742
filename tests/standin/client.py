"""The parent's side of probe.py: a process with a stand-in library in it, and its answers unpacked."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INT = {"buf": 4}
"""An argument that is a pointer to an int to be filled."""


def buf(size: int, initial: bytes = b"") -> dict[str, Any]:
    """An output buffer of a call."""
    return {"buf": size, "hex": initial.hex()}


@dataclass(frozen=True)
class Reply:
    """What a call returned and what it wrote."""

    rc: Any
    out: tuple[bytes, ...]

    def unpack(self, layout: str, index: int = 0) -> tuple[Any, ...]:
        """The fields of one output buffer, from its beginning."""
        return struct.unpack_from(f"={layout}", self.out[index])

    def number(self, index: int = 0) -> int:
        """An output buffer that is one int."""
        value = self.unpack("i", index)[0]
        assert isinstance(value, int)
        return value


class Probe:
    """A process with one stand-in library in it."""

    def __init__(self, library: Path, scenario: Path, **env: str) -> None:
        self.stdout = scenario.with_suffix(".stdout")
        self.calls = scenario.with_suffix(".calls")
        environment = os.environ | {
            "NPUMOND_STANDIN_SCENARIO": str(scenario),
            "NPUMOND_STANDIN_CALLS": str(self.calls),
            "PROBE_STDOUT": str(self.stdout),
            **env,
        }
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("probe.py")), str(library)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._next = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._answers[answer["id"]].put(answer)

    def send(self, function: str, *arguments: Any, **options: Any) -> int:
        """Start a call without waiting for it."""
        self._next += 1
        self._answers[self._next] = queue.Queue()
        assert self._process.stdin is not None
        request = {"id": self._next, "f": function, "a": arguments, **options}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._next

    def answered(self, call: int) -> bool:
        """Whether a started call has returned."""
        return not self._answers[call].empty()

    def answer(self, call: int, timeout: float = 10) -> dict[str, Any]:
        """The raw answer of a started call."""
        return self._answers[call].get(timeout=timeout)

    def reply(self, call: int, timeout: float = 10) -> Reply:
        """What a started call came to."""
        answer = self.answer(call, timeout)
        return Reply(answer["rc"], tuple(bytes.fromhex(text) for text in answer["out"]))

    def call(self, function: str, *arguments: Any, **options: Any) -> Reply:
        """Make a call and wait for it."""
        return self.reply(self.send(function, *arguments, **options))

    def number(self, function: str, *arguments: Any) -> int:
        """A call whose last argument is an int to be filled."""
        reply = self.call(function, *arguments, INT)
        assert reply.rc == 0, f"{function}{arguments} answered {reply.rc}"
        return reply.number()

    def lacks(self, symbol: str) -> bool:
        """Whether dlsym fails for a symbol. It must be one that takes no harm from a call without arguments."""
        return bool(self.answer(self.send(symbol)).get("missing"))

    def events(self) -> list[dict[str, Any]]:
        """The events the handler got so far."""
        found = self.answer(self.send("events"))["events"]
        assert isinstance(found, list)
        return found

    def recorded(self) -> list[str]:
        """The lines of the call record."""
        return self.calls.read_text().splitlines()

    def returncode(self) -> int:
        """How the process ended."""
        return self._process.wait(timeout=10)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=5)
        self._process.stdout.close()  # type: ignore[union-attr]
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # type: ignore[union-attr]


def info(probe: Probe, main: int, sub: int, room: int, *key: int, initial: bytes = b"") -> tuple[int, bytes]:
    """get_device_info: the return code and as many bytes as it says it wrote."""
    name = "dcmi_get_device_info" if len(key) == 2 else "dcmiv2_get_device_info"
    reply = probe.call(name, *key, main, sub, buf(1100, initial), buf(4, struct.pack("I", room)))
    return reply.rc, reply.out[0][: reply.number(1)]


def wait_until(condition: Callable[[], bool], timeout: float = 5) -> None:
    """Poll for what another process does; its stand-in looks at the file every 10 or 20 ms."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


Start = Callable[..., Probe]
"""The `start` fixture: a scenario and options to a running process."""
