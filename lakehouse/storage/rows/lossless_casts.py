"""Casts that change no value: rows of other Arrow types as values of a column's type.

Invariant: a value that comes out equals the one that went in, except that a double put into a float
is rounded as every float is; anything else is a :class:`Misfit` that points at the first such value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.schema import (
    BinaryType,
    DataType,
    DecimalType,
    Primitive,
    StringType,
    arrow_type,
    type_text,
)

__all__ = ["Misfit", "fit_values", "may_fit", "pieces", "plain"]

_TEXT_BYTES_MAX = 2**31 - 1
"""Maximum bytes of text in one array: the largest number that 32-bit offsets hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """The first value that does not fit."""

    index: int
    why: str
    """Reason, as the predicate of a sentence whose subject is the value."""


def plain(array: pa.Array) -> pa.Array:
    """Undoes extensions, dictionaries, run-end encoding, views and fixed sizes; returns the plain values.

    Text and bytes of a layout other than ``string`` and ``binary`` become their large variants.
    """
    is_, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if is_.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if is_.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if is_.is_string_view(kind):
        return pc.cast(array, pa.large_string())
    if is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind):
        return pc.cast(array, pa.large_binary())
    if is_.is_fixed_size_list(kind):
        return pc.cast(array, pa.large_list(kind.value_field))
    if is_.is_list_view(kind) or is_.is_large_list_view(kind):
        return _without_views(array)
    return array


def _without_views(array: pa.Array) -> pa.Array:
    """Returns a list view as a list. Arrow's own cast (26.0) loses rows behind a null."""
    nulls = array.is_null()
    lengths = np.where(nulls.to_numpy(zero_copy_only=False), 0, np.asarray(array.sizes).astype(np.int64))
    offsets = pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
    kind = pa.large_list(array.type.value_field)
    return pa.LargeListArray.from_arrays(offsets, array.flatten(), type=kind, mask=nulls)


def pieces(array: pa.Array) -> list[pa.Array]:
    """Returns the rows in as few arrays as 32-bit offsets allow."""
    array = plain(array)
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        return _cut(array)
    if pa.types.is_nested(array.type) and array.nbytes > _TEXT_BYTES_MAX and len(array) > 1:
        half = len(array) // 2
        return pieces(array.slice(0, half)) + pieces(array.slice(half))
    return [array]


def _cut(array: pa.Array) -> list[pa.Array]:
    """Splits large text into as few slices as keep each one's text within 32-bit offsets."""
    offsets = _offsets(array)
    slices, start = [], 0
    while start < len(array):
        last = int(np.searchsorted(offsets, offsets[start] + _TEXT_BYTES_MAX, side="right")) - 1
        end = max(last, start + 1)  # one value may be too long by itself, which the cast will report
        slices.append(array.slice(start, end - start))
        start = end
    return slices


def _offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns where the values of large text begin, and where the last one ends."""
    if not len(array):
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64)[array.offset :][: len(array) + 1]


def _rebased(array: pa.Array) -> pa.Array:
    """Returns large text with offsets from 0: Arrow's cast looks at the last offset, not at the length."""
    offsets = _offsets(array)
    if offsets[-1] <= _TEXT_BYTES_MAX:
        return array
    first, last = int(offsets[0]), int(offsets[-1])
    valid = None
    if array.null_count:
        bits = np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        valid = pa.py_buffer(bits)
    buffers = [valid, pa.py_buffer(offsets - first), array.buffers()[2].slice(first, last - first)]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count)


def fit_values(array: pa.Array, kind: DataType) -> pa.Array | Misfit:
    """Returns the values as this type, which has no fields inside, or the first that does not fit."""
    target = arrow_type(kind)
    if array.type == target:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), target)
    route = _route(array.type, kind, target)
    if route is None:
        # The first value that is not null: nulls fit every type.
        first = array.is_valid().index(True).as_py()
        return Misfit(index=first, why=f"is {array.type}, and the column {type_text(kind)}: cast it")
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        array = _rebased(array)
    try:
        fitted = _cast(array, route)
    except pa.ArrowInvalid:
        return Misfit(index=_first_failing(array, route), why=_why(kind))
    lost = _silently_lost(array, fitted, kind)
    if lost is not None:
        return Misfit(index=lost, why=_why(kind))
    return fitted


def may_fit(source: pa.DataType, kind: DataType) -> bool:
    """Returns whether values of an Arrow type may fit this type, which has no fields inside."""
    target = arrow_type(kind)
    if source == target or pa.types.is_null(source):
        return True
    return _route(plain(pa.nulls(0, source)).type, kind, target) is not None


def _route(source: pa.DataType, kind: DataType, target: pa.DataType) -> list[pa.DataType] | None:
    """Returns the types to cast through; None when values of that type are refused."""
    is_ = pa.types
    direct = False
    match kind:
        case Primitive("int8" | "int16" | "int32" | "int64"):
            direct = is_.is_integer(source) or is_.is_floating(source) or is_.is_decimal(source)
        case Primitive("float" | "double"):
            direct = is_.is_integer(source) or is_.is_floating(source)
        case Primitive("date"):
            direct = is_.is_date(source) or (is_.is_timestamp(source) and source.tz is None)
        case Primitive("time"):
            direct = is_.is_time(source)
        case Primitive("timestamp"):
            direct = is_.is_timestamp(source)
        case Primitive("timestamp_ntz"):
            direct = is_.is_timestamp(source) and source.tz is None
        case DecimalType(_, scale):
            if is_.is_integer(source):
                # Arrow wants room for the longest number of the type, whatever the values are.
                return [pa.decimal256(20 + scale, scale), target]
            direct = is_.is_decimal(source)
        case StringType():
            direct = is_.is_large_string(source)
        case BinaryType():
            direct = is_.is_large_binary(source)
    if not direct:
        return None
    return [pa.float32(), target] if is_.is_float16(source) else [target]


def _cast(array: pa.Array, route: Sequence[pa.DataType]) -> pa.Array:
    for step in route:
        array = pc.cast(array, step)
    return array


def _first_failing(array: pa.Array, route: Sequence[pa.DataType]) -> int:
    """Returns the first value that cannot be cast, when some cannot, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(array.slice(low, middle - low), route)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _silently_lost(array: pa.Array, fitted: pa.Array, kind: DataType) -> int | None:
    """Returns the first value that Arrow's cast changed without an error; None when there is none."""
    if kind == Primitive("float") and pa.types.is_float64(array.type):
        lost = pc.and_(pc.is_inf(fitted), pc.invert(pc.is_inf(array)))
    elif kind == Primitive("date") and pa.types.is_timestamp(array.type):
        lost = pc.not_equal(pc.cast(fitted, array.type), array)
    else:
        return None
    first = pc.index(lost, True).as_py()
    return None if first < 0 else int(first)


def _why(kind: DataType) -> str:
    text = f"does not fit {type_text(kind)}"
    match kind:
        case Primitive("int8" | "int16" | "int32" | "int64" as name):
            bits = int(name[3:]) - 1
            return f"{text}: whole numbers from {-(2**bits)} to {2**bits - 1}"
        case Primitive("float" | "double"):
            return f"{text}: whole numbers must be held exactly, others in its range"
        case Primitive("date"):
            return f"{text}: it is not midnight"
        case Primitive():
            return f"{text}: it counts microseconds, in 64 bits"
        case DecimalType(precision, scale):
            return f"{text}: at most {precision - scale} digits before the point and {scale} behind it"
    return f"{text}: it is longer than {_TEXT_BYTES_MAX} bytes"
