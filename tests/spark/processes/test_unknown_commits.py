"""Jobs whose commit got no answer: run again as they were, they are done once, whatever came of the first.

The driver and its workers reach the store through a proxy, which breaks the creation of the table's next
snapshot, before or after the store has done it, and keeps the driver from reading what came of it. Another
writer commits before the job is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import CommitUnknownError
from lakehouse.spark import Connection, compact, rewrite
from lakehouse.spark.runtime.connection import Warehouse, warehouse
from lakehouse.spark.runtime.errors import plain_errors
from lakehouse.spark.source import register
from lakehouse.spark.streaming.writer import write_stream
from lakehouse.spark.writing.frame_write import Write, write
from lakehouse.storage.table import Table
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.http_wire import Request
from lakehouse.testing.proxy import FaultProxy, proxy_thread
from lakehouse.testing.proxy_rules import LoseAnswer, Reset, Rule
from tests.kit.spark_written import SCHEMA, frame, made, rows_of, some

QUICK = {"io.retry_base_s": 0.01, "io.retry_cap_s": 0.02, "io.retry_attempts": 2, "io.fast_reads": "off"}
WRITER = ("job", 1)
OUTCOMES = ("applied", "not applied")
Job = Callable[[], object]


class Broken:
    """A warehouse behind a proxy that can break the commits of one table at a time.

    Args:
        proxy: stands before the store.
        direct: the warehouse without it.
        behind: the warehouse with it.
    """

    def __init__(self, proxy: FaultProxy, direct: Connection, behind: Connection) -> None:
        self.direct, self.behind = direct, behind
        self._table, self._outcome = "", ""
        proxy.add(Rule(match=self._creates("applied"), action=LoseAnswer(), times=None))
        proxy.add(Rule(match=self._creates("not applied"), action=Reset(), times=None))
        proxy.add(Rule(match=self._reads_back, action=Reset(), times=None))
        self._broken: set[str] = set()

    def commits_of(self, table: Table, outcome: str) -> None:
        """From now on they get no answer."""
        self._table, self._outcome = table.core.root, outcome
        self._broken.clear()

    def heal(self) -> None:
        """From now on all is well."""
        self._outcome = ""

    @property
    def was_seen(self) -> bool:
        """Whether a commit was broken."""
        return bool(self._broken)

    def _creates(self, outcome: str) -> Callable[[Request], bool]:
        def match(request: Request) -> bool:
            chosen = outcome == self._outcome and request.method == "PUT"
            if not chosen or f"{self._table}/snapshot/snapshot-" not in request.path:
                return False
            self._broken.add(request.path)
            return True

        return match

    def _reads_back(self, request: Request) -> bool:
        return bool(self._outcome) and request.method == "GET" and request.path in self._broken


@pytest.fixture(scope="module")
def broken(minio: ServerInfo) -> Iterator[Broken]:
    """One warehouse for all of these tests; each has a table of its own."""
    with fresh_bucket(minio) as bucket, proxy_thread(minio.endpoint_url) as proxy:
        url = f"s3://{bucket}/warehouse"
        options = minio.storage_options
        direct = Connection(url=url, storage_options=options)
        behind = Connection(url=url, storage_options={**options, "endpoint_url": proxy.url}, settings=QUICK)
        yield Broken(proxy, direct, behind)


class Case:
    """A table of three rows, and what the other writer does.

    Args:
        broken: the warehouse.
        name: of the table.
        how: is it made.
    """

    def __init__(self, broken: Broken, name: str, **how: Any) -> None:
        self.broken, self.name = broken, name
        self.house: Warehouse = warehouse(broken.direct)
        self.table = made(broken.direct, name, SCHEMA, **how)
        self.house.call(self.table.append, some(1, 2, 3))

    def commit_without_answer(self, job: Job, outcome: str) -> None:
        """Runs a job whose commit gets no answer, which it says; then another one writes."""
        self.broken.commits_of(self.table, outcome)
        try:
            with pytest.raises(CommitUnknownError, match="not known whether"), plain_errors():
                job()
        finally:
            self.broken.heal()
        assert self.broken.was_seen
        self.house.call(self.table.append, some(2, 9, v=100))

    def values(self) -> list[tuple[int, int]]:
        """All rows, of a table in which every file is what its snapshot says."""
        assert self.house.call(self.table.verify, deep=True).ok
        return sorted((row["id"], row["v"]) for row in rows_of(self.broken.direct, self.name))


def _merged(to: Write) -> object:
    merge = to.merge(on="id").when_matched_update({"v": "target.v + source.v"})
    return merge.when_not_matched_insert().run(writer=WRITER)


OPERATIONS: dict[str, tuple[Callable[[Write], object], list[tuple[int, int]], list[tuple[int, int]]]] = {
    # What is done with the rows 2 and 7 of v = 5; the rows when it came first, and when it came last.
    "append": (
        lambda to: to.append(writer=WRITER),
        [(1, 0), (2, 0), (2, 5), (2, 100), (3, 0), (7, 5), (9, 100)],
        [(1, 0), (2, 0), (2, 5), (2, 100), (3, 0), (7, 5), (9, 100)],
    ),
    "upsert": (
        lambda to: to.upsert(writer=WRITER),
        [(1, 0), (2, 100), (3, 0), (7, 5), (9, 100)],
        [(1, 0), (2, 5), (3, 0), (7, 5), (9, 100)],
    ),
    "delete": (
        lambda to: to.delete(writer=WRITER),
        [(1, 0), (2, 100), (3, 0), (9, 100)],
        [(1, 0), (3, 0), (9, 100)],
    ),
    "overwrite": (
        lambda to: to.overwrite(writer=WRITER),
        [(2, 100), (7, 5), (9, 100)],
        [(2, 5), (7, 5)],
    ),
    "overwrite where": (
        lambda to: to.overwrite("id in (2, 3, 7)", writer=WRITER),
        [(1, 0), (2, 100), (7, 5), (9, 100)],
        [(1, 0), (2, 5), (7, 5), (9, 100)],
    ),
    "merge": (
        _merged,
        [(1, 0), (2, 100), (3, 0), (7, 5), (9, 100)],
        [(1, 0), (2, 105), (3, 0), (7, 5), (9, 100)],
    ),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_write_that_is_run_again_is_made_once(
    spark: SparkSession, broken: Broken, operation: str, outcome: str
) -> None:
    """With the same writer: its rows are there once, and what others wrote in between is kept or replaced."""
    done, first, last = OPERATIONS[operation]
    keyed = {} if operation == "append" else {"primary_key": "id"}
    case = Case(broken, f"db.{operation}_{outcome}".replace(" ", "_"), **keyed)
    to = write(frame(spark, some(2, 7, v=5)), case.name, connection=broken.behind)
    case.commit_without_answer(lambda: done(to), outcome)
    result: Any = done(to)
    assert result.changed == (outcome == "not applied")
    assert case.values() == (first if outcome == "applied" else last)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_save_that_is_run_again_is_made_once(spark: SparkSession, broken: Broken, outcome: str) -> None:
    """Through the data source, where Spark aborts a write whose commit raised: no file of it is deleted."""
    case = Case(broken, f"db.save_{outcome}".replace(" ", "_"))
    register(spark, broken.behind)
    writer = frame(spark, some(2, 7, v=5)).write.format("lakehouse").mode("append")
    writer = writer.options(writer_id="job", writer_sequence=1)
    case.commit_without_answer(lambda: writer.save(case.name), outcome)
    writer.save(case.name)
    assert case.values() == OPERATIONS["append"][1]


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("job", ["compact", "rewrite"])
def test_maintenance_that_is_run_again_keeps_every_row(
    spark: SparkSession, broken: Broken, job: str, outcome: str
) -> None:
    """Merged files whose commit got no answer may be in the table: none of them is deleted."""
    keyed = {"primary_key": "id"} if job == "compact" else {}
    case = Case(broken, f"db.{job}_{outcome}".replace(" ", "_"), **keyed)
    case.house.call(case.table.append, some(3, 4, v=1))

    def run() -> object:
        if job == "compact":
            return compact(spark, case.name, connection=broken.behind, full=True)
        return rewrite(spark, case.name, connection=broken.behind, sort_by="v")

    keep = [] if job == "compact" else [(2, 0), (3, 0)]
    rows = sorted([*keep, (1, 0), (2, 100), (3, 1), (4, 1), (9, 100)])
    case.commit_without_answer(run, outcome)
    assert case.values() == rows
    run()
    assert case.values() == rows


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_batch_that_spark_runs_again_is_written_once(
    spark: SparkSession, broken: Broken, tmp_path: Path, outcome: str
) -> None:
    """A query ends when it is not known whether its batch was written; started again, it goes on."""
    case = Case(broken, f"db.stream_{outcome}".replace(" ", "_"))
    register(spark, broken.behind)
    source = tmp_path / "source"
    frame(spark, some(2, 7, v=5), 1).write.json(str(source))
    rows = spark.readStream.schema("id long, part string, v long").json(str(source))

    def run() -> None:
        checkpoint, trigger = str(tmp_path / "checkpoint"), {"availableNow": True}
        write_stream(rows, case.name, checkpoint=checkpoint, trigger=trigger).awaitTermination()

    case.commit_without_answer(run, outcome)
    run()
    assert case.values() == OPERATIONS["append"][1]
