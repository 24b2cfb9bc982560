"""Verification: a sound table is sound, and every damage is found and named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import NotFoundError
from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry
from lakehouse.format.metadata.snapshot import Counts, ParentRef, Snapshot, decode_snapshot, encode_snapshot
from lakehouse.io import ObjectStore
from lakehouse.storage.maintenance.verify_report import Problem, VerifyReport
from lakehouse.testing import RecordingStore
from tests.damage.test_table_damage import Known, _known, damages
from tests.kit.table_operations import LAYOUTS, OPERATIONS, build
from tests.kit.worlds import NAME, StepIn, World, process, restored, saved, table_of

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.string(), "v": pa.float64()})


@pytest.fixture(scope="module")
async def known() -> Known:
    """Tables with manifests of their own and files of both formats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse.storage.commit.spilled_manifest._OWN_ENTRIES_MAX", 1)
        return await _known()


async def verified(world: World, **how: Any) -> VerifyReport:
    """What a process says that opens the table afresh."""
    return await (await table_of(await restored(world))).verify(**how)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_tables_are_sound_after_whatever_was_done(layout: str) -> None:
    """Every operation leaves a table of which nothing is said, also read in full."""
    world, _ = await build(layout)
    for what in OPERATIONS:
        if what.needs_key and layout == "append-only":
            continue
        table = await table_of(await restored(world))
        await what.run(table)
        report = await table.verify(deep=True)
        assert report.ok, (what, str(report))
        assert report.snapshots == 5
        assert report.files > 0
        assert report.relation().num_rows == 0
        assert "sound" in str(report)


async def test_sound_tables_are_sound(known: Known) -> None:
    """Manifests, both formats, tags, deletions and changed schemas make no damage."""
    for deep in (False, True):
        report = await verified(known.world, deep=deep)
        assert report.ok, str(report)
        assert (report.snapshots, report.deep) == (known.head, deep)
        assert report.manifests > 1


@pytest.mark.parametrize("sort", ["snapshot", "schema", "manifest", "data"])
async def test_every_damage_is_found(known: Known, sort: str) -> None:
    """A damaged object is named with exactly the snapshots that need it, and nothing else is."""
    for key in known.objects():
        if known.kind(key) != sort or "LATEST" in key:
            continue
        path = key.removeprefix(known.root + "/")
        needed = {
            number for number in known.rows if key in known.needs[number] or key == known.snapshot(number)
        }
        for what, data in damages(known, key):
            world = {**known.world, key: data or b""}
            if data is None:
                del world[key]
            if key == known.snapshot(known.head) not in world:
                continue
            report = await verified(world, deep=sort == "data")
            found = {one.object: set(one.snapshots) for one in report.damages}
            assert path in found, (key, what)
            assert needed <= found[path], (key, what)
            assert set(found) == {path}, (key, what, str(report))


async def test_what_is_missing_or_cut_off_is_found_by_a_listing(known: Known) -> None:
    """Without reading data files it is known which are gone or have another size."""
    for key in known.objects():
        if known.kind(key) == "data":
            for data, problem in ((None, Problem.MISSING), (known.world[key][:-1], Problem.SIZE)):
                world = {**known.world, key: data or b""}
                if data is None:
                    del world[key]
                report = await verified(world)
                assert {(one.problem, one.object) for one in report.damages} == {
                    (problem, key.removeprefix(known.root + "/"))
                }


async def test_a_lost_head_is_noticed_by_the_hint(known: Known) -> None:
    """When LATEST speaks of a snapshot that is not there, its object was lost."""
    world = dict(known.world)
    for number in range(5, known.head + 1):
        del world[known.snapshot(number)]
    report = await verified(world)
    assert [(one.problem, one.snapshots) for one in report.damages] == [(Problem.MISSING, (5,))]


async def test_commits_in_the_middle_of_a_verification_are_no_damage(known: Known) -> None:
    """Whatever others commit between any two of its requests, a sound table is sound."""
    row = [{"id": 70, "part": "a", "v": 1.0}]
    for number in range(100):
        store = await restored(known.world)
        hooked, committed = StepIn(store), list[int]()

        async def commit(store: ObjectStore = store, committed: list[int] = committed) -> None:
            async with process(store) as lake:  # which says so in the hint, too, before it ends
                committed.append((await (await lake.table(NAME)).append(row)).snapshot)

        table = await table_of(hooked)
        hooked.before(number, "", commit)
        report = await table.verify()
        assert report.ok, f"a commit before request {number}: {report}"
        if not committed:
            break
    assert number > 5


async def test_one_snapshot_can_be_verified_alone(known: Known) -> None:
    """Only what that snapshot needs is looked at; one that is not there is an error."""
    table = await table_of(await restored({**known.world, known.snapshot(3): b"x"}))
    assert (await table.verify(snapshot=2)).ok
    assert not (await table.verify(snapshot=3)).ok
    with pytest.raises(NotFoundError):
        await table.verify(snapshot=99)


async def test_requests_of_a_verification(known: Known) -> None:
    """There is one listing, one read per snapshot, manifest and schema, and none of data files."""
    store = RecordingStore(await restored(known.world))
    table = await table_of(store)
    store.clear()
    report = await table.verify()
    kinds = {known.kind(call.key) for call in store.calls if call.verb == "get"}
    assert kinds == {"snapshot", "schema", "manifest"}
    assert store.kinds()["list"] == 2
    gets = [call.key for call in store.calls if call.verb == "get"]
    # The newest snapshot is read first of all, to know which there are.
    assert len(gets) - len(set(gets)) == 1
    assert report.cost.by_kind() == store.kinds()


async def test_the_report_is_a_relation(known: Known) -> None:
    """Damages are rows of object, problem, detail and snapshots."""
    (key, *_) = [key for key in known.objects() if known.kind(key) == "manifest"]
    report = await verified({**known.world, key: b"x"})
    rows = report.relation().to_pylist()
    assert list(rows[0]) == ["object", "problem", "detail", "snapshots"]
    assert rows[0]["problem"] == "unreadable"
    assert rows[0]["snapshots"] == sorted(rows[0]["snapshots"])
    assert key.removeprefix(known.root + "/") in str(report)


# --- what is well-formed and wrong ----------------------------------------------------


async def _made(**layout: Any) -> tuple[World, str]:
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table("db.t", SCHEMA, **layout)
    for number in range(3):
        await table.upsert([{"id": n, "part": "ab"[n % 2], "v": 1.0 * n} for n in range(number, number + 4)])
    return await saved(store), table._table.root


def _rewritten(world: World, root: str, number: int, **changes: Any) -> World:
    """The world with a snapshot that says something else."""
    key = f"{root}/snapshot/snapshot-{number:020}"
    one = decode_snapshot(world[key], key=key)
    made = {name: change(one) if callable(change) else change for name, change in changes.items()}
    return {**world, key: encode_snapshot(dataclasses.replace(one, **made))}


def _entry(**changes: Any) -> dict[str, Any]:
    """The last file of a snapshot described otherwise."""

    def change(one: Snapshot) -> tuple[FileEntry, ...]:
        return (*one.added[:-1], dataclasses.replace(one.added[-1], **changes))

    return {"added": change}


WRONG = {
    "another parent": ({"parent": ParentRef(id=3, token="f" * 32)}, Problem.CHAIN),
    "a parent before": ({"parent": ParentRef(id=2, token="f" * 32)}, Problem.CHAIN),
    "time goes back": ({"time_ms": 1}, Problem.CHAIN),
    "earliest behind itself": ({"earliest": 9}, Problem.CHAIN),
    "total": ({"total": Counts(files=3, rows=9, bytes=1)}, Problem.COUNTS),
    "files gone unsaid": ({"added": lambda one: one.added[1:]}, Problem.CHAIN),
    "listed twice": ({"added": lambda one: (*one.added, one.added[-1])}, Problem.ENTRY),
    "overlapping intervals": (_entry(lo=(2, 1, 0), hi=(4, 1, 0)), Problem.INTERVAL),
    "interval of the future": (_entry(lo=(9, 1, 0), hi=(9, 1, 0)), Problem.ENTRY),
    "bucket": (_entry(bucket=3), Problem.ENTRY),
    "more deletions than rows": (_entry(deletes=9), Problem.ENTRY),
    "keys backwards": (_entry(min_key=b"b", max_key=b"a"), Problem.ENTRY),
    "partition": (_entry(partition=(b"a",)), Problem.ENTRY),
    "stats": (
        _entry(stats={3: ColumnStats(nulls=0, low=b"\xff" * 8, high=b"\xff" * 8)}),
        Problem.STATS,
    ),
    "nulls": (_entry(stats={3: ColumnStats(nulls=2)}), Problem.STATS),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_cannot_be_true_is_found(what: str) -> None:
    """A well-formed snapshot that says what cannot be is named, or the file it speaks of is."""
    world, root = await _made(primary_key="id")
    changes, problem = WRONG[what]
    report = await verified(_rewritten(world, root, 4, **changes), deep=True)
    assert problem in {one.problem for one in report.damages}, str(report)


async def test_rows_of_another_bucket_are_found() -> None:
    """A file whose rows do not belong to its bucket, or to its partition, is damaged."""
    world, root = await _made(primary_key=["id", "part"], partition_by="part", bucket=2)
    for changes in (
        {"bucket": lambda one: 1 - one.bucket},
        {"partition": lambda one: (b"b",) if one.partition == (b"a",) else (b"a",)},
    ):
        key = f"{root}/snapshot/snapshot-{4:020}"
        one = decode_snapshot(world[key], key=key)
        last = one.added[-1]
        wrong = {name: change(last) for name, change in changes.items()}
        report = await verified(_rewritten(world, root, 4, **_entry(**wrong)), deep=True)
        assert (last.path, Problem.ROWS) in {(one.object, one.problem) for one in report.damages}
