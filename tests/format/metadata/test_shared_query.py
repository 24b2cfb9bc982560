"""Shared queries: bytes and values."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, UnsupportedVersionError
from lakehouse.format.metadata import SharedPin, SharedQuery, decode_query, encode_query
from lakehouse.format.metadata.sealed_json import seal
from tests.kit.blob_samples import flipped, spec_bytes

QUERY = SharedQuery(
    id=uuid.UUID("0190c8a2-0000-4000-8000-000000000001"),
    account="default",
    as_of_ms=None,
    expires_ms=1_760_000_060_000,
    pins=(
        SharedPin(
            table=uuid.UUID("0190c8a2-0000-4000-8000-000000000002"),
            name="sales.orders",
            kind="current",
            snapshot=7,
            version="7-0123456789abcdef0123456789abcdef",
            schema_id=1,
        ),
    ),
)
_SIGNED = st.none() | st.integers(-(2**63) + 1, 2**63 - 1)
_PINS = st.builds(
    SharedPin,
    table=st.uuids(),
    name=st.text(),
    kind=st.sampled_from(["current", "as_of", "snapshot_id"]),
    snapshot=_SIGNED,
    version=st.text(),
    schema_id=st.integers(0, 2**31 - 1),
    token=st.none() | st.text(),
    as_of_ms=_SIGNED,
)
_QUERIES = st.builds(
    SharedQuery,
    id=st.uuids(),
    account=st.text(),
    as_of_ms=_SIGNED,
    expires_ms=st.integers(0, 253_402_300_799_999),
    pins=st.lists(_PINS, max_size=4).map(tuple),
)


def test_the_example_of_the_specification_is_what_is_written() -> None:
    """The page shows the bytes of a shared query."""
    data = spec_bytes("query.md", "query")
    assert encode_query(QUERY) == data
    assert decode_query(data, key="q") == QUERY


@given(_QUERIES)
def test_what_is_encoded_is_decoded(query: SharedQuery) -> None:
    """Every query survives its bytes, ids of snapshots of any sign too."""
    assert decode_query(encode_query(query), key="q") == query


@given(st.integers(0, 8 * len(encode_query(QUERY)) - 1))
def test_a_flipped_bit_is_damage(bit: int) -> None:
    """No damaged query is joined."""
    with pytest.raises(CorruptionError):
        decode_query(flipped(encode_query(QUERY), bit), key="q")


@given(st.integers(0, len(encode_query(QUERY)) - 1))
def test_a_query_that_is_cut_short_is_damage(length: int) -> None:
    """Fewer bytes than were written are refused."""
    with pytest.raises(CorruptionError):
        decode_query(encode_query(QUERY)[:length], key="q")


@pytest.mark.parametrize(
    "change",
    [
        {"id": "x"},
        {"account": None},
        {"as_of_ms": "now"},
        {"expires_ms": -1},
        {"pins": {}},
        {"pins": [7]},
    ],
    ids=str,
)
def test_a_sound_checksum_over_other_members_is_damage(change: dict[str, object]) -> None:
    """Members of another kind are refused, whatever the checksum says."""
    with pytest.raises(CorruptionError, match=rf"^q: {next(iter(change))}"):
        decode_query(seal({**_members(), **change}), key="q")


@pytest.mark.parametrize(
    "change", [{"snapshot": 1.5}, {"snapshot": True}, {"schema": -1}, {"table": None}, {"name": 3}], ids=str
)
def test_a_pin_of_another_shape_is_damage(change: dict[str, object]) -> None:
    """Members of a pin are refused with their place."""
    members = _members()
    members["pins"][0].update(change)
    with pytest.raises(CorruptionError, match=rf"^q: pins\[0\]\.{next(iter(change))} "):
        decode_query(seal(members), key="q")


def test_a_newer_format_asks_for_an_upgrade() -> None:
    """A query of a later release is not guessed at."""
    with pytest.raises(UnsupportedVersionError, match="Upgrade"):
        decode_query(seal({**_members(), "format": 2}), key="q")


def _members() -> dict[str, Any]:
    members = json.loads(encode_query(QUERY))
    del members["crc32c"]
    return dict(members)
