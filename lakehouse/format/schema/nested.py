"""Decomposition of nested Arrow arrays into their parts, and assembly from other parts.

Invariant: :func:`assembled` keeps length, validity and list lengths of the array it is given,
slices of larger arrays included; ``assembled(array, kind, parts(array))`` has the array's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.errors import InvalidInputError

__all__ = ["assembled", "list_offsets", "null_array", "parts"]

_OFFSET_MAX = 2**31 - 1


def parts(array: pa.Array) -> list[pa.Array]:
    """Returns the arrays inside a struct, list, large list or map.

    The parts of a struct are as long as it is, and null where it is null. The elements of a list, the
    keys and values of a map are those of its own rows that are not null.
    """
    if pa.types.is_struct(array.type):
        if array.null_count:
            flat: list[pa.Array] = array.flatten()
            return flat
        return [array.field(number) for number in range(array.type.num_fields)]
    raw = _raw_offsets(array)
    inside = array.values.slice(int(raw[0]), int(raw[-1] - raw[0]))
    if _hides_elements(array, raw):
        inside = inside.filter(pa.array(np.repeat(~_nulls(array), np.diff(raw))))
    return parts(inside) if pa.types.is_map(array.type) else [inside]


def list_offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the offsets of the rows' elements in what :func:`parts` returns, and the end of the last."""
    raw = _raw_offsets(array)
    if _hides_elements(array, raw):
        lengths = np.diff(raw)
        lengths[_nulls(array)] = 0
        raw = np.concatenate([np.zeros(1, raw.dtype), np.cumsum(lengths)])
    offsets: npt.NDArray[np.int64] = np.subtract(raw, raw[0], dtype=np.int64)
    return offsets


def assembled(array: pa.Array, kind: pa.DataType, inside: Sequence[pa.Array]) -> pa.Array:
    """Returns the struct, list or map of type ``kind`` with the array's rows and these parts.

    A struct may get more or fewer parts than it has, each as long as the struct.
    """
    return _built(array, kind, inside, array.is_null() if array.null_count else None)


def null_array(kind: pa.DataType, rows: int) -> pa.Array:
    """Returns an array of nulls of any type, with valid parts inside structs."""
    nulls = pa.nulls(rows, kind)
    if not pa.types.is_struct(kind):
        return nulls
    return _built(nulls, kind, [null_array(part.type, rows) for part in kind], nulls.is_null())


def _built(array: pa.Array, kind: pa.DataType, inside: Sequence[pa.Array], mask: pa.Array | None) -> pa.Array:
    if pa.types.is_struct(kind):
        shown = [
            part if field.nullable else _never_null(part) for part, field in zip(inside, kind, strict=True)
        ]
        return pa.StructArray.from_arrays(shown, fields=list(kind), mask=mask)
    offsets = list_offsets(array)
    if offsets[-1] > _OFFSET_MAX:
        raise InvalidInputError(
            f"{offsets[-1]:,} list elements are too many for one batch; pass smaller batches"
        )
    narrow = pa.array(offsets.astype(np.int32))
    if pa.types.is_map(kind):
        keys, items = inside
        return pa.MapArray.from_arrays(narrow, keys, items, type=kind, mask=mask)
    return pa.ListArray.from_arrays(narrow, inside[0], type=kind, mask=mask)


def _never_null(array: pa.Array) -> pa.Array:
    """Returns a struct's required part without nulls: with arbitrary values where the struct is null.

    No reader sees those values, but Parquet's writer counts nulls of the part regardless of the struct.
    """
    if not array.null_count:
        return array
    if pa.types.is_nested(array.type):
        return _built(array, array.type, parts(array), None)
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _raw_offsets(array: pa.Array) -> npt.NDArray[np.integer[Any]]:
    """Returns the array's own offsets, uncopied; they may begin above 0 and count elements of null rows."""
    if not len(array):
        return np.zeros(1, np.int32)
    raw: npt.NDArray[np.integer[Any]] = np.asarray(array.offsets)
    return raw


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _hides_elements(array: pa.Array, raw: npt.NDArray[np.integer[Any]]) -> bool:
    """Returns whether null rows have elements, which Arrow allows and which are not visible."""
    return bool(array.null_count) and bool(np.diff(raw)[_nulls(array)].any())
