"""An Iceberg table: opened, planned and read; never written.

Invariant: one :class:`IcebergTable` shows the metadata that it was opened with, until ``refresh`` is awaited.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from lakehouse.cache import CacheBudget, identity_tags
from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakehouse.iceberg.opening import load_metadata, open_locations
from lakehouse.iceberg.planning import IcebergPlan, ManifestSource, PlanCaches, planned
from lakehouse.iceberg.reading import Reading
from lakehouse.iceberg.relations import (
    history_relation,
    manifests_relation,
    partitions_relation,
    refs_relation,
    snapshots_relation,
)
from lakehouse.iceberg.scan import IcebergScan
from lakehouse.iceberg.state import TableState
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.io import load_settings
from lakehouse.storage.metadata import RunCaches
from lakehouse.storage.scan import to_expr
from lakehouse.storage.tables import time_ms_of

__all__ = ["IcebergTable", "Reload", "open"]

Reload = Callable[[], Awaitable[TableMetadata]]
"""Loads the newest metadata of a table."""


async def open(  # noqa: A001
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    locations: Sequence[str] = (),
    moved: bool = False,
    settings: Settings | Mapping[str, object] | None = None,
    clock: Clock | None = None,
) -> IcebergTable:
    """Opens an Iceberg table that no catalog is asked for.

    Args:
        url: its directory, in which the newest metadata are found, or a metadata file.
        storage_options: as those of :func:`lakehouse.connect`.
        locations: further places where files of the table may be, as URLs.
        moved: the table was copied to where it is opened: its paths begin with where it was before.
        settings: bounds, as ``{"cache.max_bytes": …}``.
        clock: for tests.

    Example::

        async with await iceberg.open("s3://bucket/warehouse/db/events") as table:
            plan = await table.plan("event_time >= '2026-01-01'")
    """
    resolved = settings if isinstance(settings, Settings) else load_settings(settings)
    places = open_locations(
        url,
        storage_options=storage_options,
        locations=locations,
        moved=moved,
        settings=resolved,
        clock=clock,
    )

    async def reload() -> TableMetadata:
        return await load_metadata(places, url)

    caches = CacheBudget.of(resolved)
    return IcebergTable(url, places, await reload(), reload=reload, caches=caches, settings=resolved)


class IcebergTable:
    """An Iceberg table of version 1, 2 or 3; made by :func:`open`, or by ``lake.table`` through a catalog.

    Args:
        name: for people.
        locations: the places of its files.
        metadata: as they are now.
        reload: loads them again.
        caches: budget of what is kept of manifests and data files.
        settings: bounds.
    """

    def __init__(
        self,
        name: str,
        locations: Locations,
        metadata: TableMetadata,
        *,
        reload: Reload,
        caches: CacheBudget,
        settings: Settings,
    ) -> None:
        self.name = name
        self._locations, self._reload, self._settings = locations, reload, settings
        self._metadata = metadata
        self._caches = caches
        self._source = ManifestSource(
            locations,
            PlanCaches(caches, locations.scope),
            settings.iceberg.manifest_concurrency,
            identity_tags(metadata.identity),
        )

    def __repr__(self) -> str:
        return f"<IcebergTable {self.name}, version {self._metadata.format_version}>"

    async def __aenter__(self) -> Self:
        await self._locations.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._locations.aclose()

    @property
    def metadata(self) -> TableMetadata:
        """The metadata that the table shows: schemas, partition specs, snapshots, properties."""
        return self._metadata

    @property
    def source(self) -> ManifestSource:
        """The source of the table's manifests: for engines that are built on this one."""
        return self._source

    @property
    def reading(self) -> Reading:
        """All that the table's files are read with: for engines that are built on this one."""
        return self._reading(self._metadata.current_schema)

    async def refresh(self) -> None:
        """Loads the metadata again, so that newer snapshots are seen."""
        self._metadata = await self._reload()

    def pinned(self, snapshot: int | None, schema_id: int) -> IcebergTable:
        """Returns the table with this snapshot as its current one, in this schema; nothing is loaded.

        Args:
            snapshot: id; None = a table without rows.
            schema_id: id of the schema that rows are shown in.

        Raises:
            NotFoundError: there is no such snapshot, or no such schema.
        """
        if snapshot is not None:
            self._metadata.snapshot_by_id(snapshot)
        if schema_id not in self._metadata.schemas:
            raise NotFoundError(
                f"{self.name} has no schema {schema_id}, it may have been removed; read another snapshot",
                schema=schema_id,
            )
        table = copy.copy(self)
        table._metadata = dataclasses.replace(
            self._metadata, current_snapshot_id=snapshot, current_schema_id=schema_id
        )
        return table

    async def schema(self) -> pa.Schema:
        """Columns that the table has now, those of types that are not read left out."""
        return self._metadata.current_schema.table_schema.arrow()

    # --- planning -----------------------------------------------------------------

    async def plan(
        self,
        where: Expr | str | None = None,
        *,
        runtime_filters: Sequence[RuntimeFilter] | Literal["off"] = (),
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        ref: str | None = None,
        since: int | None = None,
    ) -> IcebergPlan:
        """Plans a scan: the data files that may hold rows that match, with the deletes that apply to them.

        Args:
            where: a condition, as SQL text or an expression.
            runtime_filters: values that the other side of a join has; files without any are left out.
            snapshot: plan this snapshot, by its id.
            timestamp: plan the snapshot that was current then.
            tag: plan the snapshot of a tag.
            ref: plan the snapshot of a branch or a tag.
            since: plan only files that were appended after this snapshot, which must be an ancestor.
        """
        wanted, schema = self._view(snapshot, timestamp, tag, ref)
        return await planned(
            self._source,
            self._metadata,
            wanted,
            schema,
            where=to_expr(where),
            filters=self._applied(runtime_filters),
            since=since,
        )

    def scan(
        self,
        where: Expr | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        ref: str | None = None,
        runtime_filters: Sequence[RuntimeFilter] | Literal["off"] = (),
    ) -> IcebergScan:
        """The rows that match, without deleted ones; nothing is read before they are asked for.

        Args:
            where: a condition, as SQL text or an expression.
            columns: names, in order; None = all.
            limit: maximum rows to return; None = all.
            snapshot: read this snapshot, by its id.
            timestamp: read the snapshot that was current then.
            tag: read the snapshot of a tag.
            ref: read the snapshot of a branch or a tag.
            runtime_filters: filters by which files are left out; rows of the others are not asked.

        Example::

            rows = await table.scan("amount > 10", columns=["id", "amount"]).to_arrow()
        """
        condition = to_expr(where)
        plan = functools.partial(
            self.plan,
            condition,
            runtime_filters=runtime_filters,
            snapshot=snapshot,
            timestamp=timestamp,
            tag=tag,
            ref=ref,
        )
        return IcebergScan(plan, self._reading, where=condition, columns=columns, limit=limit)

    def _reading(self, schema: IcebergSchema) -> Reading:
        return Reading(
            metadata=self._metadata,
            schema=schema,
            locations=self._locations,
            caches=RunCaches(self._caches, group=self._locations.scope.who),
            settings=self._settings.table,
        )

    def state(
        self,
        *,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        ref: str | None = None,
    ) -> TableState:
        """Returns a snapshot of the table as a value, which other processes can plan and read.

        Args:
            snapshot: this snapshot, by its id.
            timestamp: the snapshot that was current then.
            tag: the snapshot of a tag.
            ref: the snapshot of a branch or a tag.
        """
        wanted, schema = self._view(snapshot, timestamp, tag, ref)
        return TableState.of(
            self.name,
            self._metadata,
            wanted,
            schema,
            locations=self._locations,
            settings=self._settings,
        )

    # --- metadata -----------------------------------------------------------------

    async def snapshots(self) -> pa.Table:
        """Returns one row per snapshot: id, parent, kind, time, schema, references, summary."""
        return snapshots_relation(self._metadata)

    async def refs(self) -> pa.Table:
        """Returns one row per branch and tag."""
        return refs_relation(self._metadata)

    async def history(self) -> pa.Table:
        """Returns one row per change of the current snapshot, oldest first."""
        return history_relation(self._metadata)

    async def manifests(self, *, snapshot: int | None = None) -> pa.Table:
        """Returns one row per manifest of a snapshot; None = the current one."""
        return manifests_relation(await self._source.manifests(self._chosen(snapshot)))

    async def files(self, *, snapshot: int | None = None) -> pa.Table:
        """Returns one row per live data file of a snapshot, with its delete files; None = the current one."""
        return (await self.plan(snapshot=snapshot)).files()

    async def partitions(self, *, snapshot: int | None = None) -> pa.Table:
        """Returns one row per partition of a snapshot: files, rows as stored, bytes, delete files."""
        return partitions_relation(await self.files(snapshot=snapshot))

    def _view(
        self,
        snapshot: int | None,
        timestamp: dt.datetime | int | str | None,
        tag: str | None,
        ref: str | None,
    ) -> tuple[IcebergSnapshot | None, IcebergSchema]:
        """Returns a snapshot, and the schema that its rows are shown in."""
        wanted = self._chosen(snapshot, timestamp, tag, ref)
        # A branch goes on with the table's schema; what is read as of a moment has the schema of then.
        named = None if ref is None else self._metadata.refs.get(ref)
        is_tag = tag is not None or (named is not None and named.kind == "tag")
        as_of = snapshot is not None or timestamp is not None or is_tag
        return wanted, self._metadata.schema_of(wanted) if as_of else self._metadata.current_schema

    def _chosen(
        self,
        snapshot: int | None = None,
        timestamp: dt.datetime | int | str | None = None,
        tag: str | None = None,
        ref: str | None = None,
    ) -> IcebergSnapshot | None:
        """Returns the snapshot that is asked for; None = the table has none."""
        given = {"snapshot": snapshot, "timestamp": timestamp, "tag": tag, "ref": ref}
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise InvalidInputError(f"{' and '.join(named)} name a snapshot each: give one of them")
        if snapshot is not None:
            return self._metadata.snapshot_by_id(snapshot)
        if timestamp is not None:
            return self._metadata.snapshot_at(time_ms_of(timestamp))
        if tag is not None:
            return self._metadata.snapshot_of_ref(tag, "tag")
        return self._metadata.current_snapshot if ref is None else self._metadata.snapshot_of_ref(ref)

    def _applied(self, filters: Sequence[RuntimeFilter] | Literal["off"]) -> Sequence[RuntimeFilter]:
        """Returns the runtime filters that plans are to apply."""
        if isinstance(filters, str):
            if filters != "off":
                raise InvalidInputError(f"runtime_filters is a list of filters or 'off', not {filters!r}")
            return ()
        return filters if self._settings.iceberg.runtime_filters else ()
