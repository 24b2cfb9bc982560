"""Deletes of a scan: which rows of each data file are left, by all delete files that apply to it.

Delete files are read when the first data file that needs them is opened, each once; those of data files that
are not read are never fetched.

Invariant: a row is left unless a delete file of its task names its number or its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import Field
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.planning.tasks import DeleteFile, ScanTask
from lakehouse.iceberg.reading.batches import batches, row_numbers
from lakehouse.iceberg.reading.equality_deletes import DeletedValues, compared_columns
from lakehouse.iceberg.reading.faults import named
from lakehouse.iceberg.reading.once import Once
from lakehouse.iceberg.reading.position_deletes import POSITION_FIELDS, read_positions, read_vector, within
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.index.search import RowSelection
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files import RunReader

__all__ = ["OpenDelete", "RowDeletes", "known_rows"]

OpenDelete = Callable[[DeleteFile, Sequence[Field]], Awaitable[RunReader]]
"""Opens a delete file, to read some columns of it."""
_QUICK_ROWS = 100_000
"""Maximum deleted rows that are sorted in less time than a thread takes to begin."""
_Group = tuple[tuple[int, ...], int, tuple[Any, ...] | None]
"""Delete files that are put together: compared fields, spec, and the partition where the spec has one."""


def known_rows(task: ScanTask) -> int | None:
    """Returns the rows that are left of a data file where metadata tell; None where only reading does."""
    if task.start or task.length is not None or any(delete.kind != "vector" for delete in task.deletes):
        return None
    return task.rows - sum(delete.rows for delete in task.deletes)


class RowDeletes:
    """The deletes of one scan.

    Args:
        tasks: all tasks of the scan.
        metadata: of the table.
        schema: the schema that is read with.
        locations: where vectors are.
        open_delete: opens other delete files.
        concurrency: delete files that are read at once.
    """

    def __init__(
        self,
        tasks: Sequence[ScanTask],
        metadata: TableMetadata,
        schema: IcebergSchema,
        locations: Locations,
        open_delete: OpenDelete,
        *,
        concurrency: int,
    ) -> None:
        self._metadata, self._schema, self._locations = metadata, schema, locations
        self._open, self._concurrency = open_delete, concurrency
        self._positions: Once[str, Mapping[str, I64]] = Once()
        self._values: Once[_Group, DeletedValues] = Once()
        self._wanted: defaultdict[str, list[str]] = defaultdict(list)
        """Data files that a position delete file is needed for, by its path."""
        self._groups: defaultdict[_Group, dict[str, DeleteFile]] = defaultdict(dict)
        for task in tasks:
            for delete in task.deletes:
                if delete.kind == "position":
                    self._wanted[delete.path].append(task.path)
                elif delete.kind == "equality":
                    self._groups[self._group(task, delete)][delete.path] = delete

    async def selection(
        self, task: ScanTask, reader: RunReader, pieces: Sequence[int]
    ) -> RowSelection | None:
        """Returns the rows that are left of a data file; None = all.

        Args:
            task: of the file.
            reader: the open file with all its rows.
            pieces: numbers of those that are read, ascending; rows of others may be left though deleted.
        """
        found = [
            rows
            async for rows in map_bounded(
                lambda delete: self._numbers(task, delete),
                [delete for delete in task.deletes if delete.kind != "equality"],
                self._concurrency,
            )
        ]
        groups = {self._group(task, delete) for delete in task.deletes if delete.kind == "equality"}
        found += [await self._matching(group, task, reader, pieces) for group in sorted(groups, key=str)]
        found = [rows for rows in found if len(rows)]
        if sum(map(len, found)) <= _QUICK_ROWS:
            return _rest(found, task.rows) if found else None
        return await in_thread(_rest, found, task.rows)

    def _group(self, task: ScanTask, delete: DeleteFile) -> _Group:
        spec = self._metadata.specs.get(delete.spec_id)
        is_global = spec is None or not spec.fields
        return tuple(sorted(delete.equality_ids)), delete.spec_id, None if is_global else task.partition

    async def _numbers(self, task: ScanTask, delete: DeleteFile) -> I64:
        """Returns the numbers of the rows that a vector or a position delete file deletes."""
        if delete.kind == "vector":
            return await read_vector(self._locations, delete, task)
        if delete.kind != "position":
            raise InvalidInputError(
                f"a delete file is of kind position, vector or equality, not {delete.kind!r}"
            )
        by_path = await self._positions.get(delete.path, lambda: self._load_positions(delete))
        return within(by_path[task.path], task, delete)

    async def _load_positions(self, delete: DeleteFile) -> Mapping[str, I64]:
        reader = await self._open(delete, POSITION_FIELDS)
        wanted = list(dict.fromkeys(self._wanted[delete.path]))
        with named(delete.path, "position delete file"):
            return await read_positions(reader, wanted)

    async def _matching(self, group: _Group, task: ScanTask, reader: RunReader, pieces: Sequence[int]) -> I64:
        """Returns the numbers of the rows that equality deletes of a group delete, some pieces at a time."""
        values = await self._values.get(group, lambda: self._load_values(group))
        numbers = []
        for batch in batches(reader.pieces, pieces):
            rows = await reader.read(values.fields, batch)
            hit = await in_thread(values.deletes, rows, task.sequence)
            numbers.append(row_numbers(reader.pieces, batch)[hit])
        every: I64 = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        return every

    async def _load_values(self, group: _Group) -> DeletedValues:
        deletes = list(self._groups[group].values())
        columns = compared_columns(group[0], self._schema, self._metadata, deletes[0].path)
        fields = tuple({column.field.id: column.field for column in columns}.values())

        async def load(delete: DeleteFile) -> tuple[pa.Table, int]:
            reader = await self._open(delete, fields)
            with named(delete.path, "equality delete file"):
                return await reader.read(fields), delete.sequence

        files = [file async for file in map_bounded(load, deletes, self._concurrency)]
        return await in_thread(DeletedValues, columns, files)


def _rest(deleted: Sequence[I64], rows: int) -> RowSelection:
    """Returns the rows between those that are deleted."""
    numbers = deleted[0] if len(deleted) == 1 else np.unique(np.concatenate(deleted))
    starts, ends = np.append(-1, numbers) + 1, np.append(numbers, rows)
    return RowSelection.of(np.stack([starts, ends], axis=1), rows)
