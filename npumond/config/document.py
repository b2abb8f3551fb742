"""YAML text as nodes that know their place; nothing is constructed, so no tag can run anything.

Why nodes and not `yaml.safe_load`: it forgets lines, keeps the last of two equal keys, and turns ``1:30`` into 90.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from npumond.errors import ConfigError

LIMIT = 1 << 20
"""Bytes of the largest file that is read: a typing mistake in a path must not fill the memory."""
SHOWN = 60
"""Characters of a value that a message repeats."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # Any: the stubs give the two no common type
_ODD = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CORE_PREFIX = "tag:yaml.org,2002:"
_CORE = frozenset({"map", "seq", "str", "int", "float", "bool", "null", "merge", "timestamp", "value"})
_MERGE_DEPTH = 5
"""Merges within merges; a limit also ends those that contain themselves."""


def decode(data: bytes, origin: str) -> str:
    """The file's text. Raises ConfigError when it is too large or not UTF-8."""
    if len(data) > LIMIT:
        raise ConfigError((f"{origin}: is larger than {LIMIT >> 20} MiB",))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError((f"{origin}:{line}: is not UTF-8 (got byte 0x{data[error.start]:02x})",)) from None


def compose(text: str, origin: str) -> yaml.Node | None:
    """The document's root; None when it is empty. Raises ConfigError for what is not YAML."""
    if len(text) > LIMIT:
        raise ConfigError((f"{origin}: is larger than {LIMIT >> 20} MiB",))
    if odd := _ODD.search(text.removeprefix("\ufeff")):
        line = text.count("\n", 0, odd.start()) + 1
        raise ConfigError((f"{origin}:{line}: character U+{ord(odd[0]):04X} is not allowed",))
    try:
        root: yaml.Node | None = yaml.compose(text.removeprefix("\ufeff"), Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise ConfigError((f"{origin}:{_syntax(error, text)}",)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError((f"{origin}: is not YAML: {' '.join(str(error).split())[:200]}",)) from None
    return None if root is None or is_null(root) else root


def _syntax(error: yaml.MarkedYAMLError, text: str) -> str:
    """``LINE: column N: problem``; libyaml puts what is missing at the end on a line after the last, we on the last."""
    lines = text.splitlines() or [""]
    mark = error.problem_mark or error.context_mark
    line = min(mark.line, len(lines) - 1) if mark else 0
    column = mark.column if mark and mark.line == line else len(lines[line])
    tab = lines[line][column : column + 1] == "\t"
    problem = "a tab where only spaces may be" if tab else error.problem or "is not YAML"
    return f"{line + 1}: column {column + 1}: {problem}{_since(error, line)}"


def _since(error: yaml.MarkedYAMLError, line: int) -> str:
    """Where the thing began in which the mistake is, when that is another line."""
    begun = error.context_mark
    if begun is None or not error.context or begun.line == line:
        return ""
    return f" ({error.context} that begins on line {begun.line + 1})"


def kind(node: yaml.Node) -> str:
    """The YAML type by the core schema (``str``, ``int``, ``map``); empty for any other tag."""
    name = str(node.tag).removeprefix(_CORE_PREFIX)
    return name if name in _CORE and node.tag != name else ""


def is_null(node: yaml.Node) -> bool:
    """Whether nothing is said: ``null``, ``~`` or no value at all."""
    return kind(node) == "null"


def line_of(node: yaml.Node) -> int:
    """Line in the file, from 1; of an alias, that of what it stands for."""
    return int(node.start_mark.line) + 1


def got(node: yaml.Node, text: str) -> str:
    """The value as it stands in the file, on one line and shortened."""
    if not isinstance(node, yaml.ScalarNode):
        return "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
    start = text.startswith("\ufeff")
    return shown(text[node.start_mark.index + start : node.end_mark.index + start]) or "nothing"


def shown(text: str) -> str:
    """Text for a message: one line, printable, at most `SHOWN` characters."""
    line = " ".join(text.split())
    line = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in line)
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


def join(path: str, key: str) -> str:
    """The path of a key below a path; a key that would be mistaken for a path, or breaks the line, is put in quotes."""
    name = key if re.fullmatch(r"[\w<-]{1,60}", key) else f"'{shown(key)}'"
    return f"{path}.{name}" if path else name


def entries(node: yaml.MappingNode, depth: int = 0) -> Iterator[tuple[yaml.Node, yaml.Node, bool]]:
    """(key, value, merged) of a mapping: its own first, then those that ``<<`` brings in.

    A ``<<`` that cannot be followed (not a mapping, a second one, merges too deep) comes as a key like any other.
    """
    merges = [entry for entry in node.value if kind(entry[0]) == "merge"]
    yield from ((key, value, depth > 0) for key, value in node.value if kind(key) != "merge")
    for key, value in merges:
        if key is merges[0][0] and isinstance(value, yaml.MappingNode) and depth < _MERGE_DEPTH:
            yield from entries(value, depth + 1)
        else:
            yield key, value, False
