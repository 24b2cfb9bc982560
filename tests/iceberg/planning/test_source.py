"""Reads of manifests: each once, checked against the manifest list, kept when whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.errors import CorruptionError
from lakehouse.iceberg import open as open_iceberg
from tests.kit.iceberg_plans import BY_DAY, DAY, SCHEMA, data_file, manifest, opened, three_days
from tests.kit.iceberg_tables import Snapshot, Table, on_disk


async def test_a_cold_plan_reads_the_list_and_each_manifest_once(tmp_path: Path) -> None:
    """A plan takes one request for the manifest list and one for each manifest, and the next none."""
    async with await opened(three_days(), tmp_path) as table:
        cold, warm = await table.plan(), await table.plan("id = 7")
    assert (cold.cost.requests, warm.cost.requests) == (4, 0)
    assert (len(cold), len(warm)) == (30, 1)


async def test_manifests_that_are_excluded_are_not_read(tmp_path: Path) -> None:
    """Of manifests whose partitions have no wanted row nothing is fetched."""
    async with await opened(three_days(), tmp_path) as table:
        plan = await table.plan("at >= '2024-01-03'")
    assert (plan.cost.requests, len(plan)) == (2, 10)


async def test_a_small_commit_costs_its_own_manifest(tmp_path: Path) -> None:
    """After a commit is seen, a plan reads its manifest list and its new manifest."""
    before = three_days()
    first = before.snapshots[0]
    added = manifest("new", [data_file(DAY, 99)], sequence=2, snapshot=2)
    second = Snapshot(id=2, sequence=2, parent=1, manifests=[*first.manifests, added])
    on_disk(before, tmp_path)
    async with await open_iceberg(str(tmp_path)) as table:
        assert len(await table.plan()) == 30
        on_disk(replace(before, snapshots=[first, second]), tmp_path)
        await table.refresh()
        again = await table.plan()
    assert (len(again), again.cost.requests) == (31, 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"added_files_count": 11}, "10 added files, and the manifest list says 11"),
        ({"existing_files_count": 2}, "0 kept files, and the manifest list says 2"),
        ({"deleted_files_count": 1}, "0 deleted files, and the manifest list says 1"),
        ({"manifest_length": 7}, "bytes, and the manifest list says 7"),
    ],
)
async def test_a_manifest_that_is_not_whole_is_refused(
    tmp_path: Path, line: dict[str, int], said: str
) -> None:
    """A manifest that differs from what the list says of it is damage, each time it is asked for."""
    items = [data_file(DAY, number) for number in range(10)]
    snapshot = Snapshot(id=1, sequence=1, manifests=[manifest("m", items, line=line)])
    table_files = Table(schemas=[SCHEMA], specs=[BY_DAY], snapshots=[snapshot])
    async with await opened(table_files, tmp_path) as table:
        for _ in range(2):
            with pytest.raises(CorruptionError, match=said) as error:
                await table.plan()
            assert "metadata/m.avro" in str(error.value)


async def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    """A manifest that is gone is an error that names it; it is found once it is there again."""
    async with await opened(three_days(), tmp_path) as table:
        path = tmp_path / "metadata" / "m1.avro"
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(CorruptionError, match=r"metadata/m1\.avro is missing"):
            await table.plan()
        path.write_bytes(data)
        assert len(await table.plan()) == 30


async def test_caches_weigh_what_they_hold(tmp_path: Path) -> None:
    """Entries that do not fit the cache are read again, and plans are the same."""
    async with await opened(three_days(), tmp_path, {"cache.max_bytes": 0}) as table:
        first, second = await table.plan("id = 7"), await table.plan("id = 7")
    assert (first.cost.requests, second.cost.requests) == (4, 4)
    assert first.files().equals(second.files())
