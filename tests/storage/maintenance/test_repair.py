"""Repair: what reads is kept, what does not is named, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import CorruptionError, UnavailableError
from lakehouse.format.metadata.snapshot import CommitKind
from lakehouse.storage.commit import spilled_manifest
from lakehouse.storage.maintenance.repair_report import LossKind, RepairReport
from lakehouse.storage.table import Table
from lakehouse.testing import ManualClock, RecordingStore
from tests.damage.test_table_damage import Known, _known, rows_in
from tests.kit.streaming import made
from tests.kit.streaming import some as rows_like
from tests.kit.worlds import NAME, StepIn, World, process, restored, saved, table_of


@pytest.fixture(scope="module")
async def known() -> Known:
    """Tables with manifests of their own and files of both formats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled_manifest, "_OWN_ENTRIES_MAX", 1)
        return await _known()


async def repaired(world: World, **how: Any) -> tuple[Table, RepairReport, World]:
    """A repair by a process that opens the table afresh; what is in the store before."""
    store = await restored(world)
    table = await table_of(store)
    return table, await table.repair(**how), world


async def check_nothing_deleted(table: Table, before: World) -> None:
    """Every object is there as it was, the hint aside."""
    after = await saved(table._table.env.store)
    assert {key: data for key, data in after.items() if key in before and "LATEST" not in key} == {
        key: data for key, data in before.items() if "LATEST" not in key
    }


def without(known: Known, key: str, data: bytes | None) -> World:
    """The world with one object damaged or gone."""
    world = {**known.world, key: data or b""}
    if data is None:
        del world[key]
    return world


async def test_a_sound_table_is_left_alone(known: Known) -> None:
    """Nothing to repair makes no snapshot."""
    table, report, before = await repaired(known.world)
    assert (report.changed, report.ok, report.snapshot) == (False, True, known.head)
    assert await saved(table._table.env.store) == before


async def test_files_that_cannot_be_read_are_left_out_and_named(known: Known) -> None:
    """Without a file of the head its other rows read; the file and the range of its keys are named."""
    live = [key for key in known.needs[known.head] if known.kind(key) == "data"]
    for key in live:
        for data in (None, b"x", known.world[key][:-1], bytes(len(known.world[key]))):
            table, report, before = await repaired(without(known, key, data))
            assert report.changed
            (loss,) = report.losses
            assert (loss.kind, f"{known.root}/{loss.object}") == (LossKind.FILE, key)
            assert loss.rows
            assert loss.first_key is not None
            assert loss.last_key is not None
            got = await rows_in(table)
            first, last = loss.first_key, loss.last_key
            others = [row for row in known.rows[known.head] if not first <= row[:2] <= last]
            assert [row for row in got if not first <= row[:2] <= last] == others
            assert len(got) == len({row[:2] for row in got})
            assert (await table.verify(snapshot=report.snapshot, deep=True)).ok
            await check_nothing_deleted(table, before)
            for number in known.rows:
                if key not in known.needs[number]:
                    assert await rows_in(table, number) == known.rows[number]
            done = await table.append([{"id": 900, "part": "a", "v": 1.0}])
            assert done.snapshot == report.snapshot + 1


async def test_sound_pieces_of_a_damaged_file_are_kept() -> None:
    """Of a file with one bad row group the rows of all others are there, and the range of keys is named."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    schema = pa.schema({"id": pa.int64(), "s": pa.string()})
    options = {"parquet.row_group_rows": 1_000, "parquet.compression": "none"}
    table = await lake.create_table(NAME, schema, primary_key="id", options=options)
    await table.append([{"id": n, "s": f"text of row {n:05}"} for n in range(5_000)])
    await table.delete("id < 10")
    world = await saved(store)
    (key,) = [one for one in world if "/data/" in one and len(world[one]) > 50_000]
    data = bytearray(world[key])
    data[data.index(b"text of row 02500")] ^= 1
    table, report, before = await repaired({**world, key: bytes(data)})
    (loss,) = report.losses
    assert (loss.rows, loss.first_key, loss.last_key) == (1_000, (2_000,), (2_999,))
    assert report.rewritten == 1
    rows = await table.scan().to_pylist()
    assert sorted(row["id"] for row in rows) == [*range(10, 2_000), *range(3_000, 5_000)]
    assert (await table.verify(snapshot=report.snapshot, deep=True)).ok
    assert "(2000,) to (2999,)" in str(report)
    await check_nothing_deleted(table, before)


async def test_a_damaged_head_is_stepped_over(known: Known) -> None:
    """When the newest snapshot is damaged, a new one has the state before it, and the commit is named."""
    key = known.snapshot(known.head)
    table, report, before = await repaired(without(known, key, b"x"))
    assert [(one.kind, f"{known.root}/{one.object}") for one in report.losses] == [(LossKind.COMMIT, key)]
    assert (report.base, report.snapshot) == (known.head - 1, known.head + 1)
    for reader in (table, await table_of(table._table.env.store)):
        assert await rows_in(reader) == known.rows[known.head - 1]
        assert await rows_in(reader, known.head - 2) == known.rows[known.head - 2]
    await table.append([{"id": 900, "part": "a", "v": 1.0}])
    await check_nothing_deleted(table, before)
    await table.expire_snapshots(retain=2, grace_s=0)
    assert (await table.verify(deep=True)).ok


async def test_a_damaged_head_that_altered_the_schema_gives_no_id_out_again(known: Known) -> None:
    """Ids of schemas and columns that a lost commit gave out are not given out again."""
    table = await table_of(await restored(known.world))
    done = await table.add_column("lost", "int")
    world = await saved(table._table.env.store)
    lost = await table.schema()
    world[known.snapshot(done.snapshot)] = b"x"
    table, report, _ = await repaired(world)
    found = await table.schema()
    assert "lost" not in found.arrow().names
    assert found.id > lost.id
    assert found.highest_field_id == lost.highest_field_id
    assert await rows_in(table) == known.rows[known.head]
    assert report.base == known.head


async def test_a_damaged_schema_is_replaced_by_the_one_before(known: Known) -> None:
    """Without the newest schema the table reads with an older one; new columns are missing, rows are not."""
    table = await table_of(await restored(known.world))
    (path,) = {(await table._table.newest()).snapshot.schema.path}
    table, report, _ = await repaired(without(known, f"{known.root}/{path}", b"x"))
    assert LossKind.SCHEMA in {one.kind for one in report.losses}
    assert await rows_in(table) == known.rows[known.head]
    assert (await table.schema()).id > 2


async def test_a_folded_manifest_is_put_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that were folded into a manifest are told by the snapshot before; nothing is lost."""
    monkeypatch.setattr("lakehouse.storage.commit.fold._INLINE_ENTRIES_MAX", 3)
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, pa.schema({"id": pa.int64()}), primary_key="id")
    for number in range(6):
        await table.append([{"id": number}])
    world = await saved(store)
    (key,) = [one for one in world if "/manifest/" in one]
    table, report, before = await repaired({**world, key: b"x"})
    assert (report.ok, report.recovered, report.changed) == (True, 4, True)
    assert sorted(row["id"] for row in await table.scan().to_pylist()) == list(range(6))
    await check_nothing_deleted(table, before)


async def test_entries_that_nothing_else_tells_are_lost(known: Known) -> None:
    """A manifest that a commit wrote for its own files is named with the number of its rows."""
    lists = [key for key in known.needs[known.head] if known.kind(key) == "manifest"]
    for key in lists:
        table, report, before = await repaired(without(known, key, None))
        (loss,) = report.losses
        assert (loss.kind, f"{known.root}/{loss.object}") == (LossKind.MANIFEST, key)
        assert loss.rows
        await table.scan().to_arrow()
        assert (await table.verify(snapshot=report.snapshot, deep=True)).ok
        await check_nothing_deleted(table, before)


async def test_what_nothing_can_be_made_of_is_an_error(known: Known) -> None:
    """Without any snapshot, or any schema, it is not known what the table holds."""
    for sort in ("snapshot/snapshot-", "schema/"):
        damaged = {key: b"x" for key in known.world if key.startswith(f"{known.root}/{sort}")}
        table = await table_of(await restored({**known.world, **damaged}))
        with pytest.raises(CorruptionError, match="can be read"):
            await table.repair()


async def test_dry_run_tells_and_does_nothing(known: Known) -> None:
    """A dry run writes nothing and names the same losses."""
    (key, *_) = [key for key in known.needs[known.head] if known.kind(key) == "data"]
    store = RecordingStore(await restored(without(known, key, b"x")))
    would = await (await table_of(store)).repair(dry_run=True)
    assert set(store.kinds()) <= {"get", "list", "head"}
    done = await (await table_of(store)).repair()
    assert would.losses == done.losses
    assert (would.files, would.rows) == (done.files, done.rows)
    assert (would.changed, done.changed) == (False, True)
    assert would.relation().to_pylist()[0]["kind"] == "file"


async def test_without_reading_missing_files_are_found(known: Known) -> None:
    """Not deep, it goes by the listing alone."""
    (key, *_) = [key for key in known.needs[known.head] if known.kind(key) == "data"]
    store = RecordingStore(await restored(without(known, key, None)))
    table = await table_of(store)
    report = await table.repair(deep=False)
    assert [one.kind for one in report.losses] == [LossKind.FILE]
    assert not [call for call in store.calls if "/data/" in call.key and call.verb.startswith("get")]
    assert (await table.snapshots()).to_pylist()[-1]["kind"] == CommitKind.REPAIR


async def _with_statistics() -> tuple[World, str]:
    """A world with a table that was analyzed, and the key of its statistics file."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, pa.schema({"id": pa.int64()}), primary_key="id")
    await table.append([{"id": number} for number in range(9)])
    await table.analyze()
    (key,) = [one.key async for one in store.list("") if "/statistics/" in one.key]
    return await saved(store), key


@pytest.mark.parametrize("data", [None, b"x", b"PFA1" * 50], ids=["gone", "cut", "other bytes"])
async def test_lost_statistics_are_referred_to_no_more(data: bytes | None) -> None:
    """Rows are as before, the loss is named, and the next repair finds nothing to do."""
    world, key = await _with_statistics()
    lost = {**world, key: data or b""}
    if data is None:
        del lost[key]
    table, report, before = await repaired(lost, deep=False)
    assert [(one.kind, key.endswith(one.object)) for one in report.losses] == [(LossKind.STATISTICS, True)]
    assert "analyze the table again" in str(report)
    head = (await table.core.newest()).snapshot
    assert (head.kind, head.statistics) == (CommitKind.REPAIR, None)
    assert await table.scan().count() == 9
    await check_nothing_deleted(table, before)
    assert not (await table.repair()).changed
    await table.analyze()
    assert (await table.core.newest()).snapshot.statistics is not None


async def test_statistics_that_were_counted_meanwhile_stay() -> None:
    """Somebody analyzes between the look and the commit of a repair: the new file is not dropped."""
    world, key = await _with_statistics()
    del world[key]
    inner = await restored(world)
    store = StepIn(inner)
    table, other = await table_of(store), await table_of(inner)

    async def analyze() -> None:
        await other.analyze()

    store.before(0, "snapshot/", analyze, verb="put_if_absent")
    report = await table.repair()
    assert [one.kind for one in report.losses] == [LossKind.STATISTICS]
    assert (await table.core.newest()).snapshot.statistics is not None


async def test_sound_statistics_outlive_a_repair() -> None:
    """A repair of rows keeps the reference, as all commits do."""
    world, _ = await _with_statistics()
    (data,) = [key for key in world if "/data/" in key and key.endswith(".parquet")]
    table, report, _ = await repaired({**world, data: b"x"})
    assert [one.kind for one in report.losses] == [LossKind.FILE]
    assert (await table.core.newest()).snapshot.statistics is not None


async def test_a_repair_that_is_held_up_until_snapshots_expire_repairs_nothing() -> None:
    """Whoever repairs and is held up between listing and reading takes no expired snapshot for a lost one."""
    store, clock = StepIn(await made()), ManualClock(skip=True)
    for number in range(3):
        await (await table_of(store)).upsert(rows_like((number, "a", number)))
    table = await table_of(store, clock=clock)

    async def an_hour() -> None:
        others = await table_of(store.inner)
        await others.create_tag("kept", snapshot=2)
        await others.upsert(rows_like((9, "a", 9)))
        for _ in range(2):
            await others.expire_snapshots(retain=1, grace_s=0)
        await clock.advance(3_600)

    store.before(0, "/snapshot/snapshot-", an_hour, verb="get")
    with pytest.raises(UnavailableError, match="Repair again"):
        await table.repair()
    assert store.act is None
    assert not (await (await table_of(store)).repair()).losses
