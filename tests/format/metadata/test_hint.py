"""Hints: what they say, and that whatever stands in their place does no harm."""

from __future__ import annotations

import uuid

import hypothesis.strategies as st
import pytest
from hypothesis import given

from lakehouse.format.metadata.hint import NO_HINT, Hint, decode_hint, encode_hint
from lakehouse.format.metadata.sealed_json import seal
from tests.kit.blob_samples import spec_bytes
from tests.kit.table_samples import TABLE, TOKEN

DATA = encode_hint(12, TOKEN, TABLE)


def test_the_example_of_the_specification_is_a_hint() -> None:
    """The bytes in the specification decode to the hint that it describes, and encode to the same bytes."""
    assert spec_bytes("table.md", "hint") == DATA
    assert decode_hint(DATA, TABLE) == Hint(snapshot=12, token=TOKEN)


def test_digits_prove_nothing() -> None:
    """The digits that older releases wrote say where to begin."""
    assert decode_hint(b"12", TABLE) == Hint(snapshot=12)
    assert decode_hint(b"9" * 20, TABLE) == NO_HINT


@pytest.mark.parametrize("table", [None, uuid.UUID(int=1)])
def test_a_hint_of_another_table_proves_nothing(table: uuid.UUID | None) -> None:
    """Where the table is another one, or not known, a hint says where to begin."""
    assert decode_hint(DATA, table) == Hint(snapshot=12)


@given(at=st.integers(0, len(DATA) - 1), bit=st.integers(0, 7))
def test_a_damaged_hint_proves_nothing(at: int, bit: int) -> None:
    """With any bit flipped it is a hint without a proof."""
    data = bytearray(DATA)
    data[at] ^= 1 << bit
    assert decode_hint(bytes(data), TABLE).token is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"snapshot": "12"},
        {"snapshot": 0},
        {"snapshot": -1},
        {"snapshot": 10**19},
        {"snapshot": 1.5},
        {"token": None},
        {"table": 7},
        {"format": 2},
    ],
    ids=str,
)
def test_a_sealed_hint_with_other_members_proves_nothing(wrong: dict[str, object]) -> None:
    """A whole seal around something else is no proof, and no error."""
    members = {"format": 1, "table": str(TABLE), "snapshot": 12, "token": TOKEN}
    assert decode_hint(seal({**members, **wrong}), TABLE).token is None


@given(st.binary(max_size=80))
def test_whatever_stands_there_is_a_hint(data: bytes) -> None:
    """No bytes are an error."""
    assert decode_hint(data, TABLE).snapshot >= 0
