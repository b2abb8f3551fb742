"""Every error that npumond raises on purpose, in one tree.

    NpumondError
    ├── ConfigError       the configuration is wrong; carries every mistake, exit code 78
    ├── ListenError       the listen address is taken or refused, exit code 3
    ├── DriverError       a vendor library could not be loaded or initialised
    └── WorkerError       the worker process is not there to answer
        └── WorkerGone    it ended, or its socket broke, while we waited

One more stays inside the worker process: `npumond.drivers.acl.abi.CallError`, which ends a probe that went wrong.
"""

from __future__ import annotations


class NpumondError(Exception):
    """Root of all errors raised on purpose."""


class ConfigError(NpumondError):
    """A configuration with mistakes: all of them, one line each, in ``mistakes``."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class ListenError(NpumondError):
    """The listen address cannot be had; the message names it and, where it can be seen, who holds it."""


class DriverError(NpumondError):
    """A vendor library could not be opened or initialised.

    ``code`` is the vendor's return code where there is one; ``searched`` lists every path tried and what came of it.
    """

    def __init__(self, message: str, code: int | None = None, searched: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.searched = searched


class WorkerError(NpumondError):
    """The worker process cannot answer."""


class WorkerGone(WorkerError):
    """The worker ended, or its socket broke, while an answer was awaited."""
