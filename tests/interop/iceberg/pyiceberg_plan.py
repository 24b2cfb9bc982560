"""Plans of pyiceberg for conditions as trees of lists."""

from __future__ import annotations

import functools
from typing import Any

from pyiceberg import expressions as e
from pyiceberg.expressions.literals import literal
from pyiceberg.table import StaticTable

from tests.interop.iceberg.values import Condition

__all__ = ["CannotPlan", "planned", "to_expression"]

_PLAIN = {
    "=": e.EqualTo,
    "<>": e.NotEqualTo,
    "<": e.LessThan,
    "<=": e.LessThanOrEqual,
    ">": e.GreaterThan,
    ">=": e.GreaterThanOrEqual,
    "starts": e.StartsWith,
}
_SETS = {"in": e.In, "not in": e.NotIn}
_NULLS = {"null": e.IsNull, "not null": e.NotNull}


class CannotPlan(Exception):
    """pyiceberg refuses to plan the scan."""


@functools.lru_cache(maxsize=4)
def _table(metadata: str) -> Any:
    return StaticTable.from_metadata(metadata)


def planned(metadata: str, condition: Condition, snapshot: int | None = None) -> set[str]:
    """Paths of the data files that pyiceberg would read.

    Raises:
        CannotPlan: it says that it does not know such deletes, or plans such a condition wrongly.
    """
    if _is_infinite(condition):
        raise CannotPlan("it takes an infinite constant for one above every FLOAT, and leaves files out")
    try:
        scan = _table(metadata).scan(row_filter=to_expression(condition), snapshot_id=snapshot)
        return {task.file.file_path for task in scan.plan_files()}
    except (ValueError, NotImplementedError, TypeError) as error:
        raise CannotPlan(f"{type(error).__name__}: {error}") from error


def _is_infinite(condition: Condition) -> bool:
    """Whether a FLOAT is compared with infinity."""
    op, *rest = condition
    if op in ("and", "or", "not"):
        return any(_is_infinite(part) for part in rest)
    return rest[1] == "float" and any("Infinity" in value for value in rest[2:])


def to_expression(condition: Condition) -> Any:
    """A condition as pyiceberg has it."""
    op, *rest = condition
    if op in ("and", "or"):
        return (e.And if op == "and" else e.Or)(*map(to_expression, rest))
    if op == "not":
        return e.Not(to_expression(rest[0]))
    column, kind, *values = rest
    if op in _NULLS:
        return _NULLS[op](column)
    made = [_literal(kind, value) for value in values]
    return _SETS[op](column, made) if op in _SETS else _PLAIN[op](column, made[0])


def _literal(kind: str, text: str) -> Any:
    """A value that pyiceberg fits to the column's type itself, where it can from a text."""
    if kind in ("int", "long"):
        return literal(int(text))
    if kind in ("float", "double"):
        return literal(float(text))
    if kind == "boolean":
        return literal(text == "true")
    if kind == "binary":
        return literal(bytes.fromhex(text))
    return literal(text.replace(" ", "T") if kind.startswith("timestamp") else text)
