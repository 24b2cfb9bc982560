"""Assignment of delete files: by path, partition and sequence number, as Iceberg's specification says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.transforms import VoidTransform

from tests.kit.iceberg_plans import BY_DAY, DAY, SCHEMA, data_file, delete_file, manifest, opened
from tests.kit.iceberg_tables import FILE_PATH_ID, Item, Manifest, Snapshot, Table

FIRST, SECOND = (f"data/{DAY}/{number}.parquet" for number in (1, 2))
NO_SPEC = PartitionSpec(spec_id=1)
VOID = PartitionSpec(PartitionField(2, 1001, VoidTransform(), "gone"), spec_id=2)


def table_of(deletes: list[Item], *, spec: PartitionSpec = BY_DAY, more: tuple[Manifest, ...] = ()) -> Table:
    """Returns a table of two files of sequence 2 and one of another day, and delete files."""
    data = [data_file(DAY, 1), data_file(DAY, 2), data_file(DAY + 1, 3)]
    manifests = [
        manifest("data", data, sequence=2),
        manifest("deletes", deletes, spec=spec, delete=True, sequence=9, fields_of=3),
        *more,
    ]
    return Table(
        schemas=[SCHEMA],
        specs=[BY_DAY, NO_SPEC, VOID],
        snapshots=[Snapshot(id=1, sequence=9, manifests=manifests)],
    )


async def applied(table: Table, directory: Path) -> dict[str, list[str]]:
    """Returns the names of the delete files of each data file."""
    async with await opened(table, directory) as iceberg:
        plan = await iceberg.plan()
    rows = plan.files().select(["path", "deletes"]).to_pylist()
    tasks = {task.path: [one.path for one in task.deletes] for task in plan.tasks()}
    assert tasks == {row["path"]: row["deletes"] for row in rows}
    return {
        path.rpartition("/")[2].removesuffix(".parquet"): sorted(name.rpartition("/")[2] for name in names)
        for path, names in tasks.items()
    }


@pytest.mark.parametrize(("sequence", "applies"), [(1, False), (2, True), (3, True)])
async def test_position_deletes_apply_to_files_that_are_no_newer(
    tmp_path: Path, sequence: int, applies: bool
) -> None:
    """Position deletes apply to files of their partition of the same sequence number and before."""
    found = await applied(table_of([delete_file(DAY, "p", sequence=sequence)]), tmp_path)
    assert found == {"1": ["p"] * applies, "2": ["p"] * applies, "3": []}


@pytest.mark.parametrize(("sequence", "applies"), [(1, False), (2, False), (3, True)])
async def test_equality_deletes_apply_to_older_files(tmp_path: Path, sequence: int, applies: bool) -> None:
    """Equality deletes apply to files of their partition before their sequence number, not of the same."""
    found = await applied(table_of([delete_file(DAY, "e", equality=[1], sequence=sequence)]), tmp_path)
    assert found == {"1": ["e"] * applies, "2": ["e"] * applies, "3": []}


@pytest.mark.parametrize("spec", [NO_SPEC, VOID], ids=["no fields", "void alone"])
async def test_equality_deletes_without_a_partition_apply_everywhere(
    tmp_path: Path, spec: PartitionSpec
) -> None:
    """Equality deletes of a spec that does not partition apply to all partitions; position deletes do not."""
    values: Any = (None,) * len(spec.fields)
    deletes = [
        Item(path="e", content=2, partition=values, equality_ids=(1,)),
        Item(path="p", content=1, partition=values),
    ]
    assert await applied(table_of(deletes, spec=spec), tmp_path) == {"1": ["e"], "2": ["e"], "3": ["e"]}


async def test_position_deletes_of_a_named_file_apply_to_it_alone(tmp_path: Path) -> None:
    """A delete file that names its data file, or has equal bounds of paths, is about no other."""
    bounds = {"lower_bounds": {FILE_PATH_ID: SECOND}, "upper_bounds": {FILE_PATH_ID: SECOND}}
    deletes = [
        delete_file(DAY, "named", referenced_data_file=FIRST),
        delete_file(DAY, "bounded", metrics=bounds),
    ]
    assert await applied(table_of(deletes), tmp_path) == {"1": ["named"], "2": ["bounded"], "3": []}


async def test_position_deletes_apply_within_their_bounds_of_paths(tmp_path: Path) -> None:
    """Files whose paths are outside of those in a delete file have no row deleted by it."""
    bounds = {"lower_bounds": {FILE_PATH_ID: SECOND}, "upper_bounds": {FILE_PATH_ID: f"data/{DAY}/9.parquet"}}
    assert await applied(table_of([delete_file(DAY, "p", metrics=bounds)]), tmp_path) == {
        "1": [],
        "2": ["p"],
        "3": [],
    }


async def test_a_vector_supersedes_position_deletes(tmp_path: Path) -> None:
    """Of a file with a deletion vector only that and equality deletes are read."""
    vector: dict[str, Any] = {"format": "PUFFIN", "content_offset": 4, "content_size": 40}
    deletes = [
        delete_file(DAY, "v", referenced_data_file=FIRST, **vector),
        delete_file(DAY, "p"),
        delete_file(DAY, "q", referenced_data_file=FIRST),
        delete_file(DAY, "e", equality=[1]),
    ]
    assert await applied(table_of(deletes), tmp_path) == {"1": ["e", "v"], "2": ["e", "p"], "3": []}


async def test_an_older_vector_does_not_apply(tmp_path: Path) -> None:
    """A vector of before the file was added is of another file of that name."""
    vector: dict[str, Any] = {"format": "PUFFIN", "content_offset": 4, "content_size": 40, "sequence": 1}
    deletes = [delete_file(DAY, "v", referenced_data_file=FIRST, **vector), delete_file(DAY, "p")]
    assert (await applied(table_of(deletes), tmp_path))["1"] == ["p"]


async def test_null_partitions_have_their_own_deletes(tmp_path: Path) -> None:
    """A delete file of the partition null applies to files of that partition."""
    more = manifest("nulls", [data_file(None, 4)], sequence=2)
    found = await applied(table_of([delete_file(None, "p")], more=(more,)), tmp_path)
    assert found == {"1": [], "2": [], "3": [], "4": ["p"]}


async def test_specs_have_their_own_deletes(tmp_path: Path) -> None:
    """Position deletes of a partition of another spec do not apply, even if its values are equal."""
    other = PartitionSpec(*(field.model_copy(update={"name": "x"}) for field in BY_DAY.fields), spec_id=1)
    table = table_of([delete_file(DAY, "p")], spec=other)
    assert await applied(table, tmp_path) == {"1": [], "2": [], "3": []}
    assert UNPARTITIONED_PARTITION_SPEC.spec_id == 0
