"""The DuckDB of a lake and account: made when it is first used, shared by its statements, gone with it.

Invariant: no call of DuckDB runs on the loop's thread. Statements wait for turns, which nothing that they
wait for needs in turn.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from lakehouse.config import SqlSettings
from lakehouse.errors import InvalidInputError
from lakehouse.io.work import finish, in_own_thread
from lakehouse.sql.engine.database import Database, open_database
from lakehouse.sql.engine.statement import SqlStatement

__all__ = ["SqlInstance"]


class SqlInstance:
    """One locked DuckDB, used from one event loop.

    ::

        async with instance.statement() as statement:
            path = statement.files.add(store, "day.parquet", size)
            async with await statement.stream("SELECT max(x) FROM read_parquet($1)", [path]) as rows:
                async for batch in rows:
                    ...

    Args:
        settings: bounds of memory, disk, threads and statements.
    """

    def __init__(self, settings: SqlSettings | None = None) -> None:
        self.settings = settings or SqlSettings()
        self._turns: anyio.CapacityLimiter | None = None
        self._home: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._making = asyncio.Lock()
        self._database: Database | None = None
        self._statements: set[SqlStatement] = set()
        self._closed = False

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[SqlStatement]:
        """Waits for a turn, and gives a statement that ends with the block."""
        turn = object()  # not the task: what reads a result may be another one than what began it
        turns = self._limiter()
        await turns.acquire_on_behalf_of(turn)
        try:
            statement = SqlStatement(await self._open())
            self._statements.add(statement)
            try:
                await statement.open()
                yield statement
            finally:
                await finish(self._end(statement))
        finally:
            turns.release_on_behalf_of(turn)

    async def aclose(self) -> None:
        """Cancels statements under way and closes DuckDB; it may be called twice."""
        self._closed = True
        await finish(self._close())

    def _limiter(self) -> anyio.CapacityLimiter:
        """The turns, which belong to the process and the loop that took the first one."""
        home = os.getpid(), asyncio.get_running_loop()
        if self._turns is None or self._home is None:
            self._turns, self._home = anyio.CapacityLimiter(self.settings.concurrency), home
        if self._home[0] != home[0]:
            raise InvalidInputError(
                f"SQL was used in process {self._home[0]} and is used in its child {home[0]}: "
                "open the lake again in the child, before the first statement",
                kind="wrong-process",
            )
        if self._home[1] is not home[1]:
            raise InvalidInputError(
                "this SQL belongs to another event loop: open one lake for each loop", kind="wrong-loop"
            )
        return self._turns

    async def _open(self) -> Database:
        async with self._making:
            if self._closed:
                raise InvalidInputError("SQL is closed: its lake was left", kind="closed")
            if self._database is None or self._database.is_broken:
                self._database = await in_own_thread(open_database, self.settings)
            return self._database

    async def _close(self) -> None:
        for statement in list(self._statements):
            await self._end(statement)
        async with self._making:
            database, self._database = self._database, None
            if database is not None:
                await in_own_thread(database.close)

    async def _end(self, statement: SqlStatement) -> None:
        await statement.aclose()
        self._statements.discard(statement)
        database = statement.database
        if database.is_broken and all(other.database is not database for other in self._statements):
            # The next statement gets another one.
            await in_own_thread(database.close)
