"""Accounts of a lake: the same lake, as somebody sees it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from lakehouse.catalog import PlannerGraph
from lakehouse.catalog.ids import DEFAULT_ACCOUNT
from lakehouse.catalog.sources import AuthoriseNamespace
from lakehouse.config import AccountConfig, Settings
from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short
from lakehouse.io.lent import LentStore
from lakehouse.lake.account_state import AccountState
from lakehouse.lake.cache import LakeCaches
from lakehouse.lake.catalogs import LakeCatalogs
from lakehouse.lake.databases import LakeDatabases
from lakehouse.lake.inventory import LakeInventory
from lakehouse.lake.queries import LakeQueries
from lakehouse.lake.sql import LakeSql
from lakehouse.lake.state import LakeState
from lakehouse.lake.tables import LakeTables
from lakehouse.lake.views import LakeViews

__all__ = ["AccountLake", "LakeAccounts"]

_NAME_CHARACTERS_MAX = 256


class LakeAccounts:
    """Base of ``Lake`` with its methods for accounts."""

    _state: LakeState
    _lent: LentStore

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
            print(await acme.databases())
        """
        _check_account(account)
        asked = AccountConfig(catalogs=catalogs or {}, include=include, exclude=exclude, authorise=authorise)
        is_asked = any(one is not None for one in (catalogs, include, exclude, authorise))
        known: AccountState | None = self._state.accounts.find(account)
        if is_asked and known is not None and known.config != asked:
            raise InvalidInputError(
                f"account {account!r} is in use with other catalogs or databases: leave it before it is "
                "given others (async with lake.for_account(…))",
                account=account,
            )
        config = asked if is_asked else self._state.account_configs.get(account, AccountConfig())
        state = self._state.accounts.get(account, lambda: AccountState(self._state, account, config))
        return AccountLake(state, self._lent)

    def accounts(self) -> list[str]:
        """Returns the names of the accounts that somebody holds or uses, in order."""
        return sorted(one.account for one in self._state.accounts)


class AccountLake(
    LakeCaches, LakeCatalogs, LakeDatabases, LakeTables, LakeViews, LakeInventory, LakeQueries, LakeSql
):
    """A warehouse as an account sees it. Made by ``lake.for_account``.

    It may be used while its lake is; leaving it detaches the catalogs of the account.

    Args:
        state: of the account.
        store: the warehouse, lent by the lake.
    """

    _state: AccountState

    def __init__(self, state: AccountState, store: LentStore) -> None:
        self._state, self._lent = state, store

    @property
    def account(self) -> str:
        """Name of the account."""
        return self._state.account

    @property
    def settings(self) -> Settings:
        """Bounds and defaults of the lake."""
        return self._state.settings

    @property
    def graph(self) -> PlannerGraph:
        """Metadata graph: names, ids and nodes of all that the account sees."""
        return self._state.graph

    def __reduce__(self) -> tuple[Any, ...]:
        # The lake's own catalogs stay here: they are another account's.
        state = self._state
        config = AccountConfig(
            catalogs=dict(state.given),
            include=state.config.include,
            exclude=state.config.exclude,
            authorise=state.config.authorise,
        )
        make = functools.partial(LakeState, settings=state.settings, clock=state.clock)
        return type(self)._arrived, (make, self._lent, state.account, config)

    @classmethod
    def _arrived(
        cls,
        make: Callable[[LentStore], LakeState],
        store: LentStore,
        account: str,
        config: AccountConfig,
    ) -> Self:
        """Returns the view of an account in the process that it was unpickled in."""
        root = make(store)
        return cls(root.accounts.get(account, lambda: AccountState(root, account, config)), store)

    def __repr__(self) -> str:
        return f"<Lake at {self._lent.url}, account {self.account!r}>"

    async def __aenter__(self) -> Self:
        self._state.use()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._state.close()


def _check_account(account: object) -> None:
    if (
        not isinstance(account, str)
        or not 0 < len(account) <= _NAME_CHARACTERS_MAX
        or not account.isprintable()
    ):
        raise InvalidInputError(
            f"an account has a name of 1 to {_NAME_CHARACTERS_MAX} printable characters, not {short(account)}"
        )
    if account == DEFAULT_ACCOUNT:
        raise InvalidInputError(
            f"{DEFAULT_ACCOUNT!r} is the account of the lake itself: use the lake, or take another name",
            account=account,
        )
