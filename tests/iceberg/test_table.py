"""An Iceberg table: which snapshot and schema a call is about, and what it lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse import iceberg
from lakehouse.errors import InvalidInputError, NotFoundError
from tests.kit.iceberg_plans import DAY, data_file, manifest, opened, three_days
from tests.kit.iceberg_tables import Snapshot

FIXTURES = Path(__file__).parents[1] / "data" / "iceberg"


def travelled() -> Any:
    """Opens the table that has a tag, a branch and several snapshots."""
    return iceberg.open(str(FIXTURES / "time_travel"), moved=True)


async def test_a_snapshot_is_chosen_in_four_ways() -> None:
    """An id, a moment, a tag and a reference name snapshots; without any it is the current one."""
    async with await travelled() as table:
        listed = (await table.snapshots()).to_pylist()
        first = listed[0]
        by_id = await table.plan(snapshot=first["snapshot"])
        by_time = await table.plan(timestamp=first["time"])
        refs = {row["name"]: row for row in (await table.refs()).to_pylist()}
        (tag,) = [name for name, row in refs.items() if row["kind"] == "tag"]
        by_tag, by_ref = await table.plan(tag=tag), await table.plan(ref=tag)
        current = await table.plan()
        assert by_id.snapshot.id == by_time.snapshot.id == first["snapshot"]
        assert by_tag.snapshot.id == by_ref.snapshot.id == refs[tag]["snapshot"]
        assert current.snapshot.id == refs["main"]["snapshot"]


async def test_one_snapshot_is_chosen() -> None:
    """Two ways at once are refused, whatever they name; so is what does not exist."""
    async with await travelled() as table:
        with pytest.raises(
            InvalidInputError, match="snapshot and tag name a snapshot each: give one of them"
        ):
            await table.plan(snapshot=1, tag="x")
        with pytest.raises(NotFoundError, match="there is no snapshot 1"):
            await table.plan(snapshot=1)
        with pytest.raises(NotFoundError, match="there is no tag 'nobody'"):
            await table.plan(tag="nobody")


async def test_the_past_has_its_schema() -> None:
    """A snapshot is read with the schema that it had, a branch with the schema of the table."""
    async with await travelled() as table:
        first = (await table.snapshots()).to_pylist()[0]["snapshot"]
        then = (await table.scan(snapshot=first).to_arrow()).schema.names
        now = (await table.scan().to_arrow()).schema.names
        assert set(then) < set(now)
        with pytest.raises(InvalidInputError):
            await table.plan("more is null", snapshot=first)


async def test_a_tag_has_its_schema_by_either_name() -> None:
    """A tag is read with the schema of its snapshot, whether it is named as a tag or as a reference."""
    async with await travelled() as table:
        by_tag, by_ref = await table.scan(tag="first").to_arrow(), await table.scan(ref="first").to_arrow()
        assert by_tag.schema.names == by_ref.schema.names == ["id", "name"]
        assert (await table.scan(ref="side").to_arrow()).schema.names == ["id", "name", "more"]


async def test_appended_files_are_planned_alone(tmp_path: Path) -> None:
    """``since`` plans the files that later snapshots appended, and refuses what is no ancestor."""
    before = three_days()
    first = before.snapshots[0]
    added = manifest("new", [data_file(DAY, 99)], sequence=2, snapshot=2)
    second = Snapshot(id=2, sequence=2, parent=1, manifests=[*first.manifests, added])
    async with await opened(replace(before, snapshots=[first, second]), tmp_path) as table:
        plan = await table.plan(since=1)
        assert [path.rpartition("/")[2] for path in plan.files()["path"].to_pylist()] == ["99.parquet"]
        assert plan.cost.requests == 2
        assert len(await table.plan(since=2)) == 0
        with pytest.raises(InvalidInputError, match="is no ancestor"):
            await table.plan(since=12)


async def test_rows_that_were_changed_are_no_appended_files() -> None:
    """``since`` is refused where a snapshot in between replaced or deleted rows."""
    async with await iceberg.open(str(FIXTURES / "position_deletes"), moved=True) as table:
        first = (await table.snapshots()).to_pylist()[0]["snapshot"]
        with pytest.raises(InvalidInputError, match="changed rows after"):
            await table.plan(since=first)


async def test_its_metadata_are_tables() -> None:
    """Snapshots, references, history, manifests, files and partitions are listed without a data file."""
    async with await iceberg.open(str(FIXTURES / "position_deletes"), moved=True) as table:
        manifests = (await table.manifests()).to_pylist()
        files = await table.files()
        partitions = (await table.partitions()).to_pylist()
        assert {row["content"] for row in manifests} == {"data", "deletes"}
        live = [row["added_files"] + row["existing_files"] for row in manifests if row["content"] == "data"]
        assert sum(live) == files.num_rows == sum(row["files"] for row in partitions)
        assert sum(row["stored_rows"] for row in partitions) == sum(files["rows"].to_pylist())
        assert (await table.history()).num_rows == len(table.metadata.snapshot_log)
        assert (await table.snapshots())["kind"].to_pylist()[0] == "append"
        assert (await table.schema()).names == list(table.metadata.current_schema.names)


async def test_a_scan_reports_what_it_left_out() -> None:
    """A scan's report has the files of its plan, and what planning cost the first time."""
    async with await iceberg.open(str(FIXTURES / "position_deletes"), moved=True) as table:
        scan = table.scan("k = 3", columns=["id"])
        first = await scan.to_arrow()
        assert scan.report.files == len(await scan.plan()) + (await scan.plan()).files_pruned
        cold = scan.report.cost.requests
        assert (await scan.to_arrow()).equals(first)
        assert scan.report.cost.requests < cold
        assert await table.scan("k = 3").count() == first.num_rows
        assert await table.scan(limit=2).count() == 2
