"""The streaming writer of a table, as users hold it.

Invariant: a writer that was never entered, or was left, writes nothing and raises an error.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from lakehouse.errors import InvalidInputError
from lakehouse.storage.rows.missing_columns import Missing, refuse_keep
from lakehouse.storage.tables.open_tables import OpenTable
from lakehouse.storage.write.writer_session import Ack, WriterReport, WriterSession, closed_error

__all__ = ["TableWriter"]


class TableWriter:
    """Writes rows of one table as they arrive. Made by ``Table.writer``; one at a time per table.

    Any number of tasks may put. An acknowledged row is lost by no crash; it is in data files, and so
    in snapshots, ``snapshot_interval_s`` later at the latest, and visible at once to reads with
    ``freshness="wal"``.

    Example::

        async with table.writer() as writer:
            ack = await writer.put([{"id": 1, "amount": 9.5}])
            await ack  # durable
    """

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self._session: WriterSession | None = None

    async def __aenter__(self) -> Self:
        self._session = await WriterSession.open(self._table)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif self._session is not None:
            await self._session.stop()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidInputError(
            f"a writer of {self._table.name} cannot be pickled: pickle the table and open a writer there, "
            "which takes over from this one"
        )

    async def put(
        self, data: object, *, missing: Missing | None = None, writer: tuple[str, int] | None = None
    ) -> Ack:
        """Queues rows; ``await`` the returned :class:`Ack` to know them durable.

        Rows are checked against the schema first, and all of them are refused if one does not fit. The
        call waits while too much is under way.

        Args:
            data: rows, in any form that ``append`` takes.
            missing: treatment of columns that rows lack, as in ``upsert``; not ``keep``, which reads:
                a put is durable with one request.
            writer: (id, sequence): put at most once for a sequence of that id, also after the writer
                was opened anew; one id's sequences have to be put one after the other.
        """
        refuse_keep(missing, "a put is durable with one request and does not; use upsert(…, missing='keep')")
        return await self._open.put(data, writer, deletes=False, missing=missing)

    async def delete(self, keys: object, *, writer: tuple[str, int] | None = None) -> Ack:
        """Queues the deletion of keys; the table needs a primary key."""
        return await self._open.put(keys, writer, deletes=True, missing="null")

    async def flush(self) -> None:
        """Waits until everything put before is durable and in data files."""
        await self._open.flush()

    def report(self) -> WriterReport:
        """Counts of the writer: what it has written, and how many bytes it holds."""
        return self._open.report()

    async def close(self) -> None:
        """Waits until everything put is durable and in data files, and ends. It may be called again."""
        if self._session is not None:
            await self._session.close()

    @property
    def _open(self) -> WriterSession:
        if self._session is None:
            raise closed_error()
        return self._session
