"""The summary of a bloom blob says what its full metadata says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import FormatError
from lakehouse.format.index.bloom import BloomMeta, BloomSummary
from lakehouse.format.index.bloom_builder import build_bloom
from lakehouse.kernels.need_more import NeedMore


@settings(deadline=None)
@given(rows=st.integers(0, 400), rows_per_segment=st.integers(1, 50), tail=st.integers(0, 5000))
def test_the_same_numbers_as_the_full_metadata(rows: int, rows_per_segment: int, tail: int) -> None:
    """Both read the same numbers, and ask for the same bytes when the tail is too short."""
    values = pa.array([b"%d" % (row % 7) for row in range(rows)], pa.binary())
    blob = build_bloom(values, rows_per_segment, 0.01)
    end = blob[len(blob) - min(tail, len(blob)) :]
    full, brief = BloomMeta.from_tail(end, len(blob)), BloomSummary.from_tail(end, len(blob))
    if isinstance(full, NeedMore):
        assert brief == full
        return
    assert isinstance(brief, BloomSummary)
    for name in ("rows_per_segment", "segment_count", "row_count", "bloom_filter_size"):
        assert getattr(brief, name) == getattr(full, name)


@pytest.mark.parametrize("bit", range(27 * 8))
def test_flipped_bits_are_errors_or_harmless(bit: int) -> None:
    """A flipped bit of the metadata gives an error, or numbers that fit the blob."""
    blob = bytearray(build_bloom(pa.array([b"a", b"b", b"c"]), 2, 0.01))
    at = len(blob) - 4 - 27 + bit // 8
    blob[at] ^= 1 << (bit % 8)
    try:
        found = BloomSummary.from_tail(bytes(blob), len(blob))
    except FormatError:
        return
    assert isinstance(found, NeedMore) or found.bloom_filter_size <= len(blob)
