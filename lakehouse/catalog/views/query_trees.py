"""Trees of queries as DuckDB's parser gives them, and the one walk over them; nothing is bound or run.

Invariant: a name that a ``with`` clause defines is in the scope of exactly the nodes that see its definition.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from lakehouse.errors import InvalidInputError

__all__ = ["NamesInScope", "TreeNode", "query_tree", "tree_nodes"]

TreeNode = dict[str, Any]
"""An object of the tree's JSON."""
NamesInScope = frozenset[str]
"""Names of ``with`` clauses that a node sees, casefolded."""

_PARSERS: dict[int, Any] = {}
# By process, as a fork cannot use its parent's.
_NO_NAMES: NamesInScope = frozenset()


def query_tree(text: str) -> TreeNode:
    """Returns what DuckDB's parser says of a text: its ``statements``, or an ``error``.

    Raises:
        ImportError: DuckDB is not installed.
        InvalidInputError: the text nests deeper than Python reads.
    """
    import duckdb

    parser = _PARSERS.get(os.getpid())
    if parser is None:
        # Of one thread, so that it starts none.
        made = duckdb.connect(config={"threads": 1, "async_threads": 0, "enable_external_access": "false"})
        parser = _PARSERS.setdefault(os.getpid(), made)
    row = parser.cursor().execute("select json_serialize_sql(?)", [text]).fetchone()
    try:
        tree: TreeNode = json.loads(row[0] if row is not None else "")
    except RecursionError:
        raise InvalidInputError("the SQL nests too deep: make parts of it common table expressions") from None
    return tree


def tree_nodes(root: Any) -> Iterator[tuple[TreeNode, NamesInScope]]:
    """Yields every object of a tree, outer ones first, with the names that ``with`` clauses define there."""
    # A stack of its own: the tree is as deep as the text nests.
    waiting: list[tuple[Any, NamesInScope]] = [(root, _NO_NAMES)]
    while waiting:
        node, scope = waiting.pop()
        if isinstance(node, list):
            waiting.extend((one, scope) for one in reversed(node))
        elif isinstance(node, dict):
            yield node, scope
            waiting.extend(reversed(list(_inside(node, scope))))


def _inside(node: TreeNode, scope: NamesInScope) -> Iterator[tuple[Any, NamesInScope]]:
    """Yields the members of a node, each with its scope."""
    if node.get("type") == "RECURSIVE_CTE_NODE":
        scope |= {str(node.get("cte_name")).casefold()}
    for entry in (node.get("cte_map") or {}).get("map") or ():
        # A definition sees those before it, and itself only where it is recursive.
        yield entry.get("value"), scope
        scope |= {str(entry.get("key")).casefold()}
    for name, member in node.items():
        if name != "cte_map":
            yield member, scope
