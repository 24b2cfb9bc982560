"""Builder of inverted index blobs from columns of encoded values, whole or in pieces.

Invariant: the bytes depend on the rows and the segment size alone: not on how the rows
were cut into pieces, and not on the order of the columns, which are written by target key. They
are GreptimeDB's for the same rows and that order of columns.

A piece is dictionary-encoded, and of its rows only the distinct pairs of value and segment
are kept. At the end the dictionaries become one, sorted by bytes, and all bitmaps of a
column are made in one go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.fst.fst import build_fst
from lakehouse.format.index.inverted import BitmapType, InvertedColumn, InvertedMetas, InvertedStats
from lakehouse.format.index.roaring import encode_many, encode_one
from lakehouse.format.schema.index_defaults import SEGMENT_ROW_COUNT
from lakehouse.kernels.arrays import I64, Mask
from lakehouse.kernels.need_more import LENGTH_BYTES

__all__ = ["InvertedBuilder", "build_inverted"]

_BATCH_ROWS = 1 << 17
"""Rows of a batch; larger batches use more memory and no less time."""
_MERGE_PAIRS = 1 << 21
"""Pairs of value and segment kept in pieces before they are merged."""
_TABLE_PER_PAIR_MAX = 16
"""Maximum entries per pair of a table that finds distinct pairs; beyond it they are sorted instead."""
_U32_MAX = (1 << 32) - 1

_Terms: TypeAlias = tuple[pa.Array, I64, I64]
"""Distinct values, and the distinct pairs of a value (its place among them) and a segment."""


class InvertedBuilder:
    """Builds one blob over the columns of a file, which come in pieces.

    Args:
        targets: target keys of the columns.
        segment_row_count: rows that a bit of a bitmap stands for.
    """

    __slots__ = ("_columns", "_segment_row_count")

    def __init__(self, targets: Iterable[str], segment_row_count: int = SEGMENT_ROW_COUNT) -> None:
        if segment_row_count < 1:
            raise InvalidInputError(f"a segment has at least one row, not {segment_row_count}")
        self._segment_row_count = segment_row_count
        self._columns = {target: _Column(segment_row_count) for target in sorted(set(targets))}

    def push(self, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
        """Adds rows: for each target the same number of encoded values, as binary or string arrays."""
        if columns.keys() != self._columns.keys():
            raise InvalidInputError(
                f"rows have the columns {sorted(columns)}, the index has {list(self._columns)}: push them all"
            )
        if len({len(array) for array in columns.values()}) > 1:
            lengths = {target: len(array) for target, array in columns.items()}
            raise InvalidInputError(f"the columns have different numbers of rows: {lengths}")
        for target, array in columns.items():
            self._columns[target].push(array)

    def finish(self) -> bytes:
        """Returns the blob; the builder is used up."""
        parts: list[bytes] = []
        metas: dict[str, InvertedColumn] = {}
        base_offset = 0
        for target, column in self._columns.items():
            metas[target] = column.finish(target, base_offset, parts)
            base_offset += metas[target].inverted_index_size
        tail = InvertedMetas(
            columns=metas,
            total_row_count=max((column.rows for column in self._columns.values()), default=0),
            segment_row_count=self._segment_row_count,
        ).encode()
        return b"".join([*parts, tail, len(tail).to_bytes(LENGTH_BYTES, "little")])


def build_inverted(
    columns: Mapping[str, pa.Array | pa.ChunkedArray], segment_row_count: int = SEGMENT_ROW_COUNT
) -> bytes:
    """Returns the blob of whole columns of encoded values, by target key."""
    builder = InvertedBuilder(columns, segment_row_count)
    builder.push(columns)
    return builder.finish()


class _Column:
    """The terms of one column so far."""

    __slots__ = (
        "_kept",
        "_null_segments",
        "_pairs",
        "_pending",
        "_pending_rows",
        "_segment_row_count",
        "_terms",
        "rows",
    )

    def __init__(self, segment_row_count: int) -> None:
        self._segment_row_count = segment_row_count
        self.rows = 0
        self._pending: list[pa.Array] = []
        self._pending_rows = 0
        self._terms: list[_Terms] = []
        self._pairs = 0
        self._kept = 0
        self._null_segments: list[I64] = [np.empty(0, np.int64)]

    def push(self, array: pa.Array | pa.ChunkedArray) -> None:
        """Adds rows of encoded values, which follow those pushed before."""
        for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
            for start in range(0, len(chunk), _BATCH_ROWS):
                piece = chunk[start : start + _BATCH_ROWS]
                self._pending.append(pc.cast(piece, pa.large_binary()))
                self._pending_rows += len(piece)
                if self._pending_rows >= _BATCH_ROWS:
                    self._look_at_pending()

    def _look_at_pending(self) -> None:
        if not self._pending:
            return
        values = pa.concat_arrays(self._pending)
        segments = (self.rows + np.arange(len(values))) // self._segment_row_count
        self.rows += len(values)
        self._pending, self._pending_rows = [], 0
        if values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            self._null_segments.append(_distinct(segments[~valid]))
            segments, values = segments[valid], values.drop_null()
        encoded = values.dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        pairs = _distinct_pairs(codes, segments)
        self._terms.append((encoded.dictionary, *pairs))
        self._pairs += len(pairs[0])
        # Merging goes through all pairs again, so it must not happen too often.
        if self._pairs - self._kept >= max(_MERGE_PAIRS, self._kept):
            self._terms = [_merged(self._terms)]
            self._pairs = self._kept = len(self._terms[0][1])

    def finish(self, target: str, base_offset: int, parts: list[bytes]) -> InvertedColumn:
        """Adds the column's bytes to ``parts``; returns its metadata."""
        self._look_at_pending()
        values, codes, segments = _merged(self._terms)
        # Sorted by value, then segment: codes become ranks.
        order = pc.sort_indices(values).to_numpy().astype(np.int64)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        values = values.take(pa.array(order))
        codes, segments = _distinct_pairs(ranks[codes], segments)
        null_segments = _distinct(np.concatenate(self._null_segments))
        nulls = encode_one(null_segments.astype(np.uint32))
        ends = np.cumsum(np.bincount(codes, minlength=len(values)))
        bitmaps, stops = encode_many(segments.astype(np.uint32), ends)
        fst_offset = len(nulls) + len(bitmaps)
        if fst_offset > _U32_MAX:
            raise InvalidInputError(
                f"the bitmaps of column {target} take {fst_offset} bytes, the format ends at {_U32_MAX}: "
                "use larger segments"
            )
        sizes = np.diff(stops, prepend=0)
        fst = build_fst(values, sizes << 32 | (len(nulls) + stops - sizes))
        parts += [nulls, bitmaps.tobytes(), fst]
        return InvertedColumn(
            name=target,
            base_offset=base_offset,
            inverted_index_size=fst_offset + len(fst),
            relative_fst_offset=fst_offset,
            fst_size=len(fst),
            relative_null_bitmap_offset=0,
            null_bitmap_size=len(nulls),
            stats=InvertedStats(
                null_count=len(null_segments),
                distinct_count=len(values),
                min_value=values[0].as_py() if len(values) else b"",
                max_value=values[-1].as_py() if len(values) else b"",
            ),
            bitmap_type=BitmapType.ROARING,
        )


def _merged(terms: list[_Terms]) -> _Terms:
    """Merges pieces into one: each value once, each pair once."""
    none = np.empty(0, np.int64)
    dictionaries = [dictionary for dictionary, _, _ in terms]
    encoded = pa.concat_arrays([pa.array([], pa.large_binary()), *dictionaries]).dictionary_encode()
    places = encoded.indices.to_numpy().astype(np.int64)
    starts = np.cumsum([0, *map(len, dictionaries)]).tolist()
    codes = [places[codes + start] for (_, codes, _), start in zip(terms, starts, strict=False)]
    segments = [segments for _, _, segments in terms]
    pairs = _distinct_pairs(np.concatenate([none, *codes]), np.concatenate([none, *segments]))
    return encoded.dictionary, *pairs


def _distinct(segments: I64) -> I64:
    """Returns ascending numbers, each once."""
    fresh: Mask = np.diff(segments, prepend=-1) != 0
    return segments[fresh]


def _distinct_pairs(codes: I64, segments: I64) -> tuple[I64, I64]:
    """Returns the distinct pairs, ascending by code, then segment."""
    if len(codes) == 0:
        return codes, segments
    first = int(segments.min())
    width = int(segments.max()) - first + 1
    pairs = codes * width + (segments - first)
    size = (int(codes.max()) + 1) * width
    if size <= _TABLE_PER_PAIR_MAX * len(pairs):
        seen = np.zeros(size, np.bool_)
        seen[pairs] = True
        pairs = np.flatnonzero(seen)
    else:
        pairs.sort()
        pairs = _distinct(pairs)
    distinct_codes, places = np.divmod(pairs, width)
    return distinct_codes, places + first
