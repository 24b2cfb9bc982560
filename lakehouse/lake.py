"""The facade: connect to a warehouse, and everything else from there.

Invariant: a lake is configuration until it is entered; entering it starts nothing but a place for
background work, and leaving it waits for that and gives every connection back.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import Settings
from lakehouse.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
)
from lakehouse.format.name_pointer import NameState
from lakehouse.format.table_schema import TableSchema, check_options, check_schema, schema_from_arrow
from lakehouse.index.enumerate import Authorise, IndexMetaScan, iterate_index_metas
from lakehouse.index.models import IndexType
from lakehouse.index.reader import MetaCache
from lakehouse.io import ObjectStore, load_settings, open_store
from lakehouse.io.background import Background
from lakehouse.io.check import check_store
from lakehouse.storage.drop import drop_table
from lakehouse.storage.index_source import TableIndexSource
from lakehouse.storage.maintenance import ProgressCallback
from lakehouse.storage.names import Names, TableName
from lakehouse.storage.opened import Environment, create_table, open_table
from lakehouse.storage.purge import PurgeReport, purge_dropped
from lakehouse.storage.table import Table
from lakehouse.storage.table_caches import TableCaches

__all__ = ["Lake", "connect"]


def connect(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | Mapping[str, object] | None = None,
    check: bool = False,
    clock: Clock | None = None,
) -> Lake:
    """A warehouse: a place in a bucket or a directory that holds databases of tables.

    Args:
        url: ``s3://bucket/warehouse``, ``file:///path``, ``memory://name``, or any scheme of fsspec.
        storage_options: fsspec's, such as ``endpoint_url``, ``key`` and ``secret``; the ``AWS_``
            environment works too.
        settings: bounds, as ``{"cache.max_bytes": …}``; what is not given comes from the
            environment, the configuration file, the defaults.
        check: try on entering whether the store is safe to commit on.
        clock: for tests.

    Example::

        async with lakehouse.connect("s3://bucket/warehouse") as lake:
            orders = await lake.table("sales.orders")
            await orders.append([{"id": 1, "amount": 9.5}])
    """
    found = settings if isinstance(settings, Settings) else load_settings(settings)
    store = open_store(url, storage_options=storage_options, settings=found, clock=clock)
    return Lake(store, settings=found, check=check, clock=clock)


class Lake:
    """A warehouse. Made by :func:`connect`.

    Args:
        store: its root is the warehouse.
        settings: bounds.
        check: try on entering whether the store is safe to commit on.
        clock: for tests.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        settings: Settings | None = None,
        check: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        self.settings = settings or Settings()
        self.caches = CacheBudget(self.settings.cache)
        """Everything the lake remembers; ``caches.stats()`` says what it is worth."""
        self._check = check
        self._clock = clock or SystemClock()
        self._names = Names(store)
        self._env = Environment(store, self.settings, self._clock, TableCaches(self.caches), self._spawn)
        self._background = Background()
        self._stack: contextlib.AsyncExitStack | None = None

    def __repr__(self) -> str:
        return f"<Lake at {self.store.url}>"

    async def __aenter__(self) -> Self:
        if self._stack is not None:
            raise InvalidInputError("this lake is open already: connect a second time for a second one")
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.store)
            if self._check:
                await check_store(self.store)
            stack.push_async_callback(self._background.aclose)
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

    def _spawn(self, work: Callable[..., Awaitable[None]], *args: object, optional: bool = False) -> bool:
        """Starts work beside everything else, if somebody will wait for its end; whether it did."""
        if self._stack is None:
            return False
        self._background.start(work, *args, optional=optional)
        return True

    # --- databases ----------------------------------------------------------------

    async def create_database(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None
    ) -> None:
        """Makes a database."""
        try:
            await self._names.create_database(name, comment=comment)
        except AlreadyExistsError:
            if not if_not_exists:
                raise

    async def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Ends a database; with ``cascade`` its tables too, else it must have none."""
        try:
            if cascade:
                for table in [one async for one in self._names.tables(name)]:
                    await self.drop_table(str(table), if_exists=True)
            await self._names.drop_database(name)
        except NotFoundError:
            if not if_exists:
                raise

    async def databases(self) -> list[str]:
        """Names of all databases, in order."""
        return [name async for name in self._names.databases()]

    async def database_exists(self, name: str) -> bool:
        """Whether there is a database of that name."""
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
        """Makes a table.

        Args:
            name: ``database.table``.
            schema: its columns.
            primary_key: columns that tell rows apart; none makes an append-only table.
            partition_by: columns whose values divide the table.
            bucket: parts that rows are spread over by the hash of their key.
            options: see ``docs/spec/v1/schema.md``.
            comment: for people.
            indexes: by what is indexed a kind or ``{kind: options}``, such as
                ``{"host": "inverted", "message": {"fulltext": {"analyzer": "English"}}}``.
            if_not_exists: a table of that name is returned as it is.

        Example::

            orders = await lake.create_table(
                "sales.orders",
                pa.schema({"id": pa.int64(), "amount": pa.float64()}),
                primary_key=["id"],
            )
        """
        parsed = TableName.parse(name)
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
            return Table(await create_table(self._env, self._names, parsed, schema))
        except AlreadyExistsError:
            if not if_not_exists:
                raise
        return await self.table(name)

    async def table(self, name: str) -> Table:
        """The table of that name."""
        return Table(await open_table(self._env, self._names, TableName.parse(name)))

    async def table_exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        try:
            await self._names.resolve(TableName.parse(name))
        except NotFoundError as missing:
            if missing.kind == "missing-bucket":
                raise
            return False
        return True

    async def tables(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Names of a database's tables, ``database.table``, in order.

        Args:
            database: its name.
            prefix: only tables whose names begin so.
            after: only tables behind this name: where an earlier listing ended.
        """
        if not await self._names.has_database(database):
            await self._names.resolve(TableName(database, "any"))
        behind = after.rpartition(".")[2] if after else None
        async with contextlib.aclosing(self._names.tables(database, prefix=prefix, after=behind)) as names:
            async for name in names:
                yield str(name)

    async def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Ends a table: whoever has it open is told. Its objects stay until they are cleaned up."""
        parsed = TableName.parse(name)
        try:
            core = await open_table(self._env, self._names, parsed)
        except NotFoundError:
            if not if_exists:
                raise
            return
        with contextlib.suppress(NotFoundError):
            await drop_table(core)
        now_ms = core.history.time.now_ms()
        try:
            await self._names.release(parsed, core.pointer, state=NameState.DROPPED, time_ms=now_ms)
        except LakehouseError as error:
            raise CommitUnknownError(
                f"table {name!r} is dropped, but it is not known whether its name is free: {error} "
                "Drop it again.",
                table=name,
            ) from error

    async def purge_dropped(
        self,
        database: str | None = None,
        *,
        grace_s: float | None = None,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> PurgeReport:
        """Deletes the objects of tables that were dropped long enough ago.

        Args:
            database: only its tables; None = all, those of dropped databases too.
            grace_s: seconds since the drop; None = each table's option ``delete_grace_s``. Less is safe
                only when nobody reads the dropped tables any more.
            dry_run: delete nothing and say what would be deleted now.
            progress: told how far it has got.
        """
        return await purge_dropped(self.store, database, grace_s=grace_s, dry_run=dry_run, progress=progress)

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
        """The metadata of every index of the tables' newest snapshots, with one request per index file.

        Args:
            name: only of this ``database`` or this ``database.table``; None = all.
            concurrency: files read at once; ``index.concurrency`` when not given.
            kinds: only indexes of these kinds.
            errors: ``raise`` ends with the first problem; ``collect`` goes on and reports.
            order: entries of files as they are read, or by table.
            cache: keeps what was read; a second call makes no request for files that were.
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
        old, new = TableName.parse(name), TableName.parse(new_name)
        core = await open_table(self._env, self._names, old)
        moved = await self._names.move(old, new, core.pointer, time_ms=self._clock.now_ms())
        return Table(type(core)(self._env, new, moved))
