"""Writes metrics pages in the manner of each inference server, with figures that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def histogram(family: str, bounds: Sequence[float], sizes: Sequence[float], total: float, **labels: str) -> list[str]:
    """A histogram's lines: ``sizes`` are observations in each bucket, the last above all bounds."""
    inner = "".join(f'{name}="{value}",' for name, value in labels.items())
    lines, count = [], 0.0
    for bound, size in zip((*map(str, bounds), "+Inf"), sizes, strict=True):
        count += size
        lines.append(f'{family}_bucket{{{inner}le="{bound}"}} {count}')
    tail = f"{{{inner.rstrip(',')}}}" if inner else ""
    return [*lines, f"{family}_sum{tail} {total}", f"{family}_count{tail} {count}"]


def line(name: str, value: float, **labels: str) -> str:
    """One series."""
    inner = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{inner}}} {value}" if inner else f"{name} {value}"


def page(*parts: str | Sequence[str]) -> bytes:
    """Lines to a page."""
    lines = [one for part in parts for one in ([part] if isinstance(part, str) else part)]
    return ("# HELP up It is up.\n# TYPE up gauge\n" + "\n".join(lines) + "\n").encode()


def http(counts: Mapping[str, float], handler: str = "/v1/chat/completions") -> list[str]:
    """vLLM's HTTP layer: requests by class of status."""
    return [
        line("http_requests_total", count, handler=handler, method="POST", status=status)
        for status, count in counts.items()
    ]
