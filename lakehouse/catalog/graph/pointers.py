"""Pointers of one account: what names stand for, what is newest, and what is known by id.

A name and a version are asked for apart where the source can tell the name alone; by id only the version is
asked for, and the name again when it is as old as a listing may be.

Invariant: a pointer is served no longer than the bound of its layer after the look that it came from began,
and one that this process changed is not served at all, whatever loads were under way.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Hashable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary, finalize, ref

from lakehouse.cache import CacheRegion, CacheSpec, weigh
from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.layers import ACCOUNT_GROUP, DropListener, Layers
from lakehouse.catalog.nodes import Node, RelationPath
from lakehouse.catalog.sources import CatalogSource, Pointer, SourceSet, catalog_tag
from lakehouse.clock import Clock
from lakehouse.errors import InternalError, NotFoundError

__all__ = ["Known", "Pointers"]

_KNOWN_BYTES = 1_500
"""Estimated bytes of what is known of a relation, its node and text left out."""
_NAME_ONLY = ""
"""Last part of keys under which a name alone was looked at; no relation has an empty name."""


class Known:
    """Knowledge of one id: its pointer, which may be stale, and the node that was made of that pointer."""

    __slots__ = (
        "__weakref__", "catalog", "drops", "id", "key", "look", "named_at", "node", "path", "pointer",
        "seen_at",
    )  # fmt: skip

    def __init__(self, number: ResourceId, catalog: str, path: RelationPath) -> None:
        self.id, self.catalog, self.path = number, catalog, path
        self.key: tuple[Hashable, ...] = ()
        self.look: Callable[[Any], Any]
        self.pointer: Pointer | None = None
        self.node: Node | None = None
        self.drops = 0
        """Times that its content was dropped: what was read before the last makes no node to keep."""
        self.seen_at = self.named_at = float("-inf")
        """Moments of the last looks at the version and at the name, by the steady clock."""

    def adopt(self, pointer: Pointer) -> None:
        """Takes over a pointer; a node of another version is given up."""
        if self.pointer is None or self.pointer.version != pointer.version:
            self.node = None
        self.pointer = pointer


def _weigh_known(known: Known) -> int:
    node = known.node
    text = (
        0 if node is None else len(getattr(node, "schema_json", "")) + weigh(getattr(node, "field_ids", ""))
    )
    return _KNOWN_BYTES + text + weigh(known.key)


_NODES = CacheSpec(name="nodes", weigh=_weigh_known)


class Pointers:
    """Pointers of one account.

    Args:
        account: its name.
        layers: caches of the lake.
        sources: catalogs of the account.
    """

    def __init__(self, account: str, layers: Layers, sources: SourceSet) -> None:
        self.account, self.sources = account, sources
        self._layers = layers.account(account)
        self._clock: Clock = layers.clock
        self.region: CacheRegion[tuple[Hashable, ...], Pointer] = self._layers.pointers
        self.nodes: CacheRegion[ResourceId, Known] = layers.budget.region(
            _NODES, group=ACCOUNT_GROUP + account
        )
        self._by_key: WeakValueDictionary[tuple[Hashable, ...], Known] = WeakValueDictionary()
        _Drops.hear(layers, self)
        self._named_for_s = self._layers.names.spec.expire_after_write_s or 0.0

    # --- by name ------------------------------------------------------------------

    async def identified(self, catalog: str, path: RelationPath) -> Pointer:
        """Returns what a name stands for; its version may be left out."""
        key = self._layers.pointer_key(catalog, path)
        found = self.region.get_if_present(key)
        if found is None:
            load = partial(self._load_name, self.sources.get(catalog), path)
            found = await self.region.get((*key, _NAME_ONLY), load)
        return found if found is not None else await self.named(catalog, path)

    async def named(self, catalog: str, path: RelationPath) -> Pointer:
        """Returns what a name stands for, with its version."""
        key = self._layers.pointer_key(catalog, path)
        found = await self.region.get(key, partial(self._load, self.sources.get(catalog), path))
        return _there(found)

    async def live(self, catalog: str, path: RelationPath) -> Pointer:
        """Reads what a name stands for now, whatever is known, and has others see it too."""
        load = partial(self._load, self.sources.get(catalog), path, is_live=True)
        found = await self.region.reload(self._layers.pointer_key(catalog, path), load)
        return _there(found)

    async def _load_name(self, source: CatalogSource, path: RelationPath, _: object) -> Pointer | None:
        began = self._clock.steady()
        pointer = await source.identify(path)
        if pointer is not None:
            self.know(source.name, pointer).named_at = began
        return pointer

    async def _load(
        self, source: CatalogSource, path: RelationPath, key: tuple[Hashable, ...], *, is_live: bool = False
    ) -> Pointer:
        began = self._clock.steady()
        named = None if is_live else self.region.get_if_present((*key, _NAME_ONLY))
        pointer = await (source.pointer(path) if named is None else source.renew(named))
        known = self.know(source.name, pointer)
        known.seen_at = began
        if named is None:
            known.named_at = began
        known.adopt(pointer)
        return pointer

    # --- by id --------------------------------------------------------------------

    def know(self, catalog: str, pointer: Pointer) -> Known:
        """Returns what is known of a pointer's relation, which from now on includes its name."""
        number = self.id_of(catalog, pointer)
        known = self.nodes.get_if_present(number)
        if known is None or known.path != pointer.path:
            known = Known(number, catalog, pointer.path)
            known.key = self._layers.pointer_key(catalog, pointer.path)
            known.look = partial(self._look, known)
            known.pointer = pointer
            self._by_key[known.key] = known
            self.nodes.put(number, known, tags=(catalog_tag(catalog),))
        return known

    def id_of(self, catalog: str, pointer: Pointer) -> ResourceId:
        """Returns the id of what a pointer leads to."""
        return ResourceId.of_relation(self.account, pointer.kind, catalog, pointer.identity)

    async def fresh(self, known: Known, max_staleness: float | None = None) -> Pointer:
        """Returns the pointer of an id, within the bound of the layer or a shorter one.

        Raises:
            NotFoundError: its name stands for another relation now.
        """
        is_old = max_staleness is not None and self.is_older(known, max_staleness)
        pointer = _there(await (self.region.reload if is_old else self.region.get)(known.key, known.look))
        if self.id_of(known.catalog, pointer) != known.id:
            raise NotFoundError(
                f"{'.'.join(known.path)} was dropped, and its name stands for another {pointer.kind.value}: "
                "resolve the name again",
                id=str(known.id),
                name=".".join(known.path),
            )
        if pointer is not known.pointer:
            known.adopt(pointer)
        return pointer

    def is_older(self, known: Known, seconds: float) -> bool:
        """Returns whether the last look at a version is that long ago."""
        return self._clock.steady() - known.seen_at >= seconds

    async def _look(self, known: Known, _: object) -> Pointer:
        """Reads the version of what is known, and its name again when that is old."""
        began, source = self._clock.steady(), self.sources.get(known.catalog)
        base = _there(known.pointer)
        if began - known.named_at >= self._named_for_s:
            base = await source.identify(known.path) or base
            known.named_at = began
        pointer = await source.renew(base)
        known.seen_at = began
        known.adopt(pointer)
        return pointer

    # --- changes ------------------------------------------------------------------

    def put(self, catalog: str, pointer: Pointer) -> None:
        """Makes a pointer what readers get from now on; loads that are under way do not land."""
        self.region.put(self._layers.pointer_key(catalog, pointer.path), pointer)

    def drop_name(self, catalog: str, path: RelationPath) -> None:
        """Forgets what a name, or a namespace, stands for, and listings that show it."""
        self._layers.drop(catalog, path)

    def dropped(self, catalog: str | None, path: RelationPath) -> None:
        """Hears that pointers were dropped: whoever asks by id has the names read again, too."""
        key = () if catalog is None else self._layers.pointer_key(catalog, path)
        exact = self._by_key.get(key)
        for known in [exact] if exact is not None else list(self._by_key.values()):
            if known.key[: len(key)] == key:
                known.named_at = float("-inf")

    def content_dropped(self, identities: Collection[uuid.UUID]) -> None:
        """Hears that content was dropped: nodes that were made of it are made anew."""
        for known in list(self._by_key.values()):
            if known.pointer is not None and known.pointer.identity in identities:
                known.node = None
                known.drops += 1

    def drop_pointer(self, catalog: str, path: RelationPath) -> None:
        """Forgets what a name stands for; listings still show the name."""
        key = self._layers.pointer_key(catalog, path)
        self.region.invalidate(key)
        self.region.invalidate((*key, _NAME_ONLY))

    def forget(self, number: ResourceId) -> Known | None:
        """Forgets an id and its pointer; returns what was known."""
        known = self.nodes.get_if_present(number)
        if known is not None:
            self.nodes.invalidate(number)
            self.drop_pointer(known.catalog, known.path)
        return known

    def kept(self, known: Known) -> None:
        """Weighs anew what is known of an id, since it has a node now."""
        self.nodes.put(known.id, known, tags=(catalog_tag(known.catalog),))


class _Drops(DropListener):
    """Hands drops on to the pointers of an account, and goes with them."""

    def __init__(self, pointers: Pointers) -> None:
        self._account, self._pointers = pointers.account, ref(pointers)

    @classmethod
    def hear(cls, layers: Layers, pointers: Pointers) -> None:
        """Has pointers hear of drops for as long as they exist."""
        made = cls(pointers)
        layers.listeners.append(made)
        finalize(pointers, layers.listeners.remove, made).atexit = False

    def dropped(self, account: str, catalog: str | None, path: RelationPath) -> None:
        """Hears a drop."""
        pointers = self._pointers()
        if pointers is not None and account == self._account:
            pointers.dropped(catalog, path)

    def content_dropped(self, identities: Collection[uuid.UUID]) -> None:
        """Hears of content, which accounts share."""
        pointers = self._pointers()
        if pointers is not None:
            pointers.content_dropped(identities)


def _there(pointer: Pointer | None) -> Pointer:
    """Returns a pointer that a source gave; sources raise an error for what is not there."""
    if pointer is None:
        raise InternalError("a source gave no pointer and no error")
    return pointer
