"""What DuckDB is given to run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.sql.engine.admission import admit_query
from lakehouse.sql.engine.failures import SqlFailureError


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    """A connection, as a statement has one."""
    with duckdb.connect() as made:
        yield made


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT)",
        "ATTACH ':memory:' AS x",
        "USE memory",
        "SET SESSION TimeZone = 'Asia/Tokyo'",
        "PREPARE p AS SELECT 1",
        "SET VARIABLE x = 1",
        "CHECKPOINT",
        "CALL pragma_version()",
        "PRAGMA version",
        "COPY (SELECT 1) TO 'lake://q/x.csv'",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE t",
        "",
        "-- nothing",
    ],
)
def test_only_one_query_is_admitted(cursor: Any, text: str) -> None:
    """Text that is no query, or more than one, is refused here too, whatever let it through before."""
    with pytest.raises(InvalidInputError, match="one query is expected"):
        admit_query(cursor, text)


@pytest.mark.parametrize(
    "text",
    [
        "VALUES (1)",
        "FROM range(1)",
        "PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b)",
        "UNPIVOT (SELECT 1 AS a) ON a",
        "DESCRIBE SELECT 1",
        "SUMMARIZE SELECT 1",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "WITH x AS (SELECT 1) FROM x",
        "SELECT '" + "a." * 1000 + "', $$" + "a." * 1000 + "$$ -- " + "a." * 1000,
        "SELECT " + ", ".join(["a.b"] * 100),
        "SELECT a" + ".a" * 63,
        'SELECT "' + "a" * 1022 + '"',
    ],
)
def test_every_form_of_a_query_is_admitted(cursor: Any, text: str) -> None:
    """All forms in which DuckDB reads are queries, with names of any usual size."""
    admit_query(cursor, text)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("SELECT a" + ".a" * 64, 7 + 2 * 64),
        ("SELECT a" + ' . /* c */ "b"' * 64, None),
        ("SELECT a" + ".a" * 20_000, 7 + 2 * 64),
        ("SELECT " + "a" * 1025, 7),
        ('SELECT "' + "a" * 100_000 + '"(1)', 7),
        ("SELECT * FROM s." + "a" * 100_000, 16),
    ],
)
def test_names_that_take_long_are_refused(cursor: Any, text: str, offset: int | None) -> None:
    """A name of very many parts or bytes, for which DuckDB would seek near names, is told by its place."""
    at = time.process_time()
    with pytest.raises(SqlFailureError, match="a name has 64 parts") as caught:
        admit_query(cursor, text)
    assert offset in (None, caught.value.failure.offset)
    assert time.process_time() - at < 1
