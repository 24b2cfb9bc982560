"""Base relations of a query, as DuckDB's parser finds them in its text; nothing is bound or run.

Invariant: a name that a ``with`` clause defines is left out exactly where that definition is seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import is_utf8, short

__all__ = ["relations_in"]

_Scope = frozenset[str]
_NO_NAMES: _Scope = frozenset()


def relations_in(sql: str) -> tuple[tuple[str, ...], ...] | None:
    """Returns the names in a query of DuckDB's dialect, as parts, each once and in order.

    None = not known: DuckDB is not installed, or cannot show the tree of such a statement. Names inside of
    ``query('…')`` and of files are no relations.

    Raises:
        InvalidInputError: the text is not one query.
    """
    try:
        import duckdb
    except ImportError:
        return None
    if not is_utf8(sql):
        raise InvalidInputError(f"the SQL of a view is text in UTF-8, not {short(sql)}")
    with duckdb.connect() as connection:
        row = connection.execute("select json_serialize_sql(?)", [sql]).fetchone()
    tree = _loaded(row[0] if row is not None else "")
    if tree.get("error"):
        if tree.get("error_type") == "not implemented":
            return None
        raise InvalidInputError(
            f"DuckDB cannot parse the SQL of the view: {str(tree.get('error_message'))[:300]}. Give "
            "depends_on if another version of DuckDB can"
        )
    if len(tree["statements"]) != 1:
        raise InvalidInputError(f"a view is one query, not {len(tree['statements'])} statements")
    return tuple(dict.fromkeys(_names(tree["statements"])))


def _loaded(text: str) -> dict[str, Any]:
    try:
        tree: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise InvalidInputError("the SQL of the view nests too deep") from None
    return tree


def _names(root: Any) -> Iterator[tuple[str, ...]]:
    # A stack of its own: the tree is as deep as the text nests.
    waiting: list[tuple[Any, _Scope]] = [(root, _NO_NAMES)]
    while waiting:
        node, scope = waiting.pop()
        if isinstance(node, list):
            waiting.extend((one, scope) for one in reversed(node))
        elif isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                yield from _table(node, scope)
            waiting.extend(reversed(list(_inside(node, scope))))


def _inside(node: dict[str, Any], scope: _Scope) -> Iterator[tuple[Any, _Scope]]:
    """Yields the parts of a node, each with the names that ``with`` clauses define there."""
    if node.get("type") == "RECURSIVE_CTE_NODE":
        scope |= {str(node.get("cte_name")).casefold()}
    for entry in (node.get("cte_map") or {}).get("map") or ():
        # A definition sees those before it, and itself only where it is recursive.
        yield entry.get("value"), scope
        scope |= {str(entry.get("key")).casefold()}
    for name, member in node.items():
        if name != "cte_map":
            yield member, scope


def _table(node: dict[str, Any], scope: _Scope) -> Iterator[tuple[str, ...]]:
    path = (node.get("qualified_name") or {}).get("path")
    parts = path or (node.get("catalog_name"), node.get("schema_name"), node.get("table_name"))
    name = tuple(str(part) for part in parts if part)
    is_local = len(name) == 1 and name[0].casefold() in scope
    # DuckDB reads a file where a table is named by a path.
    is_file = len(name) == 1 and any(mark in name[0] for mark in "./:*")
    if name and not is_local and not is_file:
        yield name
