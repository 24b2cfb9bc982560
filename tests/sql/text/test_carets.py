"""Carets: a line of a text and the marker below a place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.sql.text import caret, line_and_column


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("select x", "x", "line 1, column 8:\nselect x\n       ^"),
        ("select\n  é, wörd from", "wörd", "line 2, column 6:\n  é, wörd from\n     ^^^^"),
        ("\tab", "ab", "line 1, column 2:\n    ab\n    ^^"),
        ("'表' x", "x", "line 1, column 5:\n'表' x\n     ^"),
        ("'e\u0301' x", "x", "line 1, column 6:\n'e\u0301' x\n    ^"),
        ("a\r\nb", "b", "line 2, column 1:\nb\n^"),
        ("'\x1b[31m' x", "x", "line 1, column 9:\n'�[31m' x\n        ^"),
    ],
)
def test_the_marker_stands_below_the_place(text: str, word: str, expected: str) -> None:
    """Tabs, wide characters, marks without a width and escapes of terminals do not move the marker."""
    offset = text.encode().index(word.encode())
    assert caret(text.encode(), offset, len(word.encode())) == expected


def test_a_long_line_is_cut_around_the_place() -> None:
    """A line of a million characters is shown as far as a terminal is wide."""
    text = ("a" * 500_000 + " HERE " + "b" * 500_000).encode()
    head, line, marker = caret(text, text.index(b"HERE"), 4).split("\n")
    assert head == "line 1, column 500002:"
    assert len(line) <= 100
    assert line.startswith("…")
    assert line.endswith("…")
    assert line[marker.index("^") : len(marker)] == "HERE"


@given(st.text(max_size=200), st.integers(-5, 900), st.integers(0, 900))
def test_every_place_has_a_drawing(text: str, offset: int, length: int) -> None:
    """Three lines of bounded width come of any place, also of one inside of a character or beyond the end."""
    drawn = caret(text.encode(), offset, length)
    head, line, marker = drawn.split("\n")
    assert head.startswith("line ")
    assert len(line) <= 100
    assert len(marker) <= 101
    assert set(marker) <= {" ", "^"}
    assert marker.endswith("^")


@given(st.text(max_size=60), st.data())
def test_lines_and_columns_count_characters(text: str, data: st.DataObject) -> None:
    """The column of a character is its number in its line, whatever bytes it has."""
    index = data.draw(st.integers(0, len(text)))
    before = text[:index]
    expected = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    assert line_and_column(text.encode(), len(before.encode())) == expected
