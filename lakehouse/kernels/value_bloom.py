"""Bloom filter of Arrow values: a set of bits that tells what is surely not among some values.

Layout, little-endian::

    4  magic, LKBF        1  version, 1       1  number of probes
    2  size of the type's name, and the name  8  number of values
    8  number of words, and so many words of 64 bits

A probe ``i`` asks for the bit ``(a + i * b) mod (64 * words)``; ``a`` and ``b`` are two hashes of the value
(:func:`lakehouse.kernels.value_hashes.hash_values`), of which the second is made odd.

Invariant: a value that was put in is always found, also as a value of another type that is equal to it.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.kernels.arrays import U64, Mask
from lakehouse.kernels.exact_casts import cast_exactly, family_of
from lakehouse.kernels.value_hashes import hash_values

__all__ = ["ValueBloom"]

_MAGIC, _VERSION = b"LKBF", 1
_HEAD = struct.Struct("<4sBBH")
_COUNTS = struct.Struct("<QQ")
_WORD_BITS = 64
_PROBES_MAX = 32
_SALT = 0xA5
_BITS_MIN = 1 << 13
"""Bits from which on two hashes make enough different probes; with few, values share all of theirs."""
_PLAIN = {
    str(kind): kind
    for kind in (pa.bool_(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.binary(), pa.date32())
} | {str(kind): kind for unit in ("us", "ns") for kind in (pa.timestamp(unit), pa.time64(unit))}
"""Types of values by their names; decimals are apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueBloom:
    """Bits of some values; made by :meth:`of`, or of bytes that :meth:`to_bytes` made."""

    kind: pa.DataType
    """Type of the values, the widest of its family."""
    values: int
    """Number of values that were put in."""
    probes: int
    """Number of bits of a value."""
    words: U64
    """The bits."""

    @classmethod
    def of(cls, values: pa.Array, *, false_positive_rate: float = 0.01) -> ValueBloom:
        """Makes a filter of values; nulls are left out.

        Args:
            values: numbers, texts, bytes, dates, times or truth values.
            false_positive_rate: share of other values that it takes for one of these.

        Raises:
            InvalidInputError: the rate is not between 0 and 1, or values of this type have no hash.
        """
        if not 0 < false_positive_rate < 1:
            raise InvalidInputError(f"a rate is between 0 and 1, not {false_positive_rate}")
        kind = _widest(values.type)
        known = cast_exactly(values, kind).drop_null()
        bits = max(_BITS_MIN, math.ceil(len(known) * -math.log(false_positive_rate) / math.log(2) ** 2))
        probes = min(_PROBES_MAX, max(1, round(-math.log2(false_positive_rate))))
        flags = np.zeros(-(-bits // _WORD_BITS) * _WORD_BITS, np.bool_)
        for places in _places(known, probes, len(flags)):
            flags[places] = True
        words = np.packbits(flags, bitorder="little").view("<u8").astype(np.uint64)
        return cls(kind=kind, values=len(known), probes=probes, words=words)

    def might_contain(self, values: pa.Array) -> Mask:
        """Returns for each value whether it may be one of those put in; never for null.

        Raises:
            InvalidInputError: no value of this type is ever equal to one of the filter's.
        """
        known = cast_exactly(values, self.kind)
        found: Mask = known.is_valid().to_numpy(zero_copy_only=False).copy()
        for places in _places(known, self.probes, len(self.words) * _WORD_BITS):
            found &= (self.words[places >> np.uint64(6)] >> (places & np.uint64(63)) & np.uint64(1)) == 1
        return found

    def to_bytes(self) -> bytes:
        """Returns the filter as bytes."""
        name = str(self.kind).encode()
        head = _HEAD.pack(_MAGIC, _VERSION, self.probes, len(name))
        counts = _COUNTS.pack(self.values, len(self.words))
        return head + name + counts + self.words.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> ValueBloom:
        """Reads a filter.

        Raises:
            CorruptionError: the bytes are none.
        """
        try:
            magic, version, probes, size = _HEAD.unpack_from(data)
            name = data[_HEAD.size : _HEAD.size + size]
            values, count = _COUNTS.unpack_from(data, _HEAD.size + size)
            kind = _kind_of(name.decode("ascii"))
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptionError("these bytes are no Bloom filter: they end early, or are text") from error
        begin = _HEAD.size + size + _COUNTS.size
        fits = count and len(data) - begin == count * (_WORD_BITS // 8)
        if (
            magic != _MAGIC
            or version != _VERSION
            or not 0 < probes <= _PROBES_MAX
            or kind is None
            or not fits
        ):
            raise CorruptionError("these bytes are no Bloom filter of a version that can be read")
        words = np.frombuffer(data, "<u8", count, begin).astype(np.uint64)
        return cls(kind=kind, values=values, probes=probes, words=words)


def _widest(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which values of a type are put in."""
    types = pa.types
    if types.is_dictionary(kind):
        return _widest(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _widest(kind.storage_type)
    if types.is_integer(kind):
        return pa.uint64() if kind == pa.uint64() else pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_decimal128(kind):
        return kind
    if types.is_timestamp(kind) or types.is_time(kind):
        unit = "ns" if kind.unit == "ns" else "us"
        return pa.timestamp(unit) if types.is_timestamp(kind) else pa.time64(unit)
    by_family = {"text": pa.string(), "bytes": pa.binary(), "truth value": pa.bool_(), "time": pa.date32()}
    found = by_family.get(family_of(kind))
    if found is None:
        raise InvalidInputError(f"there is no Bloom filter of {kind}")
    return found


def _kind_of(name: str) -> pa.DataType | None:
    decimal = re.fullmatch(r"decimal128\((\d{1,2}), (-?\d{1,2})\)", name)
    if decimal is None:
        return _PLAIN.get(name)
    precision, scale = int(decimal[1]), int(decimal[2])
    return pa.decimal128(precision, scale) if 0 < precision <= 38 else None


def _places(values: pa.Array, probes: int, bits: int):  # type: ignore[no-untyped-def]
    """Yields the places of the first bit of each value, of the second, and so on."""
    start = hash_values(values).astype(np.uint64)
    step = hash_values(values, salt=_SALT).astype(np.uint64)
    # Two hashes of 32 bits: shifted, so that filters of more bits than that have all of theirs used.
    start |= step << np.uint64(32)
    step |= np.uint64(1)
    for probe in range(probes):
        yield (start + np.uint64(probe) * step) % np.uint64(bits)
