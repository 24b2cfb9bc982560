"""Columns of a provider as DuckDB is told of them: types as it reads them, and a column of nothing first.

DuckDB asks for the first column where a statement needs none, as ``count(*)`` does; so the first one is a
column of nulls, which costs nothing to read and which views leave out.

Invariant: batches are handed over with exactly the declared types, for DuckDB reads memory by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakehouse.errors import InternalError, InvalidInputError
from lakehouse.sql.text.names import quoted

__all__ = ["Declared", "checked", "fitted", "select_list"]


class Declared:
    """The columns of a provider as DuckDB sees them.

    Args:
        schema: the provider's columns.
        prefix: of a source for planning, which calls its columns by their numbers behind it.

    Raises:
        InvalidInputError: DuckDB cannot read a column of this type, or not tell two columns apart.
    """

    __slots__ = ("_columns", "prefix", "schema")

    def __init__(self, schema: pa.Schema, prefix: str = "") -> None:
        _check_names(schema.names)
        self._columns = schema
        self.prefix = prefix
        names = _called(schema.names, prefix)
        fields = [pa.field(name, _readable(field)) for name, field in zip(names, schema, strict=True)]
        self.schema = pa.schema([pa.field(_nothing(names, prefix), pa.null()), *fields])

    def places(self, places: Sequence[int] | None) -> Sequence[int]:
        """Returns the declared columns that DuckDB asks for; None stands for all."""
        return range(len(self.schema)) if places is None else places

    def asked(self, places: Sequence[int]) -> pa.Schema:
        """Returns the schema of declared columns."""
        return pa.schema([self.schema.field(place) for place in places])

    def provided(self, places: Sequence[int]) -> pa.Schema:
        """Returns the provider's schema of declared columns, the one of nothing left out."""
        return pa.schema([self._columns.field(place - 1) for place in places if place])


def checked(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Returns the batch of a provider, if it has the columns that it was asked for, encoded or not.

    Raises:
        InternalError: it has others.
    """
    if not batch.schema.equals(wanted) and _plain(batch.schema) != _plain(wanted):
        raise InternalError(f"a provider was asked for {_shown(wanted)} and yields {_shown(batch.schema)}")
    return batch


def fitted(batch: pa.RecordBatch, asked: pa.Schema) -> pa.RecordBatch:
    """Returns a checked batch with the columns and types that DuckDB asked for."""
    if batch.schema.equals(asked):
        return batch
    columns = dict(zip((field.name for field in batch.schema), batch.columns, strict=True))
    arrays = [_cast(columns.get(field.name), field.type, batch.num_rows) for field in asked]
    return pa.RecordBatch.from_arrays(arrays, schema=asked)


def select_list(names: Sequence[str], prefix: str = "") -> str:
    """Returns what a view over a source selects: all columns by their names, the one of nothing left out."""
    called = zip(_called(names, prefix), names, strict=True)
    return ", ".join(f"{quoted(inner)} AS {quoted(name)}" for inner, name in called)


def _called(names: Sequence[str], prefix: str) -> list[str]:
    """Returns what DuckDB knows columns of a source by; plans cut names in two where a line ends."""
    return [f"{prefix}{number}" for number in range(len(names))] if prefix else list(names)


def _check_names(names: Sequence[str]) -> None:
    """Refuses names of which DuckDB would silently read one for the other."""
    by_folded: dict[bytes, str] = {}
    for name in names:
        other = by_folded.setdefault(_folded(name), name)
        if other is not name:
            raise InvalidInputError(
                f"SQL cannot tell columns {other!r} and {name!r} apart: rename one of them", column=name
            )


def _folded(name: str) -> bytes:
    """Returns what DuckDB compares names by, which ignores the case of ASCII's letters alone."""
    return name.encode().lower()


def _nothing(names: Sequence[str], prefix: str) -> str:
    """Returns a name that no column has."""
    taken = {_folded(name) for name in names}
    name = f"{prefix}nothing"
    while _folded(name) in taken:
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


def _plain(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Returns names and types of columns, of encoded ones the type of what they encode."""
    kinds = (field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema)
    return list(zip(schema.names, kinds, strict=True))


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema) or "no column"


def _cast(values: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    return values if values.type == kind else values.cast(kind)
