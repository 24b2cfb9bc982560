"""LakeDatabases without await: the twin of :mod:`lakehouse.lake.databases`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/databases.py: edit that file, then run `make docs`.

from __future__ import annotations

from lakehouse.lake.databases import LakeDatabases as AsyncLakeDatabases
from lakehouse.storage.tables import DatabaseDropResult, DatabaseUndropResult
from lakehouse.sync.bridge import Bridge

__all__ = ["LakeDatabases"]


class LakeDatabases:
    """Base of ``Lake`` with its methods for databases."""

    def __init__(self, wrapped: AsyncLakeDatabases, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def create_database(self, name: str, *, if_not_exists: bool = False, comment: str | None = None) -> None:
        """Creates a database."""
        return self._bridge.call(
            self._wrapped.create_database, name, if_not_exists=if_not_exists, comment=comment
        )

    def drop_database(
        self, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> DatabaseDropResult | None:
        """Drops a database; with ``cascade`` its tables too, else it must have none.

        :meth:`undrop_database` brings it back with these tables. Returns None when there was none to drop.
        """
        return self._bridge.call(self._wrapped.drop_database, name, if_exists=if_exists, cascade=cascade)

    def undrop_database(self, name: str) -> DatabaseUndropResult:
        """Brings a dropped database back, and the tables that ``cascade`` dropped with it.

        Tables that were purged since are named in the result. A database that was created anew under the
        name is not replaced: bring its tables back one by one.
        """
        return self._bridge.call(self._wrapped.undrop_database, name)

    def databases(self, catalog: str | None = None) -> list[str]:
        """Returns the names of all databases, in order.

        Args:
            catalog: the namespaces of this attached catalog instead, or those inside ``catalog.namespace``.
        """
        return self._bridge.call(self._wrapped.databases, catalog)

    def database_exists(self, name: str) -> bool:
        """Returns whether there is a database of that name."""
        return self._bridge.call(self._wrapped.database_exists, name)
