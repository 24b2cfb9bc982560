"""Bundles: what a planner asks of many relations at once, as one stream of chunks.

Words: *request* (relations, each by one *candidate* or several) → *chunk* (a header, some resolutions, or the
end) → *resolution* (what became of one relation) → *relation info* and its *columns*. A *possession token*
says what a planner holds already. A *pushed* table is read by a view and was not asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.bundles.chunks import (
        BundleChunk,
        BundleEnd,
        BundleHeader,
        ColumnResult,
        FailureCode,
        RelationInfo,
        RelationResolution,
        RelationStatus,
        ResolutionFailure,
        Resolutions,
        ViewText,
    )
    from lakehouse.catalog.bundles.planner_graph import PlannerGraph
    from lakehouse.catalog.bundles.requests import Candidate, RelationRequest, UserObjectsRequest
    from lakehouse.catalog.bundles.stream import user_objects
    from lakehouse.catalog.bundles.tokens import possession_token

__all__ = [
    "BundleChunk", "BundleEnd", "BundleHeader", "Candidate", "ColumnResult", "FailureCode",
    "PlannerGraph", "RelationInfo", "RelationRequest", "RelationResolution", "RelationStatus",
    "ResolutionFailure", "Resolutions", "UserObjectsRequest", "ViewText", "possession_token", "user_objects",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "chunks": "BundleChunk BundleEnd BundleHeader ColumnResult FailureCode RelationInfo "
        "RelationResolution RelationStatus ResolutionFailure Resolutions ViewText",
        "planner_graph": "PlannerGraph",
        "requests": "Candidate RelationRequest UserObjectsRequest",
        "stream": "user_objects",
        "tokens": "possession_token",
    },
)
