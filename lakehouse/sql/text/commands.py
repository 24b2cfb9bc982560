"""Commands: the statements that are ours and no query, read word by word into values.

Invariant: every word of a statement is read; what is left over is an error at its place.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakehouse.errors import InvalidInputError
from lakehouse.sql.text.names import unquoted
from lakehouse.sql.text.statements import StatementKind, StatementText, statement_within
from lakehouse.sql.text.time_travel import AtClause, moment
from lakehouse.sql.text.tokens import Tokens
from lakehouse.suggest import suggestion

__all__ = [
    "BeginQuery",
    "DescribeTable",
    "EndQuery",
    "ExplainQuery",
    "NameText",
    "ResetSetting",
    "RunQuery",
    "SetSetting",
    "SettingText",
    "ShowNames",
    "ShowSubject",
    "SqlCommand",
    "UseDatabase",
    "command_in",
]

SettingText = str | int | float | bool
"""Value of a setting as a statement writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameText:
    """A name with its place in the statement."""

    parts: tuple[str, ...]
    start: int
    end: int


class ShowSubject(enum.StrEnum):
    """Subjects of SHOW, as they are written."""

    TABLES = "TABLES"
    VIEWS = "VIEWS"
    DATABASES = "DATABASES"
    CATALOGS = "CATALOGS"
    SETTINGS = "SETTINGS"
    COLUMNS = "COLUMNS"
    TAGS = "TAGS"
    SNAPSHOTS = "SNAPSHOTS"
    PARTITIONS = "PARTITIONS"
    INDEXES = "INDEXES"
    OPTIONS = "OPTIONS"
    CREATE = "CREATE"
    """The statement that would make a table or a view."""


_OF_ALL = frozenset({ShowSubject.CATALOGS, ShowSubject.SETTINGS})
_OF_A_DATABASE = frozenset({ShowSubject.TABLES, ShowSubject.VIEWS, ShowSubject.DATABASES})
_SUBJECTS: Mapping[str, ShowSubject] = {
    **{subject.value: subject for subject in ShowSubject},
    "SCHEMAS": ShowSubject.DATABASES,
    "ALL": ShowSubject.SETTINGS,
    "TBLPROPERTIES": ShowSubject.OPTIONS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A query as it stands."""

    query: StatementText


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainQuery:
    """``EXPLAIN [ANALYZE] query``."""

    query: StatementText
    analyze: bool
    """Whether the query is run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseDatabase:
    """``USE name``: a database, a catalog, or both."""

    name: NameText


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSetting:
    """``SET name = value``."""

    name: str
    """With its dots, in small letters."""
    value: SettingText
    start: int
    """First byte of the name."""
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSetting:
    """``RESET name`` or ``RESET ALL``."""

    name: str | None
    """None = all settings."""
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowNames:
    """``SHOW subject [FROM name] [LIKE 'pattern']``."""

    subject: ShowSubject
    name: NameText | None
    """The database, catalog or table that is looked into; None = the session's, or all."""
    like: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTable:
    """``DESCRIBE name``."""

    name: NameText


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuery:
    """``BEGIN QUERY [AS OF moment]``."""

    at: AtClause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuery:
    """``END QUERY``."""


SqlCommand = (
    RunQuery
    | ExplainQuery
    | UseDatabase
    | SetSetting
    | ResetSetting
    | ShowNames
    | DescribeTable
    | BeginQuery
    | EndQuery
)
"""One of the statements that can be run."""

_INSTEAD: Mapping[StatementKind, str] = {
    StatementKind.INSERT: "table.append(rows) or table.upsert(rows)",
    StatementKind.UPSERT: "table.upsert(rows)",
    StatementKind.UPDATE: "table.upsert(rows) with the rows as they shall be",
    StatementKind.DELETE: "table.delete(where) or table.delete(keys=…)",
    StatementKind.MERGE: "table.upsert(rows), or merges of lakehouse.spark",
    StatementKind.COPY: "the batches of lake.sql(…), and table.append(rows)",
    StatementKind.CREATE: "lake.create_table(…), create_database(…), create_view(…) or attach_catalog(…)",
    StatementKind.ALTER: "the table's methods, such as table.add_column(…), or lake.rename_table(…)",
    StatementKind.DROP: "lake.drop_table(…), drop_view(…), drop_database(…) or detach_catalog(…)",
    StatementKind.TRUNCATE: "table.delete('true')",
    StatementKind.COMMENT: "table.set_comment(…)",
    StatementKind.CALL: "the method of that name, such as table.compact()",
    StatementKind.REFRESH: "lake.cache.refresh(…)",
    StatementKind.ANALYZE: "table.analyze()",
}


def command_in(statement: StatementText) -> SqlCommand:
    """Reads a statement of any kind.

    Raises:
        InvalidInputError: it is no such statement, or of the kind ``unsupported``.
    """
    if statement.kind in _INSTEAD:
        end = len(statement.kind.value)
        raise statement.error(
            f"{statement.kind.value} is not supported yet: call {_INSTEAD[statement.kind]}",
            0,
            end,
            kind="unsupported",
        )
    if statement.kind is StatementKind.QUERY:
        return RunQuery(query=statement)
    words = _Words(statement=statement, tokens=Tokens.of(statement.raw))
    command = _READERS[statement.kind](words)
    words.end()
    return command


@dataclass(slots=True, kw_only=True)
class _Words:
    """Tokens of a statement, taken one after the other."""

    statement: StatementText
    tokens: Tokens
    index: int = 1

    def take(self, *keys: str) -> bool:
        """Takes words if they stand here."""
        found = self.tokens.keys(self.index, len(keys)) == keys
        self.index += len(keys) * found
        return found

    def error(self, wanted: str) -> InvalidInputError:
        """Returns an error at the word that stands here."""
        if self.index >= len(self.tokens):
            end = len(self.statement.raw)
            return self.statement.error(f"{wanted}, and the statement ends here", end)
        start, end = self.tokens.starts[self.index], self.tokens.end(self.index)
        return self.statement.error(wanted, start, end)

    def end(self) -> None:
        """Checks that no word is left."""
        if self.index < len(self.tokens):
            raise self.error(f"{self.statement.kind.value} ends before this word")

    def name(self, wanted: str) -> NameText:
        """Takes a name with dots."""
        first = self.index
        parts: list[str] = []
        while not parts or self.take("."):
            if not self.tokens.is_name(self.index):
                raise self.error(wanted)
            parts.append(unquoted(self.tokens.word(self.index)))
            self.index += 1
        start, end = self.tokens.starts[first], self.tokens.end(self.index - 1)
        return NameText(parts=tuple(parts), start=start, end=end)

    def text(self, wanted: str) -> str:
        """Takes text in quotes."""
        word = self.tokens.word(self.index)
        if len(word) < 2 or word[:1] != "'":
            raise self.error(wanted)
        self.index += 1
        return unquoted(word)


def _explain(words: _Words) -> SqlCommand:
    analyze = words.take("ANALYZE")
    if words.index >= len(words.tokens):
        raise words.error("EXPLAIN stands before a query")
    if words.tokens.keys(words.index, 2) in (("(", "FORMAT"), ("(", "ANALYZE")):
        raise words.error("EXPLAIN takes no options but ANALYZE, without parentheses")
    query = statement_within(words.statement, words.tokens, words.index)
    words.index = len(words.tokens)
    if query.kind is not StatementKind.QUERY:
        raise query.error(f"queries are explained; this is {query.kind.value}", 0, kind="unsupported")
    return ExplainQuery(query=query, analyze=analyze)


def _use(words: _Words) -> SqlCommand:
    return UseDatabase(name=words.name("USE wants the name of a database or a catalog"))


def _set(words: _Words) -> SqlCommand:
    name = _setting_name(words)
    if not words.take("=") and not words.take("TO"):
        raise words.error("SET name = value")
    return SetSetting(name=".".join(name.parts).lower(), value=_value(words), start=name.start, end=name.end)


def _reset(words: _Words) -> SqlCommand:
    if words.take("ALL"):
        start, end = words.tokens.starts[1], words.tokens.end(1)
        return ResetSetting(name=None, start=start, end=end)
    name = _setting_name(words)
    return ResetSetting(name=".".join(name.parts).lower(), start=name.start, end=name.end)


def _setting_name(words: _Words) -> NameText:
    words.take("SESSION")
    return words.name(f"{words.statement.kind.value} wants the name of a setting, such as sql.threads")


_WORD_VALUES = {"TRUE": True, "FALSE": False, "ON": True, "OFF": False}
_DIGITS_MAX = 40


def _value(words: _Words) -> SettingText:
    word = words.tokens.word(words.index)
    if word[:1] == "'":
        return words.text("text in quotes")
    sign = "-" if words.take("-") else ""
    word = words.tokens.word(words.index)
    try:
        number = float(sign + word) if word[:1].isdigit() and len(word) <= _DIGITS_MAX else None
    except ValueError:
        number = None
    if number is None and (sign or not words.tokens.is_name(words.index)):
        raise words.error("a value is a number, a word or text in quotes")
    words.index += 1
    if number is not None:
        return int(sign + word) if word.isdigit() else number
    return _WORD_VALUES.get(word.upper(), unquoted(word))


def _show(words: _Words) -> SqlCommand:
    if words.tokens.keys(1, 2) == ("ALL", "TABLES"):
        words.index += 1
    key = words.tokens.key(words.index)
    subject = _SUBJECTS.get(key)
    if subject is None:
        shown = tuple(one.value for one in ShowSubject)
        raise words.error(f"SHOW knows no {key or 'nothing'}; {suggestion(key, shown)}")
    words.index += 1
    return ShowNames(subject=subject, name=_looked_into(words, subject), like=_like(words))


def _looked_into(words: _Words, subject: ShowSubject) -> NameText | None:
    if subject is ShowSubject.CREATE:
        if not words.take("TABLE") and not words.take("VIEW"):
            raise words.error("SHOW CREATE TABLE name, or SHOW CREATE VIEW name")
        return words.name("SHOW CREATE wants the name of a table or view")
    if subject in _OF_ALL:
        return None
    if words.take("FROM") or words.take("IN"):
        return words.name(f"SHOW {subject.value} FROM wants a name")
    if subject in _OF_A_DATABASE:
        return None
    raise words.error(f"SHOW {subject.value} FROM table")


def _like(words: _Words) -> str | None:
    return words.text("a pattern is text in quotes, such as 'ord%'") if words.take("LIKE") else None


def _describe(words: _Words) -> SqlCommand:
    if words.tokens.is_name(words.index + 1):
        words.take("TABLE")
    return DescribeTable(name=words.name("DESCRIBE wants the name of a table, or a query"))


def _begin_query(words: _Words) -> SqlCommand:
    words.index += 1
    at = moment(words.statement, words.tokens, words.index)
    if at is not None:
        words.index = words.tokens.at(at.end)
    return BeginQuery(at=at)


def _end_query(words: _Words) -> SqlCommand:
    words.index += 1
    return EndQuery()


_READERS: Mapping[StatementKind, Callable[[_Words], SqlCommand]] = {
    StatementKind.EXPLAIN: _explain,
    StatementKind.USE: _use,
    StatementKind.SET: _set,
    StatementKind.RESET: _reset,
    StatementKind.SHOW: _show,
    StatementKind.DESCRIBE: _describe,
    StatementKind.BEGIN_QUERY: _begin_query,
    StatementKind.END_QUERY: _end_query,
}
