"""LakeViews without await: the twin of :mod:`lakehouse.lake.views`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/views.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from lakehouse.catalog.nodes import TableNode
from lakehouse.catalog.views import ViewDependencies, ViewImpact
from lakehouse.lake.views import LakeViews as AsyncLakeViews
from lakehouse.storage.tables import ViewDefinition
from lakehouse.sync.bridge import Bridge

__all__ = ["LakeViews"]


class LakeViews:
    """Base of ``Lake`` with its methods for views."""

    def __init__(self, wrapped: AsyncLakeViews, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def create_view(
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

            lake.create_view(
                "sales.large_orders",
                {"duckdb": "select id, amount from sales.orders where amount > 100"},
            )
        """
        return self._bridge.call(
            self._wrapped.create_view,
            name,
            sql,
            columns=columns,
            depends_on=depends_on,
            search_path=search_path,
            owner=owner,
            comment=comment,
            if_not_exists=if_not_exists,
            or_replace=or_replace,
        )

    def view(self, name: str, *, version: int | None = None) -> ViewDefinition:
        """Reads a view: its SQL by dialect, and what it was made with.

        Args:
            name: ``database.view``.
            version: number of an older version; None = the newest.
        """
        return self._bridge.call(self._wrapped.view, name, version=version)

    def view_versions(self, name: str) -> list[ViewDefinition]:
        """Reads all versions of a view, oldest first."""
        return self._bridge.call(self._wrapped.view_versions, name)

    def views(
        self, database: str, *, prefix: str = "", after: str | None = None
    ) -> Generator[str, None, None]:
        """Yields the names of a database's views, ``database.view``, in order.

        Args:
            database: its name.
            prefix: only views whose names begin so.
            after: only views whose names follow this one: where an earlier listing ended.
        """
        return self._bridge.iterate(self._wrapped.views, database, prefix=prefix, after=after)

    def view_dependencies(self, name: str) -> ViewDependencies:
        """Reads what a view depends on, directly and through other views, and what of it is missing.

        Relations of attached catalogs are named, and not asked for.

        Example::

            print(lake.view_dependencies("sales.large_orders"))
        """
        return self._bridge.call(self._wrapped.view_dependencies, name)

    def impact(self, of: str) -> ViewImpact:
        """Finds the views that read a relation, directly and through others, in all databases.

        Reads the pointer of every view of the warehouse.

        Args:
            of: full name of a table or view; one of an attached catalog too.
        """
        return self._bridge.call(self._wrapped.impact, of)

    def table_node(self, name: str) -> TableNode:
        """Returns the node of a table, with the ids of the views that read it, through others too.

        Costs what :meth:`impact` does: ``graph.table`` gives the node without them.

        Args:
            name: full name; one of an attached catalog too.
        """
        return self._bridge.call(self._wrapped.table_node, name)

    def rename_view(self, name: str, new_name: str) -> ViewDefinition:
        """Gives a view another name, in this or another database; its versions stay with it."""
        return self._bridge.call(self._wrapped.rename_view, name, new_name)

    def drop_view(self, name: str, *, if_exists: bool = False) -> ViewDefinition | None:
        """Drops a view and returns what it was; None when there was none to drop.

        :meth:`undrop_view` brings it back until :meth:`purge_dropped` deletes its versions, or another
        relation takes its name.
        """
        return self._bridge.call(self._wrapped.drop_view, name, if_exists=if_exists)

    def undrop_view(self, name: str) -> ViewDefinition:
        """Brings a dropped view back, with all its versions."""
        return self._bridge.call(self._wrapped.undrop_view, name)
