"""Definitions of indexes as JSON, the way they stand in a schema.

Invariant: what :func:`index_from_json` returns is what :func:`index_to_json` was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.format.fulltext import Analyzer
from lakehouse.format.index_definition import Backend, IndexDefinition, IndexKind
from lakehouse.format.target_key import (
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
)

__all__ = ["index_from_json", "index_to_json"]


def index_to_json(one: IndexDefinition) -> dict[str, Any]:
    """The members of a definition; see ``docs/spec/v1/schema.md``."""
    return {"id": one.id, "kind": one.kind.value, "target": _target_to_json(one.target), **one.options}


def index_from_json(found: Mapping[str, Any]) -> IndexDefinition:
    """The definition with these members; KeyError, TypeError or ValueError when they are none."""
    kind = IndexKind(found["kind"])
    backend = Backend(found["backend"]) if kind is IndexKind.FULLTEXT else Backend.BLOOM
    one = IndexDefinition(
        id=_number(found["id"]), kind=kind, backend=backend, target=_target_from_json(found["target"])
    )
    readers: Mapping[str, Any] = {
        "granularity": _number,
        "segment_row_count": _number,
        "false_positive_rate": _rate,
        "analyzer": Analyzer,
        "backend": Backend,
        "case_sensitive": _flag,
        "compress": _flag,
    }
    values = {name: readers[name](found[name]) for name in one.options}
    return IndexDefinition(id=one.id, kind=kind, target=one.target, **values)


def _target_to_json(target: IndexTarget) -> dict[str, Any]:
    match target:
        case ColumnTarget(column_id=one):
            return {"column": one}
        case ColumnSetTarget(column_ids=ids):
            return {"columns": list(ids)}
        case JsonPathTarget(column_id=one, pointer=pointer):
            return {"column": one, "pointer": pointer}
    return {"expression": target.expr}


def _target_from_json(found: Mapping[str, Any]) -> IndexTarget:
    if "expression" in found:
        return ExpressionTarget.of(_text(found["expression"]))
    if "columns" in found:
        return ColumnSetTarget(column_ids=tuple(_number(one) for one in found["columns"]))
    if "pointer" in found:
        return JsonPathTarget(column_id=_number(found["column"]), pointer=_text(found["pointer"]))
    return ColumnTarget(column_id=_number(found["column"]))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is no number from 1")
    return value


def _rate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"{value!r} is no rate")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
