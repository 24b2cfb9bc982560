"""Conditions fitted to a table: words are those of its fulltext indexes, whichever files have these."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.expr import matching, parse_where
from lakehouse.format.schema import schema_from_arrow
from lakehouse.storage.scan.conditions import bind_where

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "message": ["Disk full", "the disk is full", "diskfull", None],
        "other": ["full disk", "disk", "", "Disk, full!"],
    },
    schema=pa.schema({"id": pa.int64(), "message": pa.string(), "other": pa.string()}),
)
CASE = {"fulltext": {"case_sensitive": True}}


def passing(where: str, **indexes: Any) -> list[int]:
    """Returns the ids of the rows that pass a condition on a table with these indexes."""
    schema = schema_from_arrow(ROWS.schema, indexes=indexes)
    found: list[int] = ROWS.filter(matching(bind_where(parse_where(where), schema), ROWS))["id"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("matches(message, 'disk full')", [1, 2]),
        ("matches(message, 'DISK')", [1, 2]),
        ("NOT matches(message, 'disk')", [3]),
        ("matches(message, 'disk') AND matches(other, 'full')", [1]),
        ("matches(message, 'disk') OR id = 4", [1, 2, 4]),
        ("matches(lower(message), 'disk')", [1, 2]),
        ("matches('Disk full', 'disk')", [1, 2, 3, 4]),
        ("matches('Disk full', 'tape')", []),
        ("id > 2", [3, 4]),
    ],
)
def test_words_without_an_index_are_english_in_any_case(where: str, ids: list[int]) -> None:
    """A text matches when it has every word of the query; a null neither matches nor does not."""
    assert passing(where) == ids


def test_words_are_cut_as_the_index_on_the_column_does() -> None:
    """Where the index on a column tells case, so does the condition on it, and on no other column."""
    assert passing("matches(message, 'Disk')", message=CASE) == [1]
    assert passing("matches(other, 'DISK')", message=CASE) == [1, 2, 4]


def test_an_index_on_an_expression_is_for_that_expression() -> None:
    """Options of an index on an expression hold for the same expression alone."""
    indexes = {"lower(message)": CASE}
    assert passing("matches(lower(message), 'Disk')", **indexes) == []
    assert passing("matches(lower(message), 'disk')", **indexes) == [1, 2]
    assert passing("matches(message, 'DISK')", **indexes) == [1, 2]


def test_other_kinds_of_indexes_know_no_words() -> None:
    """An index that is not fulltext leaves the words as they are, also beside one that is."""
    assert passing("matches(message, 'DISK')", message="inverted") == [1, 2]
    assert passing("matches(message, 'Disk')", message=[CASE, "inverted"]) == [1]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("matches(message, other)", "must be a constant text"),
        ("matches(message, 5)", "must be a constant text"),
        ("matches(id, 'disk')", "looked for in text, and this is int64"),
        ("nowhere = 1", "nowhere"),
    ],
)
def test_conditions_that_do_not_fit_are_refused(where: str, said: str) -> None:
    """A condition on missing columns, on words that are no constant or in no text is an error."""
    with pytest.raises(InvalidInputError, match=said):
        passing(where)
