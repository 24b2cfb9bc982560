"""IcebergTable and open without await: the twin of :mod:`lakehouse.iceberg.table`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/iceberg/table.py: edit that file, then run `make docs`.
# ruff: noqa: A001

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import pyarrow as pa

from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.expr import Expr
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.planning import IcebergPlan
from lakehouse.iceberg.state import TableState
from lakehouse.iceberg.table import IcebergTable as AsyncIcebergTable
from lakehouse.iceberg.table import open as async_open
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.iceberg_scan import IcebergScan

__all__ = ["IcebergTable", "open"]


def open(
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

        with lakehouse.sync.iceberg.open("s3://bucket/warehouse/db/events") as table:
            plan = table.plan("event_time >= '2026-01-01'")
    """
    bridge, wrapped = Bridge.entering(
        async_open,
        url,
        storage_options=storage_options,
        locations=locations,
        moved=moved,
        settings=settings,
        clock=clock,
    )
    return IcebergTable(wrapped, bridge)


class IcebergTable:
    """An Iceberg table of version 1, 2 or 3; made by :func:`open`, or by ``lake.table`` through a catalog."""

    def __init__(self, wrapped: AsyncIcebergTable, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def name(self) -> str:
        """Name of the table, for people."""
        return self._wrapped.name

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __enter__(self) -> Self:
        self._bridge.enter(self._wrapped)
        return self

    def __exit__(self, *why: object) -> None:
        self._bridge.leave(self._wrapped)

    def close(self) -> None:
        """Gives connections back; what it gave out is refused from then on."""
        self._bridge.leave(self._wrapped)

    @property
    def metadata(self) -> TableMetadata:
        """The metadata that the table shows: schemas, partition specs, snapshots, properties."""
        return self._wrapped.metadata

    def refresh(self) -> None:
        """Loads the metadata again, so that newer snapshots are seen."""
        return self._bridge.call(self._wrapped.refresh)

    def pinned(self, snapshot: int | None, schema_id: int) -> IcebergTable:
        """Returns the table with this snapshot as its current one, in this schema; nothing is loaded.

        Args:
            snapshot: id; None = a table without rows.
            schema_id: id of the schema that rows are shown in.

        Raises:
            NotFoundError: there is no such snapshot, or no such schema.
        """
        return IcebergTable(self._wrapped.pinned(snapshot, schema_id), self._bridge)

    def schema(self) -> pa.Schema:
        """Columns that the table has now, those of types that are not read left out."""
        return self._bridge.call(self._wrapped.schema)

    def plan(
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
        return self._bridge.call(
            self._wrapped.plan,
            where,
            runtime_filters=runtime_filters,
            snapshot=snapshot,
            timestamp=timestamp,
            tag=tag,
            ref=ref,
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

            rows = table.scan("amount > 10", columns=["id", "amount"]).to_arrow()
        """
        return IcebergScan(
            self._wrapped.scan(
                where,
                columns=columns,
                limit=limit,
                snapshot=snapshot,
                timestamp=timestamp,
                tag=tag,
                ref=ref,
                runtime_filters=runtime_filters,
            ),
            self._bridge,
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
        return self._wrapped.state(snapshot=snapshot, timestamp=timestamp, tag=tag, ref=ref)

    def snapshots(self) -> pa.Table:
        """Returns one row per snapshot: id, parent, kind, time, schema, references, summary."""
        return self._bridge.call(self._wrapped.snapshots)

    def refs(self) -> pa.Table:
        """Returns one row per branch and tag."""
        return self._bridge.call(self._wrapped.refs)

    def history(self) -> pa.Table:
        """Returns one row per change of the current snapshot, oldest first."""
        return self._bridge.call(self._wrapped.history)

    def manifests(self, *, snapshot: int | None = None) -> pa.Table:
        """Returns one row per manifest of a snapshot; None = the current one."""
        return self._bridge.call(self._wrapped.manifests, snapshot=snapshot)

    def files(self, *, snapshot: int | None = None) -> pa.Table:
        """Returns one row per live data file of a snapshot, with its delete files; None = the current one."""
        return self._bridge.call(self._wrapped.files, snapshot=snapshot)

    def partitions(self, *, snapshot: int | None = None) -> pa.Table:
        """Returns one row per partition of a snapshot: files, rows as stored, bytes, delete files."""
        return self._bridge.call(self._wrapped.partitions, snapshot=snapshot)
