"""One write of a table: its rows are uploaded, then one commit makes them visible.

Files that other processes uploaded are committed in the same way
(:mod:`lakehouse.storage.write.distributed_writes`).

Invariant: a write covers the rows that the write-ahead log held when it was called, and is newer than them.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.errors import ConflictError, InvalidInputError
from lakehouse.excerpt import is_utf8, short
from lakehouse.io.cost import measure
from lakehouse.io.work import beside
from lakehouse.storage.commit.changes import UNFLUSHED, FilesChange
from lakehouse.storage.commit.committer import Committed
from lakehouse.storage.tables.commit_result import CommitResult, keep_committed, result_of
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.tables.view import View
from lakehouse.storage.wal.tail import Tail
from lakehouse.storage.write.flush import flush_table

__all__ = [
    "TableWrite",
    "WriterId",
    "check_message",
    "check_writer",
    "commit_flushed",
    "recorded_snapshot",
]

WriterId = tuple[str, int]
"""(id, sequence): identity of a write that is made at most once, however often it is asked for."""
_WRITER_ID_MAX = 1_000
"""Maximum characters of an id: every snapshot, and every segment of the log, carries all ids."""


@dataclass
class TableWrite(ABC):
    """A write of rows that are handed in; what they become is up to the kind of write."""

    table: OpenTable
    data: object
    """Rows, or keys of rows."""
    writer: WriterId | None = None
    """Identity that makes the call safe to repeat."""
    message: str | None = None
    """The snapshot's message, for people."""

    @abstractmethod
    async def change(self, view: View) -> FilesChange:
        """Uploads the rows under the schema and options of a state; returns the change that adds them."""

    async def run(self) -> CommitResult:
        """Writes with the known schema, and once more if that turns out not to be the newest.

        Asking for the newest takes a request that a write which fits does not need. Rows that can be
        read only once are written with the newest schema from the start. Meanwhile the tail of the
        write-ahead log is read, which the commit covers.
        """
        table = self.table
        with measure() as cost:
            table.expect_commit()
            again = _can_be_read_again(self.data)
            view = await (table.known() if again else table.newest())
            async with beside(table.tail(view)) as tail:
                try:
                    result = await self._attempt(view, tail)
                except (ConflictError, InvalidInputError):
                    newest = await table.newest()
                    if not again or newest.snapshot.schema == view.snapshot.schema:
                        raise
                    result = await self._attempt(newest, tail)
        return dataclasses.replace(result, cost=cost)

    async def _attempt(self, view: View, tail: Awaitable[Tail | None]) -> CommitResult:
        recorded = recorded_snapshot(view, self.writer)
        if recorded is not None:
            return CommitResult(snapshot=recorded, changed=False)
        change = await self.change(view)
        commit = commit_flushed(
            self.table, change, view=view, tail=tail, writer=self.writer, message=self.message
        )
        done = await keep_committed(self.table, change.uploaded, commit)
        return result_of(done, change.written)


async def commit_flushed(
    table: OpenTable,
    change: FilesChange,
    *,
    view: View,
    tail: Awaitable[Tail | None],
    writer: WriterId | None,
    message: str | None,
) -> Committed:
    """Commits a change; rows of the log that it removes are put into files first.

    Rows put after the call began need not be removed, so the tail stays the one read then.
    """
    flushes = view.options.commit_max_retries
    while True:
        read = await tail
        try:
            return await table.commit(
                change,
                view=view,
                writer=writer,
                message=message,
                uploaded_ms=change.written.first_upload_ms,
                tail=read,
            )
        except ConflictError as conflict:
            if conflict.kind != UNFLUSHED or not flushes:
                raise
        flushes -= 1
        await flush_table(table, upto=read.upto if read is not None else None)
        view = await table.newest()


def _can_be_read_again(data: object) -> bool:
    """Returns whether the rows can be read a second time: an iterator's cannot."""
    return isinstance(data, pa.Table | pa.RecordBatch | Mapping | Sequence) or hasattr(data, "columns")


def check_writer(writer: object) -> None:
    """Refuses a value that is no (id, sequence)."""
    match writer:
        case None:
            return
        case (str(name), int(sequence)) if name.isprintable() and not isinstance(sequence, bool):
            if 0 < len(name) <= _WRITER_ID_MAX and 0 <= sequence < 2**63:
                return
    raise InvalidInputError(
        f"writer must be (id, sequence), a printable text of 1 to {_WRITER_ID_MAX:,} characters and a number "
        f"from 0 below 2^63, not {writer!r:.200}"
    )


def check_message(message: object) -> None:
    """Refuses a message that is no text of UTF-8, before anything is uploaded for the commit."""
    if message is not None and not (isinstance(message, str) and is_utf8(message)):
        raise InvalidInputError(
            f"message must be text that UTF-8 can hold, not {short(message)}: leave out what is half of a "
            "surrogate pair",
            argument="message",
        )


def recorded_snapshot(view: View, writer: WriterId | None) -> int | None:
    """Returns the snapshot that has the sequence already, if this process knows it: saves the upload."""
    if writer is None:
        return None
    mark = view.snapshot.writers.get(writer[0])
    return mark.snapshot if mark is not None and mark.sequence >= writer[1] else None
