"""Bound references: names, views and times, as a statement has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError, NotFoundError
from tests.kit.sql_tables import SqlTables, rows_of, sql_tables

MADE = pa.schema({"id": pa.int64(), "note": pa.string()})


async def _answer(tables: SqlTables, text: str, **where: str) -> list[object]:
    """The values of the first column."""
    rows = await (await tables.lake.sql(text, **where)).to_arrow()
    return rows.column(0).to_pylist()


async def test_names_are_looked_for_in_the_database_that_is_given() -> None:
    """A name is a table of the database, or written in full, with or without quotes, and columns with it."""
    async with sql_tables("keyed") as tables:
        for text in (
            "SELECT count(*) FROM keyed",
            "SELECT count(*) FROM db.keyed",
            'SELECT count(*) FROM "db"."keyed" AS k WHERE k.id IS NOT NULL',
            "SELECT count(db.keyed.id) FROM db.keyed",
        ):
            assert await _answer(tables, text, database="db") == [87]


async def test_unknown_names_show_where_they_stand_and_what_was_meant() -> None:
    """The error of a name that nothing has draws a caret below it and names a near one."""
    async with sql_tables("keyed") as tables:
        with pytest.raises(NotFoundError, match="did you mean 'keyed'") as caught:
            await tables.lake.sql("SELECT 1 +\n  (SELECT max(id) FROM db.keyde)")
        assert caught.value.message.endswith(
            "  (SELECT max(id) FROM db.keyde)\n                       ^^^^^^^^"
        )
        assert (caught.value.context["line"], caught.value.context["column"]) == (2, 24)
        with pytest.raises(InvalidInputError, match="pass database="):
            await tables.lake.sql("SELECT * FROM keyed")


async def test_common_table_expressions_hide_tables_of_their_name() -> None:
    """A name that a WITH clause defines is no table, except inside its own definition."""
    async with sql_tables("keyed") as tables:
        text = "WITH keyed AS (SELECT id FROM keyed WHERE id < 10) SELECT count(*) FROM keyed"
        assert await _answer(tables, text, database="db") == [8]


async def test_older_states_are_read_by_number_tag_and_time() -> None:
    """Every spelling of time travel reads the snapshot that it names."""
    async with sql_tables() as tables:
        table = await tables.lake.create_table("db.t", pa.schema({"id": pa.int64()}), primary_key="id")
        await table.upsert([{"id": 1}])
        first = await table.current_snapshot()
        await table.create_tag("v1")
        await table.upsert([{"id": 2}])
        for text in (
            f"SELECT count(*) FROM db.t FOR VERSION AS OF {first}",
            f"SELECT count(*) FROM db.t VERSION AS OF {first} AS old",
            f"SELECT count(*) FROM db.t old AT (VERSION => {first})",
            "SELECT count(*) FROM db.t@v1",
            "SELECT count(old.id) FROM db.t@v1 old",
            "SELECT count(*) FROM db.t FOR VERSION AS OF 'v1'",
        ):
            assert await _answer(tables, text) == [1], text
        assert await _answer(tables, "SELECT count(*) FROM db.t") == [2]
        found = await tables.lake.sql("SELECT count(*) AS n FROM db.t FOR VERSION AS OF $v", {"v": first})
        assert await found.to_pylist() == [{"n": 1}]
        with pytest.raises(NotFoundError, match="v2"):
            await tables.lake.sql("SELECT * FROM db.t@v2")


async def test_states_of_one_table_are_compared() -> None:
    """A reference that asks for a state reads that one, and decides nothing for the others."""
    async with sql_tables() as tables:
        table = await tables.lake.create_table("db.made", MADE, primary_key="id")
        first = (await table.upsert([{"id": 1, "note": "a"}])).snapshot
        await table.create_tag("v1")
        await table.upsert([{"id": 1, "note": "b"}, {"id": 2, "note": "c"}])
        for old in (f"db.made FOR VERSION AS OF {first}", "db.made@v1", f"db.made@{first}"):
            for text in (
                f"SELECT n.id, o.note FROM {old} o RIGHT JOIN db.made n USING (id) ORDER BY id",
                f"SELECT n.id, o.note FROM db.made n LEFT JOIN {old} o USING (id) ORDER BY id",
            ):
                rows = await (await tables.lake.sql(text)).to_pylist()
                assert [tuple(row.values()) for row in rows] == [(1, "a"), (2, None)], text
        files = f"SELECT count(*) FROM db.made$files FOR VERSION AS OF {first}"
        assert await _answer(tables, f"SELECT count(*) FROM db.made$files UNION ALL {files}") == [2, 1]


async def test_a_state_that_is_asked_for_goes_before_that_of_the_query() -> None:
    """In a query of several statements, a reference may look at another state of a pinned table."""
    async with sql_tables() as tables, tables.lake.query() as query:
        table = await tables.lake.create_table("db.made", MADE, primary_key="id")
        first = (await table.upsert([{"id": 1, "note": "a"}])).snapshot
        now = await query.sql("SELECT note FROM db.made")
        await table.upsert([{"id": 1, "note": "b"}])
        older = await query.sql(f"SELECT count(*) AS n FROM db.made FOR VERSION AS OF {first - 1}")
        again = await query.sql("SELECT note FROM db.made")
        assert [await one.to_pylist() for one in (now, older, again)] == [
            [{"note": "a"}],
            [{"n": 0}],
            [{"note": "a"}],
        ]


async def test_views_are_expanded_in_the_database_they_are_of() -> None:
    """Names in a view mean what they meant beside it, and its columns have the names that it gives them."""
    async with sql_tables("keyed", "compacted") as tables:
        lake = tables.lake
        await lake.create_view("db.small", {"duckdb": "select id, region from keyed where id < 20 -- all"})
        await lake.create_view(
            "db.counted", {"duckdb": "select region, count(*) from small group by 1"}, columns=["place", "n"]
        )
        await lake.create_database("other")
        found = await lake.sql(
            "SELECT sum(n) AS n FROM db.counted JOIN db.compacted AS c ON c.region = counted.place",
            database="other",
        )
        expected = tables.oracle.execute(
            "SELECT sum(n) FROM (SELECT region, count(*) AS n FROM db.keyed WHERE id < 20 GROUP BY 1) v "
            "JOIN db.compacted AS c USING (region)"
        ).fetchone()
        assert expected is not None
        assert [row["n"] for row in await found.to_pylist()] == [expected[0]]
        assert "db.keyed" in found.explain()


async def test_a_view_is_read_as_of_a_time_with_all_below_it() -> None:
    """A moment goes for the tables that a view reads; a number is refused."""
    async with sql_tables("keyed") as tables:
        await tables.lake.create_view("db.all", {"duckdb": "select * from keyed"})
        begun = "TIMESTAMPTZ '2026-01-01 01:31:00+00'"
        assert await _answer(tables, f"SELECT count(*) FROM db.all FOR TIMESTAMP AS OF {begun}") == [87]
        with pytest.raises(InvalidInputError, match="is a view and has no snapshot 2"):
            await tables.lake.sql("SELECT * FROM db.all FOR VERSION AS OF 2")


async def test_views_that_read_themselves_or_nest_too_deep_are_errors() -> None:
    """A circle of views, and a chain that doubles with each view, are refused before DuckDB sees them."""
    async with sql_tables("keyed") as tables:
        lake = tables.lake
        await lake.create_view("db.a", {"duckdb": "select 1 as id"})
        await lake.create_view("db.b", {"duckdb": "select * from a"})
        await lake.create_view("db.a", {"duckdb": "select * from b"}, or_replace=True, depends_on=[])
        with pytest.raises(InvalidInputError, match=r"reads itself: db\.b → db\.a → db\.b"):
            await lake.sql("SELECT * FROM db.b")
        await lake.create_view("db.v0", {"duckdb": "select id from keyed"})
        for number in range(10):
            text = f"select x.id from v{number} x join v{number} y using (id)"
            await lake.create_view(f"db.v{number + 1}", {"duckdb": text})
        with pytest.raises(InvalidInputError, match="1,000 at most"):
            await lake.sql("SELECT * FROM db.v10 a JOIN db.v10 b USING (id)")


async def test_views_of_other_dialects_are_refused_by_name() -> None:
    """A view without a text for DuckDB is an error that says which dialects it has."""
    async with sql_tables() as tables:
        await tables.lake.create_view("db.spark", {"spark": "select 1"}, depends_on=[])
        with pytest.raises(InvalidInputError, match="written in spark"):
            await tables.lake.sql("SELECT * FROM db.spark")


async def test_errors_inside_a_view_name_it() -> None:
    """What is missing below a view is an error at its name in the user's text."""
    async with sql_tables() as tables:
        await tables.lake.create_view("db.broken", {"duckdb": "select * from gone"})
        with pytest.raises(NotFoundError, match=r"in the view db\.broken: .*gone") as caught:
            await tables.lake.sql("SELECT * FROM db.broken")
        assert caught.value.context["column"] == 15


async def test_relations_of_tables_are_read_at_the_state_of_the_statement() -> None:
    """table$relation is of the snapshot that the statement pins."""
    async with sql_tables() as tables:
        table = await tables.lake.create_table("db.t", pa.schema({"id": pa.int64()}))
        await table.append([{"id": 1}])
        first = await table.current_snapshot()
        await table.append([{"id": 2}])
        assert await _answer(tables, "SELECT count(*) FROM db.t$files") == [2]
        old = f'SELECT count(*) FROM "t$files" FOR VERSION AS OF {first}'
        assert await _answer(tables, old, database="db") == [1]
        with pytest.raises(InvalidInputError, match="no older states"):
            await tables.lake.sql("SELECT * FROM system.settings FOR VERSION AS OF 1")


async def test_a_commit_during_a_statement_is_not_seen() -> None:
    """A result that streams shows the state that its statement pinned, whatever is committed meanwhile."""
    async with sql_tables("compacted", settings={"sql.result_buffer_bytes": 0}) as tables:
        result = await tables.lake.sql("SELECT id FROM db.compacted")
        table = await tables.lake.table("db.compacted")
        await table.upsert(rows_of(500, 600))
        await table.compact(full=True)
        rows = await result.to_arrow()
        assert rows.num_rows == 90
