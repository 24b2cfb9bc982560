"""Tails of blobs: the metadata, or the range that is still needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.kernels.need_more import NeedMore, metadata_from_tail


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 90))
def test_any_tail_leads_to_the_metadata_in_two_reads_at_most(body: bytes, metadata: bytes, read: int) -> None:
    """However little was read first, the range asked for next is enough."""
    blob = body + metadata + len(metadata).to_bytes(4, "little")
    found = metadata_from_tail(blob[len(blob) - min(read, len(blob)) :], len(blob), what="blob")
    reads = 0
    while isinstance(found, NeedMore):
        assert found.end == len(blob)
        assert found.length == found.end - found.start
        found = metadata_from_tail(blob[found.start : found.end], len(blob), what="blob")
        reads += 1
    assert bytes(found) == metadata
    # Fewer than four bytes do not even hold the length.
    assert reads <= (2 if read < 4 else 1)


@pytest.mark.parametrize("blob", [b"", b"abc", b"a\xff\xff\xff\x7f", b"\x01\0\0\0"])
def test_a_length_that_cannot_be_is_damage(blob: bytes) -> None:
    """Metadata longer than the blob, and blobs too short for a length, are refused."""
    with pytest.raises(CorruptionError):
        metadata_from_tail(blob, len(blob), what="blob")


def test_a_tail_longer_than_its_blob_is_a_mistake() -> None:
    """The tail is the blob's last bytes, so it cannot have more of them."""
    with pytest.raises(InvalidInputError, match="last bytes"):
        metadata_from_tail(bytes(9), 8, what="blob")
