"""Writer's schemas of Avro files, as trees of types.

Invariant: a tree is finite and bounded. A type that contains itself is refused, types nest at most
:data:`DEPTH_MAX` deep, and every type knows the least bytes that a value of it takes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.excerpt import short
from lakehouse.format.limits.json_object import INT32_MAX, parse_json

__all__ = ["DEPTH_MAX", "PRIMITIVES", "AvroField", "AvroType", "parse_avro_schema"]

DEPTH_MAX = 64
"""Maximum depth of types within types."""
PRIMITIVES: Mapping[str, int] = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
"""Primitive types, and the least bytes that a value takes."""
_VALUES_MAX = 1_000_000
_SIZE_MAX = 1 << 40
"""Where sums of least sizes stop growing: no block has so many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    field_id: int | None = None
    """Attribute ``field-id``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AvroType:
    """A type, with the attributes that give its values a meaning; equal to itself only."""

    kind: str
    """A primitive's name, or fixed, enum, record, array, map or union."""
    fields: tuple[AvroField, ...] = ()
    """Fields of a record, in the order of their bytes."""
    inner: tuple[AvroType, ...] = ()
    """Items of an array, values of a map, or branches of a union."""
    size: int = 0
    """Bytes of a fixed."""
    symbols: tuple[str, ...] = ()
    """Words of an enum, in the order of their numbers."""
    logical: str | None = None
    """Attribute ``logicalType``, where it suits the type; the trade's unknown ones are kept too."""
    precision: int = 0
    """Digits of a decimal."""
    scale: int = 0
    """Digits of a decimal behind the point."""
    adjust_to_utc: bool | None = None
    """Attribute ``adjust-to-utc``: True for instants, False for local time; None = not said."""
    element_id: int | None = None
    """Attribute ``element-id`` of an array."""
    key_id: int | None = None
    """Attribute ``key-id`` of a map."""
    value_id: int | None = None
    """Attribute ``value-id`` of a map."""
    bytes_min: int = 0
    """Least bytes that a value takes."""
    depth: int = 1
    """Number of types within each other, this one included."""


@functools.lru_cache(maxsize=64)
def parse_avro_schema(data: bytes) -> AvroType:
    """Parses a writer's schema, JSON; the last ones are kept by their bytes.

    Raises:
        ValueError: it is none, contains itself, or nests too deep.
    """
    return _Parser().parse(parse_json(data, values_max=_VALUES_MAX), "", 0)


class _Parser:
    """Names that were defined so far; None while a definition is still open."""

    __slots__ = ("_named",)

    def __init__(self) -> None:
        self._named: dict[str, AvroType | None] = {}

    def parse(self, said: Any, space: str, depth: int) -> AvroType:
        """Returns the type that is said within a namespace."""
        if depth >= DEPTH_MAX:
            raise _too_deep_error()
        if isinstance(said, str):
            return self._by_name(said, space)
        if isinstance(said, list):
            return self._union(said, space, depth)
        if not isinstance(said, dict):
            raise ValueError(f"a type is {short(said)}: it must be a name, a list or an object")
        kind = said.get("type")
        if not isinstance(kind, str):
            return self.parse(kind, space, depth + 1)
        if kind in PRIMITIVES:
            return _annotated(AvroType(kind=kind, bytes_min=PRIMITIVES[kind]), said)
        if kind == "array":
            items = self.parse(said.get("items"), space, depth + 1)
            return _annotated(_nested("array", (items,), element_id=_id_of(said, "element-id")), said)
        if kind == "map":
            values = self.parse(said.get("values"), space, depth + 1)
            ids = {"key_id": _id_of(said, "key-id"), "value_id": _id_of(said, "value-id")}
            return _nested("map", (values,), **ids)
        if kind in ("record", "error", "fixed", "enum"):
            return self._defined(said, kind, space, depth)
        return self._by_name(kind, space)

    def _by_name(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(kind=name, bytes_min=PRIMITIVES[name])
        for full in (f"{space}.{name}", name) if space and "." not in name else (name,):
            if full in self._named:
                known = self._named[full]
                if known is None:
                    raise ValueError(f"type {short(name)} contains itself, which is not supported")
                return known
        raise ValueError(f"type {short(name)} is not defined")

    def _union(self, said: list[Any], space: str, depth: int) -> AvroType:
        branches = tuple(self.parse(one, space, depth + 1) for one in said)
        if not branches or any(one.kind == "union" for one in branches):
            raise ValueError("a union has no branch, or a union as a branch")
        least = 1 + min(one.bytes_min for one in branches)
        deepest = max(one.depth for one in branches)
        return AvroType(kind="union", inner=branches, bytes_min=least, depth=_deeper(deepest))

    def _defined(self, said: dict[str, Any], kind: str, space: str, depth: int) -> AvroType:
        name = said.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"a {kind} has no name")
        given = said.get("namespace")
        space = name.rpartition(".")[0] if "." in name else given if isinstance(given, str) else space
        full = name if "." in name or not space else f"{space}.{name}"
        self._named[full] = None
        if kind == "fixed":
            made = _fixed(said)
        elif kind == "enum":
            made = AvroType(kind="enum", symbols=_symbols(said), bytes_min=1)
        else:
            made = self._record(said, space, depth)
        self._named[full] = made
        return made

    def _record(self, said: dict[str, Any], space: str, depth: int) -> AvroType:
        stated = said.get("fields")
        if not isinstance(stated, list):
            raise ValueError("a record has no list of fields")
        fields = tuple(self._field(one, space, depth) for one in stated)
        least = min(_SIZE_MAX, sum(one.type.bytes_min for one in fields))
        deepest = max((one.type.depth for one in fields), default=0)
        return AvroType(kind="record", fields=fields, bytes_min=least, depth=_deeper(deepest))

    def _field(self, said: Any, space: str, depth: int) -> AvroField:
        if not isinstance(said, dict) or not isinstance(said.get("name"), str):
            raise ValueError(f"a field is {short(said)}: it must be an object with a name")
        kind = self.parse(said.get("type"), space, depth + 1)
        return AvroField(name=said["name"], type=kind, field_id=_id_of(said, "field-id"))


def _nested(kind: str, inner: tuple[AvroType, ...], **ids: int | None) -> AvroType:
    return AvroType(kind=kind, inner=inner, bytes_min=1, depth=_deeper(inner[0].depth), **ids)  # type: ignore[arg-type]


def _deeper(depth: int) -> int:
    # Names lead to types that are deep themselves, so the depth is counted from below too.
    if depth >= DEPTH_MAX:
        raise _too_deep_error()
    return depth + 1


def _too_deep_error() -> ValueError:
    return ValueError(f"its types nest more than {DEPTH_MAX} deep")


def _fixed(said: dict[str, Any]) -> AvroType:
    size = said.get("size")
    if type(size) is not int or not 0 <= size <= INT32_MAX:
        raise ValueError(f"a fixed has size {short(size)}")
    return _annotated(AvroType(kind="fixed", size=size, bytes_min=size), said)


def _symbols(said: dict[str, Any]) -> tuple[str, ...]:
    words = said.get("symbols")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("an enum has no list of symbols")
    return tuple(words)


def _id_of(said: dict[str, Any], name: str) -> int | None:
    """Returns an attribute that is a field's id; one that cannot be an id is ignored."""
    value = said.get(name)
    return value if type(value) is int and 0 <= value <= INT32_MAX else None


def _annotated(made: AvroType, said: dict[str, Any]) -> AvroType:
    """Returns the type with its logical type; one that does not suit it is ignored, as Avro wants it."""
    logical, utc = said.get("logicalType"), said.get("adjust-to-utc")
    if not isinstance(logical, str):
        return made
    digits = (0, 0)
    if logical == "decimal":
        precision, scale = said.get("precision"), said.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision <= 76:
            return made
        if precision < 1 or made.kind not in ("bytes", "fixed"):
            return made
        digits = (precision, scale)
    return AvroType(
        kind=made.kind,
        inner=made.inner,
        size=made.size,
        logical=logical,
        precision=digits[0],
        scale=digits[1],
        adjust_to_utc=utc if isinstance(utc, bool) else None,
        element_id=made.element_id,
        bytes_min=made.bytes_min,
        depth=made.depth,
    )
