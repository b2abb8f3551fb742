"""Text that a driver wrote, made fit for labels and messages."""

from __future__ import annotations

LONGEST = 128
"""Characters kept of a text; the vendor's fields have up to 256 bytes, and sensible values a few dozen."""


def sanitised(raw: bytes, longest: int = LONGEST) -> str:
    """The text before the first NUL: invalid UTF-8 replaced, what cannot be printed dropped, blanks at the ends too."""
    text = raw.partition(b"\0")[0].decode("utf-8", errors="replace")
    return "".join(character for character in text if character.isprintable()).strip()[:longest]
