"""Text of views: what DuckDB reads in place of a reference.

Invariant: no text of a user's is in here but names and paths, which are quoted.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.sql.engine import VirtualFiles
from lakehouse.sql.providers import select_list
from lakehouse.sql.relations.relation import PlainFiles, Relation
from lakehouse.sql.text import literal, quoted

__all__ = ["named_columns", "relation_query", "rows_query"]


def relation_query(relation: Relation, names: Sequence[str], rows: str, files: VirtualFiles) -> str:
    """Returns the query that a relation is read by.

    Args:
        relation: its branches; the paths of plain files are added.
        names: of its columns.
        rows: name that its provider is registered under.
        files: of the statement.
    """
    branches = [_plain_query(one, files) for one in relation.plain]
    if relation.provider is not None:
        branches.append(rows_query(names, rows))
    return " UNION ALL ".join(branches)


def rows_query(names: Sequence[str], rows: str, prefix: str = "") -> str:
    """Returns the query of a registered source: its columns without the prefix of their names."""
    return f"SELECT {select_list(names, prefix)} FROM {quoted(rows)}"  # noqa: S608  all names are quoted


def _plain_query(plain: PlainFiles, files: VirtualFiles) -> str:
    paths = (files.add(one.store, one.key, one.size) for one in plain.files)
    # Names of directories are no columns of ours, whatever they look like.
    read = f"read_parquet([{', '.join(map(literal, paths))}], hive_partitioning = false)"
    query = f"SELECT {', '.join(plain.columns)} FROM {read}"  # noqa: S608  names are quoted, paths our own
    return f"{query} WHERE {plain.where}" if plain.where else query


def named_columns(query: str, columns: Sequence[str]) -> str:
    """Returns a query of a user's as one that can be a view, with other names of columns if there are any."""
    # On a line of its own, for the query may end with a comment.
    named = f"({', '.join(map(quoted, columns))})" if columns else ""
    return f"SELECT * FROM (\n{query}\n) AS view{named}"  # noqa: S608  DuckDB parsed it as one query
