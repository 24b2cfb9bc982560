"""One cache core for every layer: byte-weighted, single-flight, expiring, observable."""

from __future__ import annotations

from lakehouse.cache.budget import CacheBudget
from lakehouse.cache.labels import identity_tags
from lakehouse.cache.region import CacheRegion, LoadGate
from lakehouse.cache.spec import CacheSpec
from lakehouse.cache.stats import CacheStats, Counters
from lakehouse.cache.weigh import allocated, weigh

__all__ = [
    "CacheBudget",
    "CacheRegion",
    "CacheSpec",
    "CacheStats",
    "Counters",
    "LoadGate",
    "allocated",
    "identity_tags",
    "weigh",
]
