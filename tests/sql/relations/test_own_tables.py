"""Tables of ours in SQL: the rows of a scan, however many files are plain."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.expr import parse_where
from lakehouse.sql.relations.own_tables import OwnRows
from lakehouse.sql.relations.relation import Relation
from tests.kit.sql_tables import MAKERS, SqlTables, rows_of, sql_tables

_WIDE = ("keyed", "compacted", "blocks", "appended", "partitioned", "moving", "lasting", "empty")
"""Tables with the usual columns."""


async def _relation(tables: SqlTables, name: str, where: str | None = None) -> Relation:
    table = await tables.lake.table(f"db.{name}")
    rows = await OwnRows.at(table.core, await table.current_snapshot())
    return await rows.relation(None if where is None else parse_where(where))


@pytest.mark.parametrize("name", MAKERS)
async def test_all_rows_of_a_table_are_shown(name: str) -> None:
    """SELECT * gives the rows of a scan, with its names and types."""
    async with sql_tables(name) as tables:
        await tables.check(f"SELECT * FROM db.{name}")
        await tables.check(f"SELECT count(*) AS rows FROM db.{name}")


@pytest.mark.parametrize("name", _WIDE)
async def test_conditions_and_groups_see_the_newest_row_of_each_key(name: str) -> None:
    """Filters, on keys and on other columns, and aggregates agree with DuckDB over the same rows."""
    async with sql_tables(name) as tables:
        for where in (
            "id IN (1, 3, 41, 45) AND amount IS NOT NULL",
            "region = 'o''est' OR flag IS NULL",
            "amount > 0.6 AND day <> DATE '2026-01-02'",
            "seen >= TIMESTAMPTZ '2026-01-01 00:45:00+00' AND NOT flag",
            "region LIKE '%t%' AND size % 2 = 1",
        ):
            await tables.check(f"SELECT id, amount, region FROM db.{name} WHERE {where}")
        await tables.check(
            f"SELECT region, day, count(*) AS n, sum(amount) AS total, max(seen) AS last FROM db.{name} "
            "GROUP BY ALL"
        )


async def test_tables_of_several_sorts_are_joined() -> None:
    """Plain and merged branches meet in joins, subqueries and set operations."""
    async with sql_tables("keyed", "compacted", "appended") as tables:
        await tables.check(
            "SELECT k.id, c.amount, k.region FROM db.keyed AS k LEFT JOIN db.compacted AS c USING (id) "
            "WHERE k.id NOT IN (SELECT id FROM db.appended WHERE flag) ORDER BY k.id"
        )
        await tables.check(
            "SELECT id FROM db.keyed EXCEPT SELECT id FROM db.compacted WHERE size > 2 "
            "UNION ALL SELECT count(*) FROM db.appended a JOIN db.appended b ON a.id = b.id + 1"
        )


async def test_compacted_buckets_are_plain_and_overlapping_ones_are_merged() -> None:
    """A file is read by DuckDB itself where no other may have one of its keys, and only there."""
    async with sql_tables("compacted", "keyed", "appended") as tables:
        compacted = (await _relation(tables, "compacted")).report
        assert (compacted.files, compacted.plain, compacted.merged) == (3, 3, 0)
        assert (await _relation(tables, "compacted")).provider is None
        assert (await _relation(tables, "appended")).report.merged == 0
        keyed = (await _relation(tables, "keyed")).report
        assert keyed.plain < keyed.files == keyed.plain + keyed.merged


async def test_sstables_folded_rows_and_deletes_are_never_plain() -> None:
    """Files of other formats, of operands, and with rows that delete go through our own scan."""
    async with sql_tables("blocks", "summed") as tables:
        keyless = await tables.lake.create_table("db.gone", pa.schema({"id": pa.int64()}), primary_key="id")
        await keyless.delete(keys=[{"id": 1}])
        assert (await _relation(tables, "gone")).report.plain == 0
        assert (await _relation(tables, "summed")).report.plain == 0
        blocks = await _relation(tables, "blocks")
        assert all(file.key.endswith(".parquet") for plain in blocks.plain for file in plain.files)


async def test_files_of_older_schemas_are_plain_where_duckdb_can_fit_them() -> None:
    """Renamed, widened, dropped and defaulted columns are made by the SELECT list of each schema's files."""
    async with sql_tables("evolved") as tables:
        relation = await _relation(tables, "evolved")
        assert (relation.report.merged, len(relation.plain)) == (0, 3)
        assert len({plain.columns for plain in relation.plain}) == 3


async def test_expired_rows_are_left_out_of_plain_files() -> None:
    """The lifetime of rows is a condition on plain files too."""
    async with sql_tables("lasting") as tables:
        relation = await _relation(tables, "lasting")
        assert relation.report.merged == 0
        assert "seen" in relation.plain[0].where
        shown = await tables.check("SELECT min(id) AS first, count(*) AS rows FROM db.lasting")
        assert shown.to_pylist() == [{"first": 31, "rows": 69}]


async def test_conditions_leave_files_out() -> None:
    """Files that partitions, keys or statistics exclude are not handed over, and the report says why."""
    async with sql_tables("partitioned", "compacted") as tables:
        by_day = (await _relation(tables, "partitioned", "day = '2026-01-03'")).report
        assert (by_day.plain, by_day.merged, dict(by_day.pruned)) == (1, 0, {"partition": 5})
        by_id = (await _relation(tables, "compacted", "id = 7")).report
        assert (by_id.plain, dict(by_id.pruned)) == (1, {"bucket": 2})
        assert "id = 7" in str(by_id)


async def test_files_of_which_an_index_leaves_little_are_read_by_our_scan() -> None:
    """An index that leaves few rows of a file has them read alone, and not the file by DuckDB."""
    async with sql_tables() as tables:
        schema = pa.schema({"id": pa.int64(), "host": pa.string()})
        how: dict[str, Any] = {"indexes": {"host": "inverted"}, "options": {"index.min_rows": 1}}
        table = await tables.lake.create_table("db.hosts", schema, **how)
        rows = 40_000
        hosts = [f"host-{number // 100}" for number in range(rows)]
        await table.append(pa.table({"id": list(range(rows)), "host": hosts}))
        found = (await _relation(tables, "hosts", "host = 'host-77'")).report
        assert (found.plain, found.merged) == (0, 1)
        whole = (await _relation(tables, "hosts", "host > 'host-1'")).report
        assert (whole.plain, whole.merged) == (1, 0)


async def test_the_number_of_rows_is_known_where_no_row_hides_another() -> None:
    """Metadata tell how many rows a compacted table has; of overlapping runs or expiring rows they do not."""
    async with sql_tables("compacted", "keyed", "lasting") as tables:
        known = {}
        for name in ("compacted", "keyed", "lasting"):
            table = await tables.lake.table(f"db.{name}")
            known[name] = (await OwnRows.at(table.core, None)).known_rows
        assert known == {"compacted": 90, "keyed": None, "lasting": None}


async def test_rows_of_the_write_ahead_log_that_a_commit_covers_are_shown() -> None:
    """Segments that a snapshot covers, and that are in no file yet, are merged with its files."""
    async with sql_tables("keyed") as tables:
        table = await tables.lake.table("db.keyed")
        async with table.writer() as writer:
            await writer.put(rows_of(200, 203))
            await table.upsert(rows_of(300, 301))
            await tables.copy("db.keyed")
            await tables.check("SELECT * FROM db.keyed WHERE id > 150")
