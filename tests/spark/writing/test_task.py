"""Tasks of a write, run without Spark: their files, their runs, and how much they hold."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError, UnavailableError
from lakehouse.expr import parse_where
from lakehouse.spark import Connection
from lakehouse.spark.runtime.connection import warehouse
from lakehouse.spark.writing.task import ACTION, DELETE, NOTHING, PUT, WriteJob, write_task
from tests.kit.spark_written import NAME, SCHEMA, data_files, made


def job_of(connection: Connection, **how: Any) -> WriteJob:
    """A write into the table."""
    core = warehouse(connection).table(NAME)
    schema = warehouse(connection).call(core.known).schema
    return WriteJob(connection=connection, root=core.root, schema=schema, **how)


def rows(ids: Any) -> pa.Table:
    """Rows with these ids."""
    numbers = np.asarray(ids, np.int64)
    return pa.table({"id": numbers, "part": ["a"] * len(numbers), "v": np.arange(len(numbers))}, SCHEMA)


def batches(table: pa.Table, count: int = 10_000) -> Iterator[pa.RecordBatch]:
    """As Spark hands them over."""
    yield from table.to_batches(max_chunksize=count)


def test_sorted_rows_are_one_run_however_many_buffers_they_fill(connection: Connection) -> None:
    """Rows of a key are never cut apart, so that the last one wins and no second run is begun."""
    made(connection, primary_key="id", options={"write.buffer_bytes": "1MB"})
    ids = np.repeat(np.arange(60_000), 5)
    done = write_task(job_of(connection, by_key=True), batches(rows(ids), 9_999))
    entries = done.written.entries
    assert len(entries) > 3
    assert {one.run for one in entries} == {0}
    assert (done.written.rows, sum(one.rows for one in entries)) == (300_000, 60_000)


def test_rows_of_a_key_are_put_in_order(connection: Connection) -> None:
    """The row that is greatest by the sequence field and then by all columns, nulls first, comes last."""
    made(connection, primary_key="id", options={"sequence.field": "v"})
    mixed = [(1, "b", 1), (1, "a", 2), (2, "x", 5), (3, None, 7), (3, "c", 7), (3, "d", None), (4, "e", 4)]
    table = pa.table(dict(zip(SCHEMA.names, zip(*mixed, strict=True), strict=True)), SCHEMA)
    for order in ([0, 1, 2, 3, 4, 5, 6], [1, 0, 2, 5, 4, 3, 6]):
        job = job_of(connection, by_key=True)
        (entry,) = write_task(job, batches(table.take(order), 2)).written.entries
        assert entry.rows == 4
        assert entry.stats[2].low == b"a"
        assert entry.stats[2].high == b"x"
        assert entry.stats[2].nulls == 0


def test_memory_of_a_worker_bounds_its_buffers(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Spark limits a worker's memory, buffers are a part of it and files get smaller."""
    made(connection, primary_key="id")
    found = []
    for limit in (resource.RLIM_INFINITY, 8 << 20):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        done = write_task(job_of(connection, by_key=True), batches(rows(np.arange(400_000))))
        found.append(len(done.written.entries))
    assert found[0] == 1
    assert found[1] > 3


def test_actions_say_what_becomes_of_rows(connection: Connection) -> None:
    """Rows are put, delete their keys, or only count among the keys that were looked at."""
    made(connection, primary_key="id")
    table = rows([1, 2, 3, 9]).append_column(ACTION, pa.array([NOTHING, PUT, DELETE, NOTHING]))
    done = write_task(job_of(connection, by_key=True, mixed=True, unique=True), batches(table, 2))
    assert [one.rows for one in done.written.entries] == [1]
    assert [(one.rows, one.deletes) for one in done.deleted.entries] == [(1, 1)]
    assert done.looked_at is not None
    assert [int.from_bytes(key, "big") - 2**63 for key in done.looked_at] == [1, 9]


@pytest.mark.parametrize("ids", [[1, 2, 2, 3], [1, 2, 3, 3]])
@pytest.mark.parametrize("by_key", [True, False])
def test_a_key_twice_is_an_error_where_keys_must_be_unique(
    connection: Connection, ids: list[int], by_key: bool
) -> None:
    """The error travels in the message, since another try would find the same, and no file stays."""
    made(connection, primary_key="id")
    done = write_task(job_of(connection, by_key=by_key, unique=True), batches(rows(ids), 3))
    assert isinstance(done.error, InvalidInputError)
    assert done.error.context["key"] == {"id": max(ids, key=ids.count)}
    assert data_files(connection) == set()


def test_an_error_that_may_pass_is_left_to_spark(connection: Connection) -> None:
    """What another try may mend is raised, and what was uploaded is deleted."""
    made(connection)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(rows([1]))
        raise UnavailableError("the store rests")

    with pytest.raises(UnavailableError):
        write_task(job_of(connection), failing())
    assert data_files(connection) == set()


def test_rows_must_match_the_condition_of_an_overwrite(connection: Connection) -> None:
    """A row outside is named."""
    made(connection)
    done = write_task(job_of(connection, where=parse_where("id < 2")), batches(rows([1, 2])))
    assert done.error is not None
    assert "'id': 2" in str(done.error)
