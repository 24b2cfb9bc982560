"""Index of rows in memory by their encoded keys.

Invariant: rows of neighbouring segments are added in the order of the log and never removed; whoever lets
segments go begins another index.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import anyio
import pyarrow as pa

from lakehouse.format.metadata import WalSegment
from lakehouse.format.schema import Field, project
from lakehouse.io.work import in_thread
from lakehouse.storage.merge.ordering import kinds_of, with_kinds
from lakehouse.storage.rows.key_arrays import KeyColumns

__all__ = ["KeyIndex"]

_FEW_ROWS = 4_096
"""Rows up to which handing them to a thread takes longer than the work itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Rows of one batch of a segment."""

    number: int
    """Number of the segment."""
    first: int
    """Place of its first row among all rows."""
    rows: pa.Table


class KeyIndex:
    """A hash of the keys of rows that are held in memory."""

    def __init__(self) -> None:
        self._fields: tuple[Field, ...] = ()
        self._places: dict[bytes, int | list[int]] = {}
        """Places of a key's rows, ascending; most keys have one, which needs no list."""
        self._parts: list[_Part] = []
        self._firsts: list[int] = []
        self._rows = self._last = 0
        self._turn = anyio.Lock()

    def fits(self, keys: KeyColumns) -> bool:
        """Returns whether these key columns are encoded like those of the rows in here, if there are any."""
        held, wanted = ([(one.id, one.type) for one in fields] for fields in (self._fields, keys.fields))
        return not held or held == wanted

    async def extend(self, segments: Sequence[WalSegment], keys: KeyColumns) -> None:
        """Adds those of neighbouring segments that are not in here yet, by keys that fit."""
        if segments[-1].header.number <= self._last:
            return
        async with self._turn:
            last = self._last
            new = list(itertools.takewhile(lambda one: one.header.number > last, reversed(segments)))[::-1]
            self._fields = self._fields or keys.fields
            if sum(batch.rows.num_rows for segment in new for batch in segment.batches) > _FEW_ROWS:
                await in_thread(self._add, new, keys)
            else:
                self._add(new, keys)

    def _add(self, segments: Iterable[WalSegment], keys: KeyColumns) -> None:
        places = self._places
        for segment in segments:
            for batch in segment.batches:
                encoded = keys.encoded(project(batch.rows, keys.fields)).to_pylist()
                # Before the places: a lookup may come in between when this runs in a thread.
                self._parts.append(_Part(number=segment.header.number, first=self._rows, rows=batch.rows))
                self._firsts.append(self._rows)
                for place, key in enumerate(encoded, self._rows):
                    older = places.get(key)
                    if older is None:
                        places[key] = place
                    elif isinstance(older, int):
                        places[key] = [older, place]
                    else:
                        older.append(place)
                self._rows += batch.rows.num_rows
            self._last = segment.header.number

    def newest_rows(self, key: bytes, fields: Sequence[Field], *, first: int, last: int) -> list[pa.Table]:
        """Returns the rows of a row key in some segments, newest first.

        Args:
            key: the encoded key.
            fields: their columns; ``_VALUE_KIND`` is added.
            first: number of the first segment.
            last: number of the last segment, inclusive: later ones may have been added since.
        """
        places = self._places.get(key)
        if places is None:
            return []
        rows = []
        for place in (places,) if isinstance(places, int) else reversed(places):
            part = self._parts[bisect_right(self._firsts, place) - 1]
            if part.number < first:
                break
            if part.number <= last:
                row = part.rows.slice(place - part.first, 1)
                rows.append(with_kinds(project(row, fields), kinds_of([row])))
        return rows
