"""Column types, fields and values of them, for properties that hold for every type."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from typing import Any

from hypothesis import strategies as st

from lakehouse.format.schema.types import (
    BinaryType,
    DataType,
    DecimalType,
    Field,
    ListType,
    MapType,
    Primitive,
    StringType,
    StructType,
    with_ids,
)

__all__ = ["column_sets", "leaf_types", "names", "nested_types", "values_of"]

names = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8).filter(
    lambda name: name.strip() and not name.upper().startswith("_")
)
"""Names a column may have."""


@st.composite
def _decimals(draw: st.DrawFn) -> DecimalType:
    precision = draw(st.integers(1, 38))
    return DecimalType(precision, draw(st.integers(0, precision)))


leaf_types: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from(
        [
            Primitive(name)
            for name in (
                *("boolean", "int8", "int16", "int32", "int64", "float", "double"),
                *("date", "time", "timestamp", "timestamp_ntz"),
            )
        ]
    ),
    _decimals(),
    st.builds(StringType, st.none() | st.integers(1, 12)),
    st.builds(BinaryType, st.none() | st.integers(1, 12)),
)
"""Types without fields inside."""


def _inner(name: str, kind: DataType, required: bool) -> Field:
    return Field(id=0, name=name, type=kind, required=required)


def _nest(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    flags = st.booleans()
    lists = st.builds(lambda kind, flag: ListType(_inner("element", kind, flag)), inner, flags)
    keys = leaf_types.filter(lambda kind: kind not in (Primitive("float"), Primitive("double")))
    maps = st.builds(
        lambda key, kind, flag: MapType(_inner("key", key, True), _inner("value", kind, flag)),
        keys,
        inner,
        flags,
    )
    parts = st.lists(
        st.tuples(names, inner, flags), min_size=1, max_size=3, unique_by=lambda part: part[0].casefold()
    )
    structs = parts.map(lambda found: StructType(tuple(_inner(*part) for part in found)))
    return st.one_of(lists, maps, structs)


nested_types: st.SearchStrategy[DataType] = st.recursive(leaf_types, _nest, max_leaves=4)
"""Every type, ids of fields inside 0."""


@st.composite
def column_sets(draw: st.DrawFn) -> tuple[Field, ...]:
    """Columns with ids from 1 and unique names."""
    numbers = itertools.count(1)
    parts = draw(
        st.lists(
            st.tuples(names, nested_types, st.booleans()),
            min_size=1,
            max_size=4,
            unique_by=lambda part: part[0].casefold(),
        )
    )
    return tuple(
        Field(id=next(numbers), name=name, type=with_ids(kind, numbers.__next__), required=required)
        for name, kind, required in parts
    )


_INSTANTS = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))


def _leaf_values(kind: DataType) -> st.SearchStrategy[Any]:
    match kind:
        case Primitive("boolean"):
            return st.booleans()
        case Primitive("int8" | "int16" | "int32" | "int64" as name):
            bits = int(name[3:]) - 1
            return st.integers(-(2**bits), 2**bits - 1)
        case Primitive("float"):
            return st.floats(width=32, allow_nan=False)
        case Primitive("double"):
            return st.floats(allow_nan=False)
        case Primitive("date"):
            return st.dates()
        case Primitive("time"):
            return st.times()
        case Primitive("timestamp"):
            return _INSTANTS.map(lambda moment: moment.replace(tzinfo=dt.UTC))
        case Primitive("timestamp_ntz"):
            return _INSTANTS
        case DecimalType(precision, scale):
            most = 10**precision - 1
            with_all_digits = decimal.Context(prec=60)
            return st.integers(-most, most).map(
                lambda number: decimal.Decimal(number).scaleb(-scale, with_all_digits)
            )
        case StringType(length):
            return st.text(max_size=6 if length is None else length)
    assert isinstance(kind, BinaryType)
    return st.binary(max_size=6 if kind.length is None else kind.length)


def values_of(kind: DataType, *, required: bool = False) -> st.SearchStrategy[Any]:
    """Values as ``to_pylist`` gives them: a struct is a dict, a map a list of pairs."""
    found: st.SearchStrategy[Any]
    match kind:
        case ListType(element):
            found = st.lists(values_of(element.type, required=element.required), max_size=3)
        case MapType(key, value):
            pairs = st.tuples(
                values_of(key.type, required=True), values_of(value.type, required=value.required)
            )
            found = st.lists(pairs, max_size=3, unique_by=lambda pair: repr(pair[0]))
        case StructType(fields):
            found = st.fixed_dictionaries(
                {field.name: values_of(field.type, required=field.required) for field in fields}
            )
        case _:
            found = _leaf_values(kind)
    return found if required else st.none() | found
