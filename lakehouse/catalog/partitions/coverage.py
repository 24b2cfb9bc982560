"""Coverage: which partitions of one spec lie within partitions of another, after a table's spec was changed.

For two specs the values of the wider one's fields are computed of the ends of the narrower one's partitions
and looked up, so that the work grows with the number of partitions and not with its square. What is found is
then compared with the bounds, which decide.

Invariant: a partition that is said to be covered has no row outside the one that covers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse.catalog.partitions.values import PartitionBound, PartitionKey, hashable
from lakehouse.errors import InvalidInputError
from lakehouse.expr.transforms import Transform
from lakehouse.kernels.value_hashes import whole_numbers

__all__ = ["FieldColumn", "SpecPartitions", "coverage"]

_TIMES = frozenset({"year", "month", "day", "hour"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldColumn:
    """One field of a spec over all partitions of it."""

    source: int | None
    """Id of the source column; None = of several."""
    transform: Transform
    values: pa.Array
    """Partition values."""
    low: pa.Array | None
    """Least values of the source column; None = not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpecPartitions:
    """All partitions of one spec."""

    keys: Sequence[PartitionKey]
    fields: Sequence[FieldColumn]


def coverage(specs: Sequence[SpecPartitions]) -> dict[PartitionKey, tuple[PartitionKey, ...]]:
    """Returns for each partition that covers others those that it covers, in their order."""
    found: dict[PartitionKey, list[PartitionKey]] = {}
    for wide in specs:
        for narrow in specs:
            if wide is narrow:
                continue
            for outer, inner in _pairs(wide, narrow):
                found.setdefault(outer, []).append(inner)
    return {outer: tuple(inner) for outer, inner in found.items()}


def _pairs(wide: SpecPartitions, narrow: SpecPartitions) -> list[tuple[PartitionKey, PartitionKey]]:
    columns = [_computed(field, narrow) for field in wide.fields]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns):
        return []
    own = [_plain(field.transform, field.values) for field in wide.fields]
    homes = dict(zip(_rows(own, wide), wide.keys, strict=True))
    wanted = zip(_rows(known, narrow), narrow.keys, strict=True)
    pairs = [(homes[row], key) for row, key in wanted if row in homes]
    # Two partitions that cover each other are the same values under two specs: neither is the wider one.
    return [
        (outer, inner)
        for outer, inner in pairs
        if _covers(outer, inner) and not (_covers(inner, outer) and outer.spec_id > inner.spec_id)
    ]


def _rows(columns: Sequence[list[Any]], spec: SpecPartitions) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * len(spec.keys)


def _computed(field: FieldColumn, narrow: SpecPartitions) -> list[Any] | None:
    """Returns the values that a field of the wider spec has for the narrower partitions; None = not known."""
    if field.transform.name == "void":
        return [None] * len(narrow.keys)
    if field.transform.name == "unknown" or field.source is None:
        return None
    for other in narrow.fields:
        if other.source != field.source:
            continue
        made = _bucketed(field, other) if field.transform.name == "bucket" else _cut(field, other)
        if made is not None:
            return made
    return None


def _bucketed(field: FieldColumn, other: FieldColumn) -> list[Any] | None:
    """Returns buckets, of more buckets whose number is a multiple, or of the values themselves."""
    if other.transform.name == "identity":
        return _cut(field, other)
    if other.transform.name != "bucket" or other.transform.width % field.transform.width:
        return None
    return [None if one is None else one % field.transform.width for one in other.values.to_pylist()]


def _cut(field: FieldColumn, other: FieldColumn) -> list[Any] | None:
    if other.low is None:
        return None
    try:
        return _plain(field.transform, field.transform.apply(other.low))
    except (InvalidInputError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _plain(transform: Transform, values: pa.Array) -> list[Any]:
    """Returns partition values as keys of a dictionary; times as numbers, however they are stored."""
    if transform.name in _TIMES and not pa.types.is_null(values.type):
        nulls = values.is_null().to_pylist()
        numbers = whole_numbers(values).tolist()
        return [None if null else number for null, number in zip(nulls, numbers, strict=True)]
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return [hashable(value) for value in values.to_pylist()]


def _covers(outer: PartitionKey, inner: PartitionKey) -> bool:
    """Returns whether the bounds of a partition lie within those of another."""
    return all(any(_holds(wide, one) for one in inner.bounds) for wide in outer.bounds if _bounds(wide))


def _bounds(bound: PartitionBound) -> bool:
    return bound.transform != "void"


def _holds(wide: PartitionBound, narrow: PartitionBound) -> bool:
    if wide.column != narrow.column or wide.is_null != narrow.is_null:
        return False
    if wide.is_null:
        return True
    if wide.transform.startswith("bucket"):
        return _holds_bucket(wide, narrow)
    if None in (wide.low, wide.high, narrow.low, narrow.high):
        return False
    if narrow.high == wide.high:
        return bool(wide.low <= narrow.low) and (narrow.high_open or not wide.high_open)
    return bool(wide.low <= narrow.low and narrow.high < wide.high)


def _holds_bucket(wide: PartitionBound, narrow: PartitionBound) -> bool:
    outer, inner = Transform.parse(wide.transform), Transform.parse(narrow.transform)
    if inner.name == "identity":
        return True  # it was looked up by the bucket of its one value
    return (
        inner.name == "bucket"
        and inner.width % outer.width == 0
        and narrow.value is not None
        and bool(narrow.value % outer.width == wide.value)
    )
