"""Plans over sources without rows: what a statement needs of each reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pytest

from lakehouse.expr import bind, matching, to_sql
from lakehouse.sql.providers import PlanningSource, ScanNeeds, needs_of, select_list

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "x": pa.float64(), "s": pa.struct({"a": pa.int32()})})


@pytest.fixture(scope="module")
def instance() -> Iterator[duckdb.DuckDBPyConnection]:
    """One DuckDB for all; what a cursor has of its own, no other one sees."""
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


Told: TypeAlias = Callable[..., dict[str, ScanNeeds]]


@pytest.fixture
def told(instance: duckdb.DuckDBPyConnection) -> Told:
    """Tells what a statement needs of each reference ``r0`` to ``r2``."""
    return partial(_told, instance)


def _told(
    instance: duckdb.DuckDBPyConnection, query: str, parameters: list[Any] | None = None
) -> dict[str, ScanNeeds]:
    sources = {f"r{at}": PlanningSource(SCHEMA, 1000, f"__r{at}.") for at in range(3)}
    with instance.cursor() as cursor:
        for name, source in sources.items():
            cursor.register(f"{name}_planned", source)
            listed = select_list(SCHEMA.names, source.prefix)
            cursor.execute(f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM {name}_planned")
        plan = cursor.execute(f"EXPLAIN (FORMAT JSON) {query}", parameters).fetchall()[0][1]
    return needs_of(json.loads(plan), sources)


def shown(needs: ScanNeeds) -> tuple[tuple[str, ...], str | None]:
    """Columns and condition of a reference."""
    return needs.columns, None if needs.where is None else to_sql(needs.where)


@pytest.mark.parametrize(
    ("query", "columns", "where"),
    [
        ("SELECT k FROM r0", ("k",), None),
        ("SELECT count(*) FROM r0", (), None),
        ("SELECT x, k FROM r0 WHERE v = 'a'", ("k", "x"), "v = 'a'"),
        ("SELECT k FROM r0 WHERE v = 'a' AND x < 2 AND abs(x) > 1", ("k", "x"), "(v = 'a') AND (x < 2.0)"),
        ("SELECT k FROM r0 WHERE s.a = 3", ("k",), "s.a = 3"),
        ("SELECT k FROM r0 WHERE v LIKE 'a%'", ("k", "v"), None),
        ("SELECT k FROM r0 WHERE k = 1 AND k = 2", (), "FALSE"),
        ("SELECT v FROM r0 ORDER BY x LIMIT 3", ("v", "x"), None),
        ("SELECT a.x, b.v FROM r0 a JOIN r0 b ON a.k = b.k", ("k", "v", "x"), None),
        (
            "SELECT a.k FROM r0 a JOIN r0 b ON a.k = b.k AND a.v = 'a' AND b.x > 1",
            ("k",),
            "(v = 'a') OR (x > 1.0)",
        ),
        ("SELECT k FROM r0 WHERE v = 'a' UNION ALL SELECT k FROM r0", ("k",), None),
        ("WITH c AS NOT MATERIALIZED (FROM r0) SELECT a.k FROM c a, c b WHERE a.x = b.x", ("k", "x"), None),
    ],
)
def test_needs_of_one_reference(told: Told, query: str, columns: tuple[str, ...], where: str | None) -> None:
    """Columns of all scans are needed together, and the rows that any of them reads."""
    assert shown(told(query)["r0"]) == (columns, where)


def test_each_reference_has_needs_of_its_own(told: Told) -> None:
    """Columns of one name are told apart by the reference they are of."""
    found = told("SELECT r0.x FROM r0 JOIN r1 ON r0.k = r1.k WHERE r0.v = 'a' AND r1.v = 'b'")
    assert {name: shown(needs) for name, needs in found.items()} == {
        "r0": (("k", "x"), "v = 'a'"),
        "r1": (("k",), "v = 'b'"),
        "r2": ((), "FALSE"),
    }


def test_parameters_are_constants_of_the_plan(told: Told) -> None:
    """A value that is bound to a statement prunes like one in its text."""
    assert shown(told("SELECT k FROM r0 WHERE v = $1", ["a"])["r0"]) == (("k",), "v = 'a'")


def test_names_and_constants_of_several_lines() -> None:
    """Lines of names and constants, which plans cut, are taken for no columns and conditions of their own."""
    schema = pa.schema({"a\nb": pa.int64(), "b": pa.int64(), "v": pa.string()})
    source = PlanningSource(schema, 1, "t.")
    hostile = 'x\n("t.1" = 3)\ny'
    with duckdb.connect() as connection:
        connection.register("planned", source)
        connection.execute(f"CREATE TEMP VIEW t AS SELECT {select_list(schema.names, 't.')} FROM planned")
        query = 'SELECT "a\nb" FROM t WHERE v = $1 UNION ALL SELECT "a\nb" FROM t WHERE b = 3'
        plan = connection.execute(f"EXPLAIN (FORMAT JSON) {query}", [hostile]).fetchall()[0][1]
    assert shown(needs_of(json.loads(plan), {"t": source})["t"]) == (("a\nb",), None)


def test_a_planning_source_is_not_read() -> None:
    """A source for planning refuses to be run."""
    with duckdb.connect() as connection:
        connection.register("t", PlanningSource(SCHEMA, 1, "t."))
        with pytest.raises(duckdb.Error, match="it has no rows"):
            connection.execute("SELECT * FROM t").fetchall()


def test_a_plan_that_cannot_be_read_needs_all() -> None:
    """Where a scan does not say whose it is, every reference needs all of its rows."""
    source = PlanningSource(SCHEMA, 1, "t.")
    plan = [{"name": "PYTHON_ARROW_SCAN", "children": [], "extra_info": {"Projections": "k"}}]
    found = needs_of(plan, {"t": source})["t"]
    assert (found.columns, found.where) == (tuple(SCHEMA.names), None)


ROWS = pa.Table.from_pylist(
    [
        {
            "k": None if at % 11 == 0 else at % 9,
            "v": None if at % 13 == 0 else "abc"[at % 3],
            "x": None if at % 7 == 0 else at / 4,
            "s": {"a": at % 5},
        }
        for at in range(60)
    ],
    SCHEMA,
)
TABLES = {"r0": ROWS, "r1": ROWS.slice(0, 25), "r2": ROWS.slice(20, 20)}


def answered(instance: duckdb.DuckDBPyConnection, query: str, tables: dict[str, pa.Table]) -> list[str]:
    """Rows of the query over tables in memory, in any order."""
    with instance.cursor() as cursor:
        for name, table in tables.items():
            cursor.register(f"arrow_{name}", table)
            cursor.execute(f"CREATE TEMP TABLE {name} AS FROM arrow_{name}")
        return sorted(map(repr, cursor.execute(query).fetchall()))


def kept(table: pa.Table, found: ScanNeeds) -> pa.Table:
    """The rows that are needed, with nulls in columns that are not."""
    named = set(found.columns)
    if found.where is not None:
        table = table.filter(matching(bind(found.where, table.schema), table))
        named |= {column.split(".")[0] for column in found.where.columns()}
    return pa.table(
        {
            field.name: table.column(field.name) if field.name in named else pa.nulls(len(table), field.type)
            for field in SCHEMA
        }
    )


@pytest.mark.parametrize(
    "query",
    [
        *(
            f"SELECT a.x, b.v FROM r0 a {kind} JOIN r1 b ON a.k = b.k AND b.v = 'a' WHERE a.x > 3"
            for kind in ("", "LEFT", "RIGHT", "FULL")
        ),
        *(
            f"SELECT a.x, a.v FROM r0 a {kind} JOIN r1 b ON a.k = b.k AND b.v = 'a' WHERE a.x > 3"
            for kind in ("SEMI", "ANTI")
        ),
        "SELECT x FROM r0 WHERE k NOT IN (SELECT k FROM r1 WHERE v = 'a' AND k > 2) AND v <> 'c'",
        "SELECT x FROM r0 WHERE v = 'b' OR k IN (SELECT k FROM r1 WHERE v = 'a')",
        "SELECT x FROM r0 WHERE x > (SELECT avg(x) FROM r1 WHERE r1.k = r0.k AND r1.v = 'a')",
        "SELECT x FROM r0 WHERE NOT EXISTS (FROM r1 WHERE r1.k = r0.k AND v = 'b') AND k IN (1, 2, 3)",
        "WITH c AS (FROM r0 WHERE v = 'a') SELECT a.x, b.x FROM c a JOIN c b ON a.k = b.k AND a.x < 5",
        "WITH c AS MATERIALIZED (FROM r0) SELECT a.x FROM c a, c b WHERE a.k = b.k AND a.v = 'a' AND b.x > 2",
        "WITH RECURSIVE c AS (SELECT k FROM r0 WHERE k = 1 UNION SELECT -k FROM r1 JOIN c USING (k)) FROM c",
        "SELECT k, v FROM r0 WHERE v = 'a' UNION SELECT k, v FROM r1 EXCEPT SELECT k, v FROM r2 WHERE k > 3",
        "SELECT v, sum(x) FROM r0 WHERE k > 2 GROUP BY GROUPING SETS ((v), ()) HAVING count(*) > 1",
        "FROM (SELECT k, v, row_number() OVER (PARTITION BY v ORDER BY x) n FROM r0) WHERE n < 3 AND v = 'a'",
        "FROM (SELECT k, row_number() OVER (ORDER BY x, v) AS n FROM r0) WHERE n < 9 AND k = 2",
        "FROM (SELECT k, x FROM r0 ORDER BY x, v LIMIT 10) WHERE k = 2",
        "SELECT DISTINCT ON (v) v, x FROM r0 WHERE k < 5 ORDER BY v, x",
        "SELECT a.x, l.m FROM r0 a, LATERAL (SELECT max(x) m FROM r1 WHERE r1.k = a.k AND r1.v = a.v) l",
        "SELECT a.x, b.x FROM r0 a ASOF JOIN r1 b ON a.k = b.k AND a.x >= b.x WHERE b.v = 'a'",
        "SELECT count(*), max(r2.x) FROM r0 JOIN r1 USING (k) JOIN r2 USING (k) WHERE r0.v = 'a' AND k = 3",
        "SELECT x FROM r0 WHERE s.a = 3 AND k = 4 AND x < 10 OR s.a = 2 AND k = 1",
        "SELECT count(*) FROM r0 WHERE k IS NULL AND v IS NOT NULL",
        "SELECT (SELECT count(*) FROM r1 WHERE v = 'a'), k FROM r0 WHERE k = 5",
        "PIVOT (SELECT k, v FROM r0 WHERE k < 3) ON v IN ('a', 'b') USING count(*)",
        "UNPIVOT (SELECT k, x FROM r0 WHERE v = 'a') ON x",
    ],
)
def test_what_is_not_needed_changes_no_answer(
    instance: duckdb.DuckDBPyConnection, told: Told, query: str
) -> None:
    """Without rows and columns that are not needed a statement has the answer that it has with all."""
    found = told(query)
    pruned = {name: kept(table, found[name]) for name, table in TABLES.items()}
    assert answered(instance, query, pruned) == answered(instance, query, TABLES)
