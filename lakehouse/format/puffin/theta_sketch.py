"""Preamble of Iceberg's distinct-value sketches, the puffin blob ``apache-datasketches-theta-v1``.

::

    u8   preamble longs (low 6 bits)
    u8   serial version: 3 plain, 4 compressed
    u8   family: 3 compact
    u8   version 4: bits per entry
    u8   version 4: bytes of the entry count
    u8   flags: 4 empty
    u16  hash of the seed
         version 3: u32 entries, u32 unused (preamble longs > 1), u64 theta (> 2), entries of 8 bytes
         version 4: u64 theta (preamble longs > 1), entries, packed entries

All is little endian. Theta is a fraction of 2**63, absent when it is 1; the estimate is
entries / theta. The entries themselves (hashes) are counted, not read.

Invariant: a sketch parses to the estimate DataSketches gives for it, or is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from lakehouse.errors import CorruptionError, FormatError

__all__ = ["NDV", "THETA_SKETCH", "ThetaSketch", "number_of_properties"]

THETA_SKETCH = "apache-datasketches-theta-v1"
"""The puffin blob's type."""
NDV = "ndv"
"""Blob property: estimated number of distinct values, decimal."""
_PREAMBLE = struct.Struct("<6BH")
_FAMILY_COMPACT = 3
_PLAIN, _COMPRESSED = 3, 4
_FLAG_EMPTY = 4
_THETA_ONE = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ThetaSketch:
    """Content of a sketch's preamble."""

    entries: int
    """Number of hashes that the sketch keeps."""
    theta: float
    """Share of all hashes that were kept; 1.0 = every distinct value counts."""
    seed_hash: int
    """Hash of the seed: sketches with different ones cannot be merged; 0 in an empty sketch."""

    @property
    def estimate(self) -> float:
        """Estimated number of distinct values; exact when theta is 1."""
        return self.entries / self.theta

    @classmethod
    def parse(cls, blob: bytes | memoryview) -> Self:
        """Reads the preamble and checks that the entries it announces are there."""
        raw = bytes(blob)
        if len(raw) < _PREAMBLE.size:
            raise _damage_error("is too short", 0, f"at least {_PREAMBLE.size} bytes", len(raw))
        longs, version, family, entry_bits, count_bytes, flags, seed_hash = _PREAMBLE.unpack_from(raw)
        longs &= 0x3F
        if family != _FAMILY_COMPACT:
            raise _damage_error("is not a compact theta sketch", 2, _FAMILY_COMPACT, family)
        if flags & _FLAG_EMPTY:
            return cls(entries=0, theta=1.0, seed_hash=seed_hash)
        if version == _PLAIN:
            entries, theta, size = _plain(raw, longs)
        elif version == _COMPRESSED:
            entries, theta, size = _compressed(raw, longs, entry_bits, count_bytes)
        else:
            raise FormatError(f"a theta sketch has serial version {version}; 3 and 4 are read", got=version)
        if not 0 < theta <= _THETA_ONE:
            raise _damage_error("has no valid theta", 0, f"1..{_THETA_ONE}", theta)
        if size != len(raw):
            raise _damage_error("has another size than its entries need", 0, size, len(raw))
        return cls(entries=entries, theta=theta / _THETA_ONE, seed_hash=seed_hash)


def number_of_properties(properties: Mapping[str, str], name: str = NDV) -> int | None:
    """Returns the number in a blob's property, or None when it is missing or no number."""
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _plain(raw: bytes, longs: int) -> tuple[int, int, int]:
    """Returns (entries, theta, size) of serial version 3."""
    if not 1 <= longs <= 3:
        raise _damage_error("has no valid preamble", 0, "1, 2 or 3 longs", longs)
    if len(raw) < 8 * longs:
        raise _damage_error("ends in its preamble", len(raw), f"{8 * longs} bytes", len(raw))
    # A preamble of one long and not empty: a single value.
    entries = 1 if longs == 1 else int.from_bytes(raw[8:12], "little")
    theta = int.from_bytes(raw[16:24], "little") if longs == 3 else _THETA_ONE
    return entries, theta, 8 * (longs + entries)


def _compressed(raw: bytes, longs: int, entry_bits: int, count_bytes: int) -> tuple[int, int, int]:
    """Returns (entries, theta, size) of serial version 4."""
    if not 1 <= longs <= 2 or not 1 <= entry_bits <= 63 or count_bytes > 4:
        raise _damage_error(
            "has no valid preamble", 0, "1 or 2 longs", f"{longs} longs, {entry_bits} bits an entry"
        )
    body = 8 * longs + count_bytes
    if len(raw) < body:
        raise _damage_error("ends in its preamble", len(raw), f"{body} bytes", len(raw))
    entries = int.from_bytes(raw[8 * longs : body], "little")
    theta = int.from_bytes(raw[8:16], "little") if longs == 2 else _THETA_ONE
    return entries, theta, body + (entry_bits * entries + 7) // 8


def _damage_error(what: str, offset: int, expected: object, got: object) -> CorruptionError:
    return CorruptionError(
        f"theta sketch {what}: expected {expected}, got {got}", offset=offset, expected=expected, got=got
    )
