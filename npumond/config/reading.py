"""From nodes to settings, with every mistake: the document is walked beside the structs' types.

Why not `msgspec.convert` on the whole: it stops at the first mistake, knows no lines, and speaks of types (``Expected
`int`, got `str```) where people want the key and what to write. The types, bounds and defaults are still only those of
the structs.

What cannot be read is reported and left out; the rest is read on. No value of a wrong file is ever used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import yaml
from msgspec import NODEFAULT, Struct, inspect
from msgspec.inspect import Field, Type

from npumond.config.checks import CHECKS
from npumond.config.document import entries, got, is_null, join, kind, line_of, shown
from npumond.config.notation import Notation, did_you_mean
from npumond.config.settings import Config
from npumond.errors import ConfigError

MOST = 200
"""Mistakes that are told; a file with more is the wrong file."""


class _Failed:
    """In place of a value that could not be read."""


_FAILED = _Failed()
_LISTED = 12
"""Known keys that a message enumerates."""


def read(root: yaml.Node, text: str, origin: str, not_yet: Mapping[str, str]) -> Config:
    """The settings that a document makes. Raises ConfigError with every mistake, in the order of the file."""
    reader = _Reader(text, not_yet)
    config = reader.value(root, type_of(Config), "")
    mistakes = sorted(reader.mistakes, key=lambda mistake: mistake[0])
    if mistakes or not isinstance(config, Config):
        lines = [f"{origin}:{line}: {said}" for line, said in mistakes[:MOST]]
        more = [f"{origin}: and {len(mistakes) - MOST} more mistakes"] if len(mistakes) > MOST else []
        raise ConfigError((*lines, *more))
    return config


@lru_cache(maxsize=8)
def type_of(struct: type[Struct]) -> Type:
    """The type tree of a struct; making one takes milliseconds."""
    return inspect.type_info(struct)


def bare(kind_: Type) -> tuple[Type, Mapping[str, Any], bool]:
    """A field's type without its wrappers, what hangs on it, and whether null is a value of it."""
    if isinstance(kind_, inspect.UnionType):
        inner = next(one for one in kind_.types if not isinstance(one, inspect.NoneType))
        return (*bare(inner)[:2], True)
    if isinstance(kind_, inspect.Metadata):
        return kind_.type, kind_.extra or {}, False
    return kind_, {}, False


class _Reader:
    """One pass over one document."""

    def __init__(self, text: str, not_yet: Mapping[str, str]) -> None:
        self.mistakes: list[tuple[int, str]] = []
        self._text = text
        self._not_yet = not_yet
        self._nodes: dict[str, yaml.Node] = {}

    def say(self, node: yaml.Node, path: str, what: str, *, with_value: bool = True) -> _Failed:
        """Note a mistake; gives what stands for the value that is missing now."""
        value = f" (got {got(node, self._text)})" if with_value else ""
        self.mistakes.append((line_of(node), f"{path or 'the file'}: {what}{value}"))
        return _FAILED

    def value(self, node: yaml.Node, type_: Type, path: str) -> Any:
        """Whatever the type wants. Any, since the type is known only at run time."""
        self._nodes[path] = node
        inner, extra, optional = bare(type_)
        if not kind(node):
            return self.say(node, path, f"is a YAML tag; put text in quotes (got {shown(node.tag)})", with_value=False)
        if is_null(node):
            return self._null(node, inner, extra, path, optional=optional)
        if notation := extra.get("notation"):
            return self._written(node, inner, notation, path)
        return self._plain(node, inner, path)

    def _null(self, node: yaml.Node, inner: Type, extra: Mapping[str, Any], path: str, *, optional: bool) -> Any:
        if optional:
            return None
        if "null" in extra:
            return extra["null"]
        return self.say(node, path, f"must be {_wanted(inner, extra)}; leave the key out for the default")

    def _plain(self, node: yaml.Node, inner: Type, path: str) -> Any:
        if isinstance(inner, inspect.StructType):
            return self._struct(node, inner, path)
        if isinstance(inner, inspect.DictType):
            return self._dict(node, inner, path)
        if isinstance(inner, inspect.VarTupleType):
            return self._tuple(node, inner, path)
        return self._scalar(node, inner, path)

    def _struct(self, node: yaml.Node, inner: inspect.StructType, path: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return self.say(node, path, "must be a mapping")
        before = len(self.mistakes)
        fields = {field.encode_name: field for field in inner.fields}
        said = self._keys(node, path)
        for key in [key for key in said if key not in fields]:
            self._unknown(said[key][0], join(path, key), key, fields)
        values = {name: self._field(said, field, path, node) for name, field in fields.items()}
        if any(value is _FAILED for value in values.values()):
            return _FAILED
        made = inner.cls(**{field.name: values[name] for name, field in fields.items()})
        if len(self.mistakes) == before:
            self._check(made, path, node)
        return made

    def _field(self, said: Mapping[str, tuple[yaml.Node, yaml.Node]], field: Field, path: str, owner: yaml.Node) -> Any:
        place = join(path, field.encode_name)
        if field.encode_name in said:
            key, node = said[field.encode_name]
            value = self.value if place not in self._not_yet else partial(self._not_there, key, _default(field))
            return value(node, field.type, place)
        if field.required or _is_wanted(field, said):
            return self.say(owner, place, "is missing", with_value=False)
        return _default(field)

    def _not_there(self, key: yaml.Node, default: Any, node: yaml.Node, type_: Type, path: str) -> Any:
        """A key whose feature does not exist yet: its default and off are what this version does, all else is wrong."""
        before = len(self.mistakes)
        value = self.value(node, type_, path)
        if len(self.mistakes) == before and (not value or value == default):
            return value
        del self.mistakes[before:]
        return self.say(key, path, f"not part of this version yet ({self._not_yet[path]})", with_value=False)

    def _keys(self, node: yaml.MappingNode, path: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Key and value nodes by key; a key of the mapping's own wins over a merged one."""
        said: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value, merged in entries(node):
            if not isinstance(key, yaml.ScalarNode):
                self.say(key, path, "a key must be text")
            elif kind(key) == "merge":
                self.say(value, join(path, "<<"), "must be one mapping, once, and not nested deeply")
            elif key.value not in said:
                said[key.value] = key, value
            elif not merged:
                first = line_of(said[key.value][0])
                self.say(key, join(path, key.value), f"is given twice, first on line {first}", with_value=False)
        return said

    def _unknown(self, node: yaml.Node, path: str, key: str, fields: Mapping[str, Field]) -> None:
        hint = did_you_mean(key, fields)
        if not hint and len(fields) <= _LISTED:
            hint = f", known here: {', '.join(fields)}"
        self.say(node, path, f"unknown key{hint}", with_value=False)

    def _check(self, made: Struct, path: str, node: yaml.Node) -> None:
        """What must agree between the values of one struct."""
        for key, what in CHECKS.get(type(made), _nothing)(made, lambda key: self._as_written(f"{path}.{key}")):
            place = f"{path}.{key}" if path else key
            self.say(self._nodes.get(place, node), place, what, with_value=place in self._nodes)

    def _as_written(self, path: str) -> str:
        node = self._nodes.get(path)
        return "" if node is None else got(node, self._text)

    def _dict(self, node: yaml.Node, inner: inspect.DictType, path: str) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return self.say(node, path, "must be a mapping")
        said = self._keys(node, path)
        items = {key: self.value(value, inner.value_type, join(path, key)) for key, (_, value) in said.items()}
        return {key: value for key, value in items.items() if value is not _FAILED}

    def _tuple(self, node: yaml.Node, inner: inspect.VarTupleType, path: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return self.say(node, path, "must be a list, also for one item")
        if len(node.value) < (inner.min_length or 0):
            return self.say(node, path, "must have at least one item", with_value=False)
        items = [self.value(item, inner.item_type, f"{path}[{index}]") for index, item in enumerate(node.value)]
        return tuple(item for item in items if item is not _FAILED)

    def _written(self, node: yaml.Node, inner: Type, notation: Notation, path: str) -> Any:
        if not isinstance(node, yaml.ScalarNode) or kind(node) == "bool":
            return self.say(node, path, f"must be {notation.what}")
        try:
            value = notation.read(node.value)
        except ValueError as error:
            return self.say(node, path, str(error))
        return self._in_range(node, value, inner, notation.show, path)

    def _scalar(self, node: yaml.Node, inner: Type, path: str) -> Any:
        value = _SCALARS[type(inner)](node, inner) if isinstance(node, yaml.ScalarNode) else None
        if value is None:
            return self.say(node, path, f"must be {_wanted(inner, {})}{_hint(node, inner)}")
        return self._in_range(node, value, inner, str, path)

    def _in_range(self, node: yaml.Node, value: Any, inner: Type, show: Callable[[Any], object], path: str) -> Any:
        low, high = getattr(inner, "ge", None), getattr(inner, "le", None)
        if (low is None or value >= low) and (high is None or value <= high):
            return value
        bounds = f"at least {show(low)}" if high is None else f"from {show(low)} to {show(high)}"
        return self.say(node, path, f"must be {bounds}")


def _nothing(_made: Struct, _written: Callable[[str], str]) -> tuple[tuple[str, str], ...]:
    return ()


def _is_wanted(field: Field, said: Mapping[str, tuple[yaml.Node, yaml.Node]]) -> bool:
    """Whether a field is required since another one does not have the value that makes it needless."""
    other, value = bare(field.type)[1].get("required_unless", ("", ""))
    return bool(other) and (other not in said or said[other][1].value != value)


def _default(field: Field) -> Any:
    return field.default_factory() if field.default is NODEFAULT else field.default


def _text(node: yaml.ScalarNode, inner: Any) -> str | None:
    if kind(node) != "str" or len(node.value) < (inner.min_length or 0):
        return None
    return str(node.value)


def _bool(node: yaml.ScalarNode, _inner: Any) -> bool | None:
    return node.value.lower() in ("true", "yes", "on") if kind(node) == "bool" else None


def _int(node: yaml.ScalarNode, _inner: Any) -> int | None:
    """Decimal only: YAML 1.1 would read 010 as 8 and 1:30 as 90."""
    return int(node.value) if kind(node) == "int" and re.fullmatch("0|-?[1-9][0-9]{0,17}", node.value) else None


def _literal(node: yaml.ScalarNode, inner: Any) -> str | None:
    return str(node.value) if kind(node) == "str" and node.value in inner.values else None


_SCALARS: dict[type[Type], Callable[[yaml.ScalarNode, Any], Any]] = {
    inspect.StrType: _text,
    inspect.BoolType: _bool,
    inspect.IntType: _int,
    inspect.LiteralType: _literal,
}
_WORDS: dict[type[Type], str] = {
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.StructType: "a mapping",
    inspect.DictType: "a mapping",
    inspect.VarTupleType: "a list",
}


def _wanted(inner: Type, extra: Mapping[str, Any]) -> str:
    if notation := extra.get("notation"):
        return str(notation.what)
    if isinstance(inner, inspect.LiteralType):
        return f"one of {', '.join(map(str, inner.values))}"
    return _WORDS[type(inner)]


def _hint(node: yaml.Node, inner: Type) -> str:
    """What was probably meant."""
    if not isinstance(node, yaml.ScalarNode):
        return ""
    if isinstance(inner, inspect.LiteralType):
        block = node.style in (">", "|")  # ``op: >`` begins a folded text, and an empty one
        return ", in quotes" if block else did_you_mean(node.value, [str(value) for value in inner.values])
    if not isinstance(inner, inspect.StrType):
        return ""
    return " that is not empty" if kind(node) == "str" else ": put it in quotes"
