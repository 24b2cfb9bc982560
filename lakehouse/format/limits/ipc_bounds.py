"""Bounds of the memory that the buffers of an Arrow stream need, checked before Arrow allocates it.

A compressed buffer begins with 8 bytes that state its size, and Arrow allocates as many. So a few
bytes may ask for any amount of memory. The places of buffers and their compression are in the metadata
of each message, a flatbuffer, of which five members are read here; Arrow has verified it by then.

Invariant: nothing is decompressed, and a stream that needs more than ``bytes_max`` is refused.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from lakehouse.format.limits.codec_ratio import BYTES_OF_ONE

__all__ = ["check_stream"]

_U8 = struct.Struct("<B")
_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_I64 = struct.Struct("<q")
_BUFFER = struct.Struct("<qq")
_HEADER = 2
_BUFFERS, _COMPRESSION = 2, 3
_CODEC = 0
_RATIOS = {0: BYTES_OF_ONE["lz4"], 1: BYTES_OF_ONE["zstd"]}
"""Maximum bytes of content per compressed byte, by the numbers of Arrow's codecs."""
_AS_IT_IS = -1
"""Stated size of a buffer that is not compressed although others are."""
_BITS = 8


def check_stream(stream: pa.Buffer, *, rows: int, bytes_max: int) -> int:
    """Returns the bytes of all buffers of a stream once they are decompressed.

    Args:
        stream: the whole stream.
        rows: stated number of rows; each takes a bit at least.
        bytes_max: maximum bytes of its buffers.

    Raises:
        ValueError: they take more, or a buffer states a size that it cannot have.
        pyarrow.ArrowException, OSError: it is no Arrow stream.
    """
    total = 0
    for message in pa.ipc.MessageReader.open_stream(stream):
        if message.type == "schema":
            continue
        if message.type != "record batch":
            raise ValueError(f"its stream holds a {message.type}, which nobody writes there")
        total += _batch_bytes(message.metadata.to_pybytes(), message.body)
        if total > bytes_max:
            raise ValueError(f"its rows take more than {bytes_max:,} bytes in memory")
    if rows > _BITS * total:
        raise ValueError(f"it says {rows:,} rows, and its buffers have {total:,} bytes")
    return total


def _batch_bytes(meta: bytes, body: pa.Buffer) -> int:
    """Returns the bytes of the buffers of one record batch once they are decompressed."""
    try:
        batch = _follow(meta, _member(meta, _U32.unpack_from(meta)[0], _HEADER))
        codec = _codec(meta, batch)
        buffers = _follow(meta, _member(meta, batch, _BUFFERS))
        (count,) = _U32.unpack_from(meta, buffers)
        first = buffers + _U32.size
        places = _BUFFER.iter_unpack(meta[first : first + count * _BUFFER.size])
        return sum(_buffer_bytes(body, start, size, codec) for start, size in places)
    except struct.error as error:
        raise ValueError(f"a record batch does not say where its buffers are: {error}") from error


def _buffer_bytes(body: pa.Buffer, start: int, size: int, codec: int | None) -> int:
    """Returns the bytes of one buffer once it is decompressed."""
    if min(start, size) < 0 or start + size > len(body):
        raise ValueError(f"a buffer of {size:,} bytes at byte {start:,} lies outside of its record batch")
    if codec is None or not size:
        return size
    if size < _I64.size:
        raise ValueError(f"a compressed buffer has {size} bytes and says no size")
    packed = size - _I64.size
    (says,) = _I64.unpack(body.slice(start, _I64.size).to_pybytes())
    if says == _AS_IT_IS:
        return packed
    if not 0 <= says <= packed * _RATIOS[codec]:
        raise ValueError(f"a buffer of {packed:,} compressed bytes says that it becomes {says:,}")
    return int(says)


def _codec(meta: bytes, batch: int) -> int | None:
    """Returns the number of the codec of a record batch's buffers; None when they are not compressed."""
    at = _member(meta, batch, _COMPRESSION)
    if not at:
        return None
    codec_at = _member(meta, _follow(meta, at), _CODEC)
    number = _U8.unpack_from(meta, codec_at)[0] if codec_at else 0  # a flatbuffer leaves defaults out
    if number not in _RATIOS:
        raise ValueError(f"a record batch is compressed with codec {number}, which Arrow does not know")
    return int(number)


def _member(meta: bytes, table: int, number: int) -> int:
    """Returns the place of a member of a flatbuffer's table; 0 when it is left out."""
    # A table begins with the distance back to its list of members: its size, the table's, then offsets.
    members = table - _I32.unpack_from(meta, table)[0]
    (size,) = _U16.unpack_from(meta, members)
    slot = 2 * _U16.size + _U16.size * number
    if slot + _U16.size > size:
        return 0
    (at,) = _U16.unpack_from(meta, members + slot)
    return table + at if at else 0


def _follow(meta: bytes, at: int) -> int:
    """Returns the place of the table or vector to which the offset at a place leads."""
    return at + int(_U32.unpack_from(meta, at)[0])
