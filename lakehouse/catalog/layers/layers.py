"""Layers of the catalog: a cache for each sort of value, under the lake's budget.

::

    account ── names     (account, catalog, namespace, …)       stale within ttl
            └─ pointers  (account, catalog, *path)              stale within ttl
    shared  ── table snapshots partitions schema view statistics   (*content key, …)   never stale
            └─ hints overlay                                       keys of their own

Invariants: what one account was shown is in no other account's pointers; content is tagged with the identity
whose it is, so that dropping what is kept of one table drops that and nothing else.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from lakehouse.cache import CacheBudget, CacheRegion, CacheSpec, identity_tags, weigh
from lakehouse.catalog.ids import DEFAULT_ACCOUNT
from lakehouse.catalog.layers.limits import Limiter, LoadLimits
from lakehouse.catalog.nodes import RelationPath
from lakehouse.clock import Clock
from lakehouse.config import Settings
from lakehouse.errors import InvalidInputError
from lakehouse.log import get_logger

__all__ = ["ACCOUNT_GROUP", "AccountLayers", "DropListener", "Layers"]

log = get_logger(__name__)

ACCOUNT_GROUP = "account:"
"""Beginning of the names of groups of accounts, which no layer's name begins with."""
_FLOORS_PART = 2
"""Floors of accounts take no more than one part in so many of the budget."""
_HANDLE_BYTES = 4_096
"""Estimate for what a source keeps behind a pointer; what it has in caches is weighed there."""


def _weigh_pointer(pointer: Any) -> int:
    # Sources keep open tables behind a handle: they are shared, and walking through one would never end.
    if getattr(pointer, "handle", None) is None:
        return weigh(pointer)
    return _HANDLE_BYTES + weigh(replace(pointer, handle=None))


_NAMES = CacheSpec(name="names", grows_stale=True, prefix_length=2)
_POINTER = CacheSpec(name="pointer", grows_stale=True, prefix_length=3, weigh=_weigh_pointer)
_CONTENT = {
    name: CacheSpec(name=name)
    for name in (
        "table",
        "snapshots",
        "partitions",
        "schema",
        "view",
        "statistics",
        "hints",
        "puffin",
    )
}
# Overlays tell their weight: a walk through thousands of nodes would hold the loop up.
_CONTENT["overlay"] = CacheSpec(name="overlay", weigh=lambda overlay: int(overlay.weight))


class DropListener(Protocol):
    """Whoever keeps something of its own beside the layers."""

    def dropped(self, account: str, catalog: str | None, path: RelationPath) -> None:
        """Hears what was dropped of an account, as for :meth:`AccountLayers.drop`; must not raise."""
        ...

    def content_dropped(self, identities: Collection[uuid.UUID]) -> None:
        """Hears whose content was dropped, for all accounts; must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class AccountLayers:
    """Layers of one account: what it was told of names, in no other account's sight."""

    account: str
    names: CacheRegion[tuple[Hashable, ...], Any]
    """Listings by (account, catalog, namespace, …), the namespace as one tuple."""
    pointers: CacheRegion[tuple[Hashable, ...], Any]
    """Pointers by (account, catalog, *path)."""
    listeners: list[DropListener] = field(default_factory=list, compare=False, repr=False)

    def names_key(self, catalog: str, namespace: RelationPath, *rest: Hashable) -> tuple[Hashable, ...]:
        """Returns the key of a listing of a namespace; ``rest`` tells its pages apart."""
        return (self.account, catalog, namespace, *rest)

    def pointer_key(self, catalog: str, path: RelationPath) -> tuple[Hashable, ...]:
        """Returns the key of the pointer of a name."""
        return (self.account, catalog, *path)

    def drop(self, catalog: str | None = None, path: RelationPath = ()) -> int:
        """Drops pointers and listings of all catalogs, of one, or of a namespace or relation in it.

        Listings that show what stands at the path go too: its name may have come or gone.
        """
        dropped = self._drop(catalog, path)
        for listener in self.listeners:
            listener.dropped(self.account, catalog, path)
        log.debug("cached names dropped", account=self.account, catalog=catalog, path=path, entries=dropped)
        return dropped

    def identities(self, catalog: str | None = None, path: RelationPath = ()) -> set[uuid.UUID]:
        """Returns the identities that the pointers held lead to, of the same scope as for :meth:`drop`."""
        prefix = () if catalog is None else (self.account, catalog, *path)
        return {pointer.identity for _, pointer in self.pointers.held(prefix)}

    def _drop(self, catalog: str | None, path: RelationPath) -> int:
        if catalog is None:
            return self.names.invalidate_all() + self.pointers.invalidate_all()
        dropped = self.pointers.invalidate_prefix((self.account, catalog, *path))
        if not path:
            return dropped + self.names.invalidate_prefix((self.account, catalog))
        for depth in range(len(path) - 1, len(path) + 1):
            dropped += self.names.invalidate_prefix((self.account, catalog, path[:depth]))
        return dropped


class Layers:
    """The layers of a lake.

    Args:
        budget: the bytes that they share with all other caches; its settings have those of each layer.
        settings: of loads and floors.
        clock: source of time.
    """

    def __init__(self, budget: CacheBudget, settings: Settings, clock: Clock) -> None:
        self.budget = budget
        self.settings = settings
        self.clock = clock
        self.limits = LoadLimits(settings.catalog)
        self._accounts: dict[str, AccountLayers] = {}
        self._floors: dict[str, int] = {}
        self._floored = 0
        self.listeners: list[DropListener] = []
        """Called when pointers of an account are dropped."""
        limits = self.limits
        self.table = self._content("table", limits.of_layer("table"))
        self.snapshots = self._content("snapshots", limits.of_layer("snapshots"))
        self.partitions = self._content("partitions", limits.of_layer("partitions"))
        self.schema = self._content("schema", limits.of_layer("schema"))
        self.view = self._content("view", limits.of_layer("view"))
        self.statistics = self._content("statistics", limits.statistics)
        self.hints = self._content("hints", limits.statistics)
        self.overlay = self._content("overlay", limits.of_layer("overlay"))
        self.puffin = self._content("puffin", None)
        limits.of_layer("pointer")  # of each account, made here for the statistics of limits

    def __repr__(self) -> str:
        return f"Layers(accounts={len(self._accounts)}, weight={self.budget.weight})"

    @property
    def accounts(self) -> Mapping[str, AccountLayers]:
        """Accounts that have layers, by name."""
        return self._accounts

    def account(self, name: str = DEFAULT_ACCOUNT) -> AccountLayers:
        """Returns the layers of an account, made at the first call."""
        found = self._accounts.get(name)
        return found if found is not None else self._open(name)

    def forget(self, account: str) -> int:
        """Gives back all that an account has here: entries, floor, counters; says how many entries."""
        if self._accounts.pop(account, None) is None:
            return 0
        self._floored -= self._floors.pop(account, 0)
        dropped = self.budget.forget(ACCOUNT_GROUP + account)
        log.info("cached names of an account dropped", account=account, entries=dropped)
        return dropped

    def drop_content(self, identities: Collection[uuid.UUID]) -> int:
        """Drops what the layers of content keep of relations; says how many entries."""
        tags = [tag for identity in identities for tag in identity_tags(identity)]
        dropped = sum([self.budget.invalidate_tag(tag) for tag in tags])
        for listener in self.listeners:
            listener.content_dropped(identities)
        return dropped

    def _content(self, name: str, limiter: Limiter | None) -> CacheRegion[tuple[Hashable, ...], Any]:
        gate = None if limiter is None else self.limits.gate(limiter)
        return self.budget.region(_CONTENT[name], gate=gate)

    def _open(self, name: str) -> AccountLayers:
        if not name:
            raise InvalidInputError("an account has a name of one character at least")
        group, gate = ACCOUNT_GROUP + name, partial(self.limits.gate, account=name)
        self._floor(name)
        layers = self._accounts[name] = AccountLayers(
            name,
            self.budget.region(_NAMES, group=group, gate=gate(self.limits.listings)),
            self.budget.region(_POINTER, group=group, gate=gate(self.limits.of_layer("pointer"))),
            self.listeners,
        )
        return layers

    def _floor(self, account: str) -> None:
        """Guarantees an account its floor, as far as floors are not used up."""
        settings = self.budget.settings
        left = settings.max_bytes // _FLOORS_PART - self._floored
        floor = min(settings.account_floor_bytes, max(0, left))
        if floor:
            self._floors[account] = floor
            self._floored += floor
            self.budget.guarantee(ACCOUNT_GROUP + account, floor)
