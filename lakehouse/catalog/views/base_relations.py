"""Base relations of a query, as DuckDB's parser finds them in its text; nothing is bound or run."""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.catalog.views.query_trees import NamesInScope, TreeNode, query_tree, tree_nodes
from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import is_utf8, short

__all__ = ["relations_in", "table_name"]


def relations_in(sql: str) -> tuple[tuple[str, ...], ...] | None:
    """Returns the names in a query of DuckDB's dialect, as parts, each once and in order.

    None = not known: DuckDB is not installed, or cannot show the tree of such a statement. Names inside of
    ``query('…')`` and of files are no relations.

    Raises:
        InvalidInputError: the text is not one query.
    """
    if not is_utf8(sql):
        raise InvalidInputError(f"the SQL of a view is text in UTF-8, not {short(sql)}")
    try:
        tree = query_tree(sql)
    except ImportError:
        return None
    if tree.get("error"):
        if tree.get("error_type") == "not implemented":
            return None
        raise InvalidInputError(
            f"DuckDB cannot parse the SQL of the view: {str(tree.get('error_message'))[:300]}. Give "
            "depends_on if another version of DuckDB can"
        )
    if len(tree["statements"]) != 1:
        raise InvalidInputError(f"a view is one query, not {len(tree['statements'])} statements")
    return tuple(dict.fromkeys(_relations(tree)))


def _relations(tree: TreeNode) -> Iterator[tuple[str, ...]]:
    for node, scope in tree_nodes(tree["statements"]):
        name = table_name(node, scope)
        # DuckDB reads a file where a table is named by a path.
        if name and not (len(name) == 1 and any(mark in name[0] for mark in "./:*")):
            yield name


def table_name(node: TreeNode, scope: NamesInScope) -> tuple[str, ...]:
    """Returns the parts of the name of a base table; none of another node, and of a name of the scope."""
    if node.get("type") != "BASE_TABLE":
        return ()
    path = (node.get("qualified_name") or {}).get("path")
    parts = path or (node.get("catalog_name"), node.get("schema_name"), node.get("table_name"))
    name = tuple(str(part) for part in parts if part)
    # All rows so far of a recursive definition with keys are called ``recurring.name``.
    local = name[1:] if len(name) == 2 and name[0].casefold() == "recurring" else name
    return () if len(local) == 1 and local[0].casefold() in scope else name
