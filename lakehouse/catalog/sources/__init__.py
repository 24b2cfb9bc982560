"""Sources of the catalog: our warehouse and catalogs of Iceberg, asked by one protocol.

Words: *source* (a catalog that can be asked) → *pointer* (what a name stands for now, may be stale)
→ *content* (what a pointer leads to, never changes). An *identity* is one incarnation of a relation, a
*version* one state of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.sources.access import (
        EVERYTHING,
        Access,
        AuthoriseNamespace,
        RestrictedSource,
        restricted,
    )
    from lakehouse.catalog.sources.iceberg import IcebergSource
    from lakehouse.catalog.sources.source import (
        CatalogSource,
        ListedName,
        Page,
        Pointer,
        SnapshotFacts,
        TableFacts,
        ViewFacts,
        catalog_tag,
        unread_pointer,
    )
    from lakehouse.catalog.sources.source_set import SourceSet
    from lakehouse.catalog.sources.validation import CatalogCheck, CatalogReport, CheckStatus, validate_source
    from lakehouse.catalog.sources.warehouse import WarehouseSource, advanced

__all__ = [
    "EVERYTHING", "Access", "AuthoriseNamespace", "CatalogCheck", "CatalogReport", "CatalogSource",
    "CheckStatus", "IcebergSource", "ListedName", "Page", "Pointer", "RestrictedSource", "SnapshotFacts",
    "SourceSet", "TableFacts", "ViewFacts", "WarehouseSource", "advanced", "catalog_tag", "restricted",
    "unread_pointer", "validate_source",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "access": "EVERYTHING Access AuthoriseNamespace RestrictedSource restricted",
        "iceberg": "IcebergSource",
        "source": (
            "CatalogSource ListedName Page Pointer SnapshotFacts TableFacts ViewFacts catalog_tag "
            "unread_pointer"
        ),
        "source_set": "SourceSet",
        "validation": "CatalogCheck CatalogReport CheckStatus validate_source",
        "warehouse": "WarehouseSource advanced",
    },
)
