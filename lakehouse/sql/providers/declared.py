"""Columns of a provider as DuckDB is told of them: types as it reads them, and a column of nothing first.

DuckDB asks for the first column where a statement needs none, as ``count(*)`` does; so the first one is a
column of nulls, which costs nothing to read and which views leave out.

Invariant: batches are handed over with exactly the declared types, for DuckDB reads memory by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse.errors import InternalError, InvalidInputError

__all__ = ["Declared", "select_list"]


class Declared:
    """The columns of a provider as DuckDB sees them.

    Args:
        schema: the provider's columns.
        prefix: what each name begins with, so that names tell whose columns they are.

    Raises:
        InvalidInputError: DuckDB cannot read a column of this type.
    """

    __slots__ = ("_columns", "prefix", "schema")

    def __init__(self, schema: pa.Schema, prefix: str = "") -> None:
        self._columns = schema
        self.prefix = prefix
        fields = [pa.field(prefix + field.name, _readable(field)) for field in schema]
        self.schema = pa.schema([pa.field(prefix + _nothing(schema.names), pa.null()), *fields])

    def names(self, places: Sequence[int] | None) -> list[str]:
        """Returns the provider's names of declared columns, the one of nothing left out."""
        return [self._columns.names[place - 1] for place in self.places(places) if place]

    def places(self, places: Sequence[int] | None) -> Sequence[int]:
        """Returns the declared columns that DuckDB asks for; None stands for all."""
        return range(len(self.schema)) if places is None else places

    def check(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Returns the batch of a provider, asked for these columns, if it has them.

        Raises:
            InternalError: it has others.
        """
        wanted = [self._columns.field(name) for name in names]
        for field, found in zip(wanted, batch.schema, strict=False):
            if field.name != found.name or _plain(field.type) != _plain(found.type):
                raise InternalError(f"a provider was asked for {field.name} {field.type} and yields {found}")
        if len(wanted) != batch.num_columns:
            raise InternalError(f"a provider was asked for {names} and yields {batch.schema.names}")
        return batch

    def fitted(self, batch: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
        """Returns a checked batch with the types that were declared, and nulls for the column of nothing."""
        columns = iter(batch.columns)
        arrays = []
        for place in places:
            kind = self.schema.field(place).type
            arrays.append(_cast(next(columns), kind) if place else pa.nulls(batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self.narrowed(places))

    def narrowed(self, places: Sequence[int]) -> pa.Schema:
        """Returns the schema of these declared columns."""
        return pa.schema([self.schema.field(place) for place in places])


def select_list(names: Sequence[str], prefix: str = "") -> str:
    """Returns what a view over a source selects: all columns by their names, the one of nothing left out."""
    return ", ".join(f"{_quoted(prefix + name)} AS {_quoted(name)}" for name in names)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _nothing(names: Sequence[str]) -> str:
    """Returns a name that no column has; DuckDB knows no letter's case."""
    taken = {name.casefold() for name in names}
    name = "nothing"
    while name in taken:
        name += "_"
    return name


def _readable(field: pa.Field) -> pa.DataType:
    """Returns the type that DuckDB gets a column as."""
    if pa.types.is_float16(field.type):
        return pa.float32()
    unread = _unread(field.type)
    if unread is not None:
        raise InvalidInputError(f"SQL cannot read column {field.name!r}: it has values of type {unread}")
    return field.type


def _unread(kind: pa.DataType) -> pa.DataType | None:
    """Returns the part of a type that DuckDB has no type for."""
    if pa.types.is_float16(kind) or pa.types.is_decimal256(kind):
        return kind
    if pa.types.is_dictionary(kind):
        return _unread(kind.value_type)
    return next(filter(None, (_unread(kind.field(at).type) for at in range(kind.num_fields))), None)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)
