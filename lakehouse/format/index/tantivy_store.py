"""Conversion of GreptimeDB's tantivy files for a tantivy without zstd.

GreptimeDB has tantivy compress stored documents with zstd. The Python package is built without
it, and so refuses the whole index, though a search reads terms and not documents. The documents are
row numbers alone, and those follow from the first one of each segment: one thread adds rows in
order, and segments are never merged. So each ``.store`` file is replaced by one that holds the
segment's first document, uncompressed::

    document | u32 0 | u32 1            one block: the document, its offset, number of documents
    skip index                          one layer, one checkpoint: document 0, the block
    u32 version | u64 offset of the skip index | u8 compressor | 15 zeros
    JSON, u32 its length, u32 1337      tantivy's own footer, unchanged

Numbers of the skip index have seven bits in a byte, the lowest first, and bit 7 set in the last.
The footer's checksum no longer matches; tantivy verifies it only on request.

Invariant: files that need no change are returned unchanged.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakehouse.errors import CorruptionError
from lakehouse.format.limits.json_object import parse_json

__all__ = ["META_FILE", "without_zstd"]

META_FILE = "meta.json"
"""File in which tantivy records the parts and settings of an index."""
_TRAILER = struct.Struct("<II")
_MAGIC = 1337
_STORE_FOOTER = struct.Struct("<IQB15x")
_VERSION = 2
_ZSTD, _NONE = 4, 0
_BLOCK_MAX = 64 << 20
"""Maximum bytes of a block; real ones have 16 KiB and up to a document more."""


def without_zstd(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Returns the files of an index by relative path, with stored documents that any tantivy can read."""
    try:
        meta: Any = parse_json(files[META_FILE])
        compression = meta["index_settings"]["docstore_compression"]
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptionError(f"the tantivy index has no {META_FILE} that says how it is stored") from error
    if not isinstance(compression, str) or not compression.startswith("zstd"):
        return files
    meta["index_settings"]["docstore_compression"] = "none"
    changed = {META_FILE: json.dumps(meta).encode()}
    for path, data in files.items():
        if path.endswith(".store"):
            changed[path] = _first_document(path, data)
    return {**files, **changed}


def _first_document(path: str, data: bytes) -> bytes:
    """Returns a store with the first document of another store alone."""
    try:
        length, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
        end = len(data) - _TRAILER.size - length
        version, blocks_end, compressor = _STORE_FOOTER.unpack_from(data, end - _STORE_FOOTER.size)
        (size,) = struct.unpack_from("<I", data)
        if magic != _MAGIC or version != _VERSION or compressor != _ZSTD or not size <= _BLOCK_MAX:
            raise _damage_error(path, "zstd, version 2", f"compressor {compressor}, version {version}")
        with pa.CompressedInputStream(pa.BufferReader(data[4:blocks_end]), "zstd") as stream:
            block = stream.read(size)
        (count,) = struct.unpack_from("<I", block, len(block) - 4)
        index_start = len(block) - 4 * (count + 1)
        start, stop = (*struct.unpack_from(f"<{min(count, 2)}I", block, index_start), index_start)[:2]
    except (struct.error, OSError, pa.ArrowException, ValueError) as error:
        raise _damage_error(path, "a document store", "something else") from error
    document = block[start:stop]
    if not 0 <= start < stop <= index_start or len(document) != stop - start:
        raise _damage_error(path, "documents", f"one from {start} to {stop}")
    block = document + struct.pack("<II", 0, 1)
    checkpoint = b"".join(map(_vint, (1, 0, 0, 1, len(block))))
    skip_index = _vint(1) + _vint(len(checkpoint)) + checkpoint
    footer = _STORE_FOOTER.pack(_VERSION, len(block), _NONE)
    return b"".join([block, skip_index, footer, data[end:]])


def _vint(number: int) -> bytes:
    """Encodes a number, seven bits in a byte, the lowest first; the last byte has bit 7 set."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F)
        number >>= 7
    parts.append(number | 0x80)
    return bytes(parts)


def _damage_error(path: str, expected: str, got: str) -> CorruptionError:
    return CorruptionError(
        f"file {path!r} of the tantivy index is damaged: expected {expected}, got {got}",
        expected=expected,
        got=got,
    )
