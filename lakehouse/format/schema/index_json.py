"""Definitions of indexes as JSON members of a schema.

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


def index_to_json(definition: IndexDefinition) -> dict[str, Any]:
    """Returns the members of a definition; see ``docs/spec/v1/schema.md``."""
    return {
        "id": definition.id,
        "kind": definition.kind.value,
        "target": _target_to_json(definition.target),
        **definition.options,
    }


def index_from_json(members_: JsonObject) -> IndexDefinition:
    """Returns the definition with these members; CorruptionError when one of them is invalid."""
    kind = members_.read("kind", IndexKind)
    backend = members_.read("backend", Backend) if kind is IndexKind.FULLTEXT else Backend.BLOOM
    # Kind and backend determine which options there are to read.
    bare = IndexDefinition(
        id=members_.read("id", _number),
        kind=kind,
        backend=backend,
        target=members_.read("target", _target_from_json),
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
    values = {name: members_.read(name, readers[name]) for name in bare.options}
    return IndexDefinition(id=bare.id, kind=kind, target=bare.target, **values)


def _target_to_json(target: IndexTarget) -> dict[str, Any]:
    match target:
        case ColumnTarget(column_id=id_):
            return {"column": id_}
        case ColumnSetTarget(column_ids=ids):
            return {"columns": list(ids)}
        case JsonPathTarget(column_id=id_, pointer=pointer):
            return {"column": id_, "pointer": pointer}
    return {"expression": target.expr}


def _target_from_json(value: Any) -> IndexTarget:
    target = members(value)
    if "expression" in target:
        return ExpressionTarget.of(text(target["expression"]))
    if "columns" in target:
        return ColumnSetTarget(column_ids=each(_number)(target["columns"]))
    if "pointer" in target:
        return JsonPathTarget(column_id=_number(target["column"]), pointer=text(target["pointer"]))
    return ColumnTarget(column_id=_number(target["column"]))


def _number(value: Any) -> int:
    return whole(value, 1, INT32_MAX)
