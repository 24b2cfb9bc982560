"""Regular expressions over the keys of an FST."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.fst.fst import Fst, build_fst
from lakehouse.format.fst.regex import literal_prefix, values_matching

WORDS = sorted(
    word.encode()
    for word in ["", "abc", "abcd", "ab.d", "xabc", "123", "a1", "ABC", "münchen", "数据库", "a\nb"]
)
FST = Fst.parse(build_fst(WORDS, range(len(WORDS))))

# Both engines mean the same by these pieces, for text without line breaks.
pieces = st.sampled_from(
    ["a", "b", "c", "1", "ü", ".", "[ab]", "[^b]", r"\.", "a*", "b?", "c+", "a{2}", "|", "(ab|c)"]
)
patterns = st.tuples(
    st.sampled_from(["", "^"]), st.lists(pieces, max_size=5).map("".join), st.sampled_from(["", "$"])
).map("".join)


def matches(pattern: str, *, whole: bool = False) -> list[str]:
    """The words whose values come back."""
    found = values_matching(FST, pattern, whole=whole)
    return [WORDS[place].decode() for place in found.tolist()]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("abc", ["abc", "abcd", "xabc"]),
        ("^abc", ["abc", "abcd"]),
        ("abc$", ["abc", "xabc"]),
        ("^abc$", ["abc"]),
        ("^ab.d$", ["ab.d", "abcd"]),
        (r"^ab\.d$", ["ab.d"]),
        ("^abc?", ["a\nb", "ab.d", "abc", "abcd"][1:]),
        ("^[0-9]+$", ["123"]),
        ("^123$|^abc$", ["123", "abc"]),
        ("(?i)^abc$", ["ABC", "abc"]),
        ("^m.nchen$", ["münchen"]),
        (r"^\p{Han}+$", ["数据库"]),
        ("^$", [""]),
        ("a.b", []),
    ],
)
def test_patterns_match_as_in_re2(pattern: str, expected: list[str]) -> None:
    """Anchors, classes, repeats, alternatives, flags and Unicode; a dot is no line break."""
    assert sorted(matches(pattern)) == sorted(expected)


def test_a_whole_match_is_anchored_on_both_sides() -> None:
    """With ``whole`` the pattern stands for the whole text, each alternative of it."""
    assert matches("abc|123", whole=True) == ["123", "abc"]
    assert matches("ab", whole=True) == []


@settings(deadline=None)
@given(st.sets(st.text(alphabet="abc1ü.", max_size=6), max_size=20).map(sorted), patterns, st.booleans())
def test_a_search_finds_what_a_look_at_every_key_finds(words: list[str], pattern: str, whole: bool) -> None:
    """The literal prefix leaves no match out."""
    keys = sorted(word.encode() for word in words)
    fst = Fst.parse(build_fst(keys, range(len(keys))))
    look = re.fullmatch if whole else re.search
    expected = [place for place, key in enumerate(keys) if look(pattern, key.decode())]
    assert values_matching(fst, pattern, whole=whole).tolist() == expected


@pytest.mark.parametrize(
    ("pattern", "whole", "prefix"),
    [
        ("^abc", False, "abc"),
        ("abc", False, ""),
        ("abc", True, "abc"),
        ("^abc*", False, "ab"),
        ("^abc?d", False, "ab"),
        ("^abc{0,2}", False, "ab"),
        ("^abc+", False, "abc"),
        (r"^a\.b", False, "a.b"),
        (r"^a\d", False, "a"),
        ("^ab|c", False, ""),
        ("^(?i)ab", False, ""),
        ("^数据?", False, "数"),
        ("^", False, ""),
    ],
)
def test_the_prefix_is_what_every_match_begins_with(pattern: str, whole: bool, prefix: str) -> None:
    """Only plain characters behind an anchor count, and not one that may be left out."""
    assert literal_prefix(pattern, whole=whole) == prefix


def test_keys_that_are_no_text_match_nothing() -> None:
    """Bytes that are not UTF-8 are passed over, the others still found."""
    keys = [b"a", b"a\xff", b"b"]
    fst = Fst.parse(build_fst(keys, [0, 1, 2]))
    assert values_matching(fst, ".").tolist() == [0, 2]


@pytest.mark.parametrize("pattern", ["a(", "a)|(b", "[", "*", r"(a)\1", "(?=a)", "\ud800"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    """A pattern RE2 does not take is a mistake of the caller, also where it would only fit by chance."""
    with pytest.raises(InvalidInputError, match="not a regular expression"):
        values_matching(FST, pattern, whole=True)


@pytest.mark.timeout(10)
def test_no_pattern_takes_long() -> None:
    """Patterns that make other engines try every way take time in proportion to the text."""
    key = b"a" * 5_000
    fst = Fst.parse(build_fst([key], [0]))
    assert values_matching(fst, "^(a+)+b$").tolist() == []
