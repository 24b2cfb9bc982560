"""Partition transforms of Iceberg: what makes a partition value of a value of the source column.

``identity``, ``year``, ``month``, ``day``, ``hour``, ``bucket[N]``, ``truncate[W]`` and ``void``. Times are
those of UTC, counted from 1970 and rounded down. A transform of another name is kept, and nothing is known
of it. The way back, from partition values to bounds, is in :mod:`lakehouse.expr.partition_bounds`.

Invariant: a null has the partition value null, and under ``void`` alone other values have it too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.kernels.arrays import I32, I64, Mask
from lakehouse.kernels.decimal_arrays import added, decimal_words, decimals_of, remainders
from lakehouse.kernels.value_hashes import hash_values, whole_numbers

__all__ = ["UNITS_PER_SECOND", "Transform", "TransformName", "storage_of", "storage_type"]

TransformName: TypeAlias = Literal[
    "identity", "year", "month", "day", "hour", "bucket", "truncate", "void", "unknown"
]
"""Transforms; ``unknown`` is any that this version does not know."""

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units of a timestamp in a second."""

_PLAIN = frozenset({"identity", "year", "month", "day", "hour", "void"})
_WITH_WIDTH = frozenset({"bucket", "truncate"})
_TIMES = frozenset({"year", "month", "day", "hour"})
_POSITIVE = 0x7FFF_FFFF
_WIDTH_MAX = 0x7FFF_FFFF
"""Greatest width, as Iceberg has it in an int."""
_SECONDS_PER_DAY, _SECONDS_PER_HOUR = 86_400, 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A transform, as a partition spec names it."""

    name: TransformName
    text: str
    """The transform as it is written."""
    width: int = 0
    """Number of buckets, or width of truncated values; 0 for other transforms."""

    @classmethod
    def parse(cls, text: str, *, sources: int = 1) -> Transform:
        """Reads a transform such as ``bucket[16]``; case does not matter.

        Args:
            text: the transform.
            sources: number of source columns; nothing is known of a transform of several.
        """
        found = re.fullmatch(r"(\w+)(?:\[(\d{1,10})\])?", text, re.ASCII)
        if found is not None and sources == 1:
            name, width = found[1].lower(), found[2]
            if width is None and name in _PLAIN:
                return cls(name=cast(TransformName, name), text=text)
            if width is not None and name in _WITH_WIDTH and 0 < int(width) <= _WIDTH_MAX:
                return cls(name=cast(TransformName, name), text=text, width=int(width))
        return cls(name="unknown", text=text)

    def __str__(self) -> str:
        return self.text

    def result_type(self, source: pa.DataType) -> pa.DataType | None:
        """Returns the type of partition values; None = it is not known.

        Raises:
            InvalidInputError: the transform has no values of this source type.
        """
        if not self._takes(storage_type(source)):
            raise InvalidInputError(f"{self} cannot be computed of {source}", transform=self.text)
        if self.name == "day":
            return pa.date32()
        return pa.int32() if self.name in _TIMES or self.name == "bucket" else source

    def _takes(self, source: pa.DataType) -> bool:
        types = pa.types
        is_bytes = types.is_binary(source) or types.is_large_binary(source)
        is_text = types.is_string(source) or types.is_large_string(source)
        is_cut = types.is_integer(source) or types.is_decimal128(source) or is_text or is_bytes
        is_time = types.is_date32(source) or types.is_timestamp(source)
        match self.name:
            case "year" | "month" | "day":
                takes = is_time
            case "hour":
                takes = types.is_timestamp(source)
            case "truncate":
                takes = is_cut
            case "bucket":
                takes = is_cut or is_time or types.is_time(source) or types.is_fixed_size_binary(source)
            case _:
                takes = not types.is_nested(source)
        return bool(takes)

    def apply(self, values: pa.Array) -> pa.Array:
        """Returns the partition value of each value.

        Raises:
            InvalidInputError: the transform is unknown, has no values of this type, or a truncated decimal
                has more digits than its type.
        """
        made = self.result_type(values.type)
        if self.name == "unknown" or made is None:
            raise InvalidInputError(f"nothing is known of the transform {self}", transform=self.text)
        match self.name:
            case "identity":
                return values
            case "void":
                return pa.nulls(len(values), made)
            case "bucket":
                return _array_of(self.buckets(values), made, values)
            case "truncate":
                return _truncated(values, self.width)
        return _array_of(_ordinals(values, self.name), made, values)

    def buckets(self, values: pa.Array) -> I32:
        """Returns the bucket of each value; of a null, any number."""
        hashes = hash_values(storage_of(values)) & np.uint32(_POSITIVE)
        return (hashes % np.uint32(self.width)).astype(np.int32)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which the values of an extension type, such as UUIDs, are stored."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def storage_of(values: pa.Array) -> pa.Array:
    """Returns the values of an extension type as they are stored."""
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _array_of(numbers: I64 | I32, kind: pa.DataType, values: pa.Array) -> pa.Array:
    # As in Iceberg's library, what does not fit is cut to 32 bits: hours of the year 246953 and later.
    array = pa.array(numbers.astype(np.int32), mask=_null(values))
    return array if array.type == kind else array.cast(kind)


def _null(values: pa.Array) -> Mask:
    null: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return null


def _ordinals(values: pa.Array, name: TransformName) -> I64:
    """Returns the years, months, days or hours from the beginning of 1970."""
    numbers = whole_numbers(values)
    if name == "hour":
        return numbers // (_SECONDS_PER_HOUR * UNITS_PER_SECOND[values.type.unit])
    if pa.types.is_timestamp(values.type):
        numbers = numbers // (_SECONDS_PER_DAY * UNITS_PER_SECOND[values.type.unit])
    if name == "day":
        return numbers
    unit = "datetime64[M]" if name == "month" else "datetime64[Y]"
    return numbers.astype("datetime64[D]").astype(unit).astype(np.int64)


def _truncated(values: pa.Array, width: int) -> pa.Array:
    kind, types = values.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return pc.utf8_slice_codeunits(values, 0, width)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return pc.binary_slice(values, 0, width)
    if types.is_decimal128(kind):
        return _truncated_decimals(values, width)
    numbers = whole_numbers(values)
    # Below the least multiple of the width numbers wrap around, as they do in Iceberg's library.
    lower = (numbers - numbers % width).astype(kind.to_pandas_dtype())
    return pa.array(lower, kind, mask=_null(values))


def _truncated_decimals(values: pa.Array, width: int) -> pa.Array:
    words = decimal_words(values)
    null = _null(values)
    wide = decimals_of(added(words, -remainders(words, width)), pa.decimal128(38, values.type.scale), null)
    try:
        return wide.cast(values.type)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"a value truncated to {width} has more digits than {values.type}") from error
