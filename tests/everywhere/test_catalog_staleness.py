"""Staleness of every kind of catalog: what others change is seen within the stated bound, and at once after a
refresh.

Each change is made by another process or library, and looked for through ``lake.graph``: an insert, a column,
a partition field.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

import lakehouse
from lakehouse.catalog.nodes import TableNode
from lakehouse.errors import UnavailableError
from lakehouse.lake import Lake
from lakehouse.testing import ManualClock
from tests.iceberg.catalogs.test_through_pyiceberg import ROWS, sql_table
from tests.kit.iceberg_rest import rest_catalog

BOUND_S = 2.0
Change = Callable[[], Awaitable[None]]


class Theirs:
    """A table of Iceberg's, changed by pyiceberg behind our back.

    Args:
        directory: where the catalog's database and the table are.
    """

    def __init__(self, directory: Path) -> None:
        self.properties = sql_table(directory, f"file://{directory}/warehouse")
        self.catalog = SqlCatalog("ice", uri=self.properties["uri"])
        self.table = self.catalog.load_table("web.events")

    def metadata(self) -> dict[str, Any]:
        """Reads its newest metadata file."""
        path = Path(self.table.metadata_location.removeprefix("file://"))
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return document

    async def insert(self) -> None:
        """Adds rows."""
        self.table.append(ROWS)

    async def add_column(self) -> None:
        """Adds a column."""
        with self.table.update_schema() as update:
            update.add_column("added", StringType())

    async def partition(self) -> None:
        """Adds a partition field."""
        with self.table.update_spec() as update:
            update.add_field("id", BucketTransform(4), "shard")


@contextlib.contextmanager
def attached(kind: str, directory: Path) -> Iterator[tuple[Theirs, dict[str, Any]]]:
    """A table in a catalog of a kind, with the properties to attach it."""
    theirs = Theirs(directory)
    with contextlib.closing(theirs.catalog), rest_catalog() as rest:
        place = Path(theirs.table.location().removeprefix("file://"))
        if kind == "sql":
            properties: dict[str, Any] = theirs.properties
        elif kind == "directory":
            properties = {"type": "directory", "warehouse": f"file://{directory}/warehouse"}
            assert place == directory / "warehouse" / "web" / "events"
        else:
            properties = {"type": "rest", "uri": rest.url}
            rest.tables[("web", "events")] = lambda: {
                "metadata-location": theirs.table.metadata_location,
                "metadata": theirs.metadata(),
                "config": {},
            }
        yield theirs, properties


def seen(node: TableNode) -> tuple[Any, ...]:
    """Everything of a node that one of the changes changes."""
    return node.current_snapshot, tuple(node.field_ids), node.partition_keys, node.version


async def check_bound(lake: Lake, clock: ManualClock, name: str, change: Change) -> None:
    """Checks that a change is seen neither before the bound nor later, and at once after a refresh."""
    known = seen(await lake.graph.table(name))
    await change()
    await clock.advance(BOUND_S * 0.9)
    assert seen(await lake.graph.table(name)) == known, "seen before the bound, so a request was made"
    await clock.advance(BOUND_S * 0.2)
    changed = seen(await lake.graph.table(name))
    assert changed != known, "not seen after the bound"
    await change_again(change)
    assert seen(await lake.graph.table(name)) == changed
    await lake.cache.refresh(name)
    assert (seen(await lake.graph.table(name)) != changed) == (change.__name__ == "insert")


async def change_again(change: Change) -> None:
    """Makes the change again where it can be made twice."""
    if change.__name__ == "insert":
        await change()


@pytest.mark.parametrize("kind", ["sql", "rest", "directory"])
@pytest.mark.parametrize("what", ["insert", "add_column", "partition"])
async def test_a_change_in_an_attached_catalog_is_seen_at_the_bound(
    tmp_path: Path, kind: str, what: str
) -> None:
    """A pointer of a catalog is as old as its ttl at most; until then nothing is asked."""
    clock = ManualClock()
    with attached(kind, tmp_path) as (theirs, properties):
        async with lakehouse.connect(f"memory://staleness/{tmp_path.name}", clock=clock) as lake:
            await lake.attach_catalog("ice", properties)
            await check_bound(lake, clock, "ice.web.events", getattr(theirs, what))


@pytest.mark.parametrize("kind", ["sql", "rest", "directory"])
@pytest.mark.parametrize("what", ["insert", "add_column", "partition"])
async def test_a_change_in_an_attached_catalog_is_seen_after_a_refresh(
    tmp_path: Path, kind: str, what: str
) -> None:
    """A refresh of the table shows the change at once, whatever the bound."""
    clock = ManualClock()
    with attached(kind, tmp_path) as (theirs, properties):
        async with lakehouse.connect(f"memory://staleness/{tmp_path.name}", clock=clock) as lake:
            await lake.attach_catalog("ice", properties)
            known = seen(await lake.graph.table("ice.web.events"))
            await getattr(theirs, what)()
            assert seen(await lake.graph.table("ice.web.events")) == known
            await lake.cache.refresh("ice.web")
            assert seen(await lake.graph.table("ice.web.events")) != known


async def test_a_commit_of_another_process_is_seen_at_the_bound(tmp_path: Path) -> None:
    """Our own warehouse is no different: another process's rows and columns are seen within the bound."""
    clock, url = ManualClock(), f"file://{tmp_path}"
    async with lakehouse.connect(url, clock=clock) as lake, lakehouse.connect(url) as other:
        await lake.create_database("db")
        await lake.create_table("db.t", pa.schema({"id": pa.int64()}), primary_key="id")
        elsewhere = await other.table("db.t")

        async def insert() -> None:
            await elsewhere.append([{"id": 1}])

        await check_bound(lake, clock, "db.t", insert)
        known = seen(await lake.graph.table("db.t"))
        await elsewhere.add_column("added", pa.string())
        assert seen(await lake.graph.table("db.t")) == known
        await lake.cache.refresh("db")
        assert "added" in seen(await lake.graph.table("db.t"))[1]


async def test_own_commits_are_seen_at_once(tmp_path: Path) -> None:
    """What this process commits is in the next look, without a refresh and without waiting for the bound."""
    clock = ManualClock()
    async with lakehouse.connect(f"memory://staleness/{tmp_path.name}", clock=clock) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.t", pa.schema({"id": pa.int64()}), primary_key="id")
        for number in range(3):
            before = await lake.graph.table("db.t")
            await table.append([{"id": number}])
            after = await lake.graph.table("db.t")
            assert (after.current_snapshot or 0) == (before.current_snapshot or 0) + 1


async def test_a_new_column_needs_no_second_cache_to_expire(tmp_path: Path) -> None:
    """Table and schema come of one version: a column is in the node and in the schema at the same moment
    (doris#57187)."""
    clock = ManualClock()
    with attached("sql", tmp_path) as (theirs, properties):
        async with lakehouse.connect(f"memory://staleness/{tmp_path.name}", clock=clock) as lake:
            await lake.attach_catalog("ice", properties)
            await lake.graph.table("ice.web.events")
            await theirs.add_column()
            await clock.advance(BOUND_S * 1.1)
            node = await lake.graph.table("ice.web.events")
            assert "added" in node.field_ids
            assert "added" in node.schema_json


@pytest.mark.parametrize("refresh_s", [0.0, 1.0])
async def test_while_the_catalog_is_down_answers_are_stale_within_the_bound_then_an_error(
    tmp_path: Path, refresh_s: float
) -> None:
    """Known tables are served up to the bound; then the catalog's own error is raised; when it is back, it is
    asked again at the next look: nothing is wedged (doris#64966)."""
    clock = ManualClock()
    settings = {"meta.cache.pointer.refresh": refresh_s, "io.retry_attempts": 1}
    with attached("rest", tmp_path) as (theirs, _), rest_catalog() as rest:
        answer = {
            "metadata-location": theirs.table.metadata_location,
            "metadata": theirs.metadata(),
            "config": {},
        }
        down = False

        def table() -> Any:
            if down:
                raise OSError("the catalog is down")
            return answer

        rest.tables[("web", "events")] = table
        async with lakehouse.connect(
            f"memory://staleness/{tmp_path.name}", clock=clock, settings=settings
        ) as lake:
            await lake.attach_catalog("ice", {"type": "rest", "uri": rest.url})
            known = await lake.graph.table("ice.web.events")
            down = True
            await clock.advance(BOUND_S * 0.9)
            assert await lake.graph.table("ice.web.events") == known
            await clock.advance(BOUND_S * 0.2)
            with pytest.raises(UnavailableError):
                await lake.graph.table("ice.web.events")
            down = False
            assert seen(await lake.graph.table("ice.web.events")) == seen(known)
