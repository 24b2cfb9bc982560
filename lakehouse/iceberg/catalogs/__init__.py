"""Catalogs of Iceberg tables: attached to a lake under a name, and asked for tables and lists of them.

Words: *catalog* (knows where the newest metadata of each table are) → *namespace* (a database, or one inside
another) → *table*. *Properties* are what a catalog is attached with, in pyiceberg's spelling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.iceberg.catalogs.attached import Catalogs
    from lakehouse.iceberg.catalogs.catalog import Catalog, FoundTable, FoundView
    from lakehouse.iceberg.catalogs.file_io import StoreFileIO
    from lakehouse.iceberg.locations import Locations
    from lakehouse.iceberg.opening import ReadMetadata, read_metadata

__all__ = [
    "Catalog", "Catalogs", "FoundTable", "FoundView", "Locations", "ReadMetadata", "StoreFileIO",
    "read_metadata",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "attached": "Catalogs",
        "catalog": "Catalog FoundTable FoundView",
        "file_io": "StoreFileIO",
        "lakehouse.iceberg.locations": "Locations",
        "lakehouse.iceberg.opening": "ReadMetadata read_metadata",
    },
)
