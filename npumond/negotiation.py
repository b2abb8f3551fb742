"""Which representation a client gets, from its Accept and Accept-Encoding headers (RFC 9110, section 12.5).

Pure. The answer is always one of our own constants; nothing of a header is reflected. A header that nobody can satisfy,
or that cannot be read, gets the default: for a scraper a page in another format is worth more than a 406.

Why not prometheus_client's `choose_encoder`: it ignores q, echoes the client's version and fails on a malformed one.

What is offered: text 0.0.4, and OpenMetrics 1.0.0 for every request of OpenMetrics, whatever its version. Text 1.0.0
differs from 0.0.4 only in names that need quoting, of which we have none, and is answered with 0.0.4.
"""

from __future__ import annotations

import re

from msgspec import Struct

TEXT_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 (a token of the HTTP grammar)
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ELEMENT = re.compile(rf'(?:[^,"]|{_QUOTED}|".*)+', re.DOTALL)  # a quote that is not closed takes the rest
_MEDIA_RANGE = re.compile(rf"\s*({_TOKEN})/({_TOKEN})\s*((?:;\s*(?:{_TOKEN}\s*=\s*(?:{_TOKEN}|{_QUOTED})\s*)?)*)")
_PARAMETER = re.compile(rf"({_TOKEN})\s*=\s*({_TOKEN}|{_QUOTED})")
_CODING = re.compile(rf"\s*({_TOKEN})\s*(?:;\s*[qQ]\s*=\s*({_TOKEN})\s*)?")
_WEIGHT = re.compile(r"0(?:\.\d{0,3})?|1(?:\.0{0,3})?")


class _Range(Struct, frozen=True):
    """One element of an Accept header."""

    type: str
    subtype: str
    version: str
    weight: float
    position: int


class _Offer(Struct, frozen=True):
    """A format we can serve; ``versions`` are those that it is exactly right for."""

    content_type: str
    type: str
    subtype: str
    versions: tuple[str, ...]


_TEXT = _Offer(TEXT_CONTENT_TYPE, "text", "plain", ("0.0.4",))
_OPENMETRICS = _Offer(OPENMETRICS_CONTENT_TYPE, "application", "openmetrics-text", ("1.0.0",))


def content_type(accept: str | None) -> str:
    """The Content-Type to answer with: `TEXT_CONTENT_TYPE` or `OPENMETRICS_CONTENT_TYPE`.

    The higher weight wins; between equal ones the more specific range, then the one named first, then text.
    """
    ranges = _ranges(accept or "")
    text, openmetrics = _rank(_TEXT, ranges), _rank(_OPENMETRICS, ranges)
    return _OPENMETRICS.content_type if openmetrics > text and openmetrics[0] > 0 else _TEXT.content_type


def wants_gzip(accept_encoding: str | None) -> bool:
    """Whether gzip is acceptable and not liked less than identity."""
    weights = _coding_weights(accept_encoding or "")
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    identity = weights.get("identity", 0.0)
    return gzip > 0 and gzip >= identity


def _rank(offer: _Offer, ranges: list[_Range]) -> tuple[float, int, int]:
    """(weight, specificity, earliness) of an offer: RFC 9110 lets the most specific matching range set the weight."""
    matches = [(_specificity(offer, each), each.weight, -each.position) for each in ranges]
    specificity, weight, earliness = max(matches, default=(0, 0.0, 0))
    return (weight, specificity, earliness) if specificity else (0.0, 0, 0)


def _specificity(offer: _Offer, each: _Range) -> int:
    """0 no match, 1 ``*/*``, 2 ``type/*``, 3 the type in another version, 4 without one, 5 in ours."""
    if (each.type, each.subtype) == ("*", "*"):
        return 1
    if each.type != offer.type:
        return 0
    if each.subtype == "*":
        return 2
    if each.subtype != offer.subtype:
        return 0
    if not each.version:
        return 4
    return 5 if each.version in offer.versions else 3


def _ranges(header: str) -> list[_Range]:
    """The elements of an Accept header that can be read; the others are passed over."""
    found = (_range(text, position) for position, text in enumerate(_ELEMENT.findall(header)))
    return [each for each in found if each is not None]


def _range(text: str, position: int) -> _Range | None:
    match = _MEDIA_RANGE.fullmatch(text)
    if match is None:
        return None
    parameters = {name.lower(): value.strip('"') for name, value in _PARAMETER.findall(match[3])}
    weight = _weight(parameters.get("q", "1"))
    if weight is None:
        return None
    return _Range(match[1].lower(), match[2].lower(), parameters.get("version", ""), weight, position)


def _coding_weights(header: str) -> dict[str, float]:
    """Weights by lower-case content coding."""
    weights: dict[str, float] = {}
    for text in header.split(","):
        match = _CODING.fullmatch(text)
        weight = _weight(match[2] or "1") if match else None
        if match and weight is not None:
            weights[match[1].lower()] = weight
    return weights


def _weight(text: str) -> float | None:
    """A q value; None when it is none."""
    return float(text) if _WEIGHT.fullmatch(text) else None
