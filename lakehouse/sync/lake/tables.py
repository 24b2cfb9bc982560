"""LakeTables without await: the twin of :mod:`lakehouse.lake.tables`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/tables.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa

from lakehouse.format.schema import TableSchema
from lakehouse.iceberg.table import IcebergTable as AsyncIcebergTable
from lakehouse.index.metas import Authorise
from lakehouse.index.models import IndexType
from lakehouse.index.puffin import MetaCache
from lakehouse.io.work import ProgressCallback
from lakehouse.lake.tables import LakeTables as AsyncLakeTables
from lakehouse.storage.maintenance import PurgeReport
from lakehouse.storage.tables import DropResult
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.iceberg import IcebergTable
from lakehouse.sync.index_metas import IndexMetaScan
from lakehouse.sync.table import Table

__all__ = ["LakeTables"]


class LakeTables:
    """Base of ``Lake`` with its methods for tables."""

    def __init__(self, wrapped: AsyncLakeTables, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def create_table(
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

            orders = lake.create_table(
                "sales.orders",
                pa.schema({"id": pa.int64(), "amount": pa.float64()}),
                primary_key=["id"],
            )
        """
        return Table(
            self._bridge.call(
                self._wrapped.create_table,
                name,
                schema,
                primary_key=primary_key,
                partition_by=partition_by,
                bucket=bucket,
                options=options,
                comment=comment,
                indexes=indexes,
                if_not_exists=if_not_exists,
            ),
            self._bridge,
        )

    def table(self, name: str) -> Table | Any:
        """Opens the table of that name.

        Returns a :class:`lakehouse.Table`; for a table of an attached catalog a
        :class:`lakehouse.iceberg.IcebergTable`.

        Args:
            name: ``database.table``; with three parts or more ``catalog.namespace.table``.
        """
        return self._bridge.twin(
            self._bridge.call(self._wrapped.table, name), {AsyncIcebergTable: IcebergTable}, Table
        )

    def table_exists(self, name: str) -> bool:
        """Returns whether there is a table of that name; one of a catalog is loaded to find out."""
        return self._bridge.call(self._wrapped.table_exists, name)

    def tables(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> Generator[str, None, None]:
        """Yields the names of a database's tables, ``database.table``, in order.

        Args:
            database: its name; ``catalog.namespace`` for tables of an attached catalog.
            prefix: only tables whose names begin so.
            after: only tables whose names follow this one: where an earlier listing ended.
        """
        return self._bridge.iterate(self._wrapped.tables, database, prefix=prefix, after=after)

    def drop_table(self, name: str, *, if_exists: bool = False) -> DropResult | None:
        """Drops a table: every open handle fails from then on, and the name is free.

        Its objects stay until :meth:`purge_dropped` deletes them, and until then :meth:`undrop_table`
        brings it back; the result has the time before which no purge happens. Returns None when there
        was none to drop.
        """
        return self._bridge.call(self._wrapped.drop_table, name, if_exists=if_exists)

    def undrop_table(self, name: str, *, uuid: UUID | str | None = None) -> Table:
        """Brings a dropped table back as it was, with every row that was acknowledged before the drop.

        It can come back until a purge begins to delete its objects, under the name it was dropped with
        and only while no live table has that name. Open tables continue to work; a streaming writer from
        before the drop has to be opened anew.

        Args:
            name: ``database.table``.
            uuid: which table, when several of that name were dropped: its uuid, or the digits at the end
                of its directory; None = the last.

        Example::

            dropped = lake.drop_table("sales.orders")
            orders = lake.undrop_table("sales.orders", uuid=dropped.uuid)
        """
        return Table(self._bridge.call(self._wrapped.undrop_table, name, uuid=uuid), self._bridge)

    def purge_dropped(
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
        return self._bridge.call(
            self._wrapped.purge_dropped, database, grace_s=grace_s, dry_run=dry_run, progress=progress
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

            for entry in lake.index_metas("sales.orders"):
                print(entry.locator.file_id, entry.index_type, entry.target_key, entry.blob_size)
        """
        return IndexMetaScan(
            self._wrapped.index_metas(
                name,
                concurrency=concurrency,
                kinds=kinds,
                errors=errors,
                order=order,
                cache=cache,
                authorise=authorise,
                mask_locations=mask_locations,
            ),
            self._bridge,
        )

    def rename_table(self, name: str, new_name: str) -> Table:
        """Gives a table another name, in this or another database."""
        return Table(self._bridge.call(self._wrapped.rename_table, name, new_name), self._bridge)
