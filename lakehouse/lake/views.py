"""Views of a lake: made, replaced, read, listed, renamed, dropped and brought back."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping, Sequence

from lakehouse.catalog.ids import NodeKind, ResourceId
from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.views import (
    ViewDependencies,
    ViewImpact,
    dependencies_of,
    draft_of,
    impact_of,
    refuse_cycle,
)
from lakehouse.errors import NotFoundError
from lakehouse.lake.state import LakeState
from lakehouse.storage.metadata import TableName, check_not_system
from lakehouse.storage.tables import (
    ViewDefinition,
    create_view,
    drop_view,
    read_view,
    rename_view,
    undrop_view,
    view_versions,
)

__all__ = ["LakeViews"]


class LakeViews:
    """Base of ``Lake`` with its methods for views."""

    _state: LakeState

    async def create_view(
        self,
        name: str,
        sql: Mapping[str, str],
        *,
        columns: Sequence[str] = (),
        depends_on: Sequence[str] | None = None,
        search_path: Sequence[str] = (),
        owner: str | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
        or_replace: bool = False,
    ) -> ViewDefinition:
        """Makes a view: SQL under a name. Tables and views share their names, so one of the two has it.

        Args:
            name: ``database.view``.
            sql: its text by dialect, such as ``{"duckdb": "select …", "spark": "select …"}``; at most
                1 MiB. The text is stored as it is, and only that of DuckDB is parsed.
            columns: names of its output columns; none = those of the SQL.
            depends_on: full names of the relations that it reads. None = as DuckDB's parser finds them in
                the SQL of dialect ``duckdb``; not known without it.
            search_path: databases in which names without one are looked for; none = the view's own.
            owner: who it belongs to; nothing is checked by it.
            comment: for people.
            if_not_exists: return an existing view of that name as it is, instead of raising.
            or_replace: make the next version of an existing view; older ones can still be read. Refused
                where the view would depend on itself.

        Example::

            await lake.create_view(
                "sales.large_orders",
                {"duckdb": "select id, amount from sales.orders where amount > 100"},
            )
        """
        parsed = TableName.new(name)
        env, names = self._state.env, self._state.names
        draft = await draft_of(
            names,
            parsed,
            sql,
            columns=columns,
            depends_on=depends_on,
            search_path=search_path,
            owner=owner,
            comment=comment,
        )
        await refuse_cycle(env, names, parsed, draft)
        return await create_view(
            env, names, parsed, draft, if_not_exists=if_not_exists, or_replace=or_replace
        )

    async def view(self, name: str, *, version: int | None = None) -> ViewDefinition:
        """Reads a view: its SQL by dialect, and what it was made with.

        Args:
            name: ``database.view``.
            version: number of an older version; None = the newest.
        """
        return await read_view(self._state.env, self._state.names, TableName.parse(name), version=version)

    async def view_versions(self, name: str) -> list[ViewDefinition]:
        """Reads all versions of a view, oldest first."""
        return await view_versions(self._state.env, self._state.names, TableName.parse(name))

    async def views(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Yields the names of a database's views, ``database.view``, in order.

        Args:
            database: its name.
            prefix: only views whose names begin so.
            after: only views whose names follow this one: where an earlier listing ended.
        """
        await self._state.names.expect_database(database)
        behind = after.rpartition(".")[2] if after else None
        async for name in self._state.names.views(database, prefix=prefix, after=behind):
            yield str(name)

    async def view_dependencies(self, name: str) -> ViewDependencies:
        """Reads what a view depends on, directly and through other views, and what of it is missing.

        Relations of attached catalogs are named, and not asked for.

        Example::

            print(await lake.view_dependencies("sales.large_orders"))
        """
        return await dependencies_of(self._state.env, self._state.names, TableName.parse(name))

    async def impact(self, of: str) -> ViewImpact:
        """Finds the views that read a relation, directly and through others, in all databases.

        Reads the pointer of every view of the warehouse.

        Args:
            of: full name of a table or view; one of an attached catalog too.
        """
        return await impact_of(self._state.env, self._state.names, of)

    async def table_node(self, name: str) -> TableNode:
        """Returns the node of a table, with the ids of the views that read it, through others too.

        Costs what :meth:`impact` does: ``graph.table`` gives the node without them.

        Args:
            name: full name; one of an attached catalog too.
        """
        node = await self._state.graph.table(name)
        found = await self.impact(node.display)
        ids = (ResourceId(node.id.account, NodeKind.VIEW, found.ids[view]) for view in found.views)
        return dataclasses.replace(node, dependent_views=tuple(ids))

    async def rename_view(self, name: str, new_name: str) -> ViewDefinition:
        """Gives a view another name, in this or another database; its versions stay with it."""
        old, new = TableName.parse(name), TableName.new(new_name)
        try:
            return await rename_view(self._state.env, self._state.names, old, new)
        except NotFoundError:
            check_not_system(old.database)
            raise

    async def drop_view(self, name: str, *, if_exists: bool = False) -> ViewDefinition | None:
        """Drops a view and returns what it was; None when there was none to drop.

        :meth:`undrop_view` brings it back until :meth:`purge_dropped` deletes its versions, or another
        relation takes its name.
        """
        parsed = TableName.parse(name)
        try:
            return await drop_view(self._state.env, self._state.names, parsed)
        except NotFoundError:
            check_not_system(parsed.database)
            if not if_exists:
                raise
        return None

    async def undrop_view(self, name: str) -> ViewDefinition:
        """Brings a dropped view back, with all its versions."""
        parsed = TableName.parse(name)
        await self._state.names.expect_database(parsed.database)
        return await undrop_view(self._state.env, self._state.names, parsed)
