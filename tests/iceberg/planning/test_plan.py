"""Plans: files, tasks and splits of what is left, runtime filters later, and why the rest is left out."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, MonthTransform, VoidTransform
from pyiceberg.types import LongType

from lakehouse.iceberg import IcebergPlan, IcebergTable, RuntimeFilter
from tests.kit.iceberg_plans import DAY, SCHEMA, data_file, delete_file, manifest, opened, three_days
from tests.kit.iceberg_tables import Item, Manifest, Snapshot, Table


async def plan_of(table: IcebergTable, *args: str, **how: object) -> IcebergPlan:
    """Plans and closes the table: a plan needs it no more."""
    async with table:
        return await table.plan(*args, **how)  # type: ignore[arg-type]


async def test_files_are_rows(tmp_path: Path) -> None:
    """Each file is a row: its partition, its size, delete files that apply, and what is left to ask."""
    deletes = manifest("deletes", [delete_file(DAY + 1, "p")], delete=True)
    plan = await plan_of(await opened(three_days(deletes), tmp_path), "id between 95 and 101")
    found = plan.files().to_pylist()
    assert [row["path"].removeprefix(f"file://{tmp_path}/data/") for row in found] == [
        f"{DAY}/9.parquet",
        f"{DAY + 1}/10.parquet",
    ]
    assert [row["deletes"] for row in found] == [[], [f"file://{tmp_path}/data/{DAY + 1}/p"]]
    assert [row["residual"] for row in found] == ["id >= 95", "id <= 101"]
    assert found[0]["partition"] == {"at_day": dt.date(2024, 1, 1)}
    assert [(row["format"], row["spec_id"], row["rows"], row["size"]) for row in found] == [
        ("parquet", 0, 10, 1_000)
    ] * 2
    assert (plan.rows, plan.bytes, len(plan), plan.files_pruned) == (20, 2_000, 2, 28)


async def test_a_field_that_became_void_keeps_its_older_values(tmp_path: Path) -> None:
    """A void field has the type of its column; months that it held before are shown, nulls since then."""
    month = PartitionField(2, 1000, MonthTransform(), "at_month")
    void = PartitionField(2, 1000, VoidTransform(), "at_month")
    specs = [PartitionSpec(month, spec_id=0), PartitionSpec(void, spec_id=1)]
    manifests = [
        manifest("m0", [data_file(None, 1, partition=(648,))], spec=specs[0]),
        manifest("m1", [data_file(None, 2)], spec=specs[1]),
    ]
    made = Table(schemas=[SCHEMA], specs=specs, snapshots=[Snapshot(id=1, sequence=1, manifests=manifests)])
    found = (await plan_of(await opened(made, tmp_path))).files()
    assert found["partition"].to_pylist() == [{"at_month": 648}, {"at_month": None}]


async def test_runtime_filters_prune_a_plan_that_stands(tmp_path: Path) -> None:
    """A filter that comes later leaves files out without a request; the plan it was asked of stays."""
    async with await opened(three_days(), tmp_path) as table:
        plan = await table.plan()
        pruned = plan.prune([RuntimeFilter.in_("id", [5, 150, 999])]).prune(
            [RuntimeFilter.in_("id", [150, 151])]
        )
        assert (len(plan), len(pruned)) == (30, 1)
        assert [task.path.rpartition("/")[2] for task in pruned.tasks()] == ["15.parquet"]
        asked = await table.plan(
            runtime_filters=[RuntimeFilter.in_("id", [5, 150, 999]), RuntimeFilter.in_("id", [150, 151])]
        )
        assert asked.files().equals(pruned.files())
        assert len(await table.plan(runtime_filters="off")) == 30


async def test_runtime_filters_can_be_switched_off(tmp_path: Path) -> None:
    """A setting leaves all runtime filters unasked."""
    table = await opened(three_days(), tmp_path, {"iceberg.runtime_filters": False})
    assert len(await plan_of(table, runtime_filters=[RuntimeFilter.in_("id", [5])])) == 30


async def test_it_says_why(tmp_path: Path) -> None:
    """Each manifest and file that is left out is told with its filter, its reason and what is known of it."""
    table = await opened(three_days(), tmp_path)
    plan = await plan_of(table, "at >= '2024-01-02' and id < 120 and at <> '2024-01-04'")
    said = plan.prune([RuntimeFilter.in_("id", [104])]).explain()
    assert (said.manifests, said.manifests_pruned, said.files, said.files_pruned) == (3, 1, 1, 19)
    by = {one.path.rpartition("/data/")[2]: one for one in said.pruned if one.what == "file"}
    assert by[f"{DAY + 1}/15.parquet"].by == "metrics"
    assert by[f"{DAY + 1}/15.parquet"].why == "id < 120, and id is 150 to 159"
    assert by[f"{DAY + 1}/12.parquet"].by == "metrics"
    assert by[f"{DAY + 1}/13.parquet"].by == "metrics"
    (manifest_told,) = [one for one in said.pruned if one.what == "manifest"]
    assert manifest_told.by == "partition"
    assert "at >= '2024-01-02'" in manifest_told.why
    assert "at is 2024-01-01 00:00:00 to 2024-01-01 23:59:59.999999" in manifest_told.why
    by_filter = [one for one in said.pruned if one.by == "runtime filter"]
    assert {one.why.partition(",")[0] for one in by_filter} == {"id IN (104)"}
    effects = {effect.filter: effect for effect in said.filters}
    assert (effects["id < 120"].manifests, effects["id < 120"].files, effects["id < 120"].bytes) == (
        0,
        18,
        18_000,
    )
    assert effects["id IN (104)"].kind == "runtime"
    assert "3 manifests left out" in str(said)


async def test_only_as_much_is_listed_as_is_asked_for(tmp_path: Path) -> None:
    """The list of what is left out is cut at a limit; numbers are of the whole plan."""
    said = (await plan_of(await opened(three_days(), tmp_path), "id < 0")).explain(limit=4)
    assert (len(said.pruned), said.files_pruned, said.files) == (4, 30, 0)


async def test_splits_hold_all_tasks(tmp_path: Path) -> None:
    """Tasks are shared out by the sizes that are asked for, with their deletes and residuals."""
    plan = await plan_of(await opened(three_days(), tmp_path), "id < 45")
    shares = plan.splits(target_size=2_000, open_cost=0)
    assert [len(share) for share in shares] == [2, 2, 1]
    assert [part.path for share in shares for part in share] == [task.path for task in plan.tasks()]
    assert [task.residual is None for task in plan.tasks()] == [True] * 4 + [False]


async def test_a_table_without_snapshots_has_no_files(tmp_path: Path) -> None:
    """A plan of a table that nobody has written to is empty, and says so."""
    table = await opened(three_days(), tmp_path)
    empty = await table.plan("id = -1")
    assert empty.files().num_rows == 0
    assert empty.tasks() == []
    assert empty.splits() == []
    assert "deletes" in empty.files().schema.names


@pytest.mark.parametrize("wrong", ["on", ["id"], [7]])
async def test_what_is_no_filter_is_refused(tmp_path: Path, wrong: object) -> None:
    """A runtime filter that is none is an error that says how one is made."""
    table = await opened(three_days(), tmp_path)
    with pytest.raises(Exception, match="runtime"):
        await table.plan(runtime_filters=wrong)  # type: ignore[arg-type]


async def test_rows_of_no_file_are_no_match(tmp_path: Path) -> None:
    """A file without rows is listed, and left out as soon as there is a condition."""
    empty = manifest("empty", [data_file(DAY, 50, rows=0)])
    async with await opened(three_days(empty), tmp_path) as table:
        assert len(await table.plan()) == 31
        assert len(await table.plan("id >= 0 or id is null")) == 30


async def test_small_ranges_of_bucketed_columns_are_asked_value_by_value(tmp_path: Path) -> None:
    """A range of few values leaves out the buckets that none of them is in, and is asked of rows once."""
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(64), "id_bucket"), spec_id=0)
    items = [Item(path=f"data/{bucket}.parquet", partition=(bucket,), rows=10) for bucket in range(64)]
    buckets = Manifest(name="m", schema=SCHEMA, spec=spec, items=items)
    made = Table(schemas=[SCHEMA], specs=[spec], snapshots=[Snapshot(id=1, sequence=1, manifests=[buckets])])
    async with await opened(made, tmp_path) as table:
        plan = await table.plan("id >= 34 and id < 37")
    hashed = {BucketTransform(64).transform(LongType())(number) for number in (34, 35, 36)}
    assert {row["partition"]["id_bucket"] for row in plan.files().to_pylist()} == hashed
    assert plan.files()["residual"].to_pylist() == ["(id >= 34) AND (id < 37)"] * len(hashed)
    assert {effect.filter: effect.files for effect in plan.explain().filters}["id IN (34, 35, 36)"] == 61
