"""Meanings of names: which relation, namespace or catalog a name may stand for, by its parts alone.

Two parts are a table of the warehouse, and may be a namespace of an attached catalog; three or more are of a
catalog. What is there is for the sources to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.catalog.graph.references import show_name
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.sources import SourceSet
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.storage.metadata import TableName

__all__ = ["Meaning", "ambiguous_error", "container_meanings", "missing_error", "relation_meaning"]

_TABLE_PARTS = 2
"""Parts of the name of a table of the warehouse; those of catalogs have more."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """One thing that a name may stand for."""

    kind: NodeKind
    """``TABLE`` for views too: which of the two it is says the source."""
    catalog: str
    path: RelationPath = ()


def relation_meaning(parts: RelationPath, sources: SourceSet) -> Meaning:
    """Returns the relation that a name may stand for.

    Raises:
        InvalidInputError: it has too few parts.
        NotFoundError: its catalog is not attached.
    """
    if len(parts) < _TABLE_PARTS:
        TableName.parse(show_name(parts))  # raises: it has no database
        raise InvalidInputError(f"{show_name(parts)} is not the name of a table: it needs a database")
    if len(parts) == _TABLE_PARTS:
        return Meaning(NodeKind.TABLE, "", parts)
    sources.get(parts[0])
    return Meaning(NodeKind.TABLE, parts[0], parts[1:])


def container_meanings(parts: RelationPath, sources: SourceSet) -> list[Meaning]:
    """Returns the namespaces and catalogs that a name may stand for."""
    found = list[Meaning]()
    if len(parts) == 1:
        if parts[0] in sources:
            found.append(Meaning(NodeKind.CATALOG, parts[0]))
        if "" in sources:
            found.append(Meaning(NodeKind.NAMESPACE, "", parts))
    elif parts[0] in sources:
        found.append(Meaning(NodeKind.NAMESPACE, parts[0], parts[1:]))
    return found


def ambiguous_error(parts: RelationPath, kinds: list[str]) -> InvalidInputError:
    """Returns the error for a name that fits several things."""
    shown = show_name(parts)
    return InvalidInputError(
        f"{shown} fits several objects: {', '.join(kinds)}: say which kind is meant, or use its id",
        kind="ambiguous_name",
        name=shown,
        candidates=kinds,
    )


def missing_error(parts: RelationPath, what: str) -> NotFoundError:
    """Returns the error for a name that nothing has."""
    shown = show_name(parts)
    return NotFoundError(f"there is no {what} {shown}", missing=what, name=shown)
