"""Layers of caches: what each keeps and for how long, how its values are loaded, and what it says of itself.

Words: a *layer* (an *entry*, in settings and statistics) keeps values of one sort. Those of *pointers* belong
to one account and grow stale; those of *content* are shared by all accounts and never change. *Loads* run
under *limits*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.catalog.layers.layers import AccountLayers, Layers, content_tags
    from lakehouse.catalog.layers.limits import Limiter, LoadLimits

__all__ = ["AccountLayers", "Layers", "Limiter", "LoadLimits", "content_tags"]

__getattr__, __dir__ = door(
    __name__, {"layers": "AccountLayers Layers content_tags", "limits": "Limiter LoadLimits"}
)
