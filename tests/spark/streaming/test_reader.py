"""Streams of a table: every row once, in batches of any size, over restarts, whatever is compacted."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.spark.reading.options import ReadOptions
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.runtime.types import struct_of
from lakehouse.spark.source import register
from lakehouse.spark.streaming.reader import LakehouseStreamReader
from lakehouse.storage.cdc.snapshot_diff import CHANGE_COLUMN
from lakehouse.storage.table import Table

_SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())])


def rows(*numbers: int, amount: float = 1.0) -> list[dict[str, Any]]:
    """Rows of these ids."""
    return [{"id": one, "city": f"c{one % 3}", "amount": amount} for one in numbers]


class Lane:
    """A table and streams of it, driven as Spark drives them, in this process."""

    def __init__(self, connection: Connection, name: str = "db.t", **how: Any) -> None:
        self.connection, self.name = connection, name
        self.lake: Warehouse = warehouse(connection)
        self.lake.call(self.lake.lake.create_database, "db", if_not_exists=True)
        how.setdefault("options", {"compaction.auto": "off"})
        self.table: Table = self.lake.call(self.lake.lake.create_table, name, _SCHEMA, **how)

    def do(self, what: str, *args: Any, **kwargs: Any) -> Any:
        """A method of the table."""
        return self.lake.call(getattr(self.table, what), *args, **kwargs)

    def scan(self) -> dict[int, float]:
        """Amounts by id, as they are."""
        return {one["id"]: one["amount"] for one in self.lake.call(self.table.scan().to_pylist)}

    def stream(self, **options: str) -> Stream:
        """A stream that begins anew."""
        return Stream(self, options)


class Stream:
    """What Spark does with a reader, its checkpoint included."""

    def __init__(self, lane: Lane, options: dict[str, str]) -> None:
        self.lane, self.options = lane, options
        self.at: str | None = None
        self.batches: list[tuple[str, str]] = []
        self.start()

    def start(self) -> None:
        """A new process that knows the checkpoint."""
        parsed = ReadOptions.parse(self.options)
        struct = struct_of(self.lane.do("schema"))
        if parsed.changes:
            struct = struct.add(CHANGE_COLUMN, StringType(), nullable=False)
        self.reader = LakehouseStreamReader(self.lane.connection, self.lane.name, parsed, struct)
        if self.at is None:
            self.at = json.dumps(self.reader.initialOffset())

    def batch(self) -> list[dict[str, Any]] | None:
        """The next one; None when nothing came."""
        assert self.at is not None
        limit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(self.at), limit))
        if end == self.at:
            return None
        begin, self.at = self.at, end
        self.batches.append((begin, end))
        return self.read(begin, end)

    def read(self, begin: str, end: str) -> list[dict[str, Any]]:
        """The rows of a batch, as tasks read them."""
        found: list[dict[str, Any]] = []
        worker = pickle.loads(pickle.dumps(self.reader))
        for part in self.reader.partitions(json.loads(begin), json.loads(end)):
            for batch in worker.read(pickle.loads(pickle.dumps(part))):
                found += batch.to_pylist()
        return found

    def rest(self) -> list[list[dict[str, Any]]]:
        """All batches that there are."""
        return list(iter(self.batch, None))

    def ids(self) -> list[int]:
        """Ids of all rows that there are, sorted."""
        return sorted(one["id"] for batch in self.rest() for one in batch)


@pytest.fixture
def keyed(connection: Connection) -> Lane:
    """A table with a key and two buckets."""
    return Lane(connection, primary_key="id", bucket=2)


@pytest.fixture
def appended(connection: Connection) -> Lane:
    """A table without a key."""
    return Lane(connection)


def test_initial_then_changes(keyed: Lane) -> None:
    """A stream begins with all rows, and goes on with those that change, as they are then."""
    keyed.do("append", rows(1, 2))
    stream = keyed.stream()
    assert stream.ids() == [1, 2]
    assert stream.batch() is None
    keyed.do("upsert", rows(2, 3, amount=5.0))
    keyed.do("delete", keys=[{"id": 1}])
    assert sorted((one["id"], one["amount"]) for one in stream.rest()[0]) == [(2, 5.0), (3, 5.0)]


def test_changes_say_what_happened(keyed: Lane) -> None:
    """With changes=true each row says whether it came, changed or went."""
    keyed.do("append", rows(1, 2))
    stream = keyed.stream(changes="true")
    assert {one[CHANGE_COLUMN] for one in stream.rest()[0]} == {"insert"}
    keyed.do("upsert", rows(2, amount=5.0))
    keyed.do("delete", keys=[{"id": 1}])
    (batch,) = stream.rest()
    assert sorted((one["id"], one[CHANGE_COLUMN], one["amount"]) for one in batch) == [
        (1, "delete", 1.0),
        (2, "update_after", 5.0),
        (2, "update_before", 1.0),
    ]


@pytest.mark.parametrize("kind", ["keyed", "appended"])
def test_compaction_does_not_show(kind: str, request: pytest.FixtureRequest) -> None:
    """What compaction rewrites comes to no stream."""
    lane: Lane = request.getfixturevalue(kind)
    for number in range(4):
        lane.do("append", rows(number))
    stream = lane.stream(starting="2")
    lane.do("compact", full=True)
    assert stream.ids() == [1, 2, 3]
    lane.do("append", rows(9))
    lane.do("compact", full=True)
    assert stream.ids() == [9]


def test_starting_points(appended: Lane) -> None:
    """A stream begins with everything, with what follows a snapshot or a moment, or with what is new."""
    appended.do("append", rows(1))
    moment = appended.do("snapshots").column("time")[-1].as_py().isoformat()
    appended.do("append", rows(2))
    wanted = {"initial": [1, 2], "earliest": [1, 2], "2": [2], moment: [2], "latest": []}
    for word, ids in wanted.items():
        stream = appended.stream(starting=word)
        assert stream.ids() == ids, word
        appended_at = stream.at
        assert appended_at is not None
    latest = appended.stream(starting="latest")
    assert latest.batch() == []  # which remembers where it began
    appended.do("append", rows(3))
    assert latest.ids() == [3]


def test_first_batch_tried_again(appended: Lane) -> None:
    """A query that ends before its first batch is committed reads the same batch when it comes again."""
    appended.do("append", rows(1))
    stream = appended.stream()
    assert [one["id"] for one in stream.batch() or []] == [1]
    appended.do("append", rows(2))
    begin, end = stream.batches[0]
    stream.start()
    assert [one["id"] for one in stream.read(begin, end)] == [1]
    assert stream.ids() == [2]


@pytest.mark.parametrize("limit", ["files", "rows", "bytes"])
@pytest.mark.parametrize("kind", ["keyed", "appended"])
def test_limits(kind: str, limit: str, request: pytest.FixtureRequest) -> None:
    """Limits cut commits apart, and large ones between files; nothing is lost or doubled."""
    lane: Lane = request.getfixturevalue(kind)
    for begin in (0, 10, 20):
        lane.do("append", rows(*range(begin, begin + 10)))
    for starting in ("initial", "1"):
        stream = lane.stream(**{f"max_{limit}_per_trigger": "1", "starting": starting})
        batches = stream.rest()
        assert len([one for one in batches if one]) >= (2 if kind == "keyed" else 3), starting
        assert sorted(one["id"] for batch in batches for one in batch) == list(range(30)), starting


def test_limit_holds_some_commits(appended: Lane) -> None:
    """A batch takes as many commits as the limit allows, and without a limit all of them."""
    for number in range(6):
        appended.do("append", rows(number, number + 100))
    limited = appended.stream(max_rows_per_trigger="4", starting="1")
    assert [len(batch) for batch in limited.rest()] == [4, 4, 4]
    unlimited = appended.stream(max_rows_per_trigger="4", starting="1")
    end = unlimited.reader.latestOffset(json.loads(unlimited.at or ""), ReadAllAvailable())
    assert len(unlimited.read(unlimited.at or "", json.dumps(end))) == 12


def test_available_now(appended: Lane) -> None:
    """What is committed after the query began is left to the next run."""
    appended.do("append", rows(1))
    stream = appended.stream(starting="earliest", max_rows_per_trigger="1")
    appended.do("append", rows(2))
    stream.reader.prepareForTriggerAvailableNow()
    appended.do("append", rows(3))
    assert stream.ids() == [1, 2]
    stream.start()
    assert stream.ids() == [3]


def test_rows_taken_away(appended: Lane) -> None:
    """Deleting from a table without a key brings no row again; overwriting brings the new rows alone."""
    appended.do("append", rows(1, 2, 3))
    stream = appended.stream()
    assert stream.ids() == [1, 2, 3]
    appended.do("delete", "id = 2")
    assert stream.ids() == []
    appended.do("overwrite", rows(3, amount=9.0), "id = 3")
    assert stream.ids() == [3]
    appended.do("overwrite", rows(7))
    assert stream.ids() == [7]


def test_log_of_appended_rows(appended: Lane) -> None:
    """Rows of a streaming writer come once, when they are in files."""

    async def put(numbers: list[int]) -> None:
        async with appended.table.writer() as writer:
            for number in numbers:
                await (await writer.put(rows(number)))

    stream = appended.stream()
    assert stream.ids() == []
    appended.lake.call(put, [1, 2])
    appended.do("append", rows(3))
    appended.do("flush")
    appended.lake.call(put, [4])
    appended.do("flush")
    assert stream.ids() == [1, 2, 3, 4]


def test_where_and_columns(keyed: Lane) -> None:
    """A stream delivers the rows and columns that are asked for, of the first state and of changes."""
    keyed.do("append", rows(1, 2, 3))
    options = ReadOptions.parse({"where": "id >= 2"})
    struct = struct_of(keyed.do("schema"))
    stream = keyed.stream(where="id >= 2")
    wanted = StructType([struct["amount"], StructField("ID", LongType())])  # names as Spark compares them
    stream.reader = LakehouseStreamReader(keyed.connection, keyed.name, options, wanted)
    found = stream.rest()
    assert sorted(one["ID"] for batch in found for one in batch) == [2, 3]
    keyed.do("upsert", rows(0, 5))
    (batch,) = stream.rest()
    assert [(one["ID"], sorted(one)) for one in batch] == [(5, ["ID", "amount"])]


def test_large_pieces_are_cut_for_tasks(connection: Connection) -> None:
    """Files whose keys overlap are read by several tasks, by ranges of keys; each row by one."""
    options = {"compaction.auto": "off", "parquet.row_group_rows": 128}
    lane = Lane(connection, primary_key="id", options=options)
    lane.do("append", rows(*range(2_000)))
    lane.do("upsert", rows(*range(0, 2_000, 2), amount=2.0))
    stream = lane.stream(split_bytes="2000", changes="true")
    state = stream.batch() or []
    assert sorted((one["id"], one["amount"]) for one in state) == [
        (one, 2.0 - one % 2) for one in range(2_000)
    ]
    lane.do("upsert", rows(*range(0, 2_000, 5), amount=3.0))
    lane.do("delete", keys=[{"id": one} for one in range(1, 2_000, 5)])
    changes = stream.batch() or []
    assert len(changes) == 400 * 2 + 400
    assert {one["id"] for one in changes if one[CHANGE_COLUMN] == "delete"} == set(range(1, 2_000, 5))
    for begin, end in stream.batches:
        parts = stream.reader.partitions(json.loads(begin), json.loads(end))
        assert len(parts) >= 2


def test_expired_position(appended: Lane) -> None:
    """A stream whose position has expired says so, and what to do."""
    appended.do("append", rows(1))
    stream = appended.stream()
    assert stream.ids() == [1]
    appended.do("append", rows(2))
    appended.do("append", rows(3))
    appended.do("expire_snapshots", retain=1)
    with pytest.raises(NotFoundError, match="has expired") as caught:
        stream.batch()
    assert caught.value.kind == "position-expired"


def test_expired_steps(appended: Lane) -> None:
    """A tag keeps a snapshot; what the commits after it brought is gone all the same, and that is said."""
    appended.do("append", rows(1))
    appended.do("create_tag", "here", snapshot=2)
    stream = appended.stream(starting="2")
    for number in (2, 3, 4):
        appended.do("append", rows(number))
    appended.do("expire_snapshots", retain=1)
    with pytest.raises(NotFoundError, match="starting") as caught:
        stream.rest()
    assert caught.value.kind == "position-expired"


def test_columns_changed(keyed: Lane) -> None:
    """A query ends when columns change, and goes on after a restart with the columns as they are then."""
    keyed.do("append", rows(1))
    stream = keyed.stream()
    assert stream.ids() == [1]
    keyed.do("add_column", "note", "string", default="none")
    keyed.do("append", [{"id": 2, "city": "x", "amount": 1.0, "note": "new"}])
    with pytest.raises(InvalidInputError, match=r"note.*start the query again"):
        stream.batch()
    stream.start()
    (batch,) = stream.rest()
    assert [(one["id"], one["note"]) for one in batch] == [(2, "new")]


def test_another_table(appended: Lane) -> None:
    """The checkpoint of a table is refused by another table of its name."""
    stream = appended.stream()
    stream.batch()
    appended.lake.call(appended.lake.lake.drop_table, appended.name)
    stream.lane = Lane(appended.connection)
    stream.start()
    with pytest.raises(InvalidInputError, match="another table"):
        stream.batch()


def test_mistaken_options(appended: Lane) -> None:
    """Options that only a read of one snapshot has, and changes of a table without a key, are refused."""
    with pytest.raises(InvalidInputError, match=r"'version'.*starting"):
        appended.stream(version="1")
    with pytest.raises(InvalidInputError, match="primary key"):
        appended.stream(changes="true").batch()
    wrong = struct_of(appended.do("schema")).add("nope", StringType())
    reader = LakehouseStreamReader(appended.connection, appended.name, ReadOptions(), wrong)
    with pytest.raises(InvalidInputError, match="nope"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with pytest.raises(InvalidInputError, match="no position"):
        appended.stream().reader.latestOffset({"x": 1}, ReadAllAvailable())


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.lists(st.integers(0, 12), min_size=1, max_size=5)),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 12), min_size=1, max_size=3)),
        st.tuples(
            st.sampled_from(["compact", "full", "batch", "restart", "again", "overwrite"]), st.just([])
        ),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS, limit=st.sampled_from([None, 1, 2, 5]), buckets=st.sampled_from([1, 3]))
def test_changes_lead_to_the_table(
    connection: Connection, steps: list[tuple[str, list[int]]], limit: int | None, buckets: int
) -> None:
    """Whoever applies the changes of all batches has the table, whatever happened and however it was cut."""
    lane = Lane(Connection(url=f"{connection.url}/{uuid.uuid4().hex}"), primary_key="id", bucket=buckets)
    how = {} if limit is None else {"max_rows_per_trigger": str(limit)}
    stream = lane.stream(changes="true", **how)
    copy: dict[int, float] = {}
    last: tuple[list[dict[str, Any]], tuple[str, str]] | None = None
    amount = 0.0

    def apply(batch: list[dict[str, Any]]) -> None:
        for one in batch:
            if one[CHANGE_COLUMN] in ("delete", "update_before"):
                assert copy.pop(one["id"]) == one["amount"]
        for one in batch:
            if one[CHANGE_COLUMN] in ("insert", "update_after"):
                assert one["id"] not in copy
                copy[one["id"]] = one["amount"]

    for what, numbers in [*steps, ("batch", []), *[("batch", [])] * 60]:
        amount += 1
        match what:
            case "upsert":
                lane.do("upsert", rows(*numbers, amount=amount))
            case "delete":
                lane.do("delete", keys=[{"id": one} for one in numbers])
            case "overwrite":
                lane.do("overwrite", rows(1, 5, amount=amount))
            case "compact" | "full":
                lane.do("compact", full=what == "full")
            case "restart":
                stream.start()
            case "again" if last is not None:
                key = repr
                assert sorted(map(key, stream.read(*last[1]))) == sorted(map(key, last[0]))
            case "batch":
                batch = stream.batch()
                if batch is not None:
                    apply(batch)
                    last = batch, stream.batches[-1]
    assert stream.batch() is None
    assert copy == lane.scan()


# --- in Spark ---------------------------------------------------------------------


@pytest.fixture
def registered(spark: SparkSession, connection: Connection) -> Iterator[SparkSession]:
    """A session that knows the warehouse of the test."""
    register(spark, connection)
    yield spark
    register(spark)


def _run(frame: DataFrame, at: Path) -> None:
    """Runs a query until nothing is left, and commits what it did."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(at / "out"))
        .option("checkpointLocation", str(at / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with plain_errors():
        query.awaitTermination()


def _frame(spark: SparkSession, **options: str) -> DataFrame:
    return spark.readStream.format("lakehouse").options(**options).load("db.t")


def test_query_restarted(registered: SparkSession, appended: Lane, tmp_path: Path) -> None:
    """A query that is started again with its checkpoint goes on where it was: each row comes once."""
    appended.do("append", rows(1, 2))
    appended.do("append", rows(3))
    _run(_frame(registered, max_rows_per_trigger="2"), tmp_path)
    # A batch that Spark planned and did not finish is planned again.
    commits = sorted(tmp_path.glob("checkpoint/commits/[0-9]*"), key=lambda one: int(one.name))
    assert len(commits) >= 2
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink()  # Spark's own, which would be in its way
    appended.do("compact", full=True)
    appended.do("append", rows(4, 5))
    _run(_frame(registered), tmp_path)
    found = registered.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(one["id"] for one in found) == [1, 2, 3, 4, 5]
    assert sorted(map(str, found[0].asDict())) == ["amount", "city", "id"]


def test_query_of_changes(registered: SparkSession, keyed: Lane, tmp_path: Path) -> None:
    """A query with changes=true has a column that says what happened."""
    keyed.do("append", rows(1, 2))
    keyed.do("delete", keys=[{"id": 1}])
    keyed.do("append", rows(3))
    _run(_frame(registered, changes="true", starting="2"), tmp_path)
    found = registered.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((one["id"], one[CHANGE_COLUMN]) for one in found) == [(1, "delete"), (3, "insert")]


def test_error_of_a_query(registered: SparkSession, appended: Lane, tmp_path: Path) -> None:
    """What ends a query is raised as our own error."""
    with pytest.raises(NotFoundError, match="no snapshot 77"):
        _run(_frame(registered, starting="77"), tmp_path)
