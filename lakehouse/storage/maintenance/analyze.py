"""Statistics of a table's columns: read by a scan, written as one file, referred to by a commit without rows.

Invariant: the commit changes no row and no position; readers of rows and of changes see nothing of it. What
was computed is of one snapshot, which the file names, whatever others commit meanwhile.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakehouse.errors import CommitUnknownError, InvalidInputError, LakehouseError
from lakehouse.format.keys import stats_of
from lakehouse.format.metadata import ColumnStats, CommitKind, StatisticsRef
from lakehouse.format.puffin import (
    ColumnSketch,
    SketchedTable,
    ThetaBuilder,
    encode_sketches,
    has_single_values,
)
from lakehouse.format.schema import Field, TableSchema, arrow_field
from lakehouse.io.work import CostReport, ProgressCallback, ProgressReporter, in_thread, measured
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.files.uploaded_files import delete_files
from lakehouse.storage.metadata.paths import join, new_statistics_path
from lakehouse.storage.metadata.store_clock import answered_ms
from lakehouse.storage.scan.scan import Scan
from lakehouse.storage.schema.columns import fields_named
from lakehouse.storage.schema.row_ttl import shown_where
from lakehouse.storage.tables.long_reads import reading
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View

__all__ = ["AnalyzeReport", "AnalyzedColumn", "analyze_table", "scaled_ndv"]

_CREATED_BY = "lakehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzedColumn:
    """Statistics of one column."""

    name: str
    ndv: int
    """Estimated number of distinct values; of all rows, also where a part of them was read."""
    seen: int
    """Estimated number of those among the rows that were read."""
    nulls: int
    """Number of rows that were read and have no value."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AnalyzeReport(CostReport):
    """Report of an analysis."""

    snapshot: int
    """Id of the snapshot that refers to the statistics."""
    analyzed: int
    """Id of the snapshot whose rows were read."""
    rows: int
    """Number of rows that were read."""
    share: float
    """Share of the table's rows that was read; 1 = all."""
    columns: tuple[AnalyzedColumn, ...]
    bytes: int
    """Bytes of the statistics file."""

    def __str__(self) -> str:
        return (
            f"snapshot {self.snapshot}: {len(self.columns)} columns of {self.rows:,} rows "
            f"({self.share:.0%} of snapshot {self.analyzed}) in {self.bytes:,} bytes; {self.cost}"
        )


@measured
async def analyze_table(
    table: OpenTable,
    columns: Sequence[str] | None = None,
    *,
    sample: float | None = None,
    progress: ProgressCallback | None = None,
) -> AnalyzeReport:
    """Computes and commits statistics; see ``Table.analyze``."""
    if sample is not None and not 0 < sample <= 1:
        raise InvalidInputError(f"sample is the share of rows to read, above 0 and at most 1, not {sample!r}")
    table.expect_commit()
    view = await table.newest()
    counts = _Counts(_sketched(view.schema, columns))
    async with reading(table, view):
        share = await _read(
            table, view, counts, 1.0 if sample is None else sample, ProgressReporter(progress)
        )
    data = await in_thread(counts.file, view.snapshot.id, share)
    path = new_statistics_path()
    stored = await table.env.store.put(join(table.root, path), data)
    ref = StatisticsRef(snapshot=view.snapshot.id, path=path, size=len(data))
    try:
        done = await table.commit(
            _SetStatistics(ref), view=view, uploaded_ms=await answered_ms(table.env.store, stored)
        )
    except CommitUnknownError:
        raise  # the file may be referred to
    except LakehouseError:
        await delete_files(table.env.store, table.root, [path])
        raise
    return AnalyzeReport(
        snapshot=done.snapshot.id,
        analyzed=view.snapshot.id,
        rows=counts.rows,
        share=share,
        columns=counts.columns(share),
        bytes=len(data),
    )


def _sketched(schema: TableSchema, columns: Sequence[str] | None) -> tuple[Field, ...]:
    """Returns the columns to analyze: those named, or all whose values can be told apart."""
    fields = fields_named(schema, columns)
    plain = tuple(field for field in fields if has_single_values(arrow_field(field).type))
    if columns is not None and len(plain) < len(fields):
        names = [field.name for field in fields if field not in plain]
        raise InvalidInputError(f"nested values have no statistics: leave out {', '.join(names)}")
    if not plain:
        raise InvalidInputError("the table has no column to analyze: nested values have no statistics")
    return plain


async def _read(
    table: OpenTable, view: View, counts: _Counts, sample: float, reporter: ProgressReporter
) -> float:
    """Reads the rows, or whole parts of them until the sample is reached; returns the share that was read."""
    scan = Scan(
        await view.entries(),
        view.schema,
        table,
        columns=[field.name for field in counts.fields],
        where=shown_where(None, view.shows),
    )
    units = list(scan.files.units)
    rows = [sum(file.entry.rows for file in unit.files) for unit in units]
    total, read = sum(rows), 0
    chosen: list[int] = []
    # The same parts for the same snapshot, so that an analysis can be repeated.
    for place in random.Random(view.snapshot.id).sample(range(len(units)), len(units)):
        if read >= sample * total and chosen:
            break
        chosen.append(place)
        read += rows[place]
    scan.files = dataclasses.replace(scan.files, units=tuple(units[place] for place in sorted(chosen)))
    async with aclosing(scan.tables()) as tables:
        async for rows_read in tables:
            await in_thread(counts.add, rows_read)
            reporter.step("read rows", rows_read.num_rows)
    return read / total if total else 1.0


class _Counts:
    """Sketches and bounds of some columns, filled table by table."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.rows = 0
        self._sketches = {field.id: ThetaBuilder() for field in fields}
        self._stats: dict[int, ColumnStats] = {}

    def add(self, rows: pa.Table) -> None:
        """Adds rows. Computes, for a thread."""
        self.rows += rows.num_rows
        for number, found in stats_of(rows, self.fields).items():
            self._stats[number] = _joined(self._stats[number], found) if number in self._stats else found
        for field in self.fields:
            self._sketches[field.id].update(rows.column(field.name))

    def columns(self, share: float) -> tuple[AnalyzedColumn, ...]:
        """Returns the columns for people, of a table of which this share was read."""
        return tuple(
            AnalyzedColumn(
                name=field.name,
                ndv=self._ndv_of_all(field, share),
                seen=self._seen(field),
                nulls=self._nulls(field),
            )
            for field in self.fields
        )

    def _ndv_of_all(self, field: Field, share: float) -> int:
        rows, singles = self.rows - self._nulls(field), self._sketches[field.id].singles
        return round(scaled_ndv(self._seen(field), singles, rows=rows, share=share))

    def _seen(self, field: Field) -> int:
        """Returns the distinct values that were read; a sketch may estimate more than there are rows."""
        return min(round(self._sketches[field.id].estimate), self.rows - self._nulls(field))

    def _nulls(self, field: Field) -> int:
        known = self._stats.get(field.id)
        return 0 if known is None else known.nulls

    def file(self, snapshot: int, share: float) -> bytes:
        """Returns the statistics file."""
        table = SketchedTable(
            snapshot=snapshot,
            share=share,
            columns={field.id: self._column(field, share) for field in self.fields},
        )
        sketches = {number: sketch.encode() for number, sketch in self._sketches.items()}
        return encode_sketches(table, sketches, created_by=_CREATED_BY)

    def _column(self, field: Field, share: float) -> ColumnSketch:
        known = self._stats.get(field.id)
        return ColumnSketch(
            field_id=field.id,
            ndv=self._seen(field),
            ndv_of_all=self._ndv_of_all(field, share) if share < 1 else None,
            rows=self.rows,
            nulls=self._nulls(field),
            low=None if known is None else known.low,
            high=None if known is None else known.high,
        )


def scaled_ndv(seen: float, singles: float, *, rows: float, share: float) -> float:
    """Estimates the distinct values of all rows from those of a sample: ``seen``, and ``singles`` seen once.

    The first-order jackknife of Haas and Stokes (1998), as PostgreSQL's ``ANALYZE`` has it. A column of
    singles alone is taken for unique, one without singles for seen whole.

    Args:
        seen: distinct values of the sample.
        singles: those of them that one row has.
        rows: rows of the sample that have a value.
        share: share of all rows that was read.
    """
    if share == 1 or not rows:
        return seen
    once = min(singles, seen, rows)
    return min(rows * seen / (rows - once + once * share), rows / share)


def _joined(first: ColumnStats, second: ColumnStats) -> ColumnStats:
    lows = [bound for bound in (first.low, second.low) if bound is not None]
    highs = [bound for bound in (first.high, second.high) if bound is not None]
    return ColumnStats(
        nulls=first.nulls + second.nulls,
        low=min(lows, default=None),
        high=max(highs, default=None),
        exact=first.exact and second.exact,
    )


class _SetStatistics:
    """The commit that refers to a statistics file."""

    blind: ClassVar[bool] = False

    def __init__(self, ref: StatisticsRef) -> None:
        self._ref = ref

    async def draft(self, base: Base) -> Draft | None:
        """Drafts the file, whatever others have committed: it says of which snapshot it is."""
        return Draft(kind=CommitKind.INDEX, statistics=self._ref)
