"""JSON that may hold anything."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError
from lakehouse.format.limits import json_object as kit
from lakehouse.format.limits.json_object import DEPTH_MAX, JsonObject, parse_json

_MIB = 1 << 20
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
READERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], bool]]] = {
    "whole": (kit.whole, lambda found: type(found) is int and found >= 0),
    "count": (kit.count, lambda found: type(found) is int and 0 <= found <= 2**53),
    "number": (kit.number, lambda found: type(found) is int and 0 <= found < 2**31),
    "moment": (kit.moment, lambda found: type(found) is int and 0 <= found < 2**48),
    "ratio": (kit.ratio, lambda found: type(found) is float and 0 < found < 1),
    "text": (kit.text, lambda found: type(found) is str),
    "flag": (kit.flag, lambda found: type(found) is bool),
    "items": (kit.items, lambda found: type(found) is list),
    "members": (kit.members, lambda found: type(found) is dict),
    "hex_bytes": (kit.hex_bytes, lambda found: type(found) is bytes),
    "hex_checksum": (kit.hex_checksum, lambda found: 0 <= found < 2**32),
    "unique_id": (kit.unique_id, lambda found: found.version is not None or found.int >= 0),
    "each": (kit.each(kit.count), lambda found: all(type(one) is int for one in found)),
    "table_of": (kit.table_of(kit.text), lambda found: all(type(one) is str for one in found.values())),
    "optional": (kit.optional(kit.text), lambda found: found is None or type(found) is str),
}


@pytest.mark.parametrize("name", READERS)
@given(value=values)
def test_a_reader_gives_what_it_promises_or_an_error_that_says_where(name: str, value: Any) -> None:
    """A member of any kind is what its reader promises, or a CorruptionError that names object and place."""
    reader, is_promised = READERS[name]
    found = JsonObject({"a": value}, "the/key", "outer.")
    problem: CorruptionError | None = None
    try:
        assert is_promised(found.read("a", reader))
    except CorruptionError as error:
        problem = error
    assert problem is None or problem.message.startswith("the/key: outer.a must be ")
    assert problem is None or problem.context["field"] == "outer.a"


def test_a_member_that_is_missing_has_its_default() -> None:
    """A default stands for a member that is not there, not for one that is null."""
    found = JsonObject({"null": None}, "k")
    assert found.read("absent", kit.count, 5) == 5
    with pytest.raises(CorruptionError, match="k: null must be a whole number"):
        found.read("null", kit.count, 5)
    with pytest.raises(CorruptionError, match=r"k: absent must be a whole number.*not None"):
        found.read("absent", kit.count)


def test_objects_within_objects_end_somewhere() -> None:
    """Objects nest as deep as the limit and no deeper, and the error is short."""
    deep: Any = {}
    for _ in range(DEPTH_MAX + 1):
        deep = {"a": deep}
    found = JsonObject(deep, "k")
    for _ in range(DEPTH_MAX):
        found = found.inner("a")
    with pytest.raises(CorruptionError, match="nest deeper") as raised:
        found.inner("a")
    assert len(raised.value.message) < 500


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting"),
        (b"[NaN]", "not a JSON number"),
        (b"[-Infinity]", "not a JSON number"),
        (b"[1e999]", "out of range"),
        (b"\xff", "UTF-8"),
        (b'"\\ud800"', "UTF-8"),
        (b"[" * 100_000, "too deep"),
        (b"1" * 10_000, "digits"),
    ],
)
def test_what_is_no_json_is_a_short_error(text: bytes, problem: str) -> None:
    """Text that is no JSON, or none that can be written again, is a ValueError without the text."""
    with pytest.raises(ValueError, match=problem) as raised:
        parse_json(text)
    assert len(str(raised.value)) < 300
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_pairs_of_surrogates_are_characters() -> None:
    """Text beyond the first plane may be escaped."""
    assert parse_json(b'"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize("piece", [b"[],", b"{},", b"0,", b'"",', b"[[]],"])
def test_a_text_of_too_many_values_is_refused_unread(piece: bytes) -> None:
    """A text that says more values than are allowed is refused before memory is taken for them."""
    text = b"[" + piece * (16 * _MIB // len(piece)) + b"0]"
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 1,000,000 values"):
            parse_json(text)
        assert tracemalloc.get_traced_memory()[1] < _MIB
    finally:
        tracemalloc.stop()


def test_a_text_as_large_as_the_limit_is_read() -> None:
    """Marks in a text that has fewer values than the limit do no harm."""
    assert parse_json(b"[" + b"0," * 99 + b"0]", values_max=201) == [0] * 100
    assert math.isclose(parse_json(b"0.5", values_max=1), 0.5)
