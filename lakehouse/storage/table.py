"""The table that users hold: reads, writes and maintenance of one table.

Invariant: every method is one commit or one read of one snapshot; between calls nothing is kept but
facts that cannot go stale, and the newest snapshot seen, which each read asks for again unless it may be
as old as that.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from lakehouse.errors import FormatError, InvalidInputError, NotFoundError
from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.format.metadata import CommitKind, Ref
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import ProgressCallback
from lakehouse.log import get_logger
from lakehouse.storage.cdc.follow import ChangeBatch, changes_between, follow_changes
from lakehouse.storage.commit.alter import restored_schema
from lakehouse.storage.commit.changes import ChangeRefs, Rollback
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.compact.executor import CompactResult, compact_table
from lakehouse.storage.metadata.expiry_guard import expiry_of, explain_expiry
from lakehouse.storage.metadata.table_name import check_new_name
from lakehouse.storage.rows.missing_columns import Missing, check_missing
from lakehouse.storage.scan.table_scan import Freshness, TableScan, is_fresh, table_lookup, to_expr
from lakehouse.storage.table_columns import TableColumns
from lakehouse.storage.table_indexes import TableIndexes
from lakehouse.storage.table_maintenance import TableMaintenance
from lakehouse.storage.table_relations import TableRelations
from lakehouse.storage.tables.arguments import check_staleness
from lakehouse.storage.tables.commit_result import CommitResult, commit_change
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.pins import drop_pin, make_pin
from lakehouse.storage.tables.view import View
from lakehouse.storage.write.blind_writes import BlindWrite
from lakehouse.storage.write.conditional_writes import InsertingWrite, ReplacingWrite
from lakehouse.storage.write.flush import flush_table
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.storage.write.table_write import WriterId, check_message, check_writer

__all__ = ["Table"]

_log = get_logger(__name__)
_Moment = dt.datetime | int | str


class Table(TableMaintenance, TableIndexes, TableColumns, TableRelations):
    """A table. Made by ``Lake.create_table`` and ``Lake.table``.

    Methods that write make one commit each and return what it did. Every read sees the newest
    snapshot unless it names another or says how old that may be (``max_staleness``).
    ``writer=(id, sequence)`` makes a write safe to repeat: a sequence that was committed is not
    committed again, by whatever process.
    """

    def __init__(self, table: OpenTable, max_staleness: float | None = None) -> None:
        self._table = table
        self._max_staleness = check_staleness(max_staleness)

    def __reduce__(self) -> tuple[Any, ...]:
        # As configuration: it connects where it arrives, when it is used.
        return type(self), (self._table, self._max_staleness)

    def __repr__(self) -> str:
        return f"<Table {self.name} at {self.location}>"

    @property
    def core(self) -> OpenTable:
        """The open table that the engine's functions take: for engines that are built on this one."""
        return self._table

    @property
    def name(self) -> str:
        """``database.table``, as it was opened."""
        return str(self._table.name)

    @property
    def uuid(self) -> uuid.UUID:
        """Identity of the table, whatever its name."""
        return self._table.uuid

    @property
    def location(self) -> str:
        """URL of the table's directory."""
        return f"{self._table.env.store.url.rstrip('/')}/{self._table.root}"

    def with_staleness(self, max_staleness: float | None) -> Table:
        """The same table, whose reads may take the newest snapshot of so many seconds ago for the newest.

        These make no request to look for a newer one; somebody does so in the background in time. Own commits
        are seen at once. A read's own ``max_staleness`` goes before it, and it goes before the table's option
        ``read.max_staleness_s``. 0 = every read looks; None = as the option says.

        Example::

            relaxed = table.with_staleness(2)
            row = await relaxed.get({"id": 7})
        """
        return type(self)(self._table, max_staleness)

    async def schema(self, *, snapshot: int | None = None, max_staleness: float | None = None) -> TableSchema:
        """Columns, keys and options of the table; ``.arrow()`` converts them to an Arrow schema.

        Args:
            snapshot: id of a snapshot; None = the newest.
            max_staleness: as in ``scan``.
        """
        within_s = self._within_s(max_staleness, snapshot)
        return (await self._table.read_view(snapshot=snapshot, within_s=within_s)).schema

    async def current_snapshot(self, *, max_staleness: float | None = None) -> int:
        """Id of the newest snapshot; ``max_staleness`` as in ``scan``."""
        return (await self._table.read_view(within_s=self._within_s(max_staleness))).snapshot.id

    def _within_s(
        self, max_staleness: float | None, snapshot: int | None = None, *, fresh: bool = False
    ) -> float | None:
        """Returns the bound of a read: its own, or else the handle's; None = the table's option."""
        elsewhere = fresh and not self._table.is_writer
        asked = check_staleness(max_staleness, snapshot=snapshot, fresh=elsewhere)
        # Who asks for the log wants what is newest, whatever is good enough for other reads.
        return self._max_staleness if asked is None and not fresh else asked

    # --- writing ------------------------------------------------------------------

    async def append(
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

            await table.append([{"id": 1, "amount": 9.5}, {"id": 2, "amount": 3.0}])
        """
        check_writer(writer)
        check_message(message)
        check_missing(missing)
        if missing == "keep":
            await self._needs_key("missing='keep'")
        if on_conflict == "error":
            await self._needs_key("on_conflict='error'")
            return await InsertingWrite(self._table, data, writer, message, missing=missing).run()
        if on_conflict != "update":
            raise InvalidInputError(f"on_conflict is 'update' or 'error', not {on_conflict!r}")
        kind = CommitKind.APPEND
        return await BlindWrite(self._table, data, writer, message, kind=kind, missing=missing).run()

    async def upsert(
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

            await table.upsert([{"id": 1, "amount": 10.0}], missing="keep")
        """
        check_writer(writer)
        check_message(message)
        check_missing(missing)
        await self._needs_key("upsert")
        kind = CommitKind.UPSERT
        return await BlindWrite(self._table, data, writer, message, kind=kind, missing=missing).run()

    async def delete(
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

            await table.delete("amount < 0")
            await table.delete(keys=[{"id": 7}])
        """
        check_writer(writer)
        check_message(message)
        condition = to_expr(where)
        if (condition is None) == (keys is None):
            raise InvalidInputError("delete takes a condition or keys=, and one of them only")
        if condition is not None:
            return await ReplacingWrite(self._table, (), writer, message, where=condition, deletes=True).run()
        await self._needs_key("delete(keys=…)")
        kind = CommitKind.DELETE
        return await BlindWrite(self._table, keys, writer, message, kind=kind, deletes=True).run()

    async def overwrite(
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
        check_writer(writer)
        check_message(message)
        condition = to_expr(where)
        if condition is not None:
            return await ReplacingWrite(self._table, data, writer, message, where=condition).run()
        kind = CommitKind.OVERWRITE
        return await BlindWrite(self._table, data, writer, message, kind=kind, clears=True).run()

    def writer(self) -> TableWriter:
        """A streaming writer: rows are durable one by one, and in data files within a bound.

        A table has one at a time, with any number of tasks in it; opening it fences off the one before.

        Example::

            async with table.writer() as writer:
                ack = await writer.put([{"id": 1, "amount": 9.5}])
                await ack  # durable
        """
        return TableWriter(self._table)

    async def flush(self) -> CommitResult:
        """Puts the rows that streaming writers left in the write-ahead log into data files."""
        return await flush_table(self._table)

    async def _needs_key(self, what: str, view: View | None = None) -> None:
        if not (view or await self._table.known()).schema.primary_key:
            raise InvalidInputError(f"{what} needs a primary key, and {self.name} has none")

    # --- reading ------------------------------------------------------------------

    def scan(
        self,
        where: Expr | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        snapshot: int | None = None,
        timestamp: _Moment | None = None,
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

            rows = await table.scan("amount > 10", columns=["id", "amount"]).to_arrow()
        """
        return TableScan(
            self._table,
            where=where,
            columns=columns,
            limit=limit,
            snapshot=snapshot,
            timestamp=timestamp,
            tag=tag,
            freshness=freshness,
            within_s=self._within_s(max_staleness, snapshot, fresh=is_fresh(freshness)),
            runtime_filters=runtime_filters,
        )

    async def get(
        self,
        key: Mapping[str, object],
        *,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        timestamp: _Moment | None = None,
        tag: str | None = None,
        freshness: Freshness = "snapshot",
        max_staleness: float | None = None,
    ) -> dict[str, Any] | None:
        """The row of a key as a dict; None when there is none. The other arguments are those of ``scan``.

        Example::

            row = await table.get({"id": 7})
        """
        view = await self._keyed_view(snapshot, timestamp, tag, freshness, max_staleness)
        try:  # as explain_expiry does, whose block would take a tenth of the time of a get in memory
            return await (await table_lookup(self._table, view, of_one=True)).get(key, columns=columns)
        except (FormatError, NotFoundError) as error:
            number, segment = view.snapshot.id, view.first_segment
            expired = await expiry_of(self._table.snapshots, number, segment=segment)
            if expired is None:
                raise
            raise expired from error

    async def get_many(
        self,
        keys: object,
        *,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        timestamp: _Moment | None = None,
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
        view = await self._keyed_view(snapshot, timestamp, tag, freshness, max_staleness)
        async with explain_expiry(self._table.snapshots, view.snapshot.id, segment=view.first_segment):
            return await (await table_lookup(self._table, view)).get_many(keys, columns=columns)

    async def _keyed_view(
        self,
        snapshot: int | None,
        timestamp: _Moment | None,
        tag: str | None,
        freshness: Freshness,
        max_staleness: float | None,
    ) -> View:
        """Returns the state that a lookup reads; the table has a primary key."""
        fresh, within_s = freshness != "snapshot" and is_fresh(freshness), self._max_staleness
        if fresh or max_staleness is not None:
            within_s = self._within_s(max_staleness, snapshot, fresh=fresh)
        view = await self._table.read_view(
            snapshot=snapshot, timestamp=timestamp, tag=tag, fresh=fresh, within_s=within_s
        )
        if not view.schema.primary_key:
            await self._needs_key("get", view)
        return view

    async def changes(self, start: int, end: int | None = None) -> AsyncGenerator[pa.Table, None]:
        """Net changes of rows between two snapshots, whatever was compacted in between.

        Rows have a column ``_change``: insert, update_before, update_after or delete. A row that
        changed and changed back is left out. A table without a primary key reports the rows that were
        added, in the order of their commits, and refuses where a commit in between removed rows.

        Args:
            start: id of a snapshot.
            end: id of a later one; None = the newest.
        """
        after = await self._table.read_view(snapshot=end, within_s=self._max_staleness)
        before = await self._table.read_view(snapshot=start)
        if before.snapshot.id > after.snapshot.id:
            raise InvalidInputError(f"changes from snapshot {start} to {end} go back: swap them")
        async with contextlib.aclosing(changes_between(self._table, before, after)) as tables:
            async for table in tables:
                yield table

    async def follow(
        self, after: str | int | None = None, *, poll_s: float = 1.0
    ) -> AsyncGenerator[ChangeBatch, None]:
        """Changes as they are committed, for as long as the caller iterates.

        Compaction does not show, nor do rows that are removed from a table without a primary key. A reader
        that keeps the ``token`` of the last batch it has processed continues from there, in any process;
        when that position has expired meanwhile, NotFoundError is raised.

        Args:
            after: a token, or the id of a snapshot whose state the reader has; None = from now on.
            poll_s: seconds between looks for a new snapshot; a look is one request.

        Example::

            async for batch in table.follow(after=1):
                print(batch.rows.num_rows, "changes; go on from", batch.token)
                break  # or never
        """
        changes = follow_changes(self._table, after=after, poll_s=poll_s)
        async with contextlib.aclosing(changes) as batches:
            async for batch in batches:
                yield batch

    # --- tags, rollback -----------------------------------------------------------

    async def create_tag(
        self, name: str, *, snapshot: int | None = None, replace: bool = False
    ) -> CommitResult:
        """Gives a snapshot a name, which keeps it; the newest one when none is given."""
        check_new_name(name, "tag")
        number = snapshot if snapshot is not None else await self.current_snapshot()
        return await commit_change(
            self._table, ChangeRefs(make={name: Ref(snapshot=number)}, replace=replace)
        )

    async def delete_tag(self, name: str) -> CommitResult:
        """Deletes a tag; its snapshot may expire then."""
        return await commit_change(self._table, ChangeRefs(drop=(name,)))

    @contextlib.asynccontextmanager
    async def pin(self, snapshot: int | None = None, *, ttl_s: float = 3600) -> AsyncIterator[int]:
        """Keeps a snapshot while the block runs, or for ``ttl_s`` seconds if the process ends in it.

        The result of the block does not depend on whether the pin can be dropped then: it ends by itself.
        """
        view = await self._table.view(snapshot=snapshot)
        # A name of its own: two reads of one snapshot must not drop each other's pin.
        name = f"pin-{uuid.uuid4().hex}"
        await make_pin(self._table, view.snapshot.id, name=name, ttl_s=ttl_s)
        try:
            yield view.snapshot.id
        finally:
            await drop_pin(self._table, name)

    async def rollback(
        self,
        *,
        snapshot: int | None = None,
        timestamp: _Moment | None = None,
        tag: str | None = None,
    ) -> CommitResult:
        """Makes an older state the newest, by a commit; what came between stays reachable."""
        if snapshot is None and timestamp is None and tag is None:
            raise InvalidInputError("rollback needs a snapshot, a timestamp or a tag")
        target = (await self._table.view(snapshot=snapshot, timestamp=timestamp, tag=tag)).snapshot

        async def schema(base: Base) -> Any:
            return await restored_schema(self._table.schemas, self._table.snapshots, base.snapshot, target)

        return await commit_change(self._table, Rollback(target=target, schema=schema))

    # --- maintenance --------------------------------------------------------------

    async def compact(
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

            print(await table.compact())
        """
        return await compact_table(
            self._table, full=full, where=to_expr(where), dry_run=dry_run, progress=progress
        )
