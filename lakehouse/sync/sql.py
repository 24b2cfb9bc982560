"""SQL without await: the twins of :mod:`lakehouse.sql.session`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lakehouse.catalog.pins import SqlValues
from lakehouse.io import Cost
from lakehouse.sync.bridge import Bridge

if TYPE_CHECKING:
    from lakehouse.sql.relations import RelationReport
    from lakehouse.sql.session import SqlResult as AsyncSqlResult
    from lakehouse.sql.session import SqlSession as AsyncSqlSession

__all__ = ["SqlResult", "SqlSession"]


class SqlResult:
    """Rows of a statement. Made by ``lake.sql``, ``query.sql`` and ``SqlSession.sql``.

    A result that fits in ``sql.result_buffer_bytes`` is in memory and can be read any number of times. A
    larger one streams: it is read once, and holds its turn and what it reads until it is read or closed.

    Example::

        result = lake.sql("SELECT region, sum(amount) FROM sales.orders GROUP BY ALL")
        print(result.to_pylist(), result.cost)
    """

    def __init__(self, wrapped: AsyncSqlResult, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the statement; rows that were not read are lost."""
        self._bridge.call(self._wrapped.aclose)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._wrapped.schema

    @property
    def cost(self) -> Cost:
        """Requests and bytes of the statement, as far as it has been read."""
        return self._wrapped.cost

    @property
    def references(self) -> tuple[RelationReport, ...]:
        """Reports of the tables that the statement reads, those below views too."""
        return self._wrapped.references

    def explain(self) -> str:
        """Says what each table of the statement is read as: files, how many are merged, what was pruned."""
        return self._wrapped.explain()

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows as record batches, in bounded memory."""
        return self._bridge.iterate(self._wrapped.batches)

    def __iter__(self) -> Generator[dict[str, Any], None, None]:
        return self._bridge.iterate(self._wrapped.__aiter__)

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table."""
        return self._bridge.call(self._wrapped.to_arrow)

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
        return self._bridge.call(self._wrapped.to_pylist)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return self._bridge.call(self._wrapped.to_pandas)

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame."""
        return self._bridge.call(self._wrapped.to_polars)


class SqlSession:
    """A conversation in SQL, with a database, settings and a query. Made by ``lake.sql_session``.

    Example::

        with lake.sql_session("sales") as session:
            session.sql("BEGIN QUERY; SET TimeZone = 'Europe/Berlin'")
            print(session.sql("SELECT sum(amount) AS total FROM orders").to_pylist())
    """

    def __init__(self, wrapped: AsyncSqlSession, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session, and the query that it began."""
        self._bridge.call(self._wrapped.aclose)

    @property
    def database(self) -> str | None:
        """Database, or catalog and namespace, in which names without one are looked for."""
        return self._wrapped.database

    def sql(
        self, text: str, parameters: SqlValues | None = None, *, database: str | None = None
    ) -> SqlResult:
        """Runs the statements of a text, one after another, and returns the rows of the last one."""
        return SqlResult(
            self._bridge.call(self._wrapped.sql, text, parameters, database=database), self._bridge
        )
