"""Planner of index searches, without I/O: chooses the indexes that answer conditions, and the bytes to read.

Invariant: a probe's answer holds every row that fulfils the condition it was made for. If an
index cannot answer, would cost more than the limit, or does not exist, there is no probe, and the
condition counts as true of any row.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.index import (
    AllOf,
    BloomMeta,
    Condition,
    InvertedColumn,
    IsNotNull,
    OneOf,
    hashes_of,
    may_hold,
    segments_with_hashes,
)
from lakehouse.format.text import FulltextConfig, query_tokens
from lakehouse.index.puffin.tantivy import phrases_of
from lakehouse.index.search.file_indexes import BloomIndex, FileIndexes, InvertedIndex, TantivyIndex
from lakehouse.index.search.selection import RowSelection
from lakehouse.index.search.target_conditions import HasWords, Holds
from lakehouse.index.search.tree import ANY_ROW, NO_ROW, Every, Some, Tree, every, some
from lakehouse.kernels.arrays import I64, U64, Mask

__all__ = [
    "BloomProbe",
    "Filters",
    "InvertedProbe",
    "Probe",
    "TantivyProbe",
    "plan",
]

_Needs: TypeAlias = tuple[tuple[tuple[int, ...], ...], ...]
"""Numbers of values: every group must have an alternative all of whose values are there."""
_LOOKUPS_MAX = 1 << 20
"""Maximum of values times filters that a probe looks up; more would take seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filters:
    """Selection of the filters of a bloom blob."""

    meta: BloomMeta
    """Metadata of these filters alone, as if they followed one another in the bytes of ``spans``."""
    segments: I64
    """Numbers of their segments in the file."""
    spans: list[tuple[int, int]]
    """Places of the filters in the blob, ``[start, end)``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BloomProbe:
    """Probe that looks encoded values up in bloom filters."""

    index: BloomIndex
    values: tuple[bytes, ...]
    needs: _Needs
    """A segment may match when every group has an alternative all of whose values may be in it."""

    @property
    def hashes(self) -> U64:
        """Hashes of the values."""
        return _hashes_of(self.values)

    def filters(self, within: RowSelection) -> Filters:
        """Returns the filters of the segments that have any of these rows."""
        meta = self.index.meta
        if within.is_all:
            every = np.arange(meta.segment_count)
            return Filters(meta=meta, segments=every, spans=[(0, meta.bloom_filter_size)])
        segments = within.segments(meta.rows_per_segment)
        segments = segments[segments < meta.segment_count]
        locs, places = np.unique(meta.segment_loc_indices[segments], return_inverse=True)
        sizes = meta.sizes[locs]
        # Filters lie in the order of their numbers, so runs of numbers are runs of bytes.
        breaks = np.flatnonzero(np.diff(locs) != 1)
        firsts, lasts = (
            (np.append(0, breaks + 1), np.append(breaks, len(locs) - 1)) if len(locs) else (locs, locs)
        )
        starts, stops = meta.offsets[locs[firsts]], (meta.offsets + meta.sizes)[locs[lasts]]
        return Filters(
            meta=BloomMeta(
                rows_per_segment=meta.rows_per_segment,
                row_count=meta.row_count,
                segment_loc_indices=places,
                offsets=np.cumsum(sizes) - sizes,
                sizes=sizes,
                element_counts=meta.element_counts[locs],
            ),
            segments=segments,
            spans=list(zip(starts.tolist(), stops.tolist(), strict=True)),
        )

    def answer(self, filters: Filters, data: bytes) -> RowSelection:
        """Returns the rows of the segments that may match, given the bytes of the filters' spans."""
        return self.rows_of(filters.segments, segments_with_hashes(filters.meta, data, self.hashes))

    def rows_of(self, segments: I64, held: Mask) -> RowSelection:
        """Returns the rows that may match, given for each value and segment whether its filter passes it."""
        matching = np.ones(len(segments), np.bool_)
        for alternatives in self.needs:
            passed = _all_held(held, alternatives[0])
            for together in alternatives[1:]:
                passed = passed | _all_held(held, together)
            matching &= passed
        meta = self.index.meta
        return RowSelection.of_segments(segments[matching], meta.rows_per_segment, meta.row_count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InvertedProbe:
    """Probe that looks a condition up in the inverted index of a target."""

    index: InvertedIndex
    column: InvertedColumn
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TantivyProbe:
    """Probe that searches a tantivy index for phrases."""

    index: TantivyIndex
    phrases: tuple[tuple[str, ...], ...]


Probe: TypeAlias = BloomProbe | InvertedProbe | TantivyProbe
"""A question to one index, whose answer is a selection of rows."""


def plan(tree: Tree[Holds | HasWords], indexes: FileIndexes, *, tantivy: bool = False) -> Tree[Probe]:
    """Returns the probes of a file's indexes, combined as the conditions are.

    Args:
        tree: conditions on targets.
        indexes: the indexes of the file.
        tantivy: True if tantivy indexes can be searched here.
    """
    if isinstance(tree, Every):
        return every(plan(part, indexes, tantivy=tantivy) for part in tree.parts)
    if isinstance(tree, Some):
        return some(plan(part, indexes, tantivy=tantivy) for part in tree.parts)
    return every(_of_value(tree, indexes) if isinstance(tree, Holds) else _of_words(tree, indexes, tantivy))


def _of_value(holds: Holds, indexes: FileIndexes) -> Iterator[Tree[Probe]]:
    inverted, bloom = indexes.inverted, indexes.blooms.get(holds.target_key)
    values = _values(holds.condition)
    if inverted is not None and holds.target_key in inverted.metas.columns:
        yield _of_column(inverted, holds)
        if bloom is not None and bloom.meta.rows_per_segment >= inverted.metas.segment_row_count:
            return  # the inverted index is exact, and its segments are no larger
    if bloom is not None and values is not None:
        needs = (tuple((place,) for place in range(len(values))),)
        yield _probe(bloom, values, needs)


def _of_column(inverted: InvertedIndex, holds: Holds) -> Tree[Probe]:
    column, condition = inverted.metas.columns[holds.target_key], holds.condition
    if not may_hold(column, condition):
        return NO_ROW
    has_no_nulls = column.stats is not None and column.stats.null_count == 0
    if isinstance(condition, IsNotNull) and has_no_nulls:
        return ANY_ROW
    return InvertedProbe(index=inverted, column=column, condition=condition)


def _values(condition: Condition) -> tuple[bytes, ...] | None:
    """Returns the values one of which must be there for the condition to hold; None when any may suffice."""
    if isinstance(condition, OneOf):
        return condition.values
    if isinstance(condition, AllOf):
        return next((part.values for part in condition.conditions if isinstance(part, OneOf)), None)
    return None


def _of_words(words: HasWords, indexes: FileIndexes, tantivy: bool) -> Iterator[Tree[Probe]]:
    bloom, exact = indexes.fulltexts.get(words.target_key), indexes.tantivys.get(words.target_key)
    try:
        if bloom is not None and bloom.config is not None:
            values, needs = _words_needed(words.terms, bloom.config)
            if needs:
                yield _probe(bloom, values, needs)
        if tantivy and exact is not None:
            phrases = phrases_of(words.terms, exact.config, own_tokens=exact.own_tokens)
            if phrases:
                yield TantivyProbe(index=exact, phrases=phrases)
    except InvalidInputError as error:
        if error.kind != "missing-extra":
            raise
        yield ANY_ROW  # without the package the query cannot be cut into words


@functools.lru_cache(maxsize=256)  # a query is asked of many files
def _words_needed(terms: str, config: FulltextConfig) -> tuple[tuple[bytes, ...], _Needs]:
    """Returns the tokens to look up, and the groups of them that a segment must have."""
    places: dict[bytes, int] = {}
    needs: list[tuple[tuple[int, ...], ...]] = []
    for token in query_tokens(terms, config):
        alternatives: list[tuple[bytes, ...]] = [(token,)]
        if b"_" in token and config.granularity is None:
            # Until 2025-08-06 (pull request 6660) GreptimeDB cut words at "_", and files do not tell when
            # they were written. Our own files, which state their granularity, are newer.
            alternatives.append(tuple(part for part in token.split(b"_") if part))
        if all(alternatives):
            needs.append(
                tuple(tuple(places.setdefault(part, len(places)) for part in parts) for parts in alternatives)
            )
    return tuple(places), tuple(needs)


def _all_held(held: Mask, values: tuple[int, ...]) -> Mask:
    """Returns for each segment whether it may have all of these values."""
    if len(values) == 1:
        single: Mask = held[values[0]]
        return single
    combined: Mask = np.logical_and.reduce(held[list(values)])
    return combined


@functools.lru_cache(maxsize=256)
def _hashes_of(values: tuple[bytes, ...]) -> U64:
    return hashes_of(pa.array(values, pa.binary()))


def _probe(index: BloomIndex, values: tuple[bytes, ...], needs: _Needs) -> Tree[Probe]:
    if not values:
        return NO_ROW
    if len(values) * index.meta.segment_count > _LOOKUPS_MAX:
        return ANY_ROW
    return BloomProbe(index=index, values=values, needs=needs)
