"""Changes of a table's indexes: new ones, others, fewer; and what changes of columns mean for them.

Invariant: a definition that means something else has another id, so that what files were indexed by
tells for ever what their index files say. Renaming changes no definition; a column that is dropped
takes its indexes along, and one of its name that comes later has other ids.
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
"""A column, ``"a, b"``, ``"column#/json/pointer"``, an expression, or names of columns."""


@dataclass(frozen=True, slots=True)
class AddIndex:
    """An index more, which files get from now on."""

    target: Target
    kind: str
    """``bloom``, ``inverted`` or ``fulltext``."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterIndex:
    """Other options; files that were indexed with the former ones are as if they were not."""

    target: Target
    kind: str | None = None
    """May be left out where the target has one index."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those that change."""


@dataclass(frozen=True, slots=True)
class DropIndex:
    """No such index any more."""

    target: Target
    kind: str | None = None
    """May be left out where the target has one index."""


IndexChange = AddIndex | AlterIndex | DropIndex
"""What :func:`with_index_change` does to a schema."""


def with_index_change(schema: TableSchema, change: IndexChange) -> TableSchema:
    """The schema after a change of its indexes.

    Raises:
        InvalidInputError: the change is refused; says why.
    """
    if isinstance(change, AddIndex):
        made = parse_index(change.target, change.kind, change.options, schema.fields)
        check_beside(made, schema.indexes, schema.fields)
        number = schema.highest_index_id + 1
        return replace(schema, indexes=(*schema.indexes, replace(made, id=number)), highest_index_id=number)
    old = _found(schema, change.target, change.kind)
    others = tuple(one for one in schema.indexes if one is not old)
    if isinstance(change, DropIndex):
        return replace(schema, indexes=others)
    backend = change.options.get("backend", old.options.get("backend"))
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


def _found(schema: TableSchema, target: Target, kind: str | None) -> IndexDefinition:
    key = parse_target(target, schema.fields).key
    found = [one for one in schema.indexes if one.target.key == key and kind in (None, one.kind.value)]
    if len(found) == 1:
        return found[0]
    names = by_id(schema.fields)
    if found:
        kinds = " and ".join(one.kind.value for one in found)
        raise InvalidInputError(f"{target!r} has several indexes, {kinds}: say which kind is meant")
    known = [f"{target_text(one.target, names)} ({one.kind.value})" for one in schema.indexes]
    what = f"no {kind} index" if kind is not None else "no index"
    raise InvalidInputError(f"{target!r} has {what}; {suggestion(str(target), known)}", index=str(target))


def with_indexes_following(before: TableSchema, after: TableSchema) -> TableSchema:
    """The schema after a change of columns, with the indexes that it leaves."""
    if not after.indexes or after.fields == before.fields:
        return after
    old, new = _types(before), _types(after)
    kept: list[IndexDefinition] = []
    highest = after.highest_index_id
    for one in after.indexes:
        if not one.field_ids <= new.keys():
            continue
        # Numbers are indexed as of their widest type; what an expression makes of them goes by their own.
        if isinstance(one.target, ExpressionTarget) and any(old[at] != new[at] for at in one.field_ids):
            highest += 1
            one = replace(one, id=highest)
        kept.append(one)
    return replace(after, indexes=tuple(kept), highest_index_id=highest)


def _types(schema: TableSchema) -> dict[int, pa.DataType]:
    return {one.id: arrow_type(one.type) for one in columns_of(schema.fields).values()}
