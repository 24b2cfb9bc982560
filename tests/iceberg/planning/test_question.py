"""Conditions in parts: a file is kept if no part excludes it, and asked only what is not known of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakehouse.expr import parse_where, to_sql
from lakehouse.expr.columnar import ColumnarBounds, FileBounds
from lakehouse.format.schema import schema_from_arrow
from lakehouse.iceberg.planning.question import Answers, Question

SCHEMA = schema_from_arrow(pa.schema({"a": pa.int64(), "b": pa.int64()}))


def answers(where: str | None) -> Answers:
    """Asks a condition of three files: a is 0 to 4, 5 to 9 and 10 to 14, and b is not known."""
    lows = pa.array([0, 5, 10])
    bounds = ColumnarBounds(lows, pa.array([4, 9, 14]), np.zeros(3, np.int64))
    asked = Question(None if where is None else parse_where(where), SCHEMA)
    return asked.ask(FileBounds(rows=np.full(3, 5), columns={"a": bounds}))


def test_every_part_excludes_for_itself() -> None:
    """A file is left out as soon as one part excludes it, and the first such part is told."""
    found = answers("a >= 5 and (a < 10 and b = 1)")
    assert found.kept.tolist() == [False, True, False]
    assert [found.first_excluding(at) for at in range(3)] == [0, None, 1]
    assert [mask.tolist() for mask in found.excluded] == [
        [True, False, False],
        [False, False, True],
        [False, False, False],
    ]


def test_parts_that_always_hold_are_not_asked_again() -> None:
    """The residual of a file has the parts that are true of some of its rows only."""
    found = answers("a >= 5 and b = 1")
    residual = found.residuals(np.array([1]))[0]
    assert residual is not None
    assert to_sql(residual) == "b = 1"
    assert found.residual_texts(np.array([1, 2])) == ["b = 1", "b = 1"]
    assert answers("a >= 7").residual_texts(np.array([1, 2])) == ["a >= 7", None]
    assert answers("a >= 5").residuals(np.array([1]))[0] is None


def test_residuals_are_of_the_condition_as_it_was_written() -> None:
    """A residual can be sent as text and asked anywhere."""
    residual = answers("a + 0 = 7 and b in (1, 2)").residuals(np.array([0]))[0]
    assert residual is not None
    assert parse_where(to_sql(residual)).columns() == {"a", "b"}


def test_many_parts_have_residuals() -> None:
    """More parts than a word has bits are told apart all the same."""
    where = " and ".join(f"a <> {number}" for number in range(100, 170)) + " and b = 3"
    assert answers(where).residual_texts(np.array([0])) == ["b = 3"]


def test_without_a_condition_all_files_are_kept() -> None:
    """No part excludes anything, and nothing is left to ask."""
    found = answers(None)
    assert found.kept.all()
    assert found.residuals(np.array([0]))[0] is None
    assert found.residual_texts(np.array([0, 1])) == [None, None]
