"""Scans of tasks: the engine's own scan over the data files of a plan.

Invariant: sections, admission, pruning of pieces, columns and the condition are the scan's; this module says
which files there are, how many rows are left of each where that is known, and who opens them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakehouse.config import TableSettings
from lakehouse.expr import Expr
from lakehouse.expr.bounds import Verdict
from lakehouse.expr.columnar import VERDICTS
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import Field, TableSchema
from lakehouse.iceberg.locations import Locations
from lakehouse.iceberg.metadata import TableMetadata
from lakehouse.iceberg.planning.tasks import ScanTask
from lakehouse.iceberg.reading.data_file_source import DataFileSource, entry_path
from lakehouse.iceberg.reading.lineage import LINEAGE
from lakehouse.iceberg.reading.row_deletes import known_rows
from lakehouse.iceberg.types import IcebergSchema
from lakehouse.storage.files import Piece, foreign_entry
from lakehouse.storage.metadata import RunCaches
from lakehouse.storage.scan import Judged, Pruner, Prunes, Scan, bind_where
from lakehouse.storage.schema import fields_named

__all__ = ["Reading", "task_scan"]

_ALL, _SOME = VERDICTS.index(Verdict.ALL), VERDICTS.index(Verdict.SOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that the files of a table are read with."""

    metadata: TableMetadata
    schema: IcebergSchema
    """Schema that rows are shown in."""
    locations: Locations
    caches: RunCaches
    settings: TableSettings


def task_scan(
    tasks: Sequence[ScanTask],
    reading: Reading,
    *,
    columns: Sequence[str] | None = None,
    where: Expr | None = None,
    limit: int | None = None,
) -> Scan:
    """Returns a scan of the rows of some tasks; nothing is read before it is executed.

    Args:
        tasks: data files with the deletes that apply to them, all of one snapshot.
        reading: what they are read with.
        columns: names, in order; None = all of the schema. ``_row_id`` and
            ``_last_updated_sequence_number`` can be named too.
        where: a condition, by which rows of tasks that have a residual are tested.
        limit: maximum rows to return; None = all.

    Raises:
        InvalidInputError: a column is unknown or of a type that is not read, or the condition does not fit.
    """
    schema = _needed(reading.schema, columns, where)
    entries = [_entry(task) for task in tasks]
    unknown = frozenset(entry_path(task) for task in tasks if known_rows(task) is None)
    matching = frozenset(entry_path(task) for task in tasks if task.residual is None)
    bound = None if where is None else bind_where(where, schema)
    pruner = None if bound is None else Pruner(bound, schema)
    return Scan(
        entries,
        schema,
        DataFileSource(
            tasks,
            reading.metadata,
            reading.schema,
            reading.locations,
            reading.caches,
            pruner=pruner,
            settings=reading.settings,
        ),
        columns=list(reading.schema.names) if columns is None else columns,
        where=where,
        limit=limit,
        pruner=_TaskPruner(pruner, unknown, matching),
    )


def _entry(task: ScanTask) -> FileEntry:
    rows = known_rows(task)
    return foreign_entry(entry_path(task), size=task.size, rows=task.rows if rows is None else rows)


def _needed(schema: IcebergSchema, columns: Sequence[str] | None, where: Expr | None) -> TableSchema:
    """Returns the columns that are asked for or that the condition names.

    Files are opened with these alone: a column that nobody asks for may have any type in them.
    """
    schema.check_read(columns)
    every = schema.table_schema
    taken = {field.name for field in every.fields}
    lineage = tuple(field for field in LINEAGE if field.name not in taken)
    every = replace(every, fields=(*every.fields, *lineage), highest_field_id=lineage[0].id if lineage else 0)
    names = schema.names if columns is None else columns
    wanted = {field.id for field in fields_named(every, names)}
    if where is not None:
        named = bind_where(where, every).columns()
        wanted |= {field.id for field in every.fields if _is_named(field, named)}
    # Without any, rows would have no size, by which memory is bounded.
    kept = tuple(field for field in every.fields if field.id in wanted) or every.fields[:1]
    return replace(every, fields=kept)


def _is_named(field: Field, named: frozenset[str]) -> bool:
    return any(name == field.name or name.startswith(f"{field.name}.") for name in named)


class _TaskPruner:
    """The pruner of a condition, or of none, and what tasks say of their files.

    Args:
        inner: judge of pieces by the condition; None = every row is wanted.
        unknown: files of which nobody knows how many rows are left.
        matching: files of which all rows that are left match.
    """

    def __init__(self, inner: Prunes | None, unknown: frozenset[str], matching: frozenset[str]) -> None:
        self._inner, self._unknown, self._matching = inner, unknown, matching

    def excludes_keys(self, entry: FileEntry) -> str | None:
        return None

    def judge(self, entry: FileEntry) -> tuple[Verdict, str]:
        matches = self._inner is None or entry.path in self._matching
        # The number of rows of a file whose rows all match is taken from its entry.
        return (Verdict.ALL if matches and entry.path not in self._unknown else Verdict.SOME), "stats"

    def judge_all(self, entries: Sequence[FileEntry]) -> Judged:
        found = [self.judge(entry)[0] is Verdict.ALL for entry in entries]
        verdicts = np.where(np.array(found, np.bool_), _ALL, _SOME).astype(np.uint8)
        return Judged(verdicts, np.zeros(len(entries), np.uint8))

    def excludes_piece(self, entry: FileEntry, piece: Piece) -> bool:
        return False

    def judge_piece(self, entry: FileEntry, piece: Piece) -> Verdict:
        return Verdict.ALL if self._inner is None else self._inner.judge_piece(entry, piece)
