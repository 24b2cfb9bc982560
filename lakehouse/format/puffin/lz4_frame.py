"""LZ4 frames of puffin files: with and without end mark, with and without content size.

::

    04 22 4D 18 | FLG | BD | [content size, 8] | header check | blocks... | [end mark, 4 zeros] | [check, 4]
    block: size, 4 bytes (top bit set = stored as it is) | data | [check, 4]

Invariant: what :func:`with_end_mark` returns is finished, and a frame that ends anywhere but
behind a block or behind its end mark is refused.

GreptimeDB flushes its frame and never finishes it, so its footers have no end mark, and general
decoders report them as cut off. Other writers finish frames. The walk over the block sizes below
tells the two apart; Arrow decodes the blocks themselves.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from lakehouse.errors import CorruptionError, FormatError

__all__ = ["compress_lz4", "with_end_mark"]

_MAGIC = b"\x04\x22\x4d\x18"
_BLOCK_BYTES = 64 * 1024
_BLOCK_BYTES_CODE = 0x40
_VERSION, _VERSION_MASK = 0x40, 0xC0
_INDEPENDENT, _BLOCK_CHECK, _CONTENT_SIZE, _CONTENT_CHECK, _RESERVED, _DICTIONARY = 32, 16, 8, 4, 2, 1
_BLOCK_MAX = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_STORED = 1 << 31
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_END_MARK = _U32.pack(0)


def compress_lz4(data: bytes | memoryview, *, finished: bool = True) -> bytes:
    """Compresses into one frame of independent 64 KiB blocks.

    ``finished`` frames state the content size and have an end mark, as Iceberg requires;
    the others have neither, like GreptimeDB's footers.
    """
    view = memoryview(data)
    flags = _VERSION | _INDEPENDENT | (_CONTENT_SIZE if finished else 0)
    codec = pa.Codec("lz4_raw")
    parts = [_header(flags, _BLOCK_BYTES_CODE, len(view) if finished else None)]
    for start in range(0, len(view), _BLOCK_BYTES):
        block = view[start : start + _BLOCK_BYTES]
        packed = codec.compress(block, asbytes=True)
        if len(packed) < len(block):
            parts += (_U32.pack(len(packed)), packed)
        else:
            parts += (_U32.pack(len(block) | _STORED), bytes(block))
    if finished:
        parts.append(_END_MARK)
    return b"".join(parts)


def _header(flags: int, block_code: int, content_size: int | None) -> bytes:
    descriptor = bytes((flags, block_code)) + (b"" if content_size is None else _U64.pack(content_size))
    return _MAGIC + descriptor + bytes((xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Descriptor:
    """The header of a frame."""

    flags: int
    block_code: int
    content_size: int | None
    end: int
    """Offset of the first block."""

    @classmethod
    def parse(cls, frame: bytes, what: str) -> _Descriptor:
        if frame[:4] != _MAGIC:
            raise _frame_error(what, "does not begin with the LZ4 magic", 0, _MAGIC.hex(), frame[:4].hex())
        if len(frame) < 7:
            raise _frame_error(what, "is cut off in the header", len(frame), "7 bytes", len(frame))
        flags, block_code = frame[4], frame[5]
        if flags & _VERSION_MASK != _VERSION or flags & _RESERVED or block_code >> 4 not in _BLOCK_MAX:
            raise _frame_error(what, "has a header nobody writes", 4, "version 1", frame[4:6].hex())
        if flags & _DICTIONARY:
            raise FormatError(f"{what} needs an LZ4 dictionary, and puffin has none", offset=4)
        end = 7 + (8 if flags & _CONTENT_SIZE else 0)
        if len(frame) < end:
            raise _frame_error(what, "is cut off in the header", len(frame), f"{end} bytes", len(frame))
        check = xxhash.xxh32_intdigest(frame[4 : end - 1]) >> 8 & 0xFF
        if check != frame[end - 1]:
            raise _frame_error(what, "has a wrong header check", end - 1, check, frame[end - 1])
        size = _U64.unpack_from(frame, 6)[0] if flags & _CONTENT_SIZE else None
        return cls(flags=flags, block_code=block_code, content_size=size, end=end)


def with_end_mark(frame: bytes, *, what: str) -> bytes:
    """Returns the frame itself if it is finished, else a finished one of the same blocks.

    Raises CorruptionError when the frame does not end behind a block or its end mark.
    """
    head = _Descriptor.parse(frame, what)
    block_max = _BLOCK_MAX[head.block_code >> 4]
    check = 4 if head.flags & _BLOCK_CHECK else 0
    pos = head.end
    while pos < len(frame):
        if pos + 4 > len(frame):
            raise _frame_error(what, "is cut off in a block size", pos, "4 bytes", len(frame) - pos)
        word = _U32.unpack_from(frame, pos)[0]
        if word == 0:
            end = pos + 4 + (4 if head.flags & _CONTENT_CHECK else 0)
            if end != len(frame):
                raise _frame_error(what, "does not end behind its end mark", pos, end, len(frame))
            return frame
        size = word & ~_STORED
        if not 0 < size <= block_max:
            raise _frame_error(what, "has a block of an impossible size", pos, f"1..{block_max}", size)
        pos += 4 + size + check
    if pos > len(frame):
        raise _frame_error(
            what, "is cut off in a block", len(frame), f"{pos - len(frame)} more bytes", "the end"
        )
    # Without its end mark a frame has no content check either, so the header must not announce one.
    flags = head.flags & ~_CONTENT_CHECK
    return _header(flags, head.block_code, head.content_size) + frame[head.end :] + _END_MARK


def _frame_error(what: str, problem: str, offset: int, expected: object, got: object) -> CorruptionError:
    return CorruptionError(
        f"{what} {problem} (byte {offset}): expected {expected}, got {got}",
        offset=offset,
        expected=expected,
        got=got,
    )
