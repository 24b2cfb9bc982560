"""Rows that came to a table without a primary key, commit by commit.

Without a key nothing tells which row it is that went away: rows that come are told, in the order in which
they came, and rows that go are not.

Invariant: a row is told with the commit that first shows it, be it in a file or in a covered segment of the
log, and with no other: what puts rows into other files tells nothing.
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
from lakehouse.storage.scan.table_scan import TableRuns
from lakehouse.storage.schema.row_ttl import shown_where
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["appended_between"]


async def appended_between(
    core: OpenTable, start: View, end: View, *, net: bool
) -> AsyncGenerator[pa.Table, None]:
    """The rows that commits behind one state brought, up to another, as they came.

    Args:
        core: a table without a primary key.
        start: the state that the reader has.
        end: the state that it shall have; rows come with its schema.
        net: refuse where rows went away in between, since these would be missing from the answer.

    Raises:
        InvalidInputError: ``net``, and a commit in between took rows away.
    """
    async with aclosing(read_snapshots(core, start.snapshot.id + 1, end.snapshot)) as snapshots:
        async for snapshot in snapshots:
            if net and traits_of(snapshot.kind).removes_rows:
                raise InvalidInputError(
                    f"snapshot {snapshot.id} of {core.name} took rows away ({snapshot.kind}), and without a "
                    f"primary key nothing says which: ask for the changes up to {snapshot.id - 1} and from "
                    f"{snapshot.id} on, or follow() the table, which tells the rows that come",
                    snapshot=snapshot.id,
                )
            async with aclosing(_brought(core, snapshot, end)) as tables:
                async for table in tables:
                    yield table


async def _brought(core: OpenTable, snapshot: Snapshot, end: View) -> AsyncGenerator[pa.Table, None]:
    """The rows that a commit was the first to show."""
    found = [
        one for one in await appended_in(core, snapshot) if one.lo is not None and one.lo[0] == snapshot.id
    ]
    covered = [one for one in snapshot.carried().segments if one.at == snapshot.id]
    found += await core.runs.entries(covered, end.schema)
    if not found:
        return
    scan = Scan(
        found,
        end.schema,
        TableRuns(core, end.schema),
        where=shown_where(None, end.shows),
        settings=core.env.settings.table,
    )
    async with aclosing(scan.tables()) as tables:
        async for table in tables:
            kinds = pa.repeat(pa.scalar("insert"), table.num_rows)
            yield table.append_column(CHANGE_COLUMN, kinds)
