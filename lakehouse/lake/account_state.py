"""State of a lake as one account sees it: the warehouse is shared, what stands for the account is its own.

Shared are the store with its connections, open tables, background work and content; own are catalogs, the
graph with its pointers and counters, and the databases that are seen.

Invariant: an account's state holds nothing of another account's, and nothing that content cannot be found by.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from lakehouse.catalog.accounts import AuthorityStore
from lakehouse.catalog.control import LakeCache
from lakehouse.catalog.sources import Access, SourceSet, WarehouseSource
from lakehouse.config import AccountConfig
from lakehouse.errors import PermissionDeniedError
from lakehouse.index import IndexSource
from lakehouse.lake.state import LakeState
from lakehouse.storage.tables import Names

__all__ = ["AccountState"]


class AccountState(LakeState):
    """State of one account.

    Args:
        root: state of the lake.
        account: its name.
        config: catalogs and authority that it begins with.
    """

    def __init__(self, root: LakeState, account: str, config: AccountConfig) -> None:
        self.root, self.account, self.config = root, account, config
        access = Access.parse(config.include, config.exclude, config.authorise)
        self.store = root.store if access.is_everything else AuthorityStore(root.store, access, account)
        self.settings, self.clock, self.caches = root.settings, root.clock, root.caches
        self.layers, self.scopes, self.env = root.layers, root.scopes, root.env
        self.engines, self.open_queries = root.engines, root.open_queries
        self.registry, self.background, self.accounts = root.registry, root.background, root.accounts
        self.names = root.names
        if not access.is_everything:
            self.names = Names(self.store, self.settings.table)
            self.names.listeners = root.names.listeners
        self.cache = LakeCache(
            self.layers,
            warm=self.warm,
            identify=self.identity,
            catalogs=self.attached_names,
            account=account,
            sees_all=False,
        )
        self.sources = SourceSet(WarehouseSource(self.env, self.names, self.listing()))
        self.listing_env = replace(self.env, store=self.store)
        self.used_at = 0.0
        self.given = {}
        self._catalogs = self._graph = self._sql = None
        for name, properties in config.catalogs.items():
            self.attach(name, properties)

    @property
    def is_entered(self) -> bool:  # type: ignore[override]
        """Whether the lake is entered, which accounts of it are with it."""
        return self.root.is_entered

    def index_source(self, url: str) -> AbstractAsyncContextManager[IndexSource]:
        """Refuses: the credentials are the lake's, and would open what the account may not see."""
        raise PermissionDeniedError(
            f"account {self.account!r} reads tables, not locations: ask for a table of the lake",
            account=self.account,
        )

    def use(self) -> None:
        """Notes that the account is used."""
        self.accounts.use(self)

    def rest(self) -> None:
        """Gives back what the process keeps for the account."""
        self._graph = None
        self.layers.forget(self.account)
        if self._sql is not None and _has_loop():
            self.spawn(self.end_sql, optional=True)
        # Open tables stay open: whoever reads them need not know that the account rests. From a thread
        # without a loop connections cannot be closed; they are with the account, or with the lake.
        if self._catalogs is not None and _has_loop():
            self.spawn(self.disconnect, optional=True)

    async def disconnect(self) -> None:
        """Gives connections to catalogs back; they connect again when they are used."""
        if self._catalogs is not None:
            await self._catalogs.disconnect()

    async def close(self) -> None:
        """Ends the account: its catalogs are detached, with their tables."""
        self.accounts.close(self.account)
        await self.end_sql()
        for name in list(self.given):
            await self.detach(name)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
