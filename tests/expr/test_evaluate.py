"""Expressions mean what SQL means: DuckDB, on the same rows, keeps the same ones."""

from __future__ import annotations

import itertools

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lakehouse.errors import InvalidInputError
from lakehouse.expr import Expr, all_of, bind, col, lit, matching, parse_where, to_sql
from lakehouse.expr.evaluate import evaluate
from lakehouse.expr.nodes import Compare, CompareOp, Constant, In, all_given
from tests.kit.conditions import EXPRESSIONS, TABLE


def duckdb_keeps(sql: str) -> list[bool]:
    """What DuckDB keeps, row by row."""
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        rows = connection.sql(f"SELECT coalesce(({sql}), false) FROM t").fetchall()
    return [row[0] for row in rows]


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_the_same_rows_as_duckdb(expr: Expr) -> None:
    """A bound expression keeps the rows that DuckDB keeps for its text."""
    found = matching(bind(expr, TABLE.schema), TABLE).to_pylist()
    assert found == duckdb_keeps(to_sql(expr)), to_sql(expr)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_text_and_tree_are_one(expr: Expr) -> None:
    """The normal form reads back as the same tree, and has itself as normal form."""
    text = to_sql(expr)
    again = parse_where(text)
    assert to_sql(again) == text
    assert again.same_as(expr)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("amount>10", "amount > 10"),
        ("10 < amount", "10 < amount"),
        ("a = 1 AND (b = 2 AND c = 3)", "(a = 1) AND (b = 2) AND (c = 3)"),
        ("a between 1 and 2", "(a >= 1) AND (a <= 2)"),
        ("a not in (1, 2)", "NOT (a IN (1, 2))"),
        ("a is not null", "a IS NOT NULL"),
        ("lower(Host) = 'x'", "lower(Host) = 'x'"),
        ("matches(msg, 'disk full')", "matches(msg, 'disk full')"),
        ('"order" = 1', '"order" = 1'),
        ("s.a.b = -1.5", "s.a.b = -1.5"),
        ("d = date '2026-01-01'", "d = date '2026-01-01'"),
        ("a % 2 = 0", "(a % 2) = 0"),
        ("flag is true", "(flag IS NOT NULL) AND (flag = TRUE)"),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    """SQL text has one normal form."""
    assert to_sql(parse_where(text)) == normal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a condition is SQL text"),
        ("a =", "cannot read the condition"),
        ("a = 1; drop table x", "cannot read the condition"),
        ("select 1", "not understood"),
        ("a in (select 1)", "a list of values"),
        ("nosuch(a) = 1", "no function 'nosuch'"),
        ("starts_with(a) = 1", "cannot read|takes 2"),
        ("a::int = 1", "only constants can be cast"),
        ("d = date '2026-13-01'", "is no date"),
        ("(" * 300 + "a = 1" + ")" * 300, "nested too deeply|cannot read"),
    ],
)
def test_text_that_is_no_condition(text: str, said: str) -> None:
    """What cannot be understood is refused, with what and why."""
    with pytest.raises(InvalidInputError, match=said):
        parse_where(text)


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        (col("nothing") == 1, "no column 'nothing'; these are there: id"),
        (col("name") == 1, "cannot be compared with 1"),
        (col("id") == "1", "cannot be compared with '1'"),
        (col("day") > "yesterday", "cannot be compared"),
        (col("flag") == 1, "cannot be compared"),
        (col("big") + 1, "no condition"),
    ],
)
def test_expressions_that_do_not_fit(expr: Expr, said: str) -> None:
    """An expression that does not fit the schema is refused with the column and the value."""
    with pytest.raises(InvalidInputError, match=said):
        matching(bind(expr, TABLE.schema), TABLE)


def test_constants_are_never_rounded() -> None:
    """A constant between two values of a type moves the comparison, not the value."""
    schema = pa.schema([("n", pa.int32()), ("t", pa.timestamp("s"))])
    assert to_sql(bind(col("n") < 1.5, schema)).startswith("n <= ")
    assert to_sql(bind(col("n") >= 1.5, schema)).startswith("n > ")
    never = bind(col("n") == 1.5, schema)
    assert (
        matching(never, pa.table({"n": [1, 2, None], "t": pa.nulls(3, pa.timestamp("s"))})).to_pylist()
        == [False] * 3
    )


def test_python_and_sql_write_the_same_tree() -> None:
    """The builder and the parser make equal expressions."""
    built = (col("amount") > 10) & ~col("name").like("a%") | col("id").is_in([1, 2])
    assert built.same_as(parse_where("amount > 10 and not (name like 'a%') or id in (1, 2)"))
    assert built.columns() == {"amount", "name", "id"}


def test_expressions_have_no_truth_value() -> None:
    """``and`` between expressions is caught, since Python would drop one of them."""
    with pytest.raises(InvalidInputError, match="&"):
        bool(col("a") == 1)
    assert isinstance(all_of(), Constant)


def test_conditions_that_are_not_given_do_not_count() -> None:
    """All conditions hold that are given; of none there is no condition."""
    one, other = col("a") == 1, col("b") > 2
    assert all_given() is None
    assert all_given(None, None) is None
    assert all_given(None, one) is one
    both = all_given(one, None, other)
    assert both is not None
    assert both.same_as(one & other)


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_floats_have_one_order(op: CompareOp) -> None:
    """A NaN is above every number and equal to itself, and zeros are equal, as DuckDB has it."""
    values = [None, float("nan"), 0.0, -0.0, 1.0, float("inf"), float("-inf")]
    pairs = list(itertools.product(values, values))
    rows = pa.table({"l": pa.array([one for one, _ in pairs]), "r": pa.array([other for _, other in pairs])})
    with duckdb.connect() as connection:
        connection.register("pairs", rows)
        wanted = [row[0] for row in connection.sql(f"select l {op} r from pairs").fetchall()]
        found = evaluate(Compare(op, col("l"), col("r")), rows).to_pylist()
        assert found == wanted
        for value in values[1:]:
            kept = connection.sql(f"select l, r from pairs where l {op} '{value}'::double").fetchall()
            condition = bind(Compare(op, col("l"), lit(value)), rows.schema)
            assert repr(rows.filter(matching(condition, rows)).to_pylist()) == repr(
                [{"l": one, "r": other} for one, other in kept]
            )


def test_zeros_are_among_zeros() -> None:
    """IN finds a zero of either sign, and a NaN."""
    rows = pa.table({"x": [0.0, -0.0, float("nan"), 1.0]})
    found = matching(bind(In(col("x"), (0.0, float("nan"))), rows.schema), rows)
    assert found.to_pylist() == [True, True, True, False]


def test_a_null_among_zeros_leaves_misses_open() -> None:
    """NOT IN of a list with a null is true of nothing, for floats too."""
    rows = pa.table({"x": [0.0, 1.0, None]})
    found = matching(bind(~In(col("x"), (0.0, None)), rows.schema), rows)
    assert found.to_pylist() == [False, False, False]


@pytest.mark.parametrize("text", ["b = X'00ff'", "b in (x'00FF')", "b = from_hex('00ff')"])
def test_bytes_are_written_in_hexadecimal(text: str) -> None:
    """SQL's X'…' stands for bytes, and inside of a text it is text."""
    rows = pa.table({"b": pa.array([b"\x00\xff", b"\x00", None], pa.binary()), "t": ["X'00ff'"] * 3})
    assert matching(bind(parse_where(text), rows.schema), rows).to_pylist() == [True, False, False]
    inside = parse_where("t = 'X''00ff'''")
    assert matching(bind(inside, rows.schema), rows).to_pylist() == [True] * 3


_FINE = 1_700_000_000_123_456_789


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("t > '2023-11-14T22:13:20.123456788'", [True, True, False]),
        ("t > '2023-11-14 22:13:20.123456789'", [False, True, False]),
        ("t = '2023-11-15T06:13:20.123456789+08:00'", [True, False, False]),
        ("t in ('2023-11-14T22:13:20.12345679', '1970-01-01')", [False, True, False]),
        ("t < date '2023-11-15'", [True, True, False]),
        ("t < '3000-01-01'", [True, True, False]),
        ("t < '1000-01-01'", [False, False, False]),
    ],
)
def test_nanoseconds_are_compared_exactly(text: str, found: list[bool], zone: str | None) -> None:
    """A moment has nine digits behind the point, where Python's has six; beyond its years nothing is."""
    rows = pa.table({"t": pa.array([_FINE, _FINE + 1, None], pa.timestamp("ns", zone))})
    assert matching(bind(parse_where(text), rows.schema), rows).to_pylist() == found


def test_more_than_nine_digits_are_no_moment() -> None:
    """Nothing is cut off."""
    with pytest.raises(InvalidInputError, match="cannot be compared"):
        bind(parse_where("t = '2023-11-14T22:13:20.1234567890'"), pa.schema([("t", pa.timestamp("ns"))]))
