"""Databases of a lake: made, dropped, brought back and listed."""

from __future__ import annotations

from lakehouse.errors import AlreadyExistsError, NotFoundError
from lakehouse.lake.state import LakeState, same_name_error
from lakehouse.storage.metadata import check_not_system
from lakehouse.storage.tables import (
    DatabaseDropResult,
    DatabaseUndropResult,
    drop_database,
    undrop_database,
)

__all__ = ["LakeDatabases"]


class LakeDatabases:
    """Base of ``Lake`` with its methods for databases."""

    _state: LakeState

    async def create_database(
        self, name: str, *, if_not_exists: bool = False, comment: str | None = None
    ) -> None:
        """Creates a database."""
        if self._state.is_catalog(name):
            raise same_name_error(name)
        try:
            await self._state.names.create_database(name, comment=comment)
        except AlreadyExistsError:
            if not if_not_exists:
                raise

    async def drop_database(
        self, name: str, *, if_exists: bool = False, cascade: bool = False
    ) -> DatabaseDropResult | None:
        """Drops a database; with ``cascade`` its tables too, else it must have none.

        :meth:`undrop_database` brings it back with these tables. Returns None when there was none to drop.
        """
        try:
            return await drop_database(self._state.env, self._state.names, name, cascade=cascade)
        except NotFoundError:
            check_not_system(name)
            if not if_exists:
                raise
        return None

    async def undrop_database(self, name: str) -> DatabaseUndropResult:
        """Brings a dropped database back, and the tables that ``cascade`` dropped with it.

        Tables that were purged since are named in the result. A database that was created anew under the
        name is not replaced: bring its tables back one by one.
        """
        if self._state.is_catalog(name):
            raise same_name_error(name)
        return await undrop_database(self._state.env, self._state.names, name)

    async def databases(self, catalog: str | None = None) -> list[str]:
        """Returns the names of all databases, in order.

        Args:
            catalog: the namespaces of this attached catalog instead, or those inside ``catalog.namespace``.
        """
        return await self._state.graph.namespace_names(catalog)

    async def database_exists(self, name: str) -> bool:
        """Returns whether there is a database of that name."""
        return await self._state.names.has_database(name)
