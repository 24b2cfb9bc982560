"""Damaged puffin files: a clean error or values that fit together, whatever the damage."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import FormatError
from lakehouse.format.index.bloom import BloomMeta, segments_that_may_hold
from lakehouse.format.puffin.codec import decompress_blob
from lakehouse.format.puffin.footer import MAGIC, PuffinFooter
from lakehouse.kernels.need_more import NeedMore
from tests.kit.blob_samples import GREPTIME, ICEBERG, bloom_meta, flipped, footer_of, sample, stored

SAMPLES = [*GREPTIME, *ICEBERG]
BOUND = 1 << 20
"""No sample holds more than this; damage must not make it seem so."""


def read_all(data: bytes) -> PuffinFooter:
    """Reads whatever a file holds, checking what must hold of it; FormatError when it is refused."""
    footer = PuffinFooter.parse(data, len(data), max_bytes=BOUND)
    assert isinstance(footer, PuffinFooter)
    for blob in footer.blobs:
        assert len(MAGIC) <= blob.offset <= blob.end <= len(data) - 16
        try:
            content = blob.decompress(stored(data, blob), max_bytes=BOUND)
        except FormatError:
            continue
        assert len(content) <= BOUND
        if blob.type.startswith("greptime-bloom-filter-v1-"):
            read_bloom(bytes(content))
    return footer


def read_bloom(blob: bytes) -> None:
    """Reads and searches a bloom blob."""
    try:
        meta = BloomMeta.from_tail(blob, len(blob))
    except FormatError:
        return
    assert isinstance(meta, BloomMeta)
    assert meta.bloom_filter_size <= len(blob)
    held = segments_that_may_hold(meta, blob, pa.array(["host-0000", "same"]))
    assert held.shape == (2, meta.segment_count)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_cut_is_refused(name: str) -> None:
    """A file that lost its end, at whatever byte, is refused."""
    data = sample(name)
    for size in range(len(data)):
        with pytest.raises(FormatError):
            read_all(data[:size])


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_bit_is_refused_or_harmless(name: str) -> None:
    """With any one bit turned over, a file is refused or reads to values that fit together."""
    data = sample(name)
    for bit in range(8 * len(data)):
        try:
            read_all(flipped(data, bit))
        except FormatError:
            pass


@pytest.mark.parametrize("name", SAMPLES)
def test_no_flipped_bit_of_a_footer_moves_a_blob(name: str) -> None:
    """A flipped bit never has a reader take other bytes for a blob, unless its numbers still fit."""
    data = sample(name)
    whole = footer_of(data)
    places = {(blob.offset, blob.length) for blob in whole.blobs}
    for bit in range(8 * (len(data) - 12), 8 * len(data)):
        try:
            footer = read_all(flipped(data, bit))
        except FormatError:
            continue
        assert {(blob.offset, blob.length) for blob in footer.blobs} == places


def test_a_wrong_size_is_refused() -> None:
    """The last bytes of a file with another file's size are refused or need more, never misread."""
    data = sample("bloom-one")
    for size in (20, 100, 644, 646, 10**9):
        tail = data[-min(size, 200) :]
        try:
            found = PuffinFooter.parse(tail, size)
        except FormatError:
            continue
        assert isinstance(found, NeedMore) or found.blobs[0].end <= size - 16


def test_no_flipped_bit_of_bloom_metadata_moves_a_filter() -> None:
    """Damage to a bloom blob's metadata is refused, or leaves filters and segments where they are."""
    data = sample("bloom-one")
    blob = stored(data, footer_of(data).blobs[0])
    whole = bloom_meta(blob)
    for bit in range(8 * whole.bloom_filter_size, 8 * len(blob)):
        try:
            meta = bloom_meta(flipped(blob, bit))
        except FormatError:
            continue
        assert meta.sizes.tolist() == whole.sizes.tolist()
        assert meta.offsets.tolist() == whole.offsets.tolist()
        assert meta.segment_count == whole.segment_count


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=40))
def test_garbage_is_refused(head: bytes, tail: bytes) -> None:
    """Arbitrary bytes, some with the right magic at the end, are refused or read cleanly."""
    for data in (head, head + tail + MAGIC, MAGIC + head + (len(tail)).to_bytes(8, "little") + MAGIC):
        try:
            read_all(data)
        except FormatError:
            pass


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120))
def test_garbage_is_no_bloom_blob(data: bytes) -> None:
    """Arbitrary bytes are no bloom metadata, or ones that fit together."""
    read_bloom(data + min(len(data), 20).to_bytes(4, "little"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120), st.sampled_from(["lz4", "zstd"]))
def test_garbage_is_no_frame(data: bytes, codec: str) -> None:
    """Arbitrary bytes behind a frame's magic are refused or decompress within the limit."""
    magic = b"\x04\x22\x4d\x18\x60\x40\x82" if codec == "lz4" else b"\x28\xb5\x2f\xfd"
    for stored_bytes in (data, magic + data):
        try:
            assert len(decompress_blob(stored_bytes, codec, max_bytes=BOUND)) <= BOUND
        except FormatError:
            pass
