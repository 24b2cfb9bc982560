"""Facts of Iceberg's tables: from the columns of manifests, and from statistics files that metadata names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.catalog.statistics.values import ColumnFacts, TableStats
from lakehouse.format.schema import Field, arrow_field
from lakehouse.iceberg import IcebergTable
from lakehouse.iceberg.distinct_values import DistinctValues, distinct_values
from lakehouse.iceberg.planning import FileSet

__all__ = ["iceberg_facts_of"]


async def iceberg_facts_of(table: IcebergTable, columns: Sequence[str]) -> TableStats:
    """Returns the facts of a table's current snapshot that metadata tells of it and of these columns."""
    metadata = table.metadata
    if metadata.current_snapshot_id is None:
        return TableStats(snapshot=None, rows=0, rows_are_exact=True, bytes=0, columns={})
    snapshot = metadata.snapshots[metadata.current_snapshot_id]
    manifests = await table.source.manifests(snapshot)
    files = await table.source.files([one for one in manifests if not one.content], metadata.specs)
    # Whatever deletes rows makes of what files say an upper bound.
    is_exact = all(not one.content for one in manifests)
    counted = files.rows
    is_known = bool((counted >= 0).all())
    fields = {field.name: field for field in metadata.current_schema.fields}
    asked = [fields[name] for name in columns if name in fields]
    distinct = await distinct_values(table.source, metadata, [field.id for field in asked])
    return TableStats(
        snapshot=snapshot.id,
        rows=int(counted.sum()) if is_known else None,
        rows_are_exact=is_exact,
        bytes=int(files.sizes.sum()),
        columns={
            field.name: _column(field, files, distinct.get(field.id), snapshot.id, exact=is_exact)
            for field in asked
        },
    )


def _column(
    field: Field, files: FileSet, distinct: DistinctValues | None, snapshot: int, *, exact: bool
) -> ColumnFacts:
    nulls = files.counts(lambda part: part.nulls(field.id))
    low, high = _bounds(field, files, nulls)
    return ColumnFacts(
        nulls=int(nulls.sum()) if bool((nulls >= 0).all()) else None,
        low=low,
        high=high,
        has_bounds=low is not None and high is not None,
        # Bounds in manifests may be cut, which nothing there tells of.
        is_exact=exact and pa.types.is_primitive(arrow_field(field).type),
        ndv=None if distinct is None else distinct.ndv,
        ndv_snapshot=None if distinct is None else distinct.snapshot_id,
        ndv_is_current=distinct is not None and distinct.snapshot_id == snapshot,
    )


def _bounds(field: Field, files: FileSet, nulls: Any) -> tuple[Any, Any]:
    kind = arrow_field(field).type
    if pa.types.is_nested(kind):
        return None, None
    low = files.raw_bounds(lambda part: part.low(field.id), kind)
    high = files.raw_bounds(lambda part: part.high(field.id), kind)
    # A file without a bound may have any value, unless all its values are null.
    has_values = (nulls < 0) | (nulls < files.rows)
    for bound in (low, high):
        unknown = np.asarray(bound.is_null().to_numpy(zero_copy_only=False)) & has_values
        if bool(unknown.any()) or bound.null_count == len(bound):
            return None, None
    return pc.min(low).as_py(), pc.max(high).as_py()
