"""The normal form of expressions: one SQL text for each tree, which the parser reads back as that tree.

This normal form names expression indexes (their target key is a hash of it), so it must
not change between releases.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid

from lakehouse.errors import InternalError
from lakehouse.expr.column_names import parts_of
from lakehouse.expr.functions import FUNCTIONS
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

__all__ = ["quote_name", "to_sql", "value_to_sql"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# fmt: off
_RESERVED = frozenset((
    "all", "and", "any", "as", "asc", "between", "by", "case", "cast", "column", "date", "desc",
    "distinct", "else", "end", "exists", "false", "for", "from", "group", "having", "ilike", "in",
    "interval", "is", "join", "left", "like", "limit", "not", "null", "offset", "on", "or",
    "order", "outer", "right", "select", "some", "table", "then", "time", "timestamp", "true",
    "union", "unique", "using", "when", "where", "with",
))
# fmt: on


def to_sql(expr: Expr) -> str:
    """Returns the normal form of the expression: SQL text that depends on the tree alone."""
    if isinstance(expr, Column):
        return ".".join(quote_name(part) for part in parts_of(expr.name))
    if isinstance(expr, Constant):
        return value_to_sql(expr.value)
    if isinstance(expr, Compare):
        return f"{_inner(expr.left)} {expr.op} {_inner(expr.right)}"
    if isinstance(expr, In):
        return f"{_inner(expr.arg)} IN ({', '.join(value_to_sql(value) for value in expr.values)})"
    if isinstance(expr, IsNull):
        return f"{_inner(expr.arg)} IS NULL"
    if isinstance(expr, Not):
        if isinstance(expr.arg, IsNull):
            return f"{_inner(expr.arg.arg)} IS NOT NULL"
        return f"NOT {_inner(expr.arg)}"
    if isinstance(expr, And | Or):
        word = " AND " if isinstance(expr, And) else " OR "
        return word.join(_inner(arg) for arg in expr.args)
    if isinstance(expr, Applied):
        return to_sql(expr.call)
    if isinstance(expr, FunctionCall):
        known = FUNCTIONS.get(expr.name)
        if known is not None and known.operator:
            return f" {known.operator} ".join(_inner(arg) for arg in expr.args)
        if expr.name == "like":
            return f"{_inner(expr.args[0])} LIKE {_inner(expr.args[1])}"
        return f"{expr.name}({', '.join(to_sql(arg) for arg in expr.args)})"
    raise InternalError(f"{type(expr).__name__} has no text")


def _inner(expr: Expr) -> str:
    text = to_sql(expr)
    # A call in parentheses of its own needs no others; operators and LIKE do.
    plain = isinstance(expr, Column | Constant) or (
        isinstance(expr, FunctionCall) and text.endswith(")") and text.startswith(expr.name)
    )
    return text if plain else f"({text})"


def quote_name(name: str) -> str:
    """Returns a column's name, quoted where SQL would take it for something else."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def value_to_sql(value: object) -> str:
    """Returns a constant as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, dt.datetime):
        word = "timestamptz" if value.tzinfo else "timestamp"
        return f"{word} '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"date '{value.isoformat()}'"
    if isinstance(value, dt.time):
        return f"time '{value.isoformat()}'"
    if isinstance(value, uuid.UUID):
        return f"uuid '{value}'"
    if isinstance(value, float):
        return (
            f"double '{value!r}'"
            if value != value or value in (float("inf"), float("-inf"))
            else _float(value)
        )
    if isinstance(value, decimal.Decimal):
        return f"decimal '{value}'"
    return str(value)


def _float(value: float) -> str:
    text = repr(value)
    # A whole number keeps a point, so that the parser reads a float again.
    return text if any(mark in text for mark in ".e") else text + ".0"
