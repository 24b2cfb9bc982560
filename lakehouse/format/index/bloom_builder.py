"""Builder of bloom blobs from columns, whole or in pieces.

Invariant: :class:`BloomBuilder` writes the same bytes however its input is cut into arrays, and
they are GreptimeDB's for the same rows.

Compiled loops take one value after another (:mod:`lakehouse.format.index.segment_terms`). Where nothing is
compiled, or segments are too small for them to pay, values are taken in batches: each batch is
dictionary-encoded, only the distinct values are hashed, and each pair of segment and value counts once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.index.bloom import BloomMeta, wide_values
from lakehouse.format.index.bloom_filter import BLOCK_BYTES, build_filters, check_rate
from lakehouse.format.index.segment_terms import SegmentTerms
from lakehouse.format.index.siphash import hash_values
from lakehouse.format.index.term_loops import TERM_LOOPS
from lakehouse.format.text.english import ascii_text
from lakehouse.kernels.arrays import I32, I64, U64
from lakehouse.kernels.need_more import LENGTH_BYTES

__all__ = ["BloomBuilder", "build_bloom"]

_BATCH_VALUES = 1 << 17
"""Values of a batch; larger batches use more memory and no less time."""
_BATCH_SEGMENTS = 1 << 12
_TOKEN_BYTES = 6
"""Estimated bytes of a word of a text and its separator."""
_COMPILED_SEGMENT_LEAST = 256
"""Minimum rows of a segment for which compiled loops, which go segment by segment, pay."""
_TABLE_PER_PAIR_MAX = 64
"""Maximum entries per pair of a table that finds distinct pairs; beyond it they are sorted instead."""


class BloomBuilder:
    """Builds a bloom blob from a column that comes in pieces.

    Pieces are binary or string arrays of encoded values, one row a value, or lists of them,
    one row any number of values. Nulls count as rows and add nothing.
    """

    __slots__ = (
        "_counts",
        "_filters",
        "_indices",
        "_last",
        "_rate",
        "_rows",
        "_rows_per_segment",
        "_terms",
    )

    def __init__(self, rows_per_segment: int, false_positive_rate: float) -> None:
        if rows_per_segment < 1:
            raise InvalidInputError(f"a segment has at least one row, not {rows_per_segment}")
        check_rate(false_positive_rate)
        self._rows_per_segment = rows_per_segment
        self._rate = false_positive_rate
        self._rows = 0
        self._terms: SegmentTerms | _Batches = _Batches(
            rows_per_segment, false_positive_rate, self._add_filter
        )
        self._filters: list[bytes] = []
        self._counts: list[int] = []
        self._indices: list[int] = []
        self._last: tuple[int, bytes] | None = None

    def push(self, array: pa.Array | pa.ChunkedArray) -> None:
        """Adds the rows of an array, which follow those pushed before."""
        if isinstance(array, pa.ChunkedArray):
            for chunk in array.chunks:
                self.push(chunk)
            return
        terms = self._terms_for(len(array))
        for start in range(0, len(array), _BATCH_VALUES):
            piece = array[start : start + _BATCH_VALUES]
            terms.push_values(*_values_and_rows(piece), len(piece))
        self._rows += len(array)

    def push_text(self, texts: pa.LargeStringArray, *, case_sensitive: bool) -> bool:
        """Adds rows that have the tokens of English text, if that is quicker than to push the tokens.

        Args:
            texts: a slice of :func:`lakehouse.format.text.english.text_slices`.
            case_sensitive: True keeps the case of tokens, False makes them lower case.

        Returns:
            True if the rows were added; False = push their tokens instead.
        """
        terms = self._terms_for(texts.nbytes // _TOKEN_BYTES)
        if isinstance(terms, _Batches):
            return False
        text = ascii_text(texts, case_sensitive=case_sensitive)
        if text is None:
            return False
        terms.push_text(text)
        self._rows += len(texts)
        return True

    def finish(self) -> bytes:
        """Returns the blob; the builder is used up."""
        self._terms.finish()
        sizes = np.array([len(filter_) for filter_ in self._filters], np.int64)
        meta = BloomMeta(
            rows_per_segment=self._rows_per_segment,
            row_count=self._rows,
            segment_loc_indices=np.array(self._indices, np.int64),
            offsets=np.cumsum(sizes) - sizes,
            sizes=sizes,
            element_counts=np.array(self._counts, np.int64),
        ).encode()
        return b"".join([*self._filters, meta, len(meta).to_bytes(LENGTH_BYTES, "little")])

    def _terms_for(self, more: int) -> SegmentTerms | _Batches:
        """Returns the collector for ``more`` further terms; changes to the compiled one once that pays."""
        if isinstance(self._terms, _Batches):
            is_worth_it = self._rows_per_segment >= _COMPILED_SEGMENT_LEAST
            compiled = TERM_LOOPS.compiled_for(more if is_worth_it else 0)
            if compiled is not None:
                # The open segments move along, so that the change leaves no trace in the bytes.
                left = self._terms.left()
                self._terms = SegmentTerms(compiled, self._rows_per_segment, self._rate, self._add_filter)
                self._terms.push_values(*left)
        return self._terms

    def _add_filter(self, count: int, filter_: bytes) -> None:
        """Adds the filter of the next segment, which has ``count`` terms; stores equal neighbours once."""
        if (count, filter_) != self._last:
            self._filters.append(filter_)
            self._counts.append(count)
            self._last = (count, filter_)
        self._indices.append(len(self._filters) - 1)


class _Batches:
    """Collector of the distinct terms of segments, in batches; an alternative to :class:`SegmentTerms`."""

    __slots__ = (
        "_close",
        "_closed",
        "_kept",
        "_pending",
        "_pending_values",
        "_rate",
        "_rows",
        "_rows_per_segment",
    )

    def __init__(self, rows_per_segment: int, rate: float, close: Callable[[int, bytes], None]) -> None:
        self._rows_per_segment, self._rate, self._close = rows_per_segment, rate, close
        self._rows = 0
        self._closed = 0
        # Values that are in no filter yet, with the segment each belongs to.
        self._pending = [(pa.array([], pa.large_binary()), np.empty(0, np.int64))]
        self._pending_values = 0
        self._kept = 0

    def push_values(self, values: pa.Array, rows: I64, count: int) -> None:
        """Adds ``count`` rows with these values."""
        if len(values):
            self._pending.append((values, (rows + self._rows) // self._rows_per_segment))
            self._pending_values += len(values)
        self._rows += count
        # Closing goes through the values of the open segment again, so it must not happen too often.
        if self._pending_values - self._kept >= max(_BATCH_VALUES, self._kept):
            self._close_segments(self._rows // self._rows_per_segment)

    def left(self) -> tuple[pa.Array, I64, int]:
        """Returns the values of segments without a filter so far, the row of each, and the number of rows.

        Rows are counted from the first of these segments; the row of a value is the first of its segment.
        """
        values = pa.concat_arrays([values for values, _ in self._pending])
        segments = np.concatenate([segments for _, segments in self._pending]) - self._closed
        return values, segments * self._rows_per_segment, self._rows - self._closed * self._rows_per_segment

    def finish(self) -> None:
        """Ends the last segment."""
        self._close_segments(-(-self._rows // self._rows_per_segment))

    def _close_segments(self, until: int) -> None:
        """Makes the filters of all segments before ``until``; keeps what belongs to later ones."""
        first, self._closed = self._closed, until
        values = pa.concat_arrays([values for values, _ in self._pending])
        segments = np.concatenate([segments for _, segments in self._pending]) - first
        encoded = values.dictionary_encode()
        distinct, codes = _distinct_pairs(segments, encoded.indices.to_numpy(), len(encoded.dictionary))
        split = int(np.searchsorted(distinct, until - first))
        hashes = hash_values(encoded.dictionary)[codes[:split]]
        owners = distinct[:split]
        for begin in range(0, until - first, _BATCH_SEGMENTS):
            end = min(begin + _BATCH_SEGMENTS, until - first)
            low, high = np.searchsorted(owners, (begin, end))
            self._add_filters(hashes[low:high], owners[low:high] - begin, end - begin)
        rest = encoded.dictionary.take(pa.array(codes[split:]))
        self._pending = [(rest, distinct[split:] + first)]
        self._pending_values = self._kept = len(rest)

    def _add_filters(self, hashes: U64, owners: I64, segments: int) -> None:
        counts = np.bincount(owners, minlength=segments)
        body, blocks = build_filters(hashes, owners, counts, self._rate)
        start = 0
        for count, size in zip(counts.tolist(), (blocks * BLOCK_BYTES).tolist(), strict=True):
            self._close(count, body[start : start + size])
            start += size


def build_bloom(
    column: pa.Array | pa.ChunkedArray, rows_per_segment: int, false_positive_rate: float
) -> bytes:
    """Returns the blob of a whole column of encoded values, or of lists of them."""
    builder = BloomBuilder(rows_per_segment, false_positive_rate)
    builder.push(column)
    return builder.finish()


def _values_and_rows(piece: pa.Array) -> tuple[pa.Array, I64]:
    """Returns the non-null values of some rows and, for each value, the number of its row."""
    if pa.types.is_list(piece.type) or pa.types.is_large_list(piece.type):
        values = pc.list_flatten(piece)
        rows = pc.list_parent_indices(piece).to_numpy().astype(np.int64, copy=False)
    else:
        values = piece
        rows = np.arange(len(piece))
    if values.null_count:
        rows = rows[values.is_valid().to_numpy(zero_copy_only=False)]
        values = values.drop_null()
    return wide_values(values), rows


def _distinct_pairs(segments: I64, codes: I32, distinct: int) -> tuple[I64, I64]:
    """Returns the distinct pairs of segment and code, ascending."""
    if len(codes) == 0:
        return segments, codes.astype(np.int64)
    pairs = segments * distinct + codes
    size = (int(segments[-1]) + 1) * distinct
    if size <= _TABLE_PER_PAIR_MAX * len(pairs):
        seen = np.zeros(size, np.bool_)
        seen[pairs] = True
        pairs = np.flatnonzero(seen)
    else:
        pairs.sort()
        pairs = pairs[np.diff(pairs, prepend=-1) != 0]
    owners, owned = np.divmod(pairs, distinct)
    return owners, owned
