"""Partitions through the graph: what is kept, what changes cost, and tables that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.lake import Lake
from lakehouse.testing import RecordingStore
from tests.catalog.partitions.test_of_iceberg import commits
from tests.kit.iceberg_tables import on_disk
from tests.kit.worlds import process, restored

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string()})


async def made() -> tuple[ObjectStore, Lake]:
    """A table of two partitions, in two commits."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table("db.t", SCHEMA, partition_by="day")
    for day in ("mon", "tue"):
        await table.append([{"id": 1, "day": day}])
    return store, lake


async def test_partitions_are_kept_by_snapshot() -> None:
    """Asked again, within the bound of pointers, partitions cost no request; a commit of our own is seen."""
    store, _ = await made()
    recording = RecordingStore(store)
    lake = process(recording)
    first = await lake.graph.partitions("db.t")
    assert [one.key.name for one in first.partitions] == ["day=mon", "day=tue"]
    recording.clear()
    assert await lake.graph.partitions("db.t") == first
    assert [one.key.name for one in (await lake.graph.partitions("db.t", 2)).partitions] == ["day=mon"]
    assert not [call for call in recording.calls if call.verb == "list_page"]
    await (await lake.table("db.t")).append([{"id": 1, "day": "wed"}])
    assert len((await lake.graph.partitions("db.t")).partitions) == 3


async def test_a_dropped_and_recreated_table_shows_none_of_its_predecessor() -> None:
    """What is kept is of one incarnation: another table of the same name and snapshot number is another."""
    _, lake = await made()
    await lake.graph.partitions("db.t")
    await lake.drop_table("db.t")
    table = await lake.create_table("db.t", SCHEMA, partition_by="day")
    await table.append([{"id": 1, "day": "sun"}])
    await table.append([{"id": 1, "day": "sat"}])
    found = await lake.graph.partitions("db.t")
    assert (found.snapshot, [one.key.name for one in found.partitions]) == (3, ["day=sat", "day=sun"])


async def test_a_table_that_cannot_be_read_is_asked_again() -> None:
    """Empty partition info of a damaged table is not kept: after the repair the partitions are there."""
    store, lake = await made()
    table = await lake.table("db.t")
    await table.append([{"id": number, "day": str(number)} for number in range(200)])
    (key,) = [one.key async for one in store.list("") if "/manifest/" in one.key]
    data = (await store.get(key)).data
    await store.delete(key)
    cold = process(store)
    found = await cold.graph.partitions("db.t")
    assert (found.partitions, found.fields) == ((), ("day",))
    assert "is missing" in str(found.problem)
    await store.put(key, data)
    assert len((await cold.graph.partitions("db.t")).partitions) == 202


async def test_changes_are_told_by_name() -> None:
    """The graph tells what changed since a snapshot; a view has no partitions."""
    _, lake = await made()
    changed = await lake.graph.changed_partitions("db.t", 2)
    assert ([key.name for key in changed.partitions], changed.is_all) == (["day=tue"], False)
    assert (await lake.graph.changed_partitions("db.t", None)).is_all
    await lake.create_view("db.v", {"spark": "select 1"})
    with pytest.raises(NotFoundError, match="is a view"):
        await lake.graph.partitions("db.v")
    with pytest.raises(NotFoundError, match="is a view"):
        await lake.graph.changed_partitions("db.v", 1)


async def test_tables_of_attached_catalogs_have_partitions_too(tmp_path: Path) -> None:
    """An Iceberg table's partitions and changes are told by the same calls, and kept likewise."""
    on_disk(commits(), tmp_path / "web" / "hits")
    properties: dict[str, Any] = {"type": "directory", "warehouse": str(tmp_path)}
    async with process(await restored({})) as lake:
        await lake.attach_catalog("ice", properties)
        found = await lake.graph.partitions("ice.web.hits")
        assert (len(found.partitions), found.fields) == (99, ("day(at)", "region"))
        assert await lake.graph.partitions("ice.web.hits") == found
        assert len((await lake.graph.partitions("ice.web.hits", 1)).partitions) == 100
        changed = await lake.graph.changed_partitions("ice.web.hits", 2)
        assert [key.name for key in changed.partitions] == ["at_day=2026-01-10/region=eu"]
