"""DuckDB's private protocol for sources, as our source relies on it: what arrives, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pytest

from tests.kit.sql_sources import AskedSource

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "i32": pa.int32(),
        "x": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "d": pa.date32(),
        "ts": pa.timestamp("us"),
        "tz": pa.timestamp("us", "UTC"),
        "ns": pa.timestamp("ns"),
        "dec": pa.decimal128(9, 2),
        "raw": pa.binary(),
        "st": pa.struct({"a": pa.int32(), "x": pa.struct({"y": pa.string()})}),
        "l": pa.list_(pa.int32()),
    }
)


@pytest.fixture(scope="module")
def instance() -> Iterator[duckdb.DuckDBPyConnection]:
    """One DuckDB for all; what a cursor registers, no other one sees."""
    with duckdb.connect(config={"threads": 2}) as connection:
        yield connection


Offered: TypeAlias = Callable[..., list[Any]]
Run: TypeAlias = Callable[[str], list[Any]]


@pytest.fixture
def offered(instance: duckdb.DuckDBPyConnection) -> Offered:
    """Tells which conditions of a statement its source is offered."""

    def told(where: str, parameters: list[Any] | None = None) -> list[Any]:
        source = AskedSource("t", SCHEMA, [])
        with instance.cursor() as cursor:
            cursor.register("t", source)
            cursor.execute(f"EXPLAIN SELECT id FROM t WHERE {where}", parameters)
        return source.offered

    return told


@pytest.mark.parametrize(
    ("where", "arrives"),
    [
        ("i32 = 5", ['("i32" = 5)']),
        ("i32 <> 5", ['("i32" != 5)']),
        ("i32 BETWEEN 1 AND 3", ['(("i32" >= 1) AND ("i32" <= 3))']),
        ("i32 NOT BETWEEN 1 AND 3", ['(("i32" < 1) OR ("i32" > 3))']),
        ("i32 IN (1, 2)", ['("i32" IN (1, 2))']),
        ("i32 NOT IN (1, 2)", ['(NOT ("i32" IN (1, 2)))']),
        ("i32 = 1 OR x = 2", ['(("i32" = 1) OR ("x" = 2.0::DOUBLE))']),
        (
            "(i32 = 1 AND id = 3) OR (i32 = 2 AND id = 4)",
            [
                '((("i32" = 1) AND ("id" = 3)) OR (("i32" = 2) AND ("id" = 4)))',
                '(("i32" = 1) OR ("i32" = 2))',
                '(("id" = 3) OR ("id" = 4))',
            ],
        ),
        ("s IS NULL", ['("s" IS NULL)']),
        ("st IS NOT NULL", ['("st" IS NOT NULL)']),
        ("NOT (i32 IS NULL)", ['(NOT ("i32" IS NULL))']),
        ("id IS NULL OR id > 500", ['(("id" IS NULL) OR ("id" > 500))']),
        ("st.x.y = 'v'", ['("st"."x"."y" = \'v\')']),
        (
            "ts::DATE = DATE '2026-01-05'",
            ["((\"ts\" >= TIMESTAMP '2026-01-05 00:00:00') AND (\"ts\" < TIMESTAMP '2026-01-06 00:00:00'))"],
        ),
        ("year(d) = 2026", ["((\"d\" >= DATE '2026-01-01') AND (\"d\" <= DATE '2026-12-31'))"]),
        ("d >= DATE '2026-01-01' + INTERVAL 3 DAY", ["(\"d\" >= DATE '2026-01-04')"]),
        ("i32 + 1 = 5", ['("i32" = 4)']),
        ("i32 = 5::BIGINT", ['("i32" = 5)']),
        ("i32 < 10 AND i32 < 20 AND i32 <> 7", ['("i32" != 7)', '("i32" < 10)']),
        ("b = true", ['("b" = TRUE)']),
        ("x > -0.0", ['("x" > 0.0::DOUBLE)']),
        ("NOT (i32 = 1 OR x > 3)", ['("i32" != 1)', '("x" <= 3.0::DOUBLE)']),
        ("raw = '\\x00a'::BLOB", ["(\"raw\" = '\\x00\\x61'::BLOB)"]),
        ("dec IN (1.5)", ["(\"dec\" IN (CAST('1.50' AS DECIMAL(9, 2))))"]),
    ],
)
def test_conditions_that_arrive(offered: Offered, where: str, arrives: list[str]) -> None:
    """Conditions of a column and constants are offered, folded and split as we know it."""
    assert [node.fragment() for node in offered(where)] == arrives


@pytest.mark.parametrize(
    "where",
    [
        *("st['a'] = 5", "b", "NOT b", "b IS TRUE", "s LIKE 'abc%'", "starts_with(s, 'a')", "i32 = id"),
        *("s IS DISTINCT FROM 'a'", "i32::VARCHAR = '5'", "abs(i32) = 5", "i32 > 2.5", "(i32, id) = (1, 2)"),
        *("x = 'nan'::DOUBLE", "x < 'inf'::DOUBLE", "x IN ('nan'::DOUBLE, 1.0)", "coalesce(i32, 0) = 0"),
        *("d < 'infinity'::DATE", "tz < 'infinity'", "tz > TIMESTAMPTZ '10000-01-01 00:00:00+00'"),
        *("d > DATE '11000-01-01'", "ns = TIMESTAMP_NS '2026-01-01 00:00:00.000000001'", "l = [1, 2]"),
        *("i32 IN (1, NULL)", "i32 NOT IN (1, NULL)", "i32 IN (SELECT 1)", "i32 = NULL", "dec > 1.505"),
    ],
)
def test_conditions_that_do_not_arrive(offered: Offered, where: str) -> None:
    """Everything else stays with DuckDB: NaN, infinite times and nulls among constants above all."""
    assert offered(where) == []


def test_constants_have_the_type_of_the_column(offered: Offered) -> None:
    """A constant is a plain value of exactly the column's type; a moment counts microseconds."""
    found = offered("tz = '2026-01-01 00:00:00+00' AND i32 = $1", [7])
    assert [(node.right.value, node.right.type) for node in found] == [
        (1_767_225_600_000_000, "TIMESTAMP WITH TIME ZONE"),
        (7, "INTEGER"),
    ]


KEYS = pa.schema({"k": pa.int64(), "v": pa.int64()})


@pytest.fixture
def run(instance: duckdb.DuckDBPyConnection) -> Run:
    """Runs a query over sources ``a``, ``b`` and ``c``, and tells what they were asked."""

    def told(query: str) -> list[Any]:
        events: list[Any] = []
        with instance.cursor() as cursor:
            for name in "abc":
                cursor.register(name, AskedSource(name, KEYS, events))
            cursor.execute(query).fetchall()
        return events

    return told


def test_a_count_asks_for_the_first_column(run: Run) -> None:
    """A query that needs no column reads the first one."""
    assert run("SELECT count(*) FROM a") == [("open", "a", (0,)), ("end", "a")]


def test_columns_that_only_a_taken_condition_reads_are_not_asked_for(run: Run) -> None:
    """Columns of conditions that were taken leave the scan with them."""
    assert run("SELECT k FROM a WHERE v = 1")[0] == ("open", "a", (0,))


def test_two_references_of_one_source_are_two_scans(run: Run) -> None:
    """A self-join opens a stream for each side."""
    assert [event[0] for event in run("SELECT * FROM a x JOIN a y ON x.k = y.v")].count("open") == 2


def test_a_limit_lets_go_of_the_stream(run: Run) -> None:
    """A stream is not read further once the limit is met."""
    assert run("SELECT k FROM a LIMIT 1") == [("open", "a", (0,))]


@pytest.mark.parametrize(
    "shape",
    [
        *(f"a {kind} JOIN b ON a.k = b.k" for kind in ("", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")),
        "a WHERE k IN (SELECT k FROM b)",
        "a WHERE k NOT IN (SELECT k FROM b)",
        "a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        "a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
        "a WHERE v = 1 OR k IN (SELECT k FROM b)",
        "a JOIN b ON a.k IS NOT DISTINCT FROM b.k",
        "a JOIN b USING (k, v)",
        "a JOIN b ON a.k < b.k",
        "a LEFT JOIN b ON a.k < b.k",
        "a JOIN b ON a.k BETWEEN b.k AND b.v",
        "a JOIN b ON a.k + b.k = 3",
        "a CROSS JOIN b",
        "a ASOF JOIN b ON a.k >= b.k",
        "a, LATERAL (SELECT * FROM b WHERE b.k = a.k) l",
        "a WHERE v = (SELECT max(v) FROM b)",
        "a WHERE v = (SELECT max(v) FROM b WHERE b.k = a.k)",
        "(SELECT * FROM a UNION ALL SELECT * FROM a) u JOIN b ON u.k = b.k",
        "(SELECT k, sum(v) v FROM a GROUP BY k) g JOIN b ON g.k = b.k",
        "(SELECT * FROM a ORDER BY v LIMIT 1) l JOIN b ON l.k = b.k",
    ],
)
def test_the_second_side_of_a_join_is_opened_after_the_first_was_read(run: Run, shape: str) -> None:
    """A stream is opened only when the other side's has been read to its end, so that its keys can prune."""
    # Positional joins and sides below a window are read at once; nothing is pruned there either.
    events = run(f"SELECT * FROM {shape}")
    second = next(event[1] for event in reversed(events) if event[0] == "open")
    first = "b" if second == "a" else "a"
    opened = [at for at, event in enumerate(events) if event[:2] == ("open", second)]
    assert events.index(("end", first)) < min(opened), events


def test_all_builds_of_a_chain_are_read_before_its_probe(run: Run) -> None:
    """A probe of several joins is opened after each of their build sides was read."""
    events = run("SELECT * FROM a JOIN b ON a.k = b.k JOIN c ON c.k = b.k")
    *_, opened, ended = events
    assert (opened[0], ended) == ("open", ("end", opened[1]))
    assert {event[1] for event in events[:-2] if event[0] == "end"} == {"a", "b", "c"} - {opened[1]}
