"""Compression of puffin blobs: none, one LZ4 frame or one zstd frame.

Invariant: ``decompress_blob(compress_blob(data, codec), codec, ...) == data``, and no blob
decompresses to more than the bytes the caller allows. Compressed blobs state their content
size, as Iceberg asks for.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.puffin.lz4_frame import compress_lz4, with_end_mark

__all__ = ["BLOB_BYTES_MAX", "CODECS", "Codec", "compress_blob", "decompress_blob", "inflate"]

Codec: TypeAlias = Literal["lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("lz4", "zstd")
"""The codecs the puffin specification knows, by the names the footer uses."""
BLOB_BYTES_MAX = 1 << 30
"""Default limit of the bytes that a blob may decompress to."""
_ZSTD_LEVEL = 3
_READ_BYTES = 1 << 20


def compress_blob(data: bytes | memoryview, codec: str | None) -> bytes | memoryview:
    """Returns the bytes to store: compressed, or ``data`` itself without a codec."""
    if codec is None:
        return data
    if codec == "lz4":
        return compress_lz4(data)
    if codec == "zstd":
        packed: bytes = pa.Codec("zstd", compression_level=_ZSTD_LEVEL).compress(data, asbytes=True)
        return packed
    raise InvalidInputError(
        f"puffin has no codec {codec!r}: use one of {', '.join(CODECS)}, or None", codec=codec
    )


def decompress_blob(
    stored: bytes | memoryview, codec: str | None, *, max_bytes: int = BLOB_BYTES_MAX, what: str = "the blob"
) -> bytes | memoryview:
    """Returns the content of a blob; errors call it ``what``."""
    if codec is None:
        return stored
    if codec not in CODECS:
        raise FormatError(f"{what} is stored with codec {codec!r}, which is unknown", codec=codec)
    if not stored:
        raise CorruptionError(
            f"{what} is empty, which is no {codec} frame", offset=0, expected="a frame", got=0
        )
    frame = bytes(stored)
    if codec == "lz4" and with_end_mark(frame, what=what) is not frame:
        # Only footers may lack the end mark; a blob without it was cut off between two blocks.
        raise CorruptionError(f"{what} has no LZ4 end mark: it is cut off", offset=len(frame))
    return inflate(codec, frame, max_bytes=max_bytes, what=what)


def inflate(codec: str, stored: bytes, *, max_bytes: int, what: str) -> bytes:
    """Decompresses complete frames (``lz4`` or ``zstd``); refuses more than ``max_bytes`` of content."""
    parts: list[bytes] = []
    room = max_bytes  # read in pieces, so that a small frame of many bytes cannot exhaust memory
    try:
        with pa.CompressedInputStream(pa.BufferReader(stored), codec) as stream:
            while piece := stream.read(min(_READ_BYTES, room + 1)):
                room -= len(piece)
                if room < 0:
                    raise FormatError(
                        f"{what} decompresses to more than {max_bytes} bytes: raise the limit if it is sound",
                        expected=max_bytes,
                    )
                parts.append(piece)
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"{what} is not a whole {codec} frame: {error}", offset=0) from error
    return b"".join(parts)
