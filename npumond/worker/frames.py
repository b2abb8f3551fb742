"""Messages over a stream socket: a four-byte big-endian length and that many bytes of MessagePack.

Both sides run the same code on the same machine, so there is no versioning. What arrives is still checked: the memory
of a process that holds foreign libraries is not to be trusted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from npumond.errors import WorkerError

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()

Message = TypeVar("Message")


def frame(message: msgspec.Struct) -> bytes:
    """One frame, ready to be sent."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames(Generic[Message]):
    """Cuts a byte stream into messages, however the stream was chopped up."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[Message], most: int, sender: str) -> None:
        """``most`` is the length in bytes beyond which a frame is garbage; ``sender`` is who is blamed for one."""
        self._decoder = decoder
        self._most = most
        self._sender = sender
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Messages completed by these bytes. Raises `WorkerError` on a frame that cannot be one of ours."""
        self._buffer += data
        while (body := self._next_body()) is not None:
            try:
                yield self._decoder.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise WorkerError(
                    f"a frame of {len(body)} bytes from {self._sender} cannot be read: {error}"
                ) from error

    def _next_body(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self._most:
            raise WorkerError(f"a frame from {self._sender} claims {length} bytes; the most is {self._most}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return body
