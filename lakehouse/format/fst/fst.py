"""An FST of format version 3: an ordered map from byte strings to 64-bit numbers.

::

    u64  3                       format version
    u64  type                    0; chosen by the writer's user, ignored by readers
    nodes                        see lakehouse.format.fst.node
    u64  number of keys
    u64  address of the root
    u32  checksum                masked CRC-32C of everything before it

All numbers are little endian. The root is the node written last, so it ends where the
number of keys begins; only the map of the empty key to 0 has no node and root 0.

GreptimeDB's inverted index keeps its terms in it (the ``fst`` crate's ``Map``).
Invariant: ``Fst.parse(build_fst(keys, values))`` holds those keys and values and no other,
and no bytes whatever make a read crash, hang or take memory out of proportion.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Self

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError, UnsupportedVersionError
from lakehouse.format.fst.build import build_nodes
from lakehouse.format.fst.node import HEADER_BYTES
from lakehouse.format.fst.read import ALL_KEYS, STEPS_MAX, FstEntries, KeyRange, look_up, scan_nodes
from lakehouse.kernels.arrays import I64, U8, U64, Mask

__all__ = ["COUNTS", "FOOTER_BYTES", "VERSION", "Fst", "build_fst", "masked_crc32c"]

VERSION = 3
"""The one format version read and written; 1 and 2 had no checksum and were never in an index."""
_HEADER = struct.Struct("<QQ")
COUNTS = struct.Struct("<QQ")
"""Number of keys and address of the root: the beginning of the footer."""
_CHECKSUM = struct.Struct("<I")
FOOTER_BYTES = COUNTS.size + _CHECKSUM.size
"""Bytes of number of keys, root address and checksum."""
_VALUE_MAX = (1 << 63) - 1
"""Maximum value that is written: the builder's loops hold values as signed 64-bit numbers."""


def masked_crc32c(data: bytes | memoryview) -> int:
    """Computes CRC-32C, rotated and shifted, so that checksumming data with checksums in it stays sound."""
    crc = int(google_crc32c.value(bytes(data)))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def build_fst(
    keys: pa.Array | Sequence[bytes], values: npt.ArrayLike, *, compiled: bool | None = None
) -> bytes:
    """Encodes a map.

    Args:
        keys: binary array without nulls, or byte strings; ascending by bytes, each once.
        values: as many numbers from 0 to 2**63 - 1.
        compiled: True or False forces compiled or interpreted loops; the bytes are the same.
    """
    data, ends = _flat(keys)
    numbers = np.asarray(values)
    if len(numbers) != len(ends):
        raise InvalidInputError(f"an FST of {len(ends)} keys needs as many values, not {len(numbers)}")
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) <= _VALUE_MAX:
        raise InvalidInputError(f"values of an FST must be in 0..{_VALUE_MAX}")
    nodes, root = build_nodes(data, ends, numbers.astype(np.int64), compiled=compiled)
    _HEADER.pack_into(nodes, 0, VERSION, 0)
    body = b"".join([nodes, COUNTS.pack(len(ends), root)])
    return body + _CHECKSUM.pack(masked_crc32c(body))


class Fst:
    """A parsed map. Immutable; reading it does no I/O."""

    __slots__ = ("_data", "_root", "key_count", "type")

    key_count: int
    """Number of keys that the footer states."""
    type: int
    """Number chosen by the writer's user; 0 in an inverted index."""

    def __init__(self, data: bytes, root: int, key_count: int, type_: int) -> None:
        self._data, self._root = data, root
        self.key_count, self.type = key_count, type_

    @classmethod
    def parse(cls, data: bytes | memoryview, *, verify_checksum: bool = True) -> Self:
        """Checks header, footer and (unless told not to) checksum; nodes are checked when visited."""
        raw = bytes(data)
        if len(raw) < HEADER_BYTES + FOOTER_BYTES:
            raise CorruptionError(
                f"an FST has {len(raw)} bytes, fewer than the smallest possible",
                offset=0,
                expected=HEADER_BYTES + FOOTER_BYTES,
                got=len(raw),
            )
        version, type_ = _HEADER.unpack_from(raw, 0)
        if version > VERSION:
            raise UnsupportedVersionError(
                f"this FST has format version {version}; this release reads {VERSION}: upgrade lakehouse",
                offset=0,
                got=version,
            )
        if version < VERSION:
            raise FormatError(
                f"this FST has format version {version}; only {VERSION} is read: build the index again",
                offset=0,
                got=version,
            )
        footer = len(raw) - FOOTER_BYTES
        key_count, root = COUNTS.unpack_from(raw, footer)
        (checksum,) = _CHECKSUM.unpack_from(raw, len(raw) - _CHECKSUM.size)
        if verify_checksum:
            got = masked_crc32c(memoryview(raw)[: -_CHECKSUM.size])
            if got != checksum:
                raise CorruptionError(
                    f"an FST of {len(raw)} bytes does not match its checksum: the index is damaged",
                    offset=len(raw) - _CHECKSUM.size,
                    expected=checksum,
                    got=got,
                )
        if root != (footer - 1 if footer > HEADER_BYTES else 0):
            raise CorruptionError(
                f"an FST names byte {root} as its root, which is not the node written last",
                offset=footer + 8,
                expected=footer - 1,
                got=root,
            )
        return cls(raw, root, key_count, type_)

    def __repr__(self) -> str:
        return f"Fst({self.key_count} keys, {len(self._data)} bytes)"

    def __len__(self) -> int:
        return self.key_count

    def get(self, key: bytes) -> int | None:
        """Returns the value of one key, or None."""
        # One lookup ends before compiled code would be loaded.
        hits, values = self.get_many([key], compiled=False)
        return int(values[0]) if hits[0] else None

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def get_many(self, keys: pa.Array | Sequence[bytes], *, compiled: bool | None = None) -> tuple[Mask, U64]:
        """Returns for each key whether it is there, and its value or 0."""
        queries, ends = _flat(keys)
        return look_up(self._data, self._root, queries, ends, compiled=compiled)

    def batches(
        self,
        keys: KeyRange = ALL_KEYS,
        *,
        with_keys: bool = True,
        steps_max: int = STEPS_MAX,
        compiled: bool | None = None,
    ) -> Iterator[FstEntries]:
        """Yields the entries of a range in key order, in batches of bounded size.

        Args:
            keys: range of keys.
            with_keys: False leaves the keys out, for callers that need the values alone.
            steps_max: transitions to follow before the scan is given up with an error.
            compiled: see :func:`build_fst`.
        """
        if self.key_count:
            yield from scan_nodes(
                self._data, self._root, keys,
                with_keys=with_keys, steps_max=steps_max, expected=self.key_count, compiled=compiled,
            )  # fmt: skip

    def items(self, keys: KeyRange = ALL_KEYS) -> Iterator[tuple[bytes, int]]:
        """Yields key and value one by one, in key order."""
        for batch in self.batches(keys):
            assert batch.keys is not None
            yield from zip(batch.keys.to_pylist(), batch.values.tolist(), strict=True)

    def values(
        self, keys: KeyRange = ALL_KEYS, *, steps_max: int = STEPS_MAX, compiled: bool | None = None
    ) -> U64:
        """Returns the values of a range, in key order."""
        batches = self.batches(keys, with_keys=False, steps_max=steps_max, compiled=compiled)
        return np.concatenate([np.empty(0, np.uint64), *(batch.values for batch in batches)])


def _flat(keys: pa.Array | Sequence[bytes]) -> tuple[U8, I64]:
    """Returns the keys' bytes one after another, and the offset behind each."""
    if not isinstance(keys, pa.Array):
        data = np.frombuffer(b"".join(keys), np.uint8)
        return data, np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)))
    if keys.null_count:
        raise InvalidInputError(f"keys of an FST cannot be null, {keys.null_count} are")
    array = pc.cast(keys, pa.large_binary())
    _, offsets, body = array.buffers()
    if len(array) == 0:
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(body, np.uint8) if body else np.empty(0, np.uint8)
    return data[bounds[0] : bounds[-1]], bounds[1:] - bounds[0]
