"""Statements of SQL as tests write them."""

from __future__ import annotations

from pathlib import Path

from lakehouse.sql.text import QueryTree, SqlText, StatementText, references_in, statement_in, statements_in

__all__ = ["TPCH", "parts_in", "script", "statement", "statements", "tree_of", "words_at"]

TPCH = {
    path.stem: path.read_text() for path in sorted((Path(__file__).parents[1] / "data/tpch").glob("*.sql"))
}
"""Queries of TPC-H by number, such as ``q01``."""
_MAX = 1 << 20


def script(text: str) -> SqlText:
    """A text of the largest size that is read by default."""
    return SqlText.of(text, max_bytes=_MAX)


def statement(text: str) -> StatementText:
    """The one statement of a text."""
    return statement_in(script(text))


def statements(text: str) -> tuple[StatementText, ...]:
    """All statements of a text."""
    return statements_in(script(text))


def tree_of(text: str) -> QueryTree:
    """References of a query."""
    return references_in(statement(text))


def words_at(tree: QueryTree) -> list[str]:
    """Text of each table reference, as it stands in the query."""
    return [tree.statement.raw[one.start : one.end].decode() for one in tree.tables]


def parts_in(text: str) -> list[tuple[str, ...]]:
    """Names of the tables of a query, in order."""
    return [one.parts for one in tree_of(text).tables]
