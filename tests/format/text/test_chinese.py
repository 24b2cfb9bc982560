"""Chinese tokens: jieba's cuts, and names that jieba would take apart."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.text.characters import lower_text, word_table
from lakehouse.format.text.chinese import chinese_tokens
from lakehouse.format.text.english import english_tokens

rjieba = pytest.importorskip("rjieba")

texts = st.lists(
    st.none()
    | st.text(alphabet="abA_ 1-", max_size=10)
    | st.text(alphabet="数据库系统登录手机号中国科学院，。aB_1 é\u212a", max_size=12),
    max_size=8,
)


def tokens(*rows: str | None, **options: bool) -> list[list[str]]:
    """Tokens of some rows as text."""
    found = chinese_tokens(pa.array(rows, pa.string()), **options).to_pylist()
    return [[token.decode() for token in row] for row in found]


def by_hand(text: str | None, *, case_sensitive: bool) -> list[bytes]:
    """Tokens of one text, rule by rule."""
    text = text or ""
    (english,) = english_tokens(pa.array([text]), case_sensitive=True).to_pylist()
    words = [word.decode() for word in english]
    if not text.isascii():
        names = [word for word in words if word.isascii() and "_" in word]
        cuts = rjieba.cut_for_search(text, True)
        words = [cut for cut in cuts if any(word_table()[ord(char)] for char in cut)] + names
    return [(word if case_sensitive else lower_text(word)).encode() for word in words]


def test_upstreams_example() -> None:
    """Words are cut apart."""
    assert tokens("我喜欢苹果") == [["我", "喜欢", "苹果"]]


def test_long_words_are_found_by_their_parts() -> None:
    """A long word also gives the shorter ones in it; punctuation gives nothing."""
    found = tokens("登录手机号…动态key：829889AC8", case_sensitive=True)
    assert found == [["登录", "手机", "手机号", "动态", "key", "829889AC8"]]


def test_names_with_underscores_come_whole_at_the_end() -> None:
    """What jieba takes apart can still be found as one name, if the name is ASCII."""
    (found,) = tokens("中文 Error_Code=42 é_x")
    assert found[-1] == "error_code"
    assert "é_x" not in found


def test_ascii_texts_are_english() -> None:
    """jieba has no say in a text without other characters."""
    assert tokens("Hello, World_x 42", None, "") == [["hello", "world_x", "42"], [], []]


@settings(deadline=None)
@given(texts, st.booleans())
def test_columns_are_cut_as_texts_are(rows: list[str | None], case_sensitive: bool) -> None:
    """Rows of both kinds, mixed, have the tokens that the rules give each alone."""
    found = chinese_tokens(pa.array(rows, pa.string()), case_sensitive=case_sensitive)
    assert found.to_pylist() == [by_hand(row, case_sensitive=case_sensitive) for row in rows]


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing rjieba is named with the extra that brings it."""
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(InvalidInputError, match=r"lakehouse\[fulltext\]") as caught:
        tokens("中文")
    assert caught.value.kind == "missing-extra"
