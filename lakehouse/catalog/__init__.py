"""The catalog: names, nodes and snapshots of tables, out of our warehouse and of Iceberg's catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.bundles import (
        BundleChunk,
        BundleEnd,
        BundleHeader,
        Candidate,
        ColumnResult,
        FailureCode,
        PlannerGraph,
        RelationInfo,
        RelationRequest,
        RelationResolution,
        RelationStatus,
        Resolutions,
        UserObjectsRequest,
    )
    from lakehouse.catalog.control import LakeCache, PrewarmReport
    from lakehouse.catalog.graph import (
        MetadataGraph,
        NameRef,
        Resolution,
        ResolutionPage,
        ResolutionStatus,
    )
    from lakehouse.catalog.ids import NodeKind, ResourceId
    from lakehouse.catalog.inventory import InventoryScan, InventoryStats, TableProblem
    from lakehouse.catalog.nodes import CatalogNode, NamespaceNode, Node, RelationNode, TableNode, ViewNode
    from lakehouse.catalog.partitions import (
        ChangedPartitions,
        Partition,
        PartitionBound,
        PartitionInfo,
        PartitionKey,
    )
    from lakehouse.catalog.pins import PinKind, Query, SnapshotPin
    from lakehouse.catalog.sources import CatalogCheck, CatalogReport, CheckStatus
    from lakehouse.catalog.statistics import StatsKind, StatsOutcome, StatsTarget, TargetStats
    from lakehouse.catalog.views import Dependency, ViewDependencies, ViewImpact

__all__ = [
    "BundleChunk",
    "BundleEnd",
    "BundleHeader",
    "Candidate",
    "CatalogCheck",
    "CatalogNode",
    "CatalogReport",
    "ChangedPartitions",
    "CheckStatus",
    "ColumnResult",
    "Dependency",
    "FailureCode",
    "InventoryScan",
    "InventoryStats",
    "LakeCache",
    "MetadataGraph",
    "NameRef",
    "NamespaceNode",
    "Node",
    "NodeKind",
    "Partition",
    "PartitionBound",
    "PartitionInfo",
    "PartitionKey",
    "PinKind",
    "PlannerGraph",
    "PrewarmReport",
    "Query",
    "RelationInfo",
    "RelationNode",
    "RelationRequest",
    "RelationResolution",
    "RelationStatus",
    "Resolution",
    "ResolutionPage",
    "ResolutionStatus",
    "Resolutions",
    "ResourceId",
    "SnapshotPin",
    "StatsKind",
    "StatsOutcome",
    "StatsTarget",
    "TableNode",
    "TableProblem",
    "TargetStats",
    "UserObjectsRequest",
    "ViewDependencies",
    "ViewImpact",
    "ViewNode",
]

__getattr__, __dir__ = door(
    __name__,
    {
        "ids": "NodeKind ResourceId",
        "lakehouse.catalog.graph": "MetadataGraph NameRef Resolution ResolutionPage ResolutionStatus",
        "nodes": "CatalogNode NamespaceNode Node RelationNode TableNode ViewNode",
        "lakehouse.catalog.bundles": "BundleChunk BundleEnd BundleHeader Candidate ColumnResult FailureCode "
        "PlannerGraph RelationInfo RelationRequest RelationResolution RelationStatus Resolutions "
        "UserObjectsRequest",
        "lakehouse.catalog.control": "LakeCache PrewarmReport",
        "lakehouse.catalog.inventory": "InventoryScan InventoryStats TableProblem",
        "lakehouse.catalog.partitions": (
            "ChangedPartitions Partition PartitionBound PartitionInfo PartitionKey"
        ),
        "lakehouse.catalog.pins": "PinKind Query SnapshotPin",
        "lakehouse.catalog.sources": "CatalogCheck CatalogReport CheckStatus",
        "lakehouse.catalog.statistics": "StatsKind StatsOutcome StatsTarget TargetStats",
        "lakehouse.catalog.views": "Dependency ViewDependencies ViewImpact",
    },
)
