"""Collector of the distinct terms of segments of rows, as the hashes from which filters are made.

Invariant: a segment has the hash of each of its terms once. Two terms with the same hash of 64 bits, which
no filter can tell apart either, may count as one.

Compiled loops do the work (:mod:`lakehouse.format.index.term_loops`): they read every term once, from the
bytes of its column, and look it up in a table that fits the processor's caches.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from lakehouse.format.index.bloom_filter import BLOCK_BYTES, block_count, build_filters, draws_of
from lakehouse.format.text.english import AsciiText
from lakehouse.kernels.arrays import I64, U64
from lakehouse.kernels.binary_arrays import binary_parts
from lakehouse.kernels.padded_words import padded_words

__all__ = ["SegmentTerms"]

_KEYS = 1 << 14
"""Number of keys that are made together, then put into tables together: both loops are quicker for it."""
_PLACES = 1 << 12
"""Initial places of a table; a small one stays in the processor's cache."""


class SegmentTerms:
    """Collector of the terms of rows that come in order.

    Args:
        loops: the compiled loops.
        rows_per_segment: rows of all segments but the last.
        rate: false positive rate of filters.
        close: called at the end of each segment with its number of distinct terms and its filter.
    """

    __slots__ = ("_close", "_distinct", "_left", "_loops", "_rate", "_rows_per_segment")

    def __init__(
        self,
        loops: types.SimpleNamespace,
        rows_per_segment: int,
        rate: float,
        close: Callable[[int, bytes], None],
    ) -> None:
        self._loops, self._rate, self._close = loops, rate, close
        self._rows_per_segment = self._left = rows_per_segment
        self._distinct = _Distinct(loops)

    def push_values(self, values: pa.Array, rows: I64, count: int) -> None:
        """Adds ``count`` rows.

        Args:
            values: binary values without nulls.
            rows: for each value its row, ascending from 0.
            count: number of rows.
        """
        offsets, data = binary_parts(values)
        words = padded_words(data, int(offsets[0]), int(offsets[-1]))
        starts, lengths = offsets[:-1] - (offsets[0] & ~7), np.diff(offsets)
        for low, high in self._stretches(count):
            first, last = np.searchsorted(rows, (low, high)).tolist()
            for begin in range(first, last, _KEYS):
                batch = slice(begin, min(begin + _KEYS, last))
                shorts, longs = self._distinct.room
                self._distinct.add(
                    *self._loops.cut_values(words, starts[batch], lengths[batch], shorts, longs)
                )

    def push_text(self, text: AsciiText) -> None:
        """Adds rows of text, which have the tokens of English text."""
        for low, high in self._stretches(len(text.bounds) - 1):
            bounds = text.bounds[low : high + 1]
            row, at = 0, bounds[0]
            while row < high - low:
                row, at, short, long = self._loops.cut_text(
                    text.data, text.words, bounds, text.is_word, row, at, *self._distinct.room
                )
                self._distinct.add(short, long)

    def finish(self) -> None:
        """Ends the last segment."""
        if self._left < self._rows_per_segment:
            self._end()

    def _stretches(self, rows: int) -> Iterator[tuple[int, int]]:
        """Yields ranges of the next rows, cut where segments end; ends each segment that is full."""
        low = 0
        while low < rows:
            high = min(low + self._left, rows)
            yield low, high
            self._left -= high - low
            low = high
            if not self._left:
                self._end()

    def _end(self) -> None:
        hashes = self._distinct.taken()
        self._left = self._rows_per_segment
        blocks = block_count(len(hashes), self._rate)
        draws = draws_of(blocks, len(hashes))
        if len(hashes) and draws.sparse is not None:  # the compiled loop sets plain bits only
            owners = np.zeros(len(hashes), np.int64)
            data, _ = build_filters(hashes, owners, np.array([len(hashes)]), self._rate)
        else:
            bits = np.zeros(blocks * BLOCK_BYTES, np.uint8)
            self._loops.set_bits(hashes, blocks, draws.plain, bits)
            data = bits.tobytes()
        self._close(len(hashes), data)


class _Distinct:
    """The distinct terms of a segment.

    Attributes:
        room: arrays for keys of short and of other terms, to fill before :meth:`add`.
    """

    __slots__ = ("_count", "_hashes", "_loops", "_tables", "room")

    def __init__(self, loops: types.SimpleNamespace) -> None:
        self._loops = loops
        self.room = (np.empty(_KEYS, np.uint64), np.empty(_KEYS, np.uint64))
        self._tables = [_Table(loops), _Table(loops)]
        self._hashes: U64 = np.empty(_PLACES, np.uint64)
        self._count = 0

    def add(self, short: int, long: int) -> None:
        """Adds the first ``short`` and ``long`` keys in :attr:`room`."""
        for table, keys, is_short in zip(
            self._tables, (self.room[0][:short], self.room[1][:long]), (True, False), strict=True
        ):
            if not len(keys):
                continue
            if self._count + len(keys) > len(self._hashes):
                wider = np.empty(2 * (self._count + len(keys)), np.uint64)
                wider[: self._count] = self._hashes[: self._count]
                self._hashes = wider
            table.make_room(len(keys))
            count = self._loops.add_keys(table.places, keys, is_short, self._hashes, self._count)
            table.count += count - self._count
            self._count = count

    def taken(self) -> U64:
        """Returns the hashes of all terms and forgets them."""
        for table in self._tables:
            table.clear()
        hashes = self._hashes[: self._count]
        self._count = 0
        return hashes


class _Table:
    """Hash table of keys, at least half of whose places are empty."""

    __slots__ = ("_loops", "count", "places")

    def __init__(self, loops: types.SimpleNamespace) -> None:
        self._loops = loops
        self.places: U64 = np.zeros(_PLACES, np.uint64)
        self.count = 0

    def make_room(self, more: int) -> None:
        """Makes sure that so many more keys fit."""
        wanted = len(self.places)
        while 2 * (self.count + more) > wanted:
            wanted *= 2
        if wanted > len(self.places):
            old, self.places = self.places, np.zeros(wanted, np.uint64)
            self._loops.move_keys(old, self.places)

    def clear(self) -> None:
        """Empties every place."""
        if self.count:
            self.places[:] = 0
            self.count = 0
