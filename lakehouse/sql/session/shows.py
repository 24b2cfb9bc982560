"""Queries of the system's own relations, which ``SHOW`` stands for.

Invariant: names stand in a query as quoted identifiers or come as parameters, whatever is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import InvalidInputError
from lakehouse.sql.text import QueryTree, ShowNames, ShowSubject, SqlText, quoted, references_in, statement_in

__all__ = ["shown_query"]

_RELATIONS = (
    "SELECT table_name AS name, table_type AS kind FROM information_schema.tables "
    "WHERE table_catalog = $catalog AND table_schema = $schema"
)
_TEXTS: Mapping[ShowSubject, str] = {
    ShowSubject.TABLES: _RELATIONS,
    ShowSubject.VIEWS: f"{_RELATIONS} AND table_type = 'VIEW'",
    ShowSubject.DATABASES: (
        "SELECT schema_name AS name FROM information_schema.schemata WHERE catalog_name = $catalog"
    ),
    ShowSubject.CATALOGS: "SELECT * FROM system.catalogs",
    ShowSubject.SETTINGS: "SELECT * FROM system.settings",
}
_OF_TABLES: Mapping[ShowSubject, str] = {
    ShowSubject.TAGS: "tags",
    ShowSubject.SNAPSHOTS: "snapshots",
    ShowSubject.PARTITIONS: "partitions",
    ShowSubject.INDEXES: "puffin_index_meta",
    ShowSubject.OPTIONS: "options",
}
"""Relation of a table that has the rows of a subject."""


def shown_query(show: ShowNames, path: RelationPath) -> tuple[QueryTree, Mapping[str, Any]]:
    """Returns the query of what is shown, and its parameters; parsed by DuckDB, so in a thread.

    Args:
        show: the statement.
        path: database of the session, which is meant where none is named.

    Raises:
        InvalidInputError: no database is named, or the subject is not shown.
    """
    text, values = _text(show, path)
    if show.like is not None:
        values["pattern"] = show.like
        text = f"SELECT * FROM ({text}) AS shown WHERE name LIKE $pattern"  # noqa: S608  a query from above
    if show.subject is not ShowSubject.COLUMNS:
        text += " ORDER BY ALL"
    return references_in(statement_in(SqlText.of(text, max_bytes=len(text.encode())))), values


def _text(show: ShowNames, path: RelationPath) -> tuple[str, dict[str, Any]]:
    name = () if show.name is None else show.name.parts
    if show.subject is ShowSubject.CREATE:
        raise InvalidInputError(
            "SHOW CREATE is not supported yet: DESCRIBE a table, or SHOW OPTIONS FROM it", kind="unsupported"
        )
    if show.subject is ShowSubject.COLUMNS:
        return f"DESCRIBE {_joined(name)}", {}
    if show.subject in _OF_TABLES:
        relation = _joined((*name[:-1], f"{name[-1]}${_OF_TABLES[show.subject]}"))
        return f"SELECT * FROM {relation}", {}  # noqa: S608  the name is quoted
    return _TEXTS[show.subject], _place(show.subject, name, path)


def _joined(parts: RelationPath) -> str:
    return ".".join(map(quoted, parts))


def _place(subject: ShowSubject, name: RelationPath, path: RelationPath) -> dict[str, Any]:
    """Returns the values that say which catalog and database are looked into."""
    if subject is ShowSubject.DATABASES:
        return {"catalog": ".".join(name or path[: len(path) - 1])}
    if subject not in (ShowSubject.TABLES, ShowSubject.VIEWS):
        return {}
    where = name or path
    if not where:
        raise InvalidInputError(
            f"SHOW {subject.value} needs a database: SHOW {subject.value} FROM sales, database=, or USE"
        )
    catalog, schema = ("", where) if len(where) == 1 else (where[0], where[1:])
    return {"catalog": catalog, "schema": ".".join(schema)}
