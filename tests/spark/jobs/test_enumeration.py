"""Enumerating indexes in executors: the rows of ``lake.index_metas``, one request per file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.spark.jobs.enumeration import collect_index_metas, index_metas
from lakehouse.spark.runtime.connection import Connection, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.source import register

SCHEMA = pa.schema({"id": pa.int64(), "host": pa.string(), "message": pa.string()})
INDEXES: dict[Any, Any] = {
    "host": "inverted",
    "message": {"fulltext": {"granularity": 64}},
    "id,host": "bloom",
}
FILES = 6


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Connection]:
    """Two tables in two databases, with some index files each; registered."""
    connection = Connection(url=f"file://{tmp_path_factory.mktemp('metas')}/warehouse")
    lake = warehouse(connection)
    for name in ("a.one", "b.one"):
        lake.call(lake.lake.create_database, name[0])
        made = lake.call(lake.lake.create_table, name, SCHEMA, indexes=INDEXES, options={"index.min_rows": 1})
        for number in range(FILES // 2):
            rows = [{"id": at, "host": f"host-{at}", "message": f"message {number}"} for at in range(200)]
            lake.call(made.append, rows)
    register(spark, connection)
    yield connection
    register(spark)


def expected(connection: Connection, name: str | None = None, **how: Any) -> list[str]:
    """The rows as they are in process."""
    lake = warehouse(connection)
    rows = lake.call(lake.lake.index_metas(name, **how).to_arrow)
    return sorted(str([str(value) for value in one.values()]) for one in rows.to_pylist())


def test_rows_of_all_tables(spark: SparkSession, indexed: Connection) -> None:
    """The data frame has the rows that the process engine finds, of all tables, a database, kinds."""
    frame = index_metas(spark)
    found = [str([str(value) for value in one]) for one in frame.collect()]
    assert sorted(found) == expected(indexed)
    assert frame.schema["region_id"].dataType.simpleString() == "decimal(20,0)"
    inverted = index_metas(spark, "a", kinds=["inverted"]).select("table_dir", "index_type").collect()
    assert len(inverted) == len(expected(indexed, "a", kinds=["inverted"])) == FILES // 2
    assert {one["index_type"] for one in inverted} == {"inverted"}


def test_one_request_per_file(spark: SparkSession, indexed: Connection) -> None:
    """Tasks make one request for each file, and say so."""
    found = collect_index_metas(spark, "a.one", shape="flat")
    assert found.rows.num_rows == len(expected(indexed, "a.one"))
    assert (found.stats.files, found.problems) == (FILES // 2, ())
    assert sum(found.stats.entries.values()) == found.rows.num_rows
    assert found.stats.cost.operations["get_range"].requests == FILES // 2


def test_files_below_a_prefix(spark: SparkSession, indexed: Connection) -> None:
    """Files of a prefix are enumerated whatever they belong to; a bad one is a problem, or the end."""
    place = Path(urlsplit(indexed.url).path) / "loose"
    place.mkdir()
    good = next(Path(urlsplit(indexed.url).path).glob("a/**/*.puffin")).read_bytes()
    for number in range(3):
        (place / f"{number}.puffin").write_bytes(good)
    assert index_metas(spark, prefix="loose/").count() == 3 * len(INDEXES)
    (place / "bad.puffin").write_bytes(b"PFA1 and no more than this, which is no puffin file at all")
    found = collect_index_metas(spark, prefix="loose/")
    assert found.rows.num_rows == 3 * len(INDEXES)
    assert [(one.path, one.kind) for one in found.problems] == [("loose/bad.puffin", "corruption")]
    with pytest.raises(CorruptionError, match=r"bad\.puffin"), plain_errors():
        index_metas(spark, prefix="loose/", errors="raise").collect()


def test_nothing_there(spark: SparkSession, indexed: Connection) -> None:
    """Without files there are no rows, and no task."""
    assert index_metas(spark, prefix="nowhere/").count() == 0
    assert collect_index_metas(spark, prefix="nowhere/", shape="greptime").rows.num_rows == 0


@pytest.mark.parametrize(
    "how",
    [{"kinds": ["hash"]}, {"shape": "round"}, {"name": "a", "prefix": "x"}, {"prefix": "x", "layout": "y"}],
)
def test_mistakes(spark: SparkSession, indexed: Connection, how: dict[str, Any]) -> None:
    """What there is not is refused before anything is listed."""
    with pytest.raises(InvalidInputError):
        index_metas(spark, **how)
