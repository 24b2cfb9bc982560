"""Iceberg deletion vectors: the puffin blob ``deletion-vector-v1``.

::

    u32 big endian     length of magic, number and bitmaps
    D1 D3 39 64        magic
    u64 little endian  number of 32-bit bitmaps
    per bitmap         u32 little endian key, then a Roaring bitmap
    u32 big endian     CRC-32 of magic and bitmaps

A position is key << 32 | number in the bitmap; keys ascend and are below 2**31, so that
positions are not negative. A bitmap may be empty (Java writers fill gaps between keys so).
The mixed byte order is Delta Lake's, from where the format came.

Invariant: decoding what was encoded gives the same positions; bytes that are damaged
anywhere are refused, and no run is expanded beyond the rows of the data file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.index.roaring import encode_one, read_bitmap
from lakehouse.kernels.arrays import I64

__all__ = [
    "CARDINALITY",
    "DELETION_VECTOR",
    "REFERENCED_DATA_FILE",
    "decode_deletion_vector",
    "deletion_vector_properties",
    "encode_deletion_vector",
]

DELETION_VECTOR = "deletion-vector-v1"
"""The puffin blob's type; such a blob is never compressed."""
REFERENCED_DATA_FILE = "referenced-data-file"
"""Blob property: location of the data file; mandatory."""
CARDINALITY = "cardinality"
"""Blob property: number of deleted rows, decimal; mandatory."""
_MAGIC = bytes.fromhex("d1d33964")
"""Delta Lake's magic number 1681511377 for this serialisation."""
_LENGTH = struct.Struct(">I")
_CHECKSUM = struct.Struct(">I")
_COUNT = struct.Struct("<Q")
_KEY = struct.Struct("<I")
_KEYS_MAX = 1 << 31
_SMALLEST = _LENGTH.size + len(_MAGIC) + _COUNT.size + _CHECKSUM.size


def encode_deletion_vector(positions: npt.ArrayLike) -> bytes:
    """Encodes row positions, given in any order, as a blob; uses run containers where they are smaller."""
    rows = np.asarray(positions, np.int64)
    if int(rows.min(initial=0)) < 0:
        raise InvalidInputError(f"row positions are not negative, {int(rows.min())} is")
    if not (rows[1:] > rows[:-1]).all():
        rows = np.sort(rows)
        rows = rows[np.diff(rows, prepend=-1) != 0]
    upper = rows >> 32
    first = np.flatnonzero(np.diff(upper, prepend=-1))
    keys = upper[first]
    parts = [_MAGIC, _COUNT.pack(len(keys))]
    bounds = [*first.tolist(), len(rows)]
    for key, start, end in zip(keys.tolist(), bounds[:-1], bounds[1:], strict=True):
        numbers = (rows[start:end] & 0xFFFFFFFF).astype(np.uint32)
        parts += [_KEY.pack(key), encode_one(numbers, runs=True)]
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body + _CHECKSUM.pack(zlib.crc32(body))


def decode_deletion_vector(
    blob: bytes | memoryview, *, row_count: int, cardinality: int | None = None
) -> I64:
    """Decodes the positions of the deleted rows, ascending.

    Args:
        blob: the whole blob.
        row_count: rows of the data file; a position that is not below it is damage.
        cardinality: how many positions there must be, from the blob's properties or the manifest.
    """
    raw = bytes(blob)
    if len(raw) < _SMALLEST:
        raise _damage_error("is too short", 0, f"at least {_SMALLEST} bytes", len(raw))
    (length,) = _LENGTH.unpack_from(raw)
    end = len(raw) - _CHECKSUM.size
    if length != end - _LENGTH.size:
        raise _damage_error("has another length than it says", 0, end - _LENGTH.size, length)
    if raw[_LENGTH.size : _LENGTH.size + len(_MAGIC)] != _MAGIC:
        got = raw[_LENGTH.size : _LENGTH.size + len(_MAGIC)].hex()
        raise _damage_error("has no magic number", _LENGTH.size, _MAGIC.hex(), got)
    (checksum,) = _CHECKSUM.unpack_from(raw, end)
    crc = zlib.crc32(memoryview(raw)[_LENGTH.size : end])
    if crc != checksum:
        raise _damage_error("does not match its checksum", end, checksum, crc)
    pos = _LENGTH.size + len(_MAGIC)
    (count,) = _COUNT.unpack_from(raw, pos)
    pos += _COUNT.size
    parts = [np.empty(0, np.int64)]
    last = -1
    for _ in range(count):
        if pos + _KEY.size > end:
            raise _damage_error("ends before its last bitmap", pos, f"{count} bitmaps", len(parts) - 1)
        (key,) = _KEY.unpack_from(raw, pos)
        if not last < key < _KEYS_MAX:
            raise _damage_error(
                "has bitmap keys out of order or range", pos, f"{last + 1}..{_KEYS_MAX - 1}", key
            )
        below = min(max(row_count - (key << 32), 0), 1 << 32)
        numbers, pos = read_bitmap(raw, pos + _KEY.size, below=below, what="bitmap of a deletion vector")
        parts.append(numbers.astype(np.int64) | key << 32)
        last = key
    if pos != end:
        raise _damage_error("goes on behind its last bitmap", pos, end, pos)
    positions = np.concatenate(parts)
    if cardinality is not None and cardinality != len(positions):
        raise _damage_error("has another number of positions than was said", 0, cardinality, len(positions))
    return positions


def deletion_vector_properties(data_file: str, cardinality: int) -> Mapping[str, str]:
    """Returns the blob properties that Iceberg requires."""
    return {CARDINALITY: str(cardinality), REFERENCED_DATA_FILE: data_file}


def _damage_error(what: str, offset: int, expected: object, got: object) -> CorruptionError:
    return CorruptionError(
        f"deletion vector {what}, at byte {offset}: expected {expected}, got {got}",
        offset=offset,
        expected=expected,
        got=got,
    )
