"""Partitions of our own tables: what is in them, which changed, and what it costs to know."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest

from lakehouse.catalog.partitions import ChangedPartitions, changed_partitions_of, partitions_of
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore
from tests.kit.table_operations import LAYOUTS, OPERATIONS, Operation, build
from tests.kit.worlds import NAME, process, restored, table_of

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.date32(), "region": pa.string()})
FIRST = dt.date(2026, 1, 1)


async def made(lake: Lake, **how: object) -> Table:
    """A table partitioned by day and region, with rows of three days in two commits."""
    await lake.create_database("db")
    arguments: dict[str, object] = {"partition_by": ["day", "region"], **how}
    table: Table = await lake.create_table("db.t", SCHEMA, **arguments)  # type: ignore[arg-type]
    await table.append([row(0, 0, "eu"), row(1, 0, "us"), row(2, 1, "eu")])
    await table.append([row(3, 0, "eu"), row(4, 2, "us")])
    return table


def row(number: int, day: int, region: str) -> dict[str, object]:
    """Of a day."""
    return {"id": number, "day": FIRST + dt.timedelta(day), "region": region}


async def test_a_partition_says_what_is_in_it() -> None:
    """Values, files, rows, bytes and the last snapshot of each partition are those of its files."""
    table = await made(process(await restored({})))
    info = await partitions_of(table)
    assert (info.snapshot, info.fields, info.is_complete) == (3, ("day", "region"), True)
    found = {
        one.key.name: (one.files, one.rows, one.stored_rows, one.last_snapshot) for one in info.partitions
    }
    assert found == {
        "day=2026-01-01/region=eu": (2, 2, 2, 3),
        "day=2026-01-01/region=us": (1, 1, 1, 2),
        "day=2026-01-02/region=eu": (1, 1, 1, 2),
        "day=2026-01-03/region=us": (1, 1, 1, 3),
    }
    files = await table.files()
    assert sum(one.bytes for one in info.partitions) == sum(files["bytes"].to_pylist())
    assert [one.files for one in (await partitions_of(table, 2)).partitions] == [1, 1, 1]


async def test_a_condition_selects_the_rows_of_a_partition() -> None:
    """A scan with the condition of a partition returns its rows and no others."""
    table = await made(process(await restored({})))
    for one in (await partitions_of(table)).partitions:
        rows = await table.scan(one.key.where()).to_arrow()
        assert rows.num_rows == one.rows
        pairs = zip(rows["day"].to_pylist(), rows["region"].to_pylist(), strict=True)
        assert set(pairs) == {one.key.values}


async def test_an_unpartitioned_table_has_empty_partition_info_not_an_error() -> None:
    """A table without partitions has none; any new row may be anywhere."""
    table = await made(process(await restored({})), partition_by=())
    assert (await partitions_of(table)).partitions == ()
    changed = await changed_partitions_of(table, 2)
    assert (changed.partitions, changed.is_all) == ((), True)
    await table.create_tag("x")
    assert not (await changed_partitions_of(table, 3)).is_all


async def test_an_invalid_table_has_empty_partition_info_not_an_error() -> None:
    """A table whose manifest is gone has no partitions, and the reason says what is missing."""
    store = await restored({})
    table = await made(process(store))
    await table.append([row(number, number, "eu") for number in range(200)])
    keys = [one.key async for one in store.list("") if "/manifest/" in one.key]
    assert keys
    for key in keys:
        await store.delete(key)
    info = await partitions_of(await process(store).table("db.t"))
    assert info.partitions == ()
    assert "is missing" in str(info.problem)


async def test_rows_of_the_log_alone_are_in_no_partition_and_in_the_changes() -> None:
    """What a streaming writer made durable changes its partition when a commit covers it, and not again."""
    store = await restored({})
    lake = process(store)
    async with lake:
        table = await made(lake)
        async with table.writer() as writer:
            await (await writer.put([row(9, 5, "eu")]))
            await table.append([row(10, 6, "us")])
            covered = await table.current_snapshot()
            info = await partitions_of(table, covered)
            assert not info.is_complete
            assert {one.rows for one in info.partitions} == {None}
            before = await changed_partitions_of(table, 3, covered)
            assert {"day=2026-01-06/region=eu", "day=2026-01-07/region=us"} <= names(before)
            await writer.flush()
        last = await table.current_snapshot()
        assert last > covered
        assert names(await changed_partitions_of(table, covered, last)) == set()


def names(changed: ChangedPartitions) -> set[str]:
    """Of changed partitions."""
    return {key.name for key in changed.partitions}


# --- changes ------------------------------------------------------------------------


async def rows_by_part(table: Table, snapshot: int) -> dict[str, Counter[str]]:
    """Rows of each partition."""
    found: dict[str, Counter[str]] = {}
    rows = await table.scan(snapshot=snapshot, columns=["id", "part", "v"]).to_arrow()
    for one in rows.to_pylist():
        found.setdefault(one["part"], Counter())[repr(one)] += 1
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("what", OPERATIONS, ids=lambda one: one.name.replace(" ", "-"))
async def test_no_changed_partition_is_left_out(what: Operation, layout: str) -> None:
    """Whatever a commit does, partitions with other rows than before are told, or that all may have."""
    if what.needs_key and layout == "append-only":
        return
    world, _ = await build(layout)
    table = await table_of(await restored(world))
    before = await table.current_snapshot()
    await what.run(table)
    after = await table.current_snapshot()
    if what.name in ("rename a column", "add a column"):
        assert names(await changed_partitions_of(table, before)) == set()
        return
    had, has = await rows_by_part(table, before), await rows_by_part(table, after)
    differing = {part for part in {*had, *has} if had.get(part) != has.get(part)}
    for start in (before, 1):
        changed = await changed_partitions_of(table, start)
        told = {str(key.values[0]) for key in changed.partitions}
        assert differing <= told or changed.is_all
    changed = await changed_partitions_of(table, before)
    if what.name in ("compact", "tag"):
        assert (changed.partitions, changed.is_all) == ((), False)
    if layout == "key holds partition":
        assert not changed.is_all


async def test_changes_cost_the_snapshots_in_between_and_new_manifests() -> None:
    """A thousand older partitions cost nothing: a small commit is told by its snapshot alone."""
    store = await restored({})
    table = await made(process(store))
    await table.append([row(number, number, "eu") for number in range(300)])
    start = await table.current_snapshot()
    await table.append([row(1, 17, "eu")])
    await table.append([row(number, 1_000 + number, "eu") for number in range(200)])
    recording = RecordingStore(store)
    cold = await process(recording).table("db.t")
    await cold.current_snapshot()
    recording.clear()
    changed = await changed_partitions_of(cold, start)
    assert len(changed.partitions) == 201
    gets = [call.key for call in recording.calls if call.verb == "get"]
    assert sum("/manifest/" in key for key in gets) == 1
    assert sum("/snapshot/" in key for key in gets) <= 3
    recording.clear()
    assert await changed_partitions_of(cold, start) == changed
    assert [call.verb for call in recording.calls if "/manifest/" in call.key] == []


async def test_taking_files_of_an_old_manifest_away_reads_that_manifest() -> None:
    """A delete of a whole partition is told although no new file says which; that takes the manifest."""
    store = await restored({})
    table = await made(process(store))
    await table.append([row(number, number, "eu") for number in range(300)])
    start = await table.current_snapshot()
    await table.delete("day = '2026-03-01'")
    recording = RecordingStore(store)
    cold = await process(recording).table("db.t")
    changed = await changed_partitions_of(cold, start)
    assert names(changed) == {"day=2026-03-01/region=eu"}
    assert sum("/manifest/" in call.key for call in recording.calls) == 1


async def test_the_range_of_snapshots_is_checked() -> None:
    """A start behind the end is an error, equal ones are no change, and expired ones are told."""
    table = await made(process(await restored({})))
    assert await changed_partitions_of(table, 3) == ChangedPartitions(start=3, end=3)
    with pytest.raises(InvalidInputError, match="from 3 to 2"):
        await changed_partitions_of(table, 3, 2)
    with pytest.raises(NotFoundError):
        await changed_partitions_of(table, 1, 99)
    assert len((await changed_partitions_of(table, None)).partitions) == 4
    assert (await changed_partitions_of(table, None)).is_all
    assert NAME == "db.t"


async def test_rows_that_expire_by_themselves_may_change_all() -> None:
    """In a table whose rows have a lifetime a partition changes without any commit to it."""
    lake = process(await restored({}))
    await lake.create_database("db")
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us"), "part": pa.string()})
    options = {"record.ttl_s": 60, "record.time_field": "at"}
    table = await lake.create_table(
        "db.t", schema, primary_key=["part", "id"], partition_by="part", options=options
    )
    await table.append([{"id": 1, "at": dt.datetime(2026, 1, 1), "part": "a"}])
    changed = await changed_partitions_of(table, 1)
    assert changed.is_all
    assert "record.ttl_s" in str(changed.reason)
