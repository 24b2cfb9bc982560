"""TableWriter without await: the twin of :mod:`lakehouse.storage.write.streaming_writer`.

Invariant: every method hands the call to the async one of its name, and does nothing else; instead of
``await ack`` there is :meth:`Ack.wait`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from lakehouse.storage.rows import Missing
from lakehouse.storage.write import Ack as AsyncAck
from lakehouse.storage.write import TableWriter as AsyncTableWriter
from lakehouse.storage.write import WriterReport
from lakehouse.sync.bridge import Bridge

__all__ = ["Ack", "TableWriter"]


class Ack:
    """Durability of one put, known once :meth:`wait` returns."""

    def __init__(self, wrapped: AsyncAck, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self._wrapped.is_done

    def wait(self) -> int:
        """Waits until the rows are durable; returns the number of the segment that holds them."""

        async def outcome() -> int:
            return await self._wrapped

        return self._bridge.call(outcome)


class TableWriter:
    """Writes rows of one table as they arrive. Made by ``Table.writer``; one at a time per table.

    Example::

        with table.writer() as writer:
            ack = writer.put([{"id": 1, "amount": 9.5}])
            ack.wait()  # durable
    """

    def __init__(self, wrapped: AsyncTableWriter, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def __enter__(self) -> Self:
        self._bridge.call(self._wrapped.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bridge.call(self._wrapped.__aexit__, kind, error, trace)

    def put(
        self, data: object, *, missing: Missing | None = None, writer: tuple[str, int] | None = None
    ) -> Ack:
        """Queues rows; call ``wait()`` on the returned :class:`Ack` to know them durable."""
        return Ack(self._bridge.call(self._wrapped.put, data, missing=missing, writer=writer), self._bridge)

    def delete(self, keys: object, *, writer: tuple[str, int] | None = None) -> Ack:
        """Queues the deletion of keys; the table needs a primary key."""
        return Ack(self._bridge.call(self._wrapped.delete, keys, writer=writer), self._bridge)

    def flush(self) -> None:
        """Waits until everything put before is durable and in data files."""
        self._bridge.call(self._wrapped.flush)

    def report(self) -> WriterReport:
        """Counts of the writer: what it has written, and how many bytes it holds."""
        return self._wrapped.report()

    def close(self) -> None:
        """Waits until everything put is durable and in data files, and ends. It may be called again."""
        self._bridge.call(self._wrapped.close)
