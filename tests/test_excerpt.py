"""Values as errors show them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from lakehouse.excerpt import SHORT_MAX, is_utf8, short

_MIB = 1 << 20
LARGE: dict[str, Any] = {
    "text": "x" * (64 * _MIB),
    "bytes": b"x" * (64 * _MIB),
    "list": list(range(1_000_000)),
    "object": {f"{number}": number for number in range(300_000)},
    "number": 10**100_000,
    "texts": ["x" * _MIB] * 1_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_value_is_cut_before_it_is_a_text(name: str) -> None:
    """What is shown of a value of any size is short, and takes no memory for the rest."""
    tracemalloc.start()
    try:
        shown = short(LARGE[name])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(shown) <= SHORT_MAX
    assert peak < 100_000


def test_a_value_that_nests_deep_is_cut() -> None:
    """Lists within lists are shown to some depth."""
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    assert len(short(deep)) < 30


@pytest.mark.parametrize("value", [None, True, -5, 1.5, "a'b", b"\x00", [1, "x"], {"b": 1, "a": [2]}, ()])
def test_a_small_value_is_shown_whole(value: object) -> None:
    """A value that is short is shown as Python writes it."""
    assert short(value) == repr(value)


def test_halves_of_surrogate_pairs_are_no_text() -> None:
    """A text with half of a pair has no UTF-8; a whole pair is one character."""
    assert is_utf8("ä€😀")
    assert not is_utf8("a\ud800")
