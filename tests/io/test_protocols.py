"""The words of an object store: which keys and ranges there are."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.io import Fetched
from lakehouse.io.protocols import check_key, check_range

BAD = re.compile(r"\A\Z|\A/|/\Z|//|(?:\A|/)\.{1,2}(?:/|\Z)|[\x00-\x1f\x7f\ud800-\udfff]")
"""What no key may have, all in one; length aside."""


@given(key=st.text(st.sampled_from("ab./ %é日\x00\n\x7f\ud800\u3000\u2028"), max_size=9))
@example(key=".hidden/..x/a.b/c.")
@example(key="a/...")
def test_a_key_is_good_or_refused_with_a_reason(key: str) -> None:
    """A key comes back as it is when it is good; otherwise the error shows it and says why."""
    if BAD.search(key):
        with pytest.raises(InvalidInputError, match=r"object key .* (is|begins|has)") as caught:
            check_key(key)
        assert caught.value.context == {"key": key}
    else:
        assert check_key(key) == key


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "is empty"),
        ("/a", "begins or ends"),
        ("a/", "begins or ends"),
        ("a//b", "empty, '.' or '..' part"),
        ("a/./b", "empty, '.' or '..' part"),
        ("..", "empty, '.' or '..' part"),
        ("a\nb", "control character"),
        ("a\ud800", "half of one"),
        ("é" * 513, "longer than 1,024 bytes"),
    ],
)
def test_each_mistake_is_named(key: str, says: str) -> None:
    """The error says what is wrong with the key, and can be printed and pickled."""
    with pytest.raises(InvalidInputError, match=says) as caught:
        check_key(key)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("key", ["x" * 1_024, "é" * 512, "a" * 300])
def test_length_is_counted_in_bytes(key: str) -> None:
    """A key has at most 1,024 bytes, as on S3."""
    assert check_key(key) == key
    with pytest.raises(InvalidInputError, match="longer"):
        check_key(key + "x" * 800)


@pytest.mark.parametrize(("start", "end"), [(0, 1), (5, 1 << 40)])
def test_a_range_holds_a_byte(start: int, end: int) -> None:
    """A range from a byte to a later one is good, wherever the object ends."""
    check_range("k", start, end)


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (4, 4), (5, 4)])
def test_what_holds_no_byte_is_no_range(start: int, end: int) -> None:
    """Negative, empty and reversed ranges are refused, and the error says which key."""
    with pytest.raises(InvalidInputError, match=rf"\[{start}, {end}\) of 'k'"):
        check_range("k", start, end)


def test_fetched_bytes_know_where_they_end() -> None:
    """The end of what was read is behind its last byte."""
    assert Fetched(key="k", data=b"abc", start=7, size=10).end == 10
