"""Statistics of caches as Arrow rows: one for each entry, for those of pointers one for each account."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.cache import CacheStats
from lakehouse.catalog.layers.layers import ACCOUNT_GROUP, Layers

__all__ = ["STATISTICS_SCHEMA", "account_of", "cache_statistics", "visible"]

STATISTICS_SCHEMA = pa.schema(
    [
        pa.field("entry", pa.string(), nullable=False),
        pa.field("account", pa.string()),
        pa.field("configured", pa.bool_(), nullable=False),
        pa.field("enabled", pa.bool_(), nullable=False),
        pa.field("ttl_s", pa.float64()),
        pa.field("refresh_s", pa.float64()),
        pa.field("max_bytes", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),
        pa.field("oldest_s", pa.float64()),
        pa.field("requests", pa.int64(), nullable=False),
        pa.field("hits", pa.int64(), nullable=False),
        pa.field("misses", pa.int64(), nullable=False),
        pa.field("hit_ratio", pa.float64(), nullable=False),
        pa.field("loads", pa.int64(), nullable=False),
        pa.field("load_failures", pa.int64(), nullable=False),
        pa.field("load_seconds", pa.float64(), nullable=False),
        pa.field("load_seconds_average", pa.float64()),
        pa.field("stale_hits", pa.int64(), nullable=False),
        pa.field("refreshes", pa.int64(), nullable=False),
        pa.field("refresh_failures", pa.int64(), nullable=False),
        pa.field("evictions", pa.int64(), nullable=False),
        pa.field("expirations", pa.int64(), nullable=False),
        pa.field("invalidations", pa.int64(), nullable=False),
        pa.field("rejects", pa.int64(), nullable=False),
        pa.field("discarded_loads", pa.int64(), nullable=False),
        pa.field("last_load", pa.timestamp("ms", tz="UTC")),
        pa.field("last_failure", pa.timestamp("ms", tz="UTC")),
        pa.field("last_error", pa.string()),
        pa.field("accounts", pa.int64(), nullable=False),
    ]
)
"""Columns of the statistics; ``docs/guides/caches.md`` says what each means."""


def visible(layers: Layers, account: str | None = None) -> list[CacheStats]:
    """Returns the statistics that an account may see: its own, and those that all share; None sees all."""
    own = None if account is None else ACCOUNT_GROUP + account
    return [
        stats
        for stats in layers.budget.stats()
        if own is None or stats.group == own or not stats.group.startswith(ACCOUNT_GROUP)
    ]


def cache_statistics(layers: Layers, account: str | None = None) -> pa.Table:
    """Returns the statistics of all caches under the budget of the layers.

    Args:
        layers: the layers of a lake.
        account: whose they are to be; None = everybody's. Errors of loads for others are not shown to one
            account: they may name what it must not know of.
    """
    seen = visible(layers, account)
    rows = [
        _row(stats, accounts=1 if account else len(layers.accounts), is_owner=account is None)
        for stats in seen
    ]
    return pa.Table.from_pylist(rows, schema=STATISTICS_SCHEMA)


def _row(stats: CacheStats, *, accounts: int, is_owner: bool) -> dict[str, object]:
    counted = stats.counters
    account = account_of(stats)
    tries = counted.loads + counted.load_failures
    return {
        "entry": stats.name,
        "account": account,
        "configured": stats.configured,
        "enabled": stats.enabled,
        "ttl_s": stats.ttl_s,
        "refresh_s": stats.refresh_s,
        "max_bytes": stats.max_bytes,
        "bytes": stats.weight,
        "entries": stats.entries,
        "oldest_s": stats.oldest_s,
        "requests": stats.requests,
        "hits": counted.hits,
        "misses": counted.misses,
        "hit_ratio": stats.hit_ratio,
        "loads": counted.loads,
        "load_failures": counted.load_failures,
        "load_seconds": counted.load_seconds,
        "load_seconds_average": counted.load_seconds / tries if tries else None,
        "stale_hits": counted.stale_serves,
        "refreshes": counted.refreshes,
        "refresh_failures": counted.refresh_failures,
        "evictions": counted.evictions,
        "expirations": counted.expirations,
        "invalidations": counted.invalidations,
        "rejects": counted.rejects,
        "discarded_loads": counted.unlanded,
        "last_load": counted.last_load_ms,
        "last_failure": counted.last_failure_ms,
        "last_error": counted.last_error if is_owner or account else None,
        "accounts": 1 if account else accounts,
    }


def account_of(stats: CacheStats) -> str | None:
    """Returns the account whose cache it is; None where all share it."""
    return stats.group.removeprefix(ACCOUNT_GROUP) if stats.group.startswith(ACCOUNT_GROUP) else None
