"""Rows that have only some columns, reduced to one of each key and filled from the existing rows.

Invariant: filling gives the same as reading, changing and writing the rows one after the other: of several
rows of a key in one call the last one that has a column decides it; a column that none has keeps its value,
or gets its default where the key is new.
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
    """Rows in their input order, with all columns of the schema; values that were not given are null."""

    rows: pa.Table
    given: Mapping[str, Mask]
    """Mask of the rows that have a column, for each column that some rows lack."""


def given_chunk(chunk: pa.Table, schema: TableSchema, *, first_row: int) -> GivenChunk:
    """Returns the marked rows of a table from :func:`lakehouse.storage.rows.input_tables.chunks_of`."""
    rows, marks = marks_of(chunk)
    relaxed = _relaxed(schema)
    fitted = conform(rows, relaxed, first_row=first_row, partial=True)
    marked = {name.casefold(): mask.to_numpy() for name, mask in marks.items()}
    columns: list[pa.ChunkedArray] = []
    given: dict[str, Mask] = {}
    for column, target in zip(relaxed.fields, relaxed.arrow(), strict=True):
        name = column.name
        if name not in fitted.column_names:
            if name in schema.primary_key:
                raise InvalidInputError(f"the rows have no column {name!r}, of the key", column=name)
            columns.append(constant_column(None, target.type, rows.num_rows))
            given[name] = np.zeros(rows.num_rows, bool)
            continue
        columns.append(fitted.column(name))
        if name.casefold() in marked:
            given[name] = marked[name.casefold()]
    return GivenChunk(rows=pa.Table.from_arrays(columns, schema=relaxed.arrow()), given=given)


def _relaxed(schema: TableSchema) -> TableSchema:
    """Returns the schema with every column outside the key optional, as rows before filling need it."""
    fields = tuple(
        column if column.name in schema.primary_key else dataclasses.replace(column, required=False)
        for column in schema.fields
    )
    return dataclasses.replace(schema, fields=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRows:
    """Rows of a call, one of each key, in key order."""

    schema: TableSchema
    rows: pa.Table
    given: Mapping[str, Mask] = field(default_factory=dict)
    """Mask of the rows that have a column, for each column that some rows lack."""
    handed_in: int = 0
    """Number of rows before those of one key were combined."""

    @classmethod
    def of(cls, chunks: Sequence[GivenChunk], schema: TableSchema) -> GivenRows:
        """Combines the rows of these chunks, those of one key into one row.

        Raises:
            InvalidInputError: two rows have one key in a table with a sequence field, which would have to
                decide between them before their missing values are known.
        """
        if not chunks:
            return cls(schema=schema, rows=_relaxed(schema).arrow().empty_table())
        rows = pa.concat_tables([chunk.rows for chunk in chunks]).combine_chunks()
        names = {name for chunk in chunks for name in chunk.given}
        given = {
            name: np.concatenate(
                [chunk.given.get(name, np.ones(chunk.rows.num_rows, bool)) for chunk in chunks]
            )
            for name in names
        }
        keys = KeyColumns(schema.key_fields)
        if schema.merging.is_mergeable:
            refuse_repeated_keys(rows, keys, where="missing='keep' in a table with a sequence field")
        (array,) = keys.arrays([rows])
        sorted_rows = by_key(array)
        if sorted_rows is None:
            # In key order already, with each key once.
            return cls(schema=schema, rows=rows, given=given, handed_in=rows.num_rows)
        order, ends = sorted_rows
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
        return tuple(column for column in self.schema.fields if column.name in self.given)

    @property
    def incomplete(self) -> Mask:
        """Mask of the rows that lack a column."""
        lacks: Mask = np.zeros(self.rows.num_rows, bool)
        for mask in self.given.values():
            lacks |= ~mask
        return lacks

    def keys_to_read(self) -> pa.Table:
        """Returns the keys of the rows that lack a column."""
        return self.rows.select(self.schema.primary_key).filter(pa.array(self.incomplete)).combine_chunks()

    def filled(self, found: FoundRows) -> pa.Table:
        """Returns whole rows, with missing values from existing rows, or else from column defaults.

        Args:
            found: the existing rows of :meth:`keys_to_read`, with the columns :attr:`lacking`.

        Raises:
            InvalidInputError: a new row lacks a column that must not be null.
        """
        keys = KeyColumns(self.schema.key_fields)
        places = found.places(keys, self.rows).fill_null(-1).to_numpy()
        rows, there = self.rows.num_rows, found.rows.num_rows
        filled = self.rows
        for lacked in self.lacking:
            old = found.rows.column(lacked.name).combine_chunks()
            mine = filled.column(lacked.name).combine_chunks()
            default = constant_column(lacked.write_default, mine.type, 1).combine_chunks()
            # Places in the concatenation below: own values, then those of existing rows, then the default.
            source = np.where(places >= 0, rows + places, rows + there)
            at = np.where(self.given[lacked.name], np.arange(rows), source)
            column = pa.concat_arrays([_one_array(mine), _one_array(old), _one_array(default)]).take(
                pa.array(at)
            )
            place = filled.schema.get_field_index(lacked.name)
            optional = arrow_field(dataclasses.replace(lacked, required=False))
            filled = filled.set_column(place, optional, column)
        self._refuse_nulls(filled)
        return filled

    def _refuse_nulls(self, filled: pa.Table) -> None:
        for column in self.schema.fields:
            if not column.required or not filled.column(column.name).null_count:
                continue
            row = pc.index(filled.column(column.name).is_null(), True).as_py()
            key = {name: filled.column(name)[row].as_py() for name in self.schema.primary_key}
            raise InvalidInputError(
                f"column {column.name!r} of the row with key {key} must not be null: there is no older row "
                "to keep a value of, so give it one",
                column=column.name,
                key=key,
            )


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
