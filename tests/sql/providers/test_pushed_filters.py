"""Conditions that DuckDB pushes mean with us what they mean with it."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from duckdb._sources.nodes import Binary, Col, Lit, Node, Unary
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import Expr, bind, matching, to_sql
from lakehouse.sql.engine.loop_bridge import LoopBridge
from lakehouse.sql.providers import ArrowProvider, arrow_dataset, arrow_source, select_list, to_expr
from tests.kit.sql_sources import bridge_to_a_loop

INF, NAN = float("inf"), float("nan")
D = decimal.Decimal


def moment(*parts: int) -> dt.datetime:
    """A moment without a zone."""
    return dt.datetime(*parts)  # type: ignore[arg-type]


NEAR = [moment(2026, 1, 1), moment(2026, 1, 1, 0, 0, 0, 1), moment(2025, 12, 31, 23, 59, 59)]
FAR = [moment(1, 1, 1), moment(9999, 12, 31, 23, 59, 59, 999_999)]
ZONED = [value.replace(tzinfo=dt.UTC) for value in (*NEAR, *FAR)]
WHOLE = [value.replace(microsecond=0) for value in (*NEAR, *FAR)]
TEXTS = ["", "a", "ab", "b", "B", "ü", "\U0010ffff", "'", "a\x00"]
RAW = [b"", b"\x00", b"a", b"ab", b"\xff"]
FLOATS = [0.0, -0.0, 1.5, -1.5, NAN, INF, -INF, 16777216.0]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "i8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "i64": (pa.int64(), [-(1 << 63), -1, 0, 1, (1 << 63) - 1]),
    "u8": (pa.uint8(), [0, 1, 255]),
    "u64": (pa.uint64(), [0, 1, (1 << 64) - 1]),
    "f": (pa.float32(), FLOATS),
    "x": (pa.float64(), [*FLOATS, 0.1, 1e300]),
    "small": (pa.decimal128(7, 2), [D("0.00"), D("1.50"), D("-99999.99"), D("99999.99")]),
    "large": (pa.decimal128(38, 10), [D(0), D("1.5"), D("-1e27"), D("1e-10")]),
    "s": (pa.string(), TEXTS),
    "long": (pa.large_string(), TEXTS),
    "coded": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "raw": (pa.binary(), RAW),
    "day": (pa.date32(), [value.date() for value in (*NEAR, *FAR)]),
    "clock": (pa.time64("us"), [dt.time(), dt.time(12, 0, 0, 1), dt.time.max]),
    "ts": (pa.timestamp("us"), [*NEAR, *FAR]),
    "ms": (pa.timestamp("ms"), WHOLE),
    "sec": (pa.timestamp("s"), WHOLE),
    "tz": (pa.timestamp("us", "UTC"), ZONED),
    "st": (pa.struct({"a": pa.int32(), "in": pa.struct({"x": pa.float64()})}), []),
}
"""Columns of every type that we translate, with values at the edges of it."""
NESTED = [
    {"a": a, "in": inner} for a in (None, 0, 1) for inner in (None, {"x": None}, {"x": NAN}, {"x": 0.0})
]
VALUES = {name: values or NESTED for name, (_, values) in COLUMNS.items()}
FIELDS = {"st.a": [0, 1, 2], "st.in.x": [0.0, -0.0, 1.5, INF]}
ASKED = {**{name: values for name, (_, values) in COLUMNS.items() if values}, **FIELDS}
SCHEMA = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in COLUMNS.items())])
NAME = {name: ".".join(f'"{part}"' for part in name.split(".")) for name in (*ASKED, "st", "st.in")}


CASTS = {"f": "FLOAT", "ms": "TIMESTAMP_MS", "sec": "TIMESTAMP_S"}
"""Columns whose constants have to be written with their type, since DuckDB takes them for wider ones."""


def constant(name: str, value: Any) -> str:
    """A value as SQL writes it where it is compared with that column."""
    return f"{literal(value)}::{CASTS[name]}" if name in CASTS else literal(value)


def literal(value: Any) -> str:
    """A value as SQL writes it."""
    match value:
        case bool() | int():
            return str(value)
        case float():
            return f"'{value}'::DOUBLE"
        case D():
            return f"{value:f}"
        case bytes():
            return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
        case str():
            return "'" + value.replace("'", "''").replace("\x00", "' || chr(0) || '") + "'"
        case dt.datetime():
            return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} '{value.isoformat()}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return f"TIME '{value.isoformat()}'"


@st.composite
def leaves(draw: st.DrawFn) -> str:
    """Text of a condition of one column."""
    name = draw(st.sampled_from(sorted(NAME)))
    if name not in ASKED or draw(st.integers(0, 9)) == 0:
        return f"{NAME[name]} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    constants = st.sampled_from([constant(name, value) for value in ASKED[name]])
    if draw(st.booleans()):
        return f"{NAME[name]} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {draw(constants)}"
    chosen = ", ".join(draw(st.lists(constants, min_size=1, max_size=4)))
    return f"{NAME[name]} {draw(st.sampled_from(['', 'NOT ']))}IN ({chosen})"


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(" AND ".join).map("({})".format),
        st.lists(inner, min_size=2, max_size=4).map(" OR ".join).map("({})".format),
        inner.map("(NOT {})".format),
    ),
    max_leaves=8,
)


def row_of(seed: int) -> dict[str, Any]:
    """A row of values and nulls; hypothesis draws the seed, since one draw a value would take seconds."""
    chosen = random.Random(seed)
    return {name: chosen.choice([None, *values]) for name, values in VALUES.items()}


ROWS = st.lists(st.integers(0, 1 << 32).map(row_of), min_size=1, max_size=12)


class Noting(ArrowProvider):
    """A provider that notes the conditions that were pushed."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table)
        self.noted: list[Expr] = []

    def applies(self, where: Expr) -> bool:
        """Takes and notes it."""
        self.noted.append(where)
        return True


@pytest.fixture(scope="module")
def bridge() -> Iterator[LoopBridge]:
    """One bridge for all examples."""
    with bridge_to_a_loop() as made:
        yield made


@pytest.fixture(scope="module")
def instance() -> Iterator[duckdb.DuckDBPyConnection]:
    """One DuckDB for all examples."""
    with duckdb.connect(config={"threads": 2}) as connection:
        yield connection


@contextmanager
def three_of(
    instance: duckdb.DuckDBPyConnection, bridge: LoopBridge, provider: ArrowProvider, table: pa.Table
) -> Iterator[Callable[[str], None]]:
    """Tells whether a condition keeps the same rows of a table of DuckDB's, a source, and a dataset."""
    with instance.cursor() as cursor:
        cursor.register("arrow", table)
        cursor.execute("CREATE TEMP TABLE native AS FROM arrow")
        for name, make in (("source", arrow_source), ("dataset", arrow_dataset)):
            cursor.register(name, make(provider, bridge))
            listed = select_list(table.schema.names)
            cursor.execute(f"CREATE TEMP VIEW over_{name} AS SELECT {listed} FROM {name}")

        def check(where: str) -> None:
            kept = [
                sorted(cursor.execute(f"SELECT id FROM {name} WHERE {where}").fetchall())
                for name in ("native", "over_source", "over_dataset")
            ]
            assert kept == [kept[0]] * 3, where

        yield check


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows, numbered."""
    return pa.Table.from_pylist([{"id": at, **row} for at, row in enumerate(rows)], SCHEMA)


@settings(max_examples=25, deadline=None)
@given(rows=ROWS, conditions=st.lists(CONDITIONS, min_size=3, max_size=3))
def test_sources_keep_the_rows_that_tables_keep(
    instance: duckdb.DuckDBPyConnection,
    bridge: LoopBridge,
    rows: list[dict[str, Any]],
    conditions: list[str],
) -> None:
    """A condition keeps the same rows of a source and of a dataset as of a table of DuckDB's own."""
    table = table_of(rows)
    with three_of(instance, bridge, ArrowProvider(table), table) as check:
        for where in conditions:
            check(where)


ALL_ROWS = table_of(
    [{name: values[at % len(values)] for name, values in VALUES.items()} for at in range(12)]
    + [dict.fromkeys(VALUES)]
)


@pytest.mark.parametrize("name", sorted(ASKED))
@pytest.mark.parametrize(
    "form", ["{0} = {1}", "{0} <> {1}", "{0} < {1}", "{0} >= {1}", "{0} NOT IN ({1}, {2})"]
)
def test_every_type_is_pushed(
    instance: duckdb.DuckDBPyConnection, bridge: LoopBridge, name: str, form: str
) -> None:
    """Conditions of every type of ours are applied by the provider, exactly."""
    constants = [constant(name, value) for value in ASKED[name] if value not in (NAN, INF, -INF)]
    provider = Noting(ALL_ROWS)
    with three_of(instance, bridge, provider, ALL_ROWS) as check:
        check(form.format(NAME[name], constants[0], constants[-1]))
    assert [expr.columns() for expr in provider.noted] == [{name}]


def found(node: Node, schema: pa.Schema = SCHEMA) -> str | None:
    """The text of what a condition becomes."""
    expr = to_expr(node, schema)
    return None if expr is None else to_sql(expr)


ONE = Binary("=", Col(("i8",)), Lit(1, "TINYINT"))


def test_long_chains_are_one_level() -> None:
    """Thousands of conditions that one connective joins are translated, and can be bound and evaluated."""
    node: Node = ONE
    for _ in range(1500):
        node = Binary("OR", node, ONE)
    expr = to_expr(node, SCHEMA)
    assert expr is not None
    assert matching(bind(expr, SCHEMA), ALL_ROWS).to_pylist().count(True) == 2


def test_deep_trees_stay_with_duckdb() -> None:
    """A tree that is deeper than evaluation may recurse is not taken."""
    node: Node = ONE
    for depth in range(5000):
        node = Binary("AND" if depth % 2 else "OR", ONE, Unary("NOT", node))
    assert found(node) is None


@pytest.mark.parametrize(
    "node",
    [
        Binary("=", Col(("nosuch",)), Lit(1, "TINYINT")),
        Binary("=", Col(("st", "nosuch")), Lit(1, "INTEGER")),
        Binary("=", Col(("i8", "a")), Lit(1, "TINYINT")),
        Binary("=", Col(("i8",)), Lit(1, "BIGINT")),
        Binary("=", Col(("i8",)), Col(("i8",))),
        Binary("~", Col(("i8",)), Lit(1, "TINYINT")),
        Unary("-", ONE),
        Lit(True, "BOOLEAN"),
    ],
)
def test_what_is_not_known_stays_with_duckdb(node: Node) -> None:
    """A column, type or node that we do not know is not taken."""
    assert found(node) is None


@pytest.mark.parametrize(
    ("kind", "constant"),
    [
        (pa.timestamp("ns"), Lit(dt.datetime(2026, 1, 1), "TIMESTAMP_NS")),
        (pa.timestamp("ns", "UTC"), Lit(0, "TIMESTAMP WITH TIME ZONE")),
        (pa.timestamp("ms", "UTC"), Lit(0, "TIMESTAMP WITH TIME ZONE")),
        (pa.date64(), Lit(dt.date(2026, 1, 1), "DATE")),
        (pa.float16(), Lit(1.5, "FLOAT")),
        (pa.binary(2), Lit(b"ab", "BLOB")),
    ],
)
def test_types_that_are_cut_stay_with_duckdb(kind: pa.DataType, constant: Lit) -> None:
    """A column that DuckDB reads in another unit than it is kept in is not compared by us."""
    assert found(Binary("=", Col(("c",)), constant), pa.schema({"c": kind})) is None


def test_names_keep_their_dots() -> None:
    """A column whose own name holds a dot is told from a field of a struct."""
    schema = pa.schema({"a.b": pa.int8(), "c": pa.struct({"d": pa.int8()})})
    assert found(Binary("=", Col(("a.b",)), Lit(1, "TINYINT")), schema) == "`a.b` = 1" or found(
        Binary("=", Col(("a.b",)), Lit(1, "TINYINT")), schema
    )
    assert found(Binary("=", Col(("c", "d")), Lit(1, "TINYINT")), schema) == "c.d = 1"
