"""Specification of a named cache: its bounds in time and bytes, and how its values are treated.

A spec is a plain value: layers declare one per cache as a module constant and settings
such as ``meta.cache.<name>.ttl`` become ``dataclasses.replace(SPEC, ...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse.cache.weigh import weigh
from lakehouse.errors import InvalidInputError

__all__ = ["CacheSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """Describes one named cache; None means no limit of that sort."""

    name: str
    """Names the cache in statistics and logs; one budget has one spec per name."""
    enabled: bool = True
    """False: every ``get`` loads, nothing is kept."""
    expire_after_write_s: float | None = None
    """A value is served no longer than this after its load *began*; 0 disables the cache."""
    expire_after_access_s: float | None = None
    """A value nobody asks for is dropped after this long; 0 disables the cache."""
    refresh_after_write_s: float | None = None
    """From this age on a hit is still served and starts one load behind the scenes; 0 = never."""
    max_bytes: int | None = None
    """This cache's own share of the budget; 0 disables the cache."""
    grows_stale: bool = False
    """Whether a value may be out of date: the setting ``ttl`` of its layer is then the age up to which it is
    served, and else the time after which what nobody asks for goes."""
    prefix_length: int = 0
    """Leading key elements by which entries are indexed for ``invalidate_prefix``; 0 = no
    index, such an invalidation then looks at every key."""
    weigh: Callable[[Any], int] = weigh
    """Bytes a value takes; the cache adds the key and its own bookkeeping."""
    version: Callable[[Any], Any] | None = None
    """An orderable version of a value: an older one never replaces a newer one."""
    tags: Callable[[Any, Any], Iterable[Hashable]] | None = None
    """Tags of a loaded (key, value), besides those the caller gives."""

    def __post_init__(self) -> None:
        for field in (
            "expire_after_write_s",
            "expire_after_access_s",
            "refresh_after_write_s",
            "max_bytes",
            "prefix_length",
        ):
            bound = getattr(self, field)
            if bound is not None and not bound >= 0:
                raise InvalidInputError(
                    f"{field} of cache {self.name!r} must be 0 or more, not {bound!r}", cache=self.name
                )

    @property
    def disabled(self) -> bool:
        """Whether some bound is 0, so that nothing may be kept."""
        return not self.enabled or 0 in (
            self.expire_after_write_s,
            self.expire_after_access_s,
            self.max_bytes,
        )

    @property
    def ttl_s(self) -> float | None:
        """How long a value is served: since its load, or where that has no limit, since its last use."""
        return self.expire_after_access_s if self.expire_after_write_s is None else self.expire_after_write_s

    @property
    def timed(self) -> bool:
        """Whether entries need the clock."""
        return bool(self.expire_after_write_s or self.expire_after_access_s or self.refresh_after_write_s)
