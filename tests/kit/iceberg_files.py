"""Tables of Iceberg in memory whose data and delete files are made one by one, as any writer makes them."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.cache import CacheBudget
from lakehouse.config import TableSettings
from lakehouse.expr import parse_where
from lakehouse.format.puffin import PuffinBuilder
from lakehouse.format.puffin.deletion_vector import (
    DELETION_VECTOR,
    deletion_vector_properties,
    encode_deletion_vector,
)
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata_json import decode_metadata
from lakehouse.iceberg.planning.tasks import DeleteFile, ScanTask
from lakehouse.iceberg.reading import Reading, task_scan
from lakehouse.storage.metadata import RunCaches
from lakehouse.storage.scan import Scan
from tests.kit.iceberg_metadata import document

__all__ = ["MadeTable", "field", "rows_of", "with_ids"]

_tables = itertools.count()
_ID = "PARQUET:field_id"


def field(number: int, name: str, kind: Any, *, required: bool = False, **more: Any) -> dict[str, Any]:
    """A field as metadata have it."""
    return {"id": number, "name": name, "type": kind, "required": required, **more}


def with_ids(rows: pa.Table, ids: Sequence[int]) -> pa.Table:
    """The rows with these ids of their columns."""
    fields = [part.with_metadata({_ID: str(number)}) for part, number in zip(rows.schema, ids, strict=True)]
    return rows.cast(pa.schema(fields))


class MadeTable:
    """A table of these fields; files are written through the store, so that requests can be counted.

    Args:
        fields: of the current schema.
        older: fields of earlier schemas, the first one first.
        specs: partition specs by id, as metadata have their fields.
        properties: of the table.
        settings: of scans.
    """

    def __init__(
        self,
        fields: Sequence[dict[str, Any]],
        *,
        older: Sequence[Sequence[dict[str, Any]]] = (),
        specs: Mapping[int, list[dict[str, Any]]] | None = None,
        properties: Mapping[str, str] | None = None,
        settings: TableSettings | None = None,
    ) -> None:
        self.url = f"memory://iceberg-made/{next(_tables)}"
        schemas = [{"schema-id": at, "fields": list(one)} for at, one in enumerate([*older, fields])]
        made = document(
            3,
            location=self.url,
            schemas=schemas,
            current_schema_id=len(older),
            partition_specs=[
                {"spec-id": number, "fields": parts} for number, parts in (specs or {0: []}).items()
            ],
            default_spec_id=0,
            properties=dict(properties or {}),
        )
        self.metadata = decode_metadata(json.dumps(made).encode(), f"{self.url}/metadata/v1.metadata.json")
        self.locations = Locations(self.url)
        self.locations.admit(self.metadata)
        self.reading = Reading(
            metadata=self.metadata,
            schema=self.metadata.current_schema,
            locations=self.locations,
            caches=RunCaches(CacheBudget()),
            settings=settings or TableSettings(),
        )
        self._files = itertools.count()

    async def put(self, data: bytes, kind: str = "parquet") -> str:
        """Writes an object; returns its path."""
        key = f"data/{next(self._files):05}.{kind}"
        await self.locations.store.put(key, data)
        return f"{self.url}/{key}"

    async def parquet(self, rows: pa.Table, **options: Any) -> tuple[str, int]:
        """Writes rows; returns the path and size of the file."""
        sink = io.BytesIO()
        pq.write_table(rows, sink, **options)
        return await self.put(sink.getvalue()), len(sink.getvalue())

    async def data(self, rows: pa.Table, ids: Sequence[int] | None = None, **task: Any) -> ScanTask:
        """Writes a data file with these ids of its columns (None = none); returns its task."""
        return await self.data_as(rows, ids, {}, **task)

    async def data_as(
        self, rows: pa.Table, ids: Sequence[int] | None, options: Mapping[str, Any], **task: Any
    ) -> ScanTask:
        """Writes a data file with options of pyarrow's writer; returns its task."""
        named = with_ids(rows, ids) if ids else rows
        path, size = await self.parquet(named, **{"row_group_size": 7, **options})
        return ScanTask(path=path, size=size, rows=rows.num_rows, **task)

    async def positions(self, lines: Iterable[tuple[str, int]], **delete: Any) -> DeleteFile:
        """Writes a position delete file of these paths and rows."""
        pairs = list(lines)
        rows = pa.table(
            {
                "file_path": pa.array([path for path, _ in pairs], pa.string()),
                "pos": pa.array([row for _, row in pairs], pa.int64()),
            }
        )
        path, size = await self.parquet(with_ids(rows, [2147483546, 2147483545]), row_group_size=5)
        return DeleteFile(kind="position", path=path, size=size, rows=len(pairs), **delete)

    async def equality(self, rows: pa.Table, ids: Sequence[int], **delete: Any) -> DeleteFile:
        """Writes an equality delete file of these rows, which are compared by all their columns."""
        path, size = await self.parquet(with_ids(rows, ids))
        delete = {"equality_ids": tuple(ids), "sequence": 2, **delete}
        return DeleteFile(kind="equality", path=path, size=size, rows=rows.num_rows, **delete)

    async def vectors(self, rows: Mapping[str, Sequence[int]]) -> dict[str, DeleteFile]:
        """Writes a puffin file with a vector for each path."""
        builder, chunks = PuffinBuilder(allow_duplicates=True), []
        for path, numbers in rows.items():
            properties = deletion_vector_properties(path, len(numbers))
            chunks += builder.add(DELETION_VECTOR, encode_deletion_vector(numbers), properties=properties)
        blobs = dict(zip(rows, builder.footer.blobs, strict=True))
        data = b"".join([*chunks, builder.finish()])
        place = await self.put(data, "puffin")
        return {
            path: DeleteFile(
                kind="vector",
                path=place,
                format="puffin",
                size=len(data),
                rows=len(rows[path]),
                referenced=path,
                offset=blob.offset,
                length=blob.length,
            )
            for path, blob in blobs.items()
        }

    def scan(self, tasks: Sequence[ScanTask], *, where: str | None = None, **wanted: Any) -> Scan:
        """A scan of tasks."""
        condition = None if where is None else parse_where(where)
        asked = [replace(task, residual=condition) for task in tasks]
        return task_scan(asked, self.reading, where=condition, **wanted)

    async def rows(self, *tasks: ScanTask, **wanted: Any) -> list[dict[str, Any]]:
        """The rows of tasks."""
        return await rows_of(self.scan(tasks, **wanted))

    async def left(self, task: ScanTask, *deletes: DeleteFile, **wanted: Any) -> list[dict[str, Any]]:
        """The rows of a task that these deletes leave."""
        return await self.rows(replace(task, deletes=deletes), **wanted)


async def rows_of(scan: Scan) -> list[dict[str, Any]]:
    """All rows of a scan, maps as dicts."""
    tables = [table async for table in scan.tables()]
    rows: list[dict[str, Any]] = pa.concat_tables([scan.schema.empty_table(), *tables]).to_pylist(
        maps_as_pydicts="strict"
    )
    return rows
