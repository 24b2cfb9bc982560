"""Checks of a text before anything parses it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.sql.text import SqlText
from tests.kit.sql_texts import parts_in, script


@pytest.mark.parametrize("text", ["select '\ud800'", "\udfff", 7, None, b"select 1"])
def test_what_is_no_text_in_utf8_is_refused(text: object) -> None:
    """A lone half of a surrogate pair, which DuckDB fails on, and what is no text are refused."""
    with pytest.raises(InvalidInputError, match="UTF-8"):
        SqlText.of(text, max_bytes=1000)


def test_a_text_beyond_the_bound_is_refused() -> None:
    """Bytes are counted, not characters, and the message says what to do."""
    assert SqlText.of("é" * 50, max_bytes=100).raw == ("é" * 50).encode()
    with pytest.raises(InvalidInputError, match=r"101 bytes; 100 are read at most: .*sql\.text_max_bytes"):
        SqlText.of("é" * 50 + "x", max_bytes=100)


def test_a_zero_character_is_refused_where_it_stands() -> None:
    """DuckDB takes a zero for a letter, and other programs for the end."""
    with pytest.raises(InvalidInputError, match="zero character") as caught:
        script("select 1\n, '\0'")
    assert (caught.value.context["line"], caught.value.context["column"]) == (2, 4)


def test_wide_spaces_outside_of_quotes_keep_their_bytes() -> None:
    """Offsets of DuckDB, which makes one byte of such a space, are those of the user's text."""
    text = "\ufeffselect\u00a0'a\u00a0b' as \"c\u3000d\" from\u3000s.t"
    raw = script(text).raw
    assert raw == "   select  'a\u00a0b' as \"c\u3000d\" from   s.t".encode()
    assert len(raw) == len(text.encode())
    assert parts_in(text) == [("s", "t")]


@given(st.text(st.sampled_from("a '\"\u00a0\u2003\ufeff;$-/*\n"), max_size=20))
def test_any_text_keeps_its_length(text: str) -> None:
    """Spaces are replaced by as many bytes, whatever quotes and comments are left open."""
    assert len(script(text).raw) == len(text.encode())
