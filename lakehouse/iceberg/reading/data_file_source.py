"""Opening of the data files of tasks, as a source of the engine's scan.

Invariant: a reader shows the rows that are left after all deletes of its task, and no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.config import TableSettings
from lakehouse.errors import InvalidInputError
from lakehouse.expr.bounds import Verdict
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import Field, TableSchema
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.planning.tasks import DeleteFile, ScanTask
from lakehouse.iceberg.reading.faults import named
from lakehouse.iceberg.reading.lineage import FilledRows
from lakehouse.iceberg.reading.naming import NAME_MAPPING, naming_fields
from lakehouse.iceberg.reading.row_deletes import RowDeletes
from lakehouse.iceberg.reading.whole_files import AvroRows, OrcRows
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.index.search import RowSelection
from lakehouse.storage.files import (
    ForeignFiles,
    Piece,
    RunReader,
    SelectedRows,
    entry_of_selected,
    foreign_entry,
)
from lakehouse.storage.metadata import RunCaches
from lakehouse.storage.scan import Prunes

__all__ = ["DataFileSource", "entry_path"]

_WHOLE = {"avro": AvroRows, "orc": OrcRows}


class DataFileSource:
    """Opens the data files of a scan's tasks: a ``RunSource``; paths of entries are those of tasks.

    Args:
        tasks: all tasks of the scan.
        metadata: of the table.
        schema: the schema that is read with.
        locations: where the files are.
        caches: of footers and small files.
        pruner: judge of pieces by the scan's condition; deletes of pieces without a match are not looked for.
        settings: bounds on the reads.
    """

    def __init__(
        self,
        tasks: Sequence[ScanTask],
        metadata: TableMetadata,
        schema: IcebergSchema,
        locations: Locations,
        caches: RunCaches,
        *,
        pruner: Prunes | None = None,
        settings: TableSettings,
    ) -> None:
        self.settings = settings
        self._tasks = {entry_path(task): task for task in tasks}
        self._pruner = pruner
        self._metadata, self._locations, self._caches = metadata, locations, caches
        self._naming = naming_fields(metadata.properties, schema.fields, metadata.location)
        self._mapping = _digest(metadata.properties.get(NAME_MAPPING), schema.id)
        self._by_column = {field.id for field in schema.fields}
        self._deletes = RowDeletes(
            tasks,
            metadata,
            schema,
            locations,
            self._open_delete,
            concurrency=settings.read_concurrency,
        )

    async def open(self, entry: FileEntry, schema: TableSchema) -> RunReader:
        """Opens a reader of the rows of a data file that are left.

        Raises:
            CorruptionError: it, or a delete file of its, is missing or not what the manifests say.
            InvalidInputError: it is outside of the table's places, or a column has another type.
        """
        task = self._tasks[entry.path]
        whole = await self._open(task.path, task.format, task.size, task.rows, schema, "data file")
        reader = FilledRows(whole, task, self._constants(task))
        inside = [number for number, piece in enumerate(reader.pieces) if _begins_in(piece, task)]
        selection = None if len(inside) == len(reader.pieces) else _rows_of(reader.pieces, inside, task.rows)
        wanted = [number for number in inside if self._may_match(reader, number)]
        if wanted and (left := await self._deletes.selection(task, reader, wanted)) is not None:
            selection = left if selection is None else selection & left
        if selection is None:
            return reader
        return SelectedRows(reader, entry_of_selected(reader.entry, selection), selection)

    def _may_match(self, reader: RunReader, number: int) -> bool:
        if self._pruner is None:
            return True
        return self._pruner.judge_piece(reader.entry, reader.pieces[number]) is not Verdict.NONE

    async def _open_delete(self, delete: DeleteFile, fields: Sequence[Field]) -> RunReader:
        schema = TableSchema(fields=tuple(fields), highest_field_id=max(field.id for field in fields))
        what = f"{delete.kind} delete file"
        return await self._open(delete.path, delete.format, delete.size, delete.rows, schema, what)

    async def _open(
        self, path: str, kind: str, size: int, rows: int, schema: TableSchema, what: str
    ) -> RunReader:
        place = self._locations.find(path)
        if kind in _WHOLE:
            return _WHOLE[kind](
                place, path, what=what, size=size, rows=rows, naming=self._naming, caches=self._caches
            )
        if kind != "parquet":
            raise InvalidInputError(f"the {what} {path} is of format {kind}: parquet, avro and orc are read")
        home = f"{place.root}{self._mapping}"
        files = ForeignFiles(
            place.store, self._caches, home=home, naming=self._naming, settings=self.settings
        )
        with named(path, what):
            return await files.open(foreign_entry(place.key, size=size, rows=rows), schema)

    def _constants(self, task: ScanTask) -> Mapping[int, Any]:
        """Returns the values of columns by which the task's partition is made as they are."""
        spec = self._metadata.specs.get(task.spec_id)
        if spec is None or len(spec.fields) != len(task.partition):
            return {}
        return {
            field.source_ids[0]: value
            for field, value in zip(spec.fields, task.partition, strict=True)
            if field.transform == "identity" and field.source_ids[0] in self._by_column
        }


def entry_path(task: ScanTask) -> str:
    """Returns what a task's entry is called in a scan; several tasks may be of one file."""
    return f"{task.path}#{task.start}" if task.start else task.path


def _begins_in(piece: Piece, task: ScanTask) -> bool:
    return task.start <= piece.start and (task.length is None or piece.start < task.start + task.length)


def _rows_of(pieces: Sequence[Piece], numbers: Sequence[int], rows: int) -> RowSelection:
    chosen = [pieces[number] for number in numbers]
    return RowSelection.of(((one.first_row, one.first_row + one.rows) for one in chosen), rows)


def _digest(mapping: str | None, schema_id: int) -> str:
    """Returns what tells footers that were read by one name mapping from others in the caches."""
    if mapping is None:
        return ""
    return f"#{hashlib.sha256(f'{schema_id}:{mapping}'.encode()).hexdigest()}"
