"""Rows that name some columns, one of each key, and what they come to beside the rows that are there.

Invariant: filling gives what reading, changing and writing the rows one after the other gives: of several
rows of a key in one call the last one that names a column decides it; what none names stays as it is, or
is the column's default where the key is new.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Field, TableSchema, arrow_field, constant_column
from lakehouse.kernels.arrays import Mask
from lakehouse.storage.merge.key_groups import KeyGroups, last_where
from lakehouse.storage.rows.duplicate_keys import refuse_repeated_keys
from lakehouse.storage.rows.fit_to_schema import conform
from lakehouse.storage.rows.input_tables import marks_of
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.key_sort import by_key
from lakehouse.storage.scan.lookup import FoundRows

__all__ = ["GivenChunk", "GivenRows", "given_chunk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenChunk:
    """Rows as they came, with all columns of the schema; those that nobody gave are null."""

    rows: pa.Table
    given: Mapping[str, Mask]
    """Of each column that some rows lack, which rows have it."""


def given_chunk(chunk: pa.Table, schema: TableSchema, *, first_row: int) -> GivenChunk:
    """The rows of a table that :func:`lakehouse.storage.rows.input_tables.chunks_of` made with marks."""
    rows, marks = marks_of(chunk)
    relaxed = _relaxed(schema)
    fitted = conform(rows, relaxed, first_row=first_row, partial=True)
    marked = {name.casefold(): mask.to_numpy() for name, mask in marks.items()}
    columns: list[pa.ChunkedArray] = []
    given: dict[str, Mask] = {}
    for one, target in zip(relaxed.fields, relaxed.arrow(), strict=True):
        if one.name not in fitted.column_names:
            if one.name in schema.primary_key:
                raise InvalidInputError(f"the rows have no column {one.name!r}, of the key", column=one.name)
            columns.append(constant_column(None, target.type, rows.num_rows))
            given[one.name] = np.zeros(rows.num_rows, bool)
            continue
        columns.append(fitted.column(one.name))
        if one.name.casefold() in marked:
            given[one.name] = marked[one.name.casefold()]
    return GivenChunk(rows=pa.Table.from_arrays(columns, schema=relaxed.arrow()), given=given)


def _relaxed(schema: TableSchema) -> TableSchema:
    """The schema without what only whole rows have to keep: columns outside the key may be null."""
    fields = tuple(
        one if one.name in schema.primary_key else dataclasses.replace(one, required=False)
        for one in schema.fields
    )
    return dataclasses.replace(schema, fields=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRows:
    """Rows of a call, one of each key, by key."""

    schema: TableSchema
    rows: pa.Table
    given: Mapping[str, Mask] = field(default_factory=dict)
    """Of each column that some rows lack, which rows have it."""
    handed_in: int = 0
    """Rows before those of a key were put together."""

    @classmethod
    def of(cls, chunks: Sequence[GivenChunk], schema: TableSchema) -> GivenRows:
        """The rows of these chunks, put together.

        Raises:
            InvalidInputError: two rows have one key in a table with a sequence field, which would have to
                be asked in between which of them is the newer.
        """
        if not chunks:
            return cls(schema=schema, rows=_relaxed(schema).arrow().empty_table())
        rows = pa.concat_tables([one.rows for one in chunks]).combine_chunks()
        names = {name for one in chunks for name in one.given}
        given = {
            name: np.concatenate([one.given.get(name, np.ones(one.rows.num_rows, bool)) for one in chunks])
            for name in names
        }
        keys = KeyColumns(schema.key_fields)
        if schema.merging.folds:
            refuse_repeated_keys(rows, keys, where="missing='keep' in a table with a sequence field")
        (array,) = keys.arrays([rows])
        found = by_key(array)
        if found is None:
            return cls(schema=schema, rows=rows, given=given, handed_in=rows.num_rows)
        order, ends = found
        last = np.flatnonzero(ends)
        groups = KeyGroups(rows=order, begins=np.concatenate([[0], last[:-1] + 1]))
        columns = []
        for name in rows.column_names:
            places = last_where(given[name][order], groups) if name in given else groups.last
            columns.append(rows.column(name).take(pa.array(order[places])))
        return cls(
            schema=schema,
            rows=pa.Table.from_arrays(columns, schema=rows.schema),
            given={name: np.logical_or.reduceat(mask[order], groups.begins) for name, mask in given.items()},
            handed_in=len(order),
        )

    @property
    def lacking(self) -> tuple[Field, ...]:
        """Columns that some rows lack."""
        return tuple(one for one in self.schema.fields if one.name in self.given)

    @property
    def incomplete(self) -> Mask:
        """Which rows lack a column."""
        found: Mask = np.zeros(self.rows.num_rows, bool)
        for mask in self.given.values():
            found |= ~mask
        return found

    def keys_to_read(self) -> pa.Table:
        """Keys of the rows that lack a column."""
        return self.rows.select(self.schema.primary_key).filter(pa.array(self.incomplete)).combine_chunks()

    def filled(self, found: FoundRows) -> pa.Table:
        """Whole rows.

        Args:
            found: the rows that are there of :meth:`keys_to_read`, with the columns :attr:`lacking`.

        Raises:
            InvalidInputError: a new row lacks a column that must not be null.
        """
        keys = KeyColumns(self.schema.key_fields)
        places = found.places(keys, self.rows).fill_null(-1).to_numpy()
        rows, there = self.rows.num_rows, found.rows.num_rows
        filled = self.rows
        for one in self.lacking:
            old = found.rows.column(one.name).combine_chunks()
            mine = filled.column(one.name).combine_chunks()
            default = constant_column(one.write_default, mine.type, 1).combine_chunks()
            source = np.where(places >= 0, rows + places, rows + there)
            at = np.where(self.given[one.name], np.arange(rows), source)
            column = pa.concat_arrays([_one_array(mine), _one_array(old), _one_array(default)]).take(
                pa.array(at)
            )
            place = filled.schema.get_field_index(one.name)
            filled = filled.set_column(place, arrow_field(dataclasses.replace(one, required=False)), column)
        self._refuse_nulls(filled)
        return filled

    def _refuse_nulls(self, filled: pa.Table) -> None:
        for one in self.schema.fields:
            if not one.required or not filled.column(one.name).null_count:
                continue
            row = pc.index(filled.column(one.name).is_null(), True).as_py()
            key = {name: filled.column(name)[row].as_py() for name in self.schema.primary_key}
            raise InvalidInputError(
                f"column {one.name!r} of the row with key {key} must not be null: there is no older row to "
                "keep a value of, so give it one",
                column=one.name,
                key=key,
            )


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
