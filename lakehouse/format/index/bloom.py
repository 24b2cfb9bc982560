"""Bloom index blobs: ``filter 0 | filter 1 | ... | BloomFilterMeta | u32 length of it``.

A column is cut into segments of a fixed number of rows, and each segment has a filter of its
distinct non-null values. A filter equal to the one just before it is stored once. Skipping
indexes and fulltext bloom indexes are the same blob: there a row has one value, here it has its
tokens.

Invariant: a :class:`BloomMeta` that was decoded is consistent: filters fill the blob from its
first byte to its metadata, and every segment has one of them.

The blob has no checksum. A damaged filter or element count shows nowhere, so files that may be
damaged need a checksum from elsewhere before a search may skip anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.index.bloom_filter import (
    BLOCK_BYTES,
    Draws,
    draws_of,
    looks_of,
    may_contain,
    may_contain_one,
)
from lakehouse.format.index.protobuf import Message, MessageField
from lakehouse.format.index.siphash import hash_values
from lakehouse.kernels.arrays import I64, U64, Mask
from lakehouse.kernels.need_more import LENGTH_BYTES, NeedMore, metadata_from_tail

__all__ = [
    "BloomMeta",
    "BloomSummary",
    "Look",
    "hashes_of",
    "looks",
    "probe",
    "segments_that_may_hold",
    "segments_with_hashes",
    "wide_values",
]

_LOC = Message(
    "BloomFilterLoc",
    MessageField(number=1, name="offset", kind="uint64"),
    MessageField(number=2, name="size", kind="uint64"),
    MessageField(number=3, name="element_count", kind="uint64"),
)
_META = Message(
    "BloomFilterMeta",
    MessageField(number=1, name="rows_per_segment", kind="uint64"),
    MessageField(number=2, name="segment_count", kind="uint64"),
    MessageField(number=3, name="row_count", kind="uint64"),
    MessageField(number=4, name="bloom_filter_size", kind="uint64"),
    MessageField(number=5, name="segment_loc_indices", kind="packed"),
    MessageField(number=6, name="bloom_filter_locs", kind="columns", message=_LOC),
)
_SUMMARY = Message("BloomFilterMeta", *_META.fields[:4])
_SUMMARY_PAYS_BELOW = 1024
"""Bytes of metadata from which skipping the filters one by one takes longer than decoding them together."""
_PROBES_TOGETHER = 1 << 16
_FEW = 64
"""Looks that are made one by one in less time than it takes to call numpy."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BloomMeta:
    """What the tail of a bloom blob says."""

    rows_per_segment: int
    row_count: int
    """Rows of the column, nulls included."""
    segment_loc_indices: I64
    """For each segment, which filter is its."""
    offsets: I64
    """For each filter, its first byte in the blob."""
    sizes: I64
    """For each filter, its bytes."""
    element_counts: I64
    """For each filter, its distinct values."""

    @property
    def segment_count(self) -> int:
        """Segments that have a filter; old files have none for a last segment of nulls."""
        return len(self.segment_loc_indices)

    @property
    def bloom_filter_size(self) -> int:
        """Bytes of all filters; they begin the blob."""
        return int(self.sizes.sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BloomMeta) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def encode(self) -> bytes:
        """The message, without the length that follows it in a blob."""
        return _META.encode(
            {
                "rows_per_segment": self.rows_per_segment,
                "segment_count": self.segment_count,
                "row_count": self.row_count,
                "bloom_filter_size": self.bloom_filter_size,
                "segment_loc_indices": self.segment_loc_indices,
                "bloom_filter_locs": {
                    "offset": self.offsets,
                    "size": self.sizes,
                    "element_count": self.element_counts,
                },
            }
        )

    @classmethod
    def from_tail(cls, tail: bytes | memoryview, blob_size: int) -> Self | NeedMore:
        """The metadata of a blob whose last bytes are ``tail``, or the tail that would hold it."""
        found = metadata_from_tail(tail, blob_size, what="bloom blob")
        if isinstance(found, NeedMore):
            return found
        return cls.decode(found, blob_size - LENGTH_BYTES - len(found))

    @classmethod
    def decode(cls, data: bytes | memoryview, filters_size: int) -> Self:
        """The metadata from its message; ``filters_size`` bytes of the blob precede that."""
        if data[:1] == b"{":
            raise FormatError(
                "bloom blob has JSON metadata, as GreptimeDB wrote before 2025-01-16 (pull request 5377): "
                "build the index anew",
                offset=filters_size,
            )
        values = _META.decode(data)
        locs = values["bloom_filter_locs"]
        _check(values, filters_size)
        # The numbers are small now, and bytes of small numbers are the same with and without a sign.
        return cls(
            rows_per_segment=values["rows_per_segment"],
            row_count=values["row_count"],
            segment_loc_indices=values["segment_loc_indices"].view(np.int64),
            offsets=locs["offset"].view(np.int64),
            sizes=locs["size"].view(np.int64),
            element_counts=locs["element_count"].view(np.int64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomSummary:
    """The four numbers of a bloom blob's metadata, without where its filters are.

    For whoever lists indexes: several times quicker than :class:`BloomMeta`, and checked as far
    as these numbers go.
    """

    rows_per_segment: int
    segment_count: int
    row_count: int
    bloom_filter_size: int

    @classmethod
    def from_tail(cls, tail: bytes | memoryview, blob_size: int) -> Self | NeedMore:
        """The summary of a blob whose last bytes are ``tail``, or the tail that would hold it."""
        found = metadata_from_tail(tail, blob_size, what="bloom blob")
        if isinstance(found, NeedMore):
            return found
        filters_size = blob_size - LENGTH_BYTES - len(found)
        if len(found) >= _SUMMARY_PAYS_BELOW or bytes(found[:1]) == b"{":
            meta = BloomMeta.decode(found, filters_size)
            return cls(
                rows_per_segment=meta.rows_per_segment,
                segment_count=meta.segment_count,
                row_count=meta.row_count,
                bloom_filter_size=meta.bloom_filter_size,
            )
        values = _SUMMARY.decode(found)
        _check_summary(values, filters_size)
        return cls(**values)


def _check_summary(values: dict[str, Any], filters_size: int) -> None:
    rows_per_segment, segment_count = values["rows_per_segment"], values["segment_count"]
    if rows_per_segment == 0:
        raise _bad("rows per segment", 0, "at least 1")
    # Before 2025-03-03 (pull request 5625) a last segment of nulls only was not written.
    segments = -(-values["row_count"] // rows_per_segment)
    if not max(segments - 1, 0) <= segment_count <= segments:
        raise _bad("segment count", segment_count, f"{segments}, or one less")
    if values["bloom_filter_size"] != filters_size:
        raise _bad("size of all filters", values["bloom_filter_size"], filters_size)


def _check(values: dict[str, Any], filters_size: int) -> None:
    """Refuses metadata whose numbers do not fit each other or the blob.

    Most blobs have a few filters, so this counts with Python's integers, which do not overflow.
    """
    _check_summary(values, filters_size)
    segment_count = values["segment_count"]
    indices = values["segment_loc_indices"].tolist()
    if len(indices) != segment_count:
        raise _bad("number of filter indexes", len(indices), segment_count)
    locs = values["bloom_filter_locs"]
    offsets, sizes = locs["offset"].tolist(), locs["size"].tolist()
    if indices and max(indices) >= len(sizes):
        raise _bad("filter index", max(indices), f"less than {len(sizes)}")
    begins = [0, *itertools.accumulate(sizes)]
    if begins.pop() != filters_size:
        raise _bad("sum of filter sizes", sum(sizes), filters_size)
    if offsets != begins:
        wrong, right = next(pair for pair in zip(offsets, begins, strict=True) if pair[0] != pair[1])
        raise _bad("filter offset", wrong, right)
    partial = [size for size in set(sizes) if size % BLOCK_BYTES or not size]
    if partial:
        raise _bad("filter size", partial[0], f"a multiple of {BLOCK_BYTES}")
    counts = locs["element_count"].tolist()
    if counts and max(counts) >= 1 << 63:
        raise _bad("element count", max(counts), "less than 2^63")


def _bad(what: str, got: int, expected: object) -> CorruptionError:
    return CorruptionError(
        f"metadata of a bloom blob: {what} is {got}, expected {expected}",
        field=what,
        expected=expected,
        got=got,
    )


def probe(stored: bytes | memoryview, element_count: int, values: pa.Array) -> Mask:
    """For each encoded value, whether one filter may hold it; nulls may be anywhere."""
    blocks, rest = divmod(len(stored), BLOCK_BYTES)
    if blocks == 0 or rest:
        raise InvalidInputError(f"a filter has whole blocks of {BLOCK_BYTES} bytes, not {len(stored)} bytes")
    one, size = np.zeros(1, np.int64), np.array([blocks])
    hashes = hashes_of(values)
    return _probe(_words(stored), one, size, draws_of(blocks, element_count), hashes)[:, 0] | _nulls(values)


def segments_that_may_hold(meta: BloomMeta, filters: bytes | memoryview, values: pa.Array) -> Mask:
    """For each encoded value a row, for each segment a column: whether the segment may hold the value.

    Args:
        meta: metadata of the blob.
        filters: the first :attr:`BloomMeta.bloom_filter_size` bytes of the blob, or more.
        values: binary array.
    """
    return segments_with_hashes(meta, filters, hashes_of(values)) | _nulls(values)[:, None]


def segments_with_hashes(meta: BloomMeta, filters: bytes | memoryview, hashes: U64) -> Mask:
    """The same for values that are not null, given by :func:`hashes_of`: one query is put to many blobs."""
    if len(filters) < meta.bloom_filter_size:
        raise InvalidInputError(
            f"the filters have {meta.bloom_filter_size} bytes, not {len(filters)}: pass all"
        )
    held = np.zeros((len(hashes), len(meta.sizes)), np.bool_)
    is_few = held.size <= _FEW
    groups: dict[Draws, list[int]] = {}
    blocks = meta.sizes // BLOCK_BYTES
    for loc, (size, count) in enumerate(zip(blocks.tolist(), meta.element_counts.tolist(), strict=True)):
        draws = draws_of(size, count)
        if is_few and draws.sparse is None:
            begin = int(meta.offsets[loc])
            held[:, loc] = [
                may_contain_one(filters, begin, size, one, draws.plain) for one in hashes.tolist()
            ]
            continue
        groups.setdefault(draws, []).append(loc)
    words = _words(filters)
    for draws, locs in groups.items():
        held[:, locs] = _probe(words, meta.offsets[locs] // BLOCK_BYTES, blocks[locs], draws, hashes)
    return held[:, meta.segment_loc_indices]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Look:
    """What is looked at in filters at once: of a value in a filter a block, and bits in it."""

    values: I64
    """Numbers of the values."""
    filters: I64
    """Numbers of the filters, each with the value at its place."""
    places: I64
    """First bytes of the blocks."""
    patterns: U64
    """The bits, as words of each block."""

    def among(self, held: Mask) -> Look:
        """The part of it that is about values and filters, rows and columns, that are true."""
        kept = held[self.values, self.filters]
        return Look(
            values=self.values[kept],
            filters=self.filters[kept],
            places=self.places[kept],
            patterns=self.patterns[kept],
        )

    def settle(self, held: Mask, blocks: U64) -> None:
        """Makes those false whose bits are not all in the words of their blocks."""
        held[self.values, self.filters] &= ((blocks & self.patterns) == self.patterns).all(axis=1)


def looks(meta: BloomMeta, hashes: U64) -> list[Look]:
    """What :func:`segments_with_hashes` looks at, first looks first.

    A value may be in a filter if every look finds its bits; behind one that does not, none is needed.
    """
    found: list[list[Look]] = []
    values = np.arange(len(hashes))
    for number, (begin, size, count) in enumerate(
        zip(meta.offsets.tolist(), meta.sizes.tolist(), meta.element_counts.tolist(), strict=True)
    ):
        blocks, filters = np.full(len(hashes), size // BLOCK_BYTES), np.full(len(hashes), number)
        draws = draws_of(size // BLOCK_BYTES, count)
        for at, (block, pattern) in enumerate(looks_of(hashes, blocks, draws)):
            if at == len(found):
                found.append([])
            places = begin + block * BLOCK_BYTES
            found[at].append(Look(values=values, filters=filters, places=places, patterns=pattern))
    return [_together(one) for one in found]


def _together(parts: Sequence[Look]) -> Look:
    if len(parts) == 1:
        return parts[0]
    return Look(
        values=np.concatenate([one.values for one in parts]),
        filters=np.concatenate([one.filters for one in parts]),
        places=np.concatenate([one.places for one in parts]),
        patterns=np.concatenate([one.patterns for one in parts]),
    )


def _probe(words: U64, begins: I64, blocks: I64, draws: Draws, hashes: U64) -> Mask:
    """Every hash against every filter of a group that chooses bits in the same way."""
    held = np.empty((len(hashes), len(begins)), np.bool_)
    rows = max(1, _PROBES_TOGETHER // max(len(begins), 1))
    for start in range(0, len(hashes), rows):
        part = hashes[start : start + rows]
        each = len(part)
        found = may_contain(
            words, np.tile(begins, each), np.tile(blocks, each), np.repeat(part, len(begins)), draws
        )
        held[start : start + each] = found.reshape(each, len(begins))
    return held


def hashes_of(values: pa.Array) -> U64:
    """What filters know of encoded values; what it is of a null does not matter."""
    return hash_values(wide_values(values))


def _nulls(values: pa.Array) -> Mask:
    found: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return found


def _words(filters: bytes | memoryview) -> U64:
    return np.frombuffer(filters, "<u8", count=len(filters) // BLOCK_BYTES * (BLOCK_BYTES // 8))


def wide_values(values: pa.Array) -> pa.Array:
    """A binary or string array as large_binary, whose pieces can be put together without a limit."""
    type_ = values.type
    if pa.types.is_string(type_):
        return values.cast(pa.binary()).cast(pa.large_binary())
    if not (pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_large_string(type_)):
        raise InvalidInputError(f"bloom filters take encoded values, binary or string, not {type_}")
    return values.cast(pa.large_binary())
