"""Stores whose credentials expire: a request that is refused is made once more, with fresh credentials.

Catalogs hand out credentials that live for an hour or less, while a table is used for longer. All places of a
table share one :class:`Credentials`, so that many requests refused at once ask the catalog once.

Invariant: a request is made twice at most, and a second time only with other credentials than before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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
        renew: asks for fresh ones.
    """

    def __init__(self, options: Mapping[str, Any] | None, renew: Renew) -> None:
        self.options = StorageOptions(options)
        self._renew = renew
        self._lock = anyio.Lock()

    async def after(self, refused: StorageOptions) -> StorageOptions:
        """Returns the options to use after some were refused; the same ones if there are no others."""
        async with self._lock:
            if self.options == refused:
                self.options = StorageOptions(await self._renew())
            return self.options


class RenewingStore(StoreDecorator):
    """A place of a table, reached with the credentials of the moment.

    Args:
        credentials: shared by the places of the table.
        opened: opens the place with storage options.
    """

    def __init__(self, credentials: Credentials, opened: Callable[[StorageOptions], ObjectStore]) -> None:
        self._credentials, self._opened = credentials, opened
        self._options = credentials.options
        # One layer between, which requests are bound to while the store below it is replaced.
        self._current = StoreDecorator(opened(self._options))
        self._retired: ObjectStore | None = None
        super().__init__(self._current)

    def __reduce__(self) -> tuple[Any, ...]:
        # The catalog stays here: what travels is a store with the credentials of the moment.
        return _same, (self._current.inner,)

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Makes the request, and once more with fresh credentials where it is refused."""
        options = self._options
        try:
            return await request()
        except PermissionDeniedError:
            fresh = await self._credentials.after(options)
            if fresh == options:
                raise
        await self._reopen(fresh)
        return await request()

    async def _reopen(self, fresh: StorageOptions) -> None:
        if self._options == fresh:
            return
        self._options = fresh
        # Requests may be under way in the store that is replaced; in the one before it there are none left.
        old, self._retired = self._retired, self._current.inner
        self._current.inner = self._opened(fresh)
        if old is not None:
            await old.aclose()

    async def aclose(self) -> None:
        retired, self._retired = self._retired, None
        if retired is not None:
            await retired.aclose()
        await super().aclose()


def _same(store: ObjectStore) -> ObjectStore:
    """Returns the store: what is left of this module's classes where they were unpickled."""
    return store
