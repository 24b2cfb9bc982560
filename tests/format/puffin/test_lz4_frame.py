"""LZ4 frames: ours are read by everyone, and everyone's by us."""

from __future__ import annotations

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.puffin.codec import inflate
from lakehouse.format.puffin.lz4_frame import compress_lz4, with_end_mark

LIMIT = 1 << 24


def inflated(frame: bytes) -> bytes:
    """The content of a frame, finished or not."""
    return inflate("lz4", with_end_mark(frame, what="the frame"), max_bytes=LIMIT, what="the frame")


contents = st.one_of(
    st.binary(max_size=400),
    st.tuples(st.binary(min_size=1, max_size=9), st.integers(0, 40_000)).map(lambda part: part[0] * part[1]),
)


@settings(max_examples=100, deadline=None)
@given(contents)
def test_others_read_our_frames(data: bytes) -> None:
    """A finished frame of ours states its size and is read by the reference library."""
    frame = compress_lz4(data)
    assert lz4.frame.decompress(frame) == data
    assert lz4.frame.get_frame_info(frame)["content_size"] == len(data)


@settings(max_examples=100, deadline=None)
@given(
    contents,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([4, 5, 6, 7]),
)
def test_we_read_others_frames(
    data: bytes, linked: bool, block_check: bool, content_check: bool, size: bool, block: int
) -> None:
    """Frames of the reference library are read, whatever their options are."""
    frame = lz4.frame.compress(
        data,
        block_linked=linked,
        block_checksum=block_check,
        content_checksum=content_check,
        store_size=size,
        block_size=block,
    )
    assert inflated(frame) == data


@settings(max_examples=100, deadline=None)
@given(contents, st.booleans())
def test_frames_without_end_mark_are_read(data: bytes, content_check: bool) -> None:
    """A frame that was flushed and never finished gives all its blocks."""
    assert inflated(compress_lz4(data, finished=False)) == data
    with lz4.frame.LZ4FrameCompressor(auto_flush=True, content_checksum=content_check) as compressor:
        flushed = compressor.begin() + compressor.compress(data)
    assert inflated(flushed) == data


def test_an_unfinished_frame_begins_as_upstreams() -> None:
    """Header of a GreptimeDB footer: version 1, independent 64 KiB blocks, no size, no checks."""
    assert compress_lz4(b"", finished=False).hex() == "04224d18604082"


@pytest.mark.parametrize("finished", [True, False])
def test_every_cut_is_noticed_or_ends_behind_a_block(finished: bool) -> None:
    """A frame cut inside its header or a block is refused."""
    data = bytes(range(256)) * 600
    frame = compress_lz4(data, finished=finished)
    for cut in [*range(30), *range(30, len(frame), 97)]:
        try:
            found = inflated(frame[:cut])
        except CorruptionError:
            continue
        assert len(found) % (64 << 10) == 0
        assert data.startswith(found)


def damaged(edit: str) -> bytes:
    """A frame with one thing wrong."""
    frame = bytearray(compress_lz4(b"a" * 1000))
    if edit == "magic":
        frame[0] ^= 1
    elif edit == "version":
        frame[4] ^= 0x80
    elif edit == "header check":
        frame[14] ^= 1
    elif edit == "block size":
        frame[15:19] = (65_537).to_bytes(4, "little")
    elif edit == "trailing":
        frame += b"x"
    elif edit == "content size":
        frame = bytearray(compress_lz4(b"a" * 999)[:15] + frame[15:])
    elif edit == "block":
        frame[21:23] = b"\xff\xff"
    return bytes(frame)


@pytest.mark.parametrize(
    "edit", ["magic", "version", "header check", "block size", "trailing", "content size", "block"]
)
def test_damage_is_refused(edit: str) -> None:
    """A wrong magic, version, check, size or match, and bytes behind the end, are refused."""
    with pytest.raises(CorruptionError):
        inflated(damaged(edit))


def test_dictionaries_are_refused() -> None:
    """A frame that needs a dictionary is told from a damaged one."""
    frame = bytearray(compress_lz4(b"a"))
    frame[4] |= 1
    with pytest.raises(FormatError, match="dictionary"):
        inflated(bytes(frame))
