"""Stores whose credentials are replaced: because they expire, or because somebody rotates them.

Catalogs hand out credentials that live for an hour or less, while a table is used for longer. A request that
is refused is made once more, with fresh credentials. All places of a table share one :class:`Credentials`, so
that many requests refused at once ask the catalog once.

Invariants: a request is made twice at most, and a second time only with other credentials than before. Once
credentials were replaced, and the requests that began with them have ended, nothing here refers to them.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from lakehouse.errors import PermissionDeniedError
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.options import StorageOptions

__all__ = ["Credentials", "Renew", "RenewingStore"]

Renew = Callable[[], Awaitable[Mapping[str, Any]]]
"""Asks for storage options with fresh credentials."""
R = TypeVar("R")


class Credentials:
    """Storage options of one table, as they are now.

    Args:
        options: at the beginning.
        renew: asks for fresh ones; None = there is nobody to ask.
    """

    def __init__(self, options: Mapping[str, Any] | None, renew: Renew | None) -> None:
        self.options = StorageOptions(options)
        self.is_refused = False
        """They are good no longer: fresh ones are asked for before the next request."""
        self._renew = renew
        self._lock = anyio.Lock()
        self._stores: weakref.WeakSet[RenewingStore] = weakref.WeakSet()

    def enter(self, store: RenewingStore) -> None:
        """Tells a store from now on when options are replaced."""
        self._stores.add(store)

    async def after(self, refused: StorageOptions) -> StorageOptions:
        """Returns the options to use after some were refused; the same ones if there are no others."""
        async with self._lock:
            if self.options == refused and self._renew is not None:
                self.options, self.is_refused = StorageOptions(await self._renew()), False
            return self.options

    async def replace(self, options: Mapping[str, Any] | None, *, is_refused: bool = False) -> None:
        """Replaces the options, in all stores that use them.

        Args:
            options: from now on.
            is_refused: fresh ones are asked for before the next request.
        """
        self.options = StorageOptions(options)
        self.is_refused = is_refused and self._renew is not None
        for store in list(self._stores):
            await store.reopen()


@dataclass(slots=True)
class _Opened:
    """A store with the options that it was opened with, and the requests that it has under way."""

    options: StorageOptions
    store: ObjectStore
    under_way: int = 0


class RenewingStore(StoreDecorator):
    """A place of a table, reached with the credentials of the moment.

    Args:
        credentials: shared by the places of the table.
        opened: opens the place with storage options.
    """

    def __init__(self, credentials: Credentials, opened: Callable[[StorageOptions], ObjectStore]) -> None:
        self._credentials, self._open = credentials, opened
        self._opened = _Opened(credentials.options, opened(credentials.options))
        # One layer between, which requests are bound to while the store below it is replaced.
        self._current = StoreDecorator(self._opened.store)
        self._retired: list[ObjectStore] = []
        super().__init__(self._current)
        credentials.enter(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # The catalog stays here: what travels is a store with the credentials of the moment.
        return _same, (self._current.inner,)

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Makes the request, and once more with fresh credentials where it is refused."""
        if self._credentials.is_refused:
            await self._renewed(self._opened.options)
        options = self._opened.options
        try:
            return await self._made(request)
        except PermissionDeniedError:
            if await self._renewed(options) == options:
                raise
        return await self._made(request)

    async def reopen(self) -> None:
        """Opens the place with the options of the moment, if they are others."""
        old, options = self._opened, self._credentials.options
        if old.options == options:
            return
        self._opened = _Opened(options, self._open(options))
        self._current.inner = self._opened.store
        if old.under_way:
            self._retired.append(old.store)
        else:
            await old.store.aclose()

    async def _renewed(self, refused: StorageOptions) -> StorageOptions:
        options = await self._credentials.after(refused)
        await self.reopen()
        return options

    async def _made(self, request: Callable[[], Awaitable[R]]) -> R:
        opened = self._opened
        opened.under_way += 1
        try:
            # Bound to the store of this moment before anything is awaited.
            return await request()
        finally:
            opened.under_way -= 1
            if not opened.under_way and opened.store in self._retired:
                self._retired.remove(opened.store)
                await opened.store.aclose()

    async def aclose(self) -> None:
        retired, self._retired = self._retired, []
        for store in retired:
            await store.aclose()
        await super().aclose()


def _same(store: ObjectStore) -> ObjectStore:
    """Returns the store: what is left of this module's classes where they were unpickled."""
    return store
