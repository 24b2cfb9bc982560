"""Keys that several processes wrote in one write, of which none is the newer.

Files are opened only where ranges of keys of a merge unit overlap, and of these the key columns are
read, section by section, so that memory holds some sections however large the files are.

Invariant: nothing is said of keys that differ; a key that two of the runs hold is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import in_thread, map_bounded
from lakehouse.storage.files.reader import RunReader, RunSource
from lakehouse.storage.metadata.run_order import Unit, apart, key_ends, unit_of
from lakehouse.storage.rows.duplicate_keys import repeated_key, same_key
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.scan.sections import Chunk, Section, SectionPart, SectionSweep

__all__ = ["refuse_shared_keys"]

_SECTION_ROWS = 1 << 20
_OPENS = 16
_READS = 4


async def refuse_shared_keys(entries: Sequence[FileEntry], schema: TableSchema, source: RunSource) -> None:
    """Nothing when no two runs of a merge unit hold the same key.

    Args:
        entries: of one write, with the numbers of their runs.
        schema: with which they were written.
        source: opens them.

    Raises:
        InvalidInputError: names a key that is there twice.
    """
    keys = KeyColumns(schema.key_fields)
    for files in _overlapping(entries, schema):
        readers = [one async for one in map_bounded(source.open, files, _OPENS)]
        sweep = SectionSweep(_SECTION_ROWS)
        for reader in readers:
            sweep.add(_chunks(reader))
        kept: dict[SectionPart, pa.Table] = {}
        for section in sweep.sections(None):
            kept = {part: table for part, table in kept.items() if part in section.parts}
            if section.merges:
                await _look(section, keys, kept)


async def _look(section: Section, keys: KeyColumns, kept: dict[SectionPart, pa.Table]) -> None:
    """Refuses a key that several parts of the section have; ``kept`` are parts that reach into others."""

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

    tables = [one async for one in map_bounded(rows_of, section.parts, _READS)]
    key = await in_thread(repeated_key, pa.concat_tables(tables).combine_chunks(), keys)
    if key is not None:
        raise same_key(key)


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
    """Files of one merge unit, of several runs, whose ranges of keys overlap each other's."""
    units: dict[Unit, list[FileEntry]] = {}
    for one in entries:
        units.setdefault(unit_of(one, schema), []).append(one)
    for unit in sorted(units):
        files = sorted(units[unit], key=lambda one: (one.min_key or b"", one.run))
        for group in apart(files, key_ends):
            if len({one.run for one in group}) > 1:
                yield group
