"""Detection of keys that several processes wrote in one write, so that none is the newer.

Files are opened only where ranges of keys of a merge unit overlap, and of these only the key columns are
read, section by section, so that memory holds some sections however large the files are.

Invariant: keys that differ are never refused; a key that two of the runs hold always is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.files.reader import RunReader, RunSource
from lakehouse.storage.metadata.run_order import Unit, apart, key_ends, unit_of
from lakehouse.storage.rows.duplicate_keys import repeated_key, same_key_error
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.scan.sections import Chunk, Section, SectionPart, SectionSweep

__all__ = ["refuse_shared_keys"]

_SECTION_ROWS = 1 << 20
"""Rows that are gathered for a section."""
_READS = 4
"""Parts of a section read at once."""


async def refuse_shared_keys(entries: Sequence[FileEntry], schema: TableSchema, source: RunSource) -> None:
    """Raises when two runs of a merge unit hold the same key.

    Args:
        entries: files of one write, with the numbers of their runs.
        schema: the schema they were written with.
        source: opens the files.

    Raises:
        InvalidInputError: names a key that two runs hold.
    """
    keys, at_once = KeyColumns(schema.key_fields), source.settings.read_concurrency
    for files in _overlapping(entries, schema):
        opened = map_bounded(lambda entry: source.open(entry, schema), files, at_once)
        readers = [reader async for reader in opened]
        sweep = SectionSweep(_SECTION_ROWS)
        for reader in readers:
            sweep.add(_chunks(reader))
        kept: dict[SectionPart, pa.Table] = {}
        for section in sweep.sections(None):
            kept = {part: table for part, table in kept.items() if part in section.parts}
            # Parts that do not overlap cannot share a key.
            if section.merges:
                await _look(section, keys, kept)


async def _look(section: Section, keys: KeyColumns, kept: dict[SectionPart, pa.Table]) -> None:
    """Refuses a key that several parts of the section have; ``kept`` holds parts that span sections."""

    async def rows_of(part: SectionPart) -> pa.Table:
        table = kept.get(part)
        if table is None:
            table = await part.reader.read(keys.fields, part.pieces)
            if part.spans:
                kept[part] = table
        low, high = section.cuts(part)
        begin = keys.rows_below(table, low) if low is not None else 0
        end = keys.rows_below(table, high) if high is not None else table.num_rows
        return table.slice(begin, end - begin)

    tables = [table async for table in map_bounded(rows_of, section.parts, _READS)]
    key = await in_thread(repeated_key, pa.concat_tables(tables).combine_chunks(), keys)
    if key is not None:
        raise same_key_error(key)


def _chunks(reader: RunReader) -> list[Chunk]:
    return [
        Chunk(
            reader=reader,
            number=number,
            rows=piece.rows,
            low=piece.min_key or b"",
            high=piece.max_key or b"",
            age=reader.entry.run,
        )
        for number, piece in enumerate(reader.pieces)
    ]


def _overlapping(entries: Sequence[FileEntry], schema: TableSchema) -> Iterator[list[FileEntry]]:
    """Yields groups of files of one merge unit and several runs whose ranges of keys overlap."""
    units: dict[Unit, list[FileEntry]] = {}
    for entry in entries:
        units.setdefault(unit_of(entry, schema), []).append(entry)
    for unit in sorted(units):
        files = sorted(units[unit], key=lambda entry: (entry.min_key or b"", entry.run))
        for group in apart(files, key_ends):
            if len({entry.run for entry in group}) > 1:
                yield group
