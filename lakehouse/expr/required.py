"""Values that a column must have for a condition to be true: a range, or one of a few values.

Invariant: every row for which the condition is true has a value in the range. The converse need not
hold; None means that nothing is required.
"""

from __future__ import annotations

import sys
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

__all__ = ["Required", "next_prefix", "prefix_successor", "required"]

_Encode: TypeAlias = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """The values a column must have, as order-preserving bytes: a range, and where known the values in it."""

    low: bytes | None = None
    """Least value; None = no bound."""
    low_open: bool = False
    """True if ``low`` itself is excluded."""
    high: bytes | None = None
    """Greatest value; None = no bound."""
    high_open: bool = False
    """True if ``high`` itself is excluded."""
    values: tuple[bytes, ...] | None = None
    """The only values, ascending, if they are known one by one; empty = no value makes the condition true."""

    def holds(self, value: bytes) -> bool:
        """Returns whether the value is within the bounds; :attr:`values` is not looked at."""
        return not (
            (self.low is not None and (value < self.low or (self.low_open and value == self.low)))
            or (self.high is not None and (value > self.high or (self.high_open and value == self.high)))
        )


_NEVER = Required(values=())


def required(expr: Expr, name: str, encode: _Encode) -> Required | None:
    """Returns the values that the column of that name must have wherever the condition is true.

    Args:
        expr: a condition, bound to the schema.
        name: a column of a type that has an order.
        encode: makes order-preserving bytes of a constant of the column's type.
    """
    match expr:
        case And(args):
            known = [part for arg in args if (part := required(arg, name, encode)) is not None]
            return reduce(_both, known) if known else None
        case Or(args):
            parts = [required(arg, name, encode) for arg in args]
            known = [part for part in parts if part is not None]
            # One alternative that requires nothing lets every value through.
            return reduce(_either, known) if len(known) == len(parts) else None
        case Constant(value):
            # False and null alike select no row.
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
    distinct = tuple(sorted(set(values)))
    return Required(low=distinct[0], high=distinct[-1], values=distinct)


def _beginning(prefix: bytes) -> Required:
    return Required(low=prefix, high=prefix_successor(prefix), high_open=True)


def prefix_successor(prefix: bytes) -> bytes | None:
    """Returns the least bytes above everything that begins with ``prefix``; None when nothing is above."""
    # A byte 0xff cannot be incremented: the last one that can is, and the rest goes.
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def next_prefix(prefix: str | bytes) -> Any:
    """Returns the least text, or the least bytes, above everything that begins with ``prefix``; None = none.

    Texts are ordered by code point, among which there are no surrogates.
    """
    if isinstance(prefix, bytes):
        return prefix_successor(prefix)
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return None
    last = ord(kept[-1])
    return kept[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)


def _both(left: Required, right: Required) -> Required:
    # In the order of pairs an open low is above a closed one, and an open high below a closed one.
    lows = [(part.low, part.low_open) for part in (left, right) if part.low is not None]
    highs = [(part.high, not part.high_open) for part in (left, right) if part.high is not None]
    low, low_open = max(lows, default=(None, False))
    high, high_closed = min(highs, default=(None, True))
    bounds = Required(low=low, low_open=low_open, high=high, high_open=not high_closed)
    choices = [set(part.values) for part in (left, right) if part.values is not None]
    if not choices:
        return bounds
    return _only([value for value in set.intersection(*choices) if bounds.holds(value)])


def _either(left: Required, right: Required) -> Required:
    if left.values == () or right.values == ():
        return right if left.values == () else left
    if left.values is not None and right.values is not None:
        return _only([*left.values, *right.values])
    low, low_open, high, high_closed = None, False, None, True
    if left.low is not None and right.low is not None:
        low, low_open = min((left.low, left.low_open), (right.low, right.low_open))
    if left.high is not None and right.high is not None:
        high, high_closed = max((left.high, not left.high_open), (right.high, not right.high_open))
    return Required(low=low, low_open=low_open, high=high, high_open=not high_closed)
