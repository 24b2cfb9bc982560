"""Catalogs of Iceberg tables: attached to a lake under a name, and asked for tables and lists of them.

Words: *catalog* (knows where the newest metadata of each table are) → *namespace* (a database, or one inside
another) → *table*. *Properties* are what a catalog is attached with, in pyiceberg's spelling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.iceberg.catalogs.attached import Catalogs
    from lakehouse.iceberg.catalogs.file_io import StoreFileIO

__all__ = ["Catalogs", "StoreFileIO"]

__getattr__, __dir__ = door(__name__, {"attached": "Catalogs", "file_io": "StoreFileIO"})
