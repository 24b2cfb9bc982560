"""Values of every type that has an order, for tests of keys, bounds and buckets."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    Primitive,
    StringType,
    arrow_type,
)

__all__ = [
    "KEY_KINDS",
    "ORDERED_KINDS",
    "column",
    "fields_of",
    "ordered",
    "spec_row",
    "spec_value",
    "typed_values",
    "values_of",
]

TEXT = st.text("ab\x00\x01\x02ü\U0010ffff", max_size=4) | st.text(max_size=20)
RAW = st.lists(st.sampled_from([b"\x00", b"\x01", b"\x02", b"a", b"\xff"]), max_size=4).map(b"".join)
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    Primitive("boolean"): st.booleans(),
    Primitive("int8"): st.integers(-(1 << 7), (1 << 7) - 1),
    Primitive("int16"): st.integers(-(1 << 15), (1 << 15) - 1),
    Primitive("int32"): st.integers(-(1 << 31), (1 << 31) - 1),
    Primitive("int64"): st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3),
    Primitive("float"): st.floats(width=32),
    Primitive("double"): st.floats() | st.sampled_from([0.0, -0.0, 1.0]),
    Primitive("date"): st.dates(),
    Primitive("time"): st.times(),
    Primitive("timestamp"): st.datetimes(timezones=st.just(dt.UTC)),
    Primitive("timestamp_ntz"): st.datetimes(),
    DecimalType(7, 2): st.decimals(-99999, 99999, places=2),
    DecimalType(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(decimal.Decimal),
    StringType(): TEXT,
    BinaryType(): RAW | st.binary(max_size=20),
}
ORDERED_KINDS = tuple(VALUES)
KEY_KINDS = tuple(kind for kind in VALUES if kind not in (Primitive("float"), Primitive("double")))


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    """Any value of the type, as Python has it."""
    return VALUES[kind]


def typed_values(kinds: tuple[DataType, ...], **size: int) -> st.SearchStrategy[tuple[DataType, list[Any]]]:
    """A type and values of it."""
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(VALUES[kind], **size))
    )


def ordered(value: Any) -> Any:
    """What Python compares as our order does: NaN is one number above all others."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


def column(kind: DataType, values: list[Any]) -> pa.Array:
    """The values as the type's Arrow array."""
    return pa.array(values, arrow_type(kind))


def fields_of(kinds: list[DataType]) -> tuple[Field, ...]:
    """Required columns a, b, c … of these types."""
    return tuple(
        Field(id=at + 1, name="abcdefgh"[at], type=kind, required=True) for at, kind in enumerate(kinds)
    )


SPEC_TYPES: dict[str, tuple[DataType, Callable[[Any], Any]]] = {
    **{name: (Primitive(name), lambda value: value) for name in ("boolean", "int8", "int64", "double")},
    "date": (Primitive("date"), dt.date.fromisoformat),
    "time": (Primitive("time"), dt.time.fromisoformat),
    "timestamp": (Primitive("timestamp"), dt.datetime.fromisoformat),
    "timestamp_ntz": (Primitive("timestamp_ntz"), dt.datetime.fromisoformat),
    "decimal(9,2)": (DecimalType(9, 2), decimal.Decimal),
    "string": (StringType(), str),
    "binary": (BinaryType(), bytes.fromhex),
}
"""The types of the specification's examples, and how their values are read from JSON."""


def spec_value(name: str, text: str) -> tuple[DataType, Any]:
    """A type and a value as the examples of the specification write them."""
    kind, parse = SPEC_TYPES[name]
    return kind, parse(json.loads(text))


def spec_row(names: str, text: str) -> tuple[list[DataType], tuple[Any, ...]]:
    """Several types and their values, each with commas between."""
    found = [SPEC_TYPES[name] for name in names.split(", ")]
    values = json.loads(f"[{text}]")
    row = tuple(parse(value) for (_, parse), value in zip(found, values, strict=True))
    return [kind for kind, _ in found], row
