"""Bounds of a source column, of the partition values that a transform made of it.

An identity value is both ends of its range; a day goes from its first instant to its last one;
``truncate[3]`` = ``abc`` is everything from ``abc`` up to and without ``abd``, and a shorter text is
itself. A bucket says nothing of the order of values, and is a residue of their hashes. Null means that all
values of the source are null, anything else that none is.

Invariant: a row whose partition value this is lies within the bounds. Partition values that the transform
does not make, and those of transforms that are not known, bound nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.expr.columnar import UNKNOWN, ColumnarBounds, Residues
from lakehouse.expr.required import next_prefix
from lakehouse.expr.transforms import UNITS_PER_SECOND, Transform, storage_of, storage_type
from lakehouse.kernels.arrays import I32, I64, Mask
from lakehouse.kernels.decimal_arrays import added, decimal_words, decimals_of, remainders
from lakehouse.kernels.value_hashes import whole_numbers

__all__ = ["bounds_between", "bounds_of", "only_nan"]

_I64 = np.iinfo(np.int64)
_HOURS_MAX = 1_700_000_000
"""Hours from 1970 up to which none is that of another time, cut to 32 bits."""
_NUMERIC_WIDTH_MAX = 1 << 30
"""Width up to which Iceberg's library truncates numbers without an overflow on the way."""
_ORDINALS = frozenset({"year", "month", "day", "hour", "bucket"})
"""Transforms whose partition values are numbers, whatever the source."""
_SECONDS_PER: Mapping[str, int] = {"day": 86_400, "hour": 3_600}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """Ends of the values behind each partition value; null = not known."""

    low: pa.Array
    high: pa.Array
    high_open: Mask | None = None
    nan: Mask | None = None
    """Files that may have a NaN; None = as :class:`ColumnarBounds` has it."""


_RangeOf: TypeAlias = Callable[[pa.Array, Transform, pa.DataType], _Range]


def bounds_of(transform: Transform, values: pa.Array, source: pa.DataType, rows: I64) -> ColumnarBounds:
    """Returns the bounds of the source column in files, one partition value each.

    Args:
        transform: what made the partition values. values: partition values; days as dates or as integers,
        others also of a type that the source column had
            before it was promoted.
        source: type of the source column as it is now.
        rows: number of rows of each file.
    """
    source = storage_type(source)
    if transform.name in ("void", "unknown"):
        return _nothing(len(values), source)
    values = storage_of(values)
    if pa.types.is_null(values.type):  # all are, and the type was not said
        values = pa.nulls(len(values), pa.int32() if transform.name in _ORDINALS else source)
    nulls = np.where(_null(values), rows, 0)
    if transform.name == "bucket":
        buckets = _buckets(values)
        return _hashed(transform, buckets, buckets, source, nulls)
    found = _range_of(transform)(values, transform, source)
    return ColumnarBounds(found.low, found.high, nulls, high_open=found.high_open, nan=found.nan)


def bounds_between(
    transform: Transform,
    least: pa.Array,
    greatest: pa.Array,
    source: pa.DataType,
    rows: I64,
    *,
    with_null: Mask,
    with_nan: Mask | None = None,
) -> ColumnarBounds:
    """Returns the bounds of the source column in manifests, given the ends of their partition values.

    Args:
        transform: what made the partition values.
        least: least partition value of each manifest; null = there is none but nulls and NaN.
        greatest: greatest one.
        source: type of the source column as it is now.
        rows: number of rows of each manifest.
        with_null: manifests that may have a partition value null.
        with_nan: manifests that may have a partition value NaN; None = any may.
    """
    source = storage_type(source)
    if transform.name in ("void", "unknown"):
        return _nothing(len(least), source)
    least, greatest = storage_of(least), storage_of(greatest)
    empty = _null(least)
    may_be_nan = np.zeros(len(least), np.bool_)
    if pa.types.is_floating(source):
        may_be_nan = np.ones(len(least), np.bool_) if with_nan is None else with_nan
    nulls = np.where(with_null, np.where(empty & ~may_be_nan, rows, UNKNOWN), 0)
    if transform.name == "bucket":
        return _hashed(transform, _buckets(least), _buckets(greatest), source, nulls)
    lowest, highest = (_range_of(transform)(ends, transform, source) for ends in (least, greatest))
    low, high = lowest.low, highest.high
    vague = _beyond_limits(transform, source, least, greatest, lowest, highest)
    if vague.any():
        nothing = pa.scalar(None, source)
        low, high = (pc.if_else(pa.array(vague), nothing, end) for end in (low, high))
    nan = None
    if pa.types.is_floating(source):
        nan = may_be_nan
        low, high = only_nan(low, high, empty & _null(greatest) & may_be_nan)
    return ColumnarBounds(low, high, nulls, high_open=highest.high_open, nan=nan)


def _beyond_limits(
    transform: Transform,
    source: pa.DataType,
    least: pa.Array,
    greatest: pa.Array,
    lowest: _Range,
    highest: _Range,
) -> Mask:
    """Returns the manifests that may have numbers which overflowed and so are not in order."""
    is_cut = transform.name == "truncate" and pa.types.is_integer(source)
    if not is_cut and transform.name != "hour":
        return np.zeros(len(least), np.bool_)
    vague = (_null(lowest.low) & ~_null(least)) | (_null(highest.high) & ~_null(greatest))
    if is_cut:
        # The least numbers are truncated to those within a width of the greatest, some of which are right.
        most = whole_numbers(greatest)
        for kind in (np.int32, np.int64):
            limit = np.iinfo(kind).max
            vague |= (most > limit - transform.width) & (most <= limit) & ~_null(greatest)
    return vague


def _nothing(count: int, source: pa.DataType) -> ColumnarBounds:
    ends = pa.nulls(count, source)
    return ColumnarBounds(ends, ends, np.full(count, UNKNOWN, np.int64))


def _hashed(
    transform: Transform, least: I32, greatest: I32, source: pa.DataType, nulls: I64
) -> ColumnarBounds:
    ends = pa.nulls(len(nulls), source)
    residues = Residues(of=transform.buckets, least=least, greatest=greatest)
    return ColumnarBounds(ends, ends, nulls, residues=[residues])


def _null(values: pa.Array) -> Mask:
    null: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return null


def _buckets(values: pa.Array) -> I32:
    buckets: I32 = values.cast(pa.int32()).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return buckets


def _range_of(transform: Transform) -> _RangeOf:
    if transform.name == "truncate":
        return _of_truncated
    return _of_identity if transform.name == "identity" else _of_time


def only_nan(low: pa.Array, high: pa.Array, where: Mask) -> tuple[pa.Array, pa.Array]:
    """Returns ends with those of files replaced that have no value but NaN."""
    if not where.any():
        return low, high
    mask = pa.array(where)
    return (
        pc.if_else(mask, pa.scalar(np.inf, low.type), low),
        pc.if_else(mask, pa.scalar(-np.inf, high.type), high),
    )


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"partition values of {values.type} are none of a column of {kind}"
        ) from error


def _of_identity(values: pa.Array, transform: Transform, source: pa.DataType) -> _Range:
    del transform
    ends = _cast(values, source)
    if not pa.types.is_floating(source):
        return _Range(low=ends, high=ends)
    is_nan: Mask = pc.is_nan(ends).fill_null(False).to_numpy(zero_copy_only=False)
    if not is_nan.any():
        return _Range(low=ends, high=ends)
    low, high = only_nan(ends, ends, is_nan)
    return _Range(low=low, high=high, nan=is_nan)


def _of_time(values: pa.Array, transform: Transform, source: pa.DataType) -> _Range:
    # Dates, as days are written by some, are cast to their numbers first.
    ordinals = whole_numbers(values)
    known = ~_null(values)
    seconds = _SECONDS_PER.get(transform.name, _SECONDS_PER["day"])
    if transform.name == "hour":
        known &= np.abs(ordinals) <= _HOURS_MAX
    begins, ends = (_begins(ordinals + step, transform) for step in (0, 1))
    if pa.types.is_timestamp(source):
        units = seconds * UNITS_PER_SECOND[source.unit]
        low, high = _scaled(begins, units), _scaled(ends, units)
        high = np.where(high == _I64.min, high, high - (ends <= _I64.max // units))
        return _Range(low=_moments(low, known, source), high=_moments(high, known, source))
    limits = np.iinfo(np.int32)
    first, last = (np.clip(days, limits.min, limits.max).astype(np.int32) for days in (begins, ends - 1))
    return _Range(low=_moments(first, known, source), high=_moments(last, known, source))


def _begins(ordinals: I64, transform: Transform) -> I64:
    """Returns the first day of years and months; days and hours as they are."""
    if transform.name in ("day", "hour"):
        return ordinals
    unit = "datetime64[M]" if transform.name == "month" else "datetime64[Y]"
    return ordinals.astype(unit).astype("datetime64[D]").astype(np.int64)


def _scaled(numbers: I64, factor: int) -> I64:
    """Returns products, those that do not fit as the least or the greatest number."""
    most = _I64.max // factor
    made = np.clip(numbers, -most, most) * factor
    return np.where(numbers > most, _I64.max, np.where(numbers < -most, _I64.min, made))


def _moments(numbers: I64 | I32, known: Mask, source: pa.DataType) -> pa.Array:
    return pa.array(numbers, mask=~known).view(source)


def _of_truncated(values: pa.Array, transform: Transform, source: pa.DataType) -> _Range:
    types = pa.types
    if types.is_decimal128(source) and types.is_decimal128(values.type):
        # The least numbers, truncated, have a digit more than their type.
        values = _cast(values, pa.decimal128(38, source.scale))
    else:
        values = _cast(values, source)
    if types.is_string(source) or types.is_large_string(source):
        return _of_prefixes(values, transform.width, pc.utf8_length, pc.utf8_slice_codeunits)
    if types.is_binary(source) or types.is_large_binary(source):
        return _of_prefixes(values, transform.width, pc.binary_length, pc.binary_slice)
    if transform.width > _NUMERIC_WIDTH_MAX:
        nothing = pa.nulls(len(values), source)
        return _Range(low=nothing, high=nothing)
    if types.is_decimal128(source):
        return _of_truncated_decimals(values, transform.width, source)
    return _of_truncated_integers(values, transform.width)


def _of_truncated_integers(values: pa.Array, width: int) -> _Range:
    numbers = whole_numbers(values)
    # A number below the least multiple wraps around, and is no multiple then.
    unknown = _null(values) | (numbers % width != 0)
    greatest = np.iinfo(values.type.to_pandas_dtype()).max
    high = np.where(numbers > greatest - (width - 1), greatest, numbers + (width - 1))
    return _Range(
        low=pa.array(numbers, values.type, mask=unknown), high=pa.array(high, values.type, mask=unknown)
    )


def _of_truncated_decimals(values: pa.Array, width: int, kind: pa.DataType) -> _Range:
    words = decimal_words(values)
    unknown = _null(values) | (remainders(words, width) != 0)
    wide = pa.decimal128(38, kind.scale)
    above = decimals_of(added(words, np.full(len(words), width - 1, np.int64)), wide, unknown)
    # The greatest number that has as many digits as the type, and the least one.
    greatest, least = (_decimal(sign * (10**kind.precision - 1), wide) for sign in (1, -1))
    high = pc.min_element_wise(above, greatest, skip_nulls=False).cast(kind)
    low = pc.max_element_wise(values.cast(wide), least, skip_nulls=False).cast(kind)
    return _Range(low=pc.if_else(pa.array(unknown), pa.scalar(None, kind), low), high=high)


def _decimal(unscaled: int, kind: pa.DataType) -> pa.Scalar:
    words = divmod(unscaled % (1 << 128), 1 << 64)[::-1]
    return decimals_of(np.array([words], np.uint64), kind, np.zeros(1, np.bool_))[0]


def _of_prefixes(
    values: pa.Array, width: int, length: Callable[..., pa.Array], cut: Callable[..., pa.Array]
) -> _Range:
    sizes = length(values).fill_null(0).to_numpy(zero_copy_only=False)
    full = sizes == width
    high = values
    if full.any():
        high = pc.if_else(pa.array(full), _next_prefixes(values, width, cut), values)
    if (sizes > width).any():
        # The transform makes none that is longer.
        shorter = pa.array(sizes <= width)
        nothing = pa.scalar(None, values.type)
        values, high = (pc.if_else(shorter, ends, nothing) for ends in (values, high))
    return _Range(low=values, high=high, high_open=full)


def _next_prefixes(values: pa.Array, width: int, cut: Callable[..., pa.Array]) -> pa.Array:
    """Returns the least value above all that begin with each one; null where there is none."""
    # Most differ in the last character only, and there are few characters.
    coded = cut(values, width - 1, width).dictionary_encode()
    following = [next_prefix(last) for last in coded.dictionary.to_pylist()]
    kind = values.type
    last = pa.array(following, kind).take(coded.indices)
    nothing = pa.scalar("" if isinstance(cut(values[:0], 0, 0), pa.StringArray) else b"", kind)
    made = pc.binary_join_element_wise(cut(values, 0, width - 1), last, nothing)
    rest = np.flatnonzero(_null(made) & ~_null(values))
    if not len(rest):
        return made
    others = [next_prefix(value) for value in values.take(pa.array(rest)).to_pylist()]
    return pc.replace_with_mask(made, pa.array(np.isin(np.arange(len(values)), rest)), pa.array(others, kind))
