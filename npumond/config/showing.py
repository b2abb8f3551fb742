"""The configuration in force, as it would be written, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import inspect

from npumond.config.reading import bare, type_of
from npumond.config.settings import Config

MASK = "***"
_USER_INFO = re.compile(r"//[^/?#\s]*@")


def describe(config: Config) -> dict[str, Any]:
    """Every setting with the notation of the file (``5s``, ``512MiB``), ready for JSON.

    Passwords inside URLs are masked; all others are in files, of which only the path is shown. Without any it is a
    configuration again, and an equal one.
    """
    shown: dict[str, Any] = _shown(config, type_of(Config))
    return shown


def _shown(value: Any, type_: inspect.Type) -> Any:
    """Any: the types are known only at run time."""
    inner, extra, _ = bare(type_)
    if value is None or value == extra.get("null"):
        return None
    if notation := extra.get("notation"):
        return notation.show(value)
    if isinstance(inner, inspect.StructType):
        return {field.encode_name: _shown(getattr(value, field.name), field.type) for field in inner.fields}
    if isinstance(inner, inspect.VarTupleType):
        return [_shown(item, inner.item_type) for item in value]
    if isinstance(value, Mapping) and isinstance(inner, inspect.DictType):
        return {key: _shown(item, inner.value_type) for key, item in value.items()}
    return _USER_INFO.sub(f"//{MASK}@", value) if isinstance(value, str) else value
