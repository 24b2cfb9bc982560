"""Files of a snapshot: a sequence over its manifests, with columns beside the entries."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from lakehouse.expr.columnar import UNKNOWN
from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry
from lakehouse.format.metadata.live_files import ColumnarEntries, LiveFiles


def entry(number: int, partition: bytes = b"p") -> FileEntry:
    """An entry with a name and statistics."""
    stats = {1: ColumnStats(nulls=number, low=b"%d" % number)} if number % 2 else {}
    return FileEntry(
        path=f"{number}", at=1, size=1, rows=10, deletes=number, partition=(partition,), stats=stats
    )


ENTRIES = [entry(number) for number in range(7)]
FILES = LiveFiles(
    [
        (ColumnarEntries(ENTRIES[:3]), None),
        (ENTRIES[:0], None),
        (ColumnarEntries(ENTRIES[3:6]), np.array([True, False, True])),
        (ENTRIES[6:], None),
    ]
)
EXPECTED = [ENTRIES[at] for at in (0, 1, 2, 3, 5, 6)]


def test_files_are_those_of_the_parts_in_order() -> None:
    """Length, iteration, numbers from either end and slices leave out what is not meant."""
    assert len(FILES) == 6
    assert list(FILES) == EXPECTED
    assert [FILES[at] for at in range(-6, 6)] == EXPECTED * 2
    assert FILES[1:5:2] == tuple(EXPECTED[1:5:2])
    assert list(FILES.with_more(ENTRIES[:1])) == [*EXPECTED, ENTRIES[0]]
    assert list(LiveFiles([])) == []


@pytest.mark.parametrize("at", [6, -7])
def test_a_number_that_no_file_has_is_refused(at: int) -> None:
    """As of any sequence."""
    with pytest.raises(IndexError, match="there are 6 files"):
        FILES[at]


def test_columns_say_what_the_entries_say() -> None:
    """Rows, partitions and statistics stand where the entry stands."""
    entries = ColumnarEntries([*ENTRIES[:3], entry(3, b"q")])
    assert entries.live_rows.tolist() == [10, 9, 8, 7]
    numbers, partitions = entries.partitions
    assert [partitions[number] for number in numbers.tolist()] == [(b"p",), (b"p",), (b"p",), (b"q",)]
    assert entries.stats(1).nulls.tolist() == [UNKNOWN, 1, UNKNOWN, 3]
    assert entries.stats(1).low.to_pylist() == [None, b"1", None, b"3"]


def test_small_parts_share_columns() -> None:
    """Columns of a few entries would cost more than they save, so neighbours are put together."""
    large = ColumnarEntries([entry(number) for number in range(300)])
    files = LiveFiles(
        [(ENTRIES[:2], None), (ColumnarEntries(ENTRIES[2:4]), None), (large, None), (ENTRIES[4:], None)]
    )
    assert [len(part) for part, _ in files.parts()] == [4, 300, 3]
    assert [part is large for part, _ in files.parts()] == [False, True, False]


def test_files_travel_without_their_columns() -> None:
    """A pickle holds the entries that are meant and nothing else."""
    assert pickle.loads(pickle.dumps(FILES)) == tuple(EXPECTED)
    assert pickle.loads(pickle.dumps(ColumnarEntries(ENTRIES))) == tuple(ENTRIES)
