"""An async, object-storage-first lakehouse engine: nothing but a bucket.

Names are loaded when they are first used, so ``import lakehouse`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse._version import __version__
from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.config import Settings
    from lakehouse.expr import col
    from lakehouse.format.schema import TableSchema
    from lakehouse.index import (
        FileListSource,
        GreptimeListing,
        GreptimeManifests,
        IndexSearcher,
        IndexSpec,
        IndexType,
        PrefixSource,
        PuffinIndexBuilder,
        PuffinReader,
        PuffinWriter,
        RowSelection,
        iterate_index_metas,
    )
    from lakehouse.io import Cost, ObjectStore, load_settings, map_bounded, measure, open_store
    from lakehouse.io.proofs import StoreReport, check_store
    from lakehouse.lake import AccountLake, Lake, connect
    from lakehouse.storage.scan import TableScan
    from lakehouse.storage.schema import (
        AddColumn,
        DropColumn,
        MakeOptional,
        MoveColumn,
        RenameColumn,
        SetComment,
        SetDefault,
        SetOptions,
        SetTableComment,
        UnsetOptions,
        WidenColumn,
    )
    from lakehouse.storage.table import Table
    from lakehouse.storage.tables import CommitResult
    from lakehouse.storage.write import TableWriter

__all__ = [
    "AccountLake",
    "AddColumn",
    "CommitResult",
    "Cost",
    "DropColumn",
    "FileListSource",
    "GreptimeListing",
    "GreptimeManifests",
    "IndexSearcher",
    "IndexSpec",
    "IndexType",
    "Lake",
    "MakeOptional",
    "MoveColumn",
    "ObjectStore",
    "PrefixSource",
    "PuffinIndexBuilder",
    "PuffinReader",
    "PuffinWriter",
    "RenameColumn",
    "RowSelection",
    "SetComment",
    "SetDefault",
    "SetOptions",
    "SetTableComment",
    "Settings",
    "StoreReport",
    "Table",
    "TableScan",
    "TableSchema",
    "TableWriter",
    "UnsetOptions",
    "WidenColumn",
    "__version__",
    "check_store",
    "col",
    "connect",
    "iterate_index_metas",
    "load_settings",
    "map_bounded",
    "measure",
    "open_store",
]

__getattr__, __dir__ = door(
    __name__,
    {
        "lakehouse.config": "Settings",
        "lakehouse.expr": "col",
        "lakehouse.format.schema": "TableSchema",
        "lakehouse.index": (
            "FileListSource GreptimeListing GreptimeManifests IndexSearcher IndexSpec IndexType "
            "PrefixSource PuffinIndexBuilder PuffinReader PuffinWriter RowSelection "
            "iterate_index_metas"
        ),
        "lakehouse.io": "Cost ObjectStore load_settings map_bounded measure open_store",
        "lakehouse.io.proofs": "StoreReport check_store",
        "lakehouse.lake": "AccountLake Lake connect",
        "lakehouse.storage.scan": "TableScan",
        "lakehouse.storage.schema": (
            "AddColumn DropColumn MakeOptional MoveColumn RenameColumn SetComment SetDefault "
            "SetOptions SetTableComment UnsetOptions WidenColumn"
        ),
        "lakehouse.storage.table": "Table",
        "lakehouse.storage.tables": "CommitResult",
        "lakehouse.storage.write": "TableWriter",
    },
)
