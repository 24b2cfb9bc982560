"""Keys that several rows of one write have: found, named, and shown with the rows that have them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.rows.duplicate_keys import refuse_repeated_keys, repeated_key, same_key_error
from lakehouse.storage.rows.key_arrays import KeyColumns
from tests.kit.written_files import schema_of, table_of

DAY = dt.date(2026, 1, 2)
BY_ID = KeyColumns(schema_of().key_fields)
BY_NAME_AND_ID = KeyColumns(schema_of(primary_key=("name", "id")).key_fields)


def rows(*ids: int, name: str = "n") -> Any:
    """Returns rows with these ids."""
    return table_of([{"id": number, "day": DAY, "name": name, "amount": None} for number in ids])


@pytest.mark.parametrize("ids", [(), (1,), (1, 2, 3), (3, 1, 2)])
def test_different_keys_pass(ids: tuple[int, ...]) -> None:
    """Rows of which each has another key are neither refused nor found, in any order."""
    refuse_repeated_keys(rows(*ids), BY_ID)
    assert repeated_key(rows(*ids), BY_ID) is None


def test_the_first_repetition_is_refused() -> None:
    """The pair is named whose second row comes first in the input."""
    with pytest.raises(InvalidInputError, match=r"rows 1 and 3 of this call .* key id = 6, and") as caught:
        refuse_repeated_keys(rows(5, 6, 7, 6, 5), BY_ID)
    assert caught.value.context["key"] == {"id": 6}
    assert caught.value.context["rows"] == (1, 3)


def test_a_key_that_comes_three_times_is_named_with_its_first_rows() -> None:
    """Of three rows with one key the first two are named."""
    with pytest.raises(InvalidInputError) as caught:
        refuse_repeated_keys(rows(9, 4, 4, 4), BY_ID)
    assert caught.value.context["rows"] == (1, 2)


def test_the_refusal_says_where_keys_come_once() -> None:
    """The message names the argument or call that asks for different keys."""
    with pytest.raises(InvalidInputError, match="and delete_keys takes each key once"):
        refuse_repeated_keys(rows(1, 1), BY_ID, where="delete_keys")


def test_keys_of_several_columns_are_equal_in_all_of_them() -> None:
    """Rows that agree in one column of the key differ; a key is shown with all its columns, in key order."""
    refuse_repeated_keys(rows(1, 2), BY_NAME_AND_ID)
    with pytest.raises(InvalidInputError, match="the same key name = 'n', id = 2, and"):
        refuse_repeated_keys(rows(1, 2, 2), BY_NAME_AND_ID)


def test_a_repeated_key_is_found() -> None:
    """The least key that several rows have is returned by column."""
    assert repeated_key(rows(5, 6, 7, 6, 5), BY_ID) == {"id": 5}
    assert repeated_key(rows(8, 8), BY_NAME_AND_ID) == {"name": "n", "id": 8}


def test_an_error_about_a_key_has_it() -> None:
    """The error for a key given twice carries the key, and shows the beginning of long values only."""
    error = same_key_error({"id": 3, "name": "x" * 500})
    assert error.context["key"] == {"id": 3, "name": "x" * 500}
    assert f"id = 3, name = '{'x' * 79}, and" in error.message
