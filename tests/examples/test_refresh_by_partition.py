"""The example that refreshes by partition reads what changed, and ends up with the right sums."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

import lakehouse.sync
from lakehouse.catalog.partitions import changed_partitions_of, partitions_of
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from tests.catalog.partitions.test_of_iceberg import BY_DAY, DAY, evolved, item, manifest
from tests.kit.iceberg_plans import opened
from tests.kit.iceberg_tables import Snapshot
from tests.kit.worlds import process, restored

EXAMPLE = Path(__file__).parents[2] / "examples" / "refresh_by_partition.py"
SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string()})


def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("refresh_by_partition", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def made() -> tuple[Lake, Table, Any]:
    """A source of three days, and the function that refreshes."""
    lake = process(await restored({}))
    await lake.create_database("db")
    table = await lake.create_table("db.events", SCHEMA, primary_key=["day", "id"], partition_by="day")
    rows = [{"id": number, "day": day} for day in ("mon", "tue", "wed") for number in range(3)]
    await table.append(rows)
    return lake, table, example().refresh


async def sums(lake: Lake) -> dict[str, int]:
    """What the target says."""
    rows = (await (await lake.table("db.sums")).scan().to_arrow()).to_pylist()
    return {one["partition"]: one["rows"] for one in rows if "=" in one["partition"]}


async def test_only_changed_partitions_are_read_again() -> None:
    """The first run reads all, the next ones what changed; a compaction changes nothing."""
    lake, table, refresh = await made()
    assert len(await refresh(lake, "db.events", "db.sums")) == 3
    assert await refresh(lake, "db.events", "db.sums") == []
    await table.append([{"id": 9, "day": "tue"}, {"id": 9, "day": "thu"}])
    await table.delete(keys=[{"id": 0, "day": "mon"}])
    assert await refresh(lake, "db.events", "db.sums") == ["day=mon", "day=thu", "day=tue"]
    assert await sums(lake) == {"day=mon": 2, "day=tue": 4, "day=wed": 3, "day=thu": 1}
    await table.compact(full=True)
    assert await refresh(lake, "db.events", "db.sums") == []


async def test_partitions_that_are_gone_are_taken_out() -> None:
    """Sums of a partition without files go; one that has only deleted keys is empty."""
    lake, table, refresh = await made()
    await refresh(lake, "db.events", "db.sums")
    await table.overwrite([{"id": 1, "day": "sun"}])
    await refresh(lake, "db.events", "db.sums")
    assert await sums(lake) == {"day=sun": 1}


async def test_a_wider_partition_stands_for_those_it_covers(tmp_path: Path) -> None:
    """After a change of the spec a month is read when a day in it changes, and such days have no sums."""
    table = evolved()
    added = manifest("more", BY_DAY, [item("d9", DAY + 3, "eu")], at=3)
    last = table.snapshots[-1]
    third = Snapshot(id=3, sequence=3, parent=2, manifests=[*last.manifests, added])
    async with await opened(replace(table, snapshots=[*table.snapshots, third]), tmp_path) as found:
        infos = [await partitions_of(found, number) for number in (2, 3)]
        changed = await changed_partitions_of(found, 2)
    units, stale = example().what_to_read(changed, *infos)
    assert [key.name for key in stale] == ["spec 1: at_month=672"]
    assert [key.name for key in units] == [
        *("spec 1: at_month=672", "spec 1: at_month=673"),
        "spec 2: at_day=2026-03-12/region=eu",
    ]


def test_the_example_runs(tmp_path: Path) -> None:
    """As a program it refreshes once and says what it read."""
    url = f"file://{tmp_path}"
    with lakehouse.sync.connect(url) as lake:
        lake.create_database("db")
        table = lake.create_table("db.events", SCHEMA, partition_by="day")
        table.append([{"id": 1, "day": "mon"}])
    command = [sys.executable, str(EXAMPLE), url, "db.events", "db.sums"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "1 partitions read: day=mon\n"
