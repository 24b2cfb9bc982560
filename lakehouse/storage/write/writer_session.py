"""An open streaming writer: rows are durable once they are in the log, and in data files soon after.

Rows that are put are checked and queued; one task makes segments of the queue, one segment at a time, and
acknowledges; another flushes memtables meanwhile. Puts during an append go into the next segment.

::

    open(): fence the log off
      │
      ▼      _flush_failure: tried again; puts wait when memory is full
    OPEN ◄───────────────────────────────────────────────────────────► OPEN, flush failing
      │ └─── fenced, outcome unknown, table dropped, a task died ────► FAILED: put and flush raise _failure
      │ close(): flush(), stop()                                         │ stop()
      ▼                                                                  │
    CLOSING: the log task empties the queue, the flush is cancelled ◄────┘

    put ─ _some_put ─► log task: segment, acks ─ _some_closed ─► flush task ─ _moved ─► put, flush that wait

Invariant: an acknowledged row is in the log, which every commit covers, so no crash loses it and every
read with ``freshness="wal"`` sees it. Acknowledgements come in the order of the puts. After an
error that leaves the outcome of a segment open, nothing more is acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import pyarrow as pa

from lakehouse.errors import (
    CommitUnknownError,
    FencedError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.format.metadata import CommitKind, SegmentHeader, WalBatch, WalSegment
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import Report
from lakehouse.log import get_logger
from lakehouse.storage.commit.committer import Base
from lakehouse.storage.commit.draft import Draft
from lakehouse.storage.compact.background import auto_compaction
from lakehouse.storage.rows.missing_columns import Missing
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.appender import WalAppender
from lakehouse.storage.write.flush import flush_table
from lakehouse.storage.write.log_batches import log_batch, put_weight, rows_of
from lakehouse.storage.write.log_wait import LogWait
from lakehouse.storage.write.memtable import Memtables
from lakehouse.storage.write.table_write import check_writer

__all__ = ["Ack", "WriterReport", "WriterSession", "closed_error"]

_log = get_logger(__name__)
_QUEUE_SEGMENTS = 4
"""Number of segments' bytes that may wait for the log before further puts wait to be queued."""
_PAUSE_S, _PAUSE_MAX_S = 0.05, 2.0
_TICK_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterReport(Report):
    """Counts of a streaming writer: what it has written, and how many bytes it holds."""

    epoch: int
    puts: int = 0
    rows: int = 0
    """Number of rows acknowledged."""
    segments: int = 0
    """Number of segments written to the log."""
    flushes: int = 0
    queued_bytes: int = 0
    """Bytes of puts that are not acknowledged."""
    memory_bytes: int = 0
    """Bytes of rows that are acknowledged and in no data file yet."""
    memtables_waiting: int = 0
    waiting_s: float = 0.0
    """Seconds for which the current segment has been waiting to be written; 0 when none is."""


class Ack:
    """Durability of one put: ``await ack`` returns the number of the segment that holds its rows.

    It may be awaited any number of times, or not at all.
    """

    __slots__ = ("_done", "is_heard")

    def __init__(self, done: asyncio.Future[int]) -> None:
        self._done = done
        self.is_heard = False
        """Whether somebody has awaited it, and so receives the error if it fails."""

    def __await__(self) -> Generator[Any, None, int]:
        self.is_heard = True
        # Giving up on one wait must not take the outcome from others.
        return asyncio.shield(self._done).__await__()

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self._done.done()


@dataclass(slots=True, kw_only=True)
class _Put:
    rows: pa.Table
    schema: TableSchema
    bytes: int
    done: asyncio.Future[int]
    ack: Ack
    mark: tuple[str, int] | None = None


class _BeginLog:
    """The commit that gives a table its write-ahead log."""

    blind: ClassVar[bool] = False

    async def draft(self, base: Base) -> Draft | None:
        """Drafts nothing if the table has a log already."""
        return None if base.snapshot.wal is not None else Draft(kind=CommitKind.WAL, begins_log=True)


class _AnnounceEpoch:
    """The commit that says who has taken the log over, before a row of the new writer is in it."""

    blind: ClassVar[bool] = False

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    async def draft(self, base: Base) -> Draft | None:
        """Drafts the new epoch, and the cover of what earlier writers left in the log."""
        newest = 0 if base.snapshot.wal is None else base.snapshot.wal.epoch
        if newest > self._epoch:
            raise FencedError(
                f"another writer (epoch {newest}) has taken the log over since this one (epoch "
                f"{self._epoch}) did. Open a new writer to go on.",
                epoch=self._epoch,
                winner_epoch=newest,
            )
        return Draft(kind=CommitKind.WAL, log_epoch=self._epoch)


class WriterSession:
    """An open streaming writer.

    Args:
        table: the table.
        view: the newest state, in which the table has a log.
        appender: the log, taken over.
    """

    def __init__(self, table: OpenTable, view: View, appender: WalAppender) -> None:
        self._table, self._view, self._appender = table, view, appender
        self._clock = table.env.clock
        options = view.options
        self._memtables = Memtables(
            max_bytes=options.write_memtable_bytes,
            max_segments=options.wal_segments_max,
            max_waiting=options.write_memtables,
        )
        self._held = table.hold_log(appender)
        self._queue: deque[_Put] = deque()
        self._queued = 0
        self._wait = LogWait(str(table.name), self._clock, lambda: len(self._queue))
        self._pending: dict[str, tuple[int, asyncio.Future[int]]] = {}
        """For each client that counts its puts, the sequence and the outcome of the last one queued."""
        self._last_done: asyncio.Future[int] | None = None
        """Outcome of the newest put."""
        self._some_put = asyncio.Event()
        """Set when something was put, or the writer is to end."""
        self._some_closed = asyncio.Event()
        """Set when a memtable was closed."""
        self._moved = asyncio.Event()
        """Set when room was made, rows were flushed, or something failed."""
        self._closing = False
        self._failure: LakehouseError | None = None
        self._lost: list[Ack] = []
        """Acks of puts that failed."""
        self._flush_failure: tuple[float, LakehouseError] | None = None
        self._puts = self._rows = self._segments = self._flushes = 0
        self._auto = auto_compaction(table)
        self._open = contextlib.ExitStack()
        self._open.enter_context(self._auto.writing())
        self._inherited = appender.last if _has_unflushed(view, appender) else None
        """Last segment of earlier writers, as long as rows of theirs are in no data file."""
        loop = asyncio.get_running_loop()
        self._log_task = loop.create_task(self._write_log())
        self._flush_task = loop.create_task(self._flush_memtables())
        for task in (self._log_task, self._flush_task):
            task.add_done_callback(self._ended)

    @classmethod
    async def open(cls, table: OpenTable) -> Self:
        """Takes the table's log over and starts the writer's tasks."""
        table.expect_commit()
        view = await table.newest()
        if view.snapshot.wal is None:
            await table.commit(_BeginLog(), view=view)
            view = await table.newest()
        appender = await table.take_log_over(view.snapshot, deadline_s=view.options.commit_deadline_s)
        # A drop of the table may have fenced the log off before it was taken over here: then this fails.
        await table.commit(_AnnounceEpoch(appender.epoch), view=view, tail=appender.before)
        return cls(table, await table.known(), appender)

    async def close(self) -> None:
        """Waits until everything put is durable and flushed, and ends the tasks.

        A put that failed is an error here too, unless somebody awaited it.
        """
        try:
            if self._failure is None and not self._log_task.done():
                await self.flush()
        finally:
            await self.stop()
        await self._table.recheck.at_end()
        lost, self._lost = self._lost, []
        if self._failure is not None and not all(ack.is_heard for ack in lost):
            self._raise_failure(self._failure)

    async def stop(self) -> None:
        """Ends without a flush: what is durable is in the log, where the next commit finds it."""
        self._closing = True
        self._some_put.set()
        self._moved.set()
        self._held.close()
        self._flush_task.cancel()
        await asyncio.wait([self._log_task, self._flush_task])
        self._open.close()
        self._fail_queue(closed_error())

    # --- putting ------------------------------------------------------------------

    async def put(
        self, data: object, mark: tuple[str, int] | None, *, deletes: bool, missing: Missing | None
    ) -> Ack:
        """Queues rows, or keys to be deleted, once there is room."""
        self._check_open()
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_looked_at)
        check_writer(mark)
        if mark is not None and (known := self._known(mark)) is not None:
            return Ack(known)
        schema, rows = await self._conformed(data, deletes=deletes, missing=missing)
        weight = put_weight(rows, schema)
        await self._room(weight)
        # Another task may have queued the same sequence meanwhile.
        if mark is not None and (known := self._known(mark)) is not None:
            return Ack(known)
        ack = Ack(done)
        self._queue.append(_Put(rows=rows, schema=schema, bytes=weight, done=done, ack=ack, mark=mark))
        self._queued += weight
        self._last_done = done
        if mark is not None:
            self._pending[mark[0]] = mark[1], done
        self._some_put.set()
        return ack

    def _known(self, mark: tuple[str, int]) -> asyncio.Future[int] | None:
        """Returns the outcome of the put that has this sequence of the client; None if there was none."""
        name, sequence = mark
        pending = self._pending.get(name)
        if pending is not None and pending[0] >= sequence:
            return pending[1]
        if self._appender.marks.get(name, -1) < sequence:
            return None
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(self._appender.last)
        return done

    async def _conformed(
        self, data: object, *, deletes: bool, missing: Missing | None
    ) -> tuple[TableSchema, pa.Table]:
        """Fits the rows to the schema this writer knows or, if they do not fit, to the newest."""
        schema = self._view.schema
        try:
            return schema, await rows_of(data, schema, deletes=deletes, missing=missing)
        except InvalidInputError:
            view = await self._table.newest()
            if view.schema == schema:
                raise
            self._view = view
            return view.schema, await rows_of(data, view.schema, deletes=deletes, missing=missing)

    async def _room(self, weight: int) -> None:
        """Waits until there is room in the queue and in the memtables."""
        options = self._view.options
        limit = _QUEUE_SEGMENTS * options.wal_segment_bytes
        while (self._queued and self._queued + weight > limit) or not self._memtables.has_room:
            self._check_open()
            failed = self._flush_failure
            if failed is not None and self._clock.steady() - failed[0] > options.commit_deadline_s:
                raise UnavailableError(
                    f"rows cannot be flushed since {self._clock.steady() - failed[0]:.0f} s, and memory is "
                    f"full: {failed[1]}"
                ) from failed[1]
            self._moved.clear()
            await self._moved.wait()
        self._check_open()

    def _check_open(self) -> None:
        if self._failure is not None:
            self._raise_failure(self._failure)
        if self._closing:
            raise closed_error()

    def _raise_failure(self, error: LakehouseError) -> NoReturn:
        raise type(error)(error.message, kind=error.kind, **error.context) from error

    # --- reading and flushing -----------------------------------------------------

    async def flush(self) -> None:
        """Waits until everything put before is durable and in data files."""
        self._check_open()
        if self._last_done is not None:
            await asyncio.shield(self._last_done)
        upto = self._appender.last
        self._some_closed.set()
        while self._inherited is not None or any(table.first <= upto for table in self._memtables.all()):
            if self._memtables.close(upto=upto):
                self._some_closed.set()
            self._check_open()
            if self._flush_failure is not None:
                raise self._flush_failure[1]
            self._moved.clear()
            await self._moved.wait()

    def report(self) -> WriterReport:
        """Returns the counts of the writer."""
        self._check_open()
        return WriterReport(
            epoch=self._appender.epoch,
            puts=self._puts,
            rows=self._rows,
            segments=self._segments,
            flushes=self._flushes,
            queued_bytes=self._queued,
            memory_bytes=self._memtables.bytes,
            memtables_waiting=self._memtables.waiting,
            waiting_s=self._wait.seconds,
        )

    # --- the log ------------------------------------------------------------------

    async def _write_log(self) -> None:
        """Makes segments of the queue until the writer ends."""
        while True:
            while not self._queue:
                if self._closing:
                    return
                self._some_put.clear()
                await self._some_put.wait()
            interval = self._view.options.wal_interval_ms
            # Waiting lets more puts share one segment.
            if interval and not self._closing:
                await asyncio.sleep(interval / 1000)
            try:
                await self._write_segment(self._next_group())
            except LakehouseError as error:
                self._fail(error)
                return

    def _next_group(self) -> list[_Put]:
        """Returns the puts of the next segment: of one schema, and not too many bytes."""
        limit, held = self._view.options.wal_segment_bytes, 0
        group: list[_Put] = []
        while self._queue and (
            not group or (self._queue[0].schema == group[0].schema and held + self._queue[0].bytes <= limit)
        ):
            group.append(self._queue.popleft())
            held += group[-1].bytes
        return group

    async def _write_segment(self, group: list[_Put]) -> None:
        """Puts a group into the log and acknowledges it."""
        schema = group[0].schema
        for put in group:
            if put.mark is not None:
                # Removed first, so that the newest client is the last in the dict.
                self._appender.marks.pop(put.mark[0], None)
                self._appender.marks[put.mark[0]] = put.mark[1]
        header = self._appender.header(schema.id)
        filled = [put.rows for put in group if put.rows.num_rows]
        try:
            await self._table.before_write()
            batches = [await log_batch(filled, schema)] if filled else []
            segment = None
            if batches:
                waiting = self._wait.waiting(len(group), self._view.options.commit_deadline_s)
                with waiting, self._held.sending():
                    segment = await self._append(header, batches)
        except BaseException as error:
            failure = error if isinstance(error, LakehouseError) else _interrupted_error()
            for put in group:
                self._fail_put(put, failure)
            raise
        finally:
            self._queued -= sum(put.bytes for put in group)
            self._moved.set()
        if segment is not None:
            self._table.recheck.beside_write()
            self._segments += 1
            self._held.add(segment)
            if self._memtables.add(segment, self._clock.steady()):
                self._some_closed.set()
        self._puts += len(group)
        self._rows += sum(put.rows.num_rows for put in group)
        for put in group:
            put.done.set_result(self._appender.last)
            if put.mark is not None and self._pending.get(put.mark[0]) == (put.mark[1], put.done):
                del self._pending[put.mark[0]]

    async def _append(self, header: SegmentHeader, batches: Sequence[WalBatch]) -> WalSegment:
        """Appends a segment, and tries again while the store's answers leave its outcome open."""
        options = self._view.options
        began, pause = self._clock.steady(), _PAUSE_S
        unknown: CommitUnknownError | None = None
        while True:
            try:
                return await self._appender.append(header, batches, codec=options.wal_compression)
            except FencedError:
                # A drop of the table fences its writer off: then reading the head raises the better error.
                await self._table.newest()
                raise
            except (CommitUnknownError, UnavailableError) as error:
                if isinstance(error, CommitUnknownError):
                    unknown = error
                if self._clock.steady() - began > options.commit_deadline_s or self._closing:
                    # The last attempt may have sent nothing, and an earlier one have succeeded.
                    raise unknown or error from error
            await self._clock.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX_S)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Fails the session when a background task dies, so that no caller waits for ever."""
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is None:
            self._fail(InternalError(f"the writer of {self._table.name} ended by {error!r}"))

    def _fail(self, error: LakehouseError) -> None:
        """Fails the session: nothing can be put any more."""
        self._failure = error
        self._held.close()
        self._fail_queue(error)
        self._moved.set()

    def _fail_queue(self, error: LakehouseError) -> None:
        while self._queue:
            put = self._queue.popleft()
            self._queued -= put.bytes
            self._fail_put(put, error)

    def _fail_put(self, put: _Put, error: LakehouseError) -> None:
        self._lost.append(put.ack)
        put.done.set_exception(error)

    # --- flushing -----------------------------------------------------------------

    async def _flush_memtables(self) -> None:
        """Flushes memtables as they are closed, and closes them when they have become old."""
        pause = _PAUSE_S
        while True:
            interval = self._view.options.snapshot_interval_s
            self._memtables.close(began_before=self._clock.steady() - interval)
            memtable = self._memtables.oldest()
            if memtable is None and self._inherited is None:
                self._some_closed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(interval / 4, _TICK_S)):
                        await self._some_closed.wait()
                continue
            upto = self._inherited if memtable is None else memtable.last
            segments = memtable.segments if memtable is not None else ()
            held = {segment.header.number: segment for segment in segments}
            try:
                await self._auto.make_room(self._table)
                await flush_table(self._table, upto=upto, segments=self._held_or_stored(held))
            except NotFoundError as gone:
                # The table was dropped.
                self._fail(gone)
                return
            except LakehouseError as error:
                if self._flush_failure is None:
                    self._flush_failure = self._clock.steady(), error
                _log.warning("a flush failed and is tried again", table=str(self._table.name), error=error)
                self._moved.set()
                await self._clock.sleep(pause)
                pause = min(2 * pause, _PAUSE_MAX_S)
                continue
            pause, self._flush_failure, self._inherited = _PAUSE_S, None, None
            if memtable is not None:
                self._memtables.flushed(memtable)
                self._held.release(memtable.last)
                self._flushes += 1
            self._view = await self._table.known()
            self._memtables.max_waiting = self._view.options.write_memtables
            self._moved.set()

    def _held_or_stored(self, held: Mapping[int, WalSegment]):  # type: ignore[no-untyped-def]
        """Returns a reader of segments that takes those of other writers from the store."""

        async def read(numbers: Sequence[int]) -> list[WalSegment]:
            return [held.get(number) or await self._table.wal.read(number) for number in numbers]

        return read


def _has_unflushed(view: View, appender: WalAppender) -> bool:
    """Returns whether rows of earlier writers are in no data file."""
    wal = view.snapshot.wal
    return bool(view.snapshot.segments) or (wal is not None and wal.upto < appender.last - 1)


def _looked_at(done: asyncio.Future[int]) -> None:
    """Marks an error as retrieved: asyncio would log one that nobody awaits."""
    if not done.cancelled():
        done.exception()


def closed_error() -> InvalidInputError:
    """Returns the error of a writer that is not open."""
    return InvalidInputError(
        "the writer is not open: use it inside 'async with table.writer() as writer'", kind="closed"
    )


def _interrupted_error() -> LakehouseError:
    return CommitUnknownError("the writer was ended while these rows were on their way to the log")
