"""Theta sketches made of columns, merged and encoded: ``apache-datasketches-theta-v1``.

A value's hash is the first half of Murmur3 (128 bits, seed 9001) of its single-value bytes, without the
lowest bit. A sketch keeps the least hashes, at most :data:`NOMINAL_ENTRIES` of them; theta is the least that
was left out. Hashes of 0 are left out, as are empty values, as by DataSketches.

Invariant: a sketch is the same whatever the order of its values, and however they were spread over sketches
that were merged.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.puffin.single_value_bytes import single_value_bytes
from lakehouse.format.puffin.theta_sketch import ThetaSketch
from lakehouse.kernels.arrays import U64
from lakehouse.kernels.murmur3_128 import hash_pieces_128

__all__ = ["NOMINAL_ENTRIES", "ThetaBuilder"]

NOMINAL_ENTRIES = 4096
"""Hashes that a sketch keeps at most, as those that Iceberg's engines write: one standard error is 1.6 %."""
_SEED = 9001
_SEED_HASH = 0x93CC
_THETA_ONE = 1 << 63
_PREAMBLE = struct.Struct("<6BH")
_COUNT = struct.Struct("<II")
_SERIAL_VERSION, _FAMILY_COMPACT = 3, 3
_ORDERED, _COMPACT, _EMPTY, _READ_ONLY = 16, 8, 4, 2


class ThetaBuilder:
    """A sketch that grows."""

    __slots__ = ("_has_values", "_hashes", "_nominal", "_seen_again", "_theta")

    def __init__(self, *, nominal_entries: int = NOMINAL_ENTRIES) -> None:
        self._nominal = nominal_entries
        self._hashes: U64 = np.empty(0, np.uint64)
        self._seen_again = np.empty(0, np.bool_)
        self._theta = _THETA_ONE
        self._has_values = False

    @property
    def estimate(self) -> float:
        """Estimated number of distinct values; exact as long as all hashes are kept."""
        return len(self._hashes) / (self._theta / _THETA_ONE)

    @property
    def singles(self) -> float:
        """Estimated number of values that were added once; of merged sketches nobody knows, so none."""
        # A hash below theta was kept from its first sight on, because theta only falls.
        return int(np.count_nonzero(~self._seen_again)) / (self._theta / _THETA_ONE)

    @property
    def is_exact(self) -> bool:
        """Whether every distinct value counts."""
        return self._theta == _THETA_ONE

    def update(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Adds the values of a column; nulls do not count.

        Raises:
            InvalidInputError: values of this type have no bytes of their own.
        """
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else (values,):
            data, starts, lengths = single_value_bytes(chunk.drop_null() if chunk.null_count else chunk)
            if not lengths.all():
                starts, lengths = starts[lengths > 0], lengths[lengths > 0]
            self._add(hash_pieces_128(data, starts, lengths, seed=_SEED) >> np.uint64(1))

    def merge(self, blob: bytes | memoryview) -> None:
        """Adds what another sketch has seen.

        Raises:
            FormatError: it is no sketch, of another seed, or packed (serial version 4).
        """
        head, raw = ThetaSketch.parse(blob), bytes(blob)
        if not head.entries and head.theta == 1.0:
            return
        if head.seed_hash != _SEED_HASH:
            raise FormatError(
                f"a theta sketch has the seed hash {head.seed_hash:#06x}; {_SEED_HASH:#06x} is merged",
                got=head.seed_hash,
                expected=_SEED_HASH,
            )
        if raw[1] != _SERIAL_VERSION:
            raise FormatError("a packed theta sketch (serial version 4) cannot be merged", got=raw[1])
        longs = raw[0] & 0x3F
        theta = int.from_bytes(raw[16:24], "little") if longs == 3 else _THETA_ONE
        hashes = np.frombuffer(raw, "<u8", head.entries, 8 * longs).astype(np.uint64)
        if len(hashes) and (int(hashes.max()) >= theta or not int(hashes.min())):
            raise CorruptionError("a theta sketch has hashes that are not below its theta", offset=8 * longs)
        self._theta = min(self._theta, theta)
        self._has_values = True
        self._add(np.concatenate([hashes, hashes]))

    def _add(self, hashes: U64) -> None:
        self._has_values = self._has_values or bool(len(hashes))
        hashes = hashes[(hashes < np.uint64(self._theta)) & (hashes > np.uint64(0))]
        # What was seen again before is there twice, so that it counts twice again.
        seen = np.concatenate([self._hashes, self._hashes[self._seen_again], hashes])
        kept, counts = np.unique(seen, return_counts=True)
        if len(kept) > self._nominal:
            self._theta = int(kept[self._nominal])
        is_below = kept < np.uint64(self._theta)
        self._hashes, self._seen_again = kept[is_below], counts[is_below] > 1

    def encode(self) -> bytes:
        """Returns the compact, ordered sketch, serial version 3."""
        flags = _ORDERED | _COMPACT | _READ_ONLY
        count, body = len(self._hashes), self._hashes.astype("<u8").tobytes()
        if not self._has_values:
            return self._preamble(1, flags | _EMPTY)
        if self.is_exact and count == 1:
            return self._preamble(1, flags) + body
        head = self._preamble(2 if self.is_exact else 3, flags) + _COUNT.pack(count, 0)
        return head + (b"" if self.is_exact else self._theta.to_bytes(8, "little")) + body

    @staticmethod
    def _preamble(longs: int, flags: int) -> bytes:
        return _PREAMBLE.pack(longs, _SERIAL_VERSION, _FAMILY_COMPACT, 0, 0, flags, _SEED_HASH)
