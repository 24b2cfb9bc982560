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
    from lakehouse.index import FileListSource, GreptimeListing, PrefixSource, iterate_index_metas
    from lakehouse.io import Cost, ObjectStore, load_settings, map_bounded, measure, open_store
    from lakehouse.io.check import StoreReport, check_store

__all__ = [
    "Cost",
    "FileListSource",
    "GreptimeListing",
    "ObjectStore",
    "PrefixSource",
    "Settings",
    "StoreReport",
    "__version__",
    "check_store",
    "col",
    "iterate_index_metas",
    "load_settings",
    "map_bounded",
    "measure",
    "open_store",
]

_MODULES = {
    "lakehouse.config": ("Settings",),
    "lakehouse.expr": ("col",),
    "lakehouse.index": ("FileListSource", "GreptimeListing", "PrefixSource", "iterate_index_metas"),
    "lakehouse.io": ("Cost", "ObjectStore", "load_settings", "map_bounded", "measure", "open_store"),
    "lakehouse.io.check": ("StoreReport", "check_store"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lakehouse' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
