"""Segments of the log as runs: their rows in key order, their entries, and what reading them costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import KIND_COLUMN, FileEntry, FileFormat, RowKind, SegmentRange
from lakehouse.storage.table import Table
from lakehouse.storage.wal.segment_runs import segment_rows
from lakehouse.testing import RecordingStore
from tests.kit.streaming import made, opened, some, vanish
from tests.kit.table_operations import SCHEMA
from tests.kit.worlds import NAME, process, restored, table_of

Put = list[dict[str, Any]] | int
"""Rows that are put, or the id of a row that is deleted."""


async def logged(*puts: Put, layout: str = "rows move between partitions") -> RecordingStore:
    """A store with a table whose log alone has these puts, each in a segment of its own."""
    store = RecordingStore(await made(layout))
    writer = await opened(store)
    for put in puts:
        await (await (writer.delete([{"id": put}]) if isinstance(put, int) else writer.put(put)))
    await vanish(writer)
    return store


async def streamed(*puts: Put, **how: str) -> Table:
    """The table, as a process sees it that has read nothing of it yet."""
    return await table_of(await logged(*puts, **how))


async def log_of(table: Table) -> list[SegmentRange]:
    """Every segment that is in no file."""
    view = await table.core.freshest()
    assert view.fresh is not None
    return [*view.snapshot.with_positions().segments, view.fresh]


async def runs_of(table: Table, *, together: bool = False) -> list[FileEntry]:
    """The runs of the log."""
    return await table.core.runs.entries(await log_of(table), await table.schema(), together=together)


async def rows_in(table: Table, entry: FileEntry, *names: str) -> list[tuple[Any, ...]]:
    """Values of these columns, and the kinds, of all rows of a run."""
    schema = await table.schema()
    run = await table.core.runs.open(entry, schema)
    rows = await run.read([schema.field(name) for name in names], kinds=True)
    assert rows.column_names == [*names, KIND_COLUMN]
    return [tuple(row.values()) for row in rows.to_pylist()]


async def test_a_run_has_the_last_row_of_each_key_in_key_order() -> None:
    """Rows stand in a segment as they were put, and in its run by key, each key once."""
    table = await streamed(some((2, "a", 1), (1, "b", 1), (2, "a", 5)))
    [entry] = await runs_of(table)
    assert (entry.format, entry.rows, entry.deletes) == (FileFormat.WAL, 2, 0)
    assert await rows_in(table, entry, "v", "id") == [(1, 1, RowKind.INSERT), (5, 2, RowKind.INSERT)]


async def test_rows_of_a_merge_engine_are_folded_in_their_run() -> None:
    """The rows of a key in a segment come to one operand, as they would in a file."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    options = {"merge_engine": "aggregation", "fields.v.aggregate": "sum"}
    await lake.create_table(NAME, SCHEMA, primary_key="id", options=options)
    writer = await opened(store)
    await (await writer.put(some((1, "a", 1), (2, "a", 5), (1, "a", 2))))
    await vanish(writer)
    table = await table_of(store)
    [entry] = await runs_of(table)
    assert (entry.rows, entry.updates) == (2, 2)
    assert await rows_in(table, entry, "id", "v") == [(1, 3, RowKind.UPDATE), (2, 5, RowKind.UPDATE)]


async def test_deleted_keys_are_rows_of_a_run() -> None:
    """A deletion is a row with its key and its kind, and the entry counts it."""
    table = await streamed(some((1, "a", 1)), 1)
    first, second = await runs_of(table)
    assert [(entry.rows, entry.deletes) for entry in (first, second)] == [(1, 0), (1, 1)]
    assert await rows_in(table, second, "id", "v") == [(1, None, RowKind.DELETE)]


@pytest.mark.parametrize("layout", ["key holds partition", "append-only"])
async def test_a_segment_has_a_run_for_each_partition(layout: str) -> None:
    """Where no key moves between partitions, rows are divided by them."""
    table = await streamed(some((1, "b", 1), (2, "a", 2), (3, "b", 3)), layout=layout)
    entries = await runs_of(table)
    found = {entry.partition: await rows_in(table, entry, "id", "part") for entry in entries}
    assert list(found.values()) == [[(2, "a", 0)], [(1, "b", 0), (3, "b", 0)]]
    assert len({entry.path for entry in entries}) == 2


async def test_rows_without_a_key_stay_in_the_order_of_their_puts() -> None:
    """A run of an append-only table has every row, in its place."""
    table = await streamed(some((2, "a", 1), (1, "a", 1), (2, "a", 1)), layout="append-only")
    [entry] = await runs_of(table)
    assert [row[0] for row in await rows_in(table, entry, "id")] == [2, 1, 2]
    assert (entry.min_key, entry.max_key) == (None, None)


async def test_runs_stand_below_the_rows_of_the_commit_that_covers_them() -> None:
    """The position of a run is of the log, under the covering snapshot, by the number of its segment."""
    table = await streamed(some((1, "a", 1)), some((2, "a", 2)))
    head = await table.current_snapshot()
    [first, second] = await runs_of(table)
    assert first.lo is not None
    number = first.lo[2]
    assert (first.lo, first.hi) == ((head + 1, 0, number),) * 2
    assert (second.lo, second.hi) == ((head + 1, 0, number + 1),) * 2


async def test_small_neighbours_share_a_run_where_that_is_asked_for() -> None:
    """A run of several segments spans their numbers, and all rows are there in the same order."""
    table = await streamed(*(some((number, "a", number)) for number in range(9)))
    apart, together = await runs_of(table), await runs_of(table, together=True)
    spans = [(entry.lo[2], entry.hi[2]) for entry in together if entry.lo and entry.hi]
    # The first segment is the writer's fence; those from 8 on do not fill a group yet.
    assert (len(apart), spans) == (9, [(1, 7), (8, 8), (9, 9), (10, 10)])
    rows = [row for entry in together for row in await rows_in(table, entry, "id")]
    assert rows == [row for entry in apart for row in await rows_in(table, entry, "id")]


async def test_a_key_is_found_with_its_kind_or_not_at_all() -> None:
    """A lookup gives the row of a key, also one that deletes it, and no row for a key that is not there."""
    table = await streamed(some((1, "a", 1), (3, "a", 3)), 3)
    schema = await table.schema()
    codec = RowKeyCodec(schema.key_fields)
    put, deleted = [await table.core.runs.open(entry, schema) for entry in await runs_of(table)]

    async def found(run: Any, number: int) -> list[tuple[Any, ...]]:
        rows = await run.get(codec.encode_one([number]), [schema.field("v")])
        return [tuple(row.values()) for row in rows.to_pylist()]

    assert await found(put, 3) == [(3, RowKind.INSERT)]
    assert await found(put, 2) == []
    assert await found(deleted, 3) == [(None, RowKind.DELETE)]


async def test_a_run_is_one_piece_that_tells_its_rows_and_keys() -> None:
    """The only piece has the range of keys of the run; none asked for is no row."""
    table = await streamed(some((5, "a", 1), (7, "a", 2)))
    schema = await table.schema()
    codec = RowKeyCodec(schema.key_fields)
    [entry] = await runs_of(table)
    run = await table.core.runs.open(entry, schema)
    [piece] = run.pieces
    assert (piece.rows, piece.first_row) == (2, 0)
    assert (piece.min_key, piece.max_key) == (codec.encode_one([5]), codec.encode_one([7]))
    assert (await run.read(schema.fields, [])).num_rows == 0


async def test_rows_are_shown_as_the_schema_has_them() -> None:
    """Rows that were put before a column was added have its default."""
    table = await streamed(some((1, "a", 1)))
    await table.add_column("c", "bigint", default=9)
    view = await table.core.newest()
    [entry] = await view.entries()
    assert await rows_in(table, entry, "c", "id") == [(9, 1, RowKind.INSERT)]


async def test_what_was_read_is_not_read_again() -> None:
    """Entries and rows of segments that a process has read cost no request."""
    store = await logged(some((1, "a", 1)), some((2, "a", 2)))
    table = await table_of(store)
    schema, ranges = await table.schema(), await log_of(table)
    store.clear()
    entries = await table.core.runs.entries(ranges, schema)
    assert [call.verb for call in store.calls] == ["get"] * 3  # the fence of the writer is a segment too
    store.clear()
    assert await table.core.runs.entries(ranges, schema) == entries
    readers = [await table.core.runs.open(entry, schema) for entry in entries]
    assert [(await reader.read([schema.field("v")]))["v"].to_pylist() for reader in readers] == [[1], [2]]
    assert store.calls == []


async def segments_of(table: Table) -> Sequence[Any]:
    """The segments themselves."""
    numbers = [one for part in await log_of(table) for one in range(part.first, part.last + 1)]
    return [await table.core.wal.read(number) for number in numbers]


async def test_rows_of_segments_come_as_they_were_put() -> None:
    """All rows are there in the order of their puts, with kinds exactly where one of them deletes."""
    table = await streamed(some((2, "a", 1), (1, "a", 1), (2, "a", 2)))
    rows = segment_rows(await segments_of(table), await table.schema())
    assert rows.column_names == ["id", "part", "v"]
    assert rows["id"].to_pylist() == [2, 1, 2]
    table = await streamed(some((2, "a", 1)), 2)
    rows = segment_rows(await segments_of(table), await table.schema())
    assert rows["id"].to_pylist() == [2, 2]
    assert rows[KIND_COLUMN].to_pylist() == [RowKind.INSERT, RowKind.DELETE]


async def test_no_segments_have_no_rows() -> None:
    """Without a segment there are the columns of the schema and no row."""
    table = await table_of(await made())
    assert segment_rows([], await table.schema()).to_pydict() == {"id": [], "part": [], "v": []}
