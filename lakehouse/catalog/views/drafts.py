"""Drafts of views: arguments checked, and dependencies read from the SQL where they are not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.catalog.views.base_relations import relations_in
from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.io.work import in_thread, or_none
from lakehouse.storage.metadata import TableName
from lakehouse.storage.tables import Names, ViewDraft

__all__ = ["draft_of"]

_DUCKDB = "duckdb"
_TEXT_MAX = 1 << 20
"""Maximum characters of one text, before anything parses it."""


async def draft_of(
    names: Names,
    name: TableName,
    sql: Mapping[str, str],
    *,
    columns: Sequence[str] = (),
    depends_on: Sequence[str] | None = None,
    search_path: Sequence[str] = (),
    owner: str | None = None,
    comment: str | None = None,
) -> ViewDraft:
    """Returns the draft of a view; see ``Lake.create_view``."""
    texts = _texts(sql)
    path = _words("search_path", search_path) or (name.database,)
    reads = None if depends_on is None else _relations(depends_on)
    if reads is None and _DUCKDB in texts:
        found = await in_thread(relations_in, texts[_DUCKDB])
        reads = None if found is None else await _in_full(names, found, path)
    return ViewDraft(
        texts=texts,
        columns=_words("columns", columns),
        depends_on=reads,
        search_path=_words("search_path", search_path),
        owner=_text("owner", owner),
        comment=_text("comment", comment),
    )


def _texts(sql: Any) -> dict[str, str]:
    if not isinstance(sql, Mapping) or not sql:
        raise InvalidInputError(
            f"the SQL of a view is given by dialect, as in {{'duckdb': 'select …'}}, not as {short(sql)}"
        )
    for dialect, text in sql.items():
        if not isinstance(dialect, str) or not dialect or not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f"a dialect and its SQL are text, not {short(dialect)}: {short(text)}")
        if len(text) > _TEXT_MAX:
            raise InvalidInputError(
                f"the SQL of dialect {short(dialect)} has {len(text):,} characters; at most {_TEXT_MAX:,} "
                "are stored: make several views of it"
            )
    return dict(sql)


def _words(argument: str, words: Any) -> tuple[str, ...]:
    if isinstance(words, str) or not isinstance(words, Sequence) or not all(_is_word(one) for one in words):
        raise InvalidInputError(f"{argument} is a list of names, not {short(words)}")
    return tuple(words)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _text(argument: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"{argument} is text or None, not {short(value)}")
    return value


def _relations(depends_on: Any) -> tuple[str, ...]:
    words = _words("depends_on", depends_on)
    for word in words:
        if "." not in word:
            raise InvalidInputError(
                f"depends_on names relations in full, as in 'sales.orders', not {short(word)}"
            )
    return tuple(dict.fromkeys(words))


async def _in_full(
    names: Names, found: Sequence[tuple[str, ...]], search_path: Sequence[str]
) -> tuple[str, ...]:
    """Returns full names; a name without a database is looked for in the search path, in order."""
    full = [
        ".".join(parts) if len(parts) > 1 else await _searched(names, parts[0], search_path)
        for parts in found
    ]
    return tuple(dict.fromkeys(full))


async def _searched(names: Names, relation: str, search_path: Sequence[str]) -> str:
    for database in search_path if len(search_path) > 1 else ():
        full = f"{database}.{relation}"
        try:
            known = await or_none(names.relation(TableName.parse(full)))
        except InvalidInputError:
            continue  # in a catalog, or no name that our warehouse has
        if known is not None:
            return full
    return f"{search_path[0]}.{relation}"
