"""The caches of a lake, as its users see and control them: ``lake.cache``.

Invariant: whoever refreshes a name sees what stands there now at the next look, whatever loads were under
way; nothing that another name leads to is dropped for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.catalog.graph.references import parse_name, show_name
from lakehouse.catalog.ids import DEFAULT_ACCOUNT
from lakehouse.catalog.layers.layers import ACCOUNT_GROUP, AccountLayers, Layers
from lakehouse.catalog.layers.prometheus import cache_metrics
from lakehouse.catalog.layers.stats_table import cache_statistics
from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.io.work import map_bounded, or_none
from lakehouse.log import get_logger
from lakehouse.suggest import suggestion

__all__ = ["LakeCache", "PrewarmReport"]

log = get_logger(__name__)

_Warm = Callable[[RelationPath], Awaitable[object]]
"""Loads what a query of a table needs to know of it."""
_Identify = Callable[[str, RelationPath], Awaitable[uuid.UUID | None]]
"""Finds the identity of a relation, given catalog and path; NotFoundError where there is none."""
_RELATION_PARTS = 2
"""Least number of parts of a path in a catalog that may be a relation's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrewarmReport:
    """Result of a prewarm."""

    warmed: int
    """Tables whose metadata are in memory now, or were already."""
    errors: Mapping[str, LakehouseError]
    """Errors by the name of the table; the others are warm all the same."""


class LakeCache:
    """Caches of a lake: ``lake.cache``.

    Args:
        layers: of the lake.
        warm: loads what is to be known of a table, given the parts of its name.
        identify: finds the identity of a relation that is in no cache.
        catalogs: gives the names of attached catalogs.
        account: whose pointers it controls.
        sees_all: whether statistics are those of all accounts.
    """

    def __init__(
        self,
        layers: Layers,
        *,
        warm: _Warm,
        identify: _Identify,
        catalogs: Callable[[], Collection[str]],
        account: str = DEFAULT_ACCOUNT,
        sees_all: bool = True,
    ) -> None:
        self._layers, self._warm, self._catalogs = layers, warm, catalogs
        self._identify = identify
        self._account, self._sees_all = account, sees_all

    def __repr__(self) -> str:
        budget = self._layers.budget
        return f"<caches: {budget.weight:,} of {budget.settings.max_bytes:,} bytes>"

    def stats(self) -> pa.Table:
        """Returns one row for each cache: settings, bytes, entries, hits, misses, loads, failures and ages.

        Caches of pointers have one row for each account; those that all share have no account.

        Example::

            stats = lake.cache.stats()
            print(stats.select(["entry", "hits", "misses", "bytes", "last_error"]).to_pandas())
        """
        return cache_statistics(self._layers, None if self._sees_all else self._account)

    def metrics(self) -> str:
        """Returns counters and sizes of all caches in Prometheus' text format."""
        if not self._sees_all:
            raise InvalidInputError(
                "metrics are those of all accounts: ask the lake that they are accounts of"
            )
        return cache_metrics(self._layers)

    async def refresh(self, target: str | Sequence[str] | None = None, *, deep: bool = False) -> int:
        """Drops what may be stale, so that the next look reads it anew; returns how many entries.

        Only pointers and listings may be stale. What they lead to never changes: it stays, and a table that
        has grown loads only what is new in it.

        Args:
            target: ``catalog``, ``catalog.namespace``, ``database`` or ``database.table``, also as parts;
                None = all that this account knows.
            deep: drop the content of these tables as well, for all accounts: nodes, snapshots, schemas,
                partitions, statistics, manifest lists and manifests are read again when they are asked for.
                Blocks of data files stay, and so does what tables that are open hold: the newest snapshot
                that they know.

        Example::

            await lake.cache.refresh("ice.sales.orders")
        """
        catalog, path = self._scope(target)
        account = self._own
        identities = await self._identities(catalog, path) if deep else set()
        dropped = account.drop(catalog, path)
        dropped += self._layers.drop_content(identities)
        log.info(
            "caches refreshed", account=self._account, catalog=catalog, path=path, deep=deep, entries=dropped
        )
        return dropped

    async def prewarm(self, tables: Iterable[str | Sequence[str]]) -> PrewarmReport:
        """Loads pointer, snapshot and schema of tables, some at once; a broken one harms no other.

        Example::

            report = await lake.cache.prewarm(["sales.orders", "ice.sales.customers"])
        """
        named = {show_name(parts): parts for parts in map(_parts, tables)}

        async def warm(name: str) -> tuple[str, LakehouseError | None]:
            try:
                await self._warm(named[name])
            except LakehouseError as error:
                return name, error
            return name, None

        at_once = self._layers.settings.catalog.load_concurrency
        outcomes = [outcome async for outcome in map_bounded(warm, list(named), at_once)]
        errors = {name: error for name, error in outcomes if error is not None}
        return PrewarmReport(warmed=len(outcomes) - len(errors), errors=errors)

    async def clear(self, entry: str | None = None) -> int:
        """Empties a cache, or all; returns how many entries went.

        An account empties its own caches; those that all share are emptied through the lake itself.

        Args:
            entry: name of one cache, as in :meth:`stats`; None = all, blocks of data files too.
        """
        group = None if self._sees_all else ACCOUNT_GROUP + self._account
        regions = self._layers.budget.regions(entry, group=group)
        if entry is not None and not regions:
            names = sorted({region.spec.name for region in self._layers.budget.regions(group=group)})
            raise InvalidInputError(
                f"there is no cache {entry!r} to clear; {suggestion(entry, names)}", cache=entry
            )
        dropped = sum([region.invalidate_all() for region in regions])
        if entry is None:
            self._own.drop()  # tells listeners
        log.info("caches cleared", account=self._account, entry=entry, entries=dropped)
        return dropped

    async def _identities(self, catalog: str | None, path: RelationPath) -> set[uuid.UUID]:
        """Returns whose content a deep refresh drops: of the pointers held, or the one relation named."""
        held = self._own.identities(catalog, path)
        if held or catalog is None or len(path) < _RELATION_PARTS:
            return held
        found = await or_none(self._identify(catalog, path))
        return set() if found is None else {found}

    @property
    def _own(self) -> AccountLayers:
        return self._layers.account(self._account)

    def _scope(self, target: str | Sequence[str] | None) -> tuple[str | None, RelationPath]:
        """Returns the catalog of a target, with the path inside it; the warehouse is the empty name."""
        if target is None:
            return None, ()
        parts = _parts(target)
        return (parts[0], parts[1:]) if parts[0] in self._catalogs() else ("", parts)


def _parts(target: str | Sequence[str]) -> RelationPath:
    return parse_name(target) if isinstance(target, str) else parse_name(show_name(tuple(target)))
