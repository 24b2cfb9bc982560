"""Tasks of a table's snapshot by the letter of the specification: every entry, every rule, one by one.

A second planner, for tests of reading that must not depend on the engine's own: it prunes nothing and
compares each data file with each delete file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakehouse.format.avro import AvroFile
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakehouse.iceberg.planning.tasks import DeleteFile, ScanTask

__all__ = ["tasks_of"]

_DELETED = 2
_POSITIONS, _EQUALITY = 1, 2
_PATH_ID = 2147483546


async def tasks_of(
    locations: Locations, metadata: TableMetadata, snapshot: IcebergSnapshot | None
) -> list[ScanTask]:
    """The tasks of a whole snapshot; none of a table without one."""
    if snapshot is None:
        return []
    data: list[ScanTask] = []
    deletes: list[tuple[DeleteFile, tuple[Any, ...]]] = []
    for manifest in await _manifests(locations, snapshot):
        for entry in await _entries(locations, manifest):
            file, spec_id = entry["data_file"], manifest["partition_spec_id"]
            partition = tuple((file["partition"] or {}).values())
            if file.get("content", 0):
                deletes.append((_delete(file, entry, spec_id), partition))
            else:
                data.append(_task(file, entry, spec_id, partition))
    return [_with_deletes(task, deletes, metadata) for task in data]


async def _records(locations: Locations, path: str) -> list[dict[str, Any]]:
    place = locations.find(path)
    fetched = await place.store.get(place.key)
    rows: list[dict[str, Any]] = AvroFile.parse(fetched.data, key=path).to_arrow().to_pylist()
    return rows


async def _manifests(locations: Locations, snapshot: IcebergSnapshot) -> list[dict[str, Any]]:
    if snapshot.manifest_list is not None:
        return await _records(locations, snapshot.manifest_list)
    return [{"manifest_path": path, "partition_spec_id": 0} for path in snapshot.manifests]


async def _entries(locations: Locations, manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Entries that are live, with what they inherit from the manifest."""
    found = []
    next_row = manifest.get("first_row_id")
    for entry in await _records(locations, manifest["manifest_path"]):
        if entry["status"] == _DELETED:
            continue
        file = entry["data_file"]
        if entry.get("sequence_number") is None:
            entry["sequence_number"] = manifest.get("sequence_number") or 0
        if file.get("first_row_id") is None and next_row is not None and not file.get("content", 0):
            file["first_row_id"] = next_row
            next_row += file["record_count"]
        found.append(entry)
    return iter(found)


def _task(file: dict[str, Any], entry: dict[str, Any], spec_id: int, partition: tuple[Any, ...]) -> ScanTask:
    return ScanTask(
        path=file["file_path"],
        format=file["file_format"].lower(),
        size=file["file_size_in_bytes"],
        rows=file["record_count"],
        spec_id=spec_id,
        partition=partition,
        sequence=entry["sequence_number"],
        first_row_id=file.get("first_row_id"),
    )


def _delete(file: dict[str, Any], entry: dict[str, Any], spec_id: int) -> DeleteFile:
    kind = file["file_format"].lower()
    lows, highs = dict(file["lower_bounds"] or ()), dict(file["upper_bounds"] or ())
    bounds = None
    if file["content"] == _POSITIONS and _PATH_ID in lows and _PATH_ID in highs:
        bounds = (lows[_PATH_ID].decode(), highs[_PATH_ID].decode())
    referenced = file.get("referenced_data_file")
    return DeleteFile(
        kind="equality" if file["content"] == _EQUALITY else "vector" if kind == "puffin" else "position",
        path=file["file_path"],
        format=kind,
        size=file["file_size_in_bytes"],
        rows=file["record_count"],
        spec_id=spec_id,
        sequence=entry["sequence_number"],
        equality_ids=tuple(file.get("equality_ids") or ()),
        referenced=referenced,
        offset=file.get("content_offset"),
        length=file.get("content_size_in_bytes"),
        path_bounds=bounds,
    )


def _with_deletes(
    task: ScanTask, deletes: list[tuple[DeleteFile, tuple[Any, ...]]], metadata: TableMetadata
) -> ScanTask:
    import dataclasses

    applied = [delete for delete, partition in deletes if _applies(task, delete, partition, metadata)]
    if any(delete.kind == "vector" for delete in applied):
        applied = [delete for delete in applied if delete.kind != "position"]
    return dataclasses.replace(task, deletes=tuple(applied))


def _applies(task: ScanTask, delete: DeleteFile, partition: tuple[Any, ...], metadata: TableMetadata) -> bool:
    same = delete.spec_id == task.spec_id and partition == task.partition
    if delete.kind == "equality":
        return task.sequence < delete.sequence and (same or not metadata.specs[delete.spec_id].fields)
    if task.sequence > delete.sequence:
        return False
    if delete.kind == "vector":
        return delete.referenced == task.path
    return same and delete.referenced in (None, task.path)
