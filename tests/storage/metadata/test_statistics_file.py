"""Statistics files as snapshots name them: footers that are checked, and whose rows they are of."""

from __future__ import annotations

import dataclasses

import pytest

from lakehouse.errors import FormatError, NotFoundError
from lakehouse.format.metadata import StatisticsRef
from lakehouse.format.puffin import sketches_of
from lakehouse.lake import Lake
from lakehouse.storage.metadata import has_rows_of, join, read_statistics
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.published import ROWS, numbered


async def analyzed(store: RecordingStore) -> tuple[Table, StatisticsRef]:
    """A table with statistics, and its newest snapshot's reference to them."""
    lake = Lake(store)
    await lake.create_database("db")
    table = await lake.create_table("db.t", ROWS, primary_key="id")
    await table.upsert(numbered(0, 50))
    await table.analyze()
    ref = (await table.core.newest()).snapshot.statistics
    assert ref is not None
    return table, ref


async def test_a_footer_is_read_by_one_request() -> None:
    """The tail of the file has the footer, and its size is that of magic, payload and trailer."""
    store = RecordingStore(memory_store())
    table, ref = await analyzed(store)
    store.clear()
    read = await read_statistics(store, table.core.root, ref)
    assert sum(store.kinds().values()) == 1
    assert {column.ndv for column in sketches_of(read.footer).columns.values()} == {50}
    data = (await store.get(join(table.core.root, ref.path))).data
    assert bytes(data[ref.size - read.size :][:4]) == b"PFA1"
    assert bytes(data[ref.size - read.size + 4 :][:1]) == b"{"


async def test_a_lost_or_cut_file_says_so() -> None:
    """Gone, of another size, or not a puffin file: each is an error that names the object."""
    store = RecordingStore(memory_store())
    table, ref = await analyzed(store)
    root, key = table.core.root, join(table.core.root, ref.path)
    with pytest.raises(FormatError, match=r"statistics/.* has .* bytes, and the snapshot says"):
        await read_statistics(store, root, dataclasses.replace(ref, size=ref.size - 1))
    await store.put(key, b"x" * ref.size)
    with pytest.raises(FormatError, match="statistics/"):
        await read_statistics(store, root, ref)
    await store.delete(key)
    with pytest.raises(NotFoundError):
        await read_statistics(store, root, ref)


async def test_rows_are_the_same_until_rows_are_written() -> None:
    """Tags and analyses change no rows, an upsert does, and of a snapshot that is gone nobody knows."""
    table, ref = await analyzed(RecordingStore(memory_store()))
    snapshots = table.core.snapshots
    await table.create_tag("t")
    assert await has_rows_of(snapshots, (await table.core.newest()).snapshot, ref.snapshot)
    await table.upsert(numbered(50, 51))
    newest = (await table.core.newest()).snapshot
    assert not await has_rows_of(snapshots, newest, ref.snapshot)
    assert not await has_rows_of(snapshots, newest, newest.id + 7)
