"""Results of statements: fetched whole where they are small, else streamed while they are read.

Invariant: a result that was read to its end, closed, or forgotten holds no turn, no pin and no cursor.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lakehouse.catalog.system import SystemWarning
from lakehouse.errors import InvalidInputError
from lakehouse.io import Cost
from lakehouse.io.work import in_thread
from lakehouse.sql.relations import RelationReport

__all__ = ["OpenRows", "SqlResult"]


class OpenRows:
    """Rest of a result that streams, with all that is held for it.

    Args:
        batches: the rest.
        held: what is left when the rest was read or is not wanted.
    """

    def __init__(self, batches: AsyncIterator[pa.RecordBatch], held: AsyncExitStack) -> None:
        self._batches, self._held = batches, held
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self.is_open = True

    async def next(self) -> pa.RecordBatch | None:
        """Returns the next batch; None = there is none, and nothing is held any more."""
        async with self._turn:
            if not self.is_open:
                return None
            try:
                return await anext(self._batches)
            except StopAsyncIteration:
                await self._close()
            except BaseException as error:
                await self._close(error)
                raise
        return None

    async def aclose(self) -> None:
        """Ends the statement."""
        async with self._turn:
            await self._close()

    async def _close(self, error: BaseException | None = None) -> None:
        if self.is_open:
            self.is_open = False
            await self._held.__aexit__(None if error is None else type(error), error, None)

    def abandon(self) -> None:
        """Ends the statement, from any thread, without waiting for it."""
        if self.is_open and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_to_close)

    def _begin_to_close(self) -> None:
        task = self._loop.create_task(self.aclose())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


_closing: set[asyncio.Task[None]] = set()
"""Ends of results that nobody holds any more; a loop keeps no task alive by itself."""


class SqlResult:
    """Rows of a statement. Made by ``lake.sql``, ``query.sql`` and ``SqlSession.sql``.

    A result that fits in ``sql.result_buffer_bytes`` is in memory and can be read any number of times. A
    larger one streams: it is read once, and holds its turn and what it reads until it is read or closed.

    Args:
        schema: columns.
        fetched: batches that are in memory.
        rest: what follows them; None = they are all.
        cost: requests and bytes so far.
        references: what each table of the statement is read as.
        warnings: what is missing in the rows of system tables; they may grow while the result is read.

    Example::

        result = await lake.sql("SELECT region, sum(amount) FROM sales.orders GROUP BY ALL")
        print(await result.to_pylist(), result.cost)
    """

    def __init__(
        self,
        schema: pa.Schema,
        fetched: Sequence[pa.RecordBatch],
        rest: OpenRows | None,
        *,
        cost: Cost,
        references: Sequence[RelationReport] = (),
        warnings: Sequence[Sequence[SystemWarning]] = (),
    ) -> None:
        self._schema, self._fetched, self._rest = schema, list(fetched), rest
        self._cost, self._references, self._warnings = cost, tuple(references), warnings
        self._is_begun = False
        self._finalizer: Callable[[], object] | None = None
        if rest is not None:
            self._finalizer = weakref.finalize(self, OpenRows.abandon, rest)

    @classmethod
    def of(cls, rows: pa.Table, *, cost: Cost | None = None) -> SqlResult:
        """Returns a result of rows that are in memory."""
        return cls(rows.schema, rows.to_batches(), None, cost=Cost() if cost is None else cost)

    @classmethod
    def nothing(cls) -> SqlResult:
        """Returns the result of a statement without rows."""
        return cls.of(pa.schema([]).empty_table())

    def __repr__(self) -> str:
        state = "in memory" if self._rest is None else "streaming" if self._rest.is_open else "read"
        return f"<SqlResult of {len(self._schema)} columns, {state}>"

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._schema

    @property
    def cost(self) -> Cost:
        """Requests and bytes of the statement, as far as it has been read."""
        return self._cost

    @property
    def warnings(self) -> tuple[SystemWarning, ...]:
        """Tables whose rows a system table lacks, because they could not be read; whole when it was read."""
        return tuple(one for several in self._warnings for one in several)

    def explain(self) -> str:
        """Says what each table of the statement is read as: files, how many are merged, what was pruned."""
        return "\n".join(map(str, self._references))

    @property
    def references(self) -> tuple[RelationReport, ...]:
        """Reports of the tables that the statement reads, those below views too."""
        return self._references

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows as record batches, in bounded memory."""
        if self._rest is not None and self._is_begun:
            raise InvalidInputError(
                "this result streams and was read already: keep what was read, run the statement again, or "
                "raise sql.result_buffer_bytes",
                kind="closed",
            )
        self._is_begun = True
        try:
            for batch in self._fetched:
                yield batch
            while self._rest is not None and (more := await self._rest.next()) is not None:
                yield more
        finally:
            await self.aclose()

    async def __aiter__(self) -> AsyncGenerator[dict[str, Any], None]:
        """The rows as dicts."""
        async for batch in self.batches():
            for row in await in_thread(batch.to_pylist):
                yield row

    async def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return pa.Table.from_batches([batch async for batch in self.batches()], self._schema)

    async def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        rows = await self.to_arrow()
        dicts: list[dict[str, Any]] = await in_thread(rows.to_pylist)
        return dicts

    async def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        rows = await self.to_arrow()
        return await in_thread(rows.to_pandas)

    async def to_polars(self) -> Any:
        """All rows as a polars DataFrame."""
        try:
            import polars as pl
        except ImportError as error:
            raise InvalidInputError(
                "this needs the polars package: pip install polars", kind="missing-extra"
            ) from error
        rows = await self.to_arrow()
        return await in_thread(pl.from_arrow, rows)

    async def aclose(self) -> None:
        """Ends the statement; rows that were not read are lost."""
        if self._rest is not None:
            self._fetched.clear()
            await self._rest.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
