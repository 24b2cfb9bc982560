"""Characters of words and their lower case: Rust's, whatever Python's version."""

from __future__ import annotations

import sys
import unicodedata

import numpy as np
import pytest

from lakehouse.format.text.characters import lower_table, lower_text, word_table
from lakehouse.format.text.unicode_words import UNICODE_VERSION


def test_the_tables_are_those_of_unicode_17() -> None:
    """Numbers counted by Rust 1.95: so many characters are alphanumeric, so many have a lower case."""
    assert UNICODE_VERSION == "17.0.0"
    # 149,106 are alphanumeric or have a lower case; the underscore is ours.
    table = word_table()
    changed = lower_table() != np.arange(0x110000)
    assert int((table | changed).sum()) == 149_107
    assert int(changed.sum()) == 1_487


@pytest.mark.parametrize(
    "char",
    ["a", "9", "_", "é", "中", "Ⅷ", "²", "½", "ⓐ", "\u0345", "\u093e", "\U0001f130", "𝟘"],
    ids=ascii,
)
def test_these_make_words(char: str) -> None:
    """Letters, numbers of every kind, circled letters and vowel signs, which Python's isalnum leaves out."""
    assert word_table()[ord(char)]


@pytest.mark.parametrize("char", [" ", "-", "。", "😀", "\u0301", "\u094d", "€", "\u200b", "'"], ids=ascii)
def test_these_do_not(char: str) -> None:
    """Punctuation, symbols, pictures, accents and joiners end a word."""
    assert not word_table()[ord(char)]


def test_python_agrees_on_what_it_knows() -> None:
    """Whatever Python calls alphanumeric is, and only Other_Alphabetic and newer characters come on top."""
    table = word_table()
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        category = unicodedata.category(char)
        if char.isalnum() or category == "Nl":
            assert table[code], hex(code)
        elif table[code] and code != ord("_"):
            assert category in ("Mn", "Mc", "So", "Cn"), hex(code)


def test_lower_case_is_pythons_on_what_it_knows() -> None:
    """One character alone is lower-cased as Python does, or has a lower case Python does not know yet."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if 0xD800 <= code < 0xE000:
            continue
        lower = lower_text(char)
        assert lower == char.lower() or (char.lower() == char and unicodedata.category(char) == "Cn"), hex(
            code
        )


@pytest.mark.parametrize(
    ("text", "lower"),
    [
        ("HELLO", "hello"),
        ("ÜBER", "über"),
        ("ΣΑΣ", "σας"),
        ("Σ", "σ"),
        ("ΑΣ.", "ας."),
        ("ΑΣΑ", "ασα"),
        ("İΣ", "i̇ς"),
        ("İ", "i̇"),
        ("\u212a_X", "k_x"),
        ("\ua7dc", "\u019b"),
        ("中文ABC", "中文abc"),
    ],
)
def test_texts_are_lower_cased_as_rust_does(text: str, lower: str) -> None:
    """A capital sigma goes by its neighbours, a dotted I becomes two, a character of Unicode 16 is known."""
    assert lower_text(text) == lower
