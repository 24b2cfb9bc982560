"""Write-ahead logs for tests: of a table without rows, on stores that fail, under the test's clock."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from lakehouse.clock import Clock
from lakehouse.format.metadata.snapshot import CommitKind, SchemaRef, Snapshot, WalRef
from lakehouse.format.metadata.wal_segment import WalBatch
from lakehouse.io import ObjectStore, RetryPolicy
from lakehouse.io.retrying import RetryingStore
from lakehouse.storage.wal.appender import WalAppender, take_over
from lakehouse.storage.wal.log import Wal
from lakehouse.testing import ManualClock
from tests.kit.table_samples import TABLE, TOKEN

__all__ = ["HEAD", "ROOT", "batch", "covering", "log_of", "put", "taken_over", "values_in"]

ROOT = "db/t-01020304"
HEAD = Snapshot(
    id=2,
    token=TOKEN,
    parent=None,
    kind=CommitKind.WAL,
    time_ms=1_000,
    table=TABLE,
    schema=SchemaRef(id=0, path="schema/schema-none"),
    wal=WalRef(epoch=0, upto=0),
)
"""Of a table whose log is empty."""


def covering(upto: int) -> Snapshot:
    """A head that covers the log up to a segment."""
    return dataclasses.replace(HEAD, wal=WalRef(epoch=0, upto=upto))


def log_of(store: ObjectStore, clock: Clock | None = None) -> Wal:
    """The log as one process sees it, whose requests are tried three times without waiting."""
    policy = RetryPolicy(attempts=3, base_s=0, cap_s=0, deadline_s=60, clock=clock or ManualClock(skip=True))
    return Wal(RetryingStore(store, policy), ROOT, TABLE)


async def taken_over(
    store: ObjectStore, *, head: Snapshot = HEAD, clock: Clock | None = None, deadline_s: float = 300
) -> WalAppender:
    """A process that has taken the log over."""
    clock = clock or ManualClock(skip=True)
    return await take_over(log_of(store, clock), head, clock=clock, deadline_s=deadline_s)


def batch(*values: int) -> WalBatch:
    """Rows of one column."""
    return WalBatch(rows=pa.table({"v": pa.array(values, pa.int64())}))


async def put(appender: WalAppender, *values: int) -> int:
    """Appends a segment with these values; its number."""
    segment = await appender.append(appender.header(0), [batch(*values)], codec="none")
    return segment.header.number


async def values_in(store: ObjectStore, *, after: int = 0) -> list[int]:
    """All values in the log, in order."""
    wal, found = log_of(store), list[int]()
    tail = wal.tail_of(await wal.log.listed(after=after), after=after)
    for number in range(after + 1, tail.upto + 1):
        for one in (await wal.read(number)).batches:
            found += one.rows.column("v").to_pylist()
    return found
