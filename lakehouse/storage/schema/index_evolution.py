"""Changes of a table's index definitions: additions, alterations, drops, and the effects of column changes.

Invariant: a definition with another meaning has another id, so that the ids of an index file always tell
what it contains. Renaming a column changes no definition; dropping a column drops its indexes, and a later
column of that name has other ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import (
    ExpressionTarget,
    IndexDefinition,
    TableSchema,
    arrow_type,
    by_id,
    check_beside,
    columns_of,
    parse_index,
    parse_target,
    target_text,
)
from lakehouse.suggest import suggestion

__all__ = [
    "AddIndex",
    "AlterIndex",
    "DropIndex",
    "IndexChange",
    "Target",
    "with_index_change",
    "with_indexes_following",
]

Target = str | Sequence[str]
"""Indexed value: a column, ``"a, b"``, ``"column#/json/pointer"``, an expression, or names of columns."""


@dataclass(frozen=True, slots=True)
class AddIndex:
    """Adds an index, which files get from now on."""

    target: Target
    kind: str
    """``bloom``, ``inverted`` or ``fulltext``."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterIndex:
    """Alters the options of an index; files that were indexed with the former ones count as not indexed."""

    target: Target
    kind: str | None = None
    """``bloom``, ``inverted`` or ``fulltext``; may be left out where the target has one index."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options to change; the others stay, unless the backend changes."""


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Drops an index."""

    target: Target
    kind: str | None = None
    """``bloom``, ``inverted`` or ``fulltext``; may be left out where the target has one index."""


IndexChange = AddIndex | AlterIndex | DropIndex
"""Any change that :func:`with_index_change` applies to a schema."""


def with_index_change(schema: TableSchema, change: IndexChange) -> TableSchema:
    """Returns the schema after a change of its indexes.

    Raises:
        InvalidInputError: the change is refused; the message gives the reason.
    """
    if isinstance(change, AddIndex):
        made = parse_index(change.target, change.kind, change.options, schema.fields)
        check_beside(made, schema.indexes, schema.fields)
        number = schema.highest_index_id + 1
        return replace(schema, indexes=(*schema.indexes, replace(made, id=number)), highest_index_id=number)
    old = _definition(schema, change.target, change.kind)
    others = tuple(index for index in schema.indexes if index is not old)
    if isinstance(change, DropIndex):
        return replace(schema, indexes=others)
    backend = change.options.get("backend", old.options.get("backend"))
    # Options of one backend mean nothing to another.
    kept = old.options if backend == old.options.get("backend") else {}
    made = parse_index(
        change.target, old.kind.value, {**kept, **change.options}, schema.fields, number=old.id
    )
    if made == old:
        return schema
    check_beside(made, others, schema.fields)
    number = schema.highest_index_id + 1
    altered = tuple(replace(made, id=number) if one is old else one for one in schema.indexes)
    return replace(schema, indexes=altered, highest_index_id=number)


def _definition(schema: TableSchema, target: Target, kind: str | None) -> IndexDefinition:
    """Returns the index of a target, and of a kind if given; refuses none and several."""
    key = parse_target(target, schema.fields).key
    matching = [
        index for index in schema.indexes if index.target.key == key and kind in (None, index.kind.value)
    ]
    if len(matching) == 1:
        return matching[0]
    names = by_id(schema.fields)
    if matching:
        kinds = " and ".join(index.kind.value for index in matching)
        raise InvalidInputError(f"{target!r} has several indexes, {kinds}: say which kind is meant")
    known = [f"{target_text(index.target, names)} ({index.kind.value})" for index in schema.indexes]
    what = f"no {kind} index" if kind is not None else "no index"
    raise InvalidInputError(f"{target!r} has {what}; {suggestion(str(target), known)}", index=str(target))


def with_indexes_following(before: TableSchema, after: TableSchema) -> TableSchema:
    """Returns the schema after a change of columns with the indexes that remain valid.

    Args:
        before: the schema before the change.
        after: the schema after it, with the indexes of the one before.
    """
    if not after.indexes or after.fields == before.fields:
        return after
    old, new = _types(before), _types(after)
    kept: list[IndexDefinition] = []
    highest = after.highest_index_id
    for index in after.indexes:
        if not index.field_ids <= new.keys():
            continue  # a column of it is dropped
        # Indexes hold numbers of the widest type, but the value of an expression depends on the column's own.
        if isinstance(index.target, ExpressionTarget) and any(old[at] != new[at] for at in index.field_ids):
            highest += 1
            index = replace(index, id=highest)
        kept.append(index)
    return replace(after, indexes=tuple(kept), highest_index_id=highest)


def _types(schema: TableSchema) -> dict[int, pa.DataType]:
    return {column.id: arrow_type(column.type) for column in columns_of(schema.fields).values()}
