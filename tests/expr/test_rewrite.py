"""Conditions are rewritten without a change of what they say."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.expr import Expr, all_of, any_of, bind, col, evaluate
from lakehouse.expr.nodes import Compare, Constant, In, IsNull, Not
from lakehouse.expr.rewrite import with_ranges_listed
from tests.kit.conditions import OPS

SCHEMA = pa.schema({"v": pa.int8(), "d": pa.date32(), "t": pa.string()})
V, D = col("v"), col("d")
LEAVES = (
    st.builds(lambda op, value: Compare(op, V, Constant(value)), st.sampled_from(OPS), st.integers(-130, 130))
    | st.builds(V.is_in, st.lists(st.integers(-3, 3), min_size=1, max_size=2))
    | st.builds(IsNull, st.just(V))
    | st.builds(lambda low, size: V.between(low, low + size), st.integers(-130, 130), st.integers(-1, 6))
)


CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.builds(Not, inner) | st.builds(all_of, inner, inner) | st.builds(any_of, inner, inner),
    max_leaves=5,
)
ROWS = pa.table({"v": pa.array([*range(-128, 128), None], pa.int8())})


@settings(deadline=None, max_examples=200)
@given(CONDITIONS)
def test_listed_ranges_have_the_same_outcome(where: Expr) -> None:
    """Every row has the outcome it had: true, false or null."""
    bound = bind(where, ROWS.schema)
    listed = with_ranges_listed(bound, max_values=5)
    before, after = (
        made.as_py() if isinstance(made, pa.Scalar) else made.to_pylist()
        for made in (evaluate(bound, ROWS), evaluate(listed, ROWS))
    )
    assert before == after


def lists_in(where: Expr, **options: object) -> list[list[object]]:
    """The lists that are added to a condition."""
    listed = with_ranges_listed(bind(where, SCHEMA), **{"max_values": 3, **options})  # type: ignore[arg-type]
    return [[value.as_py() for value in node.values] for node in listed.walk() if isinstance(node, In)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (V.between(3, 5), [[3, 4, 5]]),
        (V.between(3, 6), []),
        (all_of(V > 3, V < 7), [[4, 5, 6]]),
        (all_of(V > 3, V < 70, V <= 5), [[4, 5]]),
        (all_of(V >= 126, V > 126), []),
        (all_of(V > 5, V < 3), []),
        (any_of(V > 3, V < 5), []),
        (any_of(V.between(1, 1), col("t") == "a"), [[1]]),
        (D.between(dt.date(2024, 2, 29), dt.date(2024, 3, 1)), [[dt.date(2024, 2, 29), dt.date(2024, 3, 1)]]),
        (col("t").between("a", "b"), []),
        (all_of(V > 3, dt.date(2024, 1, 1) > D), []),
    ],
)
def test_small_ranges_are_listed(where: Expr, expected: list[list[object]]) -> None:
    """A range of few integers or days between two ends of one conjunction becomes a list too."""
    assert lists_in(where) == expected


def test_ranges_of_named_columns_are_listed() -> None:
    """Where columns are named, ranges of others stay as they are."""
    both = all_of(V.between(1, 2), D.between(dt.date(2024, 1, 1), dt.date(2024, 1, 1)))
    assert lists_in(both, names=frozenset({"v"})) == [[1, 2]]
    assert len(lists_in(both)) == 2
