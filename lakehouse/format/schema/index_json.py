"""Definitions of indexes as JSON, the way they stand in a schema.

Invariant: what :func:`index_from_json` returns is what :func:`index_to_json` was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.format.limits.json_object import INT32_MAX, JsonObject, each, flag, members, ratio, text, whole
from lakehouse.format.schema.index_definition import Backend, IndexDefinition, IndexKind
from lakehouse.format.schema.target_key import (
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
)
from lakehouse.format.text.config import Analyzer

__all__ = ["index_from_json", "index_to_json"]


def index_to_json(one: IndexDefinition) -> dict[str, Any]:
    """The members of a definition; see ``docs/spec/v1/schema.md``."""
    return {"id": one.id, "kind": one.kind.value, "target": _target_to_json(one.target), **one.options}


def index_from_json(found: JsonObject) -> IndexDefinition:
    """The definition with these members; CorruptionError when they are none."""
    kind = found.read("kind", IndexKind)
    backend = found.read("backend", Backend) if kind is IndexKind.FULLTEXT else Backend.BLOOM
    one = IndexDefinition(
        id=found.read("id", _number),
        kind=kind,
        backend=backend,
        target=found.read("target", _target_from_json),
    )
    readers: Mapping[str, Any] = {
        "granularity": _number,
        "segment_row_count": _number,
        "false_positive_rate": ratio,
        "analyzer": Analyzer,
        "backend": Backend,
        "case_sensitive": flag,
        "compress": flag,
    }
    values = {name: found.read(name, readers[name]) for name in one.options}
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


def _target_from_json(value: Any) -> IndexTarget:
    found = members(value)
    if "expression" in found:
        return ExpressionTarget.of(text(found["expression"]))
    if "columns" in found:
        return ColumnSetTarget(column_ids=each(_number)(found["columns"]))
    if "pointer" in found:
        return JsonPathTarget(column_id=_number(found["column"]), pointer=text(found["pointer"]))
    return ColumnTarget(column_id=_number(found["column"]))


def _number(value: Any) -> int:
    return whole(value, 1, INT32_MAX)
