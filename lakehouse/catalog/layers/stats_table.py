"""Statistics of caches as Arrow rows: one for each entry, for those of pointers one for each account."""

from __future__ import annotations

from dataclasses import fields, replace

import pyarrow as pa

from lakehouse.cache import CacheStats, Counters
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

_SUMMED = tuple(field.name for field in fields(Counters) if not field.name.startswith("last_"))


def visible(layers: Layers, account: str | None = None) -> list[CacheStats]:
    """Returns the statistics that an account may see: its own, and those that all share; None sees all.

    Content that is kept for several scopes of credentials apart counts as one cache.
    """
    found: dict[tuple[str, str], CacheStats] = {}
    for stats in layers.budget.stats():
        owner = account_of(stats)
        if owner is None or account is None or owner == account:
            place = stats.name, owner or ""
            before = found.get(place)
            found[place] = stats if before is None else _together(before, stats)
    return [found[place] for place in sorted(found)]


def _together(one: CacheStats, other: CacheStats) -> CacheStats:
    """Returns two caches of one name as if they were one."""
    ages = [age for age in (one.oldest_s, other.oldest_s) if age is not None]
    return replace(
        one,
        entries=one.entries + other.entries,
        weight=one.weight + other.weight,
        oldest_s=max(ages, default=None),
        counters=_sum(one.counters, other.counters),
    )


def _sum(one: Counters, other: Counters) -> Counters:
    failed_last = max((one, other), key=lambda counted: counted.last_failure_ms or 0)
    return Counters(
        **{name: getattr(one, name) + getattr(other, name) for name in _SUMMED},
        last_load_ms=max(one.last_load_ms or 0, other.last_load_ms or 0) or None,
        last_failure_ms=failed_last.last_failure_ms,
        last_error=failed_last.last_error,
    )


def cache_statistics(layers: Layers, account: str | None = None) -> pa.Table:
    """Returns the statistics of all caches under the budget of the layers.

    Args:
        layers: the layers of a lake.
        account: whose they are to be; None = everybody's. Errors of loads for others are not shown to one
            account: they may name what it must not know of.
    """
    accounts = 1 if account else len(layers.accounts)
    rows = [_row(stats, accounts=accounts, is_owner=account is None) for stats in visible(layers, account)]
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
