"""Reads of tables in Spark: the same rows as in process, however they are asked for."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import importlib
import pickle
import pkgutil
import secrets
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

import lakehouse
from lakehouse import spark as lakehouse_spark
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io.cost import measure
from lakehouse.spark.reading import reader as spark_reader
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.reading.reader import LakehouseReader, ScanPart, split_bytes_of
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.types import struct_of
from lakehouse.spark.source import register
from lakehouse.storage.table import Table

_SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())])
_NO_COMPACTION = {"compaction.auto": "off"}


def rows(*ids: int, amount: float = 1.0) -> list[dict[str, Any]]:
    """Rows of these ids."""
    return [{"id": one, "city": f"c{one % 3}", "amount": amount} for one in ids]


class Lane:
    """A warehouse that the session knows, and its table."""

    def __init__(self, spark: SparkSession, connection: Connection) -> None:
        register(spark, connection)
        self.spark, self.connection = spark, connection
        self.lake: Warehouse = warehouse(connection)
        self.lake.call(self.lake.lake.create_database, "db")

    def make(self, schema: pa.Schema = _SCHEMA, name: str = "db.t", **how: Any) -> Table:
        """A table that compacts when it is told to."""
        how.setdefault("options", {})
        how["options"] = {**_NO_COMPACTION, **how["options"]}
        return self.lake.call(self.lake.lake.create_table, name, schema, **how)

    def do(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What an async method returns."""
        return self.lake.call(work, *args, **kwargs)

    def read(self, **options: Any) -> Any:
        """The table as Spark's own reader has it."""
        reader = self.spark.read.format("lakehouse")
        return reader.options(**{name: str(value) for name, value in options.items()}).load("db.t")

    def ids(self, **how: Any) -> list[int]:
        """Ids in order."""
        frame = lakehouse_spark.table(self.spark, "db.t", **how)
        return sorted(row.id for row in frame.select("id").collect())

    def anew(self, number: int) -> Connection:
        """The warehouse as a process sees it that has read nothing yet."""
        return Connection(url=self.connection.url, settings={"table.scan_concurrency": number})

    def parts(self, **options: Any) -> list[Any]:
        """What the tasks of a read would read."""
        schema = self.do(self.lake.table("db.t").newest).schema
        reader = LakehouseReader(self.connection, "db.t", ReadOptions(**options), struct_of(schema), cores=2)
        return list(reader.partitions())


@pytest.fixture
def lane(spark: SparkSession, connection: Connection) -> Lane:
    """A warehouse of the test's own."""
    return Lane(spark, connection)


def test_rows_are_those_that_the_merge_leaves(lane: Lane) -> None:
    """Newer rows hide older ones, deleted keys are gone, as in process."""
    table = lane.make(primary_key="id", bucket=2)
    lane.do(table.upsert, rows(*range(20)))
    lane.do(table.upsert, rows(3, 4, amount=2.0))
    lane.do(table.delete, keys=[{"id": 5}])
    found = {row.id: row.amount for row in lane.read().collect()}
    assert found == {one["id"]: one["amount"] for one in lane.do(table.scan().to_pylist)}
    assert found[3] == 2.0
    assert 5 not in found


def test_an_empty_table_has_no_rows(lane: Lane) -> None:
    """It has columns all the same."""
    lane.make()
    assert lane.read().columns == ["id", "city", "amount"]
    assert lane.read().collect() == []


def test_columns_are_those_of_the_schema_that_is_given(lane: Lane) -> None:
    """Names may differ in case; their order is the reader's."""
    table = lane.make()
    lane.do(table.append, rows(1))
    reader = lane.spark.read.format("lakehouse").schema("AMOUNT double, id long")
    found = reader.load("db.t").collect()
    assert [row.asDict() for row in found] == [{"AMOUNT": 1.0, "id": 1}]


def test_files_are_read_for_the_columns_that_are_asked_for_alone(lane: Lane) -> None:
    """A tenth of the columns is about a tenth of the bytes."""
    names = [f"c{number}" for number in range(10)]
    table = lane.make(pa.schema([(name, pa.string()) for name in names]))
    lane.do(table.append, [{name: secrets.token_hex(20) for name in names} for _ in range(20_000)])
    read: dict[str, int] = {}
    for what in ("c0", ",".join(names)):
        struct = struct_of(lane.do(lane.lake.table("db.t").newest).schema)
        struct = StructType([struct[name] for name in what.split(",")])
        reader = LakehouseReader(lane.anew(len(read) + 2), "db.t", ReadOptions(), struct)
        [part] = reader.partitions()
        with measure() as cost:
            assert sum(batch.num_rows for batch in reader.read(part)) == 20_000
        read[what] = cost.bytes_read
    small, large = read.values()
    assert small * 5 < large


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("nothing long", "there is no column 'nothing'"),
        ("id string", "'id' is bigint in the table, and string is asked for"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(lane: Lane, schema: str, says: str) -> None:
    """The message names the column, what it is, and what was asked for."""
    lane.make()
    with pytest.raises(InvalidInputError, match=says), plain_errors():
        lane.spark.read.format("lakehouse").schema(schema).load("db.t").collect()


def test_an_unknown_column_is_refused_when_the_frame_is_made(lane: Lane) -> None:
    """The nearest one is suggested."""
    lane.make()
    with pytest.raises(InvalidInputError, match=r"no column 'amout'; did you mean 'amount'\?"):
        lakehouse_spark.table(lane.spark, "db.t", columns=["amout"])


def test_history_is_read_by_version_time_and_tag(lane: Lane) -> None:
    """Each says one snapshot."""
    table = lane.make(primary_key="id")
    for number in (1, 2, 3):
        lane.do(table.upsert, rows(number))
    lane.do(table.create_tag, "two", snapshot=3)
    when = lane.do(table.snapshots).column("time").to_pylist()[2]
    assert lane.ids(version=3) == lane.ids(tag="two") == lane.ids(timestamp=when) == [1, 2]
    assert [row.id for row in lane.read(version=2).collect()] == [1]
    assert lane.ids() == [1, 2, 3]


def test_a_frame_is_of_the_snapshot_it_was_made_of(lane: Lane) -> None:
    """However often it is used, and whatever is written meanwhile."""
    table = lane.make(primary_key="id")
    lane.do(table.upsert, rows(1))
    frame = lane.read()
    assert frame.count() == 1
    lane.do(table.upsert, rows(2))
    assert frame.count() == 1
    assert lane.read().count() == 2


def test_the_log_is_read_when_it_is_asked_for(lane: Lane) -> None:
    """freshness='wal' sees acknowledged rows that no snapshot covers."""
    table = lane.make(primary_key="id")
    lane.do(table.upsert, rows(1))

    async def stream() -> None:
        async with table.writer() as writer:
            await writer.put(rows(2, 3))
            assert (await lane_ids()) == ([1], [1, 2, 3])

    async def lane_ids() -> tuple[list[int], list[int]]:
        import anyio

        found = await anyio.to_thread.run_sync(lambda: lane.ids())
        fresh = await anyio.to_thread.run_sync(lambda: lane.ids(freshness="wal"))
        return found, fresh

    lane.do(stream)


def test_net_changes_come_with_what_happened(lane: Lane) -> None:
    """incremental_from gives what Table.changes gives."""
    table = lane.make(primary_key="id")
    lane.do(table.upsert, rows(1, 2, 3))
    lane.do(table.upsert, rows(2, amount=5.0))
    lane.do(table.delete, keys=[{"id": 3}])
    lane.do(table.upsert, rows(4))
    frame = lakehouse_spark.table(lane.spark, "db.t", incremental_from=2, incremental_to=4)
    assert frame.columns == ["id", "city", "amount", "_change"]
    found = sorted((row.id, row._change, row.amount) for row in frame.collect())
    assert found == [(2, "update_after", 5.0), (2, "update_before", 1.0), (3, "delete", 1.0)]
    since = lakehouse_spark.table(lane.spark, "db.t", incremental_from=4, columns=["id"])
    assert [(row.id, row._change) for row in since.collect()] == [(4, "insert")]


def test_increments_of_an_append_only_table_are_the_rows_that_were_added(lane: Lane) -> None:
    """Between two snapshots, whatever was compacted."""
    table = lane.make()
    for number in range(1, 5):
        lane.do(table.append, rows(number))
    lane.do(table.compact)
    frame = lane.read(incremental_from=2, incremental_to=4)
    assert frame.columns == ["id", "city", "amount"]
    assert sorted(row.id for row in frame.collect()) == [2, 3]


def test_rows_that_are_too_old_are_not_shown(lane: Lane) -> None:
    """Of the snapshot's time, as in process."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = lane.make(schema, primary_key="id", options={"record.ttl_s": "3600", "record.time_field": "at"})
    now = dt.datetime.now(dt.UTC)
    lane.do(table.upsert, [{"id": 1, "at": now}, {"id": 2, "at": now - dt.timedelta(days=1)}])
    assert lane.ids() == [1]


def test_a_condition_of_the_engine_goes_with_the_filters_of_spark(lane: Lane) -> None:
    """Both hold."""
    table = lane.make()
    lane.do(table.append, rows(*range(10)))
    frame = lakehouse_spark.table(lane.spark, "db.t", where=lakehouse.col("id") > 2)
    assert sorted(row.id for row in frame.where("id < 6").collect()) == [3, 4, 5]


def test_files_are_pruned_in_the_driver(lane: Lane) -> None:
    """Tasks get only the files that may have rows that match, indexes included."""
    table = lane.make(indexes={"city": "inverted"}, options={"index.min_rows": "1", "compaction.auto": "off"})
    lane.do(table.append, rows(0, 1))
    lane.do(table.append, rows(2, 4))
    lane.do(table.append, rows(2, 1, 3, 0))
    assert sum(len(part.split.entries) for part in lane.parts()) == 3
    [part] = lane.parts(where="id >= 4")
    assert len(part.split.entries) == 1
    [part] = lane.parts(where="city = 'c0' AND id < 4")
    assert {entry.rows for entry in part.split.entries} == {2, 4}
    assert lane.ids(where="city = 'c0'") == [0, 0, 3]
    assert lane.parts(where="city = 'nowhere'") == []


def test_a_large_table_is_cut_into_many_tasks(lane: Lane) -> None:
    """About split_bytes for each; together they have each row once."""
    table = lane.make(primary_key="id", options={"parquet.row_group_rows": "1000"})
    lane.do(table.upsert, rows(*range(10_000)))
    lane.do(table.upsert, rows(*range(0, 10_000, 7), amount=3.0))
    whole = lane.parts(split_bytes=10**9)
    cut = lane.parts(split_bytes=1200)
    assert len(whole) == 1
    assert len(cut) > 2
    frame = lane.read(split_bytes=1200)
    assert frame.rdd.getNumPartitions() == len(cut)
    [found] = frame.agg(F.count("*"), F.countDistinct("id"), F.sum("amount")).collect()
    assert tuple(found) == (10_000, 10_000, 8571 + 3.0 * 1429)


def test_parts_travel_with_all_that_a_task_needs(lane: Lane) -> None:
    """A part that was pickled reads the same rows with a reader that has planned nothing."""
    table = lane.make()
    lane.do(table.append, rows(1, 2))
    struct = struct_of(lane.do(lane.lake.table("db.t").newest).schema)
    reader = LakehouseReader(lane.connection, "db.t", ReadOptions(), struct)
    sent = pickle.dumps(reader)
    [part] = pickle.loads(pickle.dumps(reader.partitions()))
    assert isinstance(part, ScanPart)
    [batch] = pickle.loads(sent).read(part)
    assert batch.column("id").to_pylist() == [1, 2]


def test_batches_are_as_large_as_asked_for(lane: Lane) -> None:
    """batch_rows bounds what goes to the JVM at once."""
    table = lane.make()
    lane.do(table.append, rows(*range(10)))
    struct = struct_of(lane.do(lane.lake.table("db.t").newest).schema)
    reader = LakehouseReader(lane.connection, "db.t", ReadOptions(batch_rows=4), struct)
    [part] = reader.partitions()
    assert [batch.num_rows for batch in reader.read(part)] == [4, 4, 2]


def test_a_pin_keeps_the_snapshot_for_a_time(lane: Lane) -> None:
    """The option makes one when the query is planned."""
    table = lane.make()
    lane.do(table.append, rows(1))
    frame = lakehouse_spark.table(lane.spark, "db.t", pin_s=60)
    assert lane.do(table.tags).num_rows == 0
    assert frame.count() == 1
    [pin] = lane.do(table.tags).to_pylist()
    assert (pin["snapshot"], pin["kind"]) == (2, "pin")


def test_a_short_read_leaves_no_commit(lane: Lane) -> None:
    """A read that is expected to be quick, and is, makes no snapshot."""
    table = lane.make()
    lane.do(table.append, rows(1))
    assert lane.read().count() == 1
    assert lane.do(table.current_snapshot) == 2


def test_a_read_that_is_expected_to_take_long_is_pinned_when_it_is_planned(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where bytes and cores say that half of the grace will not do, the driver makes a pin."""
    table = lane.make()
    lane.do(table.append, rows(1))
    struct = struct_of(lane.do(lane.lake.table("db.t").newest).schema)
    monkeypatch.setattr(spark_reader, "_BYTES_PER_S", 0.001)
    [part] = LakehouseReader(lane.connection, "db.t", ReadOptions(), struct, cores=2).partitions()
    [pin] = lane.do(table.tags).to_pylist()
    assert (pin["name"], pin["snapshot"]) == (part.plan.pin, 2)


def test_a_task_that_comes_late_pins_what_is_read(lane: Lane) -> None:
    """A task that runs when half of the grace has passed since the planning pins the snapshot, once."""
    table = lane.make()
    lane.do(table.append, rows(*range(10)))
    struct = struct_of(lane.do(lane.lake.table("db.t").newest).schema)
    reader = LakehouseReader(lane.connection, "db.t", ReadOptions(batch_rows=1), struct)
    [part] = reader.partitions()
    part.plan = dataclasses.replace(part.plan, planned_ms=part.plan.planned_ms - 3_600_000)
    for _ in range(2):
        batches = reader.read(part)
        next(batches)
        while not lane.do(table.tags).num_rows:
            time.sleep(0.01)
        assert sum(batch.num_rows for batch in batches) == 9
    [pin] = lane.do(table.tags).to_pylist()
    assert (pin["name"], pin["snapshot"]) == (part.plan.pin, 2)


def test_a_snapshot_that_expired_is_told(lane: Lane) -> None:
    """A frame of it says so when it is used."""
    table = lane.make(primary_key="id")
    lane.do(table.upsert, rows(1))
    frame = lane.read()
    lane.do(table.upsert, rows(2))
    lane.do(table.expire_snapshots, retain=1, grace_s=0)
    with pytest.raises(NotFoundError, match="2"), plain_errors():
        frame.collect()


def test_a_file_that_was_swept_during_a_scan_is_told(lane: Lane) -> None:
    """The task's error says that its snapshot has expired, and what was missing."""
    table = lane.make(primary_key="id")
    lane.do(table.upsert, rows(1))
    struct = struct_of(lane.do(lane.lake.table("db.t").newest).schema)
    reader = LakehouseReader(lane.anew(2), "db.t", ReadOptions(), struct)
    [part] = reader.partitions()
    lane.do(table.upsert, rows(1))
    lane.do(table.compact, full=True)
    for _ in range(2):
        lane.do(table.expire_snapshots, retain=1, grace_s=0)
    with pytest.raises(NotFoundError, match=r"snapshot 2 of .* expired while it was read") as told:
        list(reader.read(part))
    assert "data file" in str(told.value.__cause__)


def test_a_table_that_was_dropped_during_a_scan_is_told(lane: Lane) -> None:
    """Another one of its name is not read instead."""
    table = lane.make()
    lane.do(table.append, rows(1))
    struct = struct_of(lane.do(lane.lake.table("db.t").newest).schema)
    reader = LakehouseReader(lane.connection, "db.t", ReadOptions(), struct)
    [part] = reader.partitions()
    lane.do(lane.lake.lake.drop_table, "db.t")
    with pytest.raises(NotFoundError):
        list(reader.read(part))
    lane.make()
    with pytest.raises(InvalidInputError, match="another table than it was when the query was planned"):
        list(reader.read(part))


def test_a_view_reads_the_columns_it_was_made_with(lane: Lane) -> None:
    """SQL over it needs to say nothing of that."""
    table = lane.make()
    lane.do(table.append, rows(1, 2))
    lakehouse_spark.create_view(lane.spark, "orders", "db.t", columns=["id"], where="id > 1")
    assert [row.asDict() for row in lane.spark.sql("SELECT * FROM orders").collect()] == [{"id": 2}]


def test_sql_makes_views_of_the_source(lane: Lane) -> None:
    """Spark's own statement takes the options of the source."""
    table = lane.make()
    lane.do(table.append, rows(1))
    lane.spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW v USING lakehouse OPTIONS (table 'db.t', columns 'id, city')"
    )
    assert [tuple(row) for row in lane.spark.sql("SELECT * FROM v").collect()] == [(1, "c1")]


@pytest.mark.parametrize(
    "relation", ["files", "indexes", "manifests", "partitions", "schemas", "snapshots", "tags"]
)
def test_relations_are_those_in_process(lane: Lane, relation: str) -> None:
    """Same columns and rows."""
    table = lane.make(primary_key="id", indexes={"city": "bloom"})
    lane.do(table.upsert, rows(1, 2))
    lane.do(table.create_tag, "first")
    wanted = lane.do(getattr(table, relation))
    frame = lakehouse_spark.table(lane.spark, "db.t", relation=relation)
    assert frame.columns == wanted.column_names
    assert frame.count() == wanted.num_rows
    for got, want in zip(frame.collect(), wanted.to_pylist(), strict=True):
        for name in ("path", "snapshot", "name", "kind", "rows", "index", "schema"):
            assert name not in want or got[name] == want[name]


def test_an_unknown_relation_is_refused(lane: Lane) -> None:
    """The nearest one is suggested."""
    lane.make()
    with pytest.raises(InvalidInputError, match=r"no relation 'file'; did you mean 'files'\?"):
        lakehouse_spark.table(lane.spark, "db.t", relation="file")


def test_another_warehouse_than_the_registered_is_read(lane: Lane, tmp_path: Any) -> None:
    """A connection that is given goes before the session's."""
    other = Connection(url=f"file://{tmp_path}/other", settings={"table.scan_concurrency": 2})
    there = warehouse(other)
    there.call(there.lake.create_database, "db")
    table = there.call(there.lake.create_table, "db.t", _SCHEMA)
    there.call(table.append, rows(7))
    frame = lakehouse_spark.table(lane.spark, "db.t", connection=other)
    assert [row.id for row in frame.collect()] == [7]


def test_the_source_is_found_by_its_package() -> None:
    """Then options have to say where the warehouse is."""
    # As Spark looks for sources.
    [name] = [one.name for one in pkgutil.iter_modules() if one.name == "pyspark_lakehouse"]
    found = importlib.import_module(name).DefaultSource
    assert found.name() == "lakehouse"
    source = found({"table": "db.t"})
    with pytest.raises(InvalidInputError, match="which warehouse"):
        source.schema()


@pytest.mark.parametrize(
    ("total", "cores", "size"),
    [
        (10**12, 2, 128 * 1024**2),
        (10**6, 2, 4 * 1024**2),
        (240 * 1024**2, 8, 30 * 1024**2),
        (480 * 1024**2, 8, 20 * 1024**2),
        (1, None, 32 * 1024**2),
    ],
)
def test_splits_keep_all_cores_busy(total: int, cores: int | None, size: int) -> None:
    """A few for each, within bounds; 32 MiB where cores are not known."""
    assert split_bytes_of(total, cores) == size


def nullable(frame: DataFrame) -> list[str]:
    """Columns that may hold nulls, as Spark knows."""
    return [field.name for field in frame.schema.fields if field.nullable]


def columns_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All that the schema says but which columns may hold nulls."""
    return [(field.name, field.dataType, field.metadata) for field in frame.schema.fields]


def test_rows_past_the_source_are_the_same(lane: Lane) -> None:
    """Without pushdown a frame has the same rows, columns and types, of the snapshot it was made of."""
    table = lane.make(primary_key="id", bucket=2)
    lane.do(table.upsert, rows(*range(50)))
    lane.do(table.upsert, rows(3, 4, amount=2.0))
    asked: dict[str, Any] = {"columns": ["amount", "ID"], "where": "city <> 'c1'"}
    direct = lakehouse_spark.table(lane.spark, "db.t", pushdown=False, **asked)
    before = lakehouse_spark.table(lane.spark, "db.t", version=2, columns=["id"], pushdown=False)
    pushed = lakehouse_spark.table(lane.spark, "db.t", **asked)
    assert columns_of(direct) == columns_of(pushed)
    assert set(nullable(direct)) <= set(nullable(pushed))
    found = sorted(tuple(row) for row in pushed.collect())
    assert len(found) == 33
    lane.do(table.delete, where="id < 40")
    assert sorted(tuple(row) for row in direct.collect()) == found
    assert before.where("id >= 10").count() == 40
    assert lane.ids(pushdown=False) == list(range(40, 50))


def test_past_the_source_columns_without_nulls_say_so(lane: Lane) -> None:
    """Statistics of the files of the snapshot tell; a file that lacks a column, or has a null, is enough."""
    table = lane.make(bucket=1)
    lane.do(table.append, rows(1, 2))
    first = lakehouse_spark.table(lane.spark, "db.t", pushdown=False)
    lane.do(table.append, [{"id": 3, "city": None, "amount": 1.0}])
    lane.do(table.add_column, "note", "string")
    lane.do(table.append, [{"id": 4, "city": "c", "amount": 1.0, "note": "x"}])
    second = lakehouse_spark.table(lane.spark, "db.t", pushdown=False)
    assert nullable(first) == []
    assert nullable(second) == ["city", "note"]
    assert sorted(tuple(row) for row in first.collect()) == [(1, "c1", 1.0), (2, "c2", 1.0)]
    found = {row.id: (row.city, row.note) for row in second.collect()}
    assert found == {1: ("c1", None), 2: ("c2", None), 3: (None, None), 4: ("c", "x")}
    assert second.where("city IS NULL").count() == 1


def test_past_the_source_values_that_are_computed_may_be_null(lane: Lane) -> None:
    """Of a table whose engine computes values no file tells what comes out."""
    table = lane.make(primary_key="id", options={"merge_engine": "partial-update"})
    lane.do(table.upsert, rows(1))
    assert nullable(lakehouse_spark.table(lane.spark, "db.t", pushdown=False)) == ["city", "amount"]


def test_past_the_source_there_are_rows_of_a_snapshot_alone(lane: Lane) -> None:
    """Relations, changes and rows of the log are refused; a table without rows has none."""
    lane.make(primary_key="id")
    assert lane.ids(pushdown=False) == []
    for asked in ({"relation": "files"}, {"incremental_from": 1}, {"freshness": "wal"}):
        with pytest.raises(InvalidInputError, match="pushdown=False is for rows of a snapshot"):
            lane.ids(pushdown=False, **asked)
    with pytest.raises(InvalidInputError, match=r"no column .citi.*city"):
        lane.ids(pushdown=False, columns=["citi"])


def test_every_type_arrives_as_itself(lane: Lane) -> None:
    """Values, nulls and nested ones included; Spark has them as in process."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("i8", pa.int8()),
            ("f", pa.float32()),
            ("d", pa.decimal128(38, 10)),
            ("day", pa.date32()),
            ("t", pa.time64("us")),
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("b", pa.binary()),
            ("tags", pa.list_(pa.time64("us"))),
            ("m", pa.map_(pa.string(), pa.decimal128(5, 2))),
            ("s", pa.struct([pa.field("x", pa.int16(), nullable=False), ("y", pa.list_(pa.date32()))])),
        ]
    )
    full = {
        "id": 1,
        "i8": -128,
        "f": 0.5,
        "d": decimal.Decimal("1234567890123456789012345678.0123456789"),
        "day": dt.date(1900, 1, 1),
        "t": dt.time(23, 59, 59, 999_999),
        "at": dt.datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=dt.UTC),
        "local": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        "b": b"\x00\xff",
        "tags": [dt.time(1), None],
        "m": [("k", decimal.Decimal("1.25")), ("n", None)],
        "s": {"x": 7, "y": [dt.date(2026, 1, 1)]},
    }
    table = lane.make(schema, primary_key="id")
    lane.do(table.upsert, [full, {**dict.fromkeys(full), "id": 2}])
    first, second = sorted(lane.read().collect(), key=lambda row: row.id)
    found = first.asDict(recursive=True)
    # Spark shows moments in the zone of the machine, without it.
    assert found.pop("at").astimezone(dt.UTC) == full.pop("at")
    assert found == {**full, "m": dict(full["m"])}
    assert {value for name, value in second.asDict().items() if name != "id"} == {None}


def test_tables_in_the_object_store_are_read(spark: SparkSession, s3_connection: Connection) -> None:
    """What the connection says of the store travels to the processes that plan and those that read."""
    lane = Lane(spark, s3_connection)
    table = lane.make(primary_key="id")
    lane.do(table.upsert, rows(1, 2, 3))
    assert sorted(row.id for row in lane.read().where("id > 1").collect()) == [2, 3]
