"""Statements of ours that are no query."""

from __future__ import annotations

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.sql.text import (
    BeginQuery,
    DescribeTable,
    EndQuery,
    ExplainQuery,
    ResetSetting,
    RunQuery,
    SetSetting,
    ShowNames,
    ShowSubject,
    UseDatabase,
    command_in,
)
from tests.kit.sql_texts import statement


def _command(text: str) -> object:
    return command_in(statement(text))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("use sales", ("sales",)),
        ('USE cat . "My ""Db"""', ("cat", 'My "Db"')),
        ("use a.b.c", ("a", "b", "c")),
    ],
)
def test_use_names_a_database(text: str, parts: tuple[str, ...]) -> None:
    """Names have dots and quotes."""
    command = _command(text)
    assert isinstance(command, UseDatabase)
    assert command.name.parts == parts


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("set sql.threads = 4", "sql.threads", 4),
        ("SET SESSION Sql.Threads TO -4", "sql.threads", -4),
        ("set x = 1.5e3", "x", 1500.0),
        ("set x = 'it''s 4'", "x", "it's 4"),
        ("set x = off", "x", False),
        ("set x = TRUE", "x", True),
        ("set x = utc", "x", "utc"),
    ],
)
def test_set_has_a_name_and_a_value(text: str, name: str, value: object) -> None:
    """Values are numbers, words, or text in quotes, and keep their types."""
    command = _command(text)
    assert isinstance(command, SetSetting)
    assert (command.name, command.value, type(command.value)) == (name, value, type(value))


def test_reset_has_a_name_or_all() -> None:
    """One setting goes back to what it was, or all."""
    one, every = _command("reset A.b"), _command("reset all")
    assert isinstance(one, ResetSetting)
    assert one.name == "a.b"
    assert isinstance(every, ResetSetting)
    assert every.name is None


@pytest.mark.parametrize(
    ("text", "subject", "parts", "like"),
    [
        ("show tables", ShowSubject.TABLES, None, None),
        ("show all tables", ShowSubject.TABLES, None, None),
        ("show tables in c.s like 'a%'", ShowSubject.TABLES, ("c", "s"), "a%"),
        ("show schemas", ShowSubject.DATABASES, None, None),
        ("show databases from cat", ShowSubject.DATABASES, ("cat",), None),
        ("show catalogs", ShowSubject.CATALOGS, None, None),
        ("show views", ShowSubject.VIEWS, None, None),
        ("show settings like 'sql.%'", ShowSubject.SETTINGS, None, "sql.%"),
        ("show all", ShowSubject.SETTINGS, None, None),
        ("show columns from a.b", ShowSubject.COLUMNS, ("a", "b"), None),
        ("show tags in t", ShowSubject.TAGS, ("t",), None),
        ("show create table s.t", ShowSubject.CREATE, ("s", "t"), None),
        ("show create view v", ShowSubject.CREATE, ("v",), None),
    ],
)
def test_show_has_a_subject(
    text: str, subject: ShowSubject, parts: tuple[str, ...] | None, like: str | None
) -> None:
    """Subjects of a table name it, those of a database may, and a pattern narrows them."""
    command = _command(text)
    assert isinstance(command, ShowNames)
    name = None if command.name is None else command.name.parts
    assert (command.subject, name, command.like) == (subject, parts, like)


@pytest.mark.parametrize("text", ["describe a.t", "desc a.t", "describe table a.t"])
def test_describe_names_a_table(text: str) -> None:
    """The word TABLE may stand before the name, and a table may be called so."""
    command = _command(text)
    assert isinstance(command, DescribeTable)
    assert command.name.parts == ("a", "t")
    called = _command("describe table")
    assert isinstance(called, DescribeTable)
    assert called.name.parts == ("table",)


@pytest.mark.parametrize(
    ("text", "value", "parameter"),
    [
        ("begin query as of '2026-01-31'", "2026-01-31", None),
        ("begin query as of timestamp '2026-01-31 10:00'", "2026-01-31 10:00", None),
        ("begin query for timestamp as of 1769817600000", 1769817600000, None),
        ("begin query as of ?", None, "1"),
        ("begin query as of $when", None, "when"),
    ],
)
def test_begin_query_has_a_moment(text: str, value: object, parameter: str | None) -> None:
    """The moment is a time in any of its forms, or a parameter."""
    command = _command(text)
    assert isinstance(command, BeginQuery)
    assert command.at is not None
    assert (command.at.unit, command.at.value, command.at.parameter) == ("timestamp", value, parameter)


def test_begin_and_end_query_stand_alone() -> None:
    """Without a moment every table is read as it is found."""
    assert _command("begin query") == BeginQuery(at=None)
    assert _command("END QUERY") == EndQuery()


def test_explain_has_a_query_of_its_own_place() -> None:
    """What is explained is a statement whose errors show the whole text."""
    command = _command("explain analyze\n from t")
    assert isinstance(command, ExplainQuery)
    assert command.analyze
    assert command.query.text == "from t"
    assert command.query.error("x", 5).context["line"] == 2
    plain = _command("explain (select 1)")
    assert isinstance(plain, ExplainQuery)
    assert not plain.analyze


def test_a_query_is_a_command_to_run_it() -> None:
    """Whoever runs statements asks one function for each."""
    one = statement("from t")
    assert command_in(one) == RunQuery(query=one)


@pytest.mark.parametrize(
    ("text", "says", "column"),
    [
        ("use", "name of a database", 4),
        ("use a.", "name of a database", 7),
        ("use a b", "ends before this word", 7),
        ("set x", "SET name = value", 6),
        ("set = 1", "name of a setting", 5),
        ("set x = 128MB", "ends before", 12),
        ("set x = 1 2", "ends before", 11),
        ("set x = 1e", "a value is", 9),
        ("set x = -", "a value is", 10),
        ("set x = E'a'", "a value is", 9),
        ("show ttables", "did you mean 'TABLES'", 6),
        ("show", "SHOW knows", 5),
        ("show tags", "FROM table", 10),
        ("show create x", "SHOW CREATE TABLE", 13),
        ("show tables like x", "pattern", 18),
        ("begin query version as of 3", "ends before", 13),
        ("begin query as of now()", "a moment is", 19),
        ("end query now", "ends before", 11),
        ("explain", "before a query", 8),
        ("explain (format json) select 1", "no options but ANALYZE", 9),
        ("explain attach 'x'", "lake.attach_catalog", 9),
    ],
)
def test_what_does_not_fit_is_shown_at_its_place(text: str, says: str, column: int) -> None:
    """A word too many, a word too few and a wrong one are errors at that word."""
    with pytest.raises(InvalidInputError, match=says) as caught:
        _command(text)
    assert caught.value.context["column"] == column


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("insert into t values (1)", "table.append"),
        ("upsert into t values (1)", "table.upsert"),
        ("update t set a = 1", "table.upsert"),
        ("with x as (from u) delete from t", "table.delete"),
        ("merge into t using u on true", "table.upsert"),
        ("copy t to 'x'", "batches"),
        ("create table t (a int)", "lake.create_table"),
        ("alter table t add column b int", "add_column"),
        ("drop table t", "lake.drop_table"),
        ("truncate t", "table.delete"),
        ("comment on table t is 'x'", "set_comment"),
        ("call compact('t')", "table.compact"),
        ("refresh table t", "lake.cache.refresh"),
        ("analyze t", "table.analyze"),
        ("explain insert into t values (1)", "queries are explained"),
    ],
)
def test_statements_of_later_steps_name_the_call_that_does_it(text: str, call: str) -> None:
    """A known statement that cannot run yet says so, and what to call instead."""
    with pytest.raises(InvalidInputError, match=call) as caught:
        _command(text)
    assert caught.value.kind == "unsupported"
