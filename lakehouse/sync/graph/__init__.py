"""The blocking graph: the twin of :mod:`lakehouse.catalog.graph`.

Words: those of the graph itself; each *twin* has the name of the class that it hands its calls to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.sync.graph.graph import MetadataGraph
    from lakehouse.sync.graph.system_scan import SystemScan

__all__ = ["MetadataGraph", "SystemScan"]

__getattr__, __dir__ = door(__name__, {"graph": "MetadataGraph", "system_scan": "SystemScan"})
