"""The words that stand in labels: kinds of latency, how a request ended, quantiles, names of models."""

from __future__ import annotations

from typing import Literal

LatencyKind = Literal["e2e", "ttft", "itl"]
"""Whole request; time to the first token; time between two tokens, or mean of it over a request."""

Status = Literal["success", "error", "aborted"]

QUANTILES = (("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99))
"""As the label has it, and as a number."""

MOST_CHARACTERS = 128
"""Of a model's name."""


def clean_model(name: str) -> str:
    """A name that can be a label: printable, at most `MOST_CHARACTERS` long; ``unknown`` when nothing is left."""
    if not name.isprintable():
        name = "".join(character if character.isprintable() else "_" for character in name.strip())
    return name.strip()[:MOST_CHARACTERS] or "unknown"
