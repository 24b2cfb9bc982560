"""Statements of a text and their kinds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.sql.text import StatementKind
from tests.kit.sql_texts import statement, statements

_PIECES = [
    *(
        "select 1",
        "'a;b'",
        '"c;d"',
        "$$ e; $$",
        "$x$ ; $$ ; $x$",
        "-- f;\n",
        "/* g; /* ; */ */",
        "é",
        " ",
        "\n",
    ),
    *("from t@v", "'it''s;'", "E'\\';'", "(a)", "@", "->>", "1.5", "::", "$1", "?"),
]


@given(st.lists(st.sampled_from([*_PIECES, ";"]), max_size=12))
def test_splitting_loses_nothing_but_semicolons_and_comments(pieces: list[str]) -> None:
    """What stands between two statements is a semicolon, spaces and comments."""
    text = "select 1 " + " ".join(pieces)
    text = text.replace("; ", "; select ").rstrip("; ")
    found = statements(text)
    raw = text.encode()
    between = [raw[one.end : two.start] for one, two in itertools.pairwise(found)]
    assert found[0].start == 0
    for gap in between:
        assert gap.lstrip(b" \n")[:1] in (b";", b"-", b"/")
    assert not raw[found[-1].end :].replace(b";", b"").strip() or b"-" in raw or b"/" in raw
    assert [one.raw for one in found] == [raw[one.start : one.end] for one in found]


@given(st.lists(st.sampled_from(_PIECES[:8]), min_size=1, max_size=8), st.integers(2, 4))
def test_a_semicolon_in_quotes_or_comments_ends_nothing(pieces: list[str], count: int) -> None:
    """A statement that is joined to itself by semicolons is found as often as it stands there."""
    one = "select " + " ".join(pieces)
    assert len(statements((one + "\n;") * count)) == count


@pytest.mark.parametrize("text", ["", " ", ";;", "-- only a comment", "/* ; */ ;"])
def test_a_text_without_a_word_has_no_statement(text: str) -> None:
    """Nothing between semicolons is no statement; where one is wanted, that is said."""
    assert statements(text) == ()
    with pytest.raises(InvalidInputError, match="no statement"):
        statement(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(
            (one, StatementKind.QUERY)
            for one in ("select 1", "FROM t", "values (1)", "table t", "(select 1)")
        ),
        *(
            (one, StatementKind.QUERY)
            for one in ("pivot t on a", "unpivot t on a", "summarize t", "WITH x as (from t) from x")
        ),
        *(
            (one, StatementKind.QUERY)
            for one in ("describe select 1", "desc (from t)", "/* c */ select 1", "\ufeffselect 1")
        ),
        (
            "with x as (select 1), y(a) as materialized (select (2)) insert into t from x",
            StatementKind.INSERT,
        ),
        ("with x as (select 1) delete from t", StatementKind.DELETE),
        ("with x as (select 1) update t set a = 1", StatementKind.UPDATE),
        ("with x as (select 1) merge into t using x on true", StatementKind.MERGE),
        ("with x as (delete from t) select 1", StatementKind.QUERY),
        ("explain select 1", StatementKind.EXPLAIN),
        ("use a", StatementKind.USE),
        ("set a = 1", StatementKind.SET),
        ("reset a", StatementKind.RESET),
        ("show tables", StatementKind.SHOW),
        ("describe t", StatementKind.DESCRIBE),
        ("desc table t", StatementKind.DESCRIBE),
        ("begin query as of 'x'", StatementKind.BEGIN_QUERY),
        ("end -- the\n query", StatementKind.END_QUERY),
        *(
            (f"{one.value.lower()} x", one)
            for one in StatementKind
            if one.value.isupper() and " " not in one.value
        ),
    ],
)
def test_first_words_tell_the_kind(text: str, kind: StatementKind) -> None:
    """A kind is known before DuckDB sees the statement, behind common table expressions too."""
    assert statement(text).kind is kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sselect 1", "did you mean 'SELECT'"),
        ("descrbe t", "did you mean 'DESCRIBE'"),
        ("begin", "BEGIN QUERY … END QUERY"),
        ("commit", "commit of its own"),
        ("attach 'x.db'", "lake.attach_catalog"),
        ("install httpfs", "extensions"),
        ("load 'x'", "extensions"),
        ("pragma version", "SET and SHOW"),
        ("prepare a as select 1", "parameters"),
        ("export database 'x'", "not supported"),
        ("vacuum", "expire_snapshots"),
        ("checkpoint", "durable"),
        ("'select 1'", "no statement begins"),
        ("@", "no statement begins"),
    ],
)
def test_other_statements_are_refused_by_name(text: str, says: str) -> None:
    """What DuckDB could do and we do not let it, and what nobody knows, is refused at its first word."""
    with pytest.raises(InvalidInputError, match=says) as caught:
        statements(f"select 1;\n  {text}")
    assert (caught.value.context["line"], caught.value.context["column"]) == (2, 3)


def test_errors_of_a_statement_show_the_place_in_the_whole_text() -> None:
    """The line of an error is that of the script which the user sees."""
    second = statements("select 'é;';\nselect wörng from t")[1]
    error = second.error("no such column", 7, 13)
    assert str(error) == "no such column\nline 2, column 8:\nselect wörng from t\n       ^^^^^"
    assert error.context["offset"] == 21


def test_one_statement_is_wanted_and_there_are_two() -> None:
    """Where a query stands for something, a second one is shown."""
    with pytest.raises(InvalidInputError, match="several") as caught:
        statement("select 1; select 2")
    assert caught.value.context["column"] == 11
