"""Relations: what the names of a statement read, as files for DuckDB and as rows that we make.

Words: a *reference* is *bound* to a table, a view, or rows of the system, in a *scope* that says where names
are looked for. A *relation* is its *branches*: *plain* files, which DuckDB reads by itself, and a provider
for all others. *Travel* is the time that a reference asks for. The *planner* defines all of a statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sql.relations.bound import Binder, BoundReference, NameScope, SystemRelations
    from lakehouse.sql.relations.planner import Planned, RelationPlanner
    from lakehouse.sql.relations.relation import PinnedRows, Relation, RelationReport
    from lakehouse.sql.relations.travel import NOW, Travel, travel_of

__all__ = [
    "NOW", "Binder", "BoundReference", "NameScope", "PinnedRows", "Planned", "Relation", "RelationPlanner",
    "RelationReport", "SystemRelations", "Travel", "travel_of",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "bound": "Binder BoundReference NameScope SystemRelations",
        "planner": "Planned RelationPlanner",
        "relation": "PinnedRows Relation RelationReport",
        "travel": "NOW Travel travel_of",
    },
)
