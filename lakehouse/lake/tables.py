"""Tables of a lake: made, opened, listed, renamed, dropped, brought back and purged; indexes, listed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa

from lakehouse.catalog.ids import NodeKind
from lakehouse.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakehouse.format.schema import TableSchema, check_options, check_schema, schema_from_arrow
from lakehouse.index.metas import Authorise, IndexMetaScan, iterate_index_metas
from lakehouse.index.models import IndexType
from lakehouse.index.puffin import MetaCache
from lakehouse.io.work import ProgressCallback
from lakehouse.lake.state import LakeState
from lakehouse.storage.maintenance import PurgeReport, purge_dropped
from lakehouse.storage.metadata import TableName, check_not_system
from lakehouse.storage.table import Table
from lakehouse.storage.tables import (
    DropResult,
    OpenTable,
    TableIndexSource,
    create_table,
    drop_named,
    shared_table,
    undrop_table,
)

__all__ = ["LakeTables"]


class LakeTables:
    """Base of ``Lake`` with its methods for tables."""

    _state: LakeState

    async def create_table(
        self,
        name: str,
        schema: pa.Schema | TableSchema,
        *,
        primary_key: Sequence[str] | str = (),
        partition_by: Sequence[str] | str = (),
        bucket: int = 1,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        indexes: Mapping[Any, Any] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Creates a table.

        Args:
            name: ``database.table``.
            schema: its columns.
            primary_key: columns that identify a row; none makes an append-only table.
            partition_by: columns whose values divide the table.
            bucket: number of buckets that rows are spread over by the hash of their key.
            options: see ``docs/spec/v1/schema.md``.
            comment: for people.
            indexes: by indexed column or expression, a kind or ``{kind: options}``, such as
                ``{"host": "inverted", "message": {"fulltext": {"analyzer": "English"}}}``.
            if_not_exists: return an existing table of that name as it is, instead of raising.

        Example::

            orders = await lake.create_table(
                "sales.orders",
                pa.schema({"id": pa.int64(), "amount": pa.float64()}),
                primary_key=["id"],
            )
        """
        parsed = TableName.new(name)
        if isinstance(schema, TableSchema):
            if primary_key or partition_by or bucket != 1 or options or comment is not None or indexes:
                raise InvalidInputError(
                    "a TableSchema says itself what its keys, partitions, buckets, options and comment are: "
                    "give either it or an Arrow schema with these arguments"
                )
            check_schema(schema)
            check_options(schema)
        else:
            schema = schema_from_arrow(
                schema,
                primary_key=primary_key,
                partition_by=partition_by,
                buckets=bucket,
                options=options,
                comment=comment,
                indexes=indexes,
            )
        try:
            return self._state.handle(await create_table(self._state.env, self._state.names, parsed, schema))
        except AlreadyExistsError:
            if not if_not_exists:
                raise
        return await self.table(name)

    async def table(self, name: str) -> Table | Any:
        """Opens the table of that name.

        Returns a :class:`lakehouse.Table`; for a table of an attached catalog a
        :class:`lakehouse.iceberg.IcebergTable`.

        Args:
            name: ``database.table``; with three parts or more ``catalog.namespace.table``.
        """
        try:
            found = await self._state.graph.open(name)
        except NotFoundError as error:
            database = str(name).partition(".")[0]
            if error.context.get("missing") is None and self._state.is_catalog(database):
                error.add_note(f"tables of the catalog {database!r} have three parts: {name}.table")
            raise
        return self._state.handle(found) if isinstance(found, OpenTable) else found

    async def table_exists(self, name: str) -> bool:
        """Returns whether there is a table of that name; one of a catalog is loaded to find out."""
        return await self._state.graph.exists(name, NodeKind.TABLE)

    async def tables(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Yields the names of a database's tables, ``database.table``, in order.

        Args:
            database: its name; ``catalog.namespace`` for tables of an attached catalog.
            prefix: only tables whose names begin so.
            after: only tables whose names follow this one: where an earlier listing ended.
        """
        found = self._state.graph.table_names(database, begins=prefix, after=after)
        async with contextlib.aclosing(found) as names:
            async for name in names:
                yield name

    async def drop_table(self, name: str, *, if_exists: bool = False) -> DropResult | None:
        """Drops a table: every open handle fails from then on, and the name is free.

        Its objects stay until :meth:`purge_dropped` deletes them, and until then :meth:`undrop_table`
        brings it back; the result has the time before which no purge happens. Returns None when there
        was none to drop.
        """
        parsed = TableName.parse(name)
        try:
            return await drop_named(self._state.env, self._state.names, parsed)
        except NotFoundError:
            check_not_system(parsed.database)
            if not if_exists:
                raise
        return None

    async def undrop_table(self, name: str, *, uuid: UUID | str | None = None) -> Table:
        """Brings a dropped table back as it was, with every row that was acknowledged before the drop.

        It can come back until a purge begins to delete its objects, under the name it was dropped with
        and only while no live table has that name. Open tables continue to work; a streaming writer from
        before the drop has to be opened anew.

        Args:
            name: ``database.table``.
            uuid: which table, when several of that name were dropped: its uuid, or the digits at the end
                of its directory; None = the last.

        Example::

            dropped = await lake.drop_table("sales.orders")
            orders = await lake.undrop_table("sales.orders", uuid=dropped.uuid)
        """
        return self._state.handle(
            await undrop_table(self._state.env, self._state.names, TableName.parse(name), table=uuid)
        )

    async def purge_dropped(
        self,
        database: str | None = None,
        *,
        grace_s: float | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> PurgeReport:
        """Deletes the objects of tables that were dropped long enough ago; they cannot come back then.

        Args:
            database: only its tables; None = all, those of dropped databases too.
            grace_s: seconds since the drop; None = each table's option ``delete_grace_s``. Less is safe
                only when nobody reads the dropped tables any more.
            dry_run: delete nothing and report what would be deleted now.
            progress: called with the progress made.
        """
        return await purge_dropped(
            self._state.listing_env,
            self._state.names,
            database,
            grace_s=grace_s,
            dry_run=dry_run,
            progress=progress,
        )

    def index_metas(
        self,
        name: str | None = None,
        *,
        concurrency: int | None = None,
        kinds: Collection[IndexType | str] | None = None,
        errors: Literal["collect", "raise"] = "collect",
        order: Literal["completed", "listing"] = "completed",
        cache: MetaCache | None = None,
        authorise: Authorise | None = None,
        mask_locations: bool = False,
    ) -> IndexMetaScan:
        """Enumerates the metadata of every index of the tables' newest snapshots, one request per index file.

        Args:
            name: only this ``database`` or this ``database.table``; None = all.
            concurrency: files read at once; None = the setting ``index.concurrency``.
            kinds: only indexes of these kinds.
            errors: ``raise`` ends with the first problem; ``collect`` continues and reports problems.
            order: entries of files as they are read, or by table.
            cache: keeps the metadata read; a second call makes no request for files in it. None = the layer
                ``puffin`` of the lake's caches.
            authorise: asked once for each table directory, before anything of it is read.
            mask_locations: directories and paths are replaced by stable pseudonyms.

        Example::

            async for entry in lake.index_metas("sales.orders"):
                print(entry.locator.file_id, entry.index_type, entry.target_key, entry.blob_size)
        """
        database, dot, _ = (name or "").partition(".")
        table = TableName.parse(name).table if name is not None and dot else None
        return iterate_index_metas(
            TableIndexSource(self._state.env, self._state.names, database=database or None, table=table),
            concurrency=concurrency,
            kinds=kinds,
            errors=errors,
            order=order,
            cache=self._state.layers.puffin if cache is None else cache,
            authorise=authorise,
            mask_locations=mask_locations,
            settings=self._state.settings.index,
        )

    async def rename_table(self, name: str, new_name: str) -> Table:
        """Gives a table another name, in this or another database."""
        old, new = TableName.parse(name), TableName.new(new_name)
        try:
            table: OpenTable = await self._state.graph.open((old.database, old.table))
        except NotFoundError:
            check_not_system(old.database)
            raise
        moved = await self._state.names.move(old, new, table.pointer, time_ms=self._state.clock.now_ms())
        return self._state.handle(shared_table(self._state.env, new, moved))
