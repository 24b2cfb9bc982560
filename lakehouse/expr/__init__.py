"""Expressions: conditions on rows, in one form that scans, pruning and indexes share."""

from __future__ import annotations

from lakehouse.expr.bind import bind
from lakehouse.expr.evaluate import evaluate, matching
from lakehouse.expr.nodes import Expr, all_of, any_of, col, lit
from lakehouse.expr.parse import parse_where
from lakehouse.expr.text import to_sql

__all__ = [
    "Expr",
    "all_of",
    "any_of",
    "bind",
    "col",
    "evaluate",
    "lit",
    "matching",
    "parse_where",
    "to_sql",
]
