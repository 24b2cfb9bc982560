"""Base relations in the text of a query, as DuckDB's parser sees them."""

from __future__ import annotations

import sys

import pytest

from lakehouse.catalog.views.base_relations import relations_in
from lakehouse.errors import InvalidInputError


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select 1", []),
        ("select * from a.b join c on true", [("a", "b"), ("c",)]),
        ("from cat.ns.t", [("cat", "ns", "t")]),
        ("select * from a union all select * from b.c", [("a",), ("b", "c")]),
        ("select 1 where exists (select 1 from s.t)", [("s", "t")]),
        ("select (select max(x) from z.z) from lateral (select 1 from y)", [("y",), ("z", "z")]),
        ('select * from "Db"."Täble"', [("Db", "Täble")]),
        ("select * from t, t as u", [("t",)]),
        ("select * from 'file.parquet', read_csv('x.csv')", []),
        ("select * from t at (version => 3)", [("t",)]),
        ("select * from t asof join u on t.x >= u.x", [("t",), ("u",)]),
    ],
)
def test_every_relation_is_found_wherever_it_stands(sql: str, expected: list[tuple[str, ...]]) -> None:
    """Joins, subqueries and unions give their relations; files and functions are none; one counts once."""
    found = relations_in(sql)
    assert found is not None
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("with x as (select * from s.y) select * from x, z", [("s", "y"), ("z",)]),
        ("with x as (select * from x) select * from x", [("x",)]),
        ("with X as (select 1) select * from x", []),
        ("with a as (select * from b), b as (select * from a) select * from b", [("b",)]),
        ("with recursive r as (select 1 as n union all select n + 1 from r, s where n < 3) from r", [("s",)]),
        ("select * from (with x as (select 1) select * from x), x", [("x",)]),
        ("with x as (select 1) select * from db.x", [("db", "x")]),
        (
            "with recursive r(a) using key (a) as (select 1 union from recurring.R, recurring.s) from r",
            [("recurring", "s")],
        ),
        ("with x as (select 1) select * from (select * from x) where exists (from x)", []),
    ],
)
def test_names_of_with_clauses_hide_relations_where_they_are_seen(
    sql: str, expected: list[tuple[str, ...]]
) -> None:
    """A definition hides a relation of its name behind it, and inside itself only where it is recursive."""
    found = relations_in(sql)
    assert found is not None
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("sel", "parse"),
        ("select * from", "parse"),
        ("select 1; select 2", "2 statements"),
        ("", "statement|parse"),
        ("select " + "(" * 5_000 + "1" + ")" * 5_000, "parse|deep"),
        ("select '\ud800'", "UTF-8"),
    ],
)
def test_text_that_is_no_query_is_refused(sql: str, says: str) -> None:
    """What DuckDB cannot parse is refused with what it says, however deep it nests."""
    with pytest.raises(InvalidInputError, match=says):
        relations_in(sql)


def test_statements_without_a_tree_are_not_known() -> None:
    """What DuckDB parses and does not show, such as a pivot, has unknown relations."""
    assert relations_in("pivot cities on year using sum(population)") is None


def test_without_duckdb_relations_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lacks DuckDB makes views, and does not guess what they read."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert relations_in("select * from a.b") is None
