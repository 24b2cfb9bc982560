"""PlannerGraph without await: the twin of :mod:`lakehouse.catalog.bundles.planner_graph`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/catalog/bundles/planner_graph.py:
# edit that file, then run `make docs`.

from __future__ import annotations

from lakehouse.catalog.bundles import PlannerGraph as AsyncPlannerGraph
from lakehouse.catalog.graph import Reference
from lakehouse.catalog.pins import Moment, SnapshotPin
from lakehouse.catalog.sources import TableFacts
from lakehouse.catalog.statistics import Constraint
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.graph import MetadataGraph

__all__ = ["PlannerGraph"]


class PlannerGraph(MetadataGraph):
    """Catalogs, namespaces, tables and views that one account sees, as planners use them; ``lake.graph``."""

    _wrapped: AsyncPlannerGraph

    def __init__(self, wrapped: AsyncPlannerGraph, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def snapshot_pin(
        self,
        ref: Reference,
        *,
        snapshot: int | None = None,
        as_of: Moment | None = None,
        as_of_default: Moment | None = None,
    ) -> SnapshotPin:
        """Resolves the snapshot of a table, once: by id, as of a moment, as of a default, or the newest.

        Args:
            ref: name or id of the table.
            snapshot: id; 0 is one.
            as_of: the last snapshot not after it: a datetime, ISO text, or milliseconds.
            as_of_default: moment that counts where neither is given.

        Raises:
            InvalidInputError: the reference is of a view, which has no snapshots of its own.
            NotFoundError: there is no such table, or it has no such snapshot.
        """
        return self._bridge.call(
            self._wrapped.snapshot_pin, ref, snapshot=snapshot, as_of=as_of, as_of_default=as_of_default
        )

    def schema_at(self, ref: Reference, snapshot: int | None = None) -> TableFacts:
        """Returns the schema of a table at a snapshot, with keys and partitions; None = as it is now."""
        return self._bridge.call(self._wrapped.schema_at, ref, snapshot)

    def constraints(self, ref: Reference) -> tuple[Constraint, ...]:
        """Returns what holds for every row of a table, as its newest snapshot has it.

        Example::

            for constraint in lake.graph.constraints("sales.orders"):
                print(constraint.kind, constraint.columns, constraint.is_enforced)
        """
        return self._bridge.call(self._wrapped.constraints, ref)
