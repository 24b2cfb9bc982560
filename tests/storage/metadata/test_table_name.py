"""Names of tables: what is one, what may become one, and what is said about the others."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.storage.metadata.table_name import TableName, check_name, check_new_name

LONG = "ä" * 100
"""200 bytes, though it has fewer than 127 characters."""


@pytest.mark.parametrize("text", ["sales.orders", "1.2", "a-b.c_d", "größe.日本", "a." + "x" * 127])
def test_a_name_comes_back(text: str) -> None:
    """A name of letters, digits, '_' and '-' is written as it was parsed."""
    assert str(TableName.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["orders", "a.b.c", ".orders", "sales.", "sales._x", "sa les.x", "s/x.y", "a." + "x" * 128]
)
def test_what_is_no_name(text: str) -> None:
    """A text that is not database.table is an error that says what a name is."""
    with pytest.raises(InvalidInputError, match=r"use a letter|needs a database"):
        TableName.parse(text)


@pytest.mark.parametrize("given", [None, 7, b"sales.orders", ("sales", "orders")])
def test_a_name_is_text(given: Any) -> None:
    """Anything but text is refused with an example of a name."""
    with pytest.raises(InvalidInputError, match=r"named by text, such as 'sales\.orders'"):
        TableName.parse(given)


def test_a_table_without_its_database_is_shown_with_one() -> None:
    """A lone name is refused with the name that it would have in a database."""
    with pytest.raises(InvalidInputError, match=r"needs a database, as in 'sales\.items'"):
        TableName.parse("items")


def test_a_long_name_that_exists_can_be_used() -> None:
    """Bytes are not counted where a table is only named: earlier releases did not bound them."""
    assert TableName.parse(f"{LONG}.{LONG}").table == LONG
    assert check_name(LONG, "database") == LONG


def test_a_new_name_is_short_enough_for_a_path() -> None:
    """A table to be has 160 bytes at most, whatever the length of its database's name."""
    assert TableName.new(f"{LONG}.{'ä' * 80}").table == "ä" * 80
    with pytest.raises(InvalidInputError, match="160 bytes in UTF-8"):
        TableName.new(f"sales.{'ä' * 80}x")


@pytest.mark.parametrize("text", ["", "_x", "a b", "a\n", LONG, None])
def test_a_bad_new_name_is_refused_for_what_it_names(text: Any) -> None:
    """The error says whether it is a database or a table that cannot be called so."""
    with pytest.raises(InvalidInputError, match="cannot be the name of a database"):
        check_new_name(text, "database")


@pytest.mark.parametrize("name", ["information_schema", "Information_Schema"])
def test_nothing_new_is_made_in_information_schema(name: str) -> None:
    """The catalog's own database takes no tables of users, and its name no database, whatever the case."""
    with pytest.raises(InvalidInputError, match="what the catalog computes"):
        TableName.new(f"{name}.t")
    with pytest.raises(InvalidInputError, match="what the catalog computes"):
        check_new_name(name, "database")
    assert check_new_name(name, "table") == name
