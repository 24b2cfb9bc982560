"""Statistics of one named cache at one moment."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CacheStats", "Counters"]


@dataclass(slots=True, kw_only=True)
class Counters:
    """Events since the cache was made; all of them only grow."""

    hits: int = 0
    """Requests answered from memory."""
    misses: int = 0
    """Requests that found nothing they could be given; several may share a load."""
    loads: int = 0
    """Loads that succeeded, absence included; a bulk load is one."""
    load_failures: int = 0
    """Loads that raised an error."""
    load_seconds: float = 0.0
    """Time all loads took, failed ones included."""
    unlanded: int = 0
    """Values loaded but not kept, because their key was invalidated or written meanwhile."""
    evictions: int = 0
    """Entries dropped to keep within bytes."""
    expirations: int = 0
    """Entries dropped because of their age."""
    invalidations: int = 0
    """Entries dropped because somebody said so, or because a refresh found nothing."""
    rejects: int = 0
    """Values not kept because they were too heavy, or heavy and worth less than others."""
    stale_puts: int = 0
    """Values not kept because a newer version was there."""
    stale_serves: int = 0
    """Hits on values due for refresh."""
    refreshes: int = 0
    """Background loads that succeeded."""
    refresh_failures: int = 0
    """Background loads that failed; the old value stayed."""
    last_load_ms: int | None = None
    """Wall time of the last successful load, milliseconds since 1970."""
    last_failure_ms: int | None = None
    """Wall time of the last failed load."""
    last_error: str | None = None
    """Type and text of the last load's error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """A named cache as it stands."""

    name: str
    """The spec's name."""
    group: str
    """The group whose floor it counts towards."""
    enabled: bool
    """False: nothing is ever kept."""
    entries: int
    """Values held."""
    weight: int
    """Bytes held."""
    max_bytes: int
    """Bytes it may hold: its own limit, or the whole budget."""
    configured: bool = True
    """False: its settings turn it off; ``enabled`` is also false where no bytes are left for it."""
    ttl_s: float | None = None
    """Age, or time unused, from which on a value is not served; None = no limit."""
    refresh_s: float | None = None
    """Age from which on a value that is asked for is loaded anew; None = never."""
    oldest_s: float | None = None
    """Age of the value loaded longest ago, up to a second too much; None = nothing is held."""
    counters: Counters
    """A copy of what was counted so far."""

    @property
    def requests(self) -> int:
        """Hits and misses."""
        return self.counters.hits + self.counters.misses

    @property
    def hit_ratio(self) -> float:
        """Share of requests answered from memory; 0 before the first."""
        return self.counters.hits / self.requests if self.requests else 0.0
