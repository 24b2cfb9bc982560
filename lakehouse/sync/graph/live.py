"""LiveGraph without await: the twin of :mod:`lakehouse.catalog.graph.live`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/catalog/graph/live.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Generator

from lakehouse.catalog.graph import LiveGraph as AsyncLiveGraph
from lakehouse.catalog.graph import Reference
from lakehouse.catalog.ids import NodeKind
from lakehouse.catalog.nodes import RelationPath
from lakehouse.sync.bridge import Bridge

__all__ = ["LiveGraph"]


class LiveGraph:
    """Base of the graph with its calls that look at what is there now."""

    def __init__(self, wrapped: AsyncLiveGraph, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def exists(self, ref: Reference, kind: NodeKind | None = None) -> bool:
        """Returns whether a name stands for something of a kind now, by one live look at it; None = any."""
        return self._bridge.call(self._wrapped.exists, ref, kind)

    def namespace_names(self, ref: Reference | None = None) -> list[str]:
        """Lists the full names of databases now, or of the namespaces of a catalog or inside another."""
        return self._bridge.call(self._wrapped.namespace_names, ref)

    def table_names(
        self, ref: Reference, *, begins: str = "", after: str | None = None
    ) -> Generator[str, None, None]:
        """Yields the full names of the tables of a namespace now, in order; each is there when it is yielded.

        Args:
            ref: database, or ``catalog.namespace``.
            begins: only tables whose names begin so.
            after: only tables behind this full name.
        """
        return self._bridge.iterate(self._wrapped.table_names, ref, begins=begins, after=after)

    def namespace_paths(self, catalog: str, inside: RelationPath = ()) -> list[RelationPath]:
        """Lists the namespaces of a catalog directly inside another, as of the bound of listings."""
        return self._bridge.call(self._wrapped.namespace_paths, catalog, inside)
