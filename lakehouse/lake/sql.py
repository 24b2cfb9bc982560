"""SQL of a lake: texts run for themselves, and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.catalog.pins import SqlValues
from lakehouse.lake.state import LakeState

if TYPE_CHECKING:
    from lakehouse.sql.session import SqlResult, SqlSession

__all__ = ["LakeSql"]


class LakeSql:
    """Base of ``Lake`` with its methods for SQL."""

    _state: LakeState

    async def sql(
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

            result = await lake.sql("SELECT id FROM sales.orders WHERE amount > $least", {"least": 10})
            print(await result.to_pylist())
        """
        return await self._state.run_sql(None, text, parameters, database)

    def sql_session(self, database: str | None = None) -> SqlSession:
        """A conversation in SQL, in which ``USE``, ``SET`` and ``BEGIN QUERY`` hold for later statements.

        Args:
            database: where names without one are looked for at first.

        Example::

            async with lake.sql_session("sales") as session:
                await session.sql("BEGIN QUERY")
                rows = await session.sql("SELECT count(*) FROM orders")
                print(await rows.to_pylist())
        """
        return self._state.sql_session(database)
