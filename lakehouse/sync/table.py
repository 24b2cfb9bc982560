"""Table without await: the twin of :mod:`lakehouse.storage.table`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/storage/table.py: edit that file, then run `make docs`.

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import pyarrow as pa

from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import ProgressCallback
from lakehouse.storage.cdc import ChangeBatch
from lakehouse.storage.compact import CompactResult
from lakehouse.storage.rows import Missing
from lakehouse.storage.scan import Freshness
from lakehouse.storage.table import Table as AsyncTable
from lakehouse.storage.tables import CommitResult
from lakehouse.storage.write import WriterId
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.scan import TableScan
from lakehouse.sync.table_columns import TableColumns
from lakehouse.sync.table_indexes import TableIndexes
from lakehouse.sync.table_maintenance import TableMaintenance
from lakehouse.sync.table_relations import TableRelations
from lakehouse.sync.writer import TableWriter

__all__ = ["Table"]


class Table(TableMaintenance, TableIndexes, TableColumns, TableRelations):
    """A table. Made by ``Lake.create_table`` and ``Lake.table``.

    Methods that write make one commit each and return what it did. Every read sees the newest
    snapshot unless it names another or says how old that may be (``max_staleness``).
    ``writer=(id, sequence)`` makes a write safe to repeat: a sequence that was committed is not
    committed again, by whatever process.
    """

    _wrapped: AsyncTable

    def __init__(self, wrapped: AsyncTable, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def __repr__(self) -> str:
        return repr(self._wrapped)

    @property
    def name(self) -> str:
        """``database.table``, as it was opened."""
        return self._wrapped.name

    @property
    def uuid(self) -> uuid.UUID:
        """Identity of the table, whatever its name."""
        return self._wrapped.uuid

    @property
    def location(self) -> str:
        """URL of the table's directory."""
        return self._wrapped.location

    def with_staleness(self, max_staleness: float | None) -> Table:
        """The same table, whose reads may take the newest snapshot of so many seconds ago for the newest.

        These make no request to look for a newer one; somebody does so in the background in time. Own commits
        are seen at once. A read's own ``max_staleness`` goes before it, and it goes before the table's option
        ``read.max_staleness_s``. 0 = every read looks; None = as the option says.

        Example::

            relaxed = table.with_staleness(2)
            row = relaxed.get({"id": 7})
        """
        return Table(self._wrapped.with_staleness(max_staleness), self._bridge)

    def schema(self, *, snapshot: int | None = None, max_staleness: float | None = None) -> TableSchema:
        """Columns, keys and options of the table; ``.arrow()`` converts them to an Arrow schema.

        Args:
            snapshot: id of a snapshot; None = the newest.
            max_staleness: as in ``scan``.
        """
        return self._bridge.call(self._wrapped.schema, snapshot=snapshot, max_staleness=max_staleness)

    def current_snapshot(self, *, max_staleness: float | None = None) -> int:
        """Id of the newest snapshot; ``max_staleness`` as in ``scan``."""
        return self._bridge.call(self._wrapped.current_snapshot, max_staleness=max_staleness)

    def append(
        self,
        data: object,
        *,
        on_conflict: Literal["update", "error"] = "update",
        missing: Missing | None = None,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Adds rows; with a primary key, a row replaces the older one of its key.

        Args:
            data: an Arrow table, batch or reader, a pandas or polars frame, dicts, or an
                iterable of such, of any length.
            on_conflict: ``update`` does not look at older rows; ``error`` refuses the whole call
                when a key is there already, or two of the rows have it.
            missing: as in ``upsert``, of a table with a primary key and with ``on_conflict='update'``;
                else no value can be lost, and columns that rows come without are null.
            writer: (id, sequence) of this write.
            message: for people; kept with the snapshot.

        Example::

            table.append([{"id": 1, "amount": 9.5}, {"id": 2, "amount": 3.0}])
        """
        return self._bridge.call(
            self._wrapped.append,
            data,
            on_conflict=on_conflict,
            missing=missing,
            writer=writer,
            message=message,
        )

    def upsert(
        self,
        data: object,
        *,
        missing: Missing | None = None,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Adds rows that replace the older ones of their keys, without reading these.

        Of several rows with one key in a call, the last one stays. The table needs a primary key.

        Args:
            data: rows, as for ``append``.
            missing: treatment of columns without a default that rows lack. ``error`` refuses such rows,
                ``null`` writes null, ``keep`` reads the older rows of these keys and keeps their values. None
                is ``error`` where an older row would lose a value (engine deduplicate), and leaves columns to
                other engines where these keep values themselves.
            writer: (id, sequence) of this write.
            message: for people.

        Example::

            table.upsert([{"id": 1, "amount": 10.0}], missing="keep")
        """
        return self._bridge.call(self._wrapped.upsert, data, missing=missing, writer=writer, message=message)

    def delete(
        self,
        where: Expr | str | None = None,
        *,
        keys: object = None,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Deletes the rows that match a condition, or the rows of some keys.

        Args:
            where: SQL text or an expression; it is read, and nothing that others commit meanwhile
                is missed.
            keys: the primary keys' columns, in any form that ``append`` takes; nothing is read.
            writer: (id, sequence) of this write.
            message: for people.

        Example::

            table.delete("amount < 0")
            table.delete(keys=[{"id": 7}])
        """
        return self._bridge.call(self._wrapped.delete, where, keys=keys, writer=writer, message=message)

    def overwrite(
        self,
        data: object,
        where: Expr | str | None = None,
        *,
        writer: WriterId | None = None,
        message: str | None = None,
    ) -> CommitResult:
        """Replaces all rows, or those that match a condition, by other rows.

        Args:
            data: the new rows; with a condition, each must match it.
            where: which rows to replace; None = all that are there when it is committed.
            writer: (id, sequence) of this write.
            message: for people.
        """
        return self._bridge.call(self._wrapped.overwrite, data, where, writer=writer, message=message)

    def writer(self) -> TableWriter:
        """A streaming writer: rows are durable one by one, and in data files within a bound.

        A table has one at a time, with any number of tasks in it; opening it fences off the one before.

        Example::

            with table.writer() as writer:
                ack = writer.put([{"id": 1, "amount": 9.5}])
                ack.wait()  # durable
        """
        return TableWriter(self._wrapped.writer(), self._bridge)

    def flush(self) -> CommitResult:
        """Puts the rows that streaming writers left in the write-ahead log into data files."""
        return self._bridge.call(self._wrapped.flush)

    def scan(
        self,
        where: Expr | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        freshness: Freshness = "snapshot",
        max_staleness: float | None = None,
        runtime_filters: Sequence[RuntimeFilter] = (),
    ) -> TableScan:
        """The rows that match, as of a snapshot; nothing is read before they are asked for.

        Args:
            where: SQL text or an expression; None = all rows.
            columns: names, in order; None = all.
            limit: maximum rows to return.
            snapshot: id of a snapshot.
            timestamp: the last snapshot not after it: a datetime, ISO text (UTC without a zone),
                or milliseconds.
            tag: the snapshot of that tag.
            freshness: ``wal`` reads the newest snapshot and the write-ahead log above it:
                every row that was acknowledged before the call.
            max_staleness: seconds; the newest snapshot may have been the newest so long ago, and nobody
                waits for a request that looks for another. 0 = look for it. None = as the handle
                (``with_staleness``) or the table's option ``read.max_staleness_s`` says. With
                ``freshness='wal'`` neither counts, and a bound only where this process has the table's
                streaming writer: its own rows are seen at once, and commits of others within the bound.
            runtime_filters: filters such as ``lakehouse.iceberg.RuntimeFilter.in_("id", ids)``; rows that
                one of them does not let through are left out, as by ``where``, and so are their files.

        Example::

            rows = table.scan("amount > 10", columns=["id", "amount"]).to_arrow()
        """
        return TableScan(
            self._wrapped.scan(
                where,
                columns=columns,
                limit=limit,
                snapshot=snapshot,
                timestamp=timestamp,
                tag=tag,
                freshness=freshness,
                max_staleness=max_staleness,
                runtime_filters=runtime_filters,
            ),
            self._bridge,
        )

    def get(
        self,
        key: Mapping[str, object],
        *,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        freshness: Freshness = "snapshot",
        max_staleness: float | None = None,
    ) -> dict[str, Any] | None:
        """The row of a key as a dict; None when there is none. The other arguments are those of ``scan``.

        Example::

            row = table.get({"id": 7})
        """
        return self._bridge.call(
            self._wrapped.get,
            key,
            columns=columns,
            snapshot=snapshot,
            timestamp=timestamp,
            tag=tag,
            freshness=freshness,
            max_staleness=max_staleness,
        )

    def get_many(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        freshness: Freshness = "snapshot",
        max_staleness: float | None = None,
    ) -> pa.Table:
        """The rows of many keys, by key; keys without a row are left out.

        Args:
            keys: dicts, or a table, of the primary key's columns.
            columns: names, in order; None = all.
            snapshot: id of a snapshot.
            timestamp: the last snapshot not after it.
            tag: the snapshot of that tag.
            freshness: as in ``scan``.
            max_staleness: as in ``scan``.
        """
        return self._bridge.call(
            self._wrapped.get_many,
            keys,
            columns=columns,
            snapshot=snapshot,
            timestamp=timestamp,
            tag=tag,
            freshness=freshness,
            max_staleness=max_staleness,
        )

    def changes(self, start: int, end: int | None = None) -> Generator[pa.Table, None, None]:
        """Net changes of rows between two snapshots, whatever was compacted in between.

        Rows have a column ``_change``: insert, update_before, update_after or delete. A row that
        changed and changed back is left out. A table without a primary key reports the rows that were
        added, in the order of their commits, and refuses where a commit in between removed rows.

        Args:
            start: id of a snapshot.
            end: id of a later one; None = the newest.
        """
        return self._bridge.iterate(self._wrapped.changes, start, end)

    def follow(
        self, after: str | int | None = None, *, poll_s: float = 1.0
    ) -> Generator[ChangeBatch, None, None]:
        """Changes as they are committed, for as long as the caller iterates.

        Compaction does not show, nor do rows that are removed from a table without a primary key. A reader
        that keeps the ``token`` of the last batch it has processed continues from there, in any process;
        when that position has expired meanwhile, NotFoundError is raised.

        Args:
            after: a token, or the id of a snapshot whose state the reader has; None = from now on.
            poll_s: seconds between looks for a new snapshot; a look is one request.

        Example::

            for batch in table.follow(after=1):
                print(batch.rows.num_rows, "changes; go on from", batch.token)
                break  # or never
        """
        return self._bridge.iterate(self._wrapped.follow, after, poll_s=poll_s)

    def create_tag(self, name: str, *, snapshot: int | None = None, replace: bool = False) -> CommitResult:
        """Gives a snapshot a name, which keeps it; the newest one when none is given."""
        return self._bridge.call(self._wrapped.create_tag, name, snapshot=snapshot, replace=replace)

    def delete_tag(self, name: str) -> CommitResult:
        """Deletes a tag; its snapshot may expire then."""
        return self._bridge.call(self._wrapped.delete_tag, name)

    def pin(self, snapshot: int | None = None, *, ttl_s: float = 3600) -> AbstractContextManager[int]:
        """Keeps a snapshot while the block runs, or for ``ttl_s`` seconds if the process ends in it.

        The result of the block does not depend on whether the pin can be dropped then: it ends by itself.
        """
        return self._bridge.hold(self._wrapped.pin, snapshot, ttl_s=ttl_s)

    def rollback(
        self,
        *,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
    ) -> CommitResult:
        """Makes an older state the newest, by a commit; what came between stays reachable."""
        return self._bridge.call(self._wrapped.rollback, snapshot=snapshot, timestamp=timestamp, tag=tag)

    def compact(
        self,
        where: Expr | str | None = None,
        *,
        full: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> CompactResult:
        """Merges sorted runs into larger ones: reads get faster, no answer of any snapshot changes.

        Without a key it merges small files. Others may commit meanwhile; where they changed files that
        were being merged, the compaction gives way, and the result reports it.

        Args:
            where: a condition on partition columns; None = the whole table.
            full: one run for every bucket, without deleted keys, instead of what is worth its cost.
            dry_run: change nothing and report the work to be done.
            progress: called with the number of rows read.

        Example::

            print(table.compact())
        """
        return self._bridge.call(self._wrapped.compact, where, full=full, dry_run=dry_run, progress=progress)
