"""Iceberg tables in Spark: the rows that Spark's own runtime has, however they are asked for."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.iceberg import RuntimeFilter
from lakehouse.spark.reading.iceberg_reader import IcebergReader, TasksPart, iceberg_struct, state_of
from lakehouse.spark.reading.joins import join
from lakehouse.spark.reading.options import IcebergTarget, ReadOptions, iceberg_target
from lakehouse.spark.reading.table_frame import table
from lakehouse.spark.runtime.connection import Connection
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.source import register
from tests.kit.iceberg_spark_tables import SPARK_FOLDER, SPARK_TABLES
from tests.kit.spark_answers import expected_of, ids_of, rows_of, same_rows


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def url_of(name: str) -> str:
    """Where a table lies that Spark wrote."""
    return f"file://{SPARK_FOLDER / name}"


def expected(name: str) -> dict[str, Any]:
    """What Spark's own runtime answers about it."""
    return expected_of(SPARK_FOLDER / name)


def reader_of(name: str, **options: Any) -> IcebergReader:
    """A reader as the driver has it."""
    target = IcebergTarget(connection=Connection(url=url_of(name)), moved=True)
    asked = ReadOptions(**options)
    state = state_of(target, asked)
    return IcebergReader(state, asked, iceberg_struct(state, asked.columns), cores=2)


@pytest.mark.parametrize("name", SPARK_TABLES)
def test_rows_are_those_of_the_runtime(spark: SparkSession, name: str) -> None:
    """Every row, column and value, with all kinds of deletes applied, in tasks of few files."""
    frame = table(spark, url_of(name), moved=True, split_bytes=2_000)
    same_rows(frame.toArrow(), expected(name)["current"])


@pytest.mark.parametrize("name", ["day_zone", "equality_deletes", "vectors"])
def test_conditions_of_spark_choose_the_same_rows(spark: SparkSession, name: str) -> None:
    """What Spark pushes down, and what it keeps, give the ids of the runtime's rows."""
    frame = spark.read.format("lakehouse").option("moved", "true").load(url_of(name))
    for asked in expected(name)["conditions"]:
        assert ids_of(frame.where(asked["where"]).toArrow()) == asked["ids"], asked["where"]


def test_snapshots_tags_and_branches_have_their_rows(spark: SparkSession) -> None:
    """``version``, ``tag`` and ``ref`` read the rows of then, of the columns of then."""
    for version in expected("time_travel")["versions"]:
        named = {
            {"snapshot": "version", "tag": "tag", "branch": "ref"}[kind]: version[kind]
            for kind in ("snapshot", "tag", "branch")
            if kind in version
        }
        frame = table(spark, url_of("time_travel"), moved=True, pushdown=False, **named)
        assert rows_of(frame.toArrow()) == version["rows"]


def test_a_frame_stays_with_its_snapshot() -> None:
    """What travels names one snapshot of the table, and none of the others."""
    state = reader_of("time_travel", tag=next(iter(_tags()))).state
    assert state.snapshot is not None
    arrived = pickle.loads(pickle.dumps(state))
    assert list(arrived.metadata.snapshots) == [state.snapshot.id]
    assert arrived.metadata.refs == {}


def _tags() -> list[str]:
    return [version["tag"] for version in expected("time_travel")["versions"] if "tag" in version]


def test_runtime_filters_leave_files_out(spark: SparkSession) -> None:
    """Files that no wanted value can be in are in no task; ``off`` reads them."""
    url, day = url_of("partition_evolution"), expected("partition_evolution")["current"]["rows"][0][1]
    only = RuntimeFilter.predicate(f"day = DATE '{day}'")
    every = table(spark, url, moved=True, pushdown=False, split_bytes=1)
    some = table(spark, url, moved=True, split_bytes=1, runtime_filters=[only])
    assert some.rdd.getNumPartitions() < every.rdd.getNumPartitions()
    assert some.where(f"day = '{day}'").count() == every.where(f"day = '{day}'").count() > 0
    off = table(spark, url, moved=True, split_bytes=1, runtime_filters="off")
    assert off.count() == every.count()


def test_shares_of_bytes_are_tasks_of_their_own() -> None:
    """A part says which files, or which bytes of one, it reads; together they are read once."""
    reader = reader_of("vectors", split_bytes=1_000, columns=("id",))
    parts = reader.partitions()
    assert len(parts) > 2
    assert all(isinstance(part, TasksPart) for part in parts)
    ids = [value for part in parts for batch in reader.read(part) for value in batch.column(0).to_pylist()]
    assert sorted(ids) == [row[0] for row in expected("vectors")["current"]["rows"]]


def test_a_condition_goes_to_files_and_rows() -> None:
    """Tasks of files of which all rows match carry no residual; rows of the others are asked."""
    name = "day_zone"
    asked = expected(name)["conditions"][0]
    reader = reader_of(name, where=asked["where"])
    ids = [
        row["id"] for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()
    ]
    assert sorted(ids) == asked["ids"]
    assert len(reader.planned()) < len(reader_of(name).planned())


def test_secrets_are_not_shown() -> None:
    """Neither a plan nor a target shows how the store is reached."""
    options = {"storage_options": json.dumps({"secret": "geheim"}), "table": "s3://bucket/t", "moved": "true"}
    target = iceberg_target(options)
    assert target is not None
    assert target.moved
    assert "geheim" not in repr(target)
    assert "geheim" not in repr(reader_of("v1").state)


def test_the_session_says_how_the_store_is_reached() -> None:
    """Options of a registered warehouse hold for tables of the same kind of store, and for no other."""
    default = Connection(url="s3://bucket/lake", storage_options={"endpoint_url": "http://127.0.0.1:9"})
    same_store = iceberg_target({"path": "s3a://other/t"}, default)
    elsewhere = iceberg_target({"path": "file:///t"}, default)
    assert same_store is not None
    assert elsewhere is not None
    assert not elsewhere.connection.storage_options
    assert iceberg_target({"path": "db.t"}, default) is None


def test_what_cannot_be_done_is_said(spark: SparkSession) -> None:
    """Writes, streams, options of our own tables, unknown columns and missing tables are refused."""
    url = url_of("v1")
    with pytest.raises(InvalidInputError, match="freshness"):
        table(spark, url, moved=True, freshness="wal")
    with pytest.raises(InvalidInputError, match="no column 'nothing'"):
        table(spark, url, moved=True, columns=["nothing"])
    with pytest.raises(NotFoundError, match="no metadata"):
        table(spark, url + "-gone", moved=True)
    with pytest.raises(InvalidInputError, match="moved"):
        iceberg_target({"table": "db.t", "moved": "true"})
    with pytest.raises(InvalidInputError, match="read, and not written"), plain_errors():
        spark.range(1).write.format("lakehouse").mode("append").save(url)


def test_tables_of_catalogs_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """A session that knows a catalog reads its tables by name, as sources, whole and in joins."""
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
    catalog = SqlCatalog("ice", **place)
    catalog.create_namespace("db")
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{one}" for one in range(10)]})
    catalog.create_table("db.t", rows.schema).append(rows)
    catalog.close()
    register(spark, f"file://{tmp_path}/lake", catalogs={"ice": {"type": "sql", **place}})
    assert ids_of(spark.read.format("lakehouse").load("ice.db.t").where("id > 6").toArrow()) == [7, 8, 9]
    assert table(spark, "ice.db.t", columns=["id"], pushdown=False).count() == 10
    dim = spark.createDataFrame([(3,), (4,)], "id long")
    assert sorted(map(tuple, join(spark, "ice.db.t", dim, "id").collect())) == [(3, "n3"), (4, "n4")]
    with pytest.raises(NotFoundError, match=r"no table 'db\.gone'"):
        table(spark, "ice.db.gone")
    with pytest.raises(InvalidInputError, match="URL"):
        table(spark, "ice.db.t", moved=True)
