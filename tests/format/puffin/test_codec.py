"""How blobs are stored: raw, LZ4 or zstd."""

from __future__ import annotations

import tracemalloc

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.puffin.codec import CODECS, compress_blob, decompress_blob
from lakehouse.format.puffin.lz4_frame import compress_lz4


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000), st.sampled_from([None, *CODECS]))
def test_what_is_compressed_comes_back(data: bytes, codec: str | None) -> None:
    """Every codec gives the content back."""
    assert decompress_blob(compress_blob(data, codec), codec) == data


def test_raw_blobs_are_not_copied() -> None:
    """Without a codec the bytes are the caller's own."""
    data = memoryview(b"abc")
    assert compress_blob(data, None) is data
    assert decompress_blob(data, None) is data


def test_frames_state_their_content_size() -> None:
    """Compressed blobs say how long their content is, as Iceberg's specification asks."""
    zstd = bytes(compress_blob(bytes(1000), "zstd"))
    # Frame header descriptor: a two-byte content size (stored less 256), single segment.
    assert zstd[4] >> 6 == 1
    assert int.from_bytes(zstd[5:7], "little") + 256 == 1000
    assert lz4.frame.get_frame_info(bytes(compress_blob(bytes(1000), "lz4")))["content_size"] == 1000


def test_unknown_codecs_are_refused() -> None:
    """An unknown codec is the caller's mistake when writing and the file's when reading."""
    with pytest.raises(InvalidInputError, match="snappy"):
        compress_blob(b"", "snappy")
    with pytest.raises(FormatError, match="snappy"):
        decompress_blob(b"", "snappy")


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_blob_is_no_frame(codec: str) -> None:
    """Zero stored bytes are damage, where content of zero bytes has a frame."""
    with pytest.raises(CorruptionError, match="empty"):
        decompress_blob(b"", codec)


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_noticed(codec: str) -> None:
    """A blob that lost its end is refused, also where a block ends."""
    frame = bytes(compress_blob(bytes(range(256)) * 300, codec))
    for cut in {*range(1, 40), len(frame) // 2, len(frame) - 4, len(frame) - 1}:
        with pytest.raises(CorruptionError):
            decompress_blob(frame[:cut], codec)


def test_an_lz4_blob_has_an_end_mark() -> None:
    """What a footer may leave out, a blob may not: it would not be seen to be cut off."""
    with pytest.raises(CorruptionError, match="end mark"):
        decompress_blob(compress_lz4(b"abc", finished=False), "lz4")


def test_the_limit_is_kept() -> None:
    """Content beyond the caller's limit is refused."""
    with pytest.raises(FormatError, match="more than 99 bytes"):
        decompress_blob(compress_blob(bytes(100), "zstd"), "zstd", max_bytes=99)


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_are_given_up_early(codec: str) -> None:
    """A frame that inflates beyond the limit is refused without room for more than that."""
    bomb = compress_blob(bytes(64 << 20), codec)
    assert len(bomb) < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="more than 1048576 bytes"):
            decompress_blob(bomb, codec, max_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_the_limit_itself_is_allowed() -> None:
    """Content of exactly the limit is read."""
    assert decompress_blob(compress_blob(bytes(1000), "zstd"), "zstd", max_bytes=1000) == bytes(1000)
