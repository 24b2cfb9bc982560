"""The merge of sorted runs: brings their rows into key order and decides which row of each key remains.

Invariant: the value of a key is the fold of its rows in the order of the runs, oldest first, and
nothing else orders rows. :func:`merge_order` puts all rows of a key next to each other in that
order; a merge engine folds each such group. Deduplicate, here, keeps the newest row unless it
deletes. Everything works on row numbers, so that columns are fetched once, when it is known which
rows stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.metadata import KIND_COLUMN, RowKind
from lakehouse.kernels.arrays import I64, U8, U64, Mask
from lakehouse.storage.rows.key_arrays import KeyArray

__all__ = ["MergeOrder", "kind_counts", "kinds_of", "merge_order", "survivors", "with_kinds"]

_WORD = 8
_KIND = pa.field(KIND_COLUMN, pa.int8(), nullable=False)
_TIES_WORTH_A_SORT = 0.5
"""Share of rows that have the previous row's word from which sorting by words does not pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrder:
    """All rows of some runs in key order, and within a key from the oldest to the newest."""

    rows: I64
    """Numbers of rows, counted through the runs as they were given (oldest first)."""
    ends: Mask
    """For each place in ``rows``, whether it is the last, and so newest, row of its key."""

    @property
    def keys(self) -> int:
        """Number of different keys."""
        return int(np.count_nonzero(self.ends))


def merge_order(keys: Sequence[KeyArray]) -> MergeOrder:
    """Orders the rows of runs, oldest first, each sorted by key without repetition."""
    filled = [run for run in keys if len(run)]
    if not filled or len(filled) == 1:
        count = len(filled[0]) if filled else 0
        return MergeOrder(rows=np.arange(count), ends=np.ones(count, np.bool_))
    if isinstance(filled[0], np.ndarray):
        together = np.concatenate(filled)
        # A stable sort of numbers finds the sorted runs and merges them.
        return _ends_of_numbers(together, np.argsort(together, kind="stable"))
    return _order_of_texts(filled)


def survivors(order: MergeOrder, kinds: U8 | None) -> I64:
    """Returns the rows that deduplicate keeps: the newest of each key, unless it deletes the key.

    Args:
        order: of all rows.
        kinds: the kind of each row, counted through the runs; None = all are inserts.
    """
    rows = order.rows[np.flatnonzero(order.ends)]  # three times as fast as by the mask itself
    return rows if kinds is None else rows[np.flatnonzero(kinds[rows] != RowKind.DELETE)]


def kinds_of(tables: Sequence[pa.Table]) -> U8 | None:
    """Returns the kinds of the rows of all tables, counted through; None when no table has any."""
    if not any(KIND_COLUMN in table.column_names for table in tables):
        return None
    parts = [
        table.column(KIND_COLUMN).to_numpy().astype(np.uint8, copy=False)
        if KIND_COLUMN in table.column_names
        else np.full(table.num_rows, RowKind.INSERT, np.uint8)
        for table in tables
    ]
    return np.concatenate(parts)


def kind_counts(rows: pa.Table) -> tuple[int, int]:
    """Returns the numbers of rows of kind DELETE and of kind UPDATE."""
    kinds = kinds_of([rows])
    if kinds is None:
        return 0, 0
    counts = np.bincount(kinds, minlength=len(RowKind))
    return int(counts[RowKind.DELETE]), int(counts[RowKind.UPDATE])


def with_kinds(rows: pa.Table, kinds: U8 | RowKind | None) -> pa.Table:
    """Returns the rows with ``_VALUE_KIND`` last: one kind for each row or for all; None = inserts."""
    if not isinstance(kinds, np.ndarray):
        kinds = np.full(rows.num_rows, kinds or RowKind.INSERT)
    return rows.append_column(_KIND, pa.array(kinds.astype(np.int8)))


def _ends_of_numbers(keys: I64 | U64, rows: I64) -> MergeOrder:
    ordered = keys[rows]
    ends = np.ones(len(rows), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=ends[:-1])
    return MergeOrder(rows=rows, ends=ends)


def _ends_of_texts(keys: pa.Array, rows: I64) -> MergeOrder:
    rows = rows.astype(np.int64, copy=False)
    ordered = keys.take(pa.array(rows))
    ends = np.ones(len(rows), np.bool_)
    ends[:-1] = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    return MergeOrder(rows=rows, ends=ends)


def _order_of_texts(runs: Sequence[pa.Array]) -> MergeOrder:
    """Orders text and bytes by the first eight bytes in which keys differ at all, as a number.

    Numbers sort some five times faster than texts. Where they do not hold the whole key, rows whose
    numbers tie are nearly always rows of one key; those that are not are sorted as texts, in place.
    """
    keys = pa.concat_arrays(runs)
    texts = _Texts(keys)
    prefix = _shared_prefix(runs)
    words = texts.word(prefix)
    # Where most words tie, all those rows would be sorted again as texts.
    if np.count_nonzero(words[1:] == words[:-1]) > _TIES_WORTH_A_SORT * len(words):
        return _ends_of_texts(keys, pc.array_sort_indices(keys).to_numpy())
    rows = np.argsort(words, kind="stable")
    # Every word holds the rest of its key, so words tie only where keys are equal.
    if texts.is_even and texts.longest - prefix <= _WORD:
        return _ends_of_numbers(words, rows)
    ordered = words[rows]
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    same = _equal(keys, rows[tied], rows[tied + 1])
    if not same.all():
        places = _groups_around(ordered, tied[~same])
        among = keys.take(pa.array(rows[places]))
        rows[places] = rows[places][pc.array_sort_indices(among).to_numpy()]
        same = _equal(keys, rows[tied], rows[tied + 1])
    ends = np.ones(len(rows), np.bool_)
    ends[tied[same]] = False
    return MergeOrder(rows=rows, ends=ends)


def _equal(keys: pa.Array, left: I64, right: I64) -> Mask:
    equal: Mask = pc.equal(keys.take(pa.array(left)), keys.take(pa.array(right))).to_numpy(
        zero_copy_only=False
    )
    return equal


def _groups_around(ordered: U64, places: I64) -> I64:
    """Returns all places whose words are those of the given places."""
    starts = np.searchsorted(ordered, np.unique(ordered[places]), side="left")
    counts = np.searchsorted(ordered, np.unique(ordered[places]), side="right") - starts
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    around: I64 = np.repeat(starts, counts) + within
    return around


def _shared_prefix(runs: Sequence[pa.Array]) -> int:
    """Returns the number of bytes that all keys of sorted runs begin with."""
    # Runs are sorted: what the least and the greatest key share, all keys between them share.
    low, high = min(_bytes(run, 0) for run in runs), max(_bytes(run, -1) for run in runs)
    for at, (low_byte, high_byte) in enumerate(zip(low, high, strict=False)):
        if low_byte != high_byte:
            return at
    return min(len(low), len(high))


def _bytes(keys: pa.Array, at: int) -> bytes:
    value = keys[at].as_py()
    return value.encode() if isinstance(value, str) else value


class _Texts:
    """The bytes of all keys, read eight at a time as numbers."""

    __slots__ = ("_begins", "_lengths", "_view", "is_even", "longest")

    def __init__(self, keys: pa.Array) -> None:
        wide = pa.types.is_large_string(keys.type) or pa.types.is_large_binary(keys.type)
        width = np.dtype(np.int64 if wide else np.int32)
        _, offsets_buffer, data = keys.buffers()
        offsets = np.frombuffer(offsets_buffer, width, len(keys) + 1, keys.offset * width.itemsize)
        first, last = int(offsets[0]), int(offsets[-1])
        text = np.zeros(last - first + _WORD, np.uint8)
        if data is not None:
            text[:-_WORD] = np.frombuffer(data, np.uint8, last - first, first)
        # Every byte of the text begins a word: a view that overlaps itself.
        self._view: U64 = np.ndarray((last - first + 1,), "<u8", buffer=text, strides=(1,))
        self._begins: I64 = offsets[:-1].astype(np.int64) - first
        self._lengths = offsets[1:] - offsets[:-1]
        self.longest = int(self._lengths.max())
        self.is_even = int(self._lengths.min()) == self.longest
        """Whether all keys have the same length."""

    def word(self, at: int) -> U64:
        """Returns for each key the eight bytes from place ``at`` as a number, padded with zeros."""
        left = np.clip(self._lengths - at, 0, _WORD)
        words = self._view[np.minimum(self._begins + at, len(self._view) - 1)].byteswap()
        if int(left.min()) < _WORD:
            unused = ((_WORD - left) * 8).astype(np.uint64)
            words = (words >> unused) << unused  # numpy yields zero for a shift by 64
        return words
