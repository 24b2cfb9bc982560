"""One statement under way: a cursor of DuckDB, and everything that ends with it.

Each call of DuckDB runs in a thread while the loop goes on. A call that is cancelled ends within moments:
what it waits for on the loop is cancelled first, since DuckDB cannot interrupt code of ours, then DuckDB
is interrupted until the thread has come back.

Invariant: when a statement is closed, none of its threads, coroutines, views, sources and files is left.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse.errors import InvalidInputError, UnavailableError
from lakehouse.io.work import finish
from lakehouse.sql.engine.admission import admit_query
from lakehouse.sql.engine.batch_stream import BatchStream
from lakehouse.sql.engine.database import CONFIGURABLE, Database
from lakehouse.sql.engine.failures import SqlFailure, SqlFailureError, said_by_duckdb
from lakehouse.sql.engine.loop_bridge import LoopBridge
from lakehouse.sql.engine.virtual_files import VirtualFiles

if TYPE_CHECKING:
    from lakehouse.io.cost import Cost

__all__ = ["SqlParameters", "SqlStatement"]

R = TypeVar("R")

SqlParameters = Sequence[Any] | Mapping[str, Any] | None
"""Values for ``$1`` or ``?`` in order, or for ``$name`` by name."""
_BATCH_ROWS = 65_536
_BUFFER_BYTES = 1024 * 1024
"""Bytes of a result that DuckDB makes ahead; with its own 10 MB, a slow source shows its first rows late."""
_BEGINNING = (
    f"SET SESSION streaming_buffer_size = '{_BUFFER_BYTES}B'",
    # DuckDB counts for a bar only, and shall not print it.
    "SET SESSION enable_progress_bar = true",
    "SET SESSION enable_progress_bar_print = false",
)
_AGAIN_S = 0.05
_EXPLAIN = "EXPLAIN "
_PLAN = "EXPLAIN (FORMAT JSON) "


class SqlStatement:
    """A turn of an instance, from :meth:`SqlInstance.statement`; calls of it run one after another."""

    def __init__(self, database: Database) -> None:
        self.database = database
        """DuckDB that it runs on."""
        self.bridge = LoopBridge()
        """Runs coroutines for sources and files."""
        self.files = VirtualFiles(self.bridge)
        """Files that the statement's text may open, and no others."""
        self._cursor: Any = None
        self._reader: Any = None
        self._closing = threading.Lock()
        self._one_call = asyncio.Lock()
        self._call: concurrent.futures.Future[Any] | None = None
        self._ended = self._closed = False

    @property
    def cost(self) -> Cost:
        """Requests to stores that its bridge has made."""
        return self.bridge.cost

    async def open(self) -> None:
        """Makes the cursor."""
        self.database.file_system.admit(self.files)
        await self.run(self._open_cursor)

    async def register(self, name: str, source: object) -> None:
        """Lets SQL read a source of Arrow data by name, in this statement only."""
        await self.run(self._register, name, source)

    async def define(self, name: str, query: str) -> None:
        """Makes a view that this statement only can read."""
        await self.execute(f"CREATE TEMPORARY VIEW {_quoted(name)} AS {query}")

    async def configure(self, name: str, value: str | int | bool) -> None:
        """Sets one of the settings that a statement may have for itself."""
        if name not in CONFIGURABLE:
            raise InvalidInputError(
                f"{name!r} is no setting of a statement: {', '.join(CONFIGURABLE)}", name=name
            )
        text = str(value).replace("'", "''")
        await self.execute(f"SET SESSION {name} = '{text}'")

    async def execute(self, text: str, parameters: SqlParameters = None) -> list[tuple[Any, ...]]:
        """Runs a command of ours whose result is small, and returns its rows."""
        return await self.run(self._execute, text, parameters)

    async def plan(self, text: str, parameters: SqlParameters = None) -> list[dict[str, Any]]:
        """DuckDB's plan of a query, as the trees that ``EXPLAIN (FORMAT JSON)`` gives; reads no rows."""
        return await self.run(self._plan, text, parameters)

    async def stream(
        self, text: str, parameters: SqlParameters = None, *, batch_rows: int = _BATCH_ROWS
    ) -> BatchStream:
        """Begins one query, and returns its rows as they are made.

        Args:
            text: a query; anything that does more than read is refused.
            parameters: values for its parameters.
            batch_rows: rows of a batch at most.
        """
        return BatchStream(self, await self.run(self._open_reader, text, parameters, batch_rows))

    async def progress(self) -> float | None:
        """Part of the query under way that is done, from 0 to 1; None where DuckDB cannot tell.

        It cannot while it plans, nor of sources that are registered: these count what they hand over.
        """
        percent = await self._beside(_progress_of)
        return None if percent is None or percent < 0 else percent / 100

    async def run(self, work: Callable[..., R], *args: Any) -> R:
        """Runs calls of DuckDB in a thread; a failure of them is raised as an error of ours."""
        async with self._one_call:
            if self._ended:
                raise InvalidInputError("this statement of SQL has ended", kind="closed")
            self._call = call = self.database.call(partial(self._guarded, partial(work, *args)))
            try:
                return await asyncio.wrap_future(call)
            except asyncio.CancelledError:
                await self.end()
                raise
            finally:
                if call.done():
                    self._call = None  # it holds the result

    async def end(self) -> None:
        """Cancels what is under way and waits until DuckDB has let go; nothing can be run afterwards."""
        self._ended = True
        self.bridge.cancel()
        await finish(self._interrupt_calls())

    async def aclose(self) -> None:
        """Ends the statement and gives everything back; it may be called twice."""
        await finish(self._give_back())

    def close_reader(self) -> None:
        """Closes the reader of the stream; on a thread."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    async def _give_back(self) -> None:
        await self.end()
        async with self._one_call:
            if not self._closed:
                self._closed = True
                await asyncio.wrap_future(self.database.call(self._close))
                await self.bridge.aclose()
                self.database.file_system.forget(self.files)

    async def _interrupt_calls(self) -> None:
        await self._beside(_interrupt)
        while self._call is not None and not self._call.done():
            await asyncio.wait([_waiter(self._call)], timeout=_AGAIN_S)
            # Once is not enough: DuckDB forgets an interrupt that comes before the query has begun.
            await self._beside(_interrupt)

    async def _beside(self, ask: Callable[[Any], R]) -> R | None:
        """Asks the cursor for something while a call of it may be under way; None where there is none."""
        if self._cursor is None:
            return None
        return await asyncio.wrap_future(self.database.control(partial(self._asked, ask)))

    def _asked(self, ask: Callable[[Any], R]) -> R | None:
        with self._closing:
            return None if self._cursor is None else ask(self._cursor)

    def _open_cursor(self) -> None:
        self._cursor = self.database.connection.cursor()
        for command in _BEGINNING:
            self._cursor.execute(command)

    def _register(self, name: str, source: object) -> None:
        self._check_idle()
        self._cursor.register(name, source)

    def _check_idle(self) -> None:
        if self._reader is not None:
            raise InvalidInputError(
                "a result of this statement is under way: read it to its end, or begin another statement"
            )

    def _open_reader(self, text: str, parameters: SqlParameters, batch_rows: int) -> Any:
        self._check_idle()
        admit_query(self._cursor, text)
        try:
            with said_by_duckdb():
                relation = self._cursor.sql(text, params=parameters)
        except SqlFailureError as raised:
            raise SqlFailureError(self._located(raised.failure, text, parameters)) from None
        self._reader = relation.to_arrow_reader(batch_rows)
        return self._reader

    def _execute(self, text: str, parameters: SqlParameters, prefix: str = "") -> list[tuple[Any, ...]]:
        self._check_idle()
        with said_by_duckdb(moved=len(prefix)):
            rows: list[tuple[Any, ...]] = self._cursor.execute(prefix + text, parameters).fetchall()
        return rows

    def _plan(self, text: str, parameters: SqlParameters) -> list[dict[str, Any]]:
        self._check_idle()
        admit_query(self._cursor, text)
        ((_, told),) = self._execute(text, parameters, _PLAN)
        try:
            found: list[dict[str, Any]] = json.loads(told)
        except RecursionError as error:
            raise InvalidInputError("the query is nested too deeply for its plan to be read") from error
        return found

    def _located(self, failure: SqlFailure, text: str, parameters: SqlParameters) -> SqlFailure:
        """The failure with its place, which DuckDB tells of a query that it was to explain, not to run."""
        if failure.offset is None and failure.category in ("binder", "catalog"):
            try:
                self._execute(text, parameters, _EXPLAIN)
            except SqlFailureError as again:
                if again.failure.category == failure.category:
                    return again.failure
        return failure

    def _guarded(self, work: Callable[[], R]) -> R:
        """Runs work on a thread; what it raises beyond our own errors ends here."""
        try:
            with self.files.asking(), said_by_duckdb():
                return work()
        except SqlFailureError as raised:
            error = self._error(raised.failure)
        raise error

    def _error(self, failure: SqlFailure) -> BaseException:
        if self._ended:
            return UnavailableError("the statement was interrupted", kind="interrupted")
        error, self.bridge.error = self.bridge.error, None
        if error is not None:
            return error
        self.database.is_broken |= failure.is_fatal
        return failure.to_error(self.database.settings, self.files)

    def _close(self) -> None:
        self.close_reader()
        with self._closing:
            cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()


def _interrupt(cursor: Any) -> None:
    cursor.interrupt()


def _progress_of(cursor: Any) -> float:
    percent: float = cursor.query_progress()
    return percent


def _quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _waiter(call: concurrent.futures.Future[Any]) -> asyncio.Future[Any]:
    """A future of the loop that ends with a call, and says nothing of how it did."""
    waiter = asyncio.wrap_future(call)
    waiter.add_done_callback(lambda done: done.cancelled() or done.exception())
    return waiter
