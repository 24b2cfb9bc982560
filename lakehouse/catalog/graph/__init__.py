"""The metadata graph: names and ids resolved to nodes, through pointers that may be stale within a bound.

Words: a *reference* (a name, its parts, an id, or both) is *resolved* to an id and *hydrated* to a node. A
*pointer* is *fresh* within the bound of its layer. What is listed comes in *pages*; a *token* says where to
go on. *Strict* calls raise what a lenient one reports beside the other names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.graph.bulk import BulkGraph
    from lakehouse.catalog.graph.graph import MetadataGraph
    from lakehouse.catalog.graph.live import LiveGraph
    from lakehouse.catalog.graph.references import NameRef, Reference, parse_name, show_name
    from lakehouse.catalog.graph.results import Resolution, ResolutionPage, ResolutionStatus
    from lakehouse.catalog.graph.system_side import Engines

__all__ = [
    "BulkGraph", "Engines", "LiveGraph", "MetadataGraph", "NameRef", "Reference", "Resolution",
    "ResolutionPage", "ResolutionStatus", "parse_name", "show_name",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "bulk": "BulkGraph",
        "graph": "MetadataGraph",
        "live": "LiveGraph",
        "references": "NameRef Reference parse_name show_name",
        "results": "Resolution ResolutionPage ResolutionStatus",
        "system_side": "Engines",
    },
)
