"""Prometheus' text format of caches and of loads that wait.

An account that was forgotten is in no page from then on: its labels go with its caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from lakehouse.cache import CacheStats
from lakehouse.catalog.layers.layers import Layers
from lakehouse.catalog.layers.limits import Limiter
from lakehouse.catalog.layers.stats_table import account_of, visible
from lakehouse.io.prometheus import escaped, head

__all__ = ["cache_metrics"]

_Value = Callable[[CacheStats], float]

_METRICS: tuple[tuple[str, str, str, _Value], ...] = (
    ("hits_total", "counter", "Requests answered from memory.", lambda s: s.counters.hits),
    ("misses_total", "counter", "Requests that memory could not answer.", lambda s: s.counters.misses),
    ("loads_total", "counter", "Loads that succeeded.", lambda s: s.counters.loads),
    ("load_failures_total", "counter", "Loads that failed.", lambda s: s.counters.load_failures),
    ("load_seconds_total", "counter", "Time of all loads.", lambda s: s.counters.load_seconds),
    ("refreshes_total", "counter", "Loads ahead of time that succeeded.", lambda s: s.counters.refreshes),
    (
        "refresh_failures_total",
        "counter",
        "Loads ahead of time that failed.",
        lambda s: s.counters.refresh_failures,
    ),
    ("evictions_total", "counter", "Entries dropped for want of bytes.", lambda s: s.counters.evictions),
    ("expirations_total", "counter", "Entries dropped for their age.", lambda s: s.counters.expirations),
    ("invalidations_total", "counter", "Entries dropped on request.", lambda s: s.counters.invalidations),
    ("rejects_total", "counter", "Values too heavy to be kept.", lambda s: s.counters.rejects),
    ("entries", "gauge", "Entries held.", lambda s: s.entries),
    ("bytes", "gauge", "Bytes held.", lambda s: s.weight),
    ("oldest_seconds", "gauge", "Age of the oldest entry.", lambda s: s.oldest_s or 0.0),
)

_LOADS: tuple[tuple[str, str, Callable[[Limiter], int]], ...] = (
    ("lakehouse_catalog_loads_under_way", "Loads that hold a slot, by sort.", attrgetter("under_way")),
    ("lakehouse_catalog_loads_waiting", "Loads that wait for a slot, by sort.", attrgetter("waiting")),
)


def cache_metrics(layers: Layers) -> str:
    """Returns the metrics of all caches and limiters as one page.

    Labels are ``entry`` and ``account``, which is empty where all accounts share a cache.
    """
    lines: list[str] = []
    all_stats = visible(layers)
    for name, kind, text, value in _METRICS:
        lines += _metric(f"lakehouse_cache_{name}", kind, text, all_stats, value)
    lines += head("lakehouse_cache_budget_bytes", "gauge", "Bytes that all caches may hold together.")
    lines.append(f"lakehouse_cache_budget_bytes {layers.budget.settings.max_bytes}")
    for name, text, held in _LOADS:
        lines += head(name, "gauge", text)
        lines += [
            f'{name}{{sort="{sort}"}} {held(limiter)}' for sort, limiter in layers.limits.by_sort.items()
        ]
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, text: str, all_stats: list[CacheStats], value: _Value) -> Iterator[str]:
    yield from head(name, kind, text)
    for stats in all_stats:
        labels = f'entry="{escaped(stats.name)}",account="{escaped(account_of(stats) or "")}"'
        yield f"{name}{{{labels}}} {value(stats)}"
