"""What bounds say of a condition is true of every set of rows that has these bounds."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import Expr, all_of, any_of, bind, col, lit, matching, parse_where, to_sql
from lakehouse.expr.bounds import ColumnBounds, Verdict, judge, like_prefix
from lakehouse.expr.nodes import Column, Compare, Constant, In, IsNull, Not
from tests.kit.conditions import OPS, TABLE, leaves

FLOATS = [0.0, -0.0, 0.5, -1.5, math.inf, -math.inf, math.nan, 3.0]
TEXTS = ["", "a", "ab", "ab%c", "abc", "B", "ü", "ümlaut", "zz"]
POOLS: dict[str, list[Any]] = {
    **{name: TABLE[name].drop_null().to_pylist() for name in TABLE.column_names},
    "x": FLOATS,
    "f": FLOATS,
    "name": TEXTS,
}
"""Values of rows, near the constants of the conditions."""


@st.composite
def odd_leaves(draw: st.DrawFn) -> Expr:
    """Conditions that the kit's leaves lack: NaN, columns alone, columns among each other."""
    number = st.sampled_from(FLOATS)
    return draw(
        st.builds(lambda op, value: Compare(op, col("x"), lit(value)), st.sampled_from(OPS), number)
        | st.builds(lambda values: In(col("f"), tuple(values)), st.lists(number, min_size=1, max_size=3))
        | st.sampled_from([Column("flag"), lit(True), lit(False), lit(None), lit(1) == 1, lit(1) > lit(2)])
        | st.sampled_from([col("x") > col("f"), col("big") + 1 > 3, IsNull(col("x") > 1.0)])
        | st.builds(col("name").like, st.sampled_from(["ab%", "ab", "a%c", "ab\\%c", "%", "%%", "_b%", ""]))
    )


CONDITIONS = st.recursive(
    leaves() | odd_leaves(),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(lambda *args: all_of(*args), inner, inner)
        | st.builds(lambda *args: any_of(*args), inner, inner)
    ),
    max_leaves=4,
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Expr, pa.Table, dict[str, ColumnBounds]]:
    """A condition, a few rows, each column of few values so that bounds often decide, and their bounds."""
    expr = draw(CONDITIONS)
    count = draw(st.integers(0, 3))
    columns, bounds = {}, {}
    for name in sorted(expr.columns() | {"id"}):
        few = draw(st.lists(st.sampled_from(POOLS[name]), min_size=1, max_size=2))
        few += draw(st.sampled_from([[], [None]]))
        values = draw(st.lists(st.sampled_from(few), min_size=count, max_size=count))
        columns[name] = pa.array(values, TABLE.schema.field(name).type)
        found = bounds_of(columns[name].to_pylist(), draw)
        if found is not None:
            bounds[name] = found
    return expr, pa.table(columns), bounds


def bounds_of(values: list[Any], draw: Any) -> ColumnBounds | None:
    """Bounds of these values: right, loosened, in part or not known."""
    known = sorted(
        (value for value in values if value is not None), key=lambda value: (value != value, value)
    )
    nulls = draw(st.sampled_from([len(values) - len(known)] * 3 + [None]))
    low, high = (known[0], known[-1]) if known else (None, None)
    how = draw(st.sampled_from(["exact"] * 4 + ["loose", "no low", "no high", "neither", "unknown"]))
    if how == "unknown":
        return None
    if how == "loose" and isinstance(low, str | bytes):
        low, high = low[:1], high + high[:1]
    return ColumnBounds(
        low=None if how in ("no low", "neither") else low,
        high=None if how in ("no high", "neither") else high,
        nulls=nulls,
        rows=len(values) + draw(st.sampled_from([0, 0, 2])),
    )


def check(verdict: Verdict, kept: list[bool]) -> None:
    """Nothing is said that the rows deny."""
    if any(kept):
        assert verdict is not Verdict.NONE
    if not all(kept):
        assert verdict is not Verdict.ALL


@settings(deadline=None, max_examples=200)
@given(cases())
def test_never_wrong(case: tuple[Expr, pa.Table, dict[str, ColumnBounds]]) -> None:
    """NONE is never said when a row matches, nor ALL when one does not, whatever of the bounds is known."""
    expr, table, bounds = case
    bound = bind(expr, table.schema)
    check(judge(bound, bounds), matching(bound, table).to_pylist())


@settings(deadline=None, max_examples=40)
@given(cases())
def test_never_wrong_for_duckdb(case: tuple[Expr, pa.Table, dict[str, ColumnBounds]]) -> None:
    """The same holds for what DuckDB keeps, to which a NaN is the greatest number and equal to itself."""
    expr, table, bounds = case
    verdict = judge(bind(expr, table.schema), bounds)
    with duckdb.connect() as connection:
        connection.register("t", table)
        kept = connection.sql(f"SELECT coalesce(({to_sql(expr)}), false) FROM t").fetchall()
    check(verdict, [row[0] for row in kept])


def known(low: Any, high: Any, *, nulls: int | None = 0, rows: int = 10) -> dict[str, ColumnBounds]:
    """Bounds of the one column v."""
    return {"v": ColumnBounds(low=low, high=high, nulls=nulls, rows=rows)}


DAY = dt.date(2026, 1, 1)
SCHEMAS: dict[type, pa.DataType] = {
    int: pa.int64(),
    str: pa.string(),
    float: pa.float64(),
    bool: pa.bool_(),
    dt.date: pa.date32(),
}


@pytest.mark.parametrize(
    ("where", "low", "high", "expected"),
    [
        ("v = 5", 6, 9, "none"),
        ("v = 5", 5, 9, "some"),
        ("v = 5", 5, 5, "all"),
        ("v <> 5", 5, 5, "none"),
        ("v <> 5", 6, 9, "all"),
        ("v < 5", 5, 9, "none"),
        ("v < 5", 1, 4, "all"),
        ("v <= 5", 5, 9, "some"),
        ("v <= 5", 1, 5, "all"),
        ("v > 5", 1, 5, "none"),
        ("v > 5", 6, 9, "all"),
        ("v >= 5", 5, 9, "all"),
        ("5 < v", 6, 9, "all"),
        ("v < 5.5", 6, 9, "none"),
        ("v < 5.5", 1, 5, "all"),
        ("v between 2 and 4", 5, 9, "none"),
        ("v between 2 and 4", 2, 4, "all"),
        ("not (v between 2 and 4)", 5, 9, "all"),
        ("v in (1, 3, 20)", 4, 19, "none"),
        ("v in (1, 3, 20)", 3, 3, "all"),
        ("v not in (1, 3, 20)", 4, 19, "all"),
        ("v not in (1, 3, 20)", 3, 3, "none"),
        ("v in (1, null)", 2, 3, "none"),
        ("v not in (1, null)", 2, 3, "none"),
        ("v is null", 1, 2, "none"),
        ("v is not null", 1, 2, "all"),
        ("v = 1 and v = 2", 1, 1, "none"),
        ("v = 1 or v > 7", 8, 9, "all"),
        ("v = 1 or v > 7", 2, 7, "none"),
        ("v = null", 1, 1, "none"),
        ("1 = 0", 1, 1, "none"),
        ("1 = 1 or v = 3", 1, 1, "all"),
        ("starts_with(v, 'ab')", "ac", "z", "none"),
        ("starts_with(v, 'ab')", "a", "aa", "none"),
        ("starts_with(v, 'ab')", "ab", "abz", "all"),
        ("starts_with(v, 'ab')", "a", "b", "some"),
        ("v like 'ab%'", "ab", "abz", "all"),
        ("v like 'ab%x'", "ab", "abz", "some"),
        ("v like 'ab_'", "ac", "b", "none"),
        ("not (v like 'ab%')", "ac", "b", "all"),
        ("v > 'x'", "y", None, "all"),
        ("v > 1.0", 2.0, 3.0, "all"),
        ("v > 1.0", 2.0, math.nan, "some"),
        ("v < 1.0", 2.0, math.nan, "none"),
        ("v", True, True, "all"),
        ("v", False, False, "none"),
        ("not v", False, False, "all"),
        ("v > date '2025-12-31'", DAY, DAY, "all"),
    ],
)
def test_what_is_said(where: str, low: Any, high: Any, expected: str) -> None:
    """Comparisons, lists, null tests, prefixes and what is made of them are decided by bounds."""
    schema = pa.schema([("v", SCHEMAS[type(low)])])
    assert judge(bind(parse_where(where), schema), known(low, high)).value == expected


def test_nulls_do_not_match() -> None:
    """A file with a null never wholly matches a comparison; one of nothing else matches none."""
    more = col("v") > 1
    assert judge(more, known(5, 9, nulls=1)) is Verdict.SOME
    assert judge(more, known(5, 9, nulls=None)) is Verdict.SOME
    assert judge(more, known(None, None, nulls=10)) is Verdict.NONE
    assert judge(~more, known(None, None, nulls=10)) is Verdict.NONE
    assert judge(col("v").is_null(), known(None, None, nulls=10)) is Verdict.ALL
    assert judge(col("v").is_null(), known(1, 2, nulls=None)) is Verdict.SOME
    assert judge(IsNull(more), known(5, 9, nulls=0)) is Verdict.NONE
    assert judge(IsNull(more), known(None, None, nulls=10)) is Verdict.ALL


def test_no_rows_match_nothing() -> None:
    """Where there are no rows, none matches."""
    for expr in (col("v") > 1, col("v").is_null(), col("v").is_not_null()):
        assert judge(expr, known(None, None, nulls=0, rows=0)) is Verdict.NONE


def test_what_is_not_known_is_kept() -> None:
    """A column without bounds, a function and a comparison of columns may match or not."""
    for expr in (
        col("w") > 1,
        col("v") + 1 > 3,
        col("v") > col("w"),
        col("v").regexp("x") & (col("v") == "x"),
    ):
        assert judge(expr, known("x", "x")) is Verdict.SOME


@pytest.mark.parametrize(
    ("pattern", "prefix", "rest"),
    [("ab%", "ab", "%"), ("a_b", "a", "_b"), ("a\\%b", "a", "\\%b"), ("ab", "ab", ""), ("%", "", "%")],
)
def test_the_prefix_of_a_pattern(pattern: str, prefix: str, rest: str) -> None:
    """The prefix ends before the first wildcard or escape."""
    assert like_prefix(pattern) == (prefix, rest)


def test_constants_that_do_not_compare() -> None:
    """A comparison of constants that makes no sense is not judged."""
    assert judge(Compare("<", Constant("a"), Constant(1)), {}) is Verdict.SOME


def test_zeros_of_a_list() -> None:
    """0.0 in a list is -0.0 too, as among rows: a file of zeros is taken whole, and for a NaN not decided."""
    assert judge(In(col("v"), (0.0,)), known(-0.0, 0.0)) is Verdict.ALL
    assert judge(In(col("v"), (math.nan,)), known(0.0, 0.0)) is Verdict.SOME
