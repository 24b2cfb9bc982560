"""Hidden rows: which rows of a merge unit's published runs are not the newest of their keys, or delete them.

Keys are read in ranges, so that memory is bounded whatever the unit's size: of each file only the pieces that
reach into a range, and of their rows the key and the kind alone.

Invariant: the rows that are not hidden are those that deduplicate keeps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io import map_bounded
from lakehouse.io.work import in_thread
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files import KeyRange, has_keys
from lakehouse.storage.merge import kinds_of, merge_order, survivors
from lakehouse.storage.rows import KeyColumns
from lakehouse.storage.scan import cut_files, pieces_of
from lakehouse.storage.tables import OpenTable

__all__ = ["hidden_rows"]

_RANGE_BYTES = 256 * 1024**2
"""Bytes of files whose keys are looked at together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Rows of a file with keys of a range, in key order."""

    path: str
    rows: pa.Table
    """Key columns and kinds."""
    numbers: I64
    """Number of each row in the file."""


async def hidden_rows(
    table: OpenTable,
    schema: TableSchema,
    runs: Sequence[Sequence[FileEntry]],
    *,
    range_bytes: int = _RANGE_BYTES,
) -> dict[str, I64]:
    """Returns the numbers of the hidden rows of each file that has some, ascending, by path.

    Args:
        table: the table.
        schema: its schema.
        runs: the published runs of a merge unit, oldest first.
        range_bytes: bytes of files whose keys are looked at together.
    """
    files = [entry for run in runs for entry in run]
    # Most units are small: then the ends of their pieces need not be looked up.
    small = sum(entry.size for entry in files) <= range_bytes
    pieces = {} if small else await pieces_of(table, schema, files)
    ranges: list[KeyRange] = [(None, None)] if small else cut_files(files, range_bytes, pieces)
    found: dict[str, list[I64]] = defaultdict(list)
    keys = KeyColumns(schema.key_fields)
    for span in ranges:
        near = [entry for entry in files if has_keys(entry, span)]
        read = partial(_read, table, schema, keys, span=span)
        parts = [part async for part in map_bounded(read, near, table.settings.read_concurrency)]
        for path, numbers in (await in_thread(_hidden, parts, keys)).items():
            found[path].append(numbers)
    return {path: np.concatenate(parts) for path, parts in found.items()}


async def _read(
    table: OpenTable, schema: TableSchema, keys: KeyColumns, entry: FileEntry, span: KeyRange
) -> _Part:
    """Reads the keys and kinds of a file's rows in a range."""
    reader = await table.open(entry, schema)
    near = [at for at, piece in enumerate(reader.pieces) if has_keys(piece, span)]
    rows = await reader.read(keys.fields, near, kinds=bool(entry.deletes))
    counts = [
        np.arange(piece.rows, dtype=np.int64) + piece.first_row
        for piece in map(reader.pieces.__getitem__, near)
    ]
    numbers = np.concatenate(counts) if counts else np.zeros(0, np.int64)
    first = 0 if span[0] is None else keys.rows_below(rows, span[0])
    end = rows.num_rows if span[1] is None else keys.rows_below(rows, span[1])
    return _Part(path=entry.path, rows=rows.slice(first, end - first), numbers=numbers[first:end])


def _hidden(parts: Sequence[_Part], keys: KeyColumns) -> dict[str, I64]:
    """Returns the hidden rows among those of some files, the files of older runs first."""
    tables = [part.rows for part in parts]
    kept = np.zeros(sum(map(len, tables)), np.bool_)
    kept[survivors(merge_order(keys.arrays(tables)), kinds_of(tables))] = True
    found, start = {}, 0
    for part in parts:
        hidden = part.numbers[~kept[start : start + len(part.numbers)]]
        start += len(part.numbers)
        if len(hidden):
            found[part.path] = hidden
    return found
