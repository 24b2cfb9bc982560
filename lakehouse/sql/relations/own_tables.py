"""Tables of ours as relations: files that are plain go to DuckDB, the rest through our own scan.

A file is plain when it is Parquet, holds inserts alone, no other file that is read may have one of its keys,
and each of its columns is read by DuckDB as it is by us.

Invariant: a relation shows what a scan of the snapshot with its condition shows, and maybe rows that do not
match the condition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace

import pyarrow as pa

from lakehouse.expr import Expr, to_sql
from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.format.schema import Field, TableSchema
from lakehouse.sql.relations.duckdb_types import column_text, value_text
from lakehouse.sql.relations.relation import PlainFile, PlainFiles, Relation, RelationReport
from lakehouse.sql.text import quoted
from lakehouse.storage.metadata import join
from lakehouse.storage.scan import Scan
from lakehouse.storage.schema import Lifetime, shown_where
from lakehouse.storage.tables import OpenTable, View, reading

__all__ = ["OwnProvider", "OwnRows"]

_FEW = 8
"""Factor: a file of which indexes leave less than such a share of its rows is read by our own scan."""


class OwnRows:
    """Rows of a table of ours at a snapshot: a ``PinnedRows``.

    Args:
        table: the table.
        view: the snapshot.
        entries: its live files, and runs of its log.
        written: schemas that files were written with, by id.
    """

    def __init__(
        self,
        table: OpenTable,
        view: View,
        entries: Sequence[FileEntry],
        written: Mapping[int, TableSchema],
    ) -> None:
        self._table, self._view, self._entries = table, view, entries
        shapes = {number: _shape(schema, view.schema, view.shows) for number, schema in written.items()}
        self._shapes = {number: shape for number, shape in shapes.items() if shape is not None}

    @classmethod
    async def at(cls, table: OpenTable, snapshot: int | None) -> OwnRows:
        """Reads the metadata of a snapshot: its files, and the schemas that they were written with."""
        view = await table.read_view(snapshot=snapshot)
        entries = await view.entries()
        written = {view.schema.id: view.schema}
        older = {entry.schema_id for entry in entries} - set(written)
        for ref in view.schema_object.ancestors:
            if ref.id in older:
                written[ref.id] = (await table.schemas.read(ref)).schema
        return cls(table, view, entries, written)

    @property
    def name(self) -> str:
        """Full name of the table."""
        return str(self._table.name)

    @property
    def schema(self) -> pa.Schema:
        """Columns that are shown."""
        return self._view.schema.arrow()

    @property
    def files(self) -> int:
        """Number of live files."""
        return len(self._entries)

    @property
    def known_rows(self) -> int | None:
        """Number of rows, where no file hides rows of another and none is too old to be shown."""
        scan = self._scan(None)
        planned = [file for unit in scan.files.units for file in unit.files]
        if self._view.shows is not None or not all(file.alone for file in planned):
            return None
        return sum(file.entry.rows - file.entry.deletes for file in planned)

    def reading(self) -> AbstractAsyncContextManager[None]:
        """Protects the snapshot while the block runs."""
        return reading(self._table, self._view)

    def _scan(self, where: Expr | None, entries: Sequence[FileEntry] | None = None) -> Scan:
        every = self._entries if entries is None else entries
        return Scan(every, self._view.schema, self._table, where=shown_where(where, self._view.shows))

    async def relation(self, where: Expr | None) -> Relation:
        """Returns the files that may have rows that match, as plain files and as rows of the others."""
        scan = self._scan(where)
        if where is not None:
            await scan.prune_by_indexes(self._table)
        plain, rest = defaultdict[int, list[FileEntry]](list), list[FileEntry]()
        for file in (file for unit in scan.files.units for file in unit.files):
            selected = scan.selections.get(file.entry.path)
            is_few = selected is not None and selected.row_count * _FEW < file.entry.rows
            if file.alone and not is_few and self._is_plain(file.entry):
                plain[file.entry.schema_id].append(file.entry)
            else:
                rest.append(file.entry)
        return Relation(
            plain=tuple(self._plain_files(number, entries) for number, entries in plain.items()),
            provider=OwnProvider(self._table, self._view, rest) if rest or not plain else None,
            report=RelationReport(
                name=self.name,
                at=f"snapshot {self._view.snapshot.id}",
                files=len(self._entries),
                plain=sum(map(len, plain.values())),
                merged=len(rest),
                pruned=scan.report.files_pruned,
                where="" if where is None else to_sql(where),
            ),
        )

    def _is_plain(self, entry: FileEntry) -> bool:
        is_sealed = entry.format is FileFormat.PARQUET and not entry.deletes and not entry.updates
        return is_sealed and entry.schema_id in self._shapes

    def _plain_files(self, number: int, entries: Sequence[FileEntry]) -> PlainFiles:
        store, root = self._table.env.store, self._table.root
        files = (PlainFile(store=store, key=join(root, entry.path), size=entry.size) for entry in entries)
        return replace(self._shapes[number], files=tuple(files))


def _shape(written: TableSchema, wanted: TableSchema, shows: Lifetime | None) -> PlainFiles | None:
    """Returns how DuckDB makes the columns of a table of those of a file, without the files.

    None = our own reader has to read it: some column has another form there, or of the time that a row
    is shown by.
    """
    by_id = {field.id: field for field in written.fields}
    columns = [column_text(by_id.get(field.id), field) for field in wanted.fields]
    where = "" if shows is None else _shown(by_id.get(shows.field.id), shows)
    if where is None or None in columns:
        return None
    return PlainFiles(columns=tuple(text for text in columns if text is not None), where=where)


def _shown(written: Field | None, shows: Lifetime) -> str | None:
    """Returns the condition of rows that are not too old, about a column as a file calls it."""
    last = value_text(shows.field, shows.hidden_to)
    if written is None or last is None:
        return None
    return f"({quoted(written.name)} IS NULL OR {quoted(written.name)} > {last})"


class OwnProvider:
    """Rows of files of a table of ours that are merged, filtered or converted: a ``TableProvider``.

    Args:
        table: the table.
        view: the snapshot.
        entries: files that share no key with others.
    """

    def __init__(self, table: OpenTable, view: View, entries: Sequence[FileEntry]) -> None:
        self._table, self._view, self._entries = table, view, entries

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return self._view.schema.arrow()

    @property
    def rows(self) -> int:
        """Rows of the files, those that others hide included."""
        return sum(entry.rows - entry.deletes for entry in self._entries)

    def applies(self, where: Expr) -> bool:
        """Returns True: a scan applies every condition that can be written."""
        return True

    async def scan(self, columns: Sequence[str], where: Expr | None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows that match."""
        scan = Scan(
            self._entries,
            self._view.schema,
            self._table,
            columns=columns,
            where=shown_where(where, self._view.shows),
        )
        await scan.prune_by_indexes(self._table)
        async with aclosing(scan.tables()) as tables:
            async for table in tables:
                for batch in table.to_batches():
                    yield batch
