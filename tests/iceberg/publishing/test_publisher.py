"""Publications: what other readers see of a table, how little is written again, and who may publish."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, RecordingStore
from tests.kit.published import ROWS, iceberg_rows, iceberg_table, lake_at, numbered, our_rows
from tests.kit.worlds import NAME, StepIn, process, restored, table_of


async def published_objects(store: ObjectStore) -> list[str]:
    """Names of the published objects, without what is random."""
    listed = [one.key.rpartition("/")[2] async for one in store.list("") if "/iceberg/" in one.key]
    return sorted("-".join(name.split("-")[:2]) for name in listed)


async def test_compacted_rows_are_read_by_another_program(tmp_path: Path) -> None:
    """pyiceberg reads the same rows of a compacted table as our scan does."""
    async with lake_at(tmp_path) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, ROWS, primary_key="id", bucket=2)
        await table.upsert(numbered(0, 50))
        await table.upsert(numbered(25, 75, "w"))
        await table.delete("id < 10")
        await table.compact(full=True)
        report = await table.publish_iceberg()
        assert (report.changed, report.rows, bool(report.lag)) == (True, 65, False)
        assert iceberg_rows(report.metadata) == await our_rows(table, report.snapshot)


async def test_rows_above_the_oldest_run_are_lag(tmp_path: Path) -> None:
    """In version 2 the oldest run is shown as it was, and the newer ones are counted."""
    async with lake_at(tmp_path) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, ROWS, primary_key="id")
        first = await table.upsert(numbered(0, 5))
        await table.upsert(numbered(3, 9, "w"))
        report = await table.publish_iceberg()
        assert iceberg_rows(report.metadata) == await our_rows(table, first.snapshot)
        lag = report.lag
        assert (lag.files, lag.rows, lag.since, lag.reasons) == (1, 6, 3, {"above-bottom": 1})
        assert lag.age_s is not None
        assert lag.age_s >= 0


async def test_earlier_publications_can_be_read_too(tmp_path: Path) -> None:
    """Each published snapshot has the id of ours, and its rows as long as it is listed."""
    async with lake_at(tmp_path) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, ROWS, primary_key="id")
        await table.upsert(numbered(0, 5))
        one = await table.publish_iceberg()
        await table.upsert(numbered(3, 9, "w"))
        await table.compact(full=True)
        two = await table.publish_iceberg()
        assert iceberg_rows(two.metadata, snapshot=one.snapshot) == await our_rows(table, one.snapshot)
        assert iceberg_rows(two.metadata, snapshot=two.snapshot) == await our_rows(table, two.snapshot)
        snapshots = iceberg_table(two.metadata).snapshots()
        assert [(one.snapshot_id, one.parent_snapshot_id) for one in snapshots] == [
            (one.snapshot, None),
            (two.snapshot, one.snapshot),
        ]


async def test_an_empty_table_is_published_without_rows(tmp_path: Path) -> None:
    """A table without files is one that readers can open."""
    async with lake_at(tmp_path) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, ROWS, primary_key="id")
        report = await table.publish_iceberg()
        assert (report.files, iceberg_rows(report.metadata)) == (0, [])


async def test_nothing_is_written_when_nothing_changed() -> None:
    """Publishing again costs the listing, the metadata and the head, and writes nothing."""
    recording = RecordingStore(await restored({}))
    lake = process(recording)
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS, primary_key="id")
    await table.upsert(numbered(0, 5))
    first = await table.publish_iceberg()
    recording.clear()
    again = await table.publish_iceberg()
    assert (again.changed, again.snapshot, again.version) == (False, first.snapshot, first.version)
    assert not any(one.verb.startswith("put") for one in recording.calls)
    assert again.cost.requests <= 3


async def test_only_manifests_with_changed_files_are_written_again(tmp_path: Path) -> None:
    """Files that are added come in a manifest of their own; those of other files stay where they are."""
    async with lake_at(tmp_path) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, ROWS)
        await table.append(numbered(0, 5))
        one = await table.publish_iceberg()
        await table.append(numbered(5, 9))
        two = await table.publish_iceberg()
        assert (two.added, two.removed, two.manifests) == (1, 0, 1)
        old = iceberg_table(one.metadata).current_snapshot()
        new = iceberg_table(two.metadata).current_snapshot()
        assert old is not None
        assert new is not None
        io = iceberg_table(two.metadata).io
        kept = {manifest.manifest_path for manifest in old.manifests(io)}
        assert kept < {manifest.manifest_path for manifest in new.manifests(io)}
        assert iceberg_rows(two.metadata) == await our_rows(table, two.snapshot)


async def test_files_that_are_gone_are_marked_as_deleted(tmp_path: Path) -> None:
    """The manifest that replaces one with a removed file has it as deleted, and the others as existing."""
    async with lake_at(tmp_path) as lake:
        await lake.create_database("db")
        schema = pa.schema({"id": pa.int64(), "day": pa.string()})
        table = await lake.create_table(NAME, schema, partition_by="day")
        await table.append([{"id": 1, "day": "a"}, {"id": 2, "day": "b"}])
        await table.publish_iceberg()
        await table.delete("day = 'a'")
        report = await table.publish_iceberg()
        assert (report.added, report.removed) == (0, 1)
        opened = iceberg_table(report.metadata)
        snapshot = opened.current_snapshot()
        assert snapshot is not None
        (manifest,) = snapshot.manifests(opened.io)
        entries = manifest.fetch_manifest_entry(opened.io, discard_deleted=False)
        assert sorted((entry.status.name, entry.data_file.partition[0]) for entry in entries) == [
            ("DELETED", "a"),
            ("EXISTING", "b"),
        ]
        assert iceberg_rows(report.metadata) == [{"id": 2, "day": "b"}]


async def test_a_dry_run_writes_nothing() -> None:
    """A dry run reports coverage and lag, and leaves the store as it was."""
    store = await restored({})
    table = await _table(store)
    await table.upsert(numbered(0, 5))
    before = [one.key async for one in store.list("")]
    report = await table.publish_iceberg(dry_run=True)
    assert (report.dry_run, report.changed, report.rows) == (True, False, 5)
    assert [one.key async for one in store.list("")] == before


async def test_of_two_publishers_one_wins_and_the_other_leaves_nothing() -> None:
    """The second finds its version taken, deletes what it wrote, and sees that its snapshot is published."""
    store = await restored({})
    table = await _table(store)
    await table.upsert(numbered(0, 5))
    stepping = StepIn(store)
    slow = await table_of(stepping)

    async def first() -> None:
        assert (await (await table_of(store)).publish_iceberg()).changed

    stepping.before(0, "v1.metadata.json", first, verb="put_if_absent")
    report = await slow.publish_iceberg()
    assert stepping.act is None
    assert (report.changed, report.version) == (False, 1)
    assert await published_objects(store) == ["manifest-3", "snap-3", "v1.metadata.json", "version-hint.text"]


async def test_published_metadata_that_another_program_changed_are_refused() -> None:
    """A snapshot that no publication made is not built upon: whoever wrote it is told about."""
    store = await restored({})
    table = await _table(store)
    await table.upsert(numbered(0, 5))
    report = await table.publish_iceberg()
    key = report.metadata.removeprefix(f"{store.url.rstrip('/')}/")
    document = json.loads((await store.get(key)).data)
    del document["snapshots"][0]["summary"]["lakehouse.snapshot"]
    await store.put(key, json.dumps(document).encode())
    await table.upsert(numbered(5, 6))
    with pytest.raises(ConflictError, match="for reading") as caught:
        await table.publish_iceberg()
    assert "publish again" in str(caught.value)


@pytest.mark.parametrize("version", [1, 4])
async def test_other_versions_of_the_format_are_refused(version: int) -> None:
    """Versions are 2 and 3."""
    table = await _table(await restored({}))
    with pytest.raises(InvalidInputError, match="2 or 3"):
        await table.publish_iceberg(format_version=version)


async def test_a_published_table_does_not_go_back_a_version() -> None:
    """Once published in version 3 it stays so, and version 2 is refused by name."""
    table = await _table(await restored({}))
    await table.publish_iceberg(format_version=3)
    await table.upsert(numbered(0, 2))
    assert (await table.publish_iceberg()).format_version == 3
    with pytest.raises(InvalidInputError, match="no way back"):
        await table.publish_iceberg(format_version=2)


async def test_nobody_else_may_delete_our_files(tmp_path: Path) -> None:
    """The published table forbids its clients to delete files, which our snapshots need."""
    async with lake_at(tmp_path) as lake:
        await lake.create_database("db")
        table = await lake.create_table(NAME, ROWS)
        report = await table.publish_iceberg()
        assert iceberg_table(report.metadata).properties["gc.enabled"] == "false"


async def _table(store: ObjectStore) -> Table:
    lake = process(store)
    await lake.create_database("db")
    return await lake.create_table(NAME, ROWS, primary_key="id")


async def test_a_publication_costs_what_changed() -> None:
    """A changed bucket of many costs one manifest, its list, the metadata and the hint, and one commit."""
    recording = RecordingStore(await restored({}))
    lake = process(recording)
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS, primary_key="id", bucket=8)
    await table.upsert(numbered(0, 100))
    await table.compact(full=True)
    await table.publish_iceberg()
    await table.upsert(numbered(3, 4, "w"))
    await table.compact(full=True)
    recording.clear()
    report = await table.publish_iceberg()
    assert (report.added, report.removed, report.manifests) == (1, 1, 1)
    written = [one.key.rpartition("/")[2].split("-")[0] for one in recording.calls if one.verb == "put"]
    assert [name for name in written if name != "LATEST"] == ["manifest", "snap", "version"]
    created = [one.key.rpartition("/")[2].split("-")[0] for one in recording.calls if "put_if" in one.verb]
    assert created == ["snapshot", "v2.metadata.json"]
    assert sum(one.verb == "list_page" for one in recording.calls) == 1


@pytest.mark.parametrize("others", [False, True], ids=["alone", "overtaken"])
async def test_a_publication_that_took_long_looks_again(others: bool) -> None:
    """Behind the deadline the next number may have been used and deleted, so the newest is listed again."""
    clock = ManualClock()
    inner = await restored({})
    recording = RecordingStore(inner)
    store = StepIn(recording)
    lake = process(store, clock=clock)
    await lake.create_database("db")
    table = await lake.create_table(NAME, ROWS, primary_key="id")
    await table.upsert(numbered(0, 5))

    async def stall() -> None:
        await clock.advance(301)
        if others:
            await (await table_of(inner)).publish_iceberg()

    store.before(0, "/iceberg/metadata/snap-", stall, verb="put")
    recording.clear()
    report = await table.publish_iceberg()
    looks = sum(one.verb == "list_page" and "/iceberg/" in one.key for one in recording.calls)
    assert (store.act, report.version, report.changed) == (None, 1, not others)
    assert looks == (3 if others else 2)
    assert len([name for name in await published_objects(store) if name.startswith("snap")]) == 1
