"""Statements of a text: where each begins and ends, and which kind it is by its first words.

Invariant: no semicolon of a string, a name in quotes or a comment ends a statement, and DuckDB sees no
statement whose kind is not known here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.sql.text.sql_text import SqlText
from lakehouse.sql.text.tokens import Tokens
from lakehouse.suggest import suggestion

__all__ = ["StatementKind", "StatementText", "statement_in", "statement_within", "statements_in"]


class StatementKind(enum.StrEnum):
    """Kinds of statements, told by their first words."""

    QUERY = "query"
    """A SELECT, also as FROM, WITH, VALUES, TABLE, PIVOT and UNPIVOT, and what DuckDB says of one."""
    EXPLAIN = "EXPLAIN"
    USE = "USE"
    SET = "SET"
    RESET = "RESET"
    SHOW = "SHOW"
    DESCRIBE = "DESCRIBE"
    BEGIN_QUERY = "BEGIN QUERY"
    END_QUERY = "END QUERY"
    INSERT = "INSERT"
    UPSERT = "UPSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    MERGE = "MERGE"
    COPY = "COPY"
    CREATE = "CREATE"
    ALTER = "ALTER"
    DROP = "DROP"
    TRUNCATE = "TRUNCATE"
    COMMENT = "COMMENT"
    CALL = "CALL"
    REFRESH = "REFRESH"
    ANALYZE = "ANALYZE"


_QUERY_WORDS = (
    "SELECT",
    "FROM",
    "VALUES",
    "TABLE",
    "PIVOT",
    "PIVOT_WIDER",
    "UNPIVOT",
    "PIVOT_LONGER",
    "SUMMARIZE",
)
_HEADS: Mapping[str, StatementKind] = {
    **dict.fromkeys((*_QUERY_WORDS, "WITH", "("), StatementKind.QUERY),
    **{kind.value: kind for kind in StatementKind if kind.value.isupper() and " " not in kind.value},
    "DESC": StatementKind.DESCRIBE,
}
_PAIRS = {
    ("BEGIN", "QUERY"): StatementKind.BEGIN_QUERY,
    ("END", "QUERY"): StatementKind.END_QUERY,
}
_DESCRIBED = frozenset({*_QUERY_WORDS, "WITH", "("} - {"TABLE"})
_BEHIND_WITH = (*_QUERY_WORDS, "INSERT", "UPSERT", "UPDATE", "DELETE", "MERGE")
_COMMITS = "each statement is a commit of its own; BEGIN QUERY … END QUERY reads one state of every table"
_VALUES_APART = "give values beside the text: lake.sql(text, parameters)"
_NO_EXTENSIONS = "extensions of DuckDB are not loaded"
_CATALOGS = "catalogs are attached by lake.attach_catalog(…) and detached by lake.detach_catalog(…)"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "ABORT", "END"), _COMMITS),
    **dict.fromkeys(("PREPARE", "EXECUTE", "DEALLOCATE"), _VALUES_APART),
    **dict.fromkeys(("INSTALL", "LOAD", "FORCE"), _NO_EXTENSIONS),
    **dict.fromkeys(("ATTACH", "DETACH"), _CATALOGS),
    **dict.fromkeys(("GRANT", "REVOKE"), "rights are those of accounts: lake.accounts"),
    **dict.fromkeys(("EXPORT", "IMPORT"), "a database is its objects in the store: copy those"),
    "CHECKPOINT": "every commit is durable when it returns",
    "PRAGMA": "SET and SHOW read and change settings",
    "VACUUM": "old files are removed by table.expire_snapshots() and table.remove_orphans()",
}
_SHOWN = tuple(sorted({*_HEADS, "BEGIN QUERY", "END QUERY"} - {"("}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementText:
    """One statement of a text."""

    script: SqlText
    """The text that it is of."""
    start: int
    """Its first byte in the text."""
    end: int
    """The byte behind it, its semicolon left out."""
    kind: StatementKind

    @property
    def raw(self) -> bytes:
        """Its bytes; all offsets of what is found in a statement count from their first."""
        return self.script.raw[self.start : self.end]

    @property
    def text(self) -> str:
        """Its text."""
        return self.raw.decode()

    def error(
        self, message: str, start: int, end: int | None = None, *, kind: str | None = None, **context: Any
    ) -> InvalidInputError:
        """Returns an error that shows its place in the whole text; offsets are those of the statement."""
        behind = None if end is None else self.start + end
        return self.script.error(message, self.start + start, behind, kind=kind, **context)


class _ErrorAt(Protocol):
    """Errors at a place of a text."""

    def __call__(
        self, message: str, start: int, end: int | None = None, *, kind: str | None = None
    ) -> InvalidInputError: ...


def statements_in(script: SqlText) -> tuple[StatementText, ...]:
    """Splits a text at its semicolons; statements without a word are left out.

    Raises:
        InvalidInputError: a statement is of no kind that there is.
    """
    tokens = Tokens.of(script.raw)
    return tuple(_statement(script, tokens, first, last) for first, last in _ranges(tokens))


def statement_in(script: SqlText) -> StatementText:
    """Returns the one statement of a text.

    Raises:
        InvalidInputError: there is none, or there are several.
    """
    found = statements_in(script)
    if not found:
        raise InvalidInputError("there is no statement in the text of SQL")
    if len(found) > 1:
        raise found[1].error("one statement is wanted here, and there are several", 0)
    return found[0]


def _ranges(tokens: Tokens) -> Iterator[tuple[int, int]]:
    """Yields the first token of each statement and the one behind its last."""
    first = 0
    for index in [*(one for one in range(len(tokens)) if tokens.is_semicolon(one)), len(tokens)]:
        if index > first:
            yield first, index
        first = index + 1


def _statement(script: SqlText, tokens: Tokens, first: int, last: int) -> StatementText:
    start, end = tokens.starts[first], tokens.end(last - 1)
    return StatementText(script=script, start=start, end=end, kind=_kind(script.error, tokens, first, last))


def statement_within(statement: StatementText, tokens: Tokens, first: int) -> StatementText:
    """Returns the statement that begins at a token of another, such as what is explained."""
    kind = _kind(statement.error, tokens, first, len(tokens))
    start = statement.start + tokens.starts[first]
    return StatementText(script=statement.script, start=start, end=statement.end, kind=kind)


def _kind(error: _ErrorAt, tokens: Tokens, first: int, last: int) -> StatementKind:
    head = tokens.key(first)
    follower = tokens.key(first + 1) if first + 1 < last else ""
    pair = _PAIRS.get((head, follower))
    if pair is not None:
        return pair
    if head in ("DESCRIBE", "DESC") and follower in _DESCRIBED:
        return StatementKind.QUERY
    if head == "WITH":
        return _behind_with(tokens, first, last)
    if head in _HEADS:
        return _HEADS[head]
    place = (tokens.starts[first], tokens.end(first))
    if head in _REFUSED:
        raise error(f"{head} is not supported: {_REFUSED[head]}", *place, kind="unsupported")
    raise error(f"no statement begins with {short(tokens.word(first))}; {suggestion(head, _SHOWN)}", *place)


def _behind_with(tokens: Tokens, first: int, last: int) -> StatementKind:
    """Returns the kind of a statement behind its ``with`` clauses, which end with parentheses."""
    depth = 0
    for index in range(first, last):
        word = tokens.key(index)
        if depth == 0 and word in _BEHIND_WITH and tokens.word(index - 1) == ")":
            return _HEADS[word]
        depth += (word == "(") - (word == ")")
    return StatementKind.QUERY
