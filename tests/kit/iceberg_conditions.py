"""Conditions in a form of their own, translated into our expressions and pyiceberg's, and judged on rows.

A condition is a tuple: ``("=", column, value)`` and other comparisons, ``("in", column, values)``,
``("null", column)``, ``("prefix", column, text)``, ``("and", a, b)``, ``("or", a, b)`` and ``("not", a)``.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyiceberg.expressions as theirs
from pyiceberg.types import BooleanType, StringType, TimestampNanoType, TimestamptzNanoType

from lakehouse.expr import Expr, all_of, any_of, col
from lakehouse.expr.nodes import Compare, Constant, Not
from tests.kit.iceberg_rows import Column, Row, python_value

__all__ = ["Condition", "holds", "leaves", "ours", "pyicebergs", "random_condition", "understood"]

Condition = tuple[Any, ...]

_COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_THEIRS: dict[str, Any] = {
    "=": theirs.EqualTo,
    "<>": theirs.NotEqualTo,
    "<": theirs.LessThan,
    "<=": theirs.LessThanOrEqual,
    ">": theirs.GreaterThan,
    ">=": theirs.GreaterThanOrEqual,
}
_NANO = (TimestampNanoType, TimestamptzNanoType)


def random_condition(rng: random.Random, columns: Sequence[Column], depth: int = 2) -> Condition:
    """A condition on some of the columns."""
    kind = rng.choices(["leaf", "and", "or", "not"], [6, 2, 2, 1])[0] if depth else "leaf"
    if kind == "leaf":
        return _leaf(rng, rng.choice(list(columns)))
    if kind == "not":
        return ("not", random_condition(rng, columns, depth - 1))
    return (kind, *(random_condition(rng, columns, depth - 1) for _ in range(2)))


def _leaf(rng: random.Random, column: Column) -> Condition:
    def value() -> Any:
        found = rng.choice(column.pool)
        # Python has no nanoseconds, so constants are whole microseconds.
        return found // 1_000 * 1_000 if isinstance(column.type, _NANO) else found

    kind = rng.choices(["compare", "in", "null", "prefix"], [6, 2, 1, 2])[0]
    if kind == "in":
        return ("in", column, tuple(value() for _ in range(rng.choice([1, 2, 4]))))
    if kind == "null":
        return ("null", column)
    if kind == "prefix" and isinstance(column.type, StringType):
        return ("prefix", column, value()[: rng.randint(0, 18)])
    ops = ["=", "<>"] if isinstance(column.type, BooleanType) else list(_COMPARE)
    return (rng.choice(ops), column, value())


def leaves(condition: Condition) -> Iterator[Condition]:
    """The conditions on single columns."""
    if condition[0] in ("and", "or", "not"):
        for part in condition[1:]:
            yield from leaves(part)
    else:
        yield condition


def holds(condition: Condition, row: Row) -> bool | None:
    """Whether a row fulfils it: yes, no, or null, by SQL's logic; NaN is above every number."""
    match condition:
        case ("not", part):
            found = holds(part, row)
            return None if found is None else not found
        case ("and", one, other):
            both = (holds(one, row), holds(other, row))
            return False if False in both else None if None in both else True
        case ("or", one, other):
            both = (holds(one, row), holds(other, row))
            return True if True in both else None if None in both else False
        case ("null", column):
            return row[column.id] is None
    name, column, constant = condition
    value = row[column.id]
    if value is None:
        return None
    if name == "in":
        return any(_key(value) == _key(each) for each in constant)
    if name == "prefix":
        return bool(value.startswith(constant))
    return bool(_COMPARE[name](_key(value), _key(constant)))


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def ours(condition: Condition) -> Expr:
    """The condition in our expressions."""
    match condition:
        case ("not", part):
            return Not(ours(part))
        case ("and", *parts):
            return all_of(*map(ours, parts))
        case ("or", *parts):
            return any_of(*map(ours, parts))
        case ("null", column):
            return col(column.name).is_null()
    name, column, constant = condition
    if name == "in":
        return col(column.name).is_in([python_value(column.type, each) for each in constant])
    if name == "prefix":
        return col(column.name).starts_with(constant)
    return Compare(name, col(column.name), Constant(python_value(column.type, constant)))


def understood(condition: Condition) -> bool:
    """Whether pyiceberg plans it as meant: it has no nanoseconds, no order of NaN, no infinity."""
    for name, column, *constant in leaves(condition):
        if name == "null":
            continue
        values = constant[0] if name == "in" else constant
        if isinstance(column.type, _NANO):
            return False
        if any(isinstance(value, float) and math.isnan(value) for value in values):
            return False
        if any(isinstance(value, float) and math.isinf(value) for value in values):
            return False
    return True


def pyicebergs(condition: Condition) -> theirs.BooleanExpression:
    """The condition in pyiceberg's expressions."""
    match condition:
        case ("not", part):
            return theirs.Not(pyicebergs(part))
        case ("and", one, other):
            return theirs.And(pyicebergs(one), pyicebergs(other))
        case ("or", one, other):
            return theirs.Or(pyicebergs(one), pyicebergs(other))
        case ("null", column):
            return theirs.IsNull(column.name)
    name, column, constant = condition
    if name == "in":
        return theirs.In(column.name, [python_value(column.type, each) for each in constant])
    if name == "prefix":
        return theirs.StartsWith(column.name, constant)
    return _THEIRS[name](column.name, python_value(column.type, constant))
