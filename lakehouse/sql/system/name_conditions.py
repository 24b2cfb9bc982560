"""Conditions on names: which catalogs, databases and tables a condition asks for, before any is loaded.

Invariant: a condition that is accepted is applied exactly as DuckDB would: names are never null, and compare
by their bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from lakehouse.expr import Expr, matching
from lakehouse.expr.nodes import And, Column, Compare, Constant, In, IsNull, Not, Or

__all__ = ["is_about", "names_wanted", "selected"]

_LOGIC = (And, Or, Not, IsNull, Compare, In, Column, Constant)


def is_about(where: Expr, names: Collection[str]) -> bool:
    """Returns whether a condition is about these columns of names alone, in words that are applied here."""
    return bool(where.columns()) and all(_is_known(node, names) for node in where.walk())


def _is_known(node: Expr, names: Collection[str]) -> bool:
    if isinstance(node, Column):
        return node.name in names
    if isinstance(node, Constant):
        return isinstance(node.value, str)
    if isinstance(node, In):
        return all(isinstance(value, str) for value in node.values)
    return isinstance(node, _LOGIC)


def names_wanted(where: Expr | None, column: str) -> frozenset[str] | None:
    """Returns the values that a column of names must have one of; None = the condition does not say."""
    wanted: frozenset[str] | None = None
    for part in _conjuncts(where):
        values = _values(part, column)
        if values is not None:
            wanted = values if wanted is None else wanted & values
    return wanted


def _conjuncts(where: Expr | None) -> Iterator[Expr]:
    if isinstance(where, And):
        for part in where.args:
            yield from _conjuncts(part)
    elif where is not None:
        yield where


def _values(part: Expr, column: str) -> frozenset[str] | None:
    if isinstance(part, In) and isinstance(part.arg, Column) and part.arg.name == column:
        return frozenset(part.values)
    if isinstance(part, Compare) and part.op == "=":
        sides = (part.left, part.right), (part.right, part.left)
        for one, other in sides:
            if isinstance(one, Column) and one.name == column and isinstance(other, Constant):
                return frozenset([other.value])
    return None


def selected(where: Expr | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows that a condition selects; None = all."""
    return rows if where is None else rows.filter(matching(where, rows))
