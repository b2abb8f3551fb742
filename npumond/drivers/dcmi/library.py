"""Finding and loading libdcmi.so, and binding its functions.

Source: reference dcmi.md, section 1. A missing library has to be explained to people who look at a container or a fresh
host, so every path that was tried is kept with what came of it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from npumond.errors import DriverError

NAME = "libdcmi.so"

_DEPENDENCIES = ("libc_sec.so", "libmmpa.so", "libascend_hal.so", "libdrvdsmi_host.so")
"""In the order in which they need each other. A missing libc_sec.so is the commonest reason for a load to fail."""

_INSTALL_INFO = "etc/ascend_install.info"
_INSTALL_KEY = "Driver_Install_Path_Param="
_MODE = os.RTLD_LAZY | ctypes.RTLD_GLOBAL


class Library:
    """A loaded vendor library whose functions are bound when they are first asked for."""

    def __init__(self, handle: ctypes.CDLL, path: str, searched: tuple[str, ...]) -> None:
        self._handle = handle
        self.path = path
        self.searched = searched

    def bind(self, symbol: str, argtypes: tuple[Any, ...]) -> Callable[..., int] | None:
        """The function, returning ``int``; None when this version of the library has no such symbol."""
        try:
            function = self._handle[symbol]
        except AttributeError:
            return None
        function.argtypes = argtypes
        function.restype = ctypes.c_int
        return function


def load(explicit: str | None, environ: Mapping[str, str], root: Path = Path("/")) -> Library:
    """The first library that can be loaded. A path given by the user is the only one tried.

    Raises `DriverError` with every path tried. Sets nothing in the environment: the dynamic loader reads
    ``LD_LIBRARY_PATH`` when the process starts and never again, so what the library needs is loaded first by path.
    """
    searched: list[str] = []
    for candidate in _candidates(explicit, environ, root):
        handle, came_of_it = _try(candidate)
        if came_of_it not in searched:
            searched.append(came_of_it)
        if handle is not None:
            return Library(handle, candidate, tuple(searched))
    if explicit is not None:
        raise DriverError(f"{explicit} could not be loaded: " + "; ".join(searched), searched=tuple(searched))
    raise DriverError(f"{NAME} was not found in {len(searched)} places, or not loaded", searched=tuple(searched))


def _candidates(explicit: str | None, environ: Mapping[str, str], root: Path) -> Iterator[str]:
    if explicit:
        yield explicit
        return
    for directory in environ.get("LD_LIBRARY_PATH", "").split(":"):
        if directory:
            yield f"{directory.rstrip('/')}/{NAME}"
    yield NAME
    yield str(root / "usr/local/dcmi" / NAME)
    installed = _installed_at(root)
    if installed:
        yield str(installed / "driver/lib64/driver" / NAME)
    for directory in (
        "usr/local/Ascend/driver/lib64/driver",
        "usr/local/Ascend/driver/lib64",
        "usr/lib64",
        "home/data/miniD/driver/lib64",
    ):
        yield str(root / directory / NAME)


def _installed_at(root: Path) -> Path | None:
    """Where the driver's installer says that it put the driver."""
    try:
        lines = (root / _INSTALL_INFO).read_text(errors="replace").splitlines()
    except OSError:
        return None
    paths = (line.partition("=")[2].strip() for line in lines if line.strip().startswith(_INSTALL_KEY))
    return next((Path(path) for path in paths if path), None)


def _try(candidate: str) -> tuple[ctypes.CDLL | None, str]:
    """The library or None, and what came of it in words."""
    if "/" in candidate:
        trouble = _trouble_with(Path(candidate))
        if trouble:
            return None, f"{candidate}: {trouble}"
        _preload(Path(candidate).absolute().parent)
    try:
        return ctypes.CDLL(candidate, mode=_MODE), f"{candidate}: loaded"
    except OSError as error:
        return None, _failure(candidate, str(error))


def _trouble_with(path: Path) -> str:
    """Why the file cannot even be seen; empty when it can."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "not there"
    except OSError as error:
        return error.strerror or "cannot be seen"
    return ""


def _failure(candidate: str, error: str) -> str:
    if "/" not in candidate and error.startswith(f"{candidate}: cannot open shared object file"):
        return f"{candidate}: not in the loader's search path"
    return error if error.startswith(candidate) else f"{candidate}: {error}"


def _preload(directory: Path) -> None:
    """Load what libdcmi.so needs from beside it; what fails here is named by the failure of libdcmi.so itself."""
    parent = directory.parent
    neighbours = (directory, directory / "driver", directory / "common", parent / "driver", parent / "common")
    for name in _DEPENDENCIES:
        path = next((place / name for place in neighbours if not _trouble_with(place / name)), None)
        if path is not None:
            try:
                ctypes.CDLL(str(path), mode=_MODE)
            except OSError:
                continue
