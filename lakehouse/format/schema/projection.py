"""Projection of a file's columns to the fields of a schema: finds them by id, renames, widens, fills, drops.

Invariant: a value of a file appears under its field's id and nowhere else, whatever the names; a
field that the file lacks has its initial default in every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.schema.nested import assembled, null_array, parts
from lakehouse.format.schema.type_notation import type_text
from lakehouse.format.schema.types import FIELD_ID, Field, StructType, arrow_schema, arrow_type, children

__all__ = ["check_types", "constant_column", "project", "with_field_ids"]

_REPEATED_ROWS = 65_536
"""Maximum rows of a constant that are held in memory; longer columns repeat the same chunk."""


def project(table: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Returns the rows of a file (or of a part of it) with these columns.

    Columns are found by the field ids in the Arrow metadata, nested fields too. Columns that fit
    already are not copied. The table of a file with none of the fields has no columns but still its
    number of rows.

    Raises:
        CorruptionError: a column has a type that never was the field's, two columns have one id, or
            a required field without default is missing.
    """
    target = arrow_schema(tuple(fields))
    if table.schema.metadata:
        table = table.replace_schema_metadata(None)
    if table.schema.equals(target, check_metadata=True):
        return table
    if not fields:
        return table.select([])
    places = _places(table.schema)
    columns = []
    for field, wanted in zip(fields, target, strict=True):
        place = places.get(field.id)
        if place is None:
            columns.append(_default_column(field, table.num_rows))
        else:
            columns.append(_column(table.column(place), field, wanted.type))
    return pa.Table.from_arrays(columns, schema=target)


def with_field_ids(schema: pa.Schema, fields: Sequence[Field]) -> pa.Schema:
    """Returns the schema of a file; if it has no field ids, with those of the fields of the same names.

    Fields inside structs are found by name too; elements, keys and values by where they are.
    """
    has_ids = any(FIELD_ID in (column.metadata or {}) for column in schema)
    return schema if has_ids else pa.schema(_with_ids(schema, fields))


def _with_ids(columns: Iterable[pa.Field], fields: Sequence[Field]) -> list[pa.Field]:
    by_name = {field.name: field for field in fields}
    return [
        _with_id(column, by_name[column.name]) if column.name in by_name else column for column in columns
    ]


def _with_id(column: pa.Field, field: Field) -> pa.Field:
    kind, inside = column.type, children(field.type)
    if pa.types.is_struct(kind) and isinstance(field.type, StructType):
        kind = pa.struct(_with_ids(kind, inside))
    elif pa.types.is_list(kind) and len(inside) == 1:
        kind = pa.list_(_with_id(kind.value_field, inside[0]))
    elif pa.types.is_map(kind) and len(inside) == 2:
        parts = (kind.key_field, kind.item_field)
        kind = pa.map_(*(_with_id(part, child) for part, child in zip(parts, inside, strict=True)))
    return pa.field(column.name, kind, column.nullable, metadata={FIELD_ID: str(field.id)})


def check_types(schema: pa.Schema, fields: Sequence[Field]) -> None:
    """Refuses a file with a column that cannot be read as the field of its id."""
    places = _places(schema)
    for field in fields:
        column = schema.field(places[field.id]) if field.id in places else None
        if column is not None and not _reads_as(column.type, arrow_type(field.type)):
            raise InvalidInputError(
                f"column {column.name!r} is {column.type} in the file, which is not read as"
                f" {type_text(field.type)}: change the schema or the file",
                column=field.name,
            )


def _places(fields: Sequence[pa.Field]) -> dict[int, int]:
    """Returns the position of each field id."""
    positions: dict[int, int] = {}
    for place, field in enumerate(fields):
        number = (field.metadata or {}).get(FIELD_ID)
        if number is None:
            continue
        if positions.setdefault(int(number), place) != place:
            raise CorruptionError(f"two columns have field id {int(number)}: {field.name!r} is the second")
    return positions


def _column(column: pa.ChunkedArray, field: Field, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type.equals(kind, check_metadata=True):
        return column
    return pa.chunked_array([_array(chunk, field, kind) for chunk in column.chunks], type=kind)


def _array(array: pa.Array, field: Field, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind, check_metadata=True):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return _array(array.storage, field, kind)
    if not _reads_as(array.type, kind):
        raise CorruptionError(
            f"column {field.name!r} (field id {field.id}) is {array.type} in the file,"
            f" which never was {type_text(field.type)}",
            column=field.name,
            expected=str(kind),
            got=str(array.type),
        )
    if not children(field.type):
        return pc.cast(array, kind)
    inside = parts(array)
    if not pa.types.is_struct(kind):
        pairs = zip(inside, children(field.type), strict=True)
        return assembled(array, kind, [_array(part, child, arrow_type(child.type)) for part, child in pairs])
    places = _places(list(array.type))
    shown = []
    for child, wanted in zip(children(field.type), kind, strict=True):
        place = places.get(child.id)
        if place is None:
            shown.append(_default_column(child, len(array)).combine_chunks())
        else:
            shown.append(_array(inside[place], child, wanted.type))
    return assembled(array, kind, shown)


def _reads_as(source: pa.DataType, kind: pa.DataType) -> bool:
    """Returns whether a file may have type ``source`` for a field of type ``kind``: equal or narrower."""
    is_ = pa.types
    if isinstance(source, pa.BaseExtensionType):
        return _reads_as(source.storage_type, kind)
    if is_.is_integer(kind):
        return bool(is_.is_signed_integer(source) and source.bit_width <= kind.bit_width)
    if is_.is_float64(kind):
        return bool(is_.is_float32(source) or is_.is_float64(source))
    if is_.is_decimal(kind):
        return bool(
            is_.is_decimal(source) and source.scale == kind.scale and source.precision <= kind.precision
        )
    if is_.is_timestamp(kind):
        return bool(
            is_.is_timestamp(source) and source.unit == kind.unit and bool(source.tz) == bool(kind.tz)
        )
    if is_.is_dictionary(source):
        return _reads_as(source.value_type, kind)
    if is_.is_string(kind):
        return bool(is_.is_string(source) or is_.is_large_string(source) or is_.is_string_view(source))
    if is_.is_binary(kind):
        return bool(
            is_.is_binary(source)
            or is_.is_large_binary(source)
            or is_.is_binary_view(source)
            or is_.is_fixed_size_binary(source)
        )
    if is_.is_struct(kind) or is_.is_map(kind):
        return bool(source.id == kind.id)
    if is_.is_list(kind):
        return bool(is_.is_list(source) or is_.is_large_list(source))
    return bool(source == kind)


def _default_column(field: Field, rows: int) -> pa.ChunkedArray:
    if field.required and field.initial_default is None and rows:  # a file without rows lacks nothing
        raise CorruptionError(
            f"the file has no column of field id {field.id} ({field.name!r}), which must not be null",
            column=field.name,
        )
    return constant_column(field.initial_default, arrow_type(field.type), rows)


def constant_column(value: Any, kind: pa.DataType, rows: int) -> pa.ChunkedArray:
    """Returns a column with one value in every row; None = null."""
    if value is None or not rows:
        return pa.chunked_array([null_array(kind, rows)], type=kind)
    once = pa.repeat(pa.scalar(value, kind), min(rows, _REPEATED_ROWS))
    full, rest = divmod(rows, len(once))
    return pa.chunked_array([once] * full + [once.slice(0, rest)] * bool(rest), type=kind)
