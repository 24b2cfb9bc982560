"""Views as a graph: what a view reads, which views read a relation, and what is missing or goes in a circle.

Words: a view *reads* its *base relations*, tables and other views; a relation's *impact* is the views that
read it, directly or through others. Relations are named in full: ``database.name`` or
``catalog.namespace.name``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.views.base_relations import relations_in, table_name
    from lakehouse.catalog.views.dependencies import (
        Dependency,
        ViewDependencies,
        ViewImpact,
        dependencies_of,
        impact_of,
        refuse_cycle,
    )
    from lakehouse.catalog.views.drafts import draft_of
    from lakehouse.catalog.views.query_trees import NamesInScope, TreeNode, query_tree, tree_nodes

__all__ = [
    "Dependency", "NamesInScope", "TreeNode", "ViewDependencies", "ViewImpact", "dependencies_of", "draft_of",
    "impact_of", "query_tree", "refuse_cycle", "relations_in", "table_name", "tree_nodes",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "base_relations": "relations_in table_name",
        "dependencies": "Dependency ViewDependencies ViewImpact dependencies_of impact_of refuse_cycle",
        "drafts": "draft_of",
        "query_trees": "NamesInScope TreeNode query_tree tree_nodes",
    },
)
