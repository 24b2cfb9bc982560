"""Aggregates of a scan (count, min, max), from file statistics where they are exact and from rows elsewhere.

Statistics answer for a file when no other file may have one of its keys, all its rows match the condition,
none of them is an operand that a merge engine would still finish, and the requested bounds are values that
occur, which truncated bounds of long text are not. The other files are read, only with the requested columns.

Invariant: the answer equals that of a scan of all rows. NaN is above every number, as in Spark and DuckDB;
nulls are no values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys import decode_fixed, stats_of, value_width
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import DataType, Field, ListType, MapType, StructType, TableSchema, arrow_type
from lakehouse.storage.rows.partitioner import partition_rows
from lakehouse.storage.scan.file_plan import PlannedUnit
from lakehouse.storage.schema.columns import fields_named

__all__ = ["AggregateQuery", "AskedValue", "PartialAggregates"]

_Kind = Literal["count", "min", "max"]
_KINDS: tuple[_Kind, ...] = ("count", "min", "max")
_WHOLE = 1 << 62
"""Maximum bytes of a bound, beyond any value, so that bounds of rows are never truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedValue:
    """One requested aggregate value."""

    name: str
    kind: _Kind
    field: Field | None = None
    """Column whose values are aggregated; None = rows are counted, not values."""

    @property
    def value_type(self) -> DataType | None:
        """Type of the result where it is a value of the column; None where it is a number."""
        return None if self.field is None or self.kind == "count" else self.field.type


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateQuery:
    """Aggregate query over the rows of a table, grouped by partition columns or not at all."""

    schema: TableSchema
    aggregates: tuple[AskedValue, ...]
    group_by: tuple[Field, ...] = ()
    """Partition columns that form the groups; empty = one group."""

    @classmethod
    def parse(
        cls,
        schema: TableSchema,
        wanted: Mapping[str, str | tuple[str, str]],
        group_by: Sequence[str] | str = (),
    ) -> AggregateQuery:
        """Parses aggregates by result name, such as ``{"n": "count", "last": ("max", "ts")}``.

        Raises:
            InvalidInputError: an aggregate or group is not supported; the message says which ones are.
        """
        names = (group_by,) if isinstance(group_by, str) else tuple(group_by)
        groups = fields_named(schema, names)
        unpartitioned = [name for name in names if name not in schema.partition_by]
        if unpartitioned:
            raise InvalidInputError(
                f"group_by takes partition columns ({', '.join(schema.partition_by) or 'there are none'}), "
                f"not {', '.join(unpartitioned)}: group the rows of a scan",
                got=unpartitioned,
            )
        if not wanted:
            raise InvalidInputError("nothing is asked for: give names and aggregates, such as {'n': 'count'}")
        aggregates = tuple(_aggregate(schema, name, what) for name, what in wanted.items())
        for aggregate in aggregates:
            if aggregate.name in names:
                raise InvalidInputError(f"{aggregate.name!r} is the name of a group too: give it another one")
        return cls(schema=schema, aggregates=aggregates, group_by=groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns to read where rows answer; empty = counting keys is enough."""
        wanted = (aggregate.field for aggregate in self.aggregates)
        fields = [*self.group_by, *(field for field in wanted if field is not None)]
        return tuple(dict.fromkeys(field.name for field in fields))

    def from_statistics(self, units: Iterable[PlannedUnit]) -> tuple[PartialAggregates, list[PlannedUnit]]:
        """Returns the answers that file statistics give, and the planned units whose rows must be read."""
        answers, left = PartialAggregates(self), []
        for unit in units:
            rest = tuple(
                file for file in unit.files if not (file.answered_by_stats and answers.add_file(file.entry))
            )
            if rest:
                left.append(replace(unit, files=rest))
        return answers, left


def _aggregate(schema: TableSchema, name: str, what: str | tuple[str, str]) -> AskedValue:
    kind, column = (what, None) if isinstance(what, str) else tuple(what)
    if kind not in _KINDS or (column is None and kind != "count"):
        raise InvalidInputError(
            f"{name!r}: an aggregate is 'count', ('count', column), ('min', column) or ('max', column), "
            f"not {what!r}",
            got=what,
        )
    if column is None:
        return AskedValue(name=name, kind=kind)
    (field,) = fields_named(schema, (column,))
    if kind != "count" and isinstance(field.type, ListType | MapType | StructType):
        raise InvalidInputError(f"{name!r}: values of column {column!r} have no order", column=column)
    return AskedValue(name=name, kind=kind, field=field)


@dataclass(slots=True)
class _Seen:
    """Number and bounds of a column's values so far; bounds are order-preserving bytes."""

    values: int = 0
    low: bytes | None = None
    high: bytes | None = None

    def add(self, values: int, low: bytes | None, high: bytes | None) -> None:
        self.values += values
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
        if high is not None:
            self.high = high if self.high is None else max(self.high, high)


class _Group:
    """Number of rows of a group so far, and its aggregated columns by field id."""

    __slots__ = ("columns", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.columns: dict[int, _Seen] = {}

    def add(self, number: int, values: int, low: bytes | None, high: bytes | None) -> None:
        self.columns.setdefault(number, _Seen()).add(values, low, high)


class PartialAggregates:
    """Partial aggregates, filled file by file and table by table, that merge and can be pickled.

    Args:
        question: the aggregate query.
    """

    def __init__(self, question: AggregateQuery) -> None:
        self.question = question
        self.rows_read = 0
        """Number of rows that were read, not answered by statistics."""
        self._groups: dict[tuple[bytes, ...], _Group] = {}
        used = [(aggregate.field, aggregate.kind) for aggregate in question.aggregates]
        self._fields = {field.id: field for field, _ in used if field is not None}
        self._ordered = {field.id for field, kind in used if field is not None and kind != "count"}
        """Ids of the fields whose least or greatest value is wanted, not only their number."""

    def add_file(self, entry: FileEntry) -> bool:
        """Adds a file by its statistics; returns False, and adds nothing, where they do not answer."""
        rows = entry.rows - entry.deletes
        if not rows:
            return True
        if self._fields and entry.updates:
            return False  # the value of an operand is known only after the merge engine has applied it
        partition = self.question.schema.partition_by
        columns: list[tuple[int, int, bytes | None, bytes | None]] = []
        for number, field in self._fields.items():
            # All rows of a file share the values of its partition columns, so the bounds are exact.
            if field.name in partition and len(entry.partition) == len(partition):
                value = entry.partition[partition.index(field.name)]
                columns.append((number, rows, value, value))
                continue
            stats = entry.stats.get(number)
            if stats is None:
                return False
            values = rows - stats.nulls
            if values and number in self._ordered and not stats.exact:
                return False
            columns.append((number, values, stats.low if values else None, stats.high if values else None))
        by_place = dict(zip(partition, entry.partition, strict=False))
        if any(field.name not in by_place for field in self.question.group_by):
            return False
        group = self._group(tuple(by_place[field.name] for field in self.question.group_by))
        group.rows += rows
        for number, values, low, high in columns:
            group.add(number, values, low, high)
        return True

    def add_rows(self, rows: pa.Table) -> None:
        """Adds rows that match the condition; they have at least the question's columns."""
        self.rows_read += rows.num_rows
        if not rows.num_rows:
            return
        groups = self.question.group_by
        if not groups:
            self._add_part((), rows)
            return
        # Without its key, so that rows are only grouped: a key would make partition_rows drop repeated ones.
        unkeyed = replace(self.question.schema, primary_key=(), buckets=1)
        for part in partition_rows(rows.combine_chunks(), unkeyed, partition_fields=groups):
            self._add_part(part.partition, part.rows())

    def _add_part(self, key: tuple[bytes, ...], rows: pa.Table) -> None:
        group = self._group(key)
        group.rows += rows.num_rows
        fields = [field for number, field in self._fields.items() if number in self._ordered]
        for number, stats in stats_of(rows, fields, text_bytes=_WHOLE).items():
            group.add(number, rows.num_rows - stats.nulls, stats.low, stats.high)
        for number, field in self._fields.items():
            if number not in self._ordered:
                group.add(number, rows.num_rows - rows.column(field.name).null_count, None, None)

    def merge(self, other: PartialAggregates) -> None:
        """Adds the answers to the same question about disjoint rows."""
        self.rows_read += other.rows_read
        for key, theirs in other._groups.items():
            group = self._group(key)
            group.rows += theirs.rows
            for number, seen in theirs.columns.items():
                group.add(number, seen.values, seen.low, seen.high)

    def _group(self, key: tuple[bytes, ...]) -> _Group:
        return self._groups.setdefault(key, _Group())

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of :meth:`table`: groups first, then aggregates."""
        columns = [pa.field(field.name, arrow_type(field.type)) for field in self.question.group_by]
        for aggregate in self.question.aggregates:
            kind = aggregate.value_type
            columns.append(pa.field(aggregate.name, pa.int64() if kind is None else arrow_type(kind)))
        return pa.schema(columns)

    def table(self) -> pa.Table:
        """Returns a row for each group that has rows, ordered by group; without groups always one row."""
        keys = sorted(key for key, group in self._groups.items() if group.rows)
        if not self.question.group_by:
            keys = [()]
        groups = [self._groups.get(key, _Group()) for key in keys]
        columns = [
            _decode([key[place] for key in keys], field.type)
            for place, field in enumerate(self.question.group_by)
        ]
        for aggregate in self.question.aggregates:
            if aggregate.field is None:
                columns.append(pa.array([group.rows for group in groups], pa.int64()))
                continue
            seen = [group.columns.get(aggregate.field.id, _Seen()) for group in groups]
            if aggregate.kind == "count":
                columns.append(pa.array([column.values for column in seen], pa.int64()))
            else:
                bounds = [column.low if aggregate.kind == "min" else column.high for column in seen]
                columns.append(_decode(bounds, aggregate.field.type))
        return pa.Table.from_arrays(columns, schema=self.schema)


def _decode(values: Sequence[bytes | None], kind: DataType) -> pa.Array:
    """Decodes order-preserving bytes to an Arrow array of this type; None becomes null."""
    if value_width(kind) is None:
        return pa.array(values, pa.binary()).cast(arrow_type(kind))
    # Values of fixed width are decoded packed, without gaps for nulls, and spread by take afterwards.
    known = [value for value in values if value is not None]
    data = np.frombuffer(b"".join(known), np.uint8)
    decoded = decode_fixed(data, kind) if known else pa.array([], arrow_type(kind))
    places = iter(range(len(known)))
    return decoded.take(pa.array([None if value is None else next(places) for value in values], pa.int64()))
