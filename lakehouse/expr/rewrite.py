"""Rewriting of expressions: a function replaces every node; small ranges are listed.

Invariant: children are replaced before their parent, and nodes that nothing changes keep their class. A
condition in which ranges are listed has the same outcome for every row, null included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from lakehouse.expr.nodes import (
    And,
    Applied,
    Column,
    Compare,
    Constant,
    Expr,
    FunctionCall,
    In,
    IsNull,
    Not,
    Or,
)
from lakehouse.kernels.value_hashes import whole_numbers

__all__ = ["rewritten", "with_ranges_listed"]


def rewritten(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Returns the expression with ``change`` applied to each node, the innermost first."""

    def visit(node: Expr) -> Expr:
        match node:
            case And(args):
                return change(And(tuple(map(visit, args))))
            case Or(args):
                return change(Or(tuple(map(visit, args))))
            case Not(arg):
                return change(Not(visit(arg)))
            case IsNull(arg):
                return change(IsNull(visit(arg)))
            case In(arg, values):
                return change(In(visit(arg), values))
            case Compare(op, left, right):
                return change(Compare(op, visit(left), visit(right)))
            case FunctionCall(name, args):
                return change(FunctionCall(name, tuple(map(visit, args))))
            case Applied(call, compute):
                first, *others = call.args
                return change(Applied(FunctionCall(call.name, (visit(first), *others)), compute))
        return change(node)

    return visit(expr)


def with_ranges_listed(expr: Expr, *, max_values: int, names: frozenset[str] | None = None) -> Expr:
    """Returns the condition with the values of small ranges added as lists: of buckets lists alone are asked.

    ``v >= 3 AND v < 6`` becomes ``v >= 3 AND v < 6 AND v IN (3, 4, 5)``.

    Args:
        expr: a condition, bound to the schema.
        max_values: maximum values of a range that is listed.
        names: columns whose ranges are listed; None = all that are integers or dates.
    """

    def listed(node: Expr) -> Expr:
        if not isinstance(node, And):
            return node
        lists = _lists_of(node, max_values, names)
        return And((*node.args, *lists)) if lists else node

    return rewritten(expr, listed)


def _lists_of(conjunction: And, max_values: int, names: frozenset[str] | None) -> list[Expr]:
    ends: dict[str, tuple[pa.DataType, list[int], list[int]]] = {}
    for name, kind, low, high in _limits(conjunction):
        if names is None or name in names:
            _, lows, highs = ends.setdefault(name, (kind, [], []))
            lows += [] if low is None else [low]
            highs += [] if high is None else [high]
    lists: list[Expr] = []
    for name, (kind, lows, highs) in ends.items():
        if lows and highs and 0 <= min(highs) - max(lows) < max_values:
            plain = pa.int32() if pa.types.is_date32(kind) else kind
            values = pa.array(np.arange(max(lows), min(highs) + 1), plain).cast(kind)
            lists.append(In(Column(name), tuple(values)))
    return lists


def _limits(conjunction: And) -> Iterator[tuple[str, pa.DataType, int | None, int | None]]:
    """Yields the limits of discrete columns, both included: column, type, low and high."""
    for part in conjunction.args:
        match part:
            case Compare(op, Column(name), Constant(pa.Scalar() as limit)) if _is_discrete(limit):
                number = int(whole_numbers(pa.array([limit.as_py()], limit.type))[0])
                if op in (">", ">="):
                    yield name, limit.type, number + (op == ">"), None
                elif op in ("<", "<="):
                    yield name, limit.type, None, number - (op == "<")


def _is_discrete(limit: pa.Scalar) -> bool:
    kind = limit.type
    return bool(limit.is_valid and (pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)))
