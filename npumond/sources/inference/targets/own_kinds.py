"""Kinds of servers that the configuration describes, as rows like those of the table."""

from __future__ import annotations

import re

from npumond.config.settings import Inference, OwnServer, Target
from npumond.rules import Matcher
from npumond.rules.checking import parse_selector
from npumond.sources.inference.labels import LatencyKind
from npumond.sources.inference.targets.kinds import (
    KINDS,
    MICROSECONDS,
    MILLISECONDS,
    SECONDS,
    Counting,
    Histogram,
    Selector,
    ServerKind,
)

_UNITS = {"s": SECONDS, "ms": MILLISECONDS, "us": MICROSECONDS}


def kinds_of(inference: Inference) -> list[tuple[Target, ServerKind | None]]:
    """Each target with its kind; None where its page is to tell."""
    kinds = {**KINDS, **{name: own_kind(name, server) for name, server in inference.servers.items()}}
    return [(target, kinds.get(target.server)) for target in inference.targets]


def own_kind(name: str, server: OwnServer) -> ServerKind:
    """A kind as the configuration describes it. It is never found by a page, only by its name."""
    families: dict[LatencyKind, str] = {"e2e": server.e2e, "ttft": server.ttft, "itl": server.itl}
    counting = () if server.success is None else (_counting(server, server.success),)
    return ServerKind(
        name=name,
        marks=(),
        model_label=server.model_label,
        latencies={kind: (Histogram(family, _UNITS[server.unit]),) for kind, family in families.items() if family},
        requests=counting,
    )


def _counting(server: OwnServer, success: str) -> Counting:
    return Counting(
        success=_selector(success),
        error=tuple(map(_selector, server.error)),
        aborted=tuple(map(_selector, server.aborted)),
    )


def _selector(text: str) -> Selector:
    family, matchers = parse_selector(text)
    return Selector(family, {matcher.label: _expression(matcher) for matcher in matchers})


def _expression(matcher: Matcher) -> str:
    """A regular expression for the whole value that says what the matcher says."""
    wanted = matcher.value if matcher.op in ("=~", "!~") else re.escape(matcher.value)
    return f"(?!(?:{wanted})$).*" if matcher.op in ("!=", "!~") else wanted
