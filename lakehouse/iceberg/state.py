"""State of an Iceberg table: one snapshot, and all that other processes plan and read it with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lakehouse.config import Settings
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakehouse.iceberg.types import IcebergSchema

__all__ = ["TableState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A snapshot of a table, as a value that can be pickled; made by ``IcebergTable.state``.

    Places of files travel with the options that they are reached by, secrets too.
    """

    name: str
    """URL of the table, or its name in a catalog."""
    metadata: TableMetadata
    """Metadata of the table, of other snapshots nothing."""
    snapshot: IcebergSnapshot | None
    """None = the table has none."""
    schema: IcebergSchema
    """Schema that rows are shown in."""
    locations: Locations = field(repr=False)
    settings: Settings = field(repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        metadata: TableMetadata,
        snapshot: IcebergSnapshot | None,
        schema: IcebergSchema,
        *,
        locations: Locations,
        settings: Settings,
    ) -> TableState:
        """Returns the state of a snapshot; leaves out what metadata say of others."""
        kept = {} if snapshot is None else {snapshot.id: snapshot}
        current = None if snapshot is None else snapshot.id
        small = replace(
            metadata,
            snapshots=kept,
            current_snapshot_id=current,
            snapshot_log=(),
            metadata_log=(),
            refs={},
        )
        return cls(
            name=name,
            metadata=small,
            snapshot=snapshot,
            schema=schema,
            locations=locations,
            settings=settings,
        )
