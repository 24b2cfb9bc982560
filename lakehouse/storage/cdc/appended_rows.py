"""Inserts of a table without a primary key, commit by commit.

Without a key no row can be identified once it has gone: inserts are reported, in the order in which they
came, and removals are not.

Invariant: a row is reported with the commit that first shows it, be it in a file or in a covered segment of
the log, and with no other: a commit that only rewrites rows into other files reports none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import Snapshot
from lakehouse.storage.cdc.increments import appended_in, read_snapshots
from lakehouse.storage.cdc.snapshot_diff import CHANGE_COLUMN
from lakehouse.storage.commit.kinds import traits_of
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.row_ttl import shown_where
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["appended_between"]


async def appended_between(
    table: OpenTable, start: View, end: View, *, net: bool
) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows inserted by the commits after ``start``, up to and including ``end``, in commit order.

    Args:
        table: a table without a primary key.
        start: the state that the reader has.
        end: the state to reach; rows come with its schema.
        net: refuse when rows were removed in between, since the answer could not show that.

    Raises:
        InvalidInputError: ``net``, and a commit in between took rows away.
    """
    async with aclosing(read_snapshots(table, start.snapshot.id + 1, end.snapshot)) as snapshots:
        async for snapshot in snapshots:
            if net and traits_of(snapshot.kind).removes_rows:
                raise InvalidInputError(
                    f"snapshot {snapshot.id} of {table.name} took rows away ({snapshot.kind}), and without a "
                    f"primary key nothing says which: ask for the changes up to {snapshot.id - 1} and from "
                    f"{snapshot.id} on, or follow() the table, which tells the rows that come",
                    snapshot=snapshot.id,
                )
            async with aclosing(_rows_of_commit(table, snapshot, end)) as tables:
                async for rows in tables:
                    yield rows


async def _rows_of_commit(table: OpenTable, snapshot: Snapshot, end: View) -> AsyncGenerator[pa.Table, None]:
    """Yields the rows that a commit was the first to show."""
    # A flush adds files too, but at the older positions of the segments whose rows they hold.
    entries = [
        entry
        for entry in await appended_in(table, snapshot)
        if entry.lo is not None and entry.lo[0] == snapshot.id
    ]
    covered = [segments for segments in snapshot.with_positions().segments if segments.at == snapshot.id]
    entries += await table.runs.entries(covered, end.schema)
    if not entries:
        return
    scan = Scan(entries, end.schema, table, where=shown_where(None, end.shows))
    async with aclosing(scan.tables()) as tables:
        async for rows in tables:
            kinds = pa.repeat(pa.scalar("insert"), rows.num_rows)
            yield rows.append_column(CHANGE_COLUMN, kinds)
