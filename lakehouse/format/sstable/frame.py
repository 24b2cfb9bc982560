"""Codec of the frame of an SSTable: header, stored blocks, footer.

::

    file      header | data blocks | bloom block | index block | meta block | footer

    header    magic "LHST", version u16, flags u16 = 0, rows u64, end u64, blocks u32, crc u32
              32 bytes; ``end`` = end of the last data block, ``crc`` = of the 28 bytes before it
    block     type u8, codec u8, raw u32, stored u32, payload bytes[stored], crc u32
              ``raw`` = bytes of the payload once decompressed, ``crc`` = of all before it
    footer    meta, index and bloom as (offset u64, size u32) each, crc u32, version u32, magic "LHST"
              48 bytes; ``crc`` = of the other 44

Numbers are little-endian, checksums CRC32C. The magic stands for: lakehouse, sorted table.

Invariant: a block that opens has the bytes that were sealed; it never takes more memory than it
states, nor more than :data:`RAW_BYTES_MAX` or than its codec can make of it.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Self

import google_crc32c
import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError, UnsupportedVersionError
from lakehouse.format.limits.codec_ratio import BYTES_OF_ONE
from lakehouse.format.sstable.loops import read_varint

__all__ = [
    "CODECS",
    "RAW_BYTES_MAX",
    "BlockType",
    "Footer",
    "Handle",
    "Header",
    "open_block",
    "seal_block",
]

_MAGIC = b"LHST"
_VERSION = 1
RAW_BYTES_MAX = 1 << 28
"""Maximum bytes of a block's content."""
CODECS = ("none", "snappy", "lz4", "zstd")
"""Codecs by their number in the file; stored, never renumber."""
_ARROW_CODECS = {"snappy": "snappy", "lz4": "lz4_raw", "zstd": "zstd"}
_ZSTD_LEVEL = 1
_BLOCK = struct.Struct("<BBII")
_CRC = struct.Struct("<I")
_OVERHEAD = _BLOCK.size + _CRC.size


class BlockType(enum.IntEnum):
    """Type of a block by its content; stored, never renumber."""

    DATA = 1
    BLOOM = 2
    INDEX = 3
    META = 4


@dataclass(frozen=True, slots=True)
class Handle:
    """Place of a block in the file."""

    offset: int
    size: int
    """Bytes of the block, head and checksum included; 0 = there is no such block."""

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.offset + self.size


def seal_block(kind: BlockType, raw: bytes | memoryview, codec: str) -> bytes:
    """Encodes a block to be stored; content that does not become smaller is not compressed.

    Raises:
        InvalidInputError: the content is too large.
    """
    if len(raw) > RAW_BYTES_MAX:
        raise InvalidInputError(
            f"an SSTable's {kind.name.lower()} block would have {len(raw):,} bytes, {RAW_BYTES_MAX:,} are "
            "allowed: write smaller rows, or fewer to a file",
            size=len(raw),
        )
    payload, number = bytes(raw), 0
    if codec != "none" and len(raw):
        packed: bytes = _arrow_codec(codec).compress(pa.py_buffer(payload), asbytes=True)
        if len(packed) < len(payload):
            payload, number = packed, CODECS.index(codec)
    head = _BLOCK.pack(kind, number, len(raw), len(payload))
    crc = google_crc32c.extend(google_crc32c.value(head), payload)
    return head + payload + _CRC.pack(crc)


def _arrow_codec(codec: str) -> pa.Codec:
    level = _ZSTD_LEVEL if codec == "zstd" else None
    return pa.Codec(_ARROW_CODECS[codec], compression_level=level)


def open_block(stored: bytes, kind: BlockType, *, offset: int) -> bytes:
    """Verifies a stored block and returns its content; ``offset`` is its place in the file.

    Raises:
        CorruptionError: these are not the bytes of such a block.
    """
    what = f"the {kind.name.lower()} block at byte {offset}"
    if len(stored) < _OVERHEAD:
        raise CorruptionError(f"{what} has {len(stored)} bytes, too few for a block", offset=offset)
    (crc,) = _CRC.unpack_from(stored, len(stored) - _CRC.size)
    if crc != (got := google_crc32c.value(stored[: -_CRC.size])):
        raise CorruptionError(
            f"{what} is damaged: its checksum is {crc:08x}, its bytes have {got:08x}",
            offset=offset,
            expected=crc,
            got=got,
        )
    number, codec, raw, size = _BLOCK.unpack_from(stored)
    fits = size == len(stored) - _OVERHEAD and raw <= RAW_BYTES_MAX and (size < raw if codec else size == raw)
    fits = fits and codec < len(CODECS) and raw <= size * BYTES_OF_ONE[CODECS[codec]]
    if number != kind or not fits:
        raise CorruptionError(
            f"{what} says type {number}, codec {codec}, {size} bytes stored and {raw} raw: it is another "
            "block, or none",
            offset=offset,
        )
    payload = stored[_BLOCK.size : -_CRC.size]
    return _inflated(payload, CODECS[codec], raw, what, offset)


def _inflated(payload: bytes, codec: str, raw: int, what: str, offset: int) -> bytes:
    if codec == "none":
        return payload
    content = _decompressed(payload, codec, raw)
    # Arrow's LZ4 does not notice a payload that fills less than the room. So it is tried with one byte
    # less, which must fail. (zstd and Snappy state the size of their content.)
    if content is None or (codec == "lz4" and _decompressed(payload, codec, raw - 1) is not None):
        raise CorruptionError(
            f"{what} has a payload that does not decompress to {raw} bytes ({codec})", offset=offset
        )
    return content


def _decompressed(payload: bytes, codec: str, room: int) -> bytes | None:
    """Decompresses the payload; None when it is damaged or needs more room."""
    if codec == "snappy" and read_varint(payload, 0, len(payload))[0] != room:
        return None
    try:
        content: bytes = _arrow_codec(codec).decompress(payload, room, asbytes=True)
    except (OSError, pa.ArrowException):
        return None
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The beginning of a file, for readers that read it from front to back."""

    rows: int
    """Rows of the file."""
    end: int
    """End of the last data block; the first one begins behind the header."""
    blocks: int
    """Number of data blocks."""

    _LAYOUT = struct.Struct("<4sHHQQI")
    ENCODED_SIZE = _LAYOUT.size + _CRC.size

    def pack(self) -> bytes:
        """Encodes the header with its checksum."""
        head = self._LAYOUT.pack(_MAGIC, _VERSION, 0, self.rows, self.end, self.blocks)
        return head + _CRC.pack(google_crc32c.value(head))

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Decodes the header from the beginning of a file.

        Raises:
            FormatError: this is no SSTable.
            CorruptionError: it is damaged.
            UnsupportedVersionError: a newer release wrote it.
        """
        size = cls._LAYOUT.size
        if len(data) < cls.ENCODED_SIZE:
            raise CorruptionError(
                f"the file ends after {len(data)} bytes, inside its header", offset=len(data)
            )
        magic, version, flags, rows, end, blocks = cls._LAYOUT.unpack_from(data)
        (crc,) = _CRC.unpack_from(data, size)
        _check(magic, version, crc, bytes(data[:size]), "header", 0)
        if flags:
            raise UnsupportedVersionError(
                f"the SSTable has flags {flags:#x}, which this release does not know: upgrade lakehouse",
                offset=6,
            )
        return cls(rows=rows, end=end, blocks=blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The end of a file, with the places of the blocks that are not data."""

    meta: Handle
    index: Handle
    bloom: Handle

    _LAYOUT = struct.Struct("<QIQIQI")
    _END = struct.Struct("<II4s")
    ENCODED_SIZE = _LAYOUT.size + _END.size

    def pack(self) -> bytes:
        """Encodes the footer with its checksum."""
        handles = self._LAYOUT.pack(
            self.meta.offset,
            self.meta.size,
            self.index.offset,
            self.index.size,
            self.bloom.offset,
            self.bloom.size,
        )
        crc = google_crc32c.value(handles + self._END.pack(0, _VERSION, _MAGIC)[_CRC.size :])
        return handles + self._END.pack(crc, _VERSION, _MAGIC)

    @classmethod
    def unpack(cls, data: bytes, *, offset: int) -> Self:
        """Decodes the footer; ``offset`` is its place in the file.

        Raises:
            FormatError: this is no SSTable.
            CorruptionError: it is damaged.
            UnsupportedVersionError: a newer release wrote it.
        """
        parts = cls._LAYOUT.unpack_from(data)
        crc, version, magic = cls._END.unpack_from(data, cls._LAYOUT.size)
        covered = bytes(data[: cls._LAYOUT.size]) + bytes(data[cls._LAYOUT.size + _CRC.size :])
        _check(magic, version, crc, covered, "footer", offset)
        meta, index, bloom = (Handle(*parts[at : at + 2]) for at in (0, 2, 4))
        first = bloom.offset if bloom.size else index.offset
        ends = (bloom.end if bloom.size else index.offset, index.end, meta.end)
        if first < Header.ENCODED_SIZE or ends != (index.offset, meta.offset, offset):
            raise CorruptionError("the footer's blocks do not stand where they have to", offset=offset)
        return cls(meta=meta, index=index, bloom=bloom)

    @property
    def data_end(self) -> int:
        """End of the last data block in the file."""
        return self.bloom.offset if self.bloom.size else self.index.offset


def _check(magic: bytes, version: int, crc: int, covered: bytes, what: str, offset: int) -> None:
    if magic != _MAGIC:
        raise FormatError(
            f"this is no SSTable: its {what} has magic {magic!r} instead of {_MAGIC!r}",
            offset=offset,
            expected=_MAGIC,
            got=magic,
        )
    if crc != (got := google_crc32c.value(covered)):
        raise CorruptionError(
            f"the {what} is damaged: its checksum is {crc:08x}, its bytes have {got:08x}",
            offset=offset,
            expected=crc,
            got=got,
        )
    if version != _VERSION:
        raise UnsupportedVersionError(
            f"the SSTable has version {version}; this release reads version {_VERSION}. Upgrade lakehouse.",
            offset=offset,
            version=version,
        )
