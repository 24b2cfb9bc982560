"""SQL without await: results, sessions and queries of a blocking lake."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakehouse.sync
from lakehouse.errors import InvalidInputError


def test_results_sessions_and_queries_are_read_without_await() -> None:
    """Every form of a result, a session's state and SQL of a query work from blocking code."""
    settings = {"sql.result_buffer_bytes": 0}
    with lakehouse.sync.connect("memory://sync-sql", settings=settings) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", pa.schema({"id": pa.int64(), "name": pa.string()}))
        table.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        result = lake.sql("SELECT id FROM db.t WHERE name = $name", {"name": "b"})
        assert result.schema.names == ["id"]
        assert "db.t" in result.explain()
        assert len(result.references) == 1
        assert result.to_pylist() == [{"id": 2}]
        assert [row["id"] for row in lake.sql("SELECT id FROM db.t ORDER BY id")] == [1, 2]
        assert sum(batch.num_rows for batch in lake.sql("FROM range(100000)").batches()) == 100_000
        assert lake.sql("SELECT 1 AS a").to_arrow().num_rows == 1
        assert list(lake.sql("SELECT 1 AS a").to_pandas()["a"]) == [1]
        assert lake.sql("SELECT 1 AS a").to_polars()["a"].to_list() == [1]
        with lake.sql("FROM range(100000)") as unread:
            assert unread.cost.errors == 0
        with lake.sql_session("db") as session:
            session.sql("BEGIN QUERY; SELECT count(*) FROM t")
            table.append([{"id": 3}])
            assert session.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]
            assert session.database == "db"
        with lake.query() as query:
            assert query.sql("SELECT count(*) AS n FROM db.t").to_pylist() == [{"n": 3}]
        with pytest.raises(InvalidInputError, match="is closed"):
            session.sql("SELECT 1")
