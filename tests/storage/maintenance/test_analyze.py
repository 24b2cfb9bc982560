"""Statistics of columns: what they say, and that nobody who reads rows sees their commit."""

from __future__ import annotations

import asyncio
from typing import Any

import datasketches
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CommitUnknownError, ConflictError, InvalidInputError, NotFoundError
from lakehouse.format.metadata.snapshot import CommitKind, Snapshot
from lakehouse.format.puffin.column_sketches import SketchedTable, sketches_of
from lakehouse.format.puffin.footer import PuffinFooter
from lakehouse.io import ObjectStore
from lakehouse.reports import AnalyzeReport
from lakehouse.storage.maintenance.analyze import scaled_ndv
from lakehouse.storage.metadata.paths import join
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore
from tests.kit.timed_store import HOUR_S, TimedStore
from tests.kit.worlds import NAME, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "v": pa.float64(), "tags": pa.list_(pa.string())})


def some(begin: int, end: int) -> pa.Table:
    """Rows with as many ids, a tenth as many names, and a null in every fourth ``v``."""
    numbers = range(begin, end)
    return pa.table(
        {
            "id": numbers,
            "name": [f"name {number // 10}" for number in numbers],
            "v": [None if number % 4 == 0 else float(number) for number in numbers],
            "tags": [["a"]] * len(numbers),
        },
        schema=SCHEMA,
    )


async def made(rows: int = 1_000, *, key: str | None = "id", **options: Any) -> ObjectStore:
    """A store with a table of that many rows, in two commits that overlap by a tenth."""
    store = await restored({})
    await fill(store, rows, key=key, **options)
    return store


async def fill(store: ObjectStore, rows: int, *, key: str | None = "id", **options: Any) -> None:
    """Makes the table in a store."""
    lake = process(store)
    await lake.create_database("db")
    options = options | ({"primary_key": key} if key else {})
    table = await lake.create_table(NAME, SCHEMA, **options)
    await table.append(some(0, rows // 2))
    await table.append(some(rows * 2 // 5 if key else rows // 2, rows))


async def head_of(table: Table) -> Snapshot:
    """The newest snapshot."""
    return (await table.core.newest()).snapshot


async def data_of(table: Table) -> bytes:
    """The statistics file of the newest snapshot."""
    ref = (await head_of(table)).statistics
    assert ref is not None
    return bytes((await table.core.env.store.get(join(table.core.root, ref.path))).data)


async def kept(table: Table) -> SketchedTable:
    """What the statistics file says."""
    data = await data_of(table)
    footer = PuffinFooter.parse(data, len(data), strict=True)
    assert isinstance(footer, PuffinFooter)
    return sketches_of(footer)


# --- what they say --------------------------------------------------------------------


@pytest.mark.parametrize("key", ["id", None])
async def test_distinct_values_nulls_and_bounds_are_counted(key: str | None) -> None:
    """Of rows as they are read: those that newer ones replace count once."""
    table = await table_of(await made(key=key))
    report = await table.analyze()
    assert isinstance(report, AnalyzeReport)
    assert [(one.name, one.ndv, one.nulls) for one in report.columns] == [
        ("id", 1_000, 0),
        ("name", 100, 0),
        ("v", 750, 250),
    ]
    assert (report.rows, report.share, report.analyzed) == (1_000, 1.0, report.snapshot - 1)
    found = await kept(table)
    assert found.snapshot == report.analyzed
    column = found.columns[1]
    assert (column.ndv, column.rows, column.nulls) == (1_000, 1_000, 0)
    assert column.low is not None
    assert column.high is not None
    assert column.low < column.high


async def test_engines_read_the_sketches() -> None:
    """Each blob is a theta sketch that DataSketches opens, with the property ``ndv`` of Iceberg."""
    table = await table_of(await made())
    await table.analyze(["id", "name"])
    data = await data_of(table)
    footer = PuffinFooter.parse(data, len(data))
    assert isinstance(footer, PuffinFooter)
    assert [(blob.type, blob.fields) for blob in footer.blobs] == [
        ("apache-datasketches-theta-v1", (1,)),
        ("apache-datasketches-theta-v1", (2,)),
    ]
    for blob, ndv in zip(footer.blobs, (1_000, 100), strict=True):
        sketch = datasketches.compact_theta_sketch.deserialize(data[blob.offset : blob.end])
        assert sketch.get_estimate() == ndv == int(blob.properties["ndv"])


async def test_a_sample_reads_less_and_says_so() -> None:
    """Whole parts of the table are read until the share is reached; the same ones when it is repeated."""
    store = await made(2_000, key="id", bucket=8)
    table = await table_of(store)
    report = await table.analyze(sample=0.25)
    assert 0.25 <= report.share < 0.6
    assert report.rows < 1_300
    assert (await kept(table)).share == report.share
    assert report.columns[0].seen == report.rows


async def test_a_sample_is_scaled_up() -> None:
    """Unique columns are found unique and small ones small, of all rows; the file has both numbers."""
    table = await table_of(await made(8_000, key="id", bucket=8))
    report = await table.analyze(["id", "name"], sample=0.25)
    unique, small = report.columns
    assert unique.seen == report.rows < 6_000
    assert unique.ndv == pytest.approx(8_000, rel=0.2)
    assert small.seen <= small.ndv <= 1_000
    column = (await kept(table)).columns[1]
    assert (column.ndv, column.ndv_of_all) == (unique.seen, unique.ndv)
    whole = await table.analyze(["id"])
    assert whole.columns[0].seen == whole.columns[0].ndv
    assert (await kept(table)).columns[1].ndv_of_all is None


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=40),
    share=st.floats(0.001, 1),
)
def test_scaled_values_are_between_those_seen_and_the_rows(counts: list[int], share: float) -> None:
    """Never fewer than were seen, never more than rows; what was seen whole is as it was seen."""
    rows, seen, singles = sum(counts), len(counts), counts.count(1)
    scaled = scaled_ndv(seen, singles, rows=rows, share=share)
    assert seen * 0.999 <= scaled <= rows / share
    assert scaled_ndv(seen, singles, rows=rows, share=1) == seen
    assert scaled_ndv(seen, 0, rows=rows, share=share) == pytest.approx(seen)
    assert scaled_ndv(rows, rows, rows=rows, share=share) == pytest.approx(rows / share)


async def test_an_empty_table_has_no_values() -> None:
    """Nothing is counted, and the share is all there is."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA)
    report = await table.analyze()
    assert {one.ndv for one in report.columns} == {0}
    assert (report.rows, report.share) == (0, 1.0)


@pytest.mark.parametrize("sample", [0, -1, 1.5, float("nan")])
async def test_a_sample_is_a_share(sample: float) -> None:
    """What is no share is refused before anything is read."""
    table = await table_of(await made(10))
    with pytest.raises(InvalidInputError, match="share of rows"):
        await table.analyze(sample=sample)


async def test_columns_are_named() -> None:
    """Unknown and nested ones are refused, and the names said."""
    table = await table_of(await made(10))
    with pytest.raises(InvalidInputError, match="nope"):
        await table.analyze(["nope"])
    with pytest.raises(InvalidInputError, match="leave out tags"):
        await table.analyze(["id", "tags"])


# --- who sees them --------------------------------------------------------------------


async def test_readers_of_rows_and_changes_see_no_commit() -> None:
    """Rows, changes and followers are as before; the commit adds and removes nothing."""
    store = await made()
    table = await table_of(store)
    before = await head_of(table)
    rows = await table.scan().to_arrow()
    report = await table.analyze()
    head = await head_of(table)
    assert (head.id, head.kind) == (report.snapshot, CommitKind.INDEX)
    assert (head.plus, head.minus) == (type(head.plus)(), type(head.plus)())
    assert head.total == before.total
    assert (await table.scan().to_arrow()).equals(rows)
    assert [one async for one in table.changes(before.id, head.id)] == []
    followed = table.follow(after=before.id)
    await table.append(some(5_000, 5_001))
    batch = await anext(followed)
    assert batch.rows.num_rows == 1
    await followed.aclose()


async def test_an_analysis_costs_the_reads_one_file_and_one_commit() -> None:
    """Beside what a scan costs: one put for the file and one for the snapshot."""
    store = RecordingStore(await made())
    table = await table_of(store)
    await table.scan(columns=["id"]).to_arrow()
    store.clear()
    await table.analyze(["id"])
    puts = [call.key.rsplit("/", 2)[-2] for call in store.calls if call.verb.startswith("put")]
    assert puts == ["statistics", "snapshot"]


async def test_other_commits_keep_them() -> None:
    """Writes of other processes, compaction, a tag and a rollback carry the reference on."""
    store = await made()
    table, other = await table_of(store), await table_of(store)
    await other.current_snapshot()
    first = await head_of(table)
    await table.analyze(["id"])
    ref = (await head_of(table)).statistics
    await other.upsert(some(0, 10))
    await other.compact(full=True)
    await other.create_tag("t")
    await other.overwrite(some(0, 5))
    await other.rollback(snapshot=first.id)
    assert ref is not None
    assert (await head_of(other)).statistics == ref
    assert (await other.verify(deep=True)).ok


async def test_an_analysis_beside_a_commit_says_which_snapshot_it_read() -> None:
    """Whoever commits while it reads neither waits nor is lost."""
    store = await made()
    table, other = await table_of(store), await table_of(store)
    analyzed, written = await asyncio.gather(table.analyze(), other.upsert(some(0, 10)))
    head = await head_of(table)
    assert head.statistics is not None
    assert head.statistics.snapshot == analyzed.analyzed
    assert head.id == max(analyzed.snapshot, written.snapshot)


async def test_expiry_deletes_the_files_of_expired_snapshots_alone() -> None:
    """The newest statistics stay however old the snapshot is that they are of."""
    store = await made()
    table = await table_of(store)
    old = (await table.analyze(["id"])).snapshot
    old_ref = (await head_of(table)).statistics
    await table.analyze(["name"])
    await table.upsert(some(0, 1))
    await table.expire_snapshots(retain=1, grace_s=0)
    assert old_ref is not None
    with pytest.raises(NotFoundError):
        await store.get(join(table.core.root, old_ref.path))
    assert (await kept(table)).columns[2].ndv == 100
    assert old < (await head_of(table)).earliest
    assert (await table.verify()).ok


async def test_orphans_are_files_that_no_snapshot_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose commit failed is deleted at once, or found as an orphan; one in use is kept."""
    store = TimedStore(await restored({}))
    await fill(store, 1_000)
    table = await table_of(store)
    await table.analyze(["id"])

    async def failing(*_: object, **__: object) -> object:
        raise ConflictError("no")

    with monkeypatch.context() as patched:
        patched.setattr(table.core, "commit", failing)
        with pytest.raises(ConflictError):
            await table.analyze(["name"])
    files = [one.key async for one in store.list(join(table.core.root, "statistics/"))]
    assert len(files) == 1
    await store.put(
        join(table.core.root, "statistics/11111111-2222-4333-8444-555555555555.puffin"), b"left behind"
    )
    store.advance(3 * 24 * HOUR_S)
    report = await table.remove_orphans()
    assert report.by_kind == {"statistics": 1}
    assert (await kept(table)).columns[1].ndv == 1_000


async def test_a_commit_of_unknown_outcome_keeps_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot may be there, so its file stays until a sweep of orphans knows better."""
    store = await made()
    table = await table_of(store)

    async def unknown(*_: object, **__: object) -> object:
        raise CommitUnknownError("who knows")

    monkeypatch.setattr(table.core, "commit", unknown)
    with pytest.raises(CommitUnknownError):
        await table.analyze(["id"])
    assert [one.key async for one in store.list(join(table.core.root, "statistics/"))]


async def test_verify_finds_lost_statistics() -> None:
    """A file that a snapshot names and that is gone is damage that verify reports."""
    store = await made()
    table = await table_of(store)
    await table.analyze(["id"])
    ref = (await head_of(table)).statistics
    assert ref is not None
    await store.delete(join(table.core.root, ref.path))
    report = await table.verify()
    assert [damage.object for damage in report.damages] == [ref.path]
