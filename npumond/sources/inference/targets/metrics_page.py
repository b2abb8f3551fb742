"""Reads the wanted series from a Prometheus text page, or refuses the page as a whole.

Pages of inference servers have tens of thousands of lines, of which some hundreds matter: lines are first sifted by
their beginning, which costs a tenth of a microsecond a line, and only those that pass are taken apart.

A page that is damaged anywhere we look is not used at all: half a histogram gives a wrong quantile and no error.

Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]
"""Names and values in alphabetical order, without ``le``."""


class Key(NamedTuple):
    """What makes a series."""

    name: str
    labels: Labels
    le: float | None = None
    """Upper bound of a histogram's bucket; None for every other series."""


class PageError(Exception):
    """The page cannot be used, and why."""


_QUOTED = rb"\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\""
_LINE = re.compile(
    rb"([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+"
    rb"(?:\{((?:[^\"}]++|" + _QUOTED + rb")*+)\})?+[ \t]*+"
    rb"(?<=[ \t}])([^ \t#]++)(?:[ \t]++[-+.0-9eE]++)?+[ \t]*+(?:#.*+)?+"
)
_LABEL = re.compile(
    rb"[ \t,]*+(?:([a-zA-Z_][a-zA-Z0-9_]*+)|" + _QUOTED + rb")[ \t]*+=[ \t]*+\"([^\"\\]*+(?:\\.[^\"\\]*+)*+)\""
)
"""All quantifiers are possessive: no line, however odd, takes more than one look at each of its bytes."""

_JSON = re.compile(rb"\[|\{\s*+(?:\}|" + _QUOTED + rb"\s*+:)")
"""A line of metrics may begin with a brace too, before a quoted name."""

_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}

MOST_KEYS = 20_000
"""Series that a reader remembers; a page with more is read all the same, and slower."""


class PageReader:
    """Reads one server's page again and again: a series is written the same each time, and is taken apart once."""

    def __init__(self, families: Collection[str]) -> None:
        """``families``: names of the families that are wanted, without ``_bucket``, ``_sum`` and ``_count``."""
        self._sieve = tuple(sorted({family.encode() for family in families}))
        wanted = (family + suffix for family in families for suffix in ("", "_bucket", "_sum", "_count", "_total"))
        self._names = {name.encode(): name for name in wanted}
        self._keys: dict[bytes, Key | None] = {}

    def read(self, body: bytes) -> dict[Key, float]:
        """Every wanted series with its value; NaN where the server says so.

        Raises `PageError` for a page that is cut off, is no such page, or has a wanted series twice or unreadable.
        """
        _refuse_foreign(body, self._sieve)
        series: dict[Key, float] = {}
        for line in body.split(b"\n"):
            if line.startswith(self._sieve):
                self._take(line, series)
        _refuse_without_inf(series)
        return series

    def _take(self, line: bytes, series: dict[Key, float]) -> None:
        written, _, raw_value = line.rpartition(b" ")
        if written in self._keys:
            key = self._keys[written]
        else:
            key, raw_value = self._parse(line.rstrip(b"\r"))
        if key is None:
            return
        if key in series:
            raise PageError(f"a series is on the page twice: {_shown(line)}")
        try:
            series[key] = float(raw_value)
        except ValueError:
            raise PageError(f"a value cannot be read: {_shown(line)}") from None

    def _parse(self, line: bytes) -> tuple[Key | None, bytes]:
        """The series of a line, None for one that is not wanted; and its value as it is written."""
        match = _LINE.fullmatch(line)
        if match is None:
            raise PageError(f"a line cannot be read: {_shown(line)}")
        raw_name, raw_labels, raw_value = match.groups()
        name = self._names.get(raw_name)
        key = None if name is None else Key(name, *_parsed(raw_labels or b"", line))
        if (
            match.end(3) == len(line) and line[match.start(3) - 1 : match.start(3)] == b" "
        ):  # else a time or an exemplar follows, which is another one each time
            if len(self._keys) >= MOST_KEYS:
                self._keys.clear()
            self._keys[line[: -len(raw_value) - 1]] = key
        return key, raw_value


def _parsed(raw: bytes, line: bytes) -> tuple[Labels, float | None]:
    pairs: dict[str, str] = {}
    at = 0
    while match := _LABEL.match(raw, at):
        at = match.end()
        if match[1] is not None:  # a quoted name is UTF-8 syntax, which none of the wanted labels has
            pairs[match[1].decode()] = _text(match[2])
    if raw[at:].strip(b" \t,"):
        raise PageError(f"labels cannot be read: {_shown(line)}")
    bound = pairs.pop("le", None)
    try:
        return tuple(sorted(pairs.items())), None if bound is None else float(bound)
    except ValueError:
        raise PageError(f"a bucket's bound cannot be read: {_shown(line)}") from None


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "\\" in text:
        text = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text)
    return text


def _refuse_foreign(body: bytes, wanted: tuple[bytes, ...]) -> None:
    """Everything that is no page, by its first and last characters."""
    start = body[:256].lstrip()
    if not start:
        raise PageError("the page is empty")
    if start.startswith(b"<"):
        raise PageError("an HTML page, not metrics")
    if _JSON.match(start):
        raise PageError("JSON, not metrics")
    if not start.startswith(wanted):  # else what is wrong with the line is said more exactly
        _refuse_prose(body)
    if not body.endswith(b"\n") and not body.endswith(b"# EOF"):
        rest = body.rpartition(b"\n")[2]
        raise PageError(f"the page is cut off in its last line: {_shown(rest)}")


def _refuse_prose(body: bytes) -> None:
    """What a proxy or another service answers in words, by its first line."""
    first = body.lstrip().partition(b"\n")[0].rstrip()
    match = _LINE.fullmatch(first)
    if not first.startswith((b"#", b"{")) and (match is None or not _is_number(match[3])):
        raise PageError(f"not metrics: it begins with {_shown(first)}")


def _is_number(raw: bytes) -> bool:
    try:
        float(raw)
    except ValueError:
        return False
    return True


def _refuse_without_inf(series: dict[Key, float]) -> None:
    """A histogram whose last bucket is missing was cut, whatever the page's end looks like."""
    tops: dict[tuple[str, Labels], float] = {}
    for key in series:
        if key.le is not None:
            histogram = (key.name, key.labels)
            tops[histogram] = max(tops.get(histogram, -math.inf), key.le)
    for (name, _), top in tops.items():
        if top != math.inf:
            raise PageError(f"the histogram {name.removesuffix('_bucket')} has no bucket for +Inf")


def _shown(line: bytes) -> str:
    return repr(line[:120].decode("utf-8", "replace"))
