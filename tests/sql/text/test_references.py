"""References of a query: tables, files, functions, columns and parameters with their places."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from tests.kit.sql_texts import TPCH, parts_in, tree_of, words_at


@pytest.mark.parametrize("number", sorted(TPCH))
def test_queries_of_tpch_have_the_references_that_another_parser_finds(number: str) -> None:
    """Every table of the 22 queries is found as often as another parser finds it, where it stands."""
    text = TPCH[number]
    parsed = sqlglot.parse_one(text, read="duckdb")
    definitions = {one.alias for one in parsed.find_all(sqlglot.exp.CTE)}
    expected = Counter(one.name for one in parsed.find_all(sqlglot.exp.Table))
    tree = tree_of(text)
    raw = tree.statement.raw
    assert Counter(raw[one.start : one.name_end].decode() for one in tree.tables) == Counter(
        {name: count for name, count in expected.items() if name not in definitions}
    )
    assert {one.alias for one in tree.tables} <= {None, "n1", "n2", "l1", "l2", "l3"}
    assert not tree.files
    assert not tree.functions


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select * from sales.orders o, x y", ["sales.orders o", "x y"]),
        (
            "select 'é', * from \"Bü cher\" . tä as ü(a, b) tablesample 10%",
            ['"Bü cher" . tä as ü(a, b) tablesample 10%'],
        ),
        ("from a.b.c.d semi join e using (x)", ["a.b.c.d", "e"]),
        ("from t$snapshots", ["t$snapshots"]),
        ("with x as (from x) select (select max(a) from s.y) from x", ["x", "s.y"]),
        ("with recursive r as (select 1 union all from r, s) from r", ["s"]),
        ("with recursive r(a) using key (a) as (from s union from recurring.r) from r", ["s"]),
        ("from t limit (select max(a) from s.u)", ["t", "s.u"]),
        ("pivot s.t as q on a using sum(b)", ["s.t as q"]),
        ("with z as (from s.u) pivot z on a order by 1", ["s.u"]),
        ("from (pivot s.t on a) p, (pivot u on b using max(c) group by d)", ["s.t", "u"]),
        (
            "from (from a.b) pivot (sum(x) for y in (1)) p join c on true, (pivot s.t on a)",
            ["a.b", "c", "s.t"],
        ),
        ("from s.t pivot (sum(x) for y in ('a', 'b'))", ["s.t"]),
        ("unpivot s.t on a, b into name n value v", ["s.t"]),
        ("summarize s . t", ["s . t"]),
        ("describe from s.t", ["s.t"]),
        ("table s.t union table u", ["s.t", "u"]),
        ("from (table t), (table t)", ["t", "t"]),
        ("from lateral (from s.t)", ["s.t"]),
        ("select [x for x in l] from s.t order by all", ["s.t"]),
        ("from t -- a comment; from u\n join /* from v */ w on true", ["t", "w"]),
    ],
)
def test_every_table_is_found_where_it_stands(text: str, words: list[str]) -> None:
    """A reference is its name with the alias, in any place of any form of query."""
    assert words_at(tree_of(text)) == words


def test_a_reference_has_its_name_and_alias_apart() -> None:
    """Its name can be replaced without touching the alias, in which quotes are read."""
    tree = tree_of('from "Sales"."or""ders" as "O p"')
    table = tree.tables[0]
    assert (table.parts, table.alias, table.shown) == (("Sales", 'or"ders'), "O p", "O p")
    assert tree.statement.raw[table.start : table.name_end] == b'"Sales"."or""ders"'
    assert tree_of("from a.b").tables[0].shown == "b"


def test_where_no_alias_can_stand_is_said() -> None:
    """Keywords that name a table take no alias behind it."""
    assert [one.bare for one in tree_of("from (table t), (summarize u), v").tables] == [True, True, False]


@given(st.lists(st.sampled_from(["é", "'ü;'", "/* ß from x */", '"漢"', "a.b", "1", "-- 😀\n"]), max_size=6))
def test_places_are_bytes_whatever_stands_before(before: list[str]) -> None:
    """Characters of several bytes, in strings, names and comments, do not move what stands behind them."""
    text = (
        "select "
        + " ".join(one if one[:2] in ("/*", "--") else f"{one}," for one in before)
        + " 1 from s.täble t"
    )
    assert words_at(tree_of(text)) == ["s.täble t"]


def test_columns_have_the_place_of_each_part() -> None:
    """Parts of a column's name can be cut apart, also with comments between them."""
    tree = tree_of('select "s" . /* x */ t.id, st.a from s.t where exists (from u where x = s.t.y)')
    assert [one.parts for one in tree.columns] == [("s", "t", "id"), ("st", "a"), ("x",), ("s", "t", "y")]
    first = tree.columns[0]
    assert [tree.statement.raw[start : start + 1] for start in first.starts] == [b'"', b"t", b"i"]
    assert tree.statement.raw[first.starts[1] : first.end] == b"t.id"


def test_parameters_have_names_or_numbers() -> None:
    """Question marks are counted; a mark in a string is none."""
    named = tree_of("select $a, '?' from t where b = $b").parameters
    assert [one.name for one in named] == ["a", "b"]
    counted = tree_of("select ?, '?' from t where b = ?").parameters
    assert [(one.name, one.end - one.start) for one in counted] == [("1", 1), ("2", 1)]


@pytest.mark.parametrize(
    ("text", "function", "alias", "paths"),
    [
        ("from 'a.parquet'", "", None, ["a.parquet"]),
        ("from 's3://b/it''s.csv' as c", "", "c", ["s3://b/it's.csv"]),
        ("from read_parquet('é.parquet') p", "read_parquet", "p", ["é.parquet"]),
        ("from READ_CSV(['a', 'b'], delim => ';')", "read_csv", None, ["a", "b"]),
        ("from read_json($$c.json$$)", "read_json", None, ["c.json"]),
        ("from glob('*')", "glob", None, ["*"]),
        ("from f : 'a.csv'", "", "f", ["a.csv"]),
        ("from f : read_csv('a.csv')", "read_csv", "f", ["a.csv"]),
    ],
)
def test_files_have_literal_paths(text: str, function: str, alias: str | None, paths: list[str]) -> None:
    """Each path has its own place, so that it can be replaced."""
    tree = tree_of(text)
    file = tree.files[0]
    assert (file.function, file.alias, [one.value for one in file.paths]) == (function, alias, paths)
    for path in file.paths:
        assert tree.statement.raw[path.start : path.end].decode().strip("'$").replace("''", "'") == path.value
    assert not tree.tables
    assert not tree.functions


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("from read_csv('a' || 'b')", "'a' || 'b'"),
        ("from t, read_parquet(['a', t.b])", "['a', t.b]"),
        ("from read_parquet($1)", "$1"),
        ("from read_parquet(1)", "1"),
        ("from read_text()", "read_text()"),
        ("from read_blob(files => 'a')", "read_blob(files => 'a')"),
    ],
)
def test_computed_paths_are_refused_at_their_place(text: str, place: str) -> None:
    """What a statement reads is known before it runs."""
    with pytest.raises(InvalidInputError, match="text in quotes") as caught:
        tree_of(text)
    start = caught.value.context["offset"]
    assert text[start : start + caught.value.context["length"]] == place


def test_table_functions_have_their_arguments() -> None:
    """Constants are values, by place and by name; the rest is known to be none."""
    tree = tree_of(
        "from index_metas('s3://x', concurrency => 32, deep := true, two => [1, 2.5], since => now()) m,"
        " range(a)"
    )
    metas, numbers = tree.functions
    given_values = [(one.name, one.value, one.constant) for one in metas.arguments]
    assert given_values[:4] == [
        ("", "s3://x", True),
        ("concurrency", 32, True),
        ("deep", True, True),
        ("two", [1, 2.5], True),
    ]
    assert given_values[4] == ("since", None, False)
    assert (metas.name, metas.alias, numbers.name) == ("index_metas", "m", "range")
    assert tree.statement.raw[metas.start : metas.call_end].endswith(b"now())")
    assert tree.statement.raw[metas.start : metas.end].endswith(b") m")


@pytest.mark.parametrize(
    ("text", "says", "column"),
    [
        ("select * from", "DuckDB cannot parse this: syntax error", 10),
        ("from t x y", 'syntax error at or near "y"', 10),
        ("select 'é', from t x y z", 'near "y"', 22),
        ("select 1 from s.t.* ", "DuckDB cannot parse", 19),
        ("from (show tables)", "SHOW is a statement", 1),
    ],
)
def test_what_duckdb_cannot_parse_is_shown_at_its_place(text: str, says: str, column: int) -> None:
    """A syntax error has DuckDB's words and our marker."""
    with pytest.raises(InvalidInputError, match=says) as caught:
        tree_of(text)
    assert caught.value.context["column"] == column


@pytest.mark.parametrize("change", ["insert into t values (1)", "delete from t", "update t set a = 1"])
def test_a_query_changes_no_data(change: str) -> None:
    """A change hidden in a definition is refused: its table would not be seen."""
    with pytest.raises(InvalidInputError, match="changes data") as caught:
        tree_of(f"with x as ({change} returning *) select * from x")
    assert caught.value.kind == "unsupported"


def test_names_of_common_table_expressions_and_subqueries_are_no_tables() -> None:
    """They are told apart, as columns may be called by them."""
    tree = tree_of("with X as (select 1) from x, (select 2) Y, z as w")
    assert [one.parts for one in tree.tables] == [("z",)]
    assert tree.aliases == {"x", "y", "w"}


def test_wide_spaces_do_not_move_places() -> None:
    """A space that DuckDB makes shorter counts with all its bytes."""
    assert words_at(tree_of("select\u00a01,\u3000'\u00a0' from\u00a0s.t")) == ["s.t"]


def test_names_with_any_letters_are_found() -> None:
    """Quoted names keep their case and their marks."""
    assert parts_in('from "a;b"."--", "/*", "AT", "Ünï"') == [("a;b", "--"), ("/*",), ("AT",), ("Ünï",)]


_SOUP = """
    select from with x as ( ) , * t s.t @ v for version timestamp of 3 'a' at => pivot on using summarize
    table read_parquet [ ] where a = ? $1 . join union explain show use é "q" --c /* */ $$ ; ' " : case
"""
_WORDS = [*re.findall(r"\S+", _SOUP), "\n", "\u00a0"]


@given(st.lists(st.sampled_from(_WORDS), max_size=10), st.sampled_from(["", "select * from ", "from t "]))
def test_any_text_is_read_or_refused(words: list[str], before: str) -> None:
    """Whatever stands in a text, it has places within it, or is an error of the caller's."""
    try:
        tree = tree_of(before + " ".join(words))
    except InvalidInputError:
        return
    length = len(tree.statement.raw)
    for table in tree.tables:
        assert 0 <= table.start <= table.name_start < table.name_end <= table.end <= length
