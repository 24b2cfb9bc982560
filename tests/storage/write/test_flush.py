"""Flushes: segments become files that stand where the segments stood, whoever commits meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.metadata.file_entry import FileEntry
from lakehouse.format.metadata.snapshot import CommitKind, SegmentRange, Snapshot
from lakehouse.io import ObjectStore
from lakehouse.storage.write.flush import plan_groups
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.testing import RecordingStore
from tests.kit.streaming import acknowledged, made, opened, rows_of, some, vanish
from tests.kit.table_operations import SCHEMA
from tests.kit.worlds import NAME, StepIn, process, restored, table_of

KEYED = [1, 2, 3]


async def head_of(store: ObjectStore) -> Snapshot:
    """The newest snapshot."""
    return (await (await table_of(store))._table.newest()).snapshot


async def put(writer: TableWriter, number: int, value: int) -> None:
    """One row, acknowledged."""
    assert await acknowledged(writer, some((number, "a", value))) == "done"


async def test_a_flush_covers_and_flushes_in_one_commit() -> None:
    """What no commit covered is in files after one commit of kind flush, at the segments' positions."""
    store = await made()
    writer = await opened(store)
    for value in KEYED:
        await put(writer, 1, value)
    before = (await head_of(store)).id
    done = await (await table_of(store)).flush()
    head = await head_of(store)
    assert (done.snapshot, head.id, head.kind) == (before + 1, before + 1, CommitKind.FLUSH)
    assert head.wal is not None
    assert (head.segments, head.wal.upto) == ((), 4)
    (file,) = await (await (await table_of(store))._table.newest()).files()
    assert (file.lo, file.hi, file.rows) == ((head.id, 0, 1), (head.id, 0, 4), 1)
    assert await rows_of(store) == [(1, "a", 3)]
    await vanish(writer)


async def test_rows_without_a_key_keep_their_order_in_the_files_of_a_flush() -> None:
    """Files at one interval are ordered by bucket and run: they share the one and count the other."""
    lake = process(await restored({}))
    await lake.create_database("db")
    schema = pa.schema({"number": pa.int64(), "noise": pa.binary()})
    table = await lake.create_table(NAME, schema, bucket=3, options={"file.target_bytes": 1 << 20})
    chance = random.Random(1)
    rows = [{"number": number, "noise": chance.randbytes(1_000)} for number in range(4_000)]
    async with table.writer() as writer:
        await (await writer.put(rows))
    files = await (await table.core.newest()).files()
    assert len(files) > 2
    assert len({(file.lo, file.hi, file.bucket) for file in files}) == 1
    found = await table.scan(columns=["number"]).to_arrow()
    assert found.column("number").to_pylist() == list(range(4_000))


async def test_segments_around_a_commit_are_flushed_apart() -> None:
    """Rows put before and after a batch write of their key stay below and above it."""
    store = await made()
    writer = await opened(store)
    table = await table_of(store)
    await put(writer, 1, 1)
    await put(writer, 2, 1)
    await table.upsert(some((1, "a", 2), (3, "a", 2)))
    await put(writer, 3, 3)
    await table.upsert(some((4, "a", 4)))
    await table.flush()
    assert await rows_of(store) == [(1, "a", 2), (2, "a", 1), (3, "a", 3), (4, "a", 4)]
    assert not (await head_of(store)).segments
    assert (await table.files()).num_rows == 4
    await vanish(writer)


@pytest.mark.parametrize("when", range(6))
async def test_a_commit_in_the_middle_of_a_flush_keeps_its_place(when: int) -> None:
    """Whenever a commit covers a part of what is being flushed: rows before it stay below, others above."""
    inner = await made()
    writer = await opened(inner)
    await put(writer, 1, 1)
    await put(writer, 2, 1)
    hooked, met = StepIn(inner), list[str]()

    async def step_in() -> None:
        await (await table_of(inner)).upsert(some((1, "a", 2)))
        await put(writer, 2, 3)
        met.append("upsert")

    table = await table_of(hooked)
    await table.current_snapshot()
    hooked.before(when, "", step_in)
    await table.flush()
    assert await rows_of(inner, "wal") == ([(1, "a", 2), (2, "a", 3)] if met else [(1, "a", 1), (2, "a", 1)])
    await (await table_of(inner)).flush()
    assert await rows_of(inner) == await rows_of(inner, "wal")
    assert met or when == 5
    await vanish(writer)


async def test_a_group_that_a_commit_parts_is_flushed_in_two() -> None:
    """Segments planned as one group are not flushed as one when a commit came to stand between them."""
    inner = await made()
    writer = await opened(inner)
    await put(writer, 1, 1)
    hooked = StepIn(inner)

    async def cover_a_part() -> None:
        # Covered by a commit that was called before the next put.
        other = StepIn(inner)

        async def then_put() -> None:
            await put(writer, 1, 3)

        theirs = await table_of(other)
        await theirs.current_snapshot()
        other.before(0, "/snapshot/", then_put, verb="put_if_absent")
        await theirs.upsert(some((1, "a", 2)))

    await put(writer, 2, 2)
    table = await table_of(hooked)
    await table.current_snapshot()
    hooked.before(0, "/wal/", cover_a_part, verb="list_page")
    await table.flush()
    assert await rows_of(inner, "wal") == [(1, "a", 3), (2, "a", 2)]
    await (await table_of(inner)).flush()
    assert await rows_of(inner) == [(1, "a", 3), (2, "a", 2)]
    await vanish(writer)


async def test_two_flushes_at_once_leave_every_row_once() -> None:
    """Whenever another process flushes the same rows: files of the one that comes second are taken back."""
    for number in range(20):
        inner = await made("append-only")
        writer = await opened(inner)
        for value in KEYED:
            await put(writer, value, value)
        hooked, met = StepIn(inner), list[str]()

        async def step_in(inner: ObjectStore = inner, met: list[str] = met) -> None:
            await (await table_of(inner)).flush()
            met.append("flush")

        table = await table_of(hooked)
        hooked.before(number, "", step_in)
        await table.flush()
        assert await rows_of(inner) == [(1, "a", 1), (2, "a", 2), (3, "a", 3)]
        objects = {one.key.rpartition("/")[2] async for one in inner.list("") if "/data/" in one.key}
        files = (await (await table_of(inner)).files()).to_pylist()
        assert objects == {one["path"].rpartition("/")[2] for one in files}
        await vanish(writer)
        if not met:
            break
    assert number > 4


@pytest.mark.parametrize("apart", [False, True], ids=["one segment", "three segments"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
async def test_a_deletion_between_operands_counts(engine: str, apart: bool) -> None:
    """What was put before a deletion of its key does not come back with what is put after it."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    options = {"merge_engine": engine, "wal.interval_ms": "0" if apart else "50"}
    await lake.create_table(NAME, SCHEMA, primary_key=["id"], options=options)
    await (await table_of(store)).upsert(some((1, "old", 7), (2, "b", 7)))
    writer = await opened(store)
    changes: list[Any] = [
        (writer.put, [{"id": 1, "part": "older"}, {"id": 2, "v": 9}]),
        (writer.delete, [{"id": 1}]),
        (writer.put, [{"id": 1, "v": 5}]),
    ]
    acks = []
    for change, data in changes:
        acks.append(await change(data))
        if apart:
            await acks[-1]
    for ack in acks:
        await ack
    assert writer.report().segments == (3 if apart else 1)
    wanted = [(1, None, 5), (2, "b", 9)]
    assert await rows_of(store, "wal") == wanted
    await writer.flush()
    assert await rows_of(store) == wanted
    await (await table_of(store)).compact(full=True)
    assert await rows_of(store) == wanted
    await vanish(writer)


async def test_a_compaction_does_not_merge_around_segments() -> None:
    """Runs below and above a covered segment stay apart until it is flushed; then all of it is one run."""
    store = await made()
    writer = await opened(store)
    table = await table_of(store)
    await table.upsert(some((1, "a", 1), (2, "a", 1)))
    await put(writer, 1, 2)
    await table.upsert(some((1, "a", 3)))
    await table.compact(full=True)
    assert await rows_of(store) == [(1, "a", 3), (2, "a", 1)]
    assert (await table.files()).num_rows == 2
    await table.flush()
    assert await rows_of(store) == [(1, "a", 3), (2, "a", 1)]
    await table.compact(full=True)
    assert await rows_of(store) == [(1, "a", 3), (2, "a", 1)]
    assert (await table.files()).num_rows == 1
    report = await table.verify(deep=True)
    assert report.ok, str(report)
    await vanish(writer)


async def test_what_there_is_not_to_flush_costs_no_commit() -> None:
    """A flush of a table without a log, or of one that is flushed, makes no snapshot."""
    store = RecordingStore(await made())
    table = await table_of(store)
    assert not (await table.flush()).changed
    async with table.writer() as writer:
        await writer.put(some((1, "a", 1)))
    store.clear()
    assert not (await table.flush()).changed
    assert "put" not in store.kinds()


# --- groups ---------------------------------------------------------------------------


def _file(lo: tuple[int, int, int], hi: tuple[int, int, int]) -> FileEntry:
    return FileEntry(path=f"{lo}", size=1, rows=1, at=lo[0], lo=lo, hi=hi)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=4),
    st.sets(st.integers(0, 3)),
    st.integers(1, 500),
)
def test_groups_hold_every_segment_once_and_no_run_stands_in_one(
    counts: list[int], commits: set[int], most: int
) -> None:
    """Groups are all segments, in order, each within its bytes and on one side of every run."""
    ranges, first = [], 1
    for place, count in enumerate(counts):
        ranges.append(SegmentRange(first=first, last=first + count - 1, size=100 * count, at=place + 5))
        first += count
    files = [_file((place + 5, 1, 0), (place + 5, 1, 0)) for place in commits]
    groups = plan_groups(ranges, files, max_bytes=most)
    assert [number for group in groups for number in group] == list(range(1, first))
    at = {number: one.at for one in ranges for number in range(one.first, one.last + 1)}
    for group in groups:
        assert len(group) == 1 or 100 * len(group) <= most
        lo, hi = (at[group[0]], 0, group[0]), (at[group[-1]], 0, group[-1])
        assert not any(lo < (place + 5, 1, 0) < hi for place in commits)
