"""Counts, least and greatest values: from what entries of files tell, and from rows where they do not.

A file tells when no other file may have one of its keys, all its rows match the condition, none of them is
an operand that a merge engine would still finish, and the bounds that are asked for are values that
occur: cut bounds of long text are not. The rows of the other files are read, with the columns that
are asked for alone.

Invariant: the answer is that of a scan of all rows. NaN is above every number, as in Spark and DuckDB;
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
from lakehouse.storage.rows.partitioner import cut_rows
from lakehouse.storage.scan.file_plan import PlannedUnit
from lakehouse.storage.schema.columns import fields_named

__all__ = ["Answers", "AskedValue", "Question"]

_Kind = Literal["count", "min", "max"]
_KINDS: tuple[_Kind, ...] = ("count", "min", "max")
_WHOLE = 1 << 62
"""Bytes of a bound: no value is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedValue:
    """One value that is asked for."""

    name: str
    kind: _Kind
    field: Field | None = None
    """None = rows are counted, not values."""

    @property
    def value_type(self) -> DataType | None:
        """Of a value of the column; None where it is a number of rows or values."""
        return None if self.field is None or self.kind == "count" else self.field.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the rows of a table, for each group of partitions."""

    schema: TableSchema
    aggregates: tuple[AskedValue, ...]
    group_by: tuple[Field, ...] = ()
    """Partition columns."""

    @classmethod
    def parse(
        cls,
        schema: TableSchema,
        wanted: Mapping[str, str | tuple[str, str]],
        group_by: Sequence[str] | str = (),
    ) -> Question:
        """From ``{"n": "count", "last": ("max", "ts")}``.

        Raises:
            InvalidInputError: nobody can answer that; the message says what can be asked.
        """
        names = (group_by,) if isinstance(group_by, str) else tuple(group_by)
        groups = fields_named(schema, names)
        others = [name for name in names if name not in schema.partition_by]
        if others:
            raise InvalidInputError(
                f"group_by takes partition columns ({', '.join(schema.partition_by) or 'there are none'}), "
                f"not {', '.join(others)}: group the rows of a scan",
                got=others,
            )
        if not wanted:
            raise InvalidInputError("nothing is asked for: give names and aggregates, such as {'n': 'count'}")
        aggregates = tuple(_aggregate(schema, name, what) for name, what in wanted.items())
        for one in aggregates:
            if one.name in names:
                raise InvalidInputError(f"{one.name!r} is the name of a group too: give it another one")
        return cls(schema=schema, aggregates=aggregates, group_by=groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of rows that are read to answer; empty = counting keys will do."""
        fields = [*self.group_by, *(one.field for one in self.aggregates if one.field is not None)]
        return tuple(dict.fromkeys(field.name for field in fields))

    def of_told(self, units: Iterable[PlannedUnit]) -> tuple[Answers, list[PlannedUnit]]:
        """What entries tell of a planned scan, and the files whose rows are to be read."""
        answers, left = Answers(self), []
        for unit in units:
            rest = tuple(one for one in unit.files if not (one.told and answers.add_file(one.entry)))
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
    """What is known of a column's values so far."""

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
    """What is known of a group so far."""

    __slots__ = ("columns", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.columns: dict[int, _Seen] = {}

    def add(self, number: int, values: int, low: bytes | None, high: bytes | None) -> None:
        self.columns.setdefault(number, _Seen()).add(values, low, high)


class Answers:
    """Answers to a question, gathered file by file and table by table. They can be pickled.

    Args:
        question: what is asked.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.rows_read = 0
        """Rows that were looked at one by one."""
        self._groups: dict[tuple[bytes, ...], _Group] = {}
        self._fields = {one.field.id: one.field for one in question.aggregates if one.field is not None}
        self._ordered = {
            one.field.id for one in question.aggregates if one.field is not None and one.kind != "count"
        }

    def add_file(self, entry: FileEntry) -> bool:
        """Takes what an entry tells of all its rows; False, and nothing is taken, when it does not tell."""
        rows = entry.rows - entry.deletes
        if not rows:
            return True
        if self._fields and entry.updates:
            return False  # what an operand comes to, the merge engine says
        partition = self.question.schema.partition_by
        told: list[tuple[int, int, bytes | None, bytes | None]] = []
        for number, field in self._fields.items():
            if field.name in partition and len(entry.partition) == len(partition):
                value = entry.partition[partition.index(field.name)]
                told.append((number, rows, value, value))
                continue
            stats = entry.stats.get(number)
            if stats is None:
                return False
            values = rows - stats.nulls
            if values and number in self._ordered and not stats.exact:
                return False
            told.append((number, values, stats.low if values else None, stats.high if values else None))
        by_place = dict(zip(partition, entry.partition, strict=False))
        if any(field.name not in by_place for field in self.question.group_by):
            return False
        group = self._group(tuple(by_place[field.name] for field in self.question.group_by))
        group.rows += rows
        for number, values, low, high in told:
            group.add(number, values, low, high)
        return True

    def add_rows(self, rows: pa.Table) -> None:
        """Takes rows that match, with the question's columns."""
        self.rows_read += rows.num_rows
        if not rows.num_rows:
            return
        groups = self.question.group_by
        if not groups:
            self._add_part((), rows)
            return
        unkeyed = replace(self.question.schema, primary_key=(), buckets=1)
        for part in cut_rows(rows.combine_chunks(), unkeyed, partition_fields=groups):
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

    def merge(self, other: Answers) -> None:
        """Takes answers to the same question about other rows."""
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
        """Of :meth:`table`."""
        columns = [pa.field(one.name, arrow_type(one.type)) for one in self.question.group_by]
        for one in self.question.aggregates:
            kind = one.value_type
            columns.append(pa.field(one.name, pa.int64() if kind is None else arrow_type(kind)))
        return pa.schema(columns)

    def table(self) -> pa.Table:
        """A row for each group that has rows, by group; without groups one row in any case."""
        keys = sorted(key for key, group in self._groups.items() if group.rows)
        if not self.question.group_by:
            keys = [()]
        groups = [self._groups.get(key, _Group()) for key in keys]
        columns = [
            _decoded([key[place] for key in keys], field.type)
            for place, field in enumerate(self.question.group_by)
        ]
        for one in self.question.aggregates:
            if one.field is None:
                columns.append(pa.array([group.rows for group in groups], pa.int64()))
                continue
            seen = [group.columns.get(one.field.id, _Seen()) for group in groups]
            if one.kind == "count":
                columns.append(pa.array([each.values for each in seen], pa.int64()))
            else:
                bounds = [each.low if one.kind == "min" else each.high for each in seen]
                columns.append(_decoded(bounds, one.field.type))
        return pa.Table.from_arrays(columns, schema=self.schema)


def _decoded(values: Sequence[bytes | None], kind: DataType) -> pa.Array:
    """Values of order-preserving bytes."""
    if value_width(kind) is None:
        return pa.array(values, pa.binary()).cast(arrow_type(kind))
    known = [value for value in values if value is not None]
    data = np.frombuffer(b"".join(known), np.uint8)
    found = decode_fixed(data, kind) if known else pa.array([], arrow_type(kind))
    places = iter(range(len(known)))
    return found.take(pa.array([None if value is None else next(places) for value in values], pa.int64()))
