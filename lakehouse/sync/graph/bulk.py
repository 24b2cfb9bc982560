"""BulkGraph without await: the twin of :mod:`lakehouse.catalog.graph.bulk`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/catalog/graph/bulk.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Sequence

from lakehouse.catalog.graph import BulkGraph as AsyncBulkGraph
from lakehouse.catalog.graph import Reference, ResolutionPage
from lakehouse.sync.bridge import Bridge

__all__ = ["BulkGraph"]


class BulkGraph:
    """Base of the graph with its calls for many names."""

    def __init__(self, wrapped: AsyncBulkGraph, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def resolve_tables(
        self,
        names: Sequence[Reference] | None = None,
        *,
        prefix: Reference | None = None,
        begins: str = "",
        limit: int | None = None,
        page_token: str | None = None,
        count: bool = False,
    ) -> ResolutionPage:
        """Resolves a list of names of tables, or the names of the tables of a namespace.

        Names that are not there, or that fail, are reported each for itself. Relations of the system are
        found among tables and among views, before what users have in a namespace of that name.

        Args:
            names: full names, in the order of the result.
            prefix: a namespace instead: a database, ``catalog.namespace`` or ``information_schema``.
            begins: of these only tables whose names begin so.
            limit: names of a page; None = all of a list, 1,000 of a namespace.
            page_token: ``next_token`` of the page before.
            count: count all names of the namespace: by listing them all, unless that is kept.

        Example::

            page = lake.graph.resolve_tables(["sales.orders", "sales.bills"])
            print([(item.name, item.status, item.id) for item in page.items])
        """
        return self._bridge.call(
            self._wrapped.resolve_tables,
            names,
            prefix=prefix,
            begins=begins,
            limit=limit,
            page_token=page_token,
            count=count,
        )

    def resolve_views(
        self,
        names: Sequence[Reference] | None = None,
        *,
        prefix: Reference | None = None,
        begins: str = "",
        limit: int | None = None,
        page_token: str | None = None,
        count: bool = False,
    ) -> ResolutionPage:
        """Resolves a list of names of views, or the names of the views of a namespace.

        The arguments are those of :meth:`resolve_tables`.
        """
        return self._bridge.call(
            self._wrapped.resolve_views,
            names,
            prefix=prefix,
            begins=begins,
            limit=limit,
            page_token=page_token,
            count=count,
        )
