"""LakeSql without await: the twin of :mod:`lakehouse.lake.sql`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/sql.py: edit that file, then run `make docs`.

from __future__ import annotations

from lakehouse.catalog.pins import SqlValues
from lakehouse.lake.sql import LakeSql as AsyncLakeSql
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.sql import SqlResult, SqlSession

__all__ = ["LakeSql"]


class LakeSql:
    """Base of ``Lake`` with its methods for SQL."""

    def __init__(self, wrapped: AsyncLakeSql, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def sql(
        self, text: str, parameters: SqlValues | None = None, *, database: str | None = None
    ) -> SqlResult:
        """Runs statements of SQL, in DuckDB's dialect, and returns the rows of the last one.

        Names are ``table``, ``database.table`` and ``catalog.namespace.table``; ``FOR VERSION AS OF``,
        ``FOR TIMESTAMP AS OF`` and ``table@tag`` read older states. Each statement reads one state of every
        table that it names. Small results are in memory when the call returns; larger ones stream.

        Args:
            text: one or more statements; ``USE``, ``SET`` and ``BEGIN QUERY`` are for :meth:`sql_session`.
            parameters: values for ``?`` and ``$1`` as a list, for ``$name`` as a dict.
            database: where names without one are looked for; ``catalog.namespace`` too.

        Raises:
            InvalidInputError: the text cannot be read, or DuckDB refuses it; the message shows where.
            NotFoundError: nothing has a name; the message shows where, and names like it.

        Example::

            result = lake.sql("SELECT id FROM sales.orders WHERE amount > $least", {"least": 10})
            print(result.to_pylist())
        """
        return SqlResult(
            self._bridge.call(self._wrapped.sql, text, parameters, database=database), self._bridge
        )

    def sql_session(self, database: str | None = None) -> SqlSession:
        """A conversation in SQL, in which ``USE``, ``SET`` and ``BEGIN QUERY`` hold for later statements.

        Args:
            database: where names without one are looked for at first.

        Example::

            with lake.sql_session("sales") as session:
                session.sql("BEGIN QUERY")
                rows = session.sql("SELECT count(*) FROM orders")
                print(rows.to_pylist())
        """
        return SqlSession(self._wrapped.sql_session(database), self._bridge)
