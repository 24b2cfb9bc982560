"""English tokens: GreptimeDB's, for whole columns at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.text import english as tokenizer_english
from lakehouse.format.text.characters import lower_text, word_table
from lakehouse.format.text.english import TOKENS, english_tokens

texts = st.lists(
    st.none()
    | st.text(alphabet="abAB_ 1-.", max_size=12)
    | st.text(alphabet="aZ_ éÉßΣσİ中。ⓐ\u093e😀\U00010400-", max_size=12)
    | st.text(max_size=8),
    max_size=12,
)


def by_hand(text: str | None, *, case_sensitive: bool) -> list[bytes]:
    """Tokens of one text, character by character."""
    words, word = [], ""
    for char in [*(text or ""), " "]:
        if word_table()[ord(char)]:
            word += char
        elif word:
            words.append(word if case_sensitive else lower_text(word))
            word = ""
    return [word.encode() for word in words]


def tokens(*rows: str | None, **options: bool) -> list[list[str]]:
    """Tokens of some rows as text."""
    found = english_tokens(pa.array(rows, pa.string()), **options).to_pylist()
    return [[token.decode() for token in row] for row in found]


def test_upstreams_ascii_example() -> None:
    """Runs of letters, digits and underscores, nothing else."""
    names = "ship_ship ship__ship _ __ __IDENTIFIER__ _ship ship_"
    text = f"Hello, world!!! This is a----++   test012_345+67890 {names}"
    wanted = f"Hello world This is a test012_345 67890 {names}"
    assert tokens(text, case_sensitive=True) == [wanted.split()]


def test_upstreams_example_of_other_scripts() -> None:
    """Pictures separate, characters of other scripts are letters."""
    text = "💸unfold the 纸巾😣and gently 清洁表😭面"
    assert tokens(text) == [["unfold", "the", "纸巾", "and", "gently", "清洁表", "面"]]


@settings(deadline=None)
@given(texts, st.booleans())
def test_columns_are_cut_as_texts_are(rows: list[str | None], case_sensitive: bool) -> None:
    """Every row of a column has the tokens that a look at its characters gives."""
    column = pa.array(rows, pa.string())
    found = english_tokens(column, case_sensitive=case_sensitive)
    assert found.type == TOKENS
    assert found.to_pylist() == [by_hand(row, case_sensitive=case_sensitive) for row in rows]


@settings(deadline=None)
@given(texts, st.integers(1, 20))
def test_slices_do_not_show(rows: list[str | None], size: int) -> None:
    """Wherever a column is cut into slices, the tokens are the same."""
    column = pa.array(rows, pa.string())
    whole = english_tokens(column).to_pylist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_english, "_SLICE_BYTES", size)
        assert english_tokens(column).to_pylist() == whole


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["x Ab", "", None, "é"]),
        pa.array(["x Ab", "", None, "é"], pa.large_string()),
        pa.array([b"x Ab", b"", None, "é".encode()]),
        pa.array(["x Ab", "", None, "é"]).dictionary_encode(),
        pa.array(["-", "x Ab", "", None, "é", "-"]).slice(1, 4),
        pa.chunked_array([["x Ab", ""], [], [None, "é"]]),
    ],
    ids=["string", "large", "binary", "dictionary", "slice", "chunks"],
)
def test_any_kind_of_text_array_will_do(array: Any) -> None:
    """Strings of every kind, slices and chunks give the same tokens; nulls and empty texts have none."""
    assert english_tokens(array).to_pylist() == [[b"x", b"ab"], [], [], ["é".encode()]]


def test_rows_do_not_run_together() -> None:
    """A token that ends a row and one that begins the next are two."""
    assert tokens("ab", "cd", "", "ef") == [["ab"], ["cd"], [], ["ef"]]
    assert tokens("éb", "cd", "", "eΣ") == [["éb"], ["cd"], [], ["eς"]]


def test_an_empty_column_has_no_tokens() -> None:
    """No rows, no lists."""
    assert english_tokens(pa.array([], pa.string())).to_pylist() == []
    assert english_tokens(pa.chunked_array([], pa.string())).to_pylist() == []


def test_text_that_is_none_is_refused() -> None:
    """Bytes in a string column that are not UTF-8 are an error of ours."""
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    with pytest.raises(InvalidInputError, match="UTF-8"):
        english_tokens(broken)
