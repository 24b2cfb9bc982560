"""Parquet files read through a store: the right rows, for the requests that were promised."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lakehouse.cache import CacheBudget
from lakehouse.config import CacheSettings
from lakehouse.errors import NotFoundError
from lakehouse.format.metadata.file_entry import KIND_COLUMN, SEQUENCE_COLUMN
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import SEQUENCE_FIELD, Field, Primitive, StringType, StructType
from lakehouse.io import measure
from lakehouse.storage.files.parquet import WHOLE_BYTES
from lakehouse.storage.metadata.caches import RunCaches
from tests.kit.parquet_files import ROOT, StoredFile, key_of, stored
from tests.kit.parquet_samples import FIELDS, KEYED, keyed_rows, many_rows

ROWS = many_rows(40_000)
"""In row groups of 4,000 rows they make a file that is read in parts."""
IDS = ROWS["id"].to_pylist()


async def large_file() -> StoredFile:
    """A file of ten row groups, larger than what is read whole."""
    file = await stored(ROWS, KEYED, group_rows=4_000, codec="none")
    assert file.entry.size > 2 * WHOLE_BYTES
    return file


def with_kinds(rows: pa.Table, kinds: list[int]) -> pa.Table:
    """The rows with their kinds."""
    return rows.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))


@given(keyed_rows())
@settings(max_examples=40, deadline=None)
def test_every_type_reads_back(found: tuple[TableSchema, pa.Table]) -> None:
    """Rows of any schema are read as they were written, types and field ids included."""
    schema, rows = found

    async def run() -> pa.Table:
        file = await stored(rows, schema, group_rows=5)
        return await (await file.open()).read(schema.fields)

    read = asyncio.run(run())
    assert read.equals(rows)
    assert read.schema.equals(rows.schema, check_metadata=True)


async def test_a_small_file_costs_one_request() -> None:
    """Opening, reading and looking up in a small file is one GET in all, and nothing when cached."""
    file = await stored(many_rows(100), KEYED, group_rows=30)
    run = await file.open()
    assert (await run.read(FIELDS)).equals(many_rows(100))
    assert (await run.get(key_of(KEYED, 30), FIELDS))["id"].to_pylist() == [30]
    assert file.store.kinds() == {"get": 1}
    file.store.clear()
    assert (await (await file.open()).read(FIELDS[:1])).num_rows == 100
    assert file.store.kinds() == {}


async def test_opening_a_large_file_costs_one_request_once() -> None:
    """The footer is fetched with the file's tail, and kept."""
    file = await large_file()
    await file.open()
    assert file.store.kinds() == {"get": 1}
    await file.open()
    assert file.store.kinds() == {"get": 1}


async def test_a_long_footer_costs_a_second_request() -> None:
    """Where the footer does not fit the tail, exactly what is missing is read."""
    file = await stored(many_rows(20_000), KEYED, group_rows=16, codec="none")
    run = await file.open()
    assert len(run.pieces) == 1_250
    assert file.store.kinds() == {"get": 2}


async def test_the_table_option_sizes_the_tail() -> None:
    """A table with small row groups has long footers, which one request fetches none the less."""
    options = {"parquet.row_group_rows": "128"}
    schema = replace(KEYED, options=options)
    file = await stored(many_rows(40_000), schema, group_rows=128, codec="none")
    assert len((await file.open()).pieces) == 313
    assert file.store.kinds() == {"get": 1}


async def test_neighbouring_chunks_share_a_request() -> None:
    """All columns of some row groups in a row are one request."""
    file = await large_file()
    run = await file.open()
    file.store.clear()
    assert (await run.read(FIELDS, [3, 4])).equals(ROWS.slice(12_000, 8_000))
    assert file.store.kinds() == {"get": 1}


async def test_only_what_is_asked_for_is_fetched() -> None:
    """A column of a row group costs the bytes of its chunk and no others."""
    file = await large_file()
    run = await file.open()
    with measure() as cost:
        await run.read(FIELDS[1:2], [9])
    assert 4_000 * 8 < cost.bytes_read < 4_000 * 8 + 200


async def test_columns_far_apart_are_read_beside_each_other() -> None:
    """Chunks with much between them are separate requests."""
    rows = many_rows(100_000)
    long = pa.array(np.char.add(rows["note"].to_numpy().astype("U"), " " * 40))
    file = await stored(rows.set_column(3, "note", long), KEYED, group_rows=30_000, codec="none")
    run = await file.open()
    file.store.clear()
    assert (await run.read(FIELDS[:2])).equals(rows.select(["id", "amount"]))
    assert file.store.kinds() == {"get": 4}


async def test_row_groups_may_be_read_in_any_order() -> None:
    """Pieces come in the order they are asked for."""
    run = await (await large_file()).open()
    read = await run.read(FIELDS, [7, 1])
    assert read.equals(pa.concat_tables([ROWS.slice(28_000, 4_000), ROWS.slice(4_000, 4_000)]))
    assert (await run.read(FIELDS, [])).equals(ROWS.slice(0, 0))


async def test_some_rows_are_read_as_all_and_picked_then() -> None:
    """Rows by their numbers through the pieces, also of no piece's own, and of columns nobody has."""
    run = await (await large_file()).open()
    both = pa.concat_tables([ROWS.slice(28_000, 4_000), ROWS.slice(4_000, 4_000)])
    for wanted in ([0, 3_999, 4_000, 7_999], [5_000], [], range(8_000)):
        rows = np.array(wanted, np.int64)
        assert (await run.read(FIELDS, [7, 1], rows=rows)).equals(both.take(rows))
    assert (await run.read([], [7, 1], rows=np.array([2, 7_000]))).num_rows == 2


async def test_pieces_tell_rows_keys_and_bounds() -> None:
    """A piece is a row group with its place, its keys, its size and the bounds of its columns."""
    file = await large_file()
    pieces = (await file.open()).pieces
    assert [piece.rows for piece in pieces] == [4_000] * 10
    assert [piece.first_row for piece in pieces] == list(range(0, 40_000, 4_000))
    assert pieces[2].min_key == key_of(KEYED, IDS[8_000])
    assert pieces[2].max_key == key_of(KEYED, IDS[11_999])
    assert 0 < sum(piece.size for piece in pieces) < file.entry.size
    assert pieces[2].stats is not None
    assert pieces[2].stats[1].low == pieces[2].min_key
    assert pieces[2].stats[3].high == b"city-6"


async def test_append_only_files_have_pieces_without_keys() -> None:
    """Rows without a key are read in their order; a lookup finds none."""
    schema = TableSchema(fields=FIELDS, highest_field_id=4)
    run = await (await stored(many_rows(100), schema, group_rows=40)).open()
    assert [(piece.min_key, piece.max_key) for piece in run.pieces] == [(None, None)] * 3
    assert (await run.read(FIELDS)).equals(many_rows(100))
    assert (await run.get(b"x", FIELDS)).num_rows == 0


async def test_files_without_rows_are_read() -> None:
    """A file without rows has no piece, and reads as no row."""
    schema = TableSchema(fields=FIELDS, highest_field_id=4)
    run = await (await stored(many_rows(0), schema)).open()
    assert list(run.pieces) == []
    assert (await run.read(FIELDS, kinds=True)).num_rows == 0


# --- kinds and numbers ---------------------------------------------------------------


async def test_kinds_come_last_when_asked_for() -> None:
    """``_VALUE_KIND`` is the last column of a read that asks for it, and of no other."""
    rows = with_kinds(many_rows(4), [0, 1, 2, 0])
    run = await (await stored(rows, KEYED)).open()
    assert (await run.read(FIELDS[:1])).column_names == ["id"]
    read = await run.read(FIELDS[:1], kinds=True)
    assert read.column_names == ["id", KIND_COLUMN]
    assert read[KIND_COLUMN].to_pylist() == [0, 1, 2, 0]
    assert read[KIND_COLUMN].type == pa.int8()


async def test_files_without_kinds_have_inserts() -> None:
    """A file that has no column of kinds reads as inserts, even when no other column is asked for."""
    run = await (await stored(many_rows(4), KEYED)).open()
    assert (await run.read((), kinds=True)).to_pydict() == {KIND_COLUMN: [0] * 4}
    assert (await run.read(())).num_rows == 4


async def test_sequence_numbers_are_read_like_a_field() -> None:
    """The number of the snapshot a row came with is a field by its reserved id, null where inherited."""
    numbered = many_rows(3).append_column(SEQUENCE_COLUMN, pa.array([5, None, 6], pa.int64()))
    for rows, numbers in ((numbered, [5, None, 6]), (many_rows(3), [None] * 3)):
        run = await (await stored(rows, KEYED)).open()
        assert (await run.read([SEQUENCE_FIELD])).to_pydict() == {SEQUENCE_COLUMN: numbers}


# --- evolution -----------------------------------------------------------------------


async def test_old_files_are_read_by_field_id() -> None:
    """Columns are found whatever they are called now, widened, filled in, and in any order."""
    fields = (
        Field(id=1, name="id", type=Primitive("int32"), required=True),
        Field(id=2, name="old", type=Primitive("float")),
        Field(id=3, name="dropped", type=StringType()),
    )
    old = TableSchema(fields=fields, primary_key=("id",), highest_field_id=3)
    rows = pa.table(
        [pa.array([1, 2], pa.int32()), pa.array([0.5, None], pa.float32()), ["x", "y"]], old.arrow().names
    )
    now = (
        Field(id=4, name="dropped", type=StringType(), initial_default="new"),
        Field(id=2, name="amount", type=Primitive("double")),
        Field(id=1, name="number", type=Primitive("int64"), required=True),
    )
    file = await stored(rows, old)
    new = TableSchema(fields=now, primary_key=("number",), highest_field_id=4)
    run = await file.open(new)
    assert (await run.read(now)).to_pylist() == [
        {"dropped": "new", "amount": 0.5, "number": 1},
        {"dropped": "new", "amount": None, "number": 2},
    ]
    found = await run.get(key_of(new, 2), now)
    assert found.to_pylist() == [{"dropped": "new", "amount": None, "number": 2, KIND_COLUMN: 0}]


async def test_nested_fields_are_read_by_id() -> None:
    """Of a struct only the fields asked for are there; one the file lacks is null where the struct is not."""
    had = StructType(
        (Field(id=3, name="a", type=Primitive("int32")), Field(id=4, name="b", type=StringType()))
    )
    old = TableSchema(fields=(Field(id=2, name="s", type=had),), highest_field_id=4)
    rows = pa.Table.from_pylist([{"s": {"a": 1, "b": "x"}}, {"s": None}], schema=old.arrow())
    run = await (await stored(rows, old)).open()
    renamed = StructType(
        (Field(id=4, name="text", type=StringType()), Field(id=5, name="c", type=StringType()))
    )
    assert (await run.read([Field(id=2, name="t", type=renamed)])).to_pylist() == [
        {"t": {"text": "x", "c": None}},
        {"t": None},
    ]
    added = StructType((Field(id=5, name="c", type=StringType()),))
    assert (await run.read([Field(id=2, name="t", type=added)])).to_pylist() == [
        {"t": {"c": None}},
        {"t": None},
    ]


# --- point reads ---------------------------------------------------------------------


async def test_a_point_read_is_one_request_then_none() -> None:
    """A lookup reads one row group at once; others in the same row group are free."""
    file = await large_file()
    run = await file.open()
    file.store.clear()
    for row in (8_000, 9_500, 11_999):
        found = await run.get(key_of(KEYED, IDS[row]), FIELDS)
        assert found.equals(with_kinds(ROWS.slice(row, 1), [0]))
    assert file.store.kinds() == {"get": 1}


async def test_a_point_read_of_scattered_columns_is_one_request() -> None:
    """Columns that are not neighbours are fetched with what stands between them."""
    rows = many_rows(50_000)
    long = pa.array(np.char.add(rows["note"].to_numpy().astype("U"), " " * 40))
    file = await stored(rows.set_column(2, "city", long), KEYED, codec="none")
    run = await file.open()
    file.store.clear()
    found = await run.get(key_of(KEYED, 300), FIELDS[3:])
    assert found.to_pylist() == [{"note": "note of row 300", KIND_COLUMN: 0}]
    assert run.pieces[0].size > 3 << 20
    assert file.store.kinds() == {"get": 1}


async def test_point_reads_fetch_no_other_row_group() -> None:
    """The bytes of a lookup are those of one row group at most."""
    file = await large_file()
    run = await file.open()
    with measure() as cost:
        await run.get(key_of(KEYED, IDS[20_000]), FIELDS)
    assert cost.bytes_read <= run.pieces[5].size


async def test_keys_that_are_not_there_are_found_missing() -> None:
    """A key between rows gives no row; one outside the file, or between row groups, costs no request."""
    file = await large_file()
    run = await file.open()
    file.store.clear()
    for number in (-1, IDS[3_999] + 1, IDS[-1] + 3):
        missing = await run.get(key_of(KEYED, number), FIELDS)
        assert missing.num_rows == 0
        assert missing.column_names == ["id", "amount", "city", "note", KIND_COLUMN]
    assert file.store.kinds() == {}
    assert (await run.get(key_of(KEYED, IDS[5_000] + 1), FIELDS)).num_rows == 0


async def test_deleted_keys_are_found_with_their_kind() -> None:
    """A lookup returns the row of a deleted key, so that older rows are not looked for."""
    run = await (await stored(with_kinds(many_rows(3), [0, 2, 0]), KEYED)).open()
    found = await run.get(key_of(KEYED, 3), FIELDS[:1])
    assert found.to_pylist() == [{"id": 3, KIND_COLUMN: 2}]


async def test_keys_of_several_columns_are_found() -> None:
    """A lookup works on text and on keys of more than one column, in key order."""
    schema = replace(KEYED, primary_key=("city", "id"))
    rows = many_rows(5_000).sort_by([("city", "ascending"), ("id", "ascending")])
    run = await (await stored(rows, schema, group_rows=700)).open()
    for row in (0, 699, 700, 4_999):
        wanted = rows.slice(row, 1)
        key = key_of(schema, wanted["city"][0].as_py(), wanted["id"][0].as_py())
        assert (await run.get(key, FIELDS)).equals(with_kinds(wanted, [0]))


async def test_simultaneous_point_reads_share_the_request() -> None:
    """Many lookups in one row group at once fetch it once."""
    file = await large_file()
    run = await file.open()
    file.store.clear()
    keys = [key_of(KEYED, number) for number in IDS[4_000:4_030]]
    found = await asyncio.gather(*(run.get(key, FIELDS) for key in keys))
    assert [one["id"][0].as_py() for one in found] == IDS[4_000:4_030]
    assert file.store.kinds() == {"get": 1}


async def test_nothing_is_kept_without_a_cache() -> None:
    """With no bytes for caches every call fetches, and answers all the same."""
    file = replace(await large_file(), caches=RunCaches(CacheBudget(CacheSettings(max_bytes=0))))
    run = await file.open()
    for _ in range(2):
        assert (await run.get(key_of(KEYED, IDS[1]), FIELDS))["id"].to_pylist() == [IDS[1]]
    assert file.store.kinds() == {"get": 3}


async def test_missing_files_are_said_to_be_missing() -> None:
    """An entry whose object is gone is a NotFoundError with the key."""
    file = await large_file()
    await file.store.delete(f"{ROOT}/{file.entry.path}")
    with pytest.raises(NotFoundError, match=file.entry.path):
        await file.open()
