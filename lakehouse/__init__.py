"""An async, object-storage-first lakehouse engine: nothing but a bucket.

Names are loaded when they are first used, so ``import lakehouse`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lakehouse._version import __version__

if TYPE_CHECKING:
    from lakehouse.config import Settings
    from lakehouse.expr import col
    from lakehouse.format.schema.table_schema import TableSchema
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
    from lakehouse.io.proofs.check import StoreReport, check_store
    from lakehouse.lake import Lake, connect
    from lakehouse.storage.scan.table_scan import TableScan
    from lakehouse.storage.schema.evolution import (
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
    from lakehouse.storage.tables.commit_result import CommitResult
    from lakehouse.storage.write.streaming_writer import TableWriter

__all__ = [
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

_MODULES = {
    "lakehouse.config": "Settings",
    "lakehouse.expr": "col",
    "lakehouse.format.schema.table_schema": "TableSchema",
    "lakehouse.index": (
        "FileListSource GreptimeListing GreptimeManifests IndexSearcher IndexSpec IndexType "
        "PrefixSource PuffinIndexBuilder PuffinReader PuffinWriter RowSelection "
        "iterate_index_metas"
    ),
    "lakehouse.io": "Cost ObjectStore load_settings map_bounded measure open_store",
    "lakehouse.io.proofs.check": "StoreReport check_store",
    "lakehouse.lake": "Lake connect",
    "lakehouse.storage.tables.commit_result": "CommitResult",
    "lakehouse.storage.schema.evolution": (
        "AddColumn DropColumn MakeOptional MoveColumn RenameColumn SetComment SetDefault "
        "SetOptions SetTableComment UnsetOptions WidenColumn"
    ),
    "lakehouse.storage.scan.table_scan": "TableScan",
    "lakehouse.storage.table": "Table",
    "lakehouse.storage.write.streaming_writer": "TableWriter",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lakehouse' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
