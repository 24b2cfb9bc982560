"""Plans over sources without rows: what a statement needs of each reference."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakehouse.expr import to_sql
from lakehouse.sql.providers import PlanningSource, needs_of, select_list

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "x": pa.float64(), "s": pa.struct({"a": pa.int32()})})


def needs(query: str, parameters: list[Any] | None = None) -> dict[str, tuple[tuple[str, ...], str | None]]:
    """Columns and condition of each reference ``r0`` to ``r2``, as a statement's plan says."""
    sources = {f"r{at}": PlanningSource(SCHEMA, 1000, f"__r{at}.") for at in range(3)}
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, source in sources.items():
            connection.register(f"{name}_planned", source)
            listed = select_list(SCHEMA.names, source.prefix)
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM {name}_planned")
        told = connection.execute(f"EXPLAIN (FORMAT JSON) {query}", parameters).fetchall()[0][1]
    return {
        name: (found.columns, None if found.where is None else to_sql(found.where))
        for name, found in needs_of(json.loads(told), sources).items()
    }


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
        (
            "SELECT a.k FROM r0 a JOIN r0 b ON a.k = b.k AND a.v = 'a' AND b.x > 1",
            ("k",),
            "(v = 'a') OR (x > 1.0)",
        ),
        ("SELECT k FROM r0 WHERE v = 'a' UNION ALL SELECT k FROM r0", ("k",), None),
        ("WITH c AS NOT MATERIALIZED (FROM r0) SELECT a.k FROM c a, c b WHERE a.x = b.x", ("k", "x"), None),
    ],
)
def test_needs_of_one_reference(query: str, columns: tuple[str, ...], where: str | None) -> None:
    """Columns of all scans are needed together, and the rows that any of them reads."""
    assert needs(query)["r0"] == (columns, where)


def test_each_reference_has_needs_of_its_own() -> None:
    """Columns of one name are told apart by the reference they are of."""
    found = needs("SELECT r0.x FROM r0 JOIN r1 ON r0.k = r1.k WHERE r0.v = 'a' AND r1.v = 'b'")
    assert found == {
        "r0": (("k", "x"), "v = 'a'"),
        "r1": (("k",), "v = 'b'"),
        "r2": ((), "FALSE"),
    }


def test_parameters_are_constants_of_the_plan() -> None:
    """A value that is bound to a statement prunes like one in its text."""
    assert needs("SELECT k FROM r0 WHERE v = $1", ["a"])["r0"] == (("k",), "v = 'a'")


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
