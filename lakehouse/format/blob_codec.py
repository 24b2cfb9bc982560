"""How a puffin blob is stored: as it is, as one LZ4 frame or as one zstd frame.

Invariant: ``decompress_blob(compress_blob(data, codec), codec, ...) == data``, and no blob
decompresses to more than the bytes the caller allows. Compressed blobs state their content
size, as Iceberg asks for.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.lz4_frame import compress_lz4, inflate, with_end_mark

__all__ = ["BLOB_BYTES_MAX", "CODECS", "Codec", "compress_blob", "decompress_blob"]

Codec: TypeAlias = Literal["lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("lz4", "zstd")
"""The codecs the puffin specification knows, by the names the footer uses."""
BLOB_BYTES_MAX = 1 << 30
"""Most bytes a blob decompresses to, unless the caller says otherwise."""
_ZSTD_LEVEL = 3


def compress_blob(data: bytes | memoryview, codec: str | None) -> bytes | memoryview:
    """The bytes to store; without a codec, ``data`` itself."""
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
    """The content of a blob; ``what`` is how errors name it."""
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
        # Only footers may end so; a blob that does was cut off between two blocks.
        raise CorruptionError(f"{what} has no LZ4 end mark: it is cut off", offset=len(frame))
    return inflate(codec, frame, max_bytes=max_bytes, what=what)
