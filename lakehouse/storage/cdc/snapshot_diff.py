"""Net changes between two snapshots: the inserts, updates and deletes that turn the first into the second.

Invariant: the answer depends on the contents of the two snapshots and on nothing in between: not on how
often a row changed, nor on what was compacted. Keys that may have changed are those of files that only one
of the two has, and those of rows that only one of the two shows, by their age; each is looked up in
both.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import numpy as np
import pyarrow as pa

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, RunSource
from lakehouse.storage.merge.ordering import merge_order
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.rows.row_equality import same_rows
from lakehouse.storage.rows.row_size import RowSize
from lakehouse.storage.rows.take import take_from_tables
from lakehouse.storage.scan.lookup import FoundRows, Lookup
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.row_ttl import Lifetime

__all__ = ["CHANGE_COLUMN", "net_changes"]

CHANGE_COLUMN = "_change"
"""The last column: insert, update_before, update_after or delete."""

_INSERT, _BEFORE, _AFTER, _DELETE = range(4)
_AT_ONCE = 2
"""Chunks of keys compared at once: one is read while the other is compared."""
_COPIES = 4
"""Times a row is in memory: of both snapshots, as read and as returned."""


@functools.cache
def _changes() -> pa.Array:
    """Returns the values of ``_change``; made on first use, since making arrays loads pandas."""
    return pa.array(["insert", "update_before", "update_after", "delete"])


async def net_changes(
    before: Sequence[FileEntry],
    after: Sequence[FileEntry],
    schema: TableSchema,
    source: RunSource,
    *,
    shows: tuple[Lifetime | None, Lifetime | None] = (None, None),
    keys: KeyRange = EVERY_KEY,
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows that differ, as tables with the columns of the schema and ``_change``.

    Rows come by merge unit and key; a changed row comes twice, the old one first.

    Args:
        before: files of the first snapshot, with their positions filled in.
        after: files of the second snapshot, likewise.
        schema: schema of the second snapshot; older rows are converted to it.
        source: opens the files.
        shows: record TTL of the first and of the second snapshot; None = all rows are shown.
        keys: only rows of these keys.
    """
    paths = {entry.path for entry in before}, {entry.path for entry in after}
    # A file that both snapshots have holds the same rows in both: only the other files name changed keys.
    touched = [entry for entry in (*before, *after) if (entry.path in paths[0]) != (entry.path in paths[1])]
    key_columns = KeyColumns(schema.key_fields)
    lookups = [
        Lookup(entries, schema, source, shows=shown)
        for entries, shown in zip((before, after), shows, strict=True)
    ]

    async def compare(chunk: pa.Table) -> pa.Table:
        was, now = [await lookup.find(chunk, schema.fields) for lookup in lookups]
        return await in_thread(_difference, key_columns, was, now)

    size = RowSize(schema.fields, schema.fields, touched).bytes_per_row
    rows = max(1, int(source.settings.scan_memory_bytes / _AT_ONCE / _COPIES / size))
    names = key_columns.names
    scan = Scan(touched, schema, source, columns=names, deletions=True, keys=keys)
    streams = [_chunks(scan, rows)]
    shown, other = shows if shows[0] is not None else shows[::-1]
    if shown is not None:
        # Rows expire without any file changing: find them by their age among the files of the first state.
        differs = shown.differs(other)
        aged = Scan(before, schema, source, columns=names, where=differs, keys=keys)
        streams.append(_untouched(_chunks(aged, rows), Lookup(touched, schema, source)))
    for chunks in streams:
        async with aclosing(map_bounded(compare, chunks, _AT_ONCE)) as tables:
            async for table in tables:
                if table.num_rows:
                    yield table


async def _untouched(
    chunks: AsyncGenerator[pa.Table, None], touched: Lookup
) -> AsyncGenerator[pa.Table, None]:
    """Yields the keys of chunks that are in none of the touched files, whose keys are compared already."""
    async with aclosing(chunks):
        async for chunk in chunks:
            absent = await touched.without(chunk)
            if absent.num_rows:
                yield absent


async def _chunks(scan: Scan, rows: int) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows of a scan in tables of at most ``rows`` rows."""
    async with aclosing(scan.tables()) as tables:
        async for table in tables:
            for begin in range(0, table.num_rows, rows):
                yield table.slice(begin, rows)


def _difference(keys: KeyColumns, was: FoundRows, now: FoundRows) -> pa.Table:
    """Returns the change rows that lead from the rows of some keys before to those of the same keys after."""
    # By key, an old row before a new one of the same key; ``ends`` marks the last row of each key.
    order = merge_order(keys.arrays([was.keys, now.keys]))
    count = was.keys.num_rows
    is_old = order.rows < count
    ends = order.ends
    begins = np.concatenate([np.ones(min(1, len(ends)), np.bool_), ends[:-1]])
    changes = np.where(is_old, _DELETE, _INSERT)
    # A row that begins its key and does not end it is followed by the new row: the two are a pair.
    olds = np.flatnonzero(begins & ~ends)
    pairs = order.rows[olds], order.rows[olds + 1] - count
    same = same_rows(take_from_tables([was.rows], pairs[0]), take_from_tables([now.rows], pairs[1]))
    changes[olds], changes[olds + 1] = _BEFORE, _AFTER
    differs = np.ones(len(changes), np.bool_)
    differs[olds[same]] = differs[olds[same] + 1] = False
    rows = take_from_tables([was.rows, now.rows], order.rows[differs])
    return rows.append_column(CHANGE_COLUMN, _changes().take(pa.array(changes[differs])))
