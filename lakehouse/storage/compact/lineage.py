"""Scans whose rows carry their lineage: each with the snapshot it came with and its kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.config import TableSettings
from lakehouse.expr import Expr
from lakehouse.format.metadata import KIND_COLUMN, SEQUENCE_COLUMN, FileEntry, RowKind
from lakehouse.format.schema import (
    KIND_FIELD,
    SEQUENCE_FIELD,
    Field,
    TableSchema,
    arrow_field,
    constant_column,
)
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, Piece, RunReader, RunSource
from lakehouse.storage.metadata.run_order import Interval, interval
from lakehouse.storage.scan.scan import Scan

__all__ = ["lineage_scan"]


def lineage_scan(
    entries: Sequence[FileEntry],
    schema: TableSchema,
    source: RunSource,
    *,
    interval: Interval,
    kinds: bool = False,
    where: Expr | None = None,
    keys: KeyRange = EVERY_KEY,
    settings: TableSettings,
) -> Scan:
    """Returns a scan of rows that are to be written again, with columns for their snapshot and kind.

    Args:
        entries: the files to read.
        schema: the table's schema.
        source: opens them.
        interval: where the rows will be; if it is of one commit, rows need no column for their snapshot.
        kinds: whether rows that delete are returned too, and a column with the kind of each row.
        where: condition on the rows; None = all.
        keys: only rows of these keys.
        settings: bounds of the scan.
    """
    lo, hi = interval
    hidden = [SEQUENCE_FIELD] * (lo[0] != hi[0]) + [KIND_FIELD] * kinds
    return Scan(
        entries,
        dataclasses.replace(schema, fields=(*schema.fields, *hidden)),
        _LineageSource(source, schema),
        where=where,
        deletions=kinds,
        keys=keys,
        settings=settings,
    )


@dataclass(frozen=True, slots=True)
class _LineageSource:
    """Opens files so that each row carries its snapshot and kind."""

    inner: RunSource
    schema: TableSchema
    """The table's schema, without the hidden columns, which are added to what is read."""

    @property
    def settings(self) -> TableSettings:
        """The inner source's."""
        return self.inner.settings

    async def open(self, entry: FileEntry, schema: TableSchema) -> RunReader:
        """A reader of the file."""
        return _LineageRun(await self.inner.open(entry, self.schema))


class _LineageRun:
    """A file with every row's snapshot filled in, and with kinds where they are asked for as a column."""

    def __init__(self, inner: RunReader) -> None:
        self._inner = inner
        self.entry = inner.entry

    @property
    def pieces(self) -> Sequence[Piece]:
        """The file's pieces."""
        return self._inner.pieces

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Reads these columns, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` among them."""
        lo, hi = interval(self.entry)
        one_snapshot = lo[0] == hi[0]
        asked = [
            one for one in fields if one is not KIND_FIELD and not (one is SEQUENCE_FIELD and one_snapshot)
        ]
        wants_kinds = KIND_FIELD in fields
        has_kinds = kinds or (wants_kinds and self._has_kinds())
        table = await self._inner.read(asked, pieces, kinds=has_kinds, rows=rows)
        if SEQUENCE_FIELD in fields:
            table = _with_sequence(table, lo[0])
        if wants_kinds and KIND_COLUMN not in table.column_names:
            column = constant_column(int(RowKind.INSERT), pa.int8(), table.num_rows)
            table = table.append_column(arrow_field(KIND_FIELD), column)
        return table

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> _LineageRun:
        """Returns the file itself: merging reads all of it, so nothing is loaded beforehand."""
        return self

    def _has_kinds(self) -> bool:
        return self.entry.deletes + self.entry.updates > 0

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Returns the file's row of that key."""
        return await self._inner.get(key, fields)


def _with_sequence(table: pa.Table, snapshot: int) -> pa.Table:
    """Returns the rows with the snapshot they came with, filled in where they do not carry it."""
    field = arrow_field(SEQUENCE_FIELD)
    if SEQUENCE_COLUMN not in table.column_names:
        return table.append_column(field, constant_column(snapshot, pa.int64(), table.num_rows))
    place = table.column_names.index(SEQUENCE_COLUMN)
    return table.set_column(place, field, table.column(place).fill_null(snapshot))
