"""Iceberg tables in SQL: the rows of our scan of tables that Spark wrote, deletes and all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse import iceberg
from lakehouse.config import SqlSettings
from lakehouse.errors import InvalidInputError
from lakehouse.expr import parse_where
from lakehouse.iceberg import IcebergTable
from lakehouse.sql.engine import SqlInstance
from lakehouse.sql.relations import BoundReference, RelationPlanner
from lakehouse.sql.relations.iceberg_tables import IcebergRows
from lakehouse.sql.text import SqlText, references_in, statement_in
from tests.kit.iceberg_plans import on_disk, three_days
from tests.kit.iceberg_spark_tables import SPARK_FOLDER, SPARK_TABLES
from tests.kit.sql_tables import sql_tables

_WITH_DELETES = ("position_deletes", "equality_deletes", "vectors")


async def _asked(table: IcebergTable, text: str, *, plan_files: int = 64) -> pa.Table:
    """The rows of a query that names the table ``t``."""
    tree = await asyncio.to_thread(lambda: references_in(statement_in(SqlText.of(text, max_bytes=9_999))))
    rows = await IcebergRows.of(table)
    bound = [BoundReference(reference=one, name=("t",), rows=rows) for one in tree.tables]
    settings = SqlSettings(plan_files=plan_files)
    instance = SqlInstance(settings)
    try:
        async with instance.statement() as statement:
            planned = await RelationPlanner(statement, tree, bound, settings).plan(None)
            stream = await statement.stream(planned.splices.text)
            return pa.Table.from_batches([batch async for batch in stream], stream.schema)
    finally:
        await instance.aclose()


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("name", SPARK_TABLES)
async def test_rows_are_those_of_a_scan(name: str) -> None:
    """SELECT * shows every row and column of the current snapshot, whatever was deleted and altered."""
    async with await iceberg.open(str(SPARK_FOLDER / name), moved=True) as table:
        schema = await table.schema()
        scanned = await table.scan(columns=schema.names).to_arrow()
        found = await _asked(table, "SELECT * FROM t")
        assert found.schema.names == schema.names
        assert _rows(found) == _rows(scanned)
        counted = await _asked(table, "SELECT count(*) AS n FROM t", plan_files=0)
        assert counted.to_pylist() == [{"n": scanned.num_rows}]


async def test_conditions_of_a_plan_leave_files_out_and_deleted_rows_away() -> None:
    """A condition on the id gives the rows that a scan with it gives, when it is planned first."""
    for name in _WITH_DELETES:
        async with await iceberg.open(str(SPARK_FOLDER / name), moved=True) as table:
            kept = await table.scan("id < 5", columns=["id"]).to_arrow()
            found = await _asked(table, "SELECT id FROM t WHERE id < 5", plan_files=0)
            assert _rows(found) == _rows(kept), name


async def test_files_are_plain_without_deletes_and_in_schemas_that_never_changed() -> None:
    """Files with deletes go through our scan, and all do where a column was ever called otherwise."""
    plain = {}
    for name in SPARK_TABLES:
        async with await iceberg.open(str(SPARK_FOLDER / name), moved=True) as table:
            rows = await IcebergRows.of(table)
            report = (await rows.relation(None)).report
            plain[name] = report.plain
            tasks = (await table.plan()).tasks()
            assert report.plain + report.merged == len(tasks)
            assert report.merged >= sum(bool(task.deletes) or task.format != "parquet" for task in tasks)
    assert plain["schema_evolution"] == 0
    assert sum(plain.values()) > 0


async def test_tables_of_catalogs_are_planned_pinned_and_named(tmp_path: Path) -> None:
    """A table of an attached catalog has its three names, its pin, and files that a plan leaves out."""
    on_disk(three_days(), tmp_path / "web" / "events")
    async with sql_tables(settings={"sql.plan_files": 0}) as tables:
        await tables.lake.attach_catalog("ice", {"type": "directory", "warehouse": f"file://{tmp_path}"})
        counted = await tables.lake.sql("SELECT count(*) AS n FROM events", database="ice.web")
        assert await counted.to_pylist() == [{"n": 300}]
        rows = await IcebergRows.of(await tables.lake.table("ice.web.events"))
        report = (await rows.relation(parse_where("id BETWEEN 12 AND 17"))).report
        assert "1 plain, 0 merged, 29 by plan pruned" in str(report)
        at = "SELECT count(*) AS n FROM ice.web.events FOR VERSION AS OF 1"
        assert await (await tables.lake.sql(at)).to_pylist() == [{"n": 300}]
        with pytest.raises(InvalidInputError, match="has no database"):
            await tables.lake.sql("SELECT * FROM events")


async def test_residual_conditions_are_asked_of_merged_rows() -> None:
    """A provider of files with deletes applies a pushed condition to their rows."""
    for name in _WITH_DELETES:
        async with await iceberg.open(str(SPARK_FOLDER / name), moved=True) as table:
            provider = (await (await IcebergRows.of(table)).relation(None)).provider
            assert provider is not None
            found = [batch async for batch in provider.scan(["id"], parse_where("id >= 3"))]
            assert all(value >= 3 for batch in found for value in batch.column(0).to_pylist())
