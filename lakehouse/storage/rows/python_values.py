"""Conversion of Python values into Arrow arrays, typed as the values are and shaped as the column is.

Invariant: no value is changed and no part of one is dropped. Arrow's own conversion to a wanted type
cuts fractions, times of day and unknown parts of structs without an error; so leaves get the type of
their values, and ``conform`` decides which types may become which. The column's type is needed
only for shape: which dict is a map, and which parts a struct has.
"""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import DataType, Field, ListType, MapType, StructType, arrow_type

__all__ = ["column_of", "said"]

_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors that pyarrow raises for a value it cannot convert."""


def column_of(
    name: str, values: Sequence[Any], field: Field | None, *, first_row: int, nan_is_null: bool = False
) -> pa.Array:
    """Returns a column of Python values.

    Args:
        name: name of the column.
        values: the values; None is null.
        field: the table's column of that name, if there is one.
        first_row: number of the first value's row in the input, for messages.
        nan_is_null: whether NaN becomes null, as in pandas.

    Raises:
        InvalidInputError: names column, row and value.
    """
    try:
        return _array(values, None if field is None else field.type, nan_is_null)
    except _REFUSED as error:
        row, reason = _first_refused(values, field, nan_is_null, error)
        raise InvalidInputError(
            f"column {name!r}, row {first_row + row}: {said(values[row])} "
            + ("does not fit the values before it" if field is None else f"is no {arrow_type(field.type)}")
            + f": {reason}",
            column=name,
            row=first_row + row,
            value=values[row],
        ) from error


def said(value: object) -> str:
    """Formats a value and its type in at most about 80 characters."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def _array(values: Sequence[Any], kind: DataType | None, nan_is_null: bool) -> pa.Array:
    match kind:
        case StructType(fields):
            missing = pa.array([value is None for value in values], pa.bool_())
            parts = _parts(values, fields)
            arrays = [_array(parts[part.name], part.type, nan_is_null) for part in fields]
            return pa.StructArray.from_arrays(arrays, [part.name for part in fields], mask=missing)
        case ListType(element):
            offsets = _offsets(values)
            inner = list(itertools.chain.from_iterable(items for items in values if items is not None))
            return pa.ListArray.from_arrays(offsets, _array(inner, element.type, nan_is_null))
        case MapType(key, value):
            entries = [pairs.items() if isinstance(pairs, Mapping) else pairs for pairs in values]
            offsets = _offsets(entries)
            pairs = list(itertools.chain.from_iterable(entry for entry in entries if entry is not None))
            keys = _array([key_value for key_value, _ in pairs], key.type, nan_is_null)
            items = _array([item for _, item in pairs], value.type, nan_is_null)
            return pa.MapArray.from_arrays(offsets, keys, items)
        case _:
            array = pa.array(values, from_pandas=nan_is_null)
            # A datetime is a date to Python, and Arrow would keep its day alone.
            if pa.types.is_date(array.type) and any(isinstance(value, dt.datetime) for value in values):
                raise TypeError("some are dates and some are moments, whose time of day would be lost")
            return array


def _parts(values: Sequence[Any], fields: Sequence[Field]) -> dict[str, list[Any]]:
    """Returns the values of a struct's parts, each as a column of its own."""
    known = {field.name for field in fields}
    for value in values:
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"a struct is a dict, not a {type(value).__name__}")
        if value is not None and not value.keys() <= known:
            unknown = next(iter(value.keys() - known))
            raise ValueError(f"there is no part {unknown!r}; there are {', '.join(sorted(known))}")
    empty: Mapping[str, Any] = {}
    return {
        field.name: [
            (empty if value is None else value).get(field.name, field.write_default) for value in values
        ]
        for field in fields
    }


def _offsets(values: Iterable[Any]) -> pa.Array:
    """Returns where each list begins among the elements of all; null where there is no list."""
    offsets: list[int | None] = []
    end = 0
    for value in values:
        # Python iterates over these too, by character, byte or key.
        if isinstance(value, str | bytes | Mapping):
            raise TypeError(f"a list has its elements in a list, not in a {type(value).__name__}")
        offsets.append(None if value is None else end)
        end += 0 if value is None else len(value)
    return pa.array([*offsets, end], pa.int32())


def _first_refused(
    values: Sequence[Any], field: Field | None, nan_is_null: bool, error: Exception
) -> tuple[int, Exception]:
    """Returns the first value that its column cannot hold, else the first that those before it exclude."""
    kind = None if field is None else field.type
    if kind is not None:
        for row, value in enumerate(values):
            try:
                _array([value], kind, nan_is_null)
                pa.array([value], type=arrow_type(kind), from_pandas=nan_is_null)
            except _REFUSED as reason:
                return row, reason

    def fails(count: int) -> bool:
        try:
            _array(values[:count], kind, nan_is_null)
        except _REFUSED:
            return True
        return False

    # Values up to a count fail together from the first misfit on, so halving finds it.
    return bisect.bisect_left(range(1, len(values)), True, key=fails), error
