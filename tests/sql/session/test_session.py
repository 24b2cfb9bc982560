"""Sessions: what holds between statements, what is refused, and where errors stand."""

from __future__ import annotations

import pytest

from lakehouse.errors import InvalidInputError, LakehouseError, NotFoundError
from lakehouse.sql.session import SqlSession
from tests.kit.sql_tables import rows_of, sql_tables


async def _value(session: SqlSession, text: str, **how: object) -> object:
    """The first value of the last statement's rows."""
    rows = await (await session.sql(text, **how)).to_pylist()  # type: ignore[arg-type]
    return next(iter(rows[0].values()))


async def test_a_text_gives_the_rows_of_its_last_statement() -> None:
    """Statements run one after another; comments, empty statements and semicolons in strings end nothing."""
    async with sql_tables() as tables:
        result = await tables.lake.sql("SELECT 1 AS a;; -- first; second\n SELECT ';' AS b;\n")
        assert await result.to_pylist() == [{"b": ";"}]
        with pytest.raises(InvalidInputError, match="no statement"):
            await tables.lake.sql(" -- nothing\n;")


async def test_nothing_runs_where_a_later_statement_cannot_be_read() -> None:
    """A text is read whole first: an error in its last statement comes before its first one runs."""
    async with sql_tables() as tables, tables.lake.sql_session("db") as session:
        with pytest.raises(InvalidInputError, match="DuckDB cannot parse"):
            await session.sql("USE gone; SELECT 1 FROM WHERE")


async def test_use_holds_for_later_statements() -> None:
    """USE says where names are looked for, database= says it for one text, and an unknown one is refused."""
    async with sql_tables("compacted", "keyed") as tables, tables.lake.sql_session() as session:
        await session.sql("USE db")
        assert session.database == "db"
        assert await _value(session, "SELECT count(*) FROM compacted") == 90
        await tables.lake.create_database("other")
        with pytest.raises(NotFoundError):
            await session.sql("SELECT * FROM keyed", database="other")
        assert await _value(session, "SELECT count(*) FROM keyed") == 87
        with pytest.raises(NotFoundError, match="gone") as caught:
            await session.sql("USE gone")
        assert caught.value.context["column"] == 5


async def test_settings_hold_until_they_are_reset() -> None:
    """SET changes what DuckDB does in this session, RESET takes it back, and other names are refused."""
    async with sql_tables() as tables, tables.lake.sql_session() as session:
        asked = "SELECT current_setting('TimeZone')"
        assert await _value(session, asked) == "UTC"
        await session.sql("SET TimeZone = 'Asia/Tokyo'")
        assert await _value(session, asked) == "Asia/Tokyo"
        async with tables.lake.sql_session() as other:
            assert await _value(other, asked) == "UTC"
        await session.sql("RESET ALL")
        assert await _value(session, asked) == "UTC"
        with pytest.raises(InvalidInputError, match="no setting of a session"):
            await session.sql("SET memory_limit = '1TB'")
        with pytest.raises(LakehouseError):
            await session.sql("SET TimeZone = 'Nowhere/Land'")
        assert await _value(session, asked) == "UTC"


async def test_a_query_of_a_session_reads_one_state_of_every_table() -> None:
    """Between BEGIN QUERY and END QUERY commits are not seen."""
    async with sql_tables("compacted") as tables, tables.lake.sql_session("db") as session:
        await session.sql("BEGIN QUERY")
        counted = "SELECT count(*) FROM compacted"
        assert await _value(session, counted) == 90
        await (await tables.lake.table("db.compacted")).upsert(rows_of(500, 505))
        assert await _value(session, counted) == 90
        with pytest.raises(InvalidInputError, match="open already"):
            await session.sql("BEGIN QUERY")
        await session.sql("END QUERY")
        assert await _value(session, counted) == 95
        with pytest.raises(InvalidInputError, match="no query is open"):
            await session.sql("END QUERY")


async def test_a_query_of_a_session_may_be_as_of_a_time() -> None:
    """BEGIN QUERY AS OF reads every table as it was then; a version is refused."""
    async with sql_tables("compacted") as tables, tables.lake.sql_session("db") as session:
        with pytest.raises(NotFoundError):
            await session.sql("BEGIN QUERY AS OF '2020-01-01'; SELECT * FROM compacted")
        await session.sql("END QUERY; BEGIN QUERY AS OF $when", {"when": "2026-01-01T01:45:00+00:00"})
        assert await _value(session, "SELECT count(*) FROM compacted") == 90
        await session.sql("END QUERY")
        with pytest.raises(InvalidInputError, match="BEGIN QUERY"):
            await session.sql("BEGIN QUERY VERSION AS OF 3")


async def test_a_session_ends_its_query() -> None:
    """Leaving a session leaves no open query behind, and it runs nothing any more."""
    async with sql_tables("compacted") as tables:
        async with tables.lake.sql_session("db") as session:
            await session.sql("BEGIN QUERY; SELECT count(*) FROM compacted")
            assert session.query is not None
        assert session.query is None
        with pytest.raises(InvalidInputError, match="is closed"):
            await session.sql("SELECT 1")


@pytest.mark.parametrize("text", ["USE db", "SELECT 1; SET TimeZone = 'UTC'", "BEGIN QUERY; SELECT 1"])
async def test_a_text_alone_leaves_nothing_for_later_statements(text: str) -> None:
    """lake.sql refuses a text whose USE, SET or BEGIN QUERY no statement of it can have meant."""
    async with sql_tables() as tables:
        with pytest.raises(InvalidInputError, match=r"lake\.sql_session\(\)"):
            await tables.lake.sql(text)


async def test_a_text_alone_may_set_what_it_uses() -> None:
    """USE and a whole BEGIN QUERY … END QUERY hold for the statements of the text behind them."""
    async with sql_tables("compacted") as tables:
        result = await tables.lake.sql("BEGIN QUERY; USE db; SELECT count(*) AS n FROM compacted; END QUERY")
        assert await result.to_pylist() == []
        used = await tables.lake.sql("USE db; SELECT count(*) AS n FROM compacted")
        assert await used.to_pylist() == [{"n": 90}]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO db.t VALUES (1)",
        "CREATE TABLE db.t (id INT)",
        "ATTACH 'x.db'",
        "COPY db.t TO 'x.csv'",
        "PRAGMA threads",
        "CALL compact('db.t')",
    ],
)
async def test_other_statements_are_refused_by_name(text: str) -> None:
    """What is no query and no command is refused before DuckDB sees it."""
    async with sql_tables() as tables:
        with pytest.raises(InvalidInputError) as caught:
            await tables.lake.sql(text)
        assert caught.value.kind == "unsupported"
        assert text.split()[0] in caught.value.message


async def test_files_are_not_read_by_their_paths() -> None:
    """A path in a query opens nothing, in whatever way it is written."""
    async with sql_tables() as tables:
        for text in (
            "SELECT * FROM 'x.parquet'",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM read_parquet(['s3://b/x.parquet'])",
        ):
            with pytest.raises(InvalidInputError, match="by their paths"):
                await tables.lake.sql(text)


async def test_show_lists_what_there_is() -> None:
    """SHOW answers about databases, tables, views, catalogs, settings and single tables."""
    async with sql_tables("keyed", "compacted") as tables, tables.lake.sql_session("db") as session:
        await tables.lake.create_view("db.few", {"duckdb": "select 1 as one"})
        shown = {
            "SHOW DATABASES": ["db"],
            "SHOW TABLES": ["compacted", "few", "keyed"],
            "SHOW TABLES FROM db LIKE 'k%'": ["keyed"],
            "SHOW VIEWS": ["few"],
        }
        for text, names in shown.items():
            rows = await (await session.sql(text)).to_pylist()
            assert [row["name"] for row in rows if row["name"] != "information_schema"] == names, text
        for text, least in {
            "SHOW CATALOGS": 1,
            "SHOW SETTINGS": 20,
            "SHOW COLUMNS FROM keyed": 7,
            "SHOW SNAPSHOTS FROM keyed": 4,
            "SHOW OPTIONS FROM db.keyed": 0,
            "SHOW PARTITIONS FROM keyed": 1,
        }.items():
            assert (await (await session.sql(text)).to_arrow()).num_rows >= least, text


async def test_show_points_at_the_name_that_it_does_not_find() -> None:
    """Errors of SHOW stand in the user's text, though another query was run."""
    async with sql_tables() as tables:
        with pytest.raises(NotFoundError) as caught:
            await tables.lake.sql("SHOW COLUMNS FROM db.gone")
        assert caught.value.message.endswith("SHOW COLUMNS FROM db.gone\n                  ^^^^^^^")
        with pytest.raises(InvalidInputError, match="needs a database"):
            await tables.lake.sql("SHOW TABLES")
        with pytest.raises(InvalidInputError, match="SHOW CREATE is not supported yet"):
            await tables.lake.sql("SHOW CREATE TABLE db.gone")


async def test_describe_tells_columns_and_types() -> None:
    """DESCRIBE of a table, a view or a query names its columns and DuckDB's types."""
    async with sql_tables("evolved") as tables:
        for text in ("DESCRIBE db.evolved", "DESCRIBE SELECT * FROM db.evolved"):
            rows = await (await tables.lake.sql(text)).to_pylist()
            kinds = {row["column_name"]: row["column_type"] for row in rows}
            assert kinds["amount"] == "DECIMAL(12,2)"
            assert kinds["since"] == "DATE"


async def test_explain_says_what_each_reference_reads() -> None:
    """EXPLAIN has a line for each table and DuckDB's plan; ANALYZE runs the query and adds its cost."""
    async with sql_tables("keyed", "compacted") as tables:
        text = "SELECT count(*) FROM db.keyed JOIN db.compacted USING (id) WHERE id = 7"
        rows = await (await tables.lake.sql(f"EXPLAIN {text}")).to_pylist()
        assert [row["part"] for row in rows] == ["reference", "reference", "physical_plan"]
        assert "by bucket pruned (id = 7)" in rows[1]["text"]
        analyzed = await (await tables.lake.sql(f"EXPLAIN ANALYZE {text}")).to_pylist()
        assert analyzed[-1]["part"] == "cost"
        assert "lake://" not in str(rows + analyzed)
        with pytest.raises(InvalidInputError, match="INSERT"):
            await tables.lake.sql("EXPLAIN INSERT INTO db.keyed VALUES (1)")
