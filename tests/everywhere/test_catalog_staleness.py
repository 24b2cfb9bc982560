"""Staleness as planners meet it: own commits, columns that others add, and catalogs that are away."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType

import lakehouse
from lakehouse.catalog.nodes import TableNode
from lakehouse.errors import UnavailableError
from lakehouse.testing import ManualClock
from tests.iceberg.catalogs.test_through_pyiceberg import sql_table
from tests.kit.iceberg_rest import rest_catalog

BOUND_S = 2.0


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

    async def add_column(self) -> None:
        """Adds a column."""
        with self.table.update_schema() as update:
            update.add_column("added", StringType())


@contextlib.contextmanager
def changed_by_others(directory: Path) -> Iterator[Theirs]:
    """A table that others change, for the time of a block."""
    theirs = Theirs(directory)
    with contextlib.closing(theirs.catalog):
        yield theirs


def seen(node: TableNode) -> tuple[Any, ...]:
    """Everything of a node that one of the changes changes."""
    return node.current_snapshot, tuple(node.field_ids), node.partition_keys, node.version


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
    with changed_by_others(tmp_path) as theirs:
        async with lakehouse.connect(f"memory://staleness/{tmp_path.name}", clock=clock) as lake:
            await lake.attach_catalog("ice", theirs.properties)
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
    with changed_by_others(tmp_path) as theirs, rest_catalog() as rest:
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
