"""References: how text is read as the parts of a name, and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.catalog.graph.references import parse_name, show_name
from lakehouse.errors import InvalidInputError

_PARTS = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5).map(tuple)


@given(_PARTS)
def test_what_is_shown_is_read_back(parts: tuple[str, ...]) -> None:
    """The text of a name, whatever characters are in it, is read as the same parts."""
    assert parse_name(show_name(parts)) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sales.orders", ("sales", "orders")),
        ('"a.b".c', ("a.b", "c")),
        ('a."b""c"', ("a", 'b"c')),
        ('"x"', ("x",)),
        ('a." ".c', ("a", " ", "c")),
    ],
)
def test_quotes_hold_a_part_together(text: str, parts: tuple[str, ...]) -> None:
    """Dots inside quotes divide nothing, and a doubled quote stands for one."""
    assert parse_name(text) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", '""', 'a.""', '"a', '"a"b', 'a"b', '"a"."', "a." * 80])
def test_unclear_names_are_refused(text: str) -> None:
    """An empty part, a quote that is not closed, or too many parts are errors that say so."""
    with pytest.raises(InvalidInputError):
        parse_name(text)


@given(st.text(max_size=60))
def test_any_text_is_a_name_or_an_error(text: str) -> None:
    """No text does anything else than give parts without empty ones, or an InvalidInputError."""
    try:
        parts = parse_name(text)
    except InvalidInputError:
        return
    assert all(parts)
    assert parse_name(show_name(parts)) == parts
