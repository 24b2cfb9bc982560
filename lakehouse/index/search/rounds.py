"""Execution of the probes of a plan in rounds: each is one coalesced read, and cheap answers come first.

1. Parts that are small or must be read anyway: small indexes of a target whole, the term lists of
   others, small bloom filters, and the bitmaps of terms whose list is known already.
2. Bitmaps of the terms that were found.
3. Large bloom filters, of the segments that are left.
4. Large term lists in which few values are looked up, node by node.
5. Tantivy indexes, if any row is left; they are unpacked to scratch space.

A probe is skipped when the answers so far leave no row for it, and a round that has nothing to
read costs nothing.

Invariant: a probe that was skipped, or whose index would cost more than ``index.search_max_bytes``,
counts as true of any row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lakehouse.config import IndexSettings
from lakehouse.errors import CorruptionError
from lakehouse.format.fst import Fst, FstParts, MissingBytes
from lakehouse.format.index import (
    BLOCK_BYTES,
    AllOf,
    AnyOf,
    BitmapPlan,
    Condition,
    InvertedColumn,
    IsNull,
    OneOf,
    looks,
    plan_bitmaps,
    segments_of,
)
from lakehouse.index.puffin.reader import PuffinReader, naming
from lakehouse.index.puffin.tantivy import rows_with_phrases
from lakehouse.index.puffin.tantivy_files import unpacked
from lakehouse.index.search.probes import BloomProbe, InvertedProbe, Probe, TantivyProbe
from lakehouse.index.search.selection import RowSelection
from lakehouse.index.search.tree import Tree, leaves, select, still_open
from lakehouse.io.scratch import ScratchSpace
from lakehouse.io.work import in_thread

__all__ = ["ProbeRounds"]

_TERMS_MAX = 1 << 22
"""Maximum number of terms that a condition is compared with one by one; more would take seconds."""
_AT_ONCE = 1 << 12
"""Maximum number of terms, or lookups, that are not worth a thread."""
_BITMAP_GAP_BYTES = 1 << 12
_PAGES_LEAST = 4
"""Minimum pages of a filter per lookup for which reading single pages costs less than the filter."""
_TERM_PAGES_LEAST = 16
"""Minimum pages of a term list per lookup, likewise: a lookup reads some pages, one after another."""

_NO_PLACES = np.empty(0, np.int64)

_Answers: TypeAlias = dict[Probe, RowSelection]
_Terms: TypeAlias = dict[str, tuple[Fst, int]]
"""Term lists by target key, with their sizes in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The next read of a probe."""

    probe: Probe
    spans: Sequence[tuple[int, int]]
    """Ranges of the file to read, ``[start, end)``."""
    finish: Callable[[list[bytes]], Awaitable[RowSelection | None]]
    """Makes the answer of the bytes of the ranges; None when there is more to read."""


class ProbeRounds:
    """Runs probes of one file, and keeps the term lists it read, up to ``index.search_max_bytes``.

    Args:
        reader: reader of the index file.
        scratch: space in which tantivy indexes are unpacked; needed for probes of those only.
        settings: limits of requests.
        page_bytes: bytes of a large filter or term list per request; None = they are read whole.
    """

    def __init__(
        self,
        reader: PuffinReader,
        *,
        scratch: ScratchSpace | None,
        settings: IndexSettings,
        page_bytes: int | None = None,
    ) -> None:
        self._page_bytes = page_bytes
        self._reader = reader
        self._scratch = scratch
        self._whole_bytes = settings.search_whole_bytes
        self._max_bytes = settings.search_max_bytes
        self._terms: _Terms = {}

    async def select(self, tree: Tree[Probe], total_rows: int) -> RowSelection:
        """Returns the rows that may match, of a file with ``total_rows`` rows."""
        answers: _Answers = {}
        terms = dict(self._terms)
        # Rounds 1 to 3. In the first two, large filters wait for the answers of inverted indexes.
        for may_wait in (True, True, False):
            open_ = _worth_asking(tree, answers, total_rows)
            may_wait &= any(isinstance(probe, InvertedProbe) for probe in open_)
            reads = [
                read
                for probe, within in open_.items()
                if (read := await self._next_read(probe, within, terms, may_wait)) is not None
            ]
            spans = [span for read in reads for span in read.spans]
            parts = iter(await self._reader.ranges(spans))
            for read in reads:
                answer = await read.finish([next(parts) for _ in read.spans])
                if answer is not None:
                    answers[read.probe] = answer
        self._keep(terms)
        for open_probe, within in _worth_asking(tree, answers, total_rows).items():
            if isinstance(open_probe, BloomProbe) and self._is_paged(open_probe):
                answers[open_probe] = await self._ask_pages(open_probe, within)
        for probe in leaves(tree):
            if isinstance(probe, InvertedProbe) and probe in _worth_asking(tree, answers, total_rows):
                answers[probe] = await self._ask_parts(probe, total_rows)
        for probe in leaves(tree):
            if isinstance(probe, TantivyProbe) and probe in _worth_asking(tree, answers, total_rows):
                answers[probe] = await self._ask_tantivy(probe, total_rows)
        return select(tree, answers, total_rows)

    async def _next_read(
        self, probe: Probe, within: RowSelection, terms: _Terms, may_wait: bool
    ) -> _Read | None:
        if isinstance(probe, BloomProbe) and self._is_paged(probe):
            return None
        if isinstance(probe, BloomProbe):
            is_large = probe.index.meta.bloom_filter_size > self._whole_bytes
            return None if may_wait and is_large else self._read_filters(probe, within)
        if isinstance(probe, InvertedProbe) and not self._is_in_parts(probe, terms):
            with naming(self._reader.key, probe.index.blob):
                return await self._read_inverted(probe, terms, within.total_rows)
        return None

    def _read_filters(self, probe: BloomProbe, within: RowSelection) -> _Read:
        filters = probe.filters(within)
        start = probe.index.blob.offset
        spans = [(start + first, start + last) for first, last in filters.spans]
        if sum(last - first for first, last in spans) > self._max_bytes:
            return _left_out(probe, within.total_rows)

        async def finish(parts: list[bytes]) -> RowSelection:
            data = b"".join(parts)
            if len(probe.values) * len(filters.segments) <= _AT_ONCE:
                return probe.answer(filters, data)
            return await in_thread(probe.answer, filters, data)

        return _Read(probe=probe, spans=spans, finish=finish)

    def _is_paged(self, probe: BloomProbe) -> bool:
        """Returns whether to read large filters by pages: for few lookups, most of which decide at once."""
        if self._page_bytes is None or self._reader.has_at_hand(probe.index.blob):
            return False
        looks = len(probe.values) * probe.index.meta.segment_count
        return looks * _PAGES_LEAST * self._page_bytes <= probe.index.meta.bloom_filter_size

    async def _ask_pages(self, probe: BloomProbe, within: RowSelection) -> RowSelection:
        """Reads the blocks of the first lookup, then the second, then the others, until no value is left."""
        meta, offset = probe.index.meta, probe.index.blob.offset
        segments = probe.filters(within).segments
        locs = meta.segment_loc_indices[segments]
        held = np.zeros((len(probe.values), len(meta.sizes)), np.bool_)
        held[:, locs] = True
        answer, every = within, looks(meta, probe.hashes)
        for lookups in (every[:1], every[1:2], every[2:4], every[4:]):
            left = [look.among(held) for look in lookups]
            starts = np.unique(np.concatenate([_NO_PLACES, *(look.places for look in left)]))
            spans = [(offset + at, offset + at + BLOCK_BYTES) for at in starts.tolist()]
            data = b"".join(await self._reader.ranges(spans, gap_bytes=0))
            blocks = np.frombuffer(data, "<u8").reshape(-1, BLOCK_BYTES // 8)
            for look in left:
                look.settle(held, blocks[np.searchsorted(starts, look.places)])
            answer = probe.rows_of(segments, held[:, locs])
            if answer.is_empty:
                break
        return answer

    def _is_in_parts(self, probe: InvertedProbe, terms: _Terms) -> bool:
        """Returns whether to read a term list by pages: for few values in a list that is much larger."""
        column, condition = probe.column, probe.condition
        if self._page_bytes is None or self._reader.has_at_hand(probe.index.blob):
            return False
        if not isinstance(condition, OneOf) or column.name in terms:
            return False
        least = len(condition.values) * _TERM_PAGES_LEAST * self._page_bytes
        return column.inverted_index_size > self._whole_bytes and column.fst_size >= least

    async def _ask_parts(self, probe: InvertedProbe, total_rows: int) -> RowSelection:
        """Reads the pages of a term list that the lookups need, then the bitmaps they find."""
        column, blob = probe.column, probe.index.blob
        first = blob.offset + column.fst_range[0]
        assert self._page_bytes is not None
        with naming(self._reader.key, blob):
            parts = FstParts(column.fst_size)
            wanted = [parts.footer]
            while True:
                spans = [(first + start, first + end) for start, end in wanted]
                for (start, _), data in zip(
                    wanted, await self._reader.ranges(spans, gap_bytes=0), strict=True
                ):
                    parts.add(start, data)
                try:
                    bitmaps = plan_bitmaps(column, parts, probe.condition)
                    break
                except MissingBytes as missing:
                    wanted = [self._page_of(first, place, column.fst_size) for place in missing.places]
            read = self._read_bitmaps(probe, bitmaps, total_rows)
            answer = await read.finish(await self._reader.ranges(read.spans))
        assert answer is not None  # nothing is to be read after the bitmaps
        return answer

    def _page_of(self, first: int, place: int, size: int) -> tuple[int, int]:
        """Returns the part of a term list, which begins at ``first``, in the page of one of its places."""
        assert self._page_bytes is not None
        start = (first + place) // self._page_bytes * self._page_bytes - first
        return max(0, start), min(size, start + self._page_bytes)

    async def _read_inverted(self, probe: InvertedProbe, terms: _Terms, total_rows: int) -> _Read:
        column = probe.column
        offset = probe.index.blob.offset
        if isinstance(probe.condition, IsNull):
            return self._read_bitmaps(probe, _null_bitmap(column), total_rows)
        if column.name in terms:
            return self._read_bitmaps(probe, await self._find(probe, terms[column.name][0]), total_rows)
        if column.inverted_index_size <= self._whole_bytes:

            async def finish_whole(parts: list[bytes]) -> RowSelection:
                first = column.relative_fst_offset
                with naming(self._reader.key, probe.index.blob):
                    fst = Fst.parse(parts[0][first : first + column.fst_size])
                    terms[column.name] = (fst, column.fst_size)
                    bitmaps = await self._find(probe, fst)
                    if bitmaps is None:
                        return RowSelection.every(total_rows)
                    return self._rows_of(probe, bitmaps, [(column.base_offset, parts[0])])

            start = offset + column.base_offset
            span = (start, start + column.inverted_index_size)
            return _Read(probe=probe, spans=[span], finish=finish_whole)
        if column.fst_size > self._max_bytes:
            return _left_out(probe, total_rows)

        async def finish_terms(parts: list[bytes]) -> None:
            with naming(self._reader.key, probe.index.blob):
                terms[column.name] = (Fst.parse(parts[0]), column.fst_size)

        first, last = column.fst_range
        return _Read(probe=probe, spans=[(offset + first, offset + last)], finish=finish_terms)

    def _keep(self, terms: _Terms) -> None:
        """Keeps the term lists of a search for the next one: the newest that fit."""
        kept = {**self._terms, **terms}
        total = sum(size for _, size in kept.values())
        for name, (_, size) in list(kept.items()):
            if total <= self._max_bytes:
                break
            del kept[name]
            total -= size
        self._terms = kept

    async def _find(self, probe: InvertedProbe, terms: Fst) -> BitmapPlan | None:
        """Returns the bitmaps of the terms that fulfil the condition; None when that would take too long."""
        if _scans_terms(probe.condition) and terms.key_count > _AT_ONCE:
            if terms.key_count > _TERMS_MAX:
                return None
            return await in_thread(plan_bitmaps, probe.column, terms, probe.condition)
        return plan_bitmaps(probe.column, terms, probe.condition)

    def _read_bitmaps(self, probe: InvertedProbe, bitmaps: BitmapPlan | None, total_rows: int) -> _Read:
        if bitmaps is None or int(bitmaps.sizes.sum()) > self._max_bytes:
            return _left_out(probe, total_rows)
        offset = probe.index.blob.offset
        spans = bitmaps.reads(_BITMAP_GAP_BYTES)

        async def finish(parts: list[bytes]) -> RowSelection:
            reads = [(start, data) for (start, _), data in zip(spans, parts, strict=True)]
            with naming(self._reader.key, probe.index.blob):
                return self._rows_of(probe, bitmaps, reads)

        return _Read(
            probe=probe, spans=[(offset + start, offset + end) for start, end in spans], finish=finish
        )

    def _rows_of(
        self, probe: InvertedProbe, bitmaps: BitmapPlan, reads: list[tuple[int, bytes]]
    ) -> RowSelection:
        metas = probe.index.metas
        # The most numbers that bitmaps without runs can hold in so many bytes; GreptimeDB writes no runs.
        segments = segments_of(bitmaps, reads, metas, numbers_max=8 * self._max_bytes)
        return RowSelection.of_segments(segments, metas.segment_row_count, metas.total_row_count)

    async def _ask_tantivy(self, probe: TantivyProbe, total_rows: int) -> RowSelection:
        if self._scratch is None:
            return RowSelection.every(total_rows)
        async with unpacked(self._reader, probe.index.blob, self._scratch) as path:
            with naming(self._reader.key, probe.index.blob):
                rows, row_count = await in_thread(rows_with_phrases, path, probe.phrases)
                if row_count != total_rows or (len(rows) and not 0 <= rows[0] <= rows[-1] < total_rows):
                    raise CorruptionError(
                        f"the index is about {row_count} rows, the data file has {total_rows}: it is of "
                        "another file, or damaged",
                        expected=total_rows,
                        got=row_count,
                    )
        return RowSelection.of_rows(rows, total_rows)


def _worth_asking(tree: Tree[Probe], answers: _Answers, total_rows: int) -> _Answers:
    """Returns the probes without an answer that matter for some row, each with those rows."""
    open_ = still_open(tree, answers, total_rows)
    return {probe: within for probe, within in open_.items() if not within.is_empty}


def _left_out(probe: Probe, total_rows: int) -> _Read:
    async def finish(parts: list[bytes]) -> RowSelection:
        return RowSelection.every(total_rows)

    return _Read(probe=probe, spans=(), finish=finish)


def _null_bitmap(column: InvertedColumn) -> BitmapPlan:
    """Returns the plan of the bitmap of nulls, which the metadata name; without such a bitmap it is empty."""
    start = column.base_offset + column.relative_null_bitmap_offset
    there = slice(None) if column.null_bitmap_size else slice(0)
    return BitmapPlan(
        starts=np.array([start], np.int64)[there],
        sizes=np.array([column.null_bitmap_size], np.int64)[there],
        bitmap_type=column.bitmap_type,
    )


def _scans_terms(condition: Condition) -> bool:
    """Returns whether a condition is compared with the terms of an index instead of looking some up."""
    if isinstance(condition, AllOf | AnyOf):
        return any(map(_scans_terms, condition.conditions))
    return not isinstance(condition, OneOf | IsNull)
