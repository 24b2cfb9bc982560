"""Bloom index blobs: ``filter 0 | filter 1 | ... | BloomFilterMeta | u32 length of it``.

A column is cut into segments of a fixed number of rows, and each segment has a filter of its
distinct non-null values. A filter equal to the one just before it is stored once. Skipping
indexes and fulltext bloom indexes are the same blob: in the former a row has one value, in the
latter it has its tokens.

Invariant: a :class:`BloomMeta` that was decoded is consistent: filters fill the blob from its
first byte to its metadata, and every segment has one of them.

The blob has no checksum. A damaged filter or element count is not noticed, so files that may be
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
"""Number of probes up to which Python's integers are quicker than calls of numpy."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BloomMeta:
    """The metadata at the end of a bloom blob: its segments, and where the filter of each is."""

    rows_per_segment: int
    row_count: int
    """Rows of the column, nulls included."""
    segment_loc_indices: I64
    """For each segment, the number of its filter."""
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
        """Encodes the message, without the length that follows it in a blob."""
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
        """Returns the metadata of a blob whose last bytes are ``tail``, or the tail that would hold it."""
        message = metadata_from_tail(tail, blob_size, what="bloom blob")
        if isinstance(message, NeedMore):
            return message
        return cls.decode(message, blob_size - LENGTH_BYTES - len(message))

    @classmethod
    def decode(cls, data: bytes | memoryview, filters_size: int) -> Self:
        """Decodes the metadata from its message, which ``filters_size`` bytes of the blob precede."""
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

    For callers that list indexes: several times quicker than :class:`BloomMeta`. Only these numbers
    are checked.
    """

    rows_per_segment: int
    segment_count: int
    row_count: int
    bloom_filter_size: int

    @classmethod
    def from_tail(cls, tail: bytes | memoryview, blob_size: int) -> Self | NeedMore:
        """Returns the summary of a blob whose last bytes are ``tail``, or the tail that would hold it."""
        message = metadata_from_tail(tail, blob_size, what="bloom blob")
        if isinstance(message, NeedMore):
            return message
        filters_size = blob_size - LENGTH_BYTES - len(message)
        # JSON metadata goes the long way too, whose error says what to do about it.
        if len(message) >= _SUMMARY_PAYS_BELOW or bytes(message[:1]) == b"{":
            meta = BloomMeta.decode(message, filters_size)
            return cls(
                rows_per_segment=meta.rows_per_segment,
                segment_count=meta.segment_count,
                row_count=meta.row_count,
                bloom_filter_size=meta.bloom_filter_size,
            )
        values = _SUMMARY.decode(message)
        _check_summary(values, filters_size)
        return cls(**values)


def _check_summary(values: dict[str, Any], filters_size: int) -> None:
    rows_per_segment, segment_count = values["rows_per_segment"], values["segment_count"]
    if rows_per_segment == 0:
        raise _metadata_error("rows per segment", 0, "at least 1")
    # GreptimeDB before 2025-03-03 (pull request 5625) did not write a last segment of nulls only.
    segments = -(-values["row_count"] // rows_per_segment)
    if not max(segments - 1, 0) <= segment_count <= segments:
        raise _metadata_error("segment count", segment_count, f"{segments}, or one less")
    if values["bloom_filter_size"] != filters_size:
        raise _metadata_error("size of all filters", values["bloom_filter_size"], filters_size)


def _check(values: dict[str, Any], filters_size: int) -> None:
    """Refuses metadata whose numbers do not fit each other or the blob.

    Most blobs have a few filters, so this counts with Python's integers, which do not overflow.
    """
    _check_summary(values, filters_size)
    segment_count = values["segment_count"]
    indices = values["segment_loc_indices"].tolist()
    if len(indices) != segment_count:
        raise _metadata_error("number of filter indexes", len(indices), segment_count)
    locs = values["bloom_filter_locs"]
    offsets, sizes = locs["offset"].tolist(), locs["size"].tolist()
    if indices and max(indices) >= len(sizes):
        raise _metadata_error("filter index", max(indices), f"less than {len(sizes)}")
    begins = [0, *itertools.accumulate(sizes)]
    if begins.pop() != filters_size:
        raise _metadata_error("sum of filter sizes", sum(sizes), filters_size)
    if offsets != begins:
        wrong, right = next(pair for pair in zip(offsets, begins, strict=True) if pair[0] != pair[1])
        raise _metadata_error("filter offset", wrong, right)
    partial = [size for size in set(sizes) if size % BLOCK_BYTES or not size]
    if partial:
        raise _metadata_error("filter size", partial[0], f"a multiple of {BLOCK_BYTES}")
    counts = locs["element_count"].tolist()
    if counts and max(counts) >= 1 << 63:
        raise _metadata_error("element count", max(counts), "less than 2^63")


def _metadata_error(what: str, got: int, expected: object) -> CorruptionError:
    return CorruptionError(
        f"metadata of a bloom blob: {what} is {got}, expected {expected}",
        field=what,
        expected=expected,
        got=got,
    )


def probe(stored: bytes | memoryview, element_count: int, values: pa.Array) -> Mask:
    """Returns for each encoded value whether one filter may hold it; always true for nulls."""
    blocks, rest = divmod(len(stored), BLOCK_BYTES)
    if blocks == 0 or rest:
        raise InvalidInputError(f"a filter has whole blocks of {BLOCK_BYTES} bytes, not {len(stored)} bytes")
    one, size = np.zeros(1, np.int64), np.array([blocks])
    hashes = hashes_of(values)
    return _probe(_words(stored), one, size, draws_of(blocks, element_count), hashes)[:, 0] | _nulls(values)


def segments_that_may_hold(meta: BloomMeta, filters: bytes | memoryview, values: pa.Array) -> Mask:
    """Returns whether segments may hold values: a row for each encoded value, a column for each segment.

    Args:
        meta: metadata of the blob.
        filters: the first :attr:`BloomMeta.bloom_filter_size` bytes of the blob, or more.
        values: binary array.
    """
    return segments_with_hashes(meta, filters, hashes_of(values)) | _nulls(values)[:, None]


def segments_with_hashes(meta: BloomMeta, filters: bytes | memoryview, hashes: U64) -> Mask:
    """Does the same for hashes of non-null values (:func:`hashes_of`), made once for many blobs."""
    if len(filters) < meta.bloom_filter_size:
        raise InvalidInputError(
            f"the filters have {meta.bloom_filter_size} bytes, not {len(filters)}: pass all"
        )
    held = np.zeros((len(hashes), len(meta.sizes)), np.bool_)
    is_few = held.size <= _FEW  # then Python's integers are quicker than numpy's arrays
    groups: dict[Draws, list[int]] = {}
    blocks = meta.sizes // BLOCK_BYTES
    for loc, (size, count) in enumerate(zip(blocks.tolist(), meta.element_counts.tolist(), strict=True)):
        draws = draws_of(size, count)
        if is_few and draws.sparse is None:
            begin = int(meta.offsets[loc])
            held[:, loc] = [
                may_contain_one(filters, begin, size, hash_, draws.plain) for hash_ in hashes.tolist()
            ]
            continue
        groups.setdefault(draws, []).append(loc)
    words = _words(filters)
    for draws, locs in groups.items():
        held[:, locs] = _probe(words, meta.offsets[locs] // BLOCK_BYTES, blocks[locs], draws, hashes)
    return held[:, meta.segment_loc_indices]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Look:
    """Lookups of one round: each is of a value in a filter, and names a block of that and bits in it."""

    values: I64
    """Number of the value of each lookup."""
    filters: I64
    """Number of the filter of each lookup."""
    places: I64
    """Offset of the block of each lookup in the blob, in bytes."""
    patterns: U64
    """Bits of each lookup, as the words of its block."""

    def among(self, held: Mask) -> Look:
        """Returns the lookups of those values and filters, rows and columns of ``held``, that are true."""
        kept = held[self.values, self.filters]
        return Look(
            values=self.values[kept],
            filters=self.filters[kept],
            places=self.places[kept],
            patterns=self.patterns[kept],
        )

    def settle(self, held: Mask, blocks: U64) -> None:
        """Sets entries of ``held`` to False whose bits are not all set in the words of their ``blocks``."""
        held[self.values, self.filters] &= ((blocks & self.patterns) == self.patterns).all(axis=1)


def looks(meta: BloomMeta, hashes: U64) -> list[Look]:
    """Returns the lookups that :func:`segments_with_hashes` makes, in rounds.

    A value may be in a filter if every round finds its bits; after one that does not, no further is needed.
    """
    rounds: list[list[Look]] = []
    values = np.arange(len(hashes))
    for number, (begin, size, count) in enumerate(
        zip(meta.offsets.tolist(), meta.sizes.tolist(), meta.element_counts.tolist(), strict=True)
    ):
        blocks, filters = np.full(len(hashes), size // BLOCK_BYTES), np.full(len(hashes), number)
        draws = draws_of(size // BLOCK_BYTES, count)
        for at, (block, pattern) in enumerate(looks_of(hashes, blocks, draws)):
            if at == len(rounds):
                rounds.append([])
            places = begin + block * BLOCK_BYTES
            rounds[at].append(Look(values=values, filters=filters, places=places, patterns=pattern))
    return [_concatenated(parts) for parts in rounds]


def _concatenated(parts: Sequence[Look]) -> Look:
    if len(parts) == 1:
        return parts[0]
    return Look(
        values=np.concatenate([part.values for part in parts]),
        filters=np.concatenate([part.filters for part in parts]),
        places=np.concatenate([part.places for part in parts]),
        patterns=np.concatenate([part.patterns for part in parts]),
    )


def _probe(words: U64, begins: I64, blocks: I64, draws: Draws, hashes: U64) -> Mask:
    """Tests every hash (rows) against every filter (columns) of a group that chooses bits alike."""
    held = np.empty((len(hashes), len(begins)), np.bool_)
    rows = max(1, _PROBES_TOGETHER // max(len(begins), 1))
    for start in range(0, len(hashes), rows):
        part = hashes[start : start + rows]
        each = len(part)
        hits = may_contain(
            words, np.tile(begins, each), np.tile(blocks, each), np.repeat(part, len(begins)), draws
        )
        held[start : start + each] = hits.reshape(each, len(begins))
    return held


def hashes_of(values: pa.Array) -> U64:
    """Returns the hashes by which filters know encoded values; the hash of a null means nothing."""
    return hash_values(wide_values(values))


def _nulls(values: pa.Array) -> Mask:
    nulls: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _words(filters: bytes | memoryview) -> U64:
    return np.frombuffer(filters, "<u8", count=len(filters) // BLOCK_BYTES * (BLOCK_BYTES // 8))


def wide_values(values: pa.Array) -> pa.Array:
    """Returns a binary or string array as large_binary, whose pieces can be concatenated beyond 2 GiB."""
    type_ = values.type
    if pa.types.is_string(type_):
        return values.cast(pa.binary()).cast(pa.large_binary())
    if not (pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_large_string(type_)):
        raise InvalidInputError(f"bloom filters take encoded values, binary or string, not {type_}")
    return values.cast(pa.large_binary())
