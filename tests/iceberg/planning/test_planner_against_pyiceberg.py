"""Random tables and conditions, planned by us and by pyiceberg, and judged by the rows that the files hold.

Two things pyiceberg does that no sound planner of ours may: it drops files for a NaN, which for us is above
every number, and it compares some values wrongly (``World.understood`` and ``understood`` say which). Its
residuals fail on null partitions, so files are taken from it before it computes them.
"""

from __future__ import annotations

import random
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import StaticTable
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType

from lakehouse import iceberg
from lakehouse.expr import Expr, bind, matching, parse_where, to_sql
from tests.kit.iceberg_conditions import (
    Condition,
    holds,
    leaves,
    ours,
    pyicebergs,
    random_condition,
    understood,
)
from tests.kit.iceberg_rows import Row, python_value
from tests.kit.iceberg_tables import Item, on_disk
from tests.kit.iceberg_worlds import World, random_world

pytestmark = pytest.mark.anyio

_CONDITIONS = 8
"""Conditions that are tried on a table."""
SEEDS = st.integers(0, 2**48)
many = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def _stored(world: World) -> Iterator[tuple[str, str]]:
    """The world on disk: its metadata file, and its location."""
    with tempfile.TemporaryDirectory() as directory:
        yield on_disk(world.table, Path(directory)), f"file://{directory}"


def _theirs(metadata: str, condition: BooleanExpression, snapshot: int | None = None) -> set[str]:
    scan = StaticTable.from_metadata(metadata).scan(row_filter=condition, snapshot_id=snapshot)
    return {entry.data_file.file_path for part in scan._plan_manifest_entries() for entry in part}


async def _files(table: iceberg.IcebergTable, where: Any = None, **options: Any) -> list[dict[str, Any]]:
    plan = await table.plan(where=where, **options)
    found: list[dict[str, Any]] = plan.files().to_pylist()
    return found


def _matching(world: World, condition: Condition, location: str) -> dict[str, Item]:
    """The live files that hold a row that fulfils the condition."""
    return {
        f"{location}/{item.path}": item
        for _, item in world.live()
        if any(holds(condition, row) for row in world.rows[item.path])
    }


def _may_hold_nan(item: Item, condition: Condition) -> bool:
    """Whether a column of the condition may hold a NaN in this file, as far as its statistics say."""
    return any(
        isinstance(column.type, (FloatType, DoubleType))
        and item.metrics.get("nan_value_counts", {}).get(column.id) != 0
        for _, column, *_ in leaves(condition)
    )


@many
@given(SEEDS)
async def test_files_with_matching_rows_are_kept_and_what_pyiceberg_drops_is_not(seed: int) -> None:
    """A file with a matching row is kept; what pyiceberg drops is dropped, unless it may hold a NaN."""
    rng = random.Random(seed)
    world = random_world(rng)
    with _stored(world) as (metadata, location):
        live = {f"{location}/{item.path}": item for _, item in world.live()}
        async with await iceberg.open(metadata) as table:
            for _ in range(_CONDITIONS):
                condition = random_condition(rng, world.columns)
                kept = {file["path"] for file in await _files(table, _as_users_write_it(rng, condition))}
                assert kept <= live.keys()
                assert not _matching(world, condition, location).keys() - kept, condition
                if understood(condition) and world.understood():
                    loose = kept - _theirs(metadata, pyicebergs(condition))
                    assert not [p for p in loose if not _may_hold_nan(live[p], condition)], condition


def _as_users_write_it(rng: random.Random, condition: Condition) -> Expr | str:
    found = ours(condition)
    return to_sql(found) if rng.random() < 0.5 else found


@settings(many, max_examples=15)
@given(SEEDS)
def test_the_tables_are_made_well(seed: int) -> None:
    """What this file compares with is sound itself: pyiceberg keeps files with matching rows, NaN apart."""
    rng = random.Random(seed)
    world = random_world(rng)
    with _stored(world) as (metadata, location):
        for _ in range(_CONDITIONS):
            condition = random_condition(rng, world.columns)
            if understood(condition) and world.understood():
                matching = _matching(world, condition, location)
                dropped = matching.keys() - _theirs(metadata, pyicebergs(condition))
                assert not [p for p in dropped if not _may_hold_nan(matching[p], condition)], condition


@settings(many, max_examples=30)
@given(SEEDS)
async def test_every_snapshot_is_planned_as_it_was(seed: int) -> None:
    """A plan of an older snapshot has the live files of its manifests, and their rows and sizes."""
    world = random_world(random.Random(seed))
    with _stored(world) as (metadata, location):
        async with await iceberg.open(metadata) as table:
            for snapshot in world.table.snapshots:
                expected = {
                    f"{location}/{item.path}": (item.rows, item.size, manifest.spec.spec_id)
                    for manifest in snapshot.manifests
                    for item in manifest.items
                    if item.status != 2
                }
                found = {
                    file["path"]: (file["rows"], file["size"], file["spec_id"])
                    for file in await _files(table, snapshot=snapshot.id)
                }
                assert {path: found[path] for path in found} == {path: expected[path] for path in found}
                assert {path for path, (rows, _, _) in expected.items() if rows} <= found.keys()


@settings(many, max_examples=60)
@given(SEEDS)
async def test_residuals_select_the_rows_of_a_file_that_the_condition_does(seed: int) -> None:
    """Of the rows of a file, what is left of the condition selects those that match all of it."""
    rng = random.Random(seed)
    world = random_world(rng, version=2)
    with _stored(world) as (metadata, location):
        async with await iceberg.open(metadata) as table:
            schema = await table.schema()
            for _ in range(_CONDITIONS):
                condition = random_condition(rng, world.columns)
                for file in await _files(table, ours(condition)):
                    rows = world.rows[file["path"].removeprefix(f"{location}/")]
                    selected = [bool(holds(condition, row)) for row in rows]
                    assert _selected(file["residual"], _as_arrow(world, rows, schema)) == selected


def _selected(residual: str | None, rows: pa.Table) -> list[bool]:
    if residual is None:
        return [True] * rows.num_rows
    found: list[bool] = matching(bind(parse_where(residual), rows.schema), rows).to_pylist()
    return found


def _as_arrow(world: World, rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows of a file with the columns that the table has now."""
    plain = [
        {column.name: python_value(column.type, row[column.id]) for column in world.columns} for row in rows
    ]
    columns = []
    for field in schema:
        if pa.types.is_struct(field.type):
            values: list[Any] = [
                {inner.name: row.get(f"{field.name}.{inner.name}") for inner in field.type} for row in plain
            ]
        else:
            values = [_bytes_of(row.get(field.name)) for row in plain]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def _bytes_of(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


@settings(many, max_examples=60)
@given(SEEDS)
async def test_runtime_filters_prune_as_conditions_do(seed: int) -> None:
    """A runtime filter keeps files with matching rows, and none that the same condition drops."""
    rng = random.Random(seed)
    world = random_world(rng)
    with _stored(world) as (metadata, location):
        async with await iceberg.open(metadata) as table:
            everything = await table.plan()
            for _ in range(_CONDITIONS):
                condition = _filterable(rng, world)
                given = runtime_filter(condition)
                late = everything.prune([given]).files()["path"].to_pylist()
                early = {file["path"] for file in await _files(table, runtime_filters=[given])}
                assert set(late) == early, given
                assert not _matching(world, condition, location).keys() - early, given
                assert early <= {file["path"] for file in await _files(table, ours(condition))} | _empty(
                    world, location
                )


def _filterable(rng: random.Random, world: World) -> Condition:
    """A condition that a runtime filter can be made of."""
    while True:
        condition = random_condition(rng, world.columns, depth=0)
        if condition[0] in ("in", "prefix", "=", "<", "<=", ">", ">="):
            return condition


def runtime_filter(condition: Condition) -> iceberg.RuntimeFilter:
    """The runtime filter of a condition on one column."""
    name, column, constant = condition
    make = iceberg.RuntimeFilter
    if name == "in":
        return make.in_(column.name, [python_value(column.type, each) for each in constant])
    if name == "prefix":
        return make.prefix(column.name, constant)
    value = python_value(column.type, constant)
    if name == "=":
        return make.in_(column.name, [value])
    if name in ("<", "<="):
        return make.range(column.name, high=value, high_inclusive=name == "<=")
    return make.range(column.name, low=value, low_inclusive=name == ">=")


def _empty(world: World, location: str) -> set[str]:
    return {f"{location}/{item.path}" for _, item in world.live() if not item.rows}


# --- delete files -----------------------------------------------------------------------


def _deletes_of(files: list[dict[str, Any]]) -> dict[str, set[str]]:
    return {file["path"]: set(file["deletes"]) for file in files}


@settings(many, max_examples=60)
@given(SEEDS)
async def test_position_deletes_are_assigned_as_pyiceberg_does(seed: int) -> None:
    """Position deletes go to the data files that pyiceberg gives them to, where it knows what they name."""
    rng = random.Random(seed)
    world = random_world(rng, version=2, kinds=["position"], few=True)
    # pyiceberg reads no references, and has a NaN in no partition but its own.
    named = any(item.referenced_data_file for _, item in world.live(deletes=True))
    if named or "nan" in repr([item.partition for _, item in world.live()]) or not world.understood():
        return
    with _stored(world) as (metadata, _):
        async with await iceberg.open(metadata) as table:
            found = _deletes_of(await _files(table))
        expected = {
            task.file.file_path: {each.file_path for each in task.delete_files}
            for task in StaticTable.from_metadata(metadata).scan().plan_files()
        }
        assert {path: found[path] for path in expected} == expected


@many
@given(SEEDS)
async def test_deletes_are_assigned_by_the_specification(seed: int) -> None:
    """Every kind of delete goes to the data files that the specification gives it to, and to no other."""
    rng = random.Random(seed)
    version = rng.choice([2, 3])
    kinds = ["position", "equality", "vector"] if version == 3 else ["position", "equality"]
    world = random_world(rng, version=version, kinds=kinds, few=True)
    with _stored(world) as (metadata, location):
        async with await iceberg.open(metadata) as table:
            found = _deletes_of(await _files(table))
    assert found == {path: by_the_book(world, path, location) for path in found}
    live = {f"{location}/{item.path}" for _, item in world.live() if item.rows}
    assert live <= found.keys()


def by_the_book(world: World, path: str, location: str) -> set[str]:
    """The delete files that apply to a data file, by the section Scan Planning of Iceberg's specification."""
    ((manifest, data),) = [(of, item) for of, item in world.live() if f"{location}/{item.path}" == path]
    at = _sequence(manifest.sequence, data)
    found: dict[str, set[str]] = {"position": set(), "vector": set(), "equality": set()}
    for of, item in world.live(deletes=True):
        later = _sequence(of.sequence, item)
        alike = of.spec.spec_id == manifest.spec.spec_id and repr(item.partition) == repr(data.partition)
        if item.content == 2:
            if at < later and (alike or _is_unpartitioned(of.spec)):
                found["equality"].add(f"{location}/{item.path}")
        elif at <= later and alike and _names(item, data.path):
            found["vector" if item.format == "PUFFIN" else "position"].add(f"{location}/{item.path}")
    return found["equality"] | (found["vector"] or found["position"])


def _is_unpartitioned(spec: PartitionSpec) -> bool:
    return all(isinstance(each.transform, VoidTransform) for each in spec.fields)


def _sequence(inherited: int, item: Item) -> int:
    return inherited if item.sequence is None else item.sequence


def _names(item: Item, path: str) -> bool:
    """Whether a delete file may have positions of a data file, by its reference or its bounds of paths."""
    if item.referenced_data_file is not None:
        return item.referenced_data_file == path
    low: Mapping[int, str] = item.metrics.get("lower_bounds", {})
    high: Mapping[int, str] = item.metrics.get("upper_bounds", {})
    return all(low[number] <= path <= high[number] for number in low)
