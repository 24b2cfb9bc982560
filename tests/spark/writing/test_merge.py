"""Merges: what each clause does, what is read for it, and what others commit meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakehouse.errors import InvalidInputError
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.source import register
from lakehouse.spark.writing import job
from lakehouse.spark.writing.frame_write import write
from tests.kit.spark_written import NAME, data_files, frame, made, some, values_of

LAYOUTS: dict[str, dict[str, Any]] = {
    "keyed": {"primary_key": "id"},
    "buckets": {"primary_key": "id", "bucket": 3},
    "rows move between partitions": {"primary_key": "id", "partition_by": "part"},
}


@pytest.fixture
def changes(spark: SparkSession) -> DataFrame:
    """A row to change, one to delete, one to leave, and two that are new."""
    rows = [(1, 11, "u"), (2, 12, "d"), (3, 13, ""), (7, 17, "u"), (8, 18, "d")]
    return spark.createDataFrame(rows, "ID int, v long, op string")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_clauses_are_taken_in_their_order(
    spark: SparkSession, connection: Connection, changes: DataFrame, layout: str
) -> None:
    """Each row of the source does what the first clause says that holds, or nothing."""
    table = made(connection, **LAYOUTS[layout])
    warehouse(connection).call(table.append, some(*range(6)))
    done = (
        write(changes, NAME, connection=connection)
        .merge(on="id")
        .when_matched_delete("source.op = 'd'")
        .when_matched_update({"v": sf.col("source.v") + sf.col("target.id")}, "source.op = 'u'")
        .when_matched_update({"v": "-1"}, "false")
        .when_not_matched_insert("source.op <> 'd'", {"id": "source.id", "part": "'n'", "v": "source.v"})
        .run(message="changes")
    )
    assert done.changed
    assert values_of(connection) == {0: 0, 1: 12, 3: 0, 4: 0, 5: 0, 7: 17}
    assert warehouse(connection).call(table.verify).ok
    assert warehouse(connection).call(table.current_snapshot) == 3  # created, appended, merged


def test_whole_rows_are_taken_where_columns_are_not_named(
    spark: SparkSession, connection: Connection, changes: DataFrame
) -> None:
    """An update sets what the source has and leaves other columns; an insert fills them with nulls."""
    table = made(connection, primary_key="id")
    house = warehouse(connection)
    house.call(table.append, some(1, part="old"))
    source = changes.where("op = 'u'")
    merge = write(source, NAME, connection=connection).merge(on=["id"])
    merge.when_matched_update().when_not_matched_insert().run()

    async def rows() -> list[dict[str, Any]]:
        return await table.scan().to_pylist()

    assert house.call(rows) == [{"id": 1, "part": "old", "v": 11}, {"id": 7, "part": None, "v": 17}]


def test_any_condition_joins(spark: SparkSession, connection: Connection, changes: DataFrame) -> None:
    """On other columns, rows that no row of the source meets can be changed and deleted too."""
    register(spark, connection)
    table = made(connection, primary_key="id")
    warehouse(connection).call(table.append, some(2, 3, 4, 5, 6))
    (
        write(changes, NAME)
        .merge(on="source.id + 1 = target.id")
        .when_matched_update({"v": "source.v"})
        .when_not_matched_by_source_delete("target.id = 5")
        .when_not_matched_by_source_update({"v": "-1"})
        .run()
    )
    assert values_of(connection) == {2: 11, 3: 12, 4: 13, 6: -1}
    write(changes.where("v = 13"), NAME).merge(on="v").when_matched_delete().run()
    assert values_of(connection) == {2: 11, 3: 12, 6: -1}


def test_an_upsert_in_other_words_reads_nothing(spark: SparkSession, connection: Connection) -> None:
    """A merge that puts whole rows whatever there is does not look at the table."""
    table = made(connection, primary_key="id")
    warehouse(connection).call(table.append, some(1, 2))
    merge = write(frame(spark, some(2, 3, v=5)), NAME, connection=connection).merge(on="id")
    done = merge.when_matched_update().when_not_matched_insert().run(writer=("m", 1))
    assert (done.snapshot, done.cost.bytes_read) == (3, 0)
    assert values_of(connection) == {1: 0, 2: 5, 3: 5}
    assert not merge.when_matched_update().when_not_matched_insert().run(writer=("m", 1)).changed


@pytest.mark.parametrize("joins", [False, True])
def test_two_rows_of_the_source_must_not_change_one_row(
    spark: SparkSession, connection: Connection, joins: bool
) -> None:
    """They are refused by key; rows that do nothing do not count."""
    register(spark, connection)
    table = made(connection, primary_key="id")
    warehouse(connection).call(table.append, some(1, 2))
    before = data_files(connection)
    source = frame(spark, [*some(1, v=5), *some(1, v=6), *some(2, v=7)])
    merge = write(source, NAME).merge(on="source.id = target.id" if joins else "id")
    with pytest.raises(InvalidInputError, match="two rows of this write have the key id = 1"):
        merge.when_matched_update({"v": "source.v"}).run()
    assert data_files(connection) == before
    merge.when_matched_update({"v": "source.v"}, "source.v > 5").run()
    assert values_of(connection) == {1: 6, 2: 7}


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        (lambda merge: merge.when_matched_update({"id": "1"}), "part of the primary key"),
        (lambda merge: merge.when_matched_update({"w": "1"}), "has no column 'w'"),
        (lambda merge: merge, "needs a clause"),
    ],
)
def test_what_a_merge_cannot_do_is_refused(
    spark: SparkSession, connection: Connection, clause: Callable[[Any], Any], why: str
) -> None:
    """Keys cannot be set, nor columns that are not there; a merge without clauses is none."""
    made(connection, primary_key="id")
    with pytest.raises(InvalidInputError, match=why):
        clause(write(frame(spark, some(1)), NAME, connection=connection).merge(on="id")).run()


def test_tables_that_fold_or_have_no_key_take_no_merge(spark: SparkSession, connection: Connection) -> None:
    """Engines that merge rows by themselves would merge a merge's rows once more."""
    made(connection, primary_key="id", options={"merge_engine": "aggregation", "fields.v.aggregate": "sum"})
    made(connection, "db.plain")
    rows = frame(spark, some(1))
    for name, why in ((NAME, "engine aggregation"), ("db.plain", "needs a primary key")):
        with pytest.raises(InvalidInputError, match=why):
            write(rows, name, connection=connection).merge(on="id").when_matched_delete().run()


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What others do between the first jobs' uploads and their commits."""
    steps: list[Callable[[], object]] = []
    uploaded = job._uploaded

    def stepping_in(rows: Any, of: Any) -> Any:
        done = uploaded(rows, of)
        if steps:
            steps.pop(0)()
        return done

    monkeypatch.setattr(job, "_uploaded", stepping_in)
    yield steps
    assert not steps


def test_rows_that_change_meanwhile_are_merged_as_they_are_then(
    spark: SparkSession, connection: Connection, between: list[Callable[[], object]]
) -> None:
    """When others commit rows that were looked at, the merge is run again on what they left."""
    table = made(connection, primary_key="id")
    house = warehouse(connection)
    house.call(table.append, some(1, 2, 3))
    between += [
        lambda: house.call(table.upsert, some(2, v=100)),
        lambda: house.call(table.delete, keys=[{"id": 1}]),
    ]
    merge = write(frame(spark, some(1, 2, v=5)), NAME, connection=connection).merge(on="id")
    merge.when_matched_update({"v": "target.v + source.v"}).when_not_matched_insert().run()
    assert values_of(connection) == {1: 5, 2: 105, 3: 0}


def test_commits_that_cannot_matter_do_not_run_a_merge_again(
    spark: SparkSession, connection: Connection, between: list[Callable[[], object]]
) -> None:
    """Rows of other keys, compaction and tags leave the decision as it is."""
    table = made(connection, primary_key="id")
    house = warehouse(connection)
    house.call(table.append, some(1, 2, 3))
    house.call(table.upsert, some(2, v=1))

    def others() -> None:
        house.call(table.upsert, some(900))
        house.call(table.compact, full=True)
        house.call(table.create_tag, "t")

    between.append(others)
    calls: list[object] = []
    merge = write(frame(spark, some(1, 2, v=5)), NAME, connection=connection).merge(on="id")
    counted = merge.when_matched_update({"v": "target.v + source.v"})
    rows = counted._acted
    counted._acted = lambda *of: (calls.append(of), rows(*of))[1]  # type: ignore[method-assign]
    counted.run()
    assert (values_of(connection), len(calls)) == ({1: 5, 2: 6, 3: 0, 900: 0}, 1)


def test_rows_in_the_log_are_merged_and_later_ones_stay_above(
    spark: SparkSession, connection: Connection, between: list[Callable[[], object]]
) -> None:
    """What the log holds when a merge begins is read; what is put while it runs is newer than it."""
    table = made(connection, primary_key="id")
    house = warehouse(connection)

    async def put(value: int, *numbers: int) -> None:
        async with table.writer() as writer:
            await (await writer.put([dict(row) for row in some(*numbers, v=value)]))

    house.call(put, 1, 1, 2)
    merge = write(frame(spark, some(1, 2, v=5)), NAME, connection=connection).merge(on="id")
    merge.when_matched_update({"v": "target.v + source.v"}).run()
    assert values_of(connection) == {1: 6, 2: 6}
