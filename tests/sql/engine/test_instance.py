"""One locked DuckDB and its turns."""

from __future__ import annotations

from lakehouse.config import SqlSettings
from lakehouse.sql.engine import SqlInstance


async def test_rows_of_a_query_arrive_as_batches() -> None:
    """A statement streams the rows of a query, and their columns are known before the first."""
    instance = SqlInstance(SqlSettings(threads=2))
    async with instance.statement() as statement:
        rows = await statement.stream("SELECT a, a * $1 AS b FROM range(3) t(a)", [10])
        assert rows.schema.names == ["a", "b"]
        assert [row async for batch in rows for row in batch.to_pylist()] == [
            {"a": a, "b": a * 10} for a in range(3)
        ]
    await instance.aclose()
