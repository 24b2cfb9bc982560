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
    from lakehouse.index.build import IndexSpec, PuffinIndexBuilder
    from lakehouse.index.enumerate import iterate_index_metas
    from lakehouse.index.greptime_manifests import GreptimeManifests
    from lakehouse.index.models import IndexType
    from lakehouse.index.reader import PuffinReader
    from lakehouse.index.search import IndexSearcher
    from lakehouse.index.selection import RowSelection
    from lakehouse.index.sources import FileListSource, GreptimeListing, PrefixSource
    from lakehouse.index.writer import PuffinWriter
    from lakehouse.io import Cost, ObjectStore, load_settings, map_bounded, measure, open_store
    from lakehouse.io.check import StoreReport, check_store

__all__ = [
    "Cost", "FileListSource", "GreptimeListing", "GreptimeManifests", "IndexSearcher", "IndexSpec",
    "IndexType", "ObjectStore", "PrefixSource", "PuffinIndexBuilder", "PuffinReader", "PuffinWriter",
    "RowSelection", "Settings", "StoreReport", "__version__", "check_store", "col", "iterate_index_metas",
    "load_settings", "map_bounded", "measure", "open_store",
]  # fmt: skip

_MODULES = {
    "lakehouse.config": ("Settings",),
    "lakehouse.expr": ("col",),
    "lakehouse.index": (
        "FileListSource", "GreptimeListing", "GreptimeManifests", "IndexSearcher", "IndexSpec", "IndexType",
        "PrefixSource", "PuffinIndexBuilder", "PuffinReader", "PuffinWriter", "RowSelection",
        "iterate_index_metas",
    ),
    "lakehouse.io": ("Cost", "ObjectStore", "load_settings", "map_bounded", "measure", "open_store"),
    "lakehouse.io.check": ("StoreReport", "check_store"),
}  # fmt: skip
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lakehouse' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
