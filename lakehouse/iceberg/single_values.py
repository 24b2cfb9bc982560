"""Single values of columns as Iceberg's metadata writes them in JSON: the defaults of fields.

Invariant: a value that is returned fits its type, as ``to_pylist`` of a column of that type would have it; a
moment with nanoseconds is a whole number of them, because Python's moments stop at microseconds.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

from lakehouse.excerpt import short
from lakehouse.expr.bind import nanoseconds
from lakehouse.format.limits import INT64_MAX, flag, items, members, text, whole
from lakehouse.format.schema import (
    BinaryType,
    DataType,
    DecimalType,
    ListType,
    MapType,
    Primitive,
    StructType,
)

__all__ = ["single_value"]

_INT32_LOW, _INT64_LOW = -(2**31), -INT64_MAX - 1


def single_value(kind: DataType, value: Any) -> Any:
    """Returns the value that a JSON text has for a column of this type; None = null.

    Raises:
        ValueError: it is none of the type's; the message begins with "must be".
    """
    if value is None:
        return None
    match kind:
        case Primitive(name):
            return _PRIMITIVE[name](value)
        case DecimalType(precision, scale):
            return _decimal(value, precision, scale)
        case BinaryType(length):
            return _binary(value, length)
        case ListType(element):
            return [single_value(element.type, item) for item in items(value)]
        case MapType(key, item):
            pairs = zip(items(members(value)["keys"]), items(value["values"]), strict=True)
            return [(single_value(key.type, one), single_value(item.type, other)) for one, other in pairs]
        case StructType(fields):
            given = members(value)
            return {
                field.name: single_value(field.type, given[str(field.id)])
                if str(field.id) in given
                else field.initial_default
                for field in fields
            }
    return text(value)


def _fine(value: Any, *, zoned: bool) -> int:
    _utc(value) if zoned else _local(value)
    try:
        found = nanoseconds(value)
    except ValueError:
        found = None
    if found is None or abs(found) > INT64_MAX:
        raise ValueError(f"must be a moment with up to nine digits behind the point, not {short(value)}")
    return found


def _moment(value: Any) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text(value))
    except ValueError:
        raise ValueError(f"must be a date with a time in ISO 8601, not {short(value)}") from None


def _utc(value: Any) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is None:
        raise ValueError(f"must be a moment with its offset from UTC, not {short(value)}")
    return moment.astimezone(dt.UTC)


def _local(value: Any) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is not None:
        raise ValueError(f"must be a time without a zone, not {short(value)}")
    return moment


def _real(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"must be a number, not {short(value)}")
    return float(value)


def _decimal(value: Any, precision: int, scale: int) -> decimal.Decimal:
    try:
        exact = decimal.Decimal(text(value))
        with decimal.localcontext(prec=precision):
            fitted = exact.quantize(decimal.Decimal(1).scaleb(-scale))
    except decimal.DecimalException:
        fitted = None
    if fitted is None or fitted != exact:
        raise ValueError(f"must be a decimal({precision},{scale}) as text, not {short(value)}")
    return fitted


def _binary(value: Any, length: int | None) -> bytes:
    try:
        raw = bytes.fromhex(text(value).replace("-", ""))
    except ValueError:
        raise ValueError(f"must be hexadecimal digits or a UUID, not {short(value)}") from None
    if length is not None and len(raw) != length:
        raise ValueError(f"must be {length} bytes, not {len(raw)}")
    return raw


_PRIMITIVE: dict[str, Callable[[Any], Any]] = {
    "boolean": flag,
    "int32": lambda value: whole(value, _INT32_LOW, -_INT32_LOW - 1),
    "int64": lambda value: whole(value, _INT64_LOW, INT64_MAX),
    "float": _real,
    "double": _real,
    "date": lambda value: dt.date.fromisoformat(text(value)),
    "time": lambda value: dt.time.fromisoformat(text(value)),
    "timestamp": _utc,
    "timestamp_ntz": _local,
    "timestamp_ns": lambda value: _fine(value, zoned=True),
    "timestamp_ns_ntz": lambda value: _fine(value, zoned=False),
}
