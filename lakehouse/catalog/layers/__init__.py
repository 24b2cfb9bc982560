"""Layers of caches: what each keeps and for how long, how its values are loaded, and what it says of itself.

Words: a *layer* (an *entry*, in settings and statistics) keeps values of one sort. Those of *pointers* belong
to one account and grow stale; those of *content* are shared by all accounts and never change. *Loads* run
under *limits*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.layers.layers import (
        ACCOUNT_GROUP,
        AccountLayers,
        DropListener,
        Layers,
    )
    from lakehouse.catalog.layers.limits import Limiter, LoadLimits
    from lakehouse.catalog.layers.prometheus import cache_metrics
    from lakehouse.catalog.layers.stats_table import STATISTICS_SCHEMA, cache_statistics

__all__ = [
    "ACCOUNT_GROUP", "STATISTICS_SCHEMA", "AccountLayers", "DropListener", "Layers", "Limiter",
    "LoadLimits", "cache_metrics", "cache_statistics",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "layers": "ACCOUNT_GROUP AccountLayers DropListener Layers",
        "limits": "Limiter LoadLimits",
        "prometheus": "cache_metrics",
        "stats_table": "STATISTICS_SCHEMA cache_statistics",
    },
)
