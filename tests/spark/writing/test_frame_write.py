"""Writes of data frames: what is in the table afterwards, in how many runs, and what is refused."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakehouse.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.writing import job
from lakehouse.spark.writing.frame_write import write
from lakehouse.spark.writing.shuffle import spread
from lakehouse.storage.schema.evolution import AddColumn
from tests.kit.spark_written import NAME, data_files, entries_of, frame, made, rows_of, some, values_of

LAYOUTS: dict[str, dict[str, Any]] = {
    "keyed": {"primary_key": "id"},
    "buckets": {"primary_key": "id", "bucket": 3},
    "key holds partition": {"primary_key": ["part", "id"], "partition_by": "part"},
    "rows move between partitions": {"primary_key": "id", "partition_by": "part"},
    "append-only": {"partition_by": "part"},
}
KEYED = [name for name in LAYOUTS if name != "append-only"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_added_in_one_commit(spark: SparkSession, connection: Connection, layout: str) -> None:
    """All rows of all partitions are in one snapshot, and in one run where there is a key."""
    made(connection, **LAYOUTS[layout])
    rows = [*some(1, 3, 5), *some(2, 4, 6, part="b")]
    done = write(frame(spark, rows, 3), NAME, connection=connection).append()
    assert (done.snapshot, done.rows, done.changed) == (2, 6, True)
    assert sorted(rows_of(connection), key=repr) == sorted(map(dict, rows), key=repr)
    if layout in KEYED:
        assert {one.run for one in entries_of(connection)} == {0}


@pytest.mark.parametrize("layout", KEYED)
def test_an_upsert_replaces_and_a_delete_removes_by_key(
    spark: SparkSession, connection: Connection, layout: str
) -> None:
    """Rows replace those of their keys; a frame of keys, other columns or not, deletes."""
    made(connection, **LAYOUTS[layout])
    write(frame(spark, some(1, 2, 3, 4)), NAME, connection=connection).append()
    write(frame(spark, some(2, 3, v=7)), NAME, connection=connection).upsert()
    done = write(frame(spark, some(1, 3)), NAME, connection=connection).delete()
    assert (done.snapshot, values_of(connection)) == (4, {2: 7, 4: 0})


def test_of_rows_of_a_key_the_one_that_sorts_last_stays(spark: SparkSession, connection: Connection) -> None:
    """However the frame is partitioned, the row that is greatest by its columns, nulls first, wins."""
    made(connection, primary_key="id", bucket=2)
    rows = [dict(row) for v in (3, 9, 1) for row in some(1, 2, 3, v=v)]
    rows.append({"id": 3, "part": "a", "v": None})
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        write(frame(spark, rows, seed + 1), NAME, connection=connection).upsert()
        assert values_of(connection) == {1: 9, 2: 9, 3: 9}


def test_the_sequence_field_comes_before_other_columns(spark: SparkSession, connection: Connection) -> None:
    """Of rows of a key the one with the greatest sequence stays, as in any write of the table."""
    made(connection, primary_key="id", options={"sequence.field": "v"})
    rows = [{"id": 1, "part": "z", "v": 1}, {"id": 1, "part": "a", "v": 2}]
    write(frame(spark, rows), NAME, connection=connection).upsert()
    assert rows_of(connection) == [{"id": 1, "part": "a", "v": 2}]


def test_rows_of_a_folding_table_are_folded(spark: SparkSession, connection: Connection) -> None:
    """Rows of a key in several partitions of the frame are merged by the table's engine."""
    options = {"merge_engine": "aggregation", "fields.v.aggregate": "sum"}
    made(connection, primary_key="id", options=options)
    rows = [row for v in (1, 2, 3) for row in some(1, 2, v=v)]
    write(frame(spark, rows, 3), NAME, connection=connection).upsert()
    write(frame(spark, some(2, v=10)), NAME, connection=connection).upsert()
    assert values_of(connection) == {1: 6, 2: 16}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_overwrites_replace_what_they_say(spark: SparkSession, connection: Connection, layout: str) -> None:
    """Partitions that the frame has rows of, rows that match a condition, or the whole table."""
    made(connection, **LAYOUTS[layout])
    rows = [*some(1, 2), *some(3, 4, part="b")]
    write(frame(spark, rows), NAME, connection=connection).append()
    replaced = write(frame(spark, some(9, v=5, part="b")), NAME, connection=connection)
    if LAYOUTS[layout].get("partition_by"):
        replaced.overwrite_partitions()
        assert values_of(connection) == {1: 0, 2: 0, 9: 5}
    else:
        with pytest.raises(InvalidInputError, match="has no partitions"):
            replaced.overwrite_partitions()
    write(frame(spark, some(2, v=8)), NAME, connection=connection).overwrite("id = 2")
    assert values_of(connection)[2] == 8
    with pytest.raises(InvalidInputError, match="1 of the new rows do not match"):
        write(frame(spark, some(7)), NAME, connection=connection).overwrite("id = 2")
    write(frame(spark, some(6)), NAME, connection=connection).overwrite()
    assert values_of(connection) == {6: 0}


def test_keys_are_cut_into_ranges_that_are_one_run(spark: SparkSession, connection: Connection) -> None:
    """More tasks than buckets share a bucket by ranges of its key, and their files do not overlap."""
    made(connection, primary_key="id")
    core = warehouse(connection).table(NAME)
    schema = warehouse(connection).call(core.known).schema
    rows = frame(spark, some(*range(400)), 3)
    spread_rows = spread(rows, schema, tasks=3, least=3)
    sizes = [one["count"] for one in spread_rows.groupBy(sf.spark_partition_id()).count().collect()]
    assert len(sizes) == 3
    assert min(sizes) > 60
    done = write(rows, NAME, connection=connection, tasks=3).append()
    found = entries_of(connection)
    assert (done.rows, {one.run for one in found}) == (400, {0})


def test_buckets_that_do_not_fit_into_memory_are_cut(spark: SparkSession, connection: Connection) -> None:
    """Rows beyond the buffer of a task go to more tasks than the shuffle has by default, and are one run."""
    made(connection, primary_key="id", bucket=2, options={"write.buffer_bytes": 1 << 20})
    numbers = spark.range(120_000)
    rows = numbers.select("id", sf.lit("a").alias("part"), sf.col("id").alias("v"))
    assert int(spark.conf.get("spark.sql.shuffle.partitions")) == 4
    done = write(rows, NAME, connection=connection).append()
    found = entries_of(connection)
    assert (done.rows, {one.run for one in found}) == (120_000, {0})
    assert len(found) == 6
    assert max(one.rows for one in found) < 30_000
    for bucket in range(2):
        keys = sorted((one.min_key, one.max_key) for one in found if one.bucket == bucket)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(keys))


def test_rows_that_do_not_fit_are_told_column_by_column(spark: SparkSession, connection: Connection) -> None:
    """A frame of other columns is refused before anything runs, and all differences are named."""
    made(connection, primary_key="id")
    wrong = spark.createDataFrame([("1", 2, True)], "id string, prat int, v boolean")
    with pytest.raises(InvalidInputError) as refused:
        write(wrong, NAME, connection=connection).append()
    assert refused.value.context["differences"] == [
        "extra: 'prat' (int); the table has 'part'",
        "wrong type: 'id' is string, and bigint in the table: cast it",
        "wrong type: 'v' is boolean, and bigint in the table: cast it",
    ]


def test_columns_are_found_as_the_session_compares_names(spark: SparkSession, connection: Connection) -> None:
    """Case does not matter unless spark.sql.caseSensitive says so; columns may stand in any order."""
    made(connection, primary_key="id")
    rows = spark.createDataFrame([(4, 1)], "V int, ID short")
    write(rows, NAME, connection=connection).append(missing="null")
    assert rows_of(connection) == [{"id": 1, "part": None, "v": 4}]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidInputError, match="missing: 'id'"):
            write(rows, NAME, connection=connection).append()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("layout", ["keyed", "buckets", "append-only"])
def test_a_row_without_a_key_is_an_error_that_names_the_column(
    spark: SparkSession, connection: Connection, layout: str
) -> None:
    """What a task refuses is raised as it is, and what others uploaded is deleted."""
    made(connection, **LAYOUTS[layout])
    name = "part" if layout == "append-only" else "id"
    rows = frame(spark, some(1, 2, 3, 4)).withColumn(
        name, sf.when(sf.col("id") != 3, sf.col(name)).otherwise(sf.lit(None))
    )
    with pytest.raises(InvalidInputError, match=f"column '{name}'.* null where no null may be"):
        write(rows, NAME, connection=connection).append()
    assert data_files(connection) == set()


def test_a_job_that_is_run_again_writes_once(spark: SparkSession, connection: Connection) -> None:
    """With a writer's sequence the second run does nothing and uploads nothing."""
    made(connection, primary_key="id")
    rows = frame(spark, some(1, 2))
    first = write(rows, NAME, connection=connection).upsert(writer=("job", 7))
    before = data_files(connection)
    again = write(rows, NAME, connection=connection).upsert(writer=("job", 7))
    assert (again.snapshot, again.changed) == (first.snapshot, False)
    assert data_files(connection) == before
    assert write(rows, NAME, connection=connection).upsert(writer=("job", 8)).changed


def test_an_unfitting_operation_is_refused_before_it_runs(
    spark: SparkSession, connection: Connection
) -> None:
    """Upserts and deletes by key need a key."""
    made(connection)
    rows = frame(spark, some(1))
    with pytest.raises(InvalidInputError, match="upsert needs a primary key"):
        write(rows, NAME, connection=connection).upsert()
    with pytest.raises(NotFoundError):
        write(rows, "db.nothing", connection=connection).append()


def test_every_type_is_written_as_it_is(spark: SparkSession, connection: Connection) -> None:
    """Values of all kinds of columns come to the table unchanged, also as keys of several columns."""
    moment = dt.datetime(2026, 11, 18, 12, 30, 15, 123456, tzinfo=dt.UTC)
    schema = pa.schema(
        {
            "day": pa.date32(),
            "name": pa.string(),
            "at": pa.timestamp("us", tz="UTC"),
            "wall": pa.timestamp("us"),
            "price": pa.decimal128(20, 4),
            "data": pa.binary(),
            "tags": pa.list_(pa.string()),
            "place": pa.struct([("city", pa.string()), ("zip", pa.int32())]),
            "facts": pa.map_(pa.string(), pa.int64()),
        }
    )
    rows = [
        {
            "day": dt.date(2026, 1, number + 1),
            "name": f"a\x00é{number % 2}",
            "at": moment,
            "wall": moment.replace(tzinfo=None),
            "price": None if number == 3 else Decimal("12.3450"),
            "data": bytes([0, 255, number]),
            "tags": ["x", None],
            "place": {"city": "Ü", "zip": None},
            "facts": [("k", number)],
        }
        for number in range(8)
    ]
    made(connection, schema=schema, primary_key=["name", "day"], bucket=2)
    df = spark.createDataFrame(pa.Table.from_pylist(rows, schema)).repartition(3)
    df = df.withColumn("wall", sf.col("wall").cast("timestamp_ntz"))
    write(df, NAME, connection=connection).append()
    assert rows_of(connection) == sorted(rows, key=repr)


def test_a_column_that_is_added_meanwhile_does_not_matter(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schema that grows while the job runs takes the job's rows with nulls."""
    table = made(connection, primary_key="id")
    house = warehouse(connection)
    uploaded = job._uploaded

    def altered(rows: Any, of: Any) -> Any:
        done = uploaded(rows, of)
        house.call(table.alter, AddColumn("more", "string"))
        return done

    monkeypatch.setattr(job, "_uploaded", altered)
    done = write(frame(spark, some(1)), NAME, connection=connection).append()
    assert done.changed
    assert rows_of(connection) == [{"id": 1, "part": "a", "v": 0, "more": None}]


def test_a_table_that_is_dropped_meanwhile_is_no_table(
    spark: SparkSession, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ends with an error that says so, and leaves no files."""
    made(connection, primary_key="id")
    house = warehouse(connection)
    uploaded = job._uploaded

    def dropped(rows: Any, of: Any) -> Any:
        done = uploaded(rows, of)
        house.call(house.lake.drop_table, NAME)
        return done

    monkeypatch.setattr(job, "_uploaded", dropped)
    with pytest.raises(NotFoundError):
        write(frame(spark, some(1)), NAME, connection=connection).append()
    assert data_files(connection) == set()


def test_rows_put_into_the_log_before_a_job_are_older(spark: SparkSession, connection: Connection) -> None:
    """A write covers what the write-ahead log held when it was called, and stands above it."""
    table = made(connection, primary_key="id")
    house = warehouse(connection)

    async def put() -> None:
        async with table.writer() as writer:
            await (await writer.put([dict(row) for row in some(1, 2, v=3)]))

    house.call(put)
    write(frame(spark, some(1, v=9)), NAME, connection=connection).upsert()
    assert values_of(connection) == {1: 9, 2: 3}


def test_a_table_is_made_for_a_frame(spark: SparkSession, connection: Connection) -> None:
    """It has the frame's columns and rows; one that cannot be filled is not there afterwards."""
    made(connection, "db.other")
    rows = frame(spark, some(1, 2))
    write(rows, NAME, connection=connection).create(primary_key="id", bucket=2)
    house = warehouse(connection)
    schema = house.call(house.table(NAME).known).schema
    assert (schema.primary_key, schema.buckets, len(rows_of(connection))) == (("id",), 2, 2)
    with pytest.raises(AlreadyExistsError):
        write(rows, NAME, connection=connection).create()
    failing = rows.withColumn("id", sf.lit(None).cast("long"))
    with pytest.raises(InvalidInputError, match="null where no null may be"):
        write(failing, "db.new", connection=connection).create(primary_key="id")
    assert set(house.iterate(house.lake.tables, "db")) == {"db.other", NAME}
