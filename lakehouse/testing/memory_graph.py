"""A metadata graph over catalogs in memory, for tests of whatever asks a graph."""

from __future__ import annotations

from lakehouse.cache import CacheBudget
from lakehouse.catalog.graph import MetadataGraph
from lakehouse.catalog.ids import DEFAULT_ACCOUNT
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.sources import CatalogSource, SourceSet
from lakehouse.clock import Clock, SystemClock
from lakehouse.config import Settings

__all__ = ["memory_graph"]


def memory_graph(
    *catalogs: CatalogSource,
    account: str = DEFAULT_ACCOUNT,
    settings: Settings | None = None,
    clock: Clock | None = None,
    beside: MetadataGraph | None = None,
) -> MetadataGraph:
    """Makes the graph of an account over some catalogs, with caches of its own.

    Args:
        catalogs: sources, such as :class:`MemoryCatalog`.
        account: whose graph it is.
        settings: bounds, those of the layers too.
        clock: source of time.
        beside: graph of another account, whose content this one shares.

    Example::

        catalog = MemoryCatalog("mem")
        catalog.add_table("sales.orders", pa.schema({"id": pa.int64()}))
        graph = memory_graph(catalog)
        node = await graph.table("mem.sales.orders")
    """
    if beside is not None:
        return MetadataGraph(beside.layers, SourceSet(*catalogs), account=account)
    resolved, time = settings or Settings(), clock or SystemClock()
    layers = Layers(CacheBudget.of(resolved, clock=clock), resolved, time)
    return MetadataGraph(layers, SourceSet(*catalogs), account=account)
