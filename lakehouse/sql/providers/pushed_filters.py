"""Conditions that DuckDB pushes into a scan, as expressions of ours with the same meaning.

Invariant: an expression that is made here keeps exactly the rows that DuckDB would keep. What our evaluation
may see differently (types that are cut to another unit, deep trees) stays with DuckDB.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from duckdb._sources.nodes import Binary, Col, In, Lit, Node, Postfix, Unary

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, all_of, any_of, bind, col, lit
from lakehouse.expr.column_names import written
from lakehouse.expr.nodes import Column, Compare, CompareOp, IsNull, Not
from lakehouse.expr.nodes import In as IsIn

__all__ = ["to_expr"]

_DEPTH_MAX = 64
"""Levels of conditions within conditions, a chain of one connective counted once."""
_COMPARISONS: dict[str, CompareOp] = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("ms"): "TIMESTAMP_MS",
    pa.timestamp("s"): "TIMESTAMP_S",
}
"""DuckDB's name of each type whose values it compares as we do."""


class _Unfit(Exception):
    """A condition stays with DuckDB."""


def to_expr(node: Node, schema: pa.Schema, prefix: str = "") -> Expr | None:
    """Returns a pushed condition as an expression; None = leave it to DuckDB.

    Args:
        node: the condition.
        schema: the columns it may read.
        prefix: of a source for planning, which calls them by their numbers behind it.
    """
    try:
        expr = _Translation(schema, prefix).of(node, 0)
        bind(expr, schema)
    except (_Unfit, InvalidInputError):
        return None
    return expr


@dataclass(frozen=True, slots=True)
class _Translation:
    """Makes expressions over some columns."""

    schema: pa.Schema
    prefix: str

    def of(self, node: Node, depth: int) -> Expr:
        """Returns the expression of a condition that stands so many levels deep."""
        if depth > _DEPTH_MAX:
            raise _Unfit
        match node:
            case Binary(op="AND" | "OR" as op):
                joined = all_of if op == "AND" else any_of
                return joined(*(self.of(part, depth + 1) for part in _chain(node, op)))
            case Unary(op="NOT", operand=operand):
                return Not(self.of(operand, depth + 1))
            case Postfix(op="IS NULL" | "IS NOT NULL" as op, operand=Col() as column):
                absent = IsNull(self._column(column)[0])
                return absent if op == "IS NULL" else Not(absent)
            case Binary(op=op, left=Col() as column, right=Lit() as constant) if op in _COMPARISONS:
                named, kind = self._column(column)
                return Compare(_COMPARISONS[op], named, lit(_value(constant, kind)))
            case In(operand=Col() as column, values=constants):
                named, kind = self._column(column)
                return IsIn(named, tuple(_value(constant, kind) for constant in constants))
        raise _Unfit

    def _column(self, column: Col) -> tuple[Column, pa.DataType]:
        """Returns a column, or a field inside one, with its type."""
        head, *steps = column.parts
        if self.prefix:
            head = self.schema.names[int(head.removeprefix(self.prefix))]
        elif head not in self.schema.names:
            raise _Unfit
        kind = self.schema.field(head).type
        for step in steps:
            if not pa.types.is_struct(kind) or kind.get_field_index(step) < 0:
                raise _Unfit
            kind = kind.field(step).type
        return col(written((head, *steps))), kind.value_type if pa.types.is_dictionary(kind) else kind


def _chain(node: Node, op: str) -> Iterator[Node]:
    """Yields what one connective joins, in order; DuckDB hands thousands of them over as a tree of pairs."""
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, Binary) and part.op == op:
            pending += (part.right, part.left)
        else:
            yield part


def _value(node: Node, kind: pa.DataType) -> Any:
    """Returns a constant as a value of the column's type."""
    if not isinstance(node, Lit) or node.type != _name_of(kind) or node.value is None:
        raise _Unfit
    if node.type == "TIMESTAMP WITH TIME ZONE":
        return _EPOCH + dt.timedelta(microseconds=cast("int", node.value))
    return node.value


def _name_of(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None:
        return "TIMESTAMP WITH TIME ZONE"
    return _NAMES.get(kind)
