"""Binding of an expression to a schema: resolves names and gives constants the columns' types.

After binding, every constant that is compared with a column has exactly that column's
type, so that evaluation, statistics, bloom filters and partitions all see the same value.
A constant the type cannot hold is not rounded: ``small < 1.5`` on integers becomes
``small <= 1``, ``tiny = 300`` on an int8 becomes false (null for nulls).

Negations are pushed down to the comparisons on the way, which leaves ``Not`` only over leaves
of other kinds (functions, IN, IS NULL); pruning by bounds can then treat most leaves alike.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr.column_names import ambiguous, resolved
from lakehouse.expr.functions import FUNCTIONS
from lakehouse.expr.nodes import (
    And,
    Applied,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    FunctionCall,
    In,
    IsNull,
    Not,
    Or,
    all_of,
    any_of,
    negated_op,
    swapped_op,
)
from lakehouse.expr.text import to_sql

__all__ = ["bind", "fit_constant", "nanoseconds", "type_of"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_INT64_MAX = (1 << 63) - 1


def bind(expr: Expr, schema: pa.Schema) -> Expr:
    """Returns the expression fitted to the schema.

    Raises:
        InvalidInputError: a column is not there, a constant can never be compared with its
            column, or the whole is no condition.
    """
    bound = _bind(expr, schema, negate=False)
    kind = type_of(bound, schema)
    if (kind is None and isinstance(bound, FunctionCall)) or (
        kind is not None and not pa.types.is_boolean(kind)
    ):
        raise InvalidInputError(f"{to_sql(expr)} is no condition: its value is neither true nor false")
    return bound


def type_of(expr: Expr, schema: pa.Schema) -> pa.DataType | None:
    """Returns the Arrow type of the expression's value; None where it is known only once evaluated."""
    if isinstance(expr, Column):
        return _field_type(expr.name, schema)
    if isinstance(expr, Constant):
        value = expr.value
        return (
            value.type if isinstance(value, pa.Scalar) else None if value is None else pa.scalar(value).type
        )
    if isinstance(expr, Applied):
        return type_of(expr.call, schema)
    if isinstance(expr, FunctionCall):
        known = FUNCTIONS.get(expr.name)
        if known is None or known.boolean:
            return pa.bool_()
        if known.text:
            return pa.large_string()
        if expr.name in ("lower", "upper", "trim"):
            return type_of(expr.args[0], schema)
        return pa.int64() if expr.name in ("length", "year", "month", "day", "hour") else None
    return pa.bool_()


def _field_type(name: str, schema: pa.Schema) -> pa.DataType:
    if name in schema.names:
        return schema.field(name).type
    head, *path = name.split(".")
    if head in schema.names:
        with contextlib.suppress(KeyError):
            return _path_type(schema.field(head).type, path)
    known = ", ".join(schema.names)
    raise InvalidInputError(f"there is no column {name!r}; these are there: {known}", column=name)


def _named(column: Column, schema: pa.Schema) -> Column:
    """Returns the column under its bound name: its whole name, or a path with dots into structs."""
    steps = resolved(
        column.name,
        schema.names,
        nested=lambda name: bool(pa.types.is_struct(schema.field(name).type)),
        leads=lambda parts: _leads(schema, parts),
    )
    name = ".".join(steps)
    if len(steps) > 1 and name in schema.names:
        raise ambiguous(name)
    if len(steps) > 1 and any("." in step for step in steps):
        raise InvalidInputError(
            f"{column.name}: a condition cannot ask for a field whose name holds a dot, or that is in a "
            "column whose name does",
            column=column.name,
        )
    _field_type(name, schema)
    return column if name == column.name else Column(name)


def _leads(schema: pa.Schema, steps: Sequence[str]) -> bool:
    try:
        _path_type(schema.field(steps[0]).type, steps[1:])
    except KeyError:
        return False
    return True


def _path_type(kind: pa.DataType, path: Sequence[str]) -> pa.DataType:
    """Returns the type of a field inside a struct; KeyError when there is none."""
    for part in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            raise KeyError(part)
        kind = kind.field(part).type
    return kind


def _bind(expr: Expr, schema: pa.Schema, *, negate: bool) -> Expr:
    if isinstance(expr, Not):
        return _bind(expr.arg, schema, negate=not negate)
    if isinstance(expr, And | Or):
        # De Morgan: under a negation AND and OR change places.
        joins = (all_of, any_of) if isinstance(expr, And) else (any_of, all_of)
        return joins[negate](*(_bind(arg, schema, negate=negate) for arg in expr.args))
    if isinstance(expr, Compare):
        return _compare(expr, schema, negate)
    bound = _bind_leaf(expr, schema)
    if negate and isinstance(bound, Constant) and bound.value in (True, False):
        return Constant(not bound.value)
    return Not(bound) if negate else bound


def _bind_leaf(expr: Expr, schema: pa.Schema) -> Expr:
    if isinstance(expr, Column):
        return _named(expr, schema)
    if isinstance(expr, IsNull):
        return IsNull(_bind_leaf(expr.arg, schema))
    if isinstance(expr, In):
        return _in(expr, schema)
    if isinstance(expr, FunctionCall):
        return _folded(FunctionCall(expr.name, tuple(_bind(arg, schema, negate=False) for arg in expr.args)))
    return expr


def _folded(call: FunctionCall) -> Expr:
    """Returns the value of arithmetic over constants: ``id = 5 + 5`` prunes as ``id = 10`` does."""
    known = FUNCTIONS.get(call.name)
    values = [arg.value for arg in call.args if isinstance(arg, Constant)]
    if known is None or known.operator is None or len(values) != len(call.args) or None in values:
        return call
    try:
        return Constant(known.compute(*map(pa.scalar, values)).as_py())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return call  # an overflow is an error of the rows that it is computed for


def _in(expr: In, schema: pa.Schema) -> Expr:
    arg = _bind(expr.arg, schema, negate=False)
    kind = _constant_type(arg, schema)
    fits = (isinstance(value, pa.Scalar) and value.type == kind for value in expr.values)
    if kind is None or (expr.values and all(fits)):
        return In(arg, expr.values)
    fitted: list[Any] = []
    for value in expr.values:
        exact = None if value is None else fit_constant(value, kind, arg)
        if value is None or (exact is not None and exact[1] == 0):
            fitted.append(None if exact is None else exact[0])
    if not fitted:
        return _never(arg)
    return In(arg, tuple(pa.scalar(value, kind) for value in fitted))


def _compare(expr: Compare, schema: pa.Schema, negate: bool) -> Expr:
    op: CompareOp = negated_op(expr.op) if negate else expr.op
    left, right = (_bind(side, schema, negate=False) for side in (expr.left, expr.right))
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, swapped_op(op)
    kind = _constant_type(left, schema)
    if not isinstance(right, Constant) or kind is None or isinstance(right.value, pa.Scalar):
        return Compare(op, left, right)
    if right.value is None:
        return Constant(None)
    fit = fit_constant(right.value, kind, left)
    if fit is None:
        raise InvalidInputError(
            f"{to_sql(left)} is {kind} and cannot be compared with {right.value!r}", value=right.value
        )
    value, side = fit
    if side == 0:
        return Compare(op, left, Constant(pa.scalar(value, kind)))
    if op in ("=", "<>"):
        return _never(left) if op == "=" else _always(left)
    # The type's nearest value lies on one side of the constant: x < 1.5 is x <= 1, and
    # beyond every value of the type the comparison is the same for all.
    below = side < 0  # ``value`` is the largest below the constant
    upward = op in ("<", "<=")
    if value is None:  # the constant lies beyond every value of the type
        return _always(left) if upward == (side > 0) else _never(left)
    if below:
        return Compare("<=" if upward else ">", left, Constant(pa.scalar(value, kind)))
    return Compare("<" if upward else ">=", left, Constant(pa.scalar(value, kind)))


def _constant_type(arg: Expr, schema: pa.Schema) -> pa.DataType | None:
    """Returns the type of constants that are compared with the expression: of what it encodes, if it does."""
    kind = type_of(arg, schema)
    return kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind


def _never(arg: Expr) -> Expr:
    """Returns a condition that is false for every value and null for null."""
    return all_of(IsNull(arg), Constant(None))


def _always(arg: Expr) -> Expr:
    """Returns a condition that is true for every value and null for null."""
    return any_of(Not(IsNull(arg)), Constant(None))


def fit_constant(value: Any, kind: pa.DataType, arg: Expr) -> tuple[Any, int] | None:
    """Returns the constant as a value of the column's type, and how exact that is.

    (v, 0): v equals the constant. (v, -1): v is the largest value below it. (None, 1): the constant
    lies above every value of the type; (None, -1): below every one. None: they are not comparable.
    """
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    types = pa.types
    if types.is_dictionary(kind):
        return fit_constant(value, kind.value_type, arg)
    if types.is_boolean(kind):
        return (value, 0) if isinstance(value, bool) else None
    if types.is_integer(kind):
        return _fit_integer(value, kind)
    if types.is_floating(kind):
        return _fit_float(value, kind)
    if types.is_decimal(kind):
        return _fit_decimal(value, kind)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return (value, 0) if isinstance(value, str) else None
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        if hasattr(value, "bytes") and not isinstance(value, bytes):
            value = value.bytes  # a UUID
        if isinstance(value, str):
            value = value.encode()
        return (value, 0) if isinstance(value, bytes) else None
    return _fit_moment(value, kind)


def _fit_integer(value: Any, kind: pa.DataType) -> tuple[Any, int] | None:
    # A bool is an int in Python, but SQL does not compare truth values with numbers.
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else (None, 1 if value > 0 else -1)
    floor = math.floor(value)
    signed = pa.types.is_signed_integer(kind)
    high = (1 << (kind.bit_width - signed)) - 1
    low = -high - 1 if signed else 0
    if floor > high:
        return None, 1
    if floor < low:
        return None, -1
    return floor, 0 if floor == value else -1


def _fit_float(value: Any, kind: pa.DataType) -> tuple[Any, int] | None:
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    try:
        near = float(value)
    except OverflowError:
        return (math.inf, -1) if value > 0 else (None, -1)
    if kind.bit_width == 64 and (math.isnan(near) or math.isinf(near) or near == value):
        return near, 0
    narrow = near if kind.bit_width == 64 else pa.scalar(near, pa.float64()).cast(kind, safe=False).as_py()
    if math.isnan(narrow) or narrow == value:
        return narrow, 0
    if narrow > value:  # the cast rounds to the nearest, and the contract is the largest below
        narrow = _float_below(narrow, kind)
    return narrow, -1


def _float_below(value: float, kind: pa.DataType) -> float:
    import numpy as np

    as_type = np.float64 if kind.bit_width == 64 else np.float32 if kind.bit_width == 32 else np.float16
    return float(np.nextafter(as_type(value), as_type(-np.inf)))


def _fit_decimal(value: Any, kind: pa.DataType) -> tuple[Any, int] | None:
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else (None, 1 if value > 0 else -1)
    with decimal.localcontext(prec=kind.precision + 64):
        # A float stands for the decimal it is written as: 0.1 is a tenth.
        exact = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
        step = decimal.Decimal(1).scaleb(-kind.scale)
        floor = exact.quantize(step, rounding=decimal.ROUND_FLOOR)
        limit = decimal.Decimal(10) ** (kind.precision - kind.scale)
        if floor >= limit:
            return None, 1
        if floor <= -limit:
            return None, -1
        return floor, 0 if floor == exact else -1


def _fit_moment(value: Any, kind: pa.DataType) -> tuple[Any, int] | None:
    types = pa.types
    try:
        if types.is_date(kind):
            return _fit_date(value)
        if types.is_timestamp(kind):
            return _fit_timestamp(value, kind)
        if types.is_time(kind):
            value = dt.time.fromisoformat(value) if isinstance(value, str) else value
            return (value, 0) if isinstance(value, dt.time) else None
    except ValueError:
        return None
    return None


def _fit_date(value: Any) -> tuple[Any, int] | None:
    if isinstance(value, str):
        parsed = dt.datetime.fromisoformat(value)
        value = parsed.date() if parsed.time() == dt.time() and len(value) <= 10 else parsed
    if isinstance(value, dt.datetime):
        midnight = value.replace(hour=0, minute=0, second=0, microsecond=0)
        return value.date(), 0 if value == midnight else -1
    return (value, 0) if isinstance(value, dt.date) else None


def _fit_timestamp(value: Any, kind: pa.DataType) -> tuple[Any, int] | None:
    if kind.unit == "ns":
        number = nanoseconds(value)
        if number is None or -_INT64_MAX <= number <= _INT64_MAX:
            return None if number is None else (number, 0)
        return None, 1 if number > 0 else -1
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if not isinstance(value, dt.datetime):
        return None
    # A moment without a zone means UTC for a column with one; the reverse is ambiguous
    # only in name: a column without zone holds UTC by our rule too.
    if kind.tz is not None and value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    elif kind.tz is None and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    coarser = {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1)
    rest = value.microsecond % coarser
    return value.replace(microsecond=value.microsecond - rest), -1 if rest else 0


def nanoseconds(value: object) -> int | None:
    """Returns the nanoseconds since 1970 of a moment, one without a zone taken for UTC; None = it is none.

    Python's moments end at microseconds; a text may have nine digits behind the point.

    Raises:
        ValueError: a text is no moment, or has more digits.
    """
    rest = "0"
    if isinstance(value, str):
        head, _, tail = value.partition(".")
        digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
        if len(digits) > 9:
            raise ValueError(f"a moment has at most nine digits behind the point, not {len(digits)}")
        value, rest = dt.datetime.fromisoformat(head + tail[len(digits) :]), digits.ljust(9, "0")
    elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time())
    if not isinstance(value, dt.datetime):
        return None
    passed = (value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH
    seconds = passed.days * 86_400 + passed.seconds
    return seconds * 1_000_000_000 + passed.microseconds * 1_000 + int(rest)
