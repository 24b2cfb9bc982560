"""Filters of Spark as conditions of the engine: exactly what Spark means, or not at all."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import datasource as ds

from lakehouse.expr import matching
from lakehouse.format.schema.table_schema import schema_from_arrow
from lakehouse.spark import table
from lakehouse.spark.reading.filters import translated
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.source import register
from lakehouse.storage.scan.conditions import bind_where

_NAN, _INF = float("nan"), float("inf")
_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("data", pa.binary()),
        ("small", pa.int8()),
        ("f", pa.float32()),
        ("g", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("ok", pa.bool_()),
        ("s", pa.struct([("a", pa.int32()), ("B", pa.string())])),
        ("dotted.name", pa.int32()),
        ("tags", pa.list_(pa.int32())),
    ]
)
_AT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def _row(number: int) -> dict[str, Any]:
    def one(values: list[Any]) -> Any:
        return values[number % len(values)]

    return {
        "id": number,
        "name": one([None, "", "a", "ab", "b", "é", "z", "\U0001f600", "\uffff", "a%b"]),
        "data": one([None, b"", b"\x7f", b"\x80", b"\xff", b"\x80\x00"]),
        "small": one([None, -128, -1, 0, 1, 127]),
        "f": one([None, _NAN, -0.0, 0.0, 0.1, _INF, -_INF, 1.5]),
        "g": one([None, _NAN, -0.0, 0.0, 0.1, _INF, -_INF, 1.5, 5e-324]),
        "d": one([None, decimal.Decimal("-1.10"), decimal.Decimal("0.00"), decimal.Decimal("99999999.99")]),
        "day": one([None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 3, 1)]),
        "at": one([None, _AT, _AT + dt.timedelta(microseconds=1), _AT - dt.timedelta(days=40000)]),
        "local": one([None, *(_AT.replace(tzinfo=None) + dt.timedelta(hours=hour) for hour in range(3))]),
        "ok": one([None, True, False]),
        "s": one([None, {"a": 1, "B": None}, {"a": None, "B": "x"}, {"a": 2, "B": "é"}]),
        "dotted.name": one([None, 1, 2]),
        "tags": one([None, [], [1, None]]),
    }


_ROWS = pa.Table.from_pylist([_row(number) for number in range(90)], _SCHEMA)
_TABLE = schema_from_arrow(_SCHEMA, primary_key="id")
_LITERALS: dict[str, list[tuple[str, Any]]] = {
    "name": [
        ("''", ""),
        ("'ab'", "ab"),
        ("'é'", "é"),
        ("'\U0001f600'", "\U0001f600"),
        ("'\uffff'", "\uffff"),
    ],
    "data": [("X'80'", b"\x80"), ("X''", b"")],
    "small": [("0Y", 0), ("127Y", 127), ("-128Y", -128)],
    "f": [("float('nan')", _NAN), ("0F", 0.0), ("-0F", -0.0), ("1.5F", 1.5), ("float('inf')", _INF)],
    "g": [("double('nan')", _NAN), ("0D", 0.0), ("0.1D", 0.1), ("double('-inf')", -_INF)],
    "d": [("0BD", decimal.Decimal("0")), ("-1.10BD", decimal.Decimal("-1.10"))],
    "day": [("DATE'1969-12-31'", dt.date(1969, 12, 31))],
    "at": [("TIMESTAMP'2026-03-01 12:00:00 UTC'", _AT)],
    "local": [("TIMESTAMP_NTZ'2026-03-01 13:00:00'", dt.datetime(2026, 3, 1, 13))],
    "ok": [("true", True), ("false", False)],
    "s.a": [("1", 1)],
    "s.B": [("'x'", "x")],
    "`dotted.name`": [("1", 1)],
}
_COMPARISONS: list[tuple[str, type[Any]]] = [
    ("=", ds.EqualTo),
    ("<=>", ds.EqualNullSafe),
    (">", ds.GreaterThan),
    (">=", ds.GreaterThanOrEqual),
    ("<", ds.LessThan),
    ("<=", ds.LessThanOrEqual),
]


def _path(column: str) -> tuple[str, ...]:
    return (column.strip("`"),) if "`" in column else tuple(column.split("."))


def _conditions() -> list[tuple[str, ds.Filter]]:
    """Conditions as SQL, and as the filters that Spark makes of them."""
    found: list[tuple[str, ds.Filter]] = []
    for column, literals in _LITERALS.items():
        path = _path(column)
        for text, value in literals:
            found += [(f"{column} {sign} {text}", kind(path, value)) for sign, kind in _COMPARISONS]
            found.append((f"{column} IN ({text}, NULL)", ds.In(path, (value, None))))
        texts, values = zip(*literals, strict=True)
        found.append((f"{column} IN ({', '.join(texts)})", ds.In(path, values)))
        found.append((f"{column} <=> NULL", ds.EqualNullSafe(path, None)))
        found.append((f"{column} IS NULL", ds.IsNull(path)))
        found.append((f"{column} IS NOT NULL", ds.IsNotNull(path)))
    found += [(f"{column} IS NULL", ds.IsNull((column,))) for column in ("s", "tags")]
    for part in ("", "a", "é", "b", "%"):
        found += [
            (f"startswith(name, '{part}')", ds.StringStartsWith(("name",), part)),
            (f"endswith(name, '{part}')", ds.StringEndsWith(("name",), part)),
            (f"contains(name, '{part}')", ds.StringContains(("name",), part)),
        ]
    return [*found, *((f"NOT ({text})", ds.Not(one)) for text, one in found)]


def test_every_filter_keeps_the_rows_that_spark_keeps(spark: SparkSession) -> None:
    """For all classes of filters, types and special values; and so do their contraries."""
    conditions = _conditions()
    frame = spark.createDataFrame(_ROWS)
    columns = [f"coalesce({text}, false) AS c{at}" for at, (text, _) in enumerate(conditions)]
    wanted = frame.orderBy("id").selectExpr(*columns).toArrow()
    for at, (text, one) in enumerate(conditions):
        where = translated(one, _TABLE)
        assert where is not None, text
        found = matching(bind_where(where, _TABLE), _ROWS).to_pylist()
        assert found == wanted.column(at).to_pylist(), text


@pytest.mark.parametrize(
    "one",
    [
        ds.EqualTo(("tags",), [1]),
        ds.EqualTo(("s",), {"a": 1}),
        ds.EqualTo(("nothing",), 1),
        ds.EqualTo(("s", "nothing"), 1),
        ds.EqualTo(("tags", "element"), 1),
        ds.EqualTo(("id",), "text"),
        ds.Not(ds.EqualTo(("id",), "text")),
    ],
)
def test_what_the_engine_cannot_tell_exactly_stays_with_spark(one: ds.Filter) -> None:
    """No condition is made of it."""
    assert translated(one, _TABLE) is None


def test_names_are_found_in_any_case() -> None:
    """Spark may have them as the query writes them."""
    where = translated(ds.EqualTo(("NAME",), "a"), _TABLE)
    assert where is not None
    assert where.columns() == {"name"}


def test_a_path_that_is_also_a_name_stays_with_spark() -> None:
    """A column called a.b goes before a field b of a column a, so that one is not looked at."""
    made = schema_from_arrow(
        pa.schema([("id", pa.int64()), ("a", pa.struct([("b", pa.int32())])), ("c", pa.int32())])
    )
    # Tables that were made before such names were refused have them still.
    both = dataclasses.replace(
        made, fields=(*made.fields[:-1], dataclasses.replace(made.fields[-1], name="a.b"))
    )
    assert translated(ds.EqualTo(("a", "b"), 1), both) is None
    assert translated(ds.EqualTo(("a.b",), 1), both) is not None


def test_spark_does_not_look_again_at_what_was_pushed_down(
    spark: SparkSession, connection: Connection
) -> None:
    """The plan has no filter of its own; what cannot be pushed down is still applied."""
    register(spark, connection)
    lake = warehouse(connection)
    lake.call(lake.lake.create_database, "db")
    made = lake.call(lake.lake.create_table, "db.t", _SCHEMA, primary_key="id")
    lake.call(made.upsert, _ROWS)
    frame = table(spark, "db.t")
    pushed = frame.where("id > 5 AND name <> 'a' AND s.a = 2 AND at >= TIMESTAMP'2026-03-01 12:00:00 UTC'")
    kept = frame.where("id > 5 AND length(name) = 2")
    plans = [one._jdf.queryExecution().executedPlan().toString() for one in (pushed, kept)]
    assert ["Filter (" in plan for plan in plans] == [False, True]
    expected = spark.createDataFrame(_ROWS)
    for text in ("id > 5 AND name <> 'a' AND s.a = 2", "id > 5 AND length(name) = 2"):
        found = [row.id for row in frame.where(text).select("id").orderBy("id").collect()]
        assert found == [row.id for row in expected.where(text).select("id").orderBy("id").collect()]
