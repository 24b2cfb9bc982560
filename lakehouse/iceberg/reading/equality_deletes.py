"""Equality deletes: rows whose values in some columns a later commit deleted.

Delete files that compare the same columns, and apply to the same partition, are put together once for a scan:
of each deleted value the highest sequence number is kept, so that a data file asks once, however many delete
files came after it. Values are compared as Iceberg compares them: a null equals a null, a NaN a NaN, and the
two zeros of floating-point numbers differ.

Invariant: a row is deleted if and only if a delete file of its group has its values and a higher data
sequence number than its data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError
from lakehouse.format.schema import Field, StructType, children
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.kernels.arrays import I64, Mask

__all__ = ["ComparedColumn", "DeletedValues", "compared_columns"]

_NAN_BITS = {pa.float32(): 0x7FC00000, pa.float64(): 0x7FF8000000000000}
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """A column by which rows are compared: a top-level one, or a field inside structs."""

    field: Field
    """The top-level column; none of its fields is required, because older files may lack it."""
    path: tuple[str, ...] = ()
    """Names from there to the field."""

    def values(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Returns the values that are compared, in a form in which equal ones are the same."""
        if self.path:
            column = pc.struct_field(column, list(self.path))
        if column.type not in _NAN_BITS:
            return column
        return pa.chunked_array([_bits(chunk) for chunk in column.chunks], _BITS[column.type])


def _bits(array: pa.Array) -> pa.Array:
    """Returns floating-point numbers as their bits, every NaN as the same."""
    kind = _BITS[array.type]
    return pc.if_else(pc.is_nan(array), pa.scalar(_NAN_BITS[array.type], kind), array.view(kind))


def compared_columns(
    ids: Sequence[int], schema: IcebergSchema, metadata: TableMetadata, path: str
) -> tuple[ComparedColumn, ...]:
    """Returns the columns of some field ids, dropped ones too, as the newest schema that has them says.

    Args:
        ids: of the fields.
        schema: the schema that is read with; its fields come first.
        metadata: of the table.
        path: the delete file, for messages.

    Raises:
        CorruptionError: no schema has a field of an id, or there is no id.
    """
    others = sorted(metadata.schemas.values(), key=lambda one: one.id, reverse=True)
    found = []
    for number in ids:
        ways = (_way(one.fields, number) for one in (schema, *others))
        column = next((way for way in ways if way is not None), None)
        if column is None:
            raise CorruptionError(
                f"the delete file {path} compares field {number}, which no schema of the table has, or "
                "not as a value that can be compared",
                key=path,
                got=number,
            )
        found.append(column)
    if not found:
        raise CorruptionError(f"the delete file {path} compares no field: it has no equality ids", key=path)
    return tuple(found)


def _way(fields: Iterable[Field], number: int) -> ComparedColumn | None:
    for field in fields:
        if field.id == number and not children(field.type):
            return ComparedColumn(field=_optional(field))
        if isinstance(field.type, StructType):
            inner = _way(field.type.fields, number)
            if inner is not None:
                return ComparedColumn(field=_optional(field), path=(inner.field.name, *inner.path))
    return None


def _optional(field: Field) -> Field:
    kind = field.type
    if isinstance(kind, StructType):
        kind = StructType(tuple(_optional(inner) for inner in kind.fields))
    return replace(field, type=kind, required=False)


class DeletedValues:
    """The deleted values of a group of delete files, with the sequence number of each.

    Args:
        columns: by which rows are compared.
        files: of each delete file the table of these columns, and its data sequence number.
    """

    def __init__(self, columns: Sequence[ComparedColumn], files: Sequence[tuple[pa.Table, int]]) -> None:
        self.columns = tuple(columns)
        self.fields = tuple({column.field.id: column.field for column in columns}.values())
        """Columns to read of a data file."""
        self._known: list[pa.Array] = []
        """Values that occur in each column, in the order of their codes."""
        self._pairs: list[I64] = []
        """Codes that occur together, ascending: of each column but the first, and of all before it."""
        rows = pa.concat_tables([table for table, _ in files])
        sequences = np.repeat([sequence for _, sequence in files], [table.num_rows for table, _ in files])
        codes = self._coded(rows, learn=True)
        self._sequences = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        np.maximum.at(self._sequences, codes, sequences.astype(np.int64))

    def deletes(self, rows: pa.Table, sequence: int) -> Mask:
        """Returns for each row of a data file of this data sequence number whether it is deleted."""
        codes = self._coded(rows, learn=False)
        deleted: Mask = np.zeros(rows.num_rows, np.bool_)
        hit = codes >= 0
        deleted[hit] = self._sequences[codes[hit]] > sequence
        return deleted

    def _coded(self, rows: pa.Table, *, learn: bool) -> I64:
        """Returns for each row the number of its values together; -1 = they do not occur."""
        codes: I64 = np.zeros(rows.num_rows, np.int64)
        names = rows.column_names
        for at, column in enumerate(self.columns):
            values = column.values(rows.column(names.index(column.field.name)))
            if learn:
                self._known.append(pc.unique(values))
            of_column = _places(values, self._known[at])
            if at == 0:
                codes = of_column
                continue
            both = np.where((codes < 0) | (of_column < 0), -1, codes * len(self._known[at]) + of_column)
            if learn:
                self._pairs.append(np.unique(both))
            codes = _ranks(both, self._pairs[at - 1])
        return codes


def _places(values: pa.ChunkedArray, known: pa.Array) -> I64:
    """Returns the place of each value among the known ones, a null's too; -1 = it is not there."""
    places: I64 = pc.index_in(values, value_set=known).fill_null(-1).to_numpy().astype(np.int64)
    return places


def _ranks(numbers: I64, known: I64) -> I64:
    """Returns the place of each number among ascending ones; -1 = it is not there."""
    if not len(known):
        return np.full(len(numbers), -1, np.int64)
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where((known[places] == numbers) & (numbers >= 0), places, -1)
