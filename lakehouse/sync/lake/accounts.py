"""AccountLake and LakeAccounts without await: the twin of :mod:`lakehouse.lake.accounts`.

Invariant: every method hands the call to the async one of its name, and does nothing else.
"""
# Made by tools/gen_sync.py from lakehouse/lake/accounts.py: edit that file, then run `make docs`.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from lakehouse.catalog.sources import AuthoriseNamespace
from lakehouse.config import Settings
from lakehouse.lake.accounts import AccountLake as AsyncAccountLake
from lakehouse.lake.accounts import LakeAccounts as AsyncLakeAccounts
from lakehouse.sync.bridge import Bridge
from lakehouse.sync.lake.cache import LakeCaches
from lakehouse.sync.lake.catalogs import LakeCatalogs
from lakehouse.sync.lake.databases import LakeDatabases
from lakehouse.sync.lake.inventory import LakeInventory
from lakehouse.sync.lake.queries import LakeQueries
from lakehouse.sync.lake.sql import LakeSql
from lakehouse.sync.lake.tables import LakeTables
from lakehouse.sync.lake.views import LakeViews
from lakehouse.sync.planner_graph import PlannerGraph

__all__ = ["AccountLake", "LakeAccounts"]


class LakeAccounts:
    """Base of ``Lake`` with its methods for accounts."""

    def __init__(self, wrapped: AsyncLakeAccounts, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    def for_account(
        self,
        account: str,
        *,
        catalogs: Mapping[str, Mapping[str, Any]] | None = None,
        include: Sequence[str | tuple[str, ...]] | None = None,
        exclude: Sequence[str | tuple[str, ...]] | None = None,
        authorise: AuthoriseNamespace | None = None,
    ) -> AccountLake:
        """Returns the lake as an account sees it: shared content and connections, all else its own.

        Own are the catalogs that are attached, pointers, listings and counters. Without arguments the account
        is as it was, or as ``accounts`` of :func:`lakehouse.connect` and the configuration file say. It
        needs not be entered. One that nobody holds is gone after ``catalog.account_idle_s`` without a use.

        Args:
            account: its name.
            catalogs: properties of catalogs to attach, by name.
            include: patterns of databases of the warehouse that it sees, such as ``["acme_*"]``; None = all.
            exclude: patterns of databases that it does not see, whatever else fits them.
            authorise: asked besides for databases that the patterns allow; is given ``(database,)``.

        Example::

            acme = lake.for_account("acme", include=["acme_*"])
            print(acme.databases())
        """
        return AccountLake(
            self._wrapped.for_account(
                account, catalogs=catalogs, include=include, exclude=exclude, authorise=authorise
            ),
            self._bridge,
        )

    def accounts(self) -> list[str]:
        """Returns the names of the accounts that somebody holds or uses, in order."""
        return self._wrapped.accounts()


class AccountLake(
    LakeCaches, LakeCatalogs, LakeDatabases, LakeTables, LakeViews, LakeInventory, LakeQueries, LakeSql
):
    """A warehouse as an account sees it. Made by ``lake.for_account``.

    It may be used while its lake is; leaving it detaches the catalogs of the account.
    """

    _wrapped: AsyncAccountLake

    def __init__(self, wrapped: AsyncAccountLake, bridge: Bridge) -> None:
        self._wrapped, self._bridge = wrapped, bridge

    @property
    def account(self) -> str:
        """Name of the account."""
        return self._wrapped.account

    @property
    def settings(self) -> Settings:
        """Bounds and defaults of the lake."""
        return self._wrapped.settings

    @property
    def graph(self) -> PlannerGraph:
        """Metadata graph: names, ids and nodes of all that the account sees."""
        return PlannerGraph(self._wrapped.graph, self._bridge)

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __enter__(self) -> Self:
        self._bridge.enter(self._wrapped)
        return self

    def __exit__(self, *why: object) -> None:
        self._bridge.leave(self._wrapped)

    def close(self) -> None:
        """Gives connections back; what it gave out is refused from then on."""
        self._bridge.leave(self._wrapped)
