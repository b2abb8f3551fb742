"""Reads DogStatsD lines that tell of inference requests: ``name:value|type|@rate|#tag:value,tag:value``.

| name | type | means |
|---|---|---|
| ``inference.request.duration`` | ms, h, d | one request; tag ``status``: success (default), error, aborted |
| ``inference.request.ttft`` | ms, h, d | time to the first token; counts no request |
| ``inference.request.itl`` | ms, h, d | time between two tokens; counts no request |
| ``inference.request`` | c | so many requests without a duration; tag ``status`` as above |

Values are milliseconds. Those of the types h and d are seconds where the name ends in ``_seconds``
(``inference.request.duration_seconds``); with ms they are milliseconds in any case, as the type says. The tag ``model``
tells the model, ``unknown`` without it; other tags are left aside.

Also understood: several values in one line (``:1:2:3``, protocol 1.1), ``@rate`` from 1 down to `LOWEST_RATE`, and the
fields ``c:container``, ``e:external`` and ``T timestamp``, which say nothing that we need. Foreign are well-formed
lines of other names or types (g, s) and events and service checks; all the rest is garbage. No line raises.

Source: Datadog's documentation of the DogStatsD datagram format, protocols 1.0 to 1.3.

Everything after the values repeats itself from line to line, so what it means is worked out once and kept: a known
line costs a split, a look-up and a conversion of its number. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from npumond.sources.inference.labels import LatencyKind, Status
from npumond.sources.inference.measured import LONGEST_S

Reason = Literal["foreign", "garbage"]

LOWEST_RATE = 1e-6
"""A lower rate would let one line count as ever so many."""
MOST_COUNTED = 1e9
"""By one line of a counter."""

_TAILS_KEPT = 2048
_LONGEST_TAIL = 256
"""Of name and fields together that are kept: half a MiB in all."""

_NUMBER = "0123456789.+-eE:"
_NAME = re.compile(r"[^\s:|@#]+")
_RATE = re.compile(r"@([0-9.]+(?:[eE][+-]?[0-9]+)?)")
_CONTEXT = re.compile(r"(?:[ce]:|T[0-9]+$|card:)")
_NO_METRIC = re.compile(r"_e\{[0-9]+,[0-9]+\}:|_sc\|[^|]+\|[0-3](?:\||$)")
"""Events and service checks."""
_KINDS: Mapping[str, LatencyKind] = {
    "inference.request.duration": "e2e",
    "inference.request.ttft": "ttft",
    "inference.request.itl": "itl",
}
_COUNT = "inference.request"
_STATUSES: Mapping[str, Status] = {"success": "success", "error": "error", "aborted": "aborted"}
_TYPES = frozenset(("ms", "h", "d", "c", "g", "s"))
_DURATIONS = frozenset(("ms", "h", "d"))


class Timed(Struct, frozen=True, gc=False):
    """Durations of one kind; those of ``e2e`` are requests of the status."""

    kind: LatencyKind
    model: str
    status: Status
    durations_s: tuple[float, ...]
    weight: float
    """How many each stands for: 1 divided by the rate."""


class Counted(Struct, frozen=True, gc=False):
    """Requests without a duration."""

    model: str
    status: Status
    count: float
    weight: float
    """How many each stands for: 1 divided by the rate."""


class _Meaning(Struct, frozen=True):
    """What a line's name, type, rate and tags say of its values."""

    kind: LatencyKind | Literal["count", "foreign", "any"]
    """any: foreign, and the value may be any text, as the member of a set."""
    model: str = ""
    status: Status = "success"
    weight: float = 1.0
    unit: float = 1.0
    """What the value is multiplied by."""
    most: float = LONGEST_S
    """The largest value in seconds or requests."""


class Parser:
    """Reads lines, and remembers what ends of lines mean."""

    def __init__(self) -> None:
        self._meanings: dict[tuple[str, str], _Meaning | None] = {}

    def parse(self, line: str) -> Timed | Counted | Reason:
        """One line without its end, or why it is not taken."""
        name, _, rest = line.partition(":")
        values, _, tail = rest.partition("|")
        try:
            meaning = self._meanings[name, tail]
        except KeyError:
            if line.startswith("_"):
                return "foreign" if _NO_METRIC.match(line) else "garbage"
            meaning = self._learn(name, tail)
        return "garbage" if meaning is None else _valued(meaning, values)

    def _learn(self, name: str, tail: str) -> _Meaning | None:
        meaning = _meaning(name, tail)
        if len(name) + len(tail) <= _LONGEST_TAIL:
            if len(self._meanings) >= _TAILS_KEPT:
                self._meanings.clear()  # dearer than throwing out the oldest only for those who never repeat a line
            self._meanings[name, tail] = meaning
        return meaning


def _valued(meaning: _Meaning, values: str) -> Timed | Counted | Reason:
    kind = meaning.kind
    if kind == "any":
        return "foreign"
    if values.strip(_NUMBER):  # float() would take nan, inf, 1_000 and spaces
        return "garbage"
    try:
        numbers = [float(value) * meaning.unit for value in values.split(":")]
    except ValueError:
        return "garbage"
    if kind == "foreign":
        return "foreign"
    for number in numbers:
        if not 0 <= number <= meaning.most:
            return "garbage"
    if kind == "count":
        count = sum(numbers)
        return Counted(meaning.model, meaning.status, count, meaning.weight) if count <= meaning.most else "garbage"
    return Timed(kind, meaning.model, meaning.status, tuple(numbers), meaning.weight)


def _meaning(name: str, tail: str) -> _Meaning | None:
    """What the values of such a line mean; None when the line cannot be right whatever its values are."""
    type_, *fields = tail.split("|")
    if not _NAME.fullmatch(name) or type_ not in _TYPES:
        return None
    rate, tags = 1.0, ""
    for field in fields:
        if field.startswith("#"):
            tags = field[1:]
        elif match := _RATE.fullmatch(field):
            rate = _rate(match[1])
        elif not _CONTEXT.match(field):
            return None
    if not LOWEST_RATE <= rate <= 1:
        return None
    if type_ == "s":
        return _Meaning("any")
    return _own(name, type_, 1 / rate, tags)


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _own(name: str, type_: str, weight: float, tags: str) -> _Meaning | None:
    kind = _kind(name, type_)
    if kind is None:
        return _Meaning("foreign")
    tagged = dict(reversed([tag.split(":", 1) for tag in tags.split(",") if ":" in tag]))  # the first of a name counts
    status = _STATUSES.get(tagged.get("status", "success"))
    if status is None:
        return None
    model = tagged.get("model", "")
    if kind == "count":
        return _Meaning(kind, model, status, weight, most=MOST_COUNTED)
    in_seconds = type_ != "ms" and name.endswith("_seconds")
    return _Meaning(kind, model, status, weight, 1.0 if in_seconds else 1e-3)


def _kind(name: str, type_: str) -> LatencyKind | Literal["count"] | None:
    if type_ == "c":
        return "count" if name == _COUNT else None
    return _KINDS.get(name.removesuffix("_seconds")) if type_ in _DURATIONS else None
