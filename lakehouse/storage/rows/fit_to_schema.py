"""Conversion of rows from outside to a table's schema, or an error that names column, row and value.

Invariant: a table that :func:`conform` returns has exactly the schema's columns, types and field
ids, and keeps every rule of the schema: no null where none may be, no text longer than its column,
nothing but UTF-8 in text; and every value equals the one that came in.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.schema import (
    BinaryType,
    DecimalType,
    Field,
    ListType,
    MapType,
    StringType,
    StructType,
    TableSchema,
    arrow_type,
    assembled,
    children,
    constant_column,
    list_offsets,
    null_array,
    parts,
    type_text,
)
from lakehouse.storage.rows.lossless_casts import Misfit, fit_values, pieces, plain
from lakehouse.suggest import suggestion

__all__ = ["conform", "conform_value", "with_columns"]

_SHOWN_MAX = 40
"""Maximum characters of a value in an error message."""


def conform(table: pa.Table, schema: TableSchema, *, first_row: int = 0, partial: bool = False) -> pa.Table:
    """Returns the rows with the schema's columns in the schema's order.

    Columns are matched by name, whatever their order; a name that differs in case only is accepted.
    A column that is missing gets its write default, or null. Types are cast where that changes no
    value. Columns of the right type are not copied.

    Args:
        table: the rows.
        schema: the schema to fit.
        first_row: number of the first row, from which errors count.
        partial: leave out missing columns instead of filling them, as for a table of keys.

    Raises:
        InvalidInputError: with ``column``, ``row`` and ``value`` in its context.
    """
    places = _match(table.schema.names, schema.fields, "the table")
    wanted, columns = [], []
    for number, (field, target) in enumerate(zip(schema.fields, schema.arrow(), strict=True)):
        if number in places:
            columns.append(_column(table.column(places[number]), field, target.type, first_row))
        elif partial:
            continue
        else:
            where = _Where(field.name, lambda index: first_row + index)
            columns.append(_default_column(field, target.type, table.num_rows, where))
        wanted.append(target)
    return pa.Table.from_arrays(columns, schema=pa.schema(wanted) if partial else schema.arrow())


def with_columns(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Returns the rows with all wanted columns; those that are missing are null."""
    for place, field in enumerate(wanted):
        if field.name not in rows.column_names:
            rows = rows.add_column(place, field.with_nullable(True), pa.nulls(rows.num_rows, field.type))
    return rows


def conform_value(value: Any, field: Field) -> Any:
    """Returns a column default, a Python value, in the form in which the column holds it.

    Raises:
        InvalidInputError: the column cannot hold it.
    """
    return _value(value, field, _Where(field.name, None))


@dataclass(frozen=True, slots=True)
class _Where:
    """Place of a value for error messages: the column or a part of it, and the row."""

    column: str
    """Name of the column, or dotted path of a part of it."""
    row: Callable[[int], int] | None
    """Maps the index of a value to the number of its row; None = the value is a default, of no row."""

    def part(self, name: str, row: Callable[[int], int] | None) -> _Where:
        return _Where(f"{self.column}.{name}", row)

    def refusal(self, index: int, value: Any, why: str) -> InvalidInputError:
        cut = value[:_SHOWN_MAX] if isinstance(value, str | bytes) else value
        shown = "null" if value is None else short(cut) + "…" * (cut is not value and cut != value)
        if self.row is None:
            return InvalidInputError(
                f"the default of column {self.column!r}: {shown} {why}", column=self.column, value=cut
            )
        row = self.row(index)
        return InvalidInputError(
            f"column {self.column!r}, row {row}: {shown} {why}", column=self.column, row=row, value=cut
        )


def _match(names: Sequence[str], fields: Sequence[Field], what: str) -> dict[int, int]:
    """Returns the place of the column of each field that is there, by the field's number."""
    by_name = {field.name: number for number, field in enumerate(fields)}
    by_folded = {field.name.casefold(): number for number, field in enumerate(fields)}
    places: dict[int, int] = {}
    for place, name in enumerate(names):
        # The exact name first: a table may have columns that differ in case only.
        number = by_name.get(name, by_folded.get(name.casefold()))
        if number is None:
            raise InvalidInputError(
                f"{what} has no column {name!r}; {suggestion(name, by_name)}", column=name
            )
        if number in places:
            raise InvalidInputError(
                f"columns {names[places[number]]!r} and {name!r} are both {fields[number].name!r} of {what}",
                column=name,
            )
        places[number] = place
    return places


def _column(column: pa.ChunkedArray, field: Field, kind: pa.DataType, first_row: int) -> pa.ChunkedArray:
    exact = column.type.equals(kind, check_metadata=True)
    fitted, same, row = [], exact, first_row
    for chunk in column.chunks:
        for piece in [chunk] if exact else pieces(chunk):
            where = _Where(field.name, lambda index, first=row: first + index)  # type: ignore[misc]
            fitted.append(_fit(piece, field, kind, where))
            same = same and fitted[-1] is piece
            row += len(piece)
    return column if same else pa.chunked_array(fitted, type=kind)


def _default_column(
    field: Field, kind: pa.DataType, rows: int, where: _Where, first: int = 0
) -> pa.ChunkedArray:
    """Returns a missing column: its write default or null in every row; ``first`` is the row to blame."""
    if field.required and field.write_default is None and rows:
        raise where.refusal(first, None, "where no null may be: the column is missing and has no default")
    return constant_column(field.write_default, kind, rows)


def _fit(
    array: pa.Array, field: Field, kind: pa.DataType, where: _Where, holder: pa.Array | None = None
) -> pa.Array:
    """Converts values to the field's type and checks its rules; ``holder`` is the struct they are part of."""
    array = plain(array)
    # In a null struct its parts are null too, which breaks no rule.
    if field.required and array.null_count > (holder.null_count if holder is not None else 0):
        nulls = array.is_null() if holder is None else pc.and_(array.is_null(), holder.is_valid())
        raise where.refusal(nulls.index(True).as_py(), None, "where no null may be")
    if children(field.type):
        return _fit_nested(array, field, kind, where)
    fitted = fit_values(array, field.type)
    if isinstance(fitted, Misfit):
        raise where.refusal(fitted.index, _python(array, fitted.index), fitted.why)
    if isinstance(field.type, StringType):
        _check_text(fitted, where)
    if isinstance(field.type, StringType | BinaryType) and field.type.length is not None:
        _check_length(fitted, field.type, field.type.length, where)
    return fitted


def _fit_nested(array: pa.Array, field: Field, kind: pa.DataType, where: _Where) -> pa.Array:
    if array.null_count == len(array):
        return null_array(kind, len(array))
    if not _same_shape(array.type, field):
        first = array.is_valid().index(True).as_py()
        why = f"is {array.type}, and the column {type_text(field.type)}"
        raise where.refusal(first, _python(array, first), why)
    inside = parts(array)
    if isinstance(field.type, StructType):
        fitted = _fit_struct(array, inside, field.type, where)
        # Parquet's writer refuses nulls of a required part even where the struct is null.
        same = not any(
            part.required and array.field(n).null_count for n, part in enumerate(field.type.fields)
        )
    else:
        outer, same = where.row, True

        def row(index: int) -> int:
            # From an element to the list that holds it: the last one that begins at or before the element.
            at = int(np.searchsorted(list_offsets(array), index, side="right")) - 1
            return outer(at) if outer is not None else at

        fitted = [
            _fit(part, child, arrow_type(child.type), where.part(child.name, row))
            for part, child in zip(inside, children(field.type), strict=True)
        ]
    same = same and array.type.equals(kind, check_metadata=True)
    if same and all(new is old for new, old in zip(fitted, inside, strict=True)):
        return array
    return assembled(array, kind, fitted)


def _fit_struct(array: pa.Array, inside: list[pa.Array], kind: StructType, where: _Where) -> list[pa.Array]:
    """Converts the parts of structs, matched by name as columns are."""
    names = [part.name for part in array.type]
    places = _match(names, kind.fields, f"column {where.column!r}")
    fitted = []
    for number, child in enumerate(kind.fields):
        part, target = where.part(child.name, where.row), arrow_type(child.type)
        if number in places:
            fitted.append(_fit(inside[places[number]], child, target, part, holder=array))
        else:
            first = array.is_valid().index(True).as_py()
            fitted.append(_default_column(child, target, len(array), part, first).combine_chunks())
    return fitted


def _same_shape(source: pa.DataType, field: Field) -> bool:
    match field.type:
        case StructType():
            return bool(pa.types.is_struct(source))
        case MapType():
            return bool(pa.types.is_map(source))
    return bool(pa.types.is_list(source) or pa.types.is_large_list(source))


def _check_text(array: pa.Array, where: _Where) -> None:
    """Refuses bytes that are not UTF-8, which Arrow's buffers may hold unseen."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return
    ends = np.frombuffer(offsets, np.int32)[array.offset :][: len(array) + 1]
    held = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    # Most text is ASCII, which is seen ten times faster than valid UTF-8 is.
    if not held.size or held.max() < 128:
        return
    low, high = 0, len(array)
    if _is_utf8(array):
        return
    # Halve the range to find the first wrong value: Arrow only says that there is one.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_utf8(array.slice(low, middle - low)) else (low, middle)
    raise where.refusal(low, array.cast(pa.binary())[low].as_py(), "is not UTF-8")


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _check_length(array: pa.Array, kind: StringType | BinaryType, most: int, where: _Where) -> None:
    lengths = pc.binary_length(array)
    if (pc.max(lengths).as_py() or 0) <= most:
        return  # a text never has more characters than bytes, which are quicker to count
    if isinstance(kind, StringType):
        lengths = pc.utf8_length(array)
    first = pc.index(pc.greater(lengths, most), True).as_py()
    if first >= 0:
        unit = "characters" if isinstance(kind, StringType) else "bytes"
        why = f"has {lengths[first].as_py():,} {unit}, and {type_text(kind)} has room for {most:,}"
        raise where.refusal(first, array[first].as_py(), why)


def _python(array: pa.Array, index: int) -> Any:
    """Returns a value for an error message; as text where Python cannot represent it."""
    try:
        return array[index].as_py()
    except (ValueError, OverflowError):
        return str(pc.cast(array.slice(index, 1), pa.string())[0])


def _value(value: Any, field: Field, where: _Where) -> Any:
    """Converts a default, part by part where it is nested."""
    if value is None:
        if field.required:
            raise where.refusal(0, None, "where no null may be")
        return None
    match field.type:
        case ListType(element) if isinstance(value, list | tuple):
            inside = where.part("element", None)
            return [_value(item, element, inside) for item in value]
        case MapType(key, item) if isinstance(value, dict | list | tuple):
            pairs = list(value.items()) if isinstance(value, dict) else value
            if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
                raise where.refusal(0, value, "is no map: a list of one has pairs of key and value")
            named = where.part("key", None), where.part("value", None)
            return [(_value(k, key, named[0]), _value(v, item, named[1])) for k, v in pairs]
        case StructType(fields) if isinstance(value, dict):
            if not all(isinstance(name, str) for name in value):
                raise where.refusal(0, value, "is no struct: its fields are named by text")
            _match(list(value), fields, f"column {where.column!r}")
            folded = {name.casefold(): item for name, item in value.items()}
            return {
                part.name: _value(
                    folded.get(part.name.casefold(), part.write_default), part, where.part(part.name, None)
                )
                for part in fields
            }
    if isinstance(field.type, DecimalType) and type(value) is int:
        value = decimal.Decimal(value)  # Arrow would infer a 64-bit integer, which is too narrow
    try:
        array = pa.array([value])
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
        problem = f"is no value of {type_text(field.type)}: {str(error)[: _SHOWN_MAX * 4]}"
        raise where.refusal(0, value, problem) from error
    try:
        return _fit(array, field, arrow_type(field.type), where)[0].as_py()
    except (OverflowError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise where.refusal(0, value, "is a value that Python does not have") from error
