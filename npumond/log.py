"""The daemon's log: lines for people on a terminal, JSON lines elsewhere, and state changes instead of repetition.

Our own loggers (`structlog.get_logger`) and those of libraries (`logging`, aiohttp's for instance) end in one handler
and look the same.

Why through `logging` and not past it: libraries write there in any case, and one lock then keeps lines whole.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Hashable
from typing import Any, Literal, Protocol, TextIO

from msgspec import Struct

# structlog imports rich wherever it is installed, for tracebacks that we do not use: 5 MiB in a daemon that is to be
# small. Nobody else imports structlog, so that this comes first.
_unwanted = "rich" not in sys.modules
if _unwanted:
    sys.modules["rich"] = None  # type: ignore[assignment]  # what makes its import fail
import structlog  # noqa: E402
from structlog.typing import Processor  # noqa: E402

if _unwanted:
    del sys.modules["rich"]

Format = Literal["auto", "console", "json"]
Level = Literal["debug", "info", "warning", "error"]

BURST = 4
"""Lines that one key may write at once: a fault, its end, and once more."""
REFILL_S = 60.0
"""Seconds after which a key may write one line more."""

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def logger(name: str = "npumond") -> structlog.stdlib.BoundLogger:
    """A logger of that name; it follows whatever `configure` said last."""
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return bound


def configure(level: Level = "info", format: Format = "auto", stream: TextIO | None = None) -> None:  # noqa: A002 - the key's name
    """Send everything of this level and above to the stream (standard error) in the format; may be called again."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(format, on_terminal=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # a cached logger would keep the processors of the configuration before
    )


def _formatter(format_: Format, *, on_terminal: bool) -> logging.Formatter:
    console = on_terminal if format_ == "auto" else format_ == "console"
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *(_console(colours=on_terminal) if console else _json()),
        ],
    )


def _console(*, colours: bool) -> tuple[Processor, ...]:
    """Plain tracebacks: the rich ones print local variables, and with them secrets."""
    return (structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback),)


def _json() -> tuple[Processor, ...]:
    """One line a record; a traceback is the text of the field ``exception``."""
    return (
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(),
    )


class Logger(Protocol):
    """What writes a line; every structlog logger does, and its signature is as loose as this."""

    def log(self, level: int, event: str | None = None, *args: Any, **fields: Any) -> Any:
        """Write one line."""


class _Told(Struct):
    """What was written last of one key, and what has happened since."""

    state: Hashable
    seen: Hashable
    lines_left: float
    at: float
    suppressed: int = 0


class StateLog:
    """Says a thing when its state changes, not each time it is looked at.

    Call `say` at every round; it writes when the state differs from the one written last. A key that goes to and fro
    may write a few lines (``burst``) and then one each ``refill_s``; changes that were not written are counted in the
    next line as ``suppressed``, and that line comes even when the state is back where it was.
    """

    def __init__(
        self,
        logger: Logger,
        clock: Callable[[], float],
        *,
        burst: int = BURST,
        refill_s: float = REFILL_S,
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._burst = burst
        self._refill_s = refill_s
        self._told: dict[Hashable, _Told] = {}

    def say(
        self, key: Hashable, state: Hashable, event: str, /, *, level: int = logging.INFO, **fields: object
    ) -> bool:
        """The key's state now; gives whether a line was written. The first state of a key is a change."""
        told = self._at(key)
        if state != told.seen:
            told.seen = state
            told.suppressed += 1
        if state == told.state and not told.suppressed:
            return False
        if told.lines_left < 1:
            return False
        told.lines_left -= 1
        self._write(told, state, event, level, fields)
        return True

    def forget(self, key: Hashable) -> None:
        """Drop what is known of a key that will not come back, so that memory stays bounded."""
        self._told.pop(key, None)

    def _at(self, key: Hashable) -> _Told:
        """What is known of the key, with the lines that time has given back."""
        now = self._clock()
        told = self._told.setdefault(key, _Told(_UNSAID, _UNSAID, float(self._burst), now))
        told.lines_left = min(float(self._burst), told.lines_left + (now - told.at) / self._refill_s)
        told.at = now
        return told

    def _write(self, told: _Told, state: Hashable, event: str, level: int, fields: dict[str, object]) -> None:
        missed = told.suppressed - (state != told.state)
        counted = {"suppressed": missed} if missed else {}
        told.state, told.suppressed = state, 0
        self._logger.log(level, event, **fields, **counted)


_UNSAID = object()
"""The state of a key before anything was said of it; equal to no other."""
