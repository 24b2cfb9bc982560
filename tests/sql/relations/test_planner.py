"""Planning in two steps: files that no scan needs are not opened."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.config import SqlSettings
from lakehouse.errors import InvalidInputError
from lakehouse.lake import Lake
from lakehouse.sql.relations import BoundReference, RelationPlanner
from lakehouse.sql.relations.own_tables import OwnRows
from lakehouse.sql.text import SqlText, references_in, statement_in
from lakehouse.testing import ManualClock, RecordingStore, memory_store
from tests.kit.sql_tables import SqlTables, sql_tables

_PLANNED = {"sql.plan_files": 0}


async def _files(tables: SqlTables, text: str) -> list[tuple[str, int, int]]:
    """For each table of a statement the files that are read, and those that are not."""
    result = await tables.lake.sql(text)
    return [(one.name, one.plain + one.merged, sum(one.pruned.values())) for one in result.references]


@pytest.mark.parametrize("name", ["keyed", "compacted", "blocks", "partitioned", "evolved", "lasting"])
async def test_planned_statements_answer_as_others(name: str) -> None:
    """Pruning by the conditions of a plan changes no answer."""
    async with sql_tables(name, settings=_PLANNED) as tables:
        await tables.check(f"SELECT * FROM db.{name} WHERE id IN (1, 45, 70) OR amount < 0.07")
        await tables.check(
            f"WITH few AS (SELECT * FROM db.{name} WHERE id < 50) "
            "SELECT a.id, b.amount FROM few a JOIN few b USING (id) WHERE a.size = 3 AND b.day IS NOT NULL"
        )
        await tables.check(f"SELECT count(*) AS rows FROM db.{name} WHERE false")


async def test_conditions_of_the_plan_leave_files_out() -> None:
    """A condition above a join, a view or a subquery reaches the files of the table that it is about."""
    async with sql_tables("compacted", "partitioned", settings=_PLANNED) as tables:
        await tables.lake.create_view("db.seen", {"duckdb": "select *, id + 1 as next from compacted"})
        text = (
            "SELECT * FROM db.seen JOIN db.partitioned AS p USING (id) WHERE id = 7 AND p.day = '2026-01-04'"
        )
        assert sorted(await _files(tables, text)) == [("db.compacted", 1, 2), ("db.partitioned", 1, 5)]


async def test_each_reference_of_a_table_has_its_own_files() -> None:
    """Two references of one table with different conditions are pruned apart."""
    async with sql_tables("partitioned", settings=_PLANNED) as tables:
        text = (
            "SELECT count(*) FROM db.partitioned a, db.partitioned b "
            "WHERE a.day = '2026-01-03' AND b.day = '2026-01-04'"
        )
        assert await _files(tables, text) == [("db.partitioned", 1, 5)] * 2


async def test_parameters_take_part_in_planning() -> None:
    """Values that come beside the text prune as those in it."""
    async with sql_tables("compacted", settings=_PLANNED) as tables:
        result = await tables.lake.sql("SELECT * FROM db.compacted WHERE id = ?", [7])
        assert result.references[0].pruned == {"bucket": 2}
        assert await result.to_pylist()


async def test_counting_all_rows_opens_no_file() -> None:
    """count(*) of a table whose metadata tell is answered by them, in a join and a subquery too."""
    store = RecordingStore(memory_store())
    async with Lake(store, clock=ManualClock()) as lake:
        await lake.create_database("db")
        table = await lake.create_table("db.t", pa.schema({"id": pa.int64()}))
        for number in range(3):
            await table.append([{"id": number}])
        store.clear()
        result = await lake.sql("SELECT (SELECT count(*) FROM db.t) * count(*) AS n FROM db.t a, db.t b")
        assert await result.to_pylist() == [{"n": 27}]
        assert store.kinds() == {"get": 2}  # whether the name and the newest snapshot are still the same


async def test_errors_of_planning_show_their_place() -> None:
    """What DuckDB refuses while it plans is an error at the user's text."""
    async with sql_tables("compacted", settings=_PLANNED) as tables:
        with pytest.raises(InvalidInputError, match="did you mean amount") as caught:
            await tables.lake.sql("SELECT id,\n amoun FROM db.compacted")
        assert (caught.value.context["line"], caught.value.context["column"]) == (2, 2)


async def test_pivots_are_run_though_they_are_not_planned() -> None:
    """A statement whose columns DuckDB finds by reading rows reads all files."""
    async with sql_tables("compacted", settings=_PLANNED) as tables:
        await tables.check("PIVOT (SELECT region, size, id FROM db.compacted) ON size USING count(id)")


async def test_a_table_function_keeps_an_alias_that_stands_before_it(tmp_path: Path) -> None:
    """Only the call is replaced, so that columns are still called by the alias."""
    async with sql_tables("compacted") as tables:
        for reference in (f"m : index_metas('file://{tmp_path}')", f"index_metas('file://{tmp_path}') AS m"):
            result = await tables.lake.sql(f"SELECT count(m.meta_json) AS n FROM {reference}")
            assert await result.to_pylist() == [{"n": 0}]


async def test_a_plan_and_its_run_have_one_time() -> None:
    """now() is the same when files are left out and when rows are compared."""
    async with sql_tables("compacted", settings=_PLANNED) as tables, tables.lake.query() as query:
        text = SqlText.of("SELECT * FROM db.compacted WHERE seen < now()", max_bytes=999)
        tree = await asyncio.to_thread(lambda: references_in(statement_in(text)))
        table, _ = await query.pinned_table("db.compacted")
        assert isinstance(table, lakehouse.Table)
        rows = await OwnRows.at(table.core, None)
        bound = [BoundReference(reference=tree.tables[0], name=("db", "compacted"), rows=rows)]
        async with tables.lake._state.sql_instance.statement() as statement:
            await RelationPlanner(statement, tree, bound, SqlSettings(plan_files=0)).plan(None)
            asked = [await statement.execute("SELECT now()") for _ in range(2)]
            assert asked[0] == asked[1]
