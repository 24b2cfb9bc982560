"""Decompression of the blocks of Avro files.

Invariant: no block becomes more than the bytes that the caller allows, and none takes more memory before that
is known.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lakehouse.errors import FormatError
from lakehouse.format.limits.codec_ratio import BYTES_OF_ONE
from lakehouse.format.puffin.codec import inflate
from lakehouse.kernels.arrays import I64

__all__ = ["CODECS", "decompress_avro_blocks"]

_CRC_BYTES = 4
_XZ_MEMORY_MAX = 1 << 27
"""Memory that an xz block may ask for; the highest level takes half of it."""


def _as_it_is(block: bytes | memoryview, room: int) -> bytes | memoryview:
    return block


def _deflate(block: bytes | memoryview, room: int) -> bytes:
    if len(block) * BYTES_OF_ONE["gzip"] <= room:
        return zlib.decompress(block, -zlib.MAX_WBITS, len(block) * 4 + 256)
    return _bounded(zlib.decompressobj(-zlib.MAX_WBITS), block, room)


def _bounded(stream: Any, block: bytes | memoryview, room: int) -> bytes:
    """Decompresses until the room is used up."""
    content: bytes = stream.decompress(block, room + 1)
    if len(content) <= room and not stream.eof:
        raise ValueError("it is cut off")
    return content


def _snappy(block: bytes | memoryview, room: int) -> bytes:
    packed = block[:-_CRC_BYTES]
    size = _snappy_size(packed)
    if size > min(room, len(packed) * BYTES_OF_ONE["snappy"]):
        raise ValueError(f"{len(packed):,} bytes say that they become {size:,}")
    content: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    crc = int.from_bytes(block[-_CRC_BYTES:], "big")
    if crc != (got := zlib.crc32(content)):
        raise ValueError(f"its checksum is {crc:08x}, its bytes have {got:08x}")
    return content


def _snappy_size(packed: bytes | memoryview) -> int:
    size = 0
    for at, byte in enumerate(packed[:5]):
        size |= (byte & 127) << 7 * at
        if byte < 128:
            return size
    raise ValueError("it does not say its size")


def _zstandard(block: bytes | memoryview, room: int) -> bytes:
    if not block:
        raise ValueError("it is empty")
    return inflate("zstd", bytes(block), max_bytes=room, what="it")


def _bzip2(block: bytes | memoryview, room: int) -> bytes:
    import bz2  # a Python may have been built without it

    return _bounded(bz2.BZ2Decompressor(), block, room)


def _xz(block: bytes | memoryview, room: int) -> bytes:
    import lzma  # a Python may have been built without it

    try:
        return _bounded(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_MAX), block, room)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error


CODECS: Mapping[str, Callable[[bytes | memoryview, int], bytes | memoryview]] = {
    "null": _as_it_is,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
"""Decompression by the name of the codec in the header: from a block and the most bytes it may become."""


def decompress_avro_blocks(
    data: bytes | memoryview, blocks: I64, codec: str, *, room: int
) -> list[bytes | memoryview]:
    """Decompresses blocks, which may become ``room`` bytes together.

    Args:
        data: bytes that they lie in.
        blocks: where each begins and ends, and its number of entries: three numbers each.
        codec: a key of :data:`CODECS`.
        room: maximum bytes of all contents.

    Raises:
        ValueError: one is damaged, or they become more.
    """
    decompress, left = CODECS[codec], room
    parts = []
    numbers = iter(blocks.tolist())
    try:
        for start, end, _ in zip(numbers, numbers, numbers, strict=True):
            part = decompress(data[start:end], left)
            left -= len(part)
            if left < 0:
                raise ValueError(f"its blocks decompress to more than {room:,} bytes")
            parts.append(part)
    except (zlib.error, OSError, EOFError, pa.ArrowException, FormatError) as error:
        raise ValueError(f"a block does not decompress ({codec}): {error}") from error
    return parts
