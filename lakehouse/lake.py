"""The facade: connects to a warehouse, and gives access to its databases, tables and indexes.

Invariant: a lake is configuration until it is entered; entering it starts nothing but a group for
background work, and leaving it waits for that work and closes every connection.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import UUID

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import Settings
from lakehouse.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
)
from lakehouse.format.schema import TableSchema, check_options, check_schema, schema_from_arrow
from lakehouse.iceberg import catalogs as iceberg_catalogs
from lakehouse.iceberg.publishing import publish_table, published
from lakehouse.index.metas import Authorise, IndexMetaScan, iterate_index_metas
from lakehouse.index.models import IndexType
from lakehouse.index.puffin import MetaCache
from lakehouse.io import ObjectStore, load_settings, open_store
from lakehouse.io.lent import LentStore
from lakehouse.io.proofs import check_store, gated
from lakehouse.io.retry import RetryPolicy
from lakehouse.io.work import Background, ProgressCallback, or_none
from lakehouse.storage.compact import watched
from lakehouse.storage.maintenance import PurgeReport, purge_dropped
from lakehouse.storage.metadata import TableCaches, TableName, check_name
from lakehouse.storage.table import Table
from lakehouse.storage.tables import (
    DatabaseDropResult,
    DatabaseUndropResult,
    DropResult,
    Environment,
    Names,
    OpenTable,
    TableIndexSource,
    create_table,
    drop_database,
    drop_named,
    open_table,
    shared_table,
    undrop_database,
    undrop_table,
)

if TYPE_CHECKING:
    from lakehouse.iceberg.catalogs import Catalogs

__all__ = ["Lake", "connect"]


def connect(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | Mapping[str, object] | None = None,
    check: bool = False,
    clock: Clock | None = None,
) -> Lake:
    """Returns a warehouse: a place in a bucket or a directory that holds databases of tables.

    Args:
        url: ``s3://bucket/warehouse``, ``file:///path``, ``memory://name``; for reading also any
            scheme of fsspec, such as ``http://``, and chains such as ``zip://wh::s3://bucket/wh.zip``.
        storage_options: fsspec's, such as ``endpoint_url``, ``key`` and ``secret``, or as delta-rs,
            polars and pyiceberg spell them; the ``AWS_`` environment works too.
        settings: bounds, as ``{"cache.max_bytes": …}``; others come from the
            environment, the configuration file, the defaults.
        check: race the store on entering, for some seconds, and refuse it with an error of kind
            ``unsafe-store`` when it fails (:func:`lakehouse.check_store`, the short form).
        clock: source of time, for tests.

    Example::

        async with lakehouse.connect("s3://bucket/warehouse") as lake:
            orders = await lake.table("sales.orders")
            await orders.append([{"id": 1, "amount": 9.5}])
    """
    resolved = settings if isinstance(settings, Settings) else load_settings(settings)
    store = open_store(url, storage_options=storage_options, settings=resolved, clock=clock)
    lake = Lake(store, settings=resolved, check=check, clock=clock)
    # Nobody else closes this store, and its use before the lake is entered deserves a warning.
    lake._lent.is_owned = lake._lent.warns = True
    return lake


class Lake:
    """A warehouse. Made by :func:`connect`.

    Args:
        store: its root is the warehouse.
        settings: bounds and defaults.
        check: race the store on entering, for some seconds, and refuse it with an error of kind
            ``unsafe-store`` when it fails (:func:`lakehouse.check_store`, the short form).
        clock: source of time, for tests.
        catalogs: properties of Iceberg catalogs to attach, by name.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        settings: Settings | None = None,
        check: bool = False,
        clock: Clock | None = None,
        catalogs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        if not isinstance(store, LentStore):  # else it was unpickled from another process, with its tables
            store = LentStore(gated(store, RetryPolicy.of(store.settings, clock)))
        self.store: ObjectStore = store
        self._lent = store
        self.settings = settings or Settings()
        self.caches = CacheBudget(self.settings.cache)
        """Budget of all that the lake caches; ``caches.stats()`` reports hits and sizes."""
        self._check = check
        self._clock = clock or SystemClock()
        self._names = Names(self.store, self.settings.table)
        self._env = Environment(
            self.store, self.settings, self._clock, TableCaches(self.caches), self._spawn, publish_table
        )
        self._background = Background()
        self._stack: contextlib.AsyncExitStack | None = None
        self._catalogs: Catalogs | None = None
        for name, properties in (catalogs or {}).items():
            self._attached.attach(name, properties)

    @property
    def _attached(self) -> Catalogs:
        # Made when it is first asked for: most lakes have no catalogs, and need not load what these need.
        if self._catalogs is None:
            self._catalogs = iceberg_catalogs.Catalogs(self.caches, settings=self.settings, clock=self._clock)
        return self._catalogs

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as configuration, not entered; tables in the same pickle share the store.
        options: dict[str, Any] = {"settings": self.settings, "check": self._check, "clock": self._clock}
        if self._catalogs is not None:
            options["catalogs"] = self._catalogs.properties
        return functools.partial(type(self), **options), (self._lent,)

    def __repr__(self) -> str:
        return f"<Lake at {self.store.url}>"

    async def __aenter__(self) -> Self:
        if self._stack is not None:
            raise InvalidInputError("this lake is open already: connect a second time for a second one")
        # Left in reverse order: background work ends before the last check, and that before the store.
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.store)
            if self._check:
                (await check_store(self.store, short=True)).raise_if_unsafe()
            stack.push_async_callback(self._env.recheck)
            stack.push_async_callback(self._background.aclose)
            stack.push_async_callback(self._close_catalogs)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.__aexit__(exc_type, exc, trace)

    def _is_catalog(self, name: str) -> bool:
        return self._catalogs is not None and name in self._catalogs

    async def _close_catalogs(self) -> None:
        if self._catalogs is not None:
            await self._catalogs.aclose()

    def _spawn(self, work: Callable[..., Awaitable[None]], *args: object, optional: bool = False) -> bool:
        """Starts background work if the lake is entered and so awaits its end; returns whether it did."""
        if self._stack is None:
            return False
        self._background.start(work, *args, optional=optional)
        return True

    # --- Iceberg catalogs -----------------------------------------------------------

    async def attach_catalog(self, name: str, properties: Mapping[str, Any]) -> None:
        """Attaches a catalog of Iceberg tables under a name; the catalog itself is not contacted.

        Its tables are opened by ``table("name.namespace.table")`` and listed by ``tables("name.namespace")``.

        Args:
            name: one part, which no database of the lake has.
            properties: as pyiceberg takes them. ``type`` is ``rest``, ``sql``, ``hive``, ``glue``, or
                ``directory`` for a ``warehouse`` that nothing but its directory describes; ``uri`` says where
                the catalog is; ``storage_options`` how files are reached, as :func:`lakehouse.connect` takes
                them, where ``s3.…`` does not.

        Example::

            await lake.attach_catalog("ice", {"type": "directory", "warehouse": "s3://bucket/warehouse"})
            print(await lake.databases("ice"))
        """
        check_name(name, "catalog")
        if await self._names.has_database(name):
            raise _same_name_error(name)
        self._attached.attach(name, properties)

    async def detach_catalog(self, name: str) -> None:
        """Detaches a catalog, and closes its connections and those of its tables."""
        await self._attached.detach(name)

    async def catalogs(self) -> list[str]:
        """Returns the names of the attached catalogs, in order."""
        return self._attached.names

    # --- databases ----------------------------------------------------------------

    async def create_database(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None
    ) -> None:
        """Creates a database."""
        if self._is_catalog(name):
            raise _same_name_error(name)
        try:
            await self._names.create_database(name, comment=comment)
        except AlreadyExistsError:
            if not if_not_exists:
                raise

    async def drop_database(
        self, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> DatabaseDropResult | None:
        """Drops a database; with ``cascade`` its tables too, else it must have none.

        :meth:`undrop_database` brings it back with these tables. Returns None when there was none to drop.
        """
        try:
            return await drop_database(self._env, self._names, name, cascade=cascade)
        except NotFoundError:
            if not if_exists:
                raise
        return None

    async def undrop_database(self, name: str) -> DatabaseUndropResult:
        """Brings a dropped database back, and the tables that ``cascade`` dropped with it.

        Tables that were purged since are named in the result. A database that was created anew under the
        name is not replaced: bring its tables back one by one.
        """
        if self._is_catalog(name):
            raise _same_name_error(name)
        return await undrop_database(self._env, self._names, name)

    async def databases(self, catalog: str | None = None) -> list[str]:
        """Returns the names of all databases, in order.

        Args:
            catalog: the namespaces of this attached catalog instead, or those inside ``catalog.namespace``.
        """
        if catalog is not None:
            return await self._attached.namespaces(tuple(catalog.split(".")))
        return [name async for name in self._names.databases()]

    async def database_exists(self, name: str) -> bool:
        """Returns whether there is a database of that name."""
        return await self._names.has_database(name)

    # --- tables -------------------------------------------------------------------

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
            return Table(_listening(await create_table(self._env, self._names, parsed, schema)))
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
        parts = _catalog_parts(name)
        if parts is not None:
            return await self._attached.table(parts)
        parsed = TableName.parse(name)
        try:
            return Table(_listening(await open_table(self._env, self._names, parsed)))
        except NotFoundError as error:
            if self._is_catalog(parsed.database):
                error.add_note(f"tables of the catalog {parsed.database!r} have three parts: {name}.table")
            raise

    async def table_exists(self, name: str) -> bool:
        """Returns whether there is a table of that name; one of a catalog is loaded to find out."""
        parts = _catalog_parts(name)
        if parts is not None:
            return await self._attached.has(parts)
        return await or_none(self._names.resolve(TableName.parse(name))) is not None

    async def tables(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Yields the names of a database's tables, ``database.table``, in order.

        Args:
            database: its name; ``catalog.namespace`` for tables of an attached catalog.
            prefix: only tables whose names begin so.
            after: only tables whose names follow this one: where an earlier listing ended.
        """
        if "." in str(database) or self._is_catalog(database):
            for found in await self._attached.tables(tuple(database.split("."))):
                if found.rpartition(".")[2].startswith(prefix) and (after is None or found > after):
                    yield found
            return
        if not await self._names.has_database(database):
            await self._names.resolve(TableName(database, "any"))
        behind = after.rpartition(".")[2] if after else None
        async with contextlib.aclosing(self._names.tables(database, prefix=prefix, after=behind)) as names:
            async for name in names:
                yield str(name)

    async def drop_table(self, name: str, *, if_exists: bool = False) -> DropResult | None:
        """Drops a table: every open handle fails from then on, and the name is free.

        Its objects stay until :meth:`purge_dropped` deletes them, and until then :meth:`undrop_table`
        brings it back; the result has the time before which no purge happens. Returns None when there
        was none to drop.
        """
        try:
            return await drop_named(self._env, self._names, TableName.parse(name))
        except NotFoundError:
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
        return Table(
            _listening(await undrop_table(self._env, self._names, TableName.parse(name), table=uuid))
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
            self._env, self._names, database, grace_s=grace_s, dry_run=dry_run, progress=progress
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
            cache: keeps the metadata read; a second call makes no request for files in it.
            authorise: asked once for each table directory, before anything of it is read.
            mask_locations: directories and paths are replaced by stable pseudonyms.

        Example::

            async for entry in lake.index_metas("sales.orders"):
                print(entry.locator.file_id, entry.index_type, entry.target_key, entry.blob_size)
        """
        database, dot, _ = (name or "").partition(".")
        table = TableName.parse(name).table if name is not None and dot else None
        return iterate_index_metas(
            TableIndexSource(self._env, self._names, database=database or None, table=table),
            concurrency=concurrency,
            kinds=kinds,
            errors=errors,
            order=order,
            cache=cache,
            authorise=authorise,
            mask_locations=mask_locations,
            settings=self.settings.index,
        )

    async def rename_table(self, name: str, new_name: str) -> Table:
        """Gives a table another name, in this or another database."""
        old, new = TableName.parse(name), TableName.new(new_name)
        table = await open_table(self._env, self._names, old)
        moved = await self._names.move(old, new, table.pointer, time_ms=self._clock.now_ms())
        return Table(_listening(shared_table(self._env, new, moved)))


def _listening(table: OpenTable) -> OpenTable:
    """Returns the same table, after making sure that its commits begin what they make due."""
    return published(watched(table))


_CATALOG_PARTS = 3
"""Least number of parts in the name of a catalog's table: catalog, namespace, table."""


def _catalog_parts(name: object) -> tuple[str, ...] | None:
    """Returns the parts of the name of a catalog's table; None when the name can only be one of ours."""
    parts = tuple(name.split(".")) if isinstance(name, str) else ()
    return parts if len(parts) >= _CATALOG_PARTS else None


def _same_name_error(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name!r} would be both a database of this lake, with tables {name}.table, and a catalog, with "
        f"tables {name}.namespace.table: give the catalog another name",
        name=name,
    )
