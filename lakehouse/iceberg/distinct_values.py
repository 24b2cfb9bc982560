"""Distinct values of a table's columns, as its statistics files tell them: theta sketches in puffin files.

Metadata repeat most of the numbers. For the others the footer of the file is read, which is kept in memory,
and a sketch itself only where neither says its number.

Invariant: statistics are a help and not the table: a file that is gone, damaged or where nobody may read
tells nothing, and hides nothing that other files tell. Few files are read, however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.cache import CacheRegion
from lakehouse.config import IndexSettings
from lakehouse.errors import FormatError, LakehouseError
from lakehouse.format.puffin import THETA_SKETCH, ThetaSketch, number_of_properties
from lakehouse.iceberg.metadata import SnapshotStatistics, TableMetadata
from lakehouse.iceberg.planning.source import ManifestSource
from lakehouse.index.puffin import PuffinReader
from lakehouse.log import get_logger

__all__ = ["DistinctValues", "distinct_values"]

_log = get_logger(__name__)
_BOUNDS = IndexSettings(footer_max_bytes=16 << 20, blob_max_bytes=16 << 20)
"""Sketches have 32 KiB mostly: much larger ones are worth no memory."""
_FILES_MAX = 4
"""Statistics files that are read at most: what older ones tell is worth no more requests."""


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """Number of distinct values of one column."""

    ndv: int
    snapshot_id: int
    """Snapshot that they were counted in."""


async def distinct_values(
    source: ManifestSource, metadata: TableMetadata, fields: Collection[int]
) -> dict[int, DistinctValues]:
    """Returns the distinct values of columns by field id: those of the current snapshot, else the newest."""
    found: dict[int, DistinctValues] = {}
    reads_left = _FILES_MAX
    for file in _best_first(metadata):
        told = {number: file.ndv[number] for number in fields if number in file.ndv}
        untold = [number for number in fields if number not in found and number not in told]
        if reads_left and any(file.may_have(number) for number in untold):
            reads_left -= 1
            told |= await _read(source, file, untold)
        for number, ndv in told.items():
            found.setdefault(number, DistinctValues(ndv, file.snapshot_id))
        if len(found) == len(fields):
            break
    return found


def _best_first(metadata: TableMetadata) -> Sequence[SnapshotStatistics]:
    """Returns the files of the current snapshot, then the others, the newest first."""
    times = {one.id: one.timestamp_ms for one in metadata.snapshots.values()}

    def rank(file: SnapshotStatistics) -> tuple[bool, int]:
        return file.snapshot_id == metadata.current_snapshot_id, times.get(file.snapshot_id, 0)

    return sorted(metadata.statistics, key=rank)[::-1]


async def _read(source: ManifestSource, file: SnapshotStatistics, fields: Collection[int]) -> dict[int, int]:
    """Returns what a file tells of columns; nothing where it cannot be read."""
    try:
        return await _told(source, file, fields)
    except LakehouseError as error:
        _log.warning("a statistics file cannot be read", path=file.path, error=error)
        return {}


async def _told(source: ManifestSource, file: SnapshotStatistics, fields: Collection[int]) -> dict[int, int]:
    place, kept = source.locations.find(file.path), _Tagged(source.caches.puffin, source.tags)
    reader = PuffinReader(place.store, place.key, size=file.size, cache=kept, settings=_BOUNDS)
    sketches = {
        blob.fields[0]: blob
        for blob in (await reader.footer()).blobs
        if blob.type == THETA_SKETCH and len(blob.fields) == 1 and blob.fields[0] in fields
    }
    told = {number: number_of_properties(blob.properties) for number, blob in sketches.items()}
    untold = [number for number, ndv in told.items() if ndv is None]

    async def load(keys: Sequence[tuple[Hashable, ...]]) -> dict[tuple[Hashable, ...], int]:
        wanted = [int(str(key[-1])) for key in keys]
        blobs = await reader.blobs([sketches[number] for number in wanted])
        counts = map(_estimate, blobs)
        return {key: count for key, count in zip(keys, counts, strict=True) if count is not None}

    keys = {number: ("theta", place.store.url, place.key, file.size, number) for number in untold}
    read = await kept.region.get_many(keys.values(), load, tags=kept.tags) if keys else {}
    told |= {number: read.get(key) for number, key in keys.items()}
    return {number: ndv for number, ndv in told.items() if ndv is not None}


def _estimate(blob: bytes) -> int | None:
    """Returns the estimate of a sketch; None where it is damaged, as its neighbours need not be."""
    try:
        return round(ThetaSketch.parse(blob).estimate)
    except FormatError:
        return None


@dataclass(frozen=True, slots=True)
class _Tagged:
    """A cache whose entries go when those of the table go."""

    region: CacheRegion[Any, Any]
    tags: tuple[Hashable, ...]

    def get_if_present(self, key: Any) -> Any:
        return self.region.get_if_present(key)

    def put(self, key: Any, value: Any) -> bool:
        return self.region.put(key, value, tags=self.tags)

    def invalidate(self, key: Any) -> int:
        return self.region.invalidate(key)
