"""One vendor function called: its types, its buffers, its guards, and how long it took."""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import POINTER, byref, c_int, c_void_p
from time import perf_counter
from typing import Any

from npumond.drivers.dcmi.library import Library
from npumond.drivers.guarded import Arena, Buffer

_TAKES_VOID = frozenset({"dcmi_get_device_info", "dcmiv2_get_device_info"})
"""Functions whose buffer is ``void *`` in the vendor's header: one function, another structure for each sub-command."""


class NoSymbolError(Exception):
    """This version of the library lacks the function."""


class OverrunError(Exception):
    """The library wrote outside a buffer; the message says where and how far."""


class Functions:
    """The library's functions, each bound at its first use and kept, a missing one too. Shared by all threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._bound: dict[str, Callable[..., int] | None] = {}
        self._local = threading.local()

    def caller(self) -> Caller:
        """A caller for one question in the present thread."""
        arena = getattr(self._local, "arena", None)
        if arena is None:
            arena = self._local.arena = Arena()
        return Caller(self, arena)

    def get(self, symbol: str, arguments: tuple[Any, ...]) -> Callable[..., int]:
        """The function, its types taken from the first arguments it is called with.

        Raises `NoSymbolError`.
        """
        try:
            function = self._bound[symbol]
        except KeyError:
            function = self._bound[symbol] = self._library.bind(symbol, _types(symbol, arguments))
        if function is None:
            raise NoSymbolError(symbol)
        return function


class Caller:
    """The calls that answer one question. Not to be shared between threads."""

    def __init__(self, functions: Functions, arena: Arena) -> None:
        self._functions = functions
        self._arena = arena
        self.seconds = 0.0
        """Time spent inside vendor functions so far."""

    def take(self, kind: type[Buffer], room: int = 0) -> Buffer:
        """A zeroed, guarded buffer for the next call; good until the first `take` after that call."""
        return self._arena.take(kind, room)

    def call(self, symbol: str, *arguments: Any) -> int:
        """The function's return code. Integers go by value, buffers by address.

        Raises `NoSymbolError`, and `OverrunError` when a buffer's surroundings were damaged.
        """
        function = self._functions.get(symbol, arguments)
        passed = [argument if isinstance(argument, int) else byref(argument) for argument in arguments]
        begun = perf_counter()
        code = function(*passed)
        self.seconds += perf_counter() - begun
        damage = self._arena.check()
        if damage:
            raise OverrunError(f"{symbol} {damage}")
        return code


def _types(symbol: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    pointer = (lambda _: c_void_p) if symbol in _TAKES_VOID else POINTER
    return tuple(c_int if isinstance(argument, int) else pointer(type(argument)) for argument in arguments)
