"""Casts of Arrow values that keep what they stand for: a value that another type cannot hold becomes null.

Numbers are cast to numbers, texts to texts, dates to timestamps and back; a float stands for the decimal it
is written as, and a timestamp without a zone is one of UTC.

Invariant: a value that is not null after the cast is equal to what it was before.
"""

from __future__ import annotations

import contextlib
import decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError

__all__ = ["cast_exactly", "family_of"]

_CONTEXT = decimal.Context(prec=80)


def family_of(kind: pa.DataType) -> str:
    """Returns a word for the types among which values can be equal, such as ``number`` and ``text``."""
    types = pa.types
    if types.is_boolean(kind):
        return "truth value"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "time"
    return "time of day" if types.is_time(kind) else str(kind)


def cast_exactly(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Casts values to a type; null stands for nulls and for what the type cannot hold.

    Raises:
        InvalidInputError: no value of the one type is ever equal to one of the other.
    """
    cast = values if values.type == kind else _cast(values, kind)
    return _of_precision(cast) if pa.types.is_decimal128(kind) else cast


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        return cast_exactly(values.dictionary_decode(), kind)
    if isinstance(values, pa.ExtensionArray):
        return cast_exactly(values.storage, kind)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    if family_of(values.type) != family_of(kind):
        raise InvalidInputError(f"no {values.type} is equal to a {kind}")
    if pa.types.is_integer(values.type) and pa.types.is_decimal(kind):
        # Arrow casts integers only to decimals that hold all of them.
        return cast_exactly(values.cast(pa.decimal128(20, 0)), kind)
    if not _rounds(values.type, kind):
        with contextlib.suppress(pa.ArrowInvalid):
            return values.cast(kind)
    with contextlib.suppress(pa.ArrowInvalid):
        return _there_and_back(values, kind)
    # Some casts fail even unsafely, such as those of decimals that are too large: then each value by itself.
    return pa.concat_arrays([_cast_one(values[at : at + 1], kind) for at in range(len(values))])


def _of_precision(decimals: pa.Array) -> pa.Array:
    """Returns decimals with as many digits as their type has, and null for longer ones, which Arrow makes."""
    kind = decimals.type
    most = pa.scalar(decimal.Decimal(10**kind.precision - 1).scaleb(-kind.scale, _CONTEXT), kind)
    too_long = pc.greater(pc.abs(decimals), most)
    if not pc.any(too_long).as_py():
        return decimals
    return pc.if_else(too_long, pa.scalar(None, kind), decimals)


def _rounds(source: pa.DataType, kind: pa.DataType) -> bool:
    """Returns whether Arrow rounds values without a word."""
    types = pa.types
    narrows = types.is_floating(source) and types.is_floating(kind) and kind.bit_width < source.bit_width
    return bool(
        narrows
        or (types.is_floating(source) and types.is_decimal(kind))
        or (types.is_decimal(source) and types.is_floating(kind))
        or (types.is_timestamp(source) and types.is_date(kind))
    )


def _there_and_back(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(values.type) and pa.types.is_integer(kind):
        # A float that is too large would become the greatest integer, and that the float again.
        nothing = pa.scalar(None, values.type)
        values = pc.if_else(pc.less(pc.abs(values), 2.0 ** (kind.bit_width - 1)), values, nothing)
    cast = values.cast(kind, safe=False)
    same = pc.equal(cast.cast(values.type, safe=False), values)
    if pa.types.is_floating(values.type):
        same = pc.or_(same, pc.is_nan(values))
    return pc.if_else(same, cast, pa.scalar(None, kind))


def _cast_one(value: pa.Array, kind: pa.DataType) -> pa.Array:
    with contextlib.suppress(pa.ArrowInvalid):
        return _there_and_back(value, kind) if _rounds(value.type, kind) else value.cast(kind)
    return pa.nulls(1, kind)
