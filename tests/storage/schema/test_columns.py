"""Columns by name: whole ones, in the order in which they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import schema_from_arrow
from lakehouse.storage.schema.columns import fields_named

SCHEMA = schema_from_arrow(
    pa.schema({"id": pa.int64(), "place": pa.struct({"city": pa.string()}), "net.amount": pa.int64()})
)


def named(columns: Sequence[str] | None) -> list[str]:
    """Returns the names of the columns that are found."""
    return [field.name for field in fields_named(SCHEMA, columns)]


def test_no_names_are_all_columns() -> None:
    """Without names all columns come, in the order of the schema; an empty list is none of them."""
    assert named(None) == ["id", "place", "net.amount"]
    assert named([]) == []


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["place", "id"], ["place", "id"]),
        (["net.amount"], ["net.amount"]),
        (["`net.amount`", "`id`"], ["net.amount", "id"]),
    ],
)
def test_columns_come_as_they_are_named(columns: list[str], found: list[str]) -> None:
    """Columns come in the order of their names; a dot in a name needs no backticks, and may have them."""
    assert named(columns) == found


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["id", "ids"], r"column 'ids' is not there; these are: id, place, net\.amount"),
        (["place.city"], "column 'place.city' is inside 'place': columns are read whole, so ask for 'place'"),
        (["town.city"], "column 'town.city' is not there"),
        (["id", "place", "id"], "column 'id' is named twice"),
        (["id", "`id`"], "column '`id`' is named twice"),
    ],
)
def test_other_names_are_refused(columns: list[str], said: str) -> None:
    """A name of no column, of a field inside one, or of one that was named before is an error with it."""
    with pytest.raises(InvalidInputError, match=said) as caught:
        named(columns)
    assert caught.value.context["column"] == columns[-1]
