"""What value a column must have for a condition to be true: a range, or one of a few values.

Invariant: every row for which the condition is true has a value in the range. The converse need not
hold; None says that nothing is required.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

from lakehouse.expr.bounds import like_prefix, plain_value
from lakehouse.expr.nodes import (
    And,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    FunctionCall,
    In,
    Or,
    swapped_op,
)

__all__ = ["Required", "prefix_successor", "required"]

_Encode: TypeAlias = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """Values as order-preserving bytes."""

    low: bytes | None = None
    """Least value; None = no bound."""
    low_open: bool = False
    """Whether ``low`` itself is left out."""
    high: bytes | None = None
    """Greatest value; None = no bound."""
    high_open: bool = False
    """Whether ``high`` itself is left out."""
    values: tuple[bytes, ...] | None = None
    """The only values, ascending, when they are known one by one; empty = no value makes it true."""

    def holds(self, value: bytes) -> bool:
        """Whether the value is within the bounds."""
        return not (
            (self.low is not None and (value < self.low or (self.low_open and value == self.low)))
            or (self.high is not None and (value > self.high or (self.high_open and value == self.high)))
        )


_NEVER = Required(values=())


def required(expr: Expr, name: str, encode: _Encode) -> Required | None:
    """What the column of that name must have wherever the condition is true.

    Args:
        expr: a condition, bound to the schema.
        name: a column of a type that has an order.
        encode: order-preserving bytes of a constant of the column's type.
    """
    match expr:
        case And(args):
            known = [found for arg in args if (found := required(arg, name, encode)) is not None]
            return reduce(_both, known) if known else None
        case Or(args):
            parts = [required(arg, name, encode) for arg in args]
            known = [found for found in parts if found is not None]
            return reduce(_either, known) if len(known) == len(parts) else None
        case Constant(value):
            return None if plain_value(value) is True else _NEVER
        case Column(column) if column == name:
            return _only([encode(True)])
        case Compare(op, Column(column), Constant(value)) if column == name:
            return _compared(op, value, encode)
        case Compare(op, Constant(value), Column(column)) if column == name:
            return _compared(swapped_op(op), value, encode)
        case In(Column(column), values) if column == name:
            return _only([encode(value) for value in values if plain_value(value) is not None])
        case FunctionCall("starts_with", (Column(column), Constant(str() as prefix))) if column == name:
            return _beginning(encode(prefix))
        case FunctionCall("like", (Column(column), Constant(str() as pattern))) if column == name:
            return _beginning(encode(like_prefix(pattern)[0]))
    return None


def _compared(op: CompareOp, constant: Any, encode: _Encode) -> Required | None:
    if plain_value(constant) is None:
        return _NEVER
    value = encode(constant)
    match op:
        case "=":
            return _only([value])
        case "<" | "<=":
            return Required(high=value, high_open=op == "<")
        case ">" | ">=":
            return Required(low=value, low_open=op == ">")
    return None


def _only(values: list[bytes]) -> Required:
    if not values:
        return _NEVER
    found = tuple(sorted(set(values)))
    return Required(low=found[0], high=found[-1], values=found)


def _beginning(prefix: bytes) -> Required:
    return Required(low=prefix, high=prefix_successor(prefix), high_open=True)


def prefix_successor(prefix: bytes) -> bytes | None:
    """The least bytes above everything that begins with ``prefix``; None when nothing is above."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _both(one: Required, other: Required) -> Required:
    lows = [(found.low, found.low_open) for found in (one, other) if found.low is not None]
    highs = [(found.high, not found.high_open) for found in (one, other) if found.high is not None]
    low, low_open = max(lows, default=(None, False))
    high, high_closed = min(highs, default=(None, True))
    found = Required(low=low, low_open=low_open, high=high, high_open=not high_closed)
    choices = [set(part.values) for part in (one, other) if part.values is not None]
    if not choices:
        return found
    return _only([value for value in set.intersection(*choices) if found.holds(value)])


def _either(one: Required, other: Required) -> Required:
    if one.values == () or other.values == ():
        return other if one.values == () else one
    if one.values is not None and other.values is not None:
        return _only([*one.values, *other.values])
    low, low_open, high, high_closed = None, False, None, True
    if one.low is not None and other.low is not None:
        low, low_open = min((one.low, one.low_open), (other.low, other.low_open))
    if one.high is not None and other.high is not None:
        high, high_closed = max((one.high, not one.high_open), (other.high, not other.high_open))
    return Required(low=low, low_open=low_open, high=high, high_open=not high_closed)
