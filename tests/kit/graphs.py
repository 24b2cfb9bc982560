"""Graphs over catalogs in memory, with a clock that tests move."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.cache import CacheBudget
from lakehouse.catalog.graph import MetadataGraph
from lakehouse.catalog.layers import Layers
from lakehouse.catalog.sources import SourceSet
from lakehouse.config import Settings
from lakehouse.testing import ManualClock, MemoryCatalog

__all__ = ["SCHEMA", "GraphWorld"]

SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.float64()})


class GraphWorld:
    """A catalog in memory called ``mem`` with two tables and a view, and the graph of one account."""

    def __init__(self, settings: dict[str, object] | None = None) -> None:
        self.clock = ManualClock()
        self.settings = Settings.resolve(overrides=settings or {})
        self.layers = Layers(CacheBudget.of(self.settings, clock=self.clock), self.settings, self.clock)
        self.catalog = MemoryCatalog("mem", clock=self.clock)
        self.orders = self.catalog.add_table("sales.orders", SCHEMA, primary_key=["id"])
        self.catalog.add_table("sales.bills", SCHEMA)
        self.catalog.add_view("sales.large", "select * from sales.orders where amount > 100")
        self.catalog.commit("sales.orders", rows=3)
        self.sources = SourceSet(self.catalog)
        self.graph = MetadataGraph(self.layers, self.sources)

    def of_account(self, account: str, catalog: MemoryCatalog | None = None) -> MetadataGraph:
        """Returns the graph of another account, with its own view of the catalog."""
        own = catalog or self.catalog.seen_with("")
        return MetadataGraph(self.layers, SourceSet(own), account=account)
