"""Data files are encoded, described and stored, and whatever was begun is remembered."""

from __future__ import annotations

import dataclasses
import io
import random
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.config import IoSettings
from lakehouse.errors import UnavailableError
from lakehouse.format.metadata import FileFormat, Level
from lakehouse.format.schema import TableSchema, parse_indexes
from lakehouse.io import ObjectStore
from lakehouse.storage.files.file_writer import FileRows, FileWriter
from lakehouse.storage.rows.partitioner import PartitionRows
from lakehouse.testing import Fault, FaultKind, FaultyStore, RecordingStore, memory_store
from tests.kit.timed_store import TimedStore
from tests.kit.written_files import FIELDS, OPTIONS, ROOT, keys_in, options_of, read_file, schema_of

SCHEMA = schema_of()


def rows_of(count: int) -> pa.Table:
    """Rows in the order of their ids, which do not compress well."""
    chance = random.Random(count)
    return pa.table(
        {
            "id": range(count),
            "day": pa.array([20_000] * count, pa.int32()).cast(pa.date32()),
            "name": [f"{chance.getrandbits(64):016x}" for _ in range(count)],
            "amount": [None if number % 3 else number / 7 for number in range(count)],
        },
        schema=SCHEMA.arrow(),
    )


def writer_of(store: ObjectStore, schema: TableSchema = SCHEMA, **arguments: Any) -> FileWriter:
    """A writer of Parquet files."""
    options = arguments.pop("options", OPTIONS)
    return FileWriter(store, ROOT, schema, options, **{"format": FileFormat.PARQUET, **arguments})


def file_of(rows: pa.Table, *, run: int = 0, order: pa.Array | None = None) -> FileRows:
    """Rows of a file."""
    return FileRows(PartitionRows(source=rows, order=order), run, 0)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.SSTABLE])
async def test_an_entry_describes_its_file(file_format: FileFormat) -> None:
    """Size, checksum, counts, keys and statistics are those of the stored rows; the run is as asked."""
    store = memory_store()
    writer = writer_of(store, format=file_format, level=Level.COMPACTED)
    entry = await writer.upload(file_of(rows_of(100), run=4))
    assert (entry.run, entry.level, entry.format) == (4, Level.COMPACTED, file_format)
    found = await read_file(store, entry, SCHEMA)
    assert [row["id"] for row in found] == list(range(100))


async def test_rows_are_stored_in_their_order() -> None:
    """The rows of a part are a selection of its source, written as the order says."""
    store = memory_store()
    entry = await writer_of(store).upload(file_of(rows_of(10), order=pa.array([2, 5, 7])))
    assert [row["id"] for row in await read_file(store, entry, SCHEMA)] == [2, 5, 7]


async def test_many_rows_are_the_same_rows() -> None:
    """A file that is computed in several threads has the rows and the entry of one that is not."""
    count = 1 << 17
    rows = pa.table(
        {
            "id": np.arange(count),
            "day": pa.array(np.full(count, 20_000, np.int32)).cast(pa.date32()),
            "name": pa.repeat("x", count),
            "amount": np.arange(count) / 2,
        },
        schema=SCHEMA.arrow(),
    )
    order = pa.array(np.arange(count))
    store = memory_store()
    whole = await writer_of(store).upload(file_of(rows))
    taken = await writer_of(store).upload(file_of(rows, order=order))
    data = (await store.get(f"{ROOT}/{taken.path}")).data
    assert pq.read_table(io.BytesIO(data)).select(rows.column_names).equals(rows)
    assert taken.checksum == google_crc32c.value(data)
    assert (taken.rows, taken.min_key, taken.max_key) == (count, whole.min_key, whole.max_key)
    assert taken.stats == whole.stats


async def test_an_index_file_is_stored_beside_its_file() -> None:
    """A file that gets indexes has an entry that refers to them, and both paths are remembered."""
    schema = TableSchema(
        fields=FIELDS,
        primary_key=("id",),
        highest_field_id=4,
        indexes=parse_indexes({"name": "bloom"}, FIELDS),
    )
    store = memory_store()
    writer = writer_of(store, schema, options=dataclasses.replace(OPTIONS, index_min_rows=1))
    entry = await writer.upload(file_of(rows_of(100)))
    assert entry.index is not None
    assert entry.index.ids == (1,)
    assert writer.paths == [entry.path, entry.index.path]
    assert sorted(await keys_in(store)) == sorted(f"{ROOT}/{path}" for path in writer.paths)


async def test_an_upload_that_fails_is_remembered() -> None:
    """The path of a file whose upload began is known, so that it can be deleted."""
    store = FaultyStore(memory_store(), [Fault(kind=FaultKind.FAIL_AFTER, verb="put")])
    writer = writer_of(store)
    with pytest.raises(UnavailableError):
        await writer.upload(file_of(rows_of(10)))
    assert await keys_in(store) == [f"{ROOT}/{path}" for path in writer.paths]


async def test_the_first_answer_is_dated() -> None:
    """The time of the first upload is the store's, and later uploads do not change it."""
    store = TimedStore(memory_store())
    began, writer = store.now_ms, writer_of(store)
    assert writer.first_answer_ms is None
    for _ in range(2):
        await writer.upload(file_of(rows_of(10)))
        assert writer.first_answer_ms == began
        store.advance(60)


async def test_the_rows_that_fill_a_file_are_estimated() -> None:
    """By a sample, and then by the files written, a file of so many rows is about as large as asked."""
    store = memory_store()
    writer = writer_of(store, options=options_of(target_bytes=20_000))
    rows = rows_of(5_000)
    for _ in range(2):
        fitting = writer.fitting_rows(PartitionRows(source=rows))
        entry = await writer.upload(file_of(rows.slice(0, fitting)))
        assert 14_000 < entry.size < 26_000


async def test_a_row_is_more_than_nothing() -> None:
    """However small a file is to be, it has a row."""
    writer = writer_of(memory_store(), options=options_of(target_bytes=1))
    assert writer.fitting_rows(PartitionRows(source=rows_of(10))) == 1


async def test_a_file_too_large_for_one_put_goes_in_parts() -> None:
    """Large files are uploaded in parts, and read back whole."""
    store = RecordingStore(memory_store(IoSettings(single_put_max_bytes=10_000, part_bytes=50_000)))
    entry = await writer_of(store).upload(file_of(rows_of(10_000)))
    assert [call.verb for call in store.calls].count("multipart_start") == 1
    assert len(await read_file(store, entry, SCHEMA)) == 10_000


async def test_rows_are_handed_over_once() -> None:
    """Nobody else holds the rows of a file that is being written."""
    file = file_of(rows_of(1))
    assert len(file.take()) == 1
    with pytest.raises(AssertionError):
        file.take()
