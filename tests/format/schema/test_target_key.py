"""Target keys: one key for each target, and back."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.schema.target_key import (
    COLUMN_ID_MAX,
    KEY_BYTES_MAX,
    ColumnSetTarget,
    ColumnTarget,
    ExpressionTarget,
    IndexTarget,
    JsonPathTarget,
    decode_column_target,
    decode_target_key,
    encode_target_key,
    target_properties,
)
from tests.kit.blob_samples import spec_block

IDS = st.integers(0, COLUMN_ID_MAX) | st.integers(0, 20)
POINTERS = st.lists(st.text(st.characters(codec="utf-8"), max_size=4), max_size=4).map(
    lambda names: "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
)
TARGETS = st.one_of(
    IDS.map(lambda n: ColumnTarget(column_id=n)),
    st.sets(IDS, min_size=2, max_size=12).map(lambda ids: ColumnSetTarget(column_ids=tuple(sorted(ids)))),
    st.builds(lambda n, pointer: JsonPathTarget(column_id=n, pointer=pointer), IDS, POINTERS),
    st.text(st.characters(codec="utf-8")).map(ExpressionTarget.of),
)


@given(TARGETS)
def test_targets_come_back(target: IndexTarget) -> None:
    """A target's key, with the properties that go with it, decodes to the target."""
    assert decode_target_key(encode_target_key(target), target_properties(target)) == target


@given(TARGETS)
def test_keys_are_short_and_plain(target: IndexTarget) -> None:
    """A key has at most 256 bytes, all from the specification's list."""
    key = encode_target_key(target)
    assert len(key.encode()) <= KEY_BYTES_MAX
    assert re.fullmatch(r"[0-9A-Za-z\-._~%,#:]+", key)


@given(st.text(max_size=30) | st.from_regex(r"\A[0-9]{0,4}[#,:%][0-9a-fA-F%~/,]{0,8}\Z"))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    """Whatever the text, it decodes to a target whose key it is, or FormatError says why not."""
    try:
        target = decode_target_key(text)
    except FormatError:
        return
    key = encode_target_key(target)
    assert key == text or isinstance(target, ColumnSetTarget) or text.lstrip("0") == key.lstrip("0")


def described(target: IndexTarget) -> dict[str, Any]:
    """A target as the specification writes it down."""
    match target:
        case ColumnTarget():
            return {"column": target.column_id}
        case ColumnSetTarget():
            return {"columns": list(target.column_ids)}
        case JsonPathTarget():
            return {"column": target.column_id, "json_path": target.pointer}
        case ExpressionTarget():
            return {"expr": target.expr}


def test_the_examples_of_the_specification_are_true() -> None:
    """Each key of the specification means what it says, and is what its target encodes to."""
    lines = spec_block("target-key.md", "keys").splitlines()
    assert len(lines) >= 6
    for line in lines:
        key, text = line.split(maxsplit=1)
        wanted = json.loads(text)
        properties = {"target_expr": wanted["expr"]} if "expr" in wanted else None
        target = decode_target_key(key, properties)
        assert described(target) == wanted
        assert encode_target_key(target) == key


def test_the_other_spellings_of_the_specification_are_taken() -> None:
    """Keys that other writers make decode, and encode to their one key."""
    for line in spec_block("target-key.md", "other-spellings").splitlines():
        key, canonical = line.split()
        assert encode_target_key(decode_target_key(key)) == canonical


def test_the_wrong_keys_of_the_specification_are_refused() -> None:
    """Each wrong key of the specification is refused."""
    for line in spec_block("target-key.md", "wrong").splitlines():
        with pytest.raises(FormatError):
            decode_target_key(line.split()[0])


def test_sets_are_sorted_and_distinct() -> None:
    """Order and repetition of columns mean nothing."""
    assert ColumnSetTarget.of(12, 1, 7, 7) == ColumnSetTarget(column_ids=(1, 7, 12))
    assert encode_target_key(ColumnSetTarget(column_ids=(7, 1, 7))) == "1,7"


def test_a_set_of_one_is_a_column() -> None:
    """A set of one column is that column, in type and in key."""
    assert ColumnSetTarget.of(7, 7) == ColumnTarget(column_id=7)
    assert encode_target_key(ColumnSetTarget(column_ids=(7,))) == "7"


def test_a_set_of_none_is_refused() -> None:
    """There is no index about nothing."""
    with pytest.raises(InvalidInputError, match="at least one"):
        ColumnSetTarget.of()
    with pytest.raises(InvalidInputError, match="at least one"):
        encode_target_key(ColumnSetTarget(column_ids=()))


@pytest.mark.parametrize("padding", [True, False])
def test_base64_sets_are_taken(padding: bool) -> None:
    """A set may be its ids joined by plus signs in URL-safe base64, padded or not."""
    text = base64.urlsafe_b64encode(b"1+7").decode()
    assert decode_target_key(text if padding else text.rstrip("=")) == ColumnSetTarget(column_ids=(1, 7))


@given(st.sets(IDS, min_size=2, max_size=8))
def test_base64_sets_are_never_taken_for_something_else(ids: set[int]) -> None:
    """The base64 form of a set is no column id and no other key."""
    target = ColumnSetTarget(column_ids=tuple(sorted(ids)))
    text = base64.urlsafe_b64encode("+".join(map(str, sorted(ids))).encode()).decode()
    assert decode_target_key(text) == target


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("", "empty"),
        ("1" * 257, "257 bytes"),
        ("4294967296", "column id"),
        ("1 2", "' '"),
        ("1\n", r"'\\n'"),
        ("é", "'é'"),
        ("1/2", "'/'"),
        ("=", "no column id"),
        ("1,", "column id"),
        (",1", "column id"),
        ("1,,2", "column id"),
        ("1,02", "column id"),
        ("1,a", "column id"),
        ("2,1", "ascending"),
        ("1,1", "ascending"),
        ("1#a", "pointer"),
        ("1#%2Fa~2", "pointer"),
        ("1#%2Fa~", "pointer"),
        ("1#%2", "pointer"),
        ("1#%2F%FF", "UTF-8|utf-8"),
        ("1#%2fa", "spelling"),
        ("1#%2F%61", "spelling"),
        ("01#%2Fa", "column id"),
        ("#%2Fa", "column id"),
        ("1#%2Fa#", "spelling"),
        ("expr:", "16 lower-case"),
        ("expr:0123456789ABCDEF", "16 lower-case"),
        ("expr:0123456789abcdef0", "16 lower-case"),
        ("abc", "column id"),
        ("Nw", "two columns"),
        ("MisxfA", "column id"),
        ("MisxMg%", "no column id"),
    ],
)
def test_keys_that_are_none_are_refused_by_name(key: str, problem: str) -> None:
    """A text that is no key is refused, and the message says why."""
    with pytest.raises(FormatError, match=problem) as caught:
        decode_target_key(key)
    assert caught.value.context["target_key"] == key


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (ColumnTarget(column_id=-1), "column id"),
        (ColumnTarget(column_id=2**32), "column id"),
        (ColumnSetTarget(column_ids=(1, 2**32)), "column id"),
        (ColumnSetTarget(column_ids=tuple(range(10**9, 10**9 + 30))), "fewer columns"),
        (JsonPathTarget(column_id=1, pointer="a"), "pointer"),
        (JsonPathTarget(column_id=1, pointer="/~"), "pointer"),
        (JsonPathTarget(column_id=1, pointer="/\ud800"), "Unicode"),
        (JsonPathTarget(column_id=1, pointer="/" + "ü" * 43), "shorter path"),
        (ExpressionTarget(expr_hash=2**64), "64 bits"),
        (ExpressionTarget(expr_hash=1, expr="a"), r"ExpressionTarget\.of"),
    ],
)
def test_targets_that_are_none_are_refused_by_name(target: IndexTarget, problem: str) -> None:
    """A target that cannot be, or whose key would be too long, is refused."""
    with pytest.raises(InvalidInputError, match=problem):
        encode_target_key(target)


def test_expressions_that_are_no_text_are_refused() -> None:
    """An expression is hashed as UTF-8, so it must be text."""
    with pytest.raises(InvalidInputError, match="Unicode"):
        ExpressionTarget.of("\udfff")


def test_an_expression_without_its_text_keeps_its_hash() -> None:
    """Where the property is missing the target has a hash only, and the same key."""
    key = encode_target_key(ExpressionTarget.of("a + b"))
    target = decode_target_key(key)
    assert isinstance(target, ExpressionTarget)
    assert target.expr is None
    assert encode_target_key(target) == key
    assert target_properties(target) == {}


def test_an_expression_of_another_text_is_damage() -> None:
    """A property that is not the expression the key was made from is refused."""
    key = encode_target_key(ExpressionTarget.of("a + b"))
    with pytest.raises(CorruptionError, match="target_expr"):
        decode_target_key(key, {"target_expr": "a - b"})


def test_leading_zeros_are_a_column() -> None:
    """GreptimeDB takes column ids with leading zeros."""
    assert decode_target_key("007") == decode_column_target("007") == ColumnTarget(column_id=7)
    assert decode_target_key("000") == ColumnTarget(column_id=0)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "target key cannot be empty"),
        ("1,2", "target key must contain digits only: 1,2"),
        ("٣", "target key must contain digits only: ٣"),
        ("4294967296", "failed to parse column id from '4294967296'"),
        ("9" * 5000, f"failed to parse column id from '{'9' * 5000}'"),
    ],
)
def test_greptimes_own_errors_are_its_own(key: str, message: str) -> None:
    """The strict decoder says what GreptimeDB's says."""
    with pytest.raises(FormatError) as caught:
        decode_column_target(key)
    assert caught.value.message == message


def test_greptimes_own_decoder_has_no_length_limit() -> None:
    """Zeros in front do not make a column id too long."""
    assert decode_column_target("0" * 6000 + "12") == ColumnTarget(column_id=12)
