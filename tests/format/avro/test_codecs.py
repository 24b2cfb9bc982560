"""Compression of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from lakehouse.format.avro.codecs import CODECS, decompress_avro_blocks
from tests.kit.avro_files import packed

_CONTENT = b"some bytes, some bytes, " * 40


def _content(block: bytes, codec: str, *, room: int) -> bytes:
    """The content of a block with something before and behind it."""
    places = np.array([3, 3 + len(block), 1], np.int64)
    (content,) = decompress_avro_blocks(b"..." + block + b"...", places, codec, room=room)
    return bytes(content)


_COMPRESSED = [codec for codec in CODECS if codec != "null"]


@pytest.mark.parametrize("codec", CODECS)
def test_content_comes_back(codec: str) -> None:
    """A block of each codec becomes what it was made of."""
    for content in (b"", b"x", _CONTENT):
        assert _content(packed(content, codec), codec, room=len(content)) == content


@pytest.mark.parametrize("codec", CODECS)
def test_too_much_content_is_refused(codec: str) -> None:
    """A block that becomes more than it may is an error."""
    with pytest.raises(ValueError, match=r"."):
        _content(packed(_CONTENT, codec), codec, room=len(_CONTENT) - 1)


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "bzip2", "xz"])
def test_a_bomb_takes_no_memory(codec: str) -> None:
    """A small block of many bytes is refused once it has become as many as are allowed."""
    with pytest.raises(ValueError, match="more than"):
        _content(packed(bytes(50_000_000), codec), codec, room=1_000_000)


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_a_block_that_is_cut_off_is_refused(codec: str) -> None:
    """A block without its end is an error, wherever it is cut."""
    block = packed(_CONTENT, codec)
    for size in range(len(block)):
        with pytest.raises(ValueError, match=r"."):
            _content(block[:size], codec, room=1 << 20)


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_a_damaged_block_ends_in_an_error_or_in_bytes(codec: str) -> None:
    """A flipped bit is an error, or changes bytes, and nothing else happens; Snappy's checksum finds each."""
    block = packed(_CONTENT, codec)
    for at in range(8 * len(block)):
        damaged = bytearray(block)
        damaged[at // 8] ^= 1 << at % 8
        try:
            content = _content(bytes(damaged), codec, room=1 << 16)
        except ValueError:
            continue
        assert codec != "snappy" or content == _CONTENT
        assert len(content) <= 1 << 16


def test_blocks_share_their_room() -> None:
    """Blocks are refused once they become more together than is allowed."""
    block = packed(_CONTENT, "deflate")
    places = np.array([0, len(block), 1, 0, len(block), 1], np.int64)
    assert len(decompress_avro_blocks(block, places, "deflate", room=2 * len(_CONTENT))) == 2
    with pytest.raises(ValueError, match="more than"):
        decompress_avro_blocks(block, places, "deflate", room=2 * len(_CONTENT) - 1)
