"""Binding computes arithmetic over constants, so that bounds are judged by its value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.expr import Expr, parse_where
from lakehouse.expr.bind import bind
from lakehouse.expr.evaluate import matching
from lakehouse.expr.nodes import Compare, Constant, FunctionCall

SCHEMA = pa.schema({"id": pa.int32(), "price": pa.float64()})
ROWS = pa.table({"id": [2, 3, 10, None], "price": [2.5, 0.3, 10.0, None]}, schema=SCHEMA)


def bound(where: str) -> Expr:
    """The condition, fitted to the schema."""
    return bind(parse_where(where), SCHEMA)


@pytest.mark.parametrize(
    ("computed", "written"),
    [
        ("id = 5 + 5", "id = 10"),
        ("2 * 3 - 4 = id", "id = 2"),
        ("id < 10 / 4", "id < 2.5"),
        ("price > 7 % 4 * 1.5", "price > 4.5"),
        ("id BETWEEN 1 + 1 AND 2 * 2", "id BETWEEN 2 AND 4"),
        ("id = 1 / 0", "id = NULL"),
    ],
)
def test_arithmetic_over_constants_is_its_value(computed: str, written: str) -> None:
    """A condition with computed constants is bound as the one with their values, and matches the same."""
    assert bound(computed).same_as(bound(written))
    assert matching(bound(computed), ROWS).equals(matching(bound(written), ROWS))


def test_arithmetic_with_a_column_stays() -> None:
    """What depends on a row is computed for the row."""
    condition = bound("id + 1 = 2 + 2")
    assert isinstance(condition, Compare)
    assert isinstance(condition.left, FunctionCall)
    assert matching(condition, ROWS).to_pylist()[:3] == [False, True, False]


def test_an_overflow_is_left_to_the_rows() -> None:
    """A sum that no integer holds fails where it is computed, as it does with a column in it."""
    condition = bound("id > 9223372036854775807 + 1")
    assert isinstance(condition, Compare)
    assert not isinstance(condition.right, Constant)
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        matching(condition, ROWS)
