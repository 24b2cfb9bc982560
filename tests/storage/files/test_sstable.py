"""Readers of SSTables in a store: what they cost, what they return, what they refuse."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings
from lakehouse.errors import CorruptionError, FormatError, InvalidInputError, NotFoundError
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN, FileEntry
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import KIND_FIELD, Field, Primitive, StringType
from lakehouse.format.sstable.frame import Footer
from lakehouse.format.sstable.writer import SstableOptions, encode_sstable
from lakehouse.storage.files.open import open_run
from lakehouse.storage.files.sstable import WHOLE_BYTES, SstableRun, open_sstable
from lakehouse.storage.metadata.caches import RunCaches
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.blob_samples import flipped
from tests.kit.sstable_samples import SCHEMA, entry_of, rows_of, with_kinds

ROOT = "sales/orders-01020304"
CODEC = RowKeyCodec(SCHEMA.key_fields)
PLAIN = SstableOptions(codec="none", block_bytes=4096, piece_bytes=32 * 1024)
LARGE = rows_of(20_000)


class Bench:
    """One file in a recording store."""

    def __init__(self, data: bytes, entry: FileEntry, schema: TableSchema = SCHEMA) -> None:
        self.store = RecordingStore(memory_store())
        self.data = data
        self.entry = entry
        self.schema = schema
        self.caches = RunCaches(CacheBudget())

    async def open(self, **about: Any) -> SstableRun:
        """A reader; the requests it took are in the store's record."""
        await self.store.put(f"{ROOT}/{self.entry.path}", self.data)
        self.store.clear()
        return await open_sstable(self.store, ROOT, self.entry, self.schema, self.caches, **about)

    @property
    def requests(self) -> int:
        """How many there were since the last look; all of them must be reads of ranges."""
        count = len(self.store.calls)
        assert {call.verb for call in self.store.calls} <= {"get_range"}
        self.store.clear()
        return count


def bench(rows: pa.Table = LARGE, options: SstableOptions = PLAIN, schema: TableSchema = SCHEMA) -> Bench:
    """A file of these rows."""
    data = encode_sstable(rows, schema, options)
    return Bench(data, entry_of(data, rows, schema), schema)


def key_of(number: int) -> bytes:
    """The row key of an id."""
    return CODEC.encode_one((number,))


def shown(rows: pa.Table, at: int) -> list[dict[str, Any]]:
    """A row as point reads return it, an insert."""
    return [row | {KIND_COLUMN: 0} for row in rows.slice(at, 1).to_pylist()]


async def test_opening_costs_one_request_and_then_none() -> None:
    """The tail brings all metadata at once, the filter too; a second reader asks nobody."""
    file = bench()
    assert file.entry.size > WHOLE_BYTES
    await file.open()
    assert file.requests == 1
    again = await open_sstable(file.store, ROOT, file.entry, SCHEMA, file.caches)
    assert (await again.get(b"\x00", SCHEMA.fields)).num_rows == 0
    assert file.requests == 0


async def test_a_short_tail_costs_another_request_each() -> None:
    """Metadata that the first read did not bring costs one more, the filter one when it is first asked."""
    file = bench()
    run = await file.open(prefetch_bytes=Footer.ENCODED_SIZE)
    assert file.requests == 2
    assert (await run.get(key_of(8), SCHEMA.fields)).num_rows == 1
    assert file.requests == 2
    assert (await run.get(key_of(9), SCHEMA.fields)).num_rows == 0
    assert file.requests == 0


async def test_a_point_read_costs_one_request_and_then_none() -> None:
    """With its metadata known, a row costs one read of one block, and its neighbours nothing."""
    file = bench()
    run = await file.open()
    file.store.clear()
    found = await run.get(key_of(2 * 12_345), SCHEMA.fields)
    assert found.to_pylist() == shown(LARGE, 12_345)
    assert file.requests == 1
    assert (await run.get(key_of(2 * 12_346), SCHEMA.fields)).to_pylist() == shown(LARGE, 12_346)
    assert file.requests == 0


async def test_absent_keys_cost_nothing() -> None:
    """Keys that the filter denies, or that lie outside the file's keys, are answered without a request."""
    file = bench()
    run = await file.open()
    file.store.clear()
    absent = [1, 777, 20_001, -5, 10**9]
    for number in absent:
        found = await run.get(key_of(number), SCHEMA.fields)
        assert (found.num_rows, found.column_names[-1]) == (0, KIND_COLUMN)
    assert file.requests == 0


async def test_a_small_file_is_read_at_once() -> None:
    """A file below the limit costs one request in all, for every row of it."""
    rows = rows_of(300)
    file = bench(rows)
    run = await file.open()
    assert (await run.read(SCHEMA.fields)).equals(rows)
    assert (await run.get(key_of(10), SCHEMA.fields)).to_pylist() == shown(rows, 5)
    again = await open_sstable(file.store, ROOT, file.entry, SCHEMA, file.caches)
    assert (await again.read(SCHEMA.fields)).equals(rows)
    assert file.requests == 1


async def test_seeking_equals_scanning() -> None:
    """Every key is found with the row that a scan shows, with its kind, and no other key is."""
    rows = with_kinds(rows_of(500), [at % 3 for at in range(500)])
    for block_bytes in (64, 1000, 1 << 20):
        run = await bench(rows, SstableOptions(block_bytes=block_bytes)).open()
        scanned = (await run.read(SCHEMA.fields, kinds=True)).to_pylist()
        assert scanned == rows.to_pylist()
        for number in range(-1, 1001):
            found = (await run.get(key_of(number), SCHEMA.fields)).to_pylist()
            assert found == (scanned[number // 2 :][:1] if number in range(0, 1000, 2) else [])


async def test_a_scan_reads_neighbours_together() -> None:
    """All pieces are read in one request when they fit one, and give the rows in order."""
    file = bench()
    run = await file.open()
    file.store.clear()
    assert len(run.pieces) > 10
    found = await run.read(SCHEMA.fields)
    assert found.equals(LARGE)
    assert found.schema.equals(SCHEMA.arrow(), check_metadata=True)
    assert file.requests == 1


async def test_pieces_are_read_apart() -> None:
    """A piece has the rows, the size and the keys it says, and is read alone."""
    file = bench()
    run = await file.open()
    file.store.clear()
    sizes = 0
    for number, piece in enumerate(run.pieces):
        found = await run.read(SCHEMA.fields, [number])
        assert found.equals(LARGE.slice(piece.first_row, piece.rows))
        keys = CODEC.encode([found.column("id")])
        assert (piece.min_key, piece.max_key) == (keys[0].as_py(), keys[-1].as_py())
        sizes += piece.size
    assert file.requests == len(run.pieces)
    assert sizes < file.entry.size
    some = await run.read(SCHEMA.fields, [1, 2, 7])
    parts = [LARGE.slice(run.pieces[at].first_row, run.pieces[at].rows) for at in (1, 2, 7)]
    assert some.equals(pa.concat_tables(parts))
    assert (await run.read(SCHEMA.fields, [])).num_rows == 0


async def test_some_rows_are_read_as_all_and_picked_then() -> None:
    """Rows by their numbers through the pieces, and of columns the file never had."""
    run = await bench().open()
    both = await run.read(SCHEMA.fields, [2, 5])
    for wanted in ([0, run.pieces[2].rows, both.num_rows - 1], [], range(both.num_rows)):
        rows = np.array(wanted, np.int64)
        assert (await run.read(SCHEMA.fields, [2, 5], rows=rows)).equals(both.take(rows))
    assert (await run.read([], [2, 5], rows=np.array([1, 3]))).num_rows == 2


async def test_counting_reads_nothing() -> None:
    """Rows without columns are counted by the index, and columns that the file never had are made."""
    file = bench()
    run = await file.open()
    file.store.clear()
    added = Field(id=9, name="added", type=Primitive("int32"), initial_default=7)
    assert (await run.read([])).num_rows == LARGE.num_rows
    found = await run.read([added], [0])
    assert found.to_pydict() == {"added": [7] * run.pieces[0].rows}
    assert file.requests == 0


async def test_columns_are_shown_as_asked() -> None:
    """Columns come by id: renamed, widened, in another order, and with what later fields have by default."""
    schema = TableSchema(
        fields=(
            Field(id=1, name="id", type=Primitive("int32"), required=True),
            Field(id=2, name="old", type=Primitive("float")),
            Field(id=3, name="note", type=StringType()),
        ),
        primary_key=("id",),
        highest_field_id=3,
    )
    rows = pa.table({"id": [1, 2], "old": [0.5, None], "note": ["a", "b"]}).cast(schema.arrow())
    run = await bench(rows, schema=schema).open()
    fields = (
        Field(id=4, name="note", type=StringType(), initial_default="new"),
        Field(id=2, name="renamed", type=Primitive("double")),
        Field(id=1, name="id", type=Primitive("int64"), required=True),
    )
    expected = [{"note": "new", "renamed": 0.5, "id": 1}, {"note": "new", "renamed": None, "id": 2}]
    found = await run.read(fields)
    assert found.to_pylist() == expected
    assert found.schema.types == [pa.string(), pa.float64(), pa.int64()]
    one = await run.get(key_of(2), fields)
    assert one.to_pylist() == [expected[1] | {KIND_COLUMN: 0}]
    assert one.schema.equals((await run.read([*fields, KIND_FIELD])).schema, check_metadata=True)


async def test_kinds_come_when_asked() -> None:
    """Kinds are the last column, of inserts too, and not there unless asked for."""
    run = await bench(rows_of(5)).open()
    assert (await run.read(SCHEMA.fields[:1])).column_names == ["id"]
    assert (await run.read([], kinds=True)).to_pydict() == {KIND_COLUMN: [0] * 5}


async def test_a_table_without_a_key_is_read_by_pieces() -> None:
    """Files of append-only tables have pieces without keys, and nothing to get rows by."""
    schema = replace(SCHEMA, primary_key=())
    run = await bench(LARGE, schema=schema).open()
    assert {piece.min_key for piece in run.pieces} == {None}
    assert (await run.read(schema.fields, [3])).equals(
        LARGE.slice(run.pieces[3].first_row, run.pieces[3].rows)
    )
    with pytest.raises(InvalidInputError, match="without a key"):
        await run.get(b"a", schema.fields)


async def test_an_empty_file_has_no_row() -> None:
    """A file without rows is opened, scanned and asked like any other."""
    run = await bench(rows_of(0)).open()
    assert run.pieces == ()
    assert (await run.read(SCHEMA.fields, kinds=True)).num_rows == 0
    assert (await run.get(key_of(1), SCHEMA.fields)).num_rows == 0


async def test_caches_that_keep_nothing_change_no_answer() -> None:
    """Without room in the caches every answer is the same and costs its requests anew."""
    file = bench()
    file.caches = RunCaches(CacheBudget(CacheSettings(max_bytes=0)))
    run = await file.open()
    file.store.clear()
    for _ in range(2):
        assert (await run.get(key_of(8), SCHEMA.fields)).to_pylist() == shown(LARGE, 4)
        assert file.requests == 1


async def test_metadata_and_blocks_are_weighed_apart() -> None:
    """What a file's metadata takes is on one account, its blocks on another, by their sizes."""
    file = bench()
    run = await file.open()
    weight = file.caches.metadata.weight
    assert 20_000 * 10 / 8 < weight < 150_000
    assert file.caches.blocks.weight == 0
    await run.get(key_of(8), SCHEMA.fields)
    assert 4096 <= file.caches.blocks.weight < 8192
    assert file.caches.metadata.weight == weight


async def test_the_format_of_the_entry_decides() -> None:
    """The opener of all formats opens an SSTable as one."""
    file = bench(rows_of(5))
    await file.open()
    run = await open_run(file.store, ROOT, file.entry, SCHEMA, file.caches)
    assert isinstance(run, SstableRun)
    assert run.entry is file.entry


async def test_a_missing_file_is_not_found() -> None:
    """An entry whose object is gone is a NotFoundError."""
    file = bench(rows_of(5))
    with pytest.raises(NotFoundError):
        await open_sstable(memory_store(), ROOT, file.entry, SCHEMA, file.caches)


@pytest.mark.parametrize(
    "about",
    [
        {"rows": 6},
        {"deletes": 1},
        {"updates": 1},
        {"min_key": b"a"},
        {"max_key": b"a"},
        {"size": 100},
        {"size": 10_000},
    ],
)
async def test_another_file_in_its_place_is_refused(about: dict[str, Any]) -> None:
    """A sound file that is not the one the snapshot describes is an error that names the object."""
    file = bench(rows_of(5))
    file.entry = replace(file.entry, **about)
    with pytest.raises(CorruptionError) as caught:
        await file.open()
    assert caught.value.context["key"] == f"{ROOT}/{file.entry.path}"


async def test_a_file_of_another_table_is_refused() -> None:
    """A file whose key columns are not the table's is an error."""
    file = bench(rows_of(5))
    file.schema = replace(SCHEMA, primary_key=("note",))
    with pytest.raises(CorruptionError, match="another file"):
        await file.open()


async def _or_refused(reading: Awaitable[Any], entry: FileEntry) -> Any:
    """What is read, or None for an error that names the object."""
    try:
        return await reading
    except FormatError as error:
        named = error.context["key"]
    assert named == f"{ROOT}/{entry.path}"
    return None


@pytest.mark.parametrize("prefetch", [None, 100])
async def test_every_flipped_bit_gives_the_rows_or_an_error(prefetch: int | None) -> None:
    """Whatever bit of an object is turned over, readers return the rows or name the object."""
    rows = rows_of(20)
    data = encode_sstable(rows, SCHEMA, SstableOptions(block_bytes=200))
    entry, store = entry_of(data, rows), memory_store()
    for bit in range(0, 8 * len(data), 5):  # 5 is coprime to 8: every place in a byte is met
        await store.put(f"{ROOT}/{entry.path}", flipped(data, bit))
        caches = RunCaches(CacheBudget())
        opening = open_sstable(store, ROOT, entry, SCHEMA, caches, prefetch_bytes=prefetch)
        run = await _or_refused(opening, entry)
        if run is None:
            continue
        scanned = await _or_refused(run.read(SCHEMA.fields), entry)
        assert scanned is None or scanned.equals(rows)
        for number in (0, 2, 38):
            found = await _or_refused(run.get(key_of(number), SCHEMA.fields), entry)
            assert found is None or found.to_pylist() == shown(rows, number // 2)


@pytest.mark.parametrize("prefetch", [None, 100])
async def test_every_truncation_gives_an_error(prefetch: int | None) -> None:
    """An object that ends before its end is an error that names it, also while it is being read."""
    rows = rows_of(20)
    data = encode_sstable(rows, SCHEMA, SstableOptions(block_bytes=200))
    entry, store = entry_of(data, rows), memory_store()
    for size in range(0, len(data), 3):
        await store.put(f"{ROOT}/{entry.path}", data[:size])
        with pytest.raises(FormatError) as caught:
            await open_sstable(store, ROOT, entry, SCHEMA, RunCaches(CacheBudget()), prefetch_bytes=prefetch)
        assert caught.value.context["key"] == f"{ROOT}/{entry.path}"


async def test_an_object_that_is_replaced_is_noticed() -> None:
    """Blocks of another object than the one whose metadata is known are an error."""
    file = bench()
    run = await file.open()
    await file.store.put(f"{ROOT}/{file.entry.path}", bytes(len(file.data)))
    with pytest.raises(CorruptionError):
        await run.get(key_of(8), SCHEMA.fields)
    with pytest.raises(CorruptionError):
        await run.read(SCHEMA.fields)


async def test_damage_is_not_kept() -> None:
    """A block that was refused is asked for again, and found sound when it is."""
    file = bench()
    run = await file.open()
    key = f"{ROOT}/{file.entry.path}"
    damaged = flipped(file.data, 8 * 100)
    run_of_damaged = Bench(damaged, file.entry)
    broken = await run_of_damaged.open()
    for _ in range(2):
        with pytest.raises(CorruptionError, match="at byte 32") as caught:
            await broken.get(key_of(8), SCHEMA.fields)
        assert caught.value.context["key"] == key
    assert (await run.get(key_of(8), SCHEMA.fields)).num_rows == 1
