"""Parser of SQL conditions into expressions, on top of sqlglot. The dialect is DuckDB's.

Only conditions on rows are understood; everything else is refused with an error that quotes
the text.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import re
import uuid
from collections.abc import Callable
from typing import Any

from lakehouse.errors import InvalidInputError
from lakehouse.expr.column_names import written
from lakehouse.expr.functions import FUNCTIONS
from lakehouse.expr.nodes import (
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    FunctionCall,
    In,
    IsNull,
    Not,
    all_of,
    any_of,
)

__all__ = ["parse_where", "to_expr"]

_TEXT_CHARS_MAX = 1 << 20
_DEPTH_MAX = 200
_REMEMBERED_MAX = 512
"""Maximum number of short texts whose expressions are kept."""
_REMEMBERED_CHARS_MAX = 500
_QUOTED = re.compile(r"""\b[xX]('[^']*')|'(?:[^']|'')*'|"(?:[^"]|"")*"|`((?:[^`]|``)+)`""")
"""Texts and names in quotes of any kind; the groups are the digits of bytes, and the content of backticks."""


def parse_where(text: str) -> Expr:
    """Parses a condition, such as ``amount > 10 and name like 'a%'``.

    Example::

        parse_where("day = date '2026-01-01' and host in ('a', 'b')")
    """
    if not text.strip():
        raise InvalidInputError(f'a condition is SQL text such as "amount > 10", not {text!r}')
    # Schemas have their indexed expressions parsed for every check and every file.
    return _parsed_before(text) if len(text) <= _REMEMBERED_CHARS_MAX else _parsed(text)


def _parsed(text: str) -> Expr:
    import sqlglot
    from sqlglot.errors import SqlglotError

    if len(text) > _TEXT_CHARS_MAX:
        raise InvalidInputError(
            f"a condition of {len(text):,} characters is too long: pass values as a table"
        )
    try:
        tree = sqlglot.parse_one(_double_quoted(text), dialect="duckdb")
    except (SqlglotError, RecursionError) as error:
        said = str(error).split("\n")[0].split(". Line")[0]
        raise InvalidInputError(f"cannot read the condition {_shown(text)}: {said}", where=text) from error
    return to_expr(tree, text)


_parsed_before = functools.lru_cache(maxsize=_REMEMBERED_MAX)(_parsed)


def to_expr(tree: Any, text: str) -> Expr:
    """Returns the expression of a sqlglot tree that was parsed from ``text``."""
    return _Reader(text).read(tree, 0)


def _double_quoted(text: str) -> str:
    """Returns the text as DuckDB has it: names in double quotes instead of backticks, bytes by a function."""

    def quoted(match: re.Match[str]) -> str:
        digits, name = match.groups()
        if digits is not None:
            return f"from_hex({digits})"
        return match[0] if name is None else '"' + name.replace("``", "`").replace('"', '""') + '"'

    return _QUOTED.sub(quoted, text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "…")


class _Reader:
    """Turns sqlglot's nodes into ours: method ``_x`` reads nodes of class ``X``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0

    def read(self, node: Any, depth: int) -> Expr:
        if depth > _DEPTH_MAX:
            raise self._refuse("it is nested too deeply")
        handler: Callable[[Any, int], Expr] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            return handler(node, depth + 1)
        if op := _COMPARE.get(type(node).__name__):
            return Compare(op, self.read(node.this, depth + 1), self.read(node.expression, depth + 1))
        if name := _OPERATORS.get(type(node).__name__):
            return FunctionCall(
                name, (self.read(node.this, depth + 1), self.read(node.expression, depth + 1))
            )
        if name := _UNARY.get(type(node).__name__):
            return FunctionCall(name, (self.read(node.this, depth + 1),))
        raise self._refuse(f"{node.sql(dialect='duckdb')!r} is not understood here")

    def _refuse(self, why: str) -> InvalidInputError:
        return InvalidInputError(f"cannot read the condition {_shown(self._text)}: {why}", where=self._text)

    def _paren(self, node: Any, depth: int) -> Expr:
        return self.read(node.this, depth)

    def _and(self, node: Any, depth: int) -> Expr:
        return all_of(*(self.read(part, depth) for part in node.flatten()))

    def _or(self, node: Any, depth: int) -> Expr:
        return any_of(*(self.read(part, depth) for part in node.flatten()))

    def _not(self, node: Any, depth: int) -> Expr:
        return Not(self.read(node.this, depth))

    def _column(self, node: Any, depth: int) -> Expr:
        return Column(written([part.name for part in node.parts]))

    def _dot(self, node: Any, depth: int) -> Expr:
        return Column(written([part.name for part in node.parts]))

    def _boolean(self, node: Any, depth: int) -> Expr:
        return Constant(bool(node.this))

    def _null(self, node: Any, depth: int) -> Expr:
        return Constant(None)

    def _literal(self, node: Any, depth: int) -> Expr:
        if node.is_string:
            return Constant(node.this)
        text = node.this
        if text.isdigit():
            return Constant(int(text))
        return Constant(float(text))

    def _neg(self, node: Any, depth: int) -> Expr:
        inner = self.read(node.this, depth)
        if isinstance(inner, Constant) and isinstance(inner.value, int | float | decimal.Decimal):
            return Constant(-inner.value)  # a constant, since IN takes nothing else
        return FunctionCall("negate", (inner,))

    def _between(self, node: Any, depth: int) -> Expr:
        arg = self.read(node.this, depth)
        low, high = self.read(node.args["low"], depth), self.read(node.args["high"], depth)
        return all_of(Compare(">=", arg, low), Compare("<=", arg, high))

    def _is(self, node: Any, depth: int) -> Expr:
        arg, what = self.read(node.this, depth), self.read(node.expression, depth)
        if isinstance(what, Constant) and what.value is None:
            return IsNull(arg)
        if isinstance(what, Constant) and isinstance(what.value, bool):
            # IS TRUE is false for null, where a comparison alone would be null.
            return all_of(Not(IsNull(arg)), Compare("=", arg, what))
        raise self._refuse("after IS stands NULL, TRUE or FALSE")

    def _in(self, node: Any, depth: int) -> Expr:
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            raise self._refuse("IN takes a list of values here")
        values = [self.read(value, depth) for value in node.expressions]
        if not all(isinstance(value, Constant) for value in values):
            raise self._refuse("IN takes constant values")
        return In(self.read(node.this, depth), tuple(value.value for value in values))  # type: ignore[attr-defined]

    def _like(self, node: Any, depth: int) -> Expr:
        return FunctionCall("like", (self.read(node.this, depth), self.read(node.expression, depth)))

    def _cast(self, node: Any, depth: int) -> Expr:
        inner = self.read(node.this, depth)
        if not isinstance(inner, Constant):
            raise self._refuse("only constants can be cast")
        kind = node.to.this.name if node.to is not None else ""
        return Constant(self._typed(kind, inner.value))

    def _typed(self, kind: str, value: Any) -> Any:
        try:
            if kind in _PARSERS and value is not None:
                return _PARSERS[kind](value)
        except (ValueError, decimal.InvalidOperation) as error:
            raise self._refuse(f"{value!r} is no {kind.lower()}") from error
        if kind in _PARSERS:
            return None
        raise self._refuse(f"constants of type {kind} are not understood")

    def _unhex(self, node: Any, depth: int) -> Expr:
        inner = self.read(node.this, depth)
        if isinstance(inner, Constant) and isinstance(inner.value, str):
            try:
                return Constant(bytes.fromhex(inner.value))
            except ValueError:
                pass
        raise self._refuse("from_hex takes a text of hexadecimal digits")

    def _hexstring(self, node: Any, depth: int) -> Expr:
        return Constant(bytes.fromhex(node.this))

    def _anonymous(self, node: Any, depth: int) -> Expr:
        return self._call(node.name.lower(), node.expressions, depth)

    def _call(self, name: str, arguments: list[Any], depth: int) -> Expr:
        arity = 2 if name == "matches" else FUNCTIONS[name].arity if name in FUNCTIONS else None
        if arity is None:
            raise self._refuse(f"there is no function {name!r}")
        if len(arguments) != arity:
            raise self._refuse(f"{name} takes {arity} arguments, not {len(arguments)}")
        return FunctionCall(name, tuple(self.read(argument, depth) for argument in arguments))

    def _jsonextractscalar(self, node: Any, depth: int) -> Expr:
        return self._call("json_extract_string", [node.this, node.expression], depth)

    def _startswith(self, node: Any, depth: int) -> Expr:
        return self._call("starts_with", [node.this, node.expression], depth)

    def _endswith(self, node: Any, depth: int) -> Expr:
        return self._call("ends_with", [node.this, node.expression], depth)

    def _contains(self, node: Any, depth: int) -> Expr:
        return self._call("contains", [node.this, node.expression], depth)

    def _regexplike(self, node: Any, depth: int) -> Expr:
        return self._call("regexp_matches", [node.this, node.expression], depth)


_COMPARE: dict[str, CompareOp] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_OPERATORS = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Mod": "modulo"}
_UNARY = {
    "Abs": "abs",
    "Lower": "lower",
    "Upper": "upper",
    "Length": "length",
    "Trim": "trim",
    "Year": "year",
    "Month": "month",
    "Day": "day",
    "Hour": "hour",
}


def _datetime(value: str) -> dt.datetime:
    return dt.datetime.fromisoformat(value)


def _timestamptz(value: str) -> dt.datetime:
    parsed = dt.datetime.fromisoformat(value)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "DATE": dt.date.fromisoformat,
    "TIME": dt.time.fromisoformat,
    "TIMESTAMP": _datetime,
    "TIMESTAMPNTZ": _datetime,
    "TIMESTAMPTZ": _timestamptz,
    "UUID": uuid.UUID,
    "DOUBLE": float,
    "FLOAT": float,
    "DECIMAL": lambda value: decimal.Decimal(str(value)),
    "INT": int,
    "BIGINT": int,
    "SMALLINT": int,
    "TINYINT": int,
    "TEXT": str,
    "VARCHAR": str,
}
