"""Relations that the catalog computes: those of ``information_schema``, with their columns.

They are there in every lake, for every engine, and cannot be made, changed or dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pyarrow as pa

from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import NamespaceNode, Origin, RelationPath, SystemViewNode
from lakehouse.catalog.system.objects import SYSTEM_ACCOUNT
from lakehouse.errors import NotFoundError
from lakehouse.storage.metadata import INFORMATION_SCHEMA
from lakehouse.suggest import suggestion

__all__ = ["RELATIONS", "relation_schema", "system_namespace", "system_relations"]

_VERSION = "1"
"""Version of the relations' columns: raised when one changes."""
_CATALOG = ResourceId.named(SYSTEM_ACCOUNT, NodeKind.CATALOG, "")
_NAMESPACE = ResourceId.named(SYSTEM_ACCOUNT, NodeKind.NAMESPACE, INFORMATION_SCHEMA)
_TEXT, _INT = pa.string(), pa.int32()
_TABLE = {"table_catalog": _TEXT, "table_schema": _TEXT, "table_name": _TEXT}
_CONSTRAINT = {"constraint_catalog": _TEXT, "constraint_schema": _TEXT, "constraint_name": _TEXT}

RELATIONS: Mapping[str, Mapping[str, pa.DataType]] = {
    "schemata": {"catalog_name": _TEXT, "schema_name": _TEXT},
    "tables": {**_TABLE, "table_type": _TEXT},
    "columns": {
        **_TABLE,
        "column_name": _TEXT,
        "ordinal_position": _INT,
        "column_default": _TEXT,
        "is_nullable": _TEXT,
        "data_type": _TEXT,
        "numeric_precision": _INT,
        "numeric_scale": _INT,
    },
    "views": {
        **_TABLE,
        "view_definition": _TEXT,
        "view_dialect": _TEXT,
        "is_updatable": _TEXT,
        "view_owner": _TEXT,
    },
    "table_constraints": {**_CONSTRAINT, **_TABLE, "constraint_type": _TEXT, "enforced": _TEXT},
    "key_column_usage": {**_CONSTRAINT, **_TABLE, "column_name": _TEXT, "ordinal_position": _INT},
    "constraint_column_usage": {**_TABLE, "column_name": _TEXT, **_CONSTRAINT},
    "check_constraints": {**_CONSTRAINT, "check_clause": _TEXT},
}
"""Columns of each relation of ``information_schema``."""


def relation_schema(name: str) -> pa.Schema:
    """Returns the Arrow schema of a relation of ``information_schema``."""
    columns = RELATIONS.get(name)
    if columns is None:
        raise NotFoundError(
            f"{INFORMATION_SCHEMA} has no relation {name!r}{suggestion(name, RELATIONS)}", relation=name
        )
    return pa.schema(list(columns.items()))


@functools.cache
def system_namespace() -> NamespaceNode:
    """Returns the namespace of the relations."""
    return NamespaceNode(
        id=_NAMESPACE,
        version=_VERSION,
        origin=Origin.SYSTEM,
        catalog=_CATALOG,
        path=(INFORMATION_SCHEMA,),
        display=INFORMATION_SCHEMA,
        children=(),
    )


@functools.cache
def system_relations() -> tuple[SystemViewNode, ...]:
    """Returns the relations, in order of their names."""
    return tuple(_node((INFORMATION_SCHEMA, name)) for name in sorted(RELATIONS))


def _node(path: RelationPath) -> SystemViewNode:
    columns = RELATIONS[path[-1]].items()
    return SystemViewNode(
        id=ResourceId.named(SYSTEM_ACCOUNT, NodeKind.SYSTEM_VIEW, *path),
        version=_VERSION,
        catalog=_CATALOG,
        namespace=_NAMESPACE,
        path=path,
        display=".".join(path),
        columns=tuple((column, str(kind)) for column, kind in columns),
    )
