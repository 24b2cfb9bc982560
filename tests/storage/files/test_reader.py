"""What every open data file promises, whatever its format."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, Piece, RunReader, has_keys
from tests.kit.sstable_samples import SCHEMA, rows_of
from tests.kit.stored_runs import StoredRuns

COUNT = 1_000
FORMATS = pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.SSTABLE])


async def opened(file_format: FileFormat) -> RunReader:
    """A file of a thousand rows, in pieces where the format has small ones."""
    runs = StoredRuns(
        SCHEMA, file_format_level0=file_format.value, parquet_row_group_rows=100, sst_block_bytes=1_024
    )
    (entry,) = await runs.add(rows_of(COUNT))
    return await runs.open(entry)


@FORMATS
async def test_pieces_follow_each_other(file_format: FileFormat) -> None:
    """They are numbered through without a gap, and their keys ascend, from the entry's first to its last."""
    reader = await opened(file_format)
    pieces = reader.pieces
    ends = list(itertools.accumulate(piece.rows for piece in pieces))
    assert [piece.first_row for piece in pieces] == [0, *ends[:-1]]
    assert ends[-1] == reader.entry.rows == COUNT
    keys = [key for piece in pieces for key in (piece.min_key, piece.max_key)]
    assert keys == sorted(keys)  # type: ignore[type-var]
    assert (keys[0], keys[-1]) == (reader.entry.min_key, reader.entry.max_key)


@FORMATS
async def test_pieces_together_are_the_file(file_format: FileFormat) -> None:
    """Read one by one, they have the rows that are read at once."""
    reader = await opened(file_format)
    found = [await reader.read(SCHEMA.fields, [number]) for number in range(len(reader.pieces))]
    assert [row for rows in found for row in rows.to_pylist()] == rows_of(COUNT).to_pylist()
    assert (await reader.read(SCHEMA.fields)).to_pylist() == rows_of(COUNT).to_pylist()


@FORMATS
async def test_rows_are_counted_through_the_pieces(file_format: FileFormat) -> None:
    """Numbers of rows begin at the first piece that is read."""
    reader = await opened(file_format)
    last = len(reader.pieces) - 1
    first = reader.pieces[last].first_row
    found = await reader.read(SCHEMA.fields, [last], rows=np.array([0, 3]))
    assert found.to_pylist() == rows_of(COUNT).take([first, first + 3]).to_pylist()


@FORMATS
async def test_a_loaded_file_has_the_same_rows(file_format: FileFormat) -> None:
    """What was fetched beforehand is what would have been read."""
    reader = await opened(file_format)
    loaded = await reader.load(SCHEMA.fields[:2], [0])
    expected = await reader.read(SCHEMA.fields[:2], [0])
    assert (await loaded.read(SCHEMA.fields[:2], [0])).equals(expected)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (EVERY_KEY, True),
        ((b"c", None), True),
        ((b"d", None), True),
        ((b"d\x00", None), False),
        ((None, b"b"), False),
        ((None, b"b\x00"), True),
        ((b"c", b"c\x00"), True),
        ((b"e", b"z"), False),
    ],
)
def test_a_file_or_piece_may_have_keys_of_a_range(keys: KeyRange, expected: bool) -> None:
    """The first key of a range is in it, the end is not; files and pieces are judged alike."""
    entry = FileEntry(path="f", size=1, rows=2, min_key=b"b", max_key=b"d")
    piece = Piece(rows=2, first_row=0, size=1, min_key=b"b", max_key=b"d")
    assert has_keys(entry, keys) is has_keys(piece, keys) is expected


def test_without_a_key_any_range_may_be_there() -> None:
    """A file of a table without a primary key says nothing of keys."""
    assert has_keys(FileEntry(path="f", size=1, rows=1), (b"x", b"y"))
