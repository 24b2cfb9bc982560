"""Partitions of Iceberg tables: what is in them, what they cover after a change of the spec, what changed."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    YearTransform,
)
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from lakehouse.catalog.partitions import PartitionInfo, PartitionKey, changed_partitions_of, partitions_of
from lakehouse.catalog.partitions.of_iceberg import _shown
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.expr.transforms import Transform
from lakehouse.iceberg import IcebergTable
from lakehouse.io.cost import Cost, counting
from tests.kit.iceberg_plans import opened
from tests.kit.iceberg_rows import partition_value
from tests.kit.iceberg_tables import (
    DELETED,
    EQUALITY,
    EXISTING,
    POSITION,
    Item,
    Manifest,
    Snapshot,
    Table,
)
from tests.kit.iceberg_worlds import World, random_world

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestampType(), required=False),
    NestedField(3, "region", StringType(), required=False),
)
NONE = PartitionSpec(spec_id=0)
BY_MONTH = PartitionSpec(PartitionField(2, 1000, MonthTransform(), "at_month"), spec_id=1)
BY_DAY = PartitionSpec(
    PartitionField(2, 1001, DayTransform(), "at_day"),
    PartitionField(3, 1002, IdentityTransform(), "region"),
    spec_id=2,
)
MONTH = 12 * (2026 - 1970)
"""January 2026."""
DAY = (dt.date(2026, 1, 1) - dt.date(1970, 1, 1)).days


def manifest(name: str, spec: PartitionSpec, items: Sequence[Item], at: int = 1, **how: Any) -> Manifest:
    """Of a commit."""
    return Manifest(name=name, schema=SCHEMA, spec=spec, items=items, snapshot=at, sequence=at, **how)


def item(path: str, *partition: Any, **how: Any) -> Item:
    """A file of ten rows."""
    return Item(path=f"data/{path}", partition=partition, rows=10, **how)


def history(
    *commits: tuple[str, Sequence[Manifest]], specs: Sequence[PartitionSpec] = (BY_MONTH, BY_DAY)
) -> Table:
    """A table of commits, each with its operation and all of its manifests."""
    snapshots = [
        Snapshot(
            id=number, sequence=number, manifests=manifests, parent=number - 1 or None, operation=operation
        )
        for number, (operation, manifests) in enumerate(commits, 1)
    ]
    return Table(schemas=[SCHEMA], specs=specs, snapshots=snapshots)


def evolved() -> Table:
    """Two months, then days by region within one of them and after it."""
    months = manifest("months", BY_MONTH, [item("m0", MONTH), item("m1", MONTH + 1)])
    days = manifest(
        "days",
        BY_DAY,
        [
            item("d0", DAY, "eu"),
            item("d1", DAY + 30, "eu"),
            item("d2", DAY + 30, None),
            item("d3", DAY + 70, "eu"),
        ],
        at=2,
    )
    return history(("append", [months]), ("append", [months, days]))


async def info_of(table: Table, directory: Path, **how: Any) -> PartitionInfo:
    """Its partitions."""
    async with await opened(table, directory) as found:
        return await partitions_of(found, **how)


async def test_a_partition_says_what_is_in_it(tmp_path: Path) -> None:
    """Ranges, files, rows, bytes and the last snapshot of each partition are those of its files."""
    first = manifest("a", BY_DAY, [item("x", DAY, "eu"), item("y", DAY, "eu")])
    second = manifest("b", BY_DAY, [item("z", DAY, "eu"), item("w", DAY, None)], at=2)
    table = history(("append", [first]), ("append", [first, second]), specs=[BY_DAY])
    info = await info_of(table, tmp_path)
    eu, null = info.partitions
    assert info.fields == ("day(at)", "region")
    assert (eu.key.name, eu.key.values) == ("at_day=2026-01-01/region=eu", (dt.date(2026, 1, 1), "eu"))
    assert (eu.files, eu.rows, eu.stored_rows, eu.bytes, eu.last_snapshot) == (3, 30, 30, 3_000, 2)
    day, region = eu.key.bounds
    assert (day.low, day.high) == (
        dt.datetime(2026, 1, 1),
        dt.datetime(2026, 1, 1, 23, 59, 59, 999_999),
    )
    assert (region.low, region.high, region.column) == ("eu", "eu", "region")
    assert null.key.bounds[1].is_null
    assert str(null.key.where()).count("region") == 1
    before = await info_of(table, tmp_path / "again", snapshot=1)
    assert [(one.files, one.last_snapshot) for one in before.partitions] == [(2, 1)]


async def test_a_month_covers_its_days(tmp_path: Path) -> None:
    """After a change of the spec the wider partitions name the narrower ones that lie within them."""
    info = await info_of(evolved(), tmp_path)
    covers = {one.key.name: [inner.name for inner in one.covers] for one in info.partitions}
    assert covers == {
        "spec 1: at_month=672": [
            "spec 2: at_day=2026-01-01/region=eu",
            "spec 2: at_day=2026-01-31/region=eu",
            "spec 2: at_day=2026-01-31/region=null",
        ],
        "spec 1: at_month=673": [],
        "spec 2: at_day=2026-01-01/region=eu": [],
        "spec 2: at_day=2026-01-31/region=eu": [],
        "spec 2: at_day=2026-01-31/region=null": [],
        "spec 2: at_day=2026-03-12/region=eu": [],
    }


async def test_buckets_and_years_and_nothing_cover_too(tmp_path: Path) -> None:
    """A year covers months, fewer buckets cover more, and files without partitions cover all others."""
    year = PartitionSpec(PartitionField(2, 1003, YearTransform(), "y"), spec_id=3)
    four = PartitionSpec(PartitionField(1, 1004, BucketTransform(4), "b4"), spec_id=4)
    eight = PartitionSpec(PartitionField(1, 1005, BucketTransform(8), "b8"), spec_id=5)
    manifests = [
        manifest("n", NONE, [item("n")]),
        manifest("m", BY_MONTH, [item("m", MONTH), item("m2", MONTH - 1)]),
        manifest("y", year, [item("y", 56)]),
        manifest("b4", four, [item("b4", 1)]),
        manifest("b8", eight, [item("b5", 5), item("b6", 6)]),
    ]
    info = await info_of(history(("append", manifests), specs=[NONE, BY_MONTH, year, four, eight]), tmp_path)
    covers = {one.key.name: [inner.name for inner in one.covers] for one in info.partitions if one.covers}
    assert len(covers.pop("spec 0: not partitioned")) == 6
    assert covers == {"spec 3: y=56": ["spec 1: at_month=672"], "spec 4: b4=1": ["spec 5: b8=5"]}


async def test_an_unpartitioned_table_has_empty_partition_info_not_an_error(tmp_path: Path) -> None:
    """A table without partitions, or without snapshots, has none and no problem."""
    table = history(("append", [manifest("n", NONE, [item("n")])]), specs=[NONE])
    info = await info_of(table, tmp_path / "a")
    assert (info.snapshot, info.partitions, info.problem) == (1, (), None)
    info = await info_of(Table(schemas=[SCHEMA], specs=[BY_DAY], snapshots=[]), tmp_path / "b")
    assert (info.snapshot, info.partitions, info.problem) == (None, (), None)


async def test_an_invalid_table_has_empty_partition_info_not_an_error(tmp_path: Path) -> None:
    """A table whose manifest is gone has no partitions, and the reason says what is missing."""
    table = history(("append", [manifest("a", BY_DAY, [item("x", DAY, "eu")])]), specs=[BY_DAY])
    async with await opened(table, tmp_path) as found:
        (tmp_path / "metadata" / "a.avro").unlink()
        info = await partitions_of(found)
    assert info.partitions == ()
    assert "a.avro is missing" in str(info.problem)


async def test_deletes_make_the_number_of_rows_unknown(tmp_path: Path) -> None:
    """A partition that delete files may apply to has no number of rows, and was changed by them."""
    data = manifest("a", BY_DAY, [item("x", DAY, "eu"), item("y", DAY, "us")])
    deletes = manifest("d", BY_DAY, [item("p", DAY, "eu", content=POSITION)], at=2, delete=True)
    info = await info_of(history(("append", [data]), ("delete", [data, deletes]), specs=[BY_DAY]), tmp_path)
    eu, us = info.partitions
    assert (eu.rows, eu.stored_rows, eu.delete_files, eu.last_snapshot) == (None, 10, 1, 2)
    assert (us.rows, us.delete_files, us.last_snapshot) == (10, 0, 1)


# --- changes ------------------------------------------------------------------------


def names(keys: Sequence[PartitionKey]) -> list[str]:
    """For people."""
    return [key.name for key in keys]


def commits() -> Table:
    """A hundred partitions, an append to one, a rewrite of it, and a delete of all of another."""
    first = manifest("m1", BY_DAY, [item(f"a{n}", DAY + n, "eu") for n in range(100)])
    second = manifest("m2", BY_DAY, [item("b", DAY + 7, "eu")], at=2)
    rewritten = manifest(
        "m3",
        BY_DAY,
        [item("c", DAY + 7, "eu"), item("b", DAY + 7, "eu", status=DELETED, snapshot=3, sequence=2)],
        at=3,
    )
    deleted = manifest(
        "m4",
        BY_DAY,
        [
            item("a9", DAY + 9, "eu", status=DELETED, snapshot=4, sequence=1),
            *(
                item(f"a{n}", DAY + n, "eu", status=EXISTING, snapshot=1, sequence=1)
                for n in range(100)
                if n != 9
            ),
        ],
        at=4,
    )
    return history(
        ("append", [first]),
        ("append", [first, second]),
        ("replace", [first, rewritten]),
        ("delete", [deleted, rewritten]),
        specs=[BY_DAY],
    )


@pytest.mark.parametrize(
    ("start", "end", "expected", "requests"),
    [
        (1, 2, ["at_day=2026-01-08/region=eu"], 2),
        (2, 3, [], 0),
        (1, 3, ["at_day=2026-01-08/region=eu"], 2),
        (3, 4, ["at_day=2026-01-10/region=eu"], 2),
        (1, None, ["at_day=2026-01-08/region=eu", "at_day=2026-01-10/region=eu"], 4),
        (4, 4, [], 0),
    ],
)
async def test_changes_cost_only_what_the_commits_wrote(
    tmp_path: Path, start: int, end: int | None, expected: list[str], requests: int
) -> None:
    """Of each commit its list and its own manifests are read; a rewrite changes nothing and costs nothing."""
    cost = Cost()
    async with await opened(commits(), tmp_path) as table:
        with counting(cost):
            found = await changed_partitions_of(table, start, end)
        assert (names(found.partitions), found.is_all, found.end) == (expected, False, end or 4)
        assert cost.requests == requests
        again = Cost()
        with counting(again):
            await changed_partitions_of(table, start, end)
        assert again.requests == 0


async def test_deletes_without_a_partition_may_change_all(tmp_path: Path) -> None:
    """Equality deletes of no partition apply to every file: all may have changed, and the reason is said."""
    data = manifest("a", BY_DAY, [item("x", DAY, "eu")])
    deletes = manifest("d", NONE, [item("q", content=EQUALITY, equality_ids=[1])], at=2, delete=True)
    table = history(("append", [data]), ("delete", [data, deletes]), specs=[NONE, BY_DAY])
    async with await opened(table, tmp_path) as found:
        changed = await changed_partitions_of(found, 1)
        assert changed.is_all
        assert "snapshot 2" in str(changed.reason)
        (one,) = (await partitions_of(found)).partitions
        assert (one.rows, one.delete_files) == (None, 1)


async def test_changes_of_a_table_without_partitions_are_all_or_nothing(tmp_path: Path) -> None:
    """Where there are no partitions the whole table changed, unless it was only rewritten."""
    first, second = manifest("a", NONE, [item("x")]), manifest("b", NONE, [item("y")], at=2)
    table = history(
        ("append", [first]), ("append", [first, second]), ("replace", [first, second]), specs=[NONE]
    )
    async with await opened(table, tmp_path) as found:
        assert (await changed_partitions_of(found, 1)).is_all
        assert not (await changed_partitions_of(found, 2)).is_all


async def test_a_start_that_does_not_lead_to_the_end_is_an_error(tmp_path: Path) -> None:
    """Changes from an expired snapshot, or between branches, cannot be told, and are not guessed."""
    table = commits()
    async with await opened(table, tmp_path / "a") as found:
        with pytest.raises(InvalidInputError, match="no ancestor"):
            await changed_partitions_of(found, 4, 2)
        with pytest.raises(NotFoundError):
            await changed_partitions_of(found, 1, 99)
    expired = replace(table, snapshots=table.snapshots[1:])
    async with await opened(expired, tmp_path / "b") as found:
        with pytest.raises(NotFoundError, match="expired"):
            await changed_partitions_of(found, 1)


async def test_without_a_start_everything_changed(tmp_path: Path) -> None:
    """A caller that has nothing yet is given all partitions of the end."""
    async with await opened(evolved(), tmp_path) as found:
        changed = await changed_partitions_of(found, None, 1)
    assert changed.is_all
    assert names(changed.partitions) == ["spec 1: at_month=672", "spec 1: at_month=673"]


# --- random tables ------------------------------------------------------------------


async def keys_by_path(table: IcebergTable) -> dict[str, tuple[int, tuple[Any, ...]]]:
    """Spec and partition values of each live file, as keys have them."""
    files = await table.files()
    found = {}
    for number, spec in table.metadata.specs.items():
        some = files.filter(pc.equal(files["spec_id"], number))
        columns = []
        for field in spec.fields if some.num_rows else ():
            values = pc.struct_field(some["partition"].combine_chunks(), field.name)
            columns.append(_shown(Transform.parse(field.transform), values))
        rows: Any = zip(*columns, strict=True) if columns else [()] * some.num_rows
        for path, values in zip(some["path"].to_pylist(), rows, strict=True):
            found[path.rpartition("/data/")[2]] = (number, values)
    return found


def plain(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values, with one zero: those of both signs are equal."""
    return tuple(0.0 if isinstance(one, float) and one == 0 else one for one in values)


def partition_of(world: World, spec: PartitionSpec, row: Any) -> tuple[Any, ...]:
    """The partition that a row would have under a spec, as Iceberg stores it."""
    columns = {column.id: column for column in world.columns}
    return plain(
        partition_value(field, columns[field.source_id].type, row.get(field.source_id))
        for field in spec.fields
    )


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
async def test_partitions_of_random_tables_hold_their_rows(seed: int, tmp_path_factory: Any) -> None:
    """Sums are those of the files, and each row of a covered partition would be in the one that covers it."""
    world = random_world(random.Random(seed))
    async with await opened(world.table, tmp_path_factory.mktemp("t")) as table:
        info = await partitions_of(table)
        files = await table.files()
        assert info.problem is None
        if not any(spec.fields for spec in world.table.specs):
            assert info.partitions == ()
            return
        assert sum(one.files for one in info.partitions) == files.num_rows
        assert sum(one.stored_rows for one in info.partitions) == sum(files["rows"].to_pylist())
        paths = await keys_by_path(table)
    stored: dict[tuple[int, tuple[Any, ...]], set[Any]] = {}
    rows: dict[tuple[int, tuple[Any, ...]], list[Any]] = {}
    for owner, one in world.live():
        path = one.path.removeprefix("data/")
        if path in paths:
            stored.setdefault(paths[path], set()).add(str(plain(one.partition)))
            rows.setdefault(paths[path], []).extend(world.rows.get(one.path, ()))
        assert owner.spec.spec_id == paths.get(path, (owner.spec.spec_id,))[0]
    specs = {spec.spec_id: spec for spec in world.table.specs}
    for outer in info.partitions:
        for inner in outer.covers:
            assert inner.spec_id != outer.key.spec_id
            for row in rows[inner.spec_id, inner.values]:
                here = partition_of(world, specs[outer.key.spec_id], row)
                assert str(here) in stored[outer.key.spec_id, outer.key.values]
