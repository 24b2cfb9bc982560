"""Names of relations in a statement: which full names each may stand for.

Invariant: a name has one meaning in a statement, the first of its candidates that is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from lakehouse.catalog import Query, RelationNode
from lakehouse.catalog.graph import show_name
from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import InvalidInputError, NotFoundError

__all__ = ["candidates", "find_relation"]


def candidates(parts: RelationPath, paths: Sequence[RelationPath]) -> tuple[RelationPath, ...]:
    """Returns the full names that a name may stand for, the likeliest first.

    Args:
        parts: of the name, as it was written.
        paths: databases, or catalogs with a namespace, in which names are looked for.

    Raises:
        InvalidInputError: it has no database, and there is none to look in.
    """
    if len(parts) == 1:
        if not paths:
            raise InvalidInputError(
                f"{show_name(parts)} has no database: write database.{show_name(parts)}, pass database=, or "
                "begin with USE"
            )
        return tuple((*path, *parts) for path in paths)
    if len(parts) > 2:
        return (parts,)
    # Beside a namespace of a catalog its neighbours are meant before databases of the warehouse.
    return (*((*path[:-1], *parts) for path in paths if len(path) > 1), parts)


async def find_relation(query: Query, names: Sequence[RelationPath]) -> RelationNode:
    """Returns the node of the first name that something has.

    Raises:
        NotFoundError: nothing has any of them; the message is about the first.
    """
    first, *others = names
    try:
        return await query.relation(first)
    except NotFoundError:
        for name in others:
            with contextlib.suppress(NotFoundError):
                return await query.relation(name)
        raise
