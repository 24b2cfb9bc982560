"""Columns of relations: each with its type, or with why it cannot be given.

Invariant: one column that is damaged or of an unknown type does not keep the others from being given.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.catalog.bundles.chunks import ColumnResult, FailureCode, ResolutionFailure
from lakehouse.catalog.nodes import RelationNode, SystemViewNode, TableNode, ViewNode
from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.limits import JsonObject, parse_json
from lakehouse.iceberg.types import parse_schema

__all__ = ["columns_of", "projected"]

_SCHEMAS_KEPT = 512


def columns_of(node: RelationNode, schema_json: str) -> tuple[ColumnResult, ...]:
    """Returns all columns of a relation, those of a table in the schema that is read."""
    if isinstance(node, TableNode):
        return _table_columns(schema_json, node.display)
    if isinstance(node, ViewNode):
        return tuple(ColumnResult(name=name, ordinal=at) for at, name in enumerate(node.columns, 1))
    if isinstance(node, SystemViewNode):
        return tuple(ColumnResult(name=name, ordinal=at, type=kind) for at, (name, kind) in _each(node))
    return ()


def _each(node: SystemViewNode) -> list[tuple[int, tuple[str, str]]]:
    return list(enumerate(node.columns, 1))


def projected(
    columns: Sequence[ColumnResult], wanted: Sequence[str], newest: Mapping[str, Any]
) -> tuple[ColumnResult, ...]:
    """Returns the columns that are wanted, in the order of the wish.

    Args:
        columns: all columns, in the schema that is read.
        wanted: names.
        newest: columns of the newest schema, to tell a column that is not there yet from one that never was.
    """
    by_name = {column.name: column for column in columns}
    return tuple(by_name.get(name) or _missing(name, newest) for name in wanted)


def _missing(name: str, newest: Mapping[str, Any]) -> ColumnResult:
    if name in newest:
        code, why = FailureCode.SCHEMA_MISMATCH, "is a column of the newest schema, and not of the pinned one"
    else:
        code, why = FailureCode.NOT_FOUND, "is no column of the relation"
    return ColumnResult(name=name, ordinal=0, failure=ResolutionFailure(code=code, message=f"{name!r} {why}"))


@functools.lru_cache(_SCHEMAS_KEPT)
def _table_columns(schema_json: str, table: str) -> tuple[ColumnResult, ...]:
    # A schema never changes, and most requests ask for those of the last one again.
    try:
        document = parse_json(schema_json.encode())
        fields = document["fields"]
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise ValueError("its fields are no list of objects")
    except (ValueError, TypeError, LookupError) as error:
        raise CorruptionError(f"the schema of {table} cannot be read: {error}", table=table) from error
    return tuple(_column(field, at, table) for at, field in enumerate(fields, 1))


def _column(field: Mapping[str, Any], ordinal: int, table: str) -> ColumnResult:
    name, number, kind = field.get("name"), field.get("id"), field.get("type")
    comment = field.get("doc")
    return ColumnResult(
        name=name if isinstance(name, str) else "",
        ordinal=ordinal,
        id=number if type(number) is int else None,
        type=kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":")),
        required=field.get("required") is True,
        comment=comment if isinstance(comment, str) else None,
        failure=_type_failure(field, table),
    )


def _type_failure(field: Mapping[str, Any], table: str) -> ResolutionFailure | None:
    try:
        unread = parse_schema(JsonObject({"fields": [field]}, f"schema of {table}")).unread
    except FormatError as error:
        return ResolutionFailure(code=FailureCode.LOGICAL_TYPE_INVALID, message=error.message)
    if unread:
        (name, kind), *_ = unread.items()
        return ResolutionFailure(
            code=FailureCode.TYPE_NOT_SUPPORTED, message=f"column {name!r} is {kind}, a type that is not read"
        )
    return None
