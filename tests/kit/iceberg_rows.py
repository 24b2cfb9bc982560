"""Columns of every Iceberg type with values at their edges, partition values, and metrics made of rows."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.kit.iceberg_tables import bound_bytes

__all__ = ["COLUMNS", "Column", "Row", "metrics_of", "partition_value", "python_value", "transforms_of"]

Row = Mapping[int, Any]
"""Values by field id; dates, times and timestamps as Iceberg's numbers."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that rows have values of."""

    id: int
    name: str
    """As conditions write it: with a dot inside of a struct."""
    type: PrimitiveType
    pool: tuple[Any, ...]
    """Values, ascending; NaN last."""
    old: PrimitiveType | None = None
    """Type in the table's first schema, where that was another one."""
    late: bool = False
    """Whether the first schema has it not."""


_DAY_US = 86_400_000_000
_WORDS = (
    *("", "a", "ab", "abc", "abcd", "abd", "b", "é", "ÿ", "zebra", "\uffff", "\U0001f600", "\U0010ffff"),
    *(
        "abcdefghijklmno",
        "abcdefghijklmnop",
        "abcdefghijklmnopa",
        "abcdefghijklmnop\U0010ffff",
        "abcdefghijklmnoq",
    ),
    *("é" * 16, "é" * 17, "é" * 16 + "z", "\U0001f600" * 17, "\U0010ffff" * 16, "\U0010ffff" * 17),
    *("abcdefghijklmno\U0010ffffz", "abcdefghijklmno\ud7ffz", "%_", "a%b"),
)
_BYTES = (
    b"",
    b"\x00",
    b"\x00\x01",
    b"a",
    b"ab",
    b"abc",
    b"abcd",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff" * 16,
    b"\xff" * 17,
)
_INTS = (-(2**31), -1_000, -11, -10, -9, -1, 0, 1, 2, 3, 9, 10, 11, 34, 999, 2**31 - 1)
_LONGS = (-(2**63), -(2**31) - 1, *_INTS[1:], 2**31, 2**53 + 1, 2**63 - 1)
_FLOATS = (-math.inf, -3.0e38, -2.25, -0.0, 0.0, 0.5, 1.0, 1.5, 100.0, math.inf, math.nan)
_CENTS = (-999_999_999, -1_065, -1_060, -150, -1, 0, 1, 149, 150, 1_065, 1_420, 999_999_999)
_DAYS = (-100_000, -366, -365, -32, -31, -1, 0, 1, 30, 31, 364, 365, 17_501, 19_737, 19_738, 60_000)
_HOURS = (-876_000, -8_761, -24, -1, 0, 1, 23, 24, 744, 8_760, 473_689, 473_690)
_TIMES = (0, 1, 999_999, 1_000_000, 81_068_000_000, _DAY_US - 1)
_MICROS = tuple(sorted(hour * 3_600_000_000 + off for hour in _HOURS for off in (-1, 0, 1, 1_800_000_000)))
_NANOS = tuple(sorted(hour * 3_600_000_000_000 + off for hour in _HOURS for off in (-1, 0, 1_000, 1_999)))
_UUIDS = tuple(
    uuid.UUID(int=n) for n in (0, 1, 1 << 64, 1 << 127, (1 << 128) - 1, 0xF79C3E09677C4BBDA479 << 48)
)


def _decimals(unscaled: Sequence[int], scale: int) -> tuple[decimal.Decimal, ...]:
    digits = decimal.Context(prec=60)
    return tuple(decimal.Decimal(number).scaleb(-scale, digits) for number in unscaled)


_HUGE = _decimals((-(10**38) + 1_000, -(10**20), -1, 0, 1, 10**20, 10**38 - 1), 10)
_FLOATS32 = tuple(-3.0e38 if value == -3.0e38 else value for value in (-math.inf, -2.25, *_FLOATS[3:]))

COLUMNS: tuple[Column, ...] = (
    Column(1, "flag", BooleanType(), (False, True)),
    Column(2, "small", IntegerType(), _INTS),
    Column(3, "big", LongType(), _LONGS),
    Column(4, "f", FloatType(), _FLOATS32),
    Column(5, "d", DoubleType(), _FLOATS),
    Column(6, "price", DecimalType(9, 2), _decimals(_CENTS, 2)),
    Column(7, "huge", DecimalType(38, 10), _HUGE),
    Column(8, "day", DateType(), _DAYS),
    Column(9, "clock", TimeType(), _TIMES),
    Column(10, "ts", TimestampType(), _MICROS),
    Column(11, "tstz", TimestamptzType(), _MICROS),
    Column(12, "ns", TimestampNanoType(), _NANOS),
    Column(13, "nstz", TimestamptzNanoType(), _NANOS),
    Column(14, "name", StringType(), tuple(sorted(_WORDS))),
    Column(15, "guid", UUIDType(), _UUIDS),
    Column(16, "code", FixedType(4), (b"\x00" * 4, b"\x00\x01\x02\x03", b"abcd", b"\x80" * 4, b"\xff" * 4)),
    Column(17, "raw", BinaryType(), tuple(sorted(_BYTES))),
    Column(19, "place.x", IntegerType(), _INTS),
    Column(20, "place.name", StringType(), tuple(sorted(_WORDS))),
    Column(21, "grown", LongType(), _INTS, old=IntegerType()),
    Column(22, "wide", DoubleType(), _FLOATS32, old=FloatType()),
    Column(23, "fine", DecimalType(18, 2), _decimals(_CENTS, 2), old=DecimalType(9, 2)),
    Column(24, "late", StringType(), tuple(sorted(_WORDS)), late=True),
)
"""A column of every type, two in a struct (field 18), three that were promoted, and one that was added."""

_BUCKETED = (
    *(IntegerType, LongType, DecimalType, DateType, TimeType, TimestampType, TimestamptzType),
    *(TimestampNanoType, TimestamptzNanoType, StringType, UUIDType, FixedType, BinaryType),
)
_MOMENTS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def transforms_of(kind: PrimitiveType) -> list[Transform[Any, Any]]:
    """Every transform that Iceberg has for the type."""
    found: list[Transform[Any, Any]] = [IdentityTransform(), VoidTransform()]
    if isinstance(kind, _BUCKETED):
        found += [BucketTransform(1), BucketTransform(4), BucketTransform(16)]
    if isinstance(kind, (IntegerType, LongType, DecimalType)):
        found += [TruncateTransform(1), TruncateTransform(10), TruncateTransform(100)]
    if isinstance(kind, (StringType, BinaryType)):
        found += [TruncateTransform(1), TruncateTransform(3), TruncateTransform(16)]
    if isinstance(kind, (DateType, *_MOMENTS)):
        found += [YearTransform(), MonthTransform(), DayTransform()]
    if isinstance(kind, _MOMENTS):
        found += [HourTransform()]
    return found


def partition_value(field: PartitionField, kind: PrimitiveType, value: Any) -> Any:
    """The field's value for a value of its column."""
    if value is None or isinstance(field.transform, VoidTransform):
        return None
    if isinstance(field.transform, IdentityTransform):
        return value
    found = _applied(field.transform, kind)(value)
    return _wrapped(found, kind) if isinstance(field.transform, TruncateTransform) else found


def _wrapped(number: Any, kind: PrimitiveType) -> Any:
    """Integers wrap around as Java's do: the least ones, truncated, are among the greatest."""
    bits = 31 if isinstance(kind, IntegerType) else 63 if isinstance(kind, LongType) else None
    return number if bits is None else (number + 2**bits) % 2 ** (bits + 1) - 2**bits


@functools.lru_cache(maxsize=500)
def _applied(transform: Transform[Any, Any], kind: PrimitiveType) -> Any:
    return transform.transform(kind)


# --- metrics ----------------------------------------------------------------------------


def metrics_of(
    columns: Sequence[Column], rows: Sequence[Row], rng: random.Random, *, old: bool
) -> dict[str, dict[int, Any]]:
    """Statistics of a file as some writer or other leaves them: all, some, or none, for each column."""
    found: dict[str, dict[int, Any]] = {
        name: {}
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for column in columns:
        if old and column.late:
            continue
        mode = rng.choices(["full", "truncate", "counts", "odd", "none"], [4, 4, 1, 1, 1])[0]
        if mode != "none":
            kind = column.old if old and column.old is not None else column.type
            _add_metrics(found, column.id, kind, [row[column.id] for row in rows], mode, rng)
    return {name: values for name, values in found.items() if values or rng.random() < 0.5}


def _add_metrics(
    found: dict[str, dict[int, Any]],
    number: int,
    kind: PrimitiveType,
    values: Sequence[Any],
    mode: str,
    rng: random.Random,
) -> None:
    given = [value for value in values if value is not None]
    numbers = [value for value in given if value == value]
    counted = mode != "odd" or rng.random() < 0.5
    if counted:
        found["value_counts"][number] = len(values)
        found["null_value_counts"][number] = len(values) - len(given)
        if isinstance(kind, (FloatType, DoubleType)) and rng.random() < 0.8:
            found["nan_value_counts"][number] = len(given) - len(numbers)
    if mode == "counts" or not numbers:
        return
    low, high = min(numbers, key=_order), max(numbers, key=_order)
    if mode == "odd" and len(numbers) < len(given):  # writers of old left NaN in bounds
        low = high = math.nan
    lower, upper = (low, high) if mode == "full" else _truncated(low, high, rng.choice([16, 16, 2]))
    if mode != "odd" or rng.random() < 0.6:
        found["lower_bounds"][number] = bound_bytes(kind, lower)
    if upper is not None and (mode != "odd" or rng.random() < 0.6):
        found["upper_bounds"][number] = bound_bytes(kind, upper)


def _order(value: Any) -> Any:
    """Java's order of floats, in which one zero is below the other."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def _truncated(low: Any, high: Any, width: int) -> tuple[Any, Any]:
    """Bounds of at most ``width`` characters or bytes; None where no short one is above all."""
    if not isinstance(low, (str, bytes)):
        return low, high
    if len(high) <= width:
        return low[:width], high
    cut = high[:width]
    upper = _next_text(cut) if isinstance(cut, str) else _next_bytes(cut)
    return low[:width], upper


def _next_text(cut: str) -> str | None:
    while cut:
        code = ord(cut[-1]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return cut[:-1] + chr(code)
        cut = cut[:-1]
    return None


def _next_bytes(cut: bytes) -> bytes | None:
    cut = cut.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None


# --- Python's values --------------------------------------------------------------------

_EPOCH = dt.datetime(1970, 1, 1)


def python_value(kind: PrimitiveType, value: Any) -> Any:
    """The value as Python writes it in a condition; nanoseconds are cut off, as Python has none."""
    if value is None:
        return None
    match kind:
        case DateType():
            return _EPOCH.date() + dt.timedelta(days=value)
        case TimeType():
            return (_EPOCH + dt.timedelta(microseconds=value)).time()
        case TimestampType():
            return _EPOCH + dt.timedelta(microseconds=value)
        case TimestamptzType():
            return (_EPOCH + dt.timedelta(microseconds=value)).replace(tzinfo=dt.UTC)
        case TimestampNanoType():
            return _EPOCH + dt.timedelta(microseconds=value // 1_000)
        case TimestamptzNanoType():
            return (_EPOCH + dt.timedelta(microseconds=value // 1_000)).replace(tzinfo=dt.UTC)
    return value
