"""Authority over a warehouse: a store in which the databases that an account may not see are not there.

Names of databases and tables are read through it, so whatever looks for one finds what it would find in a
warehouse without them: errors, suggestions and listings included. Files of tables are not: a table that was
found by its name is the same open table for all accounts.

Invariant: no request about a hidden database reaches the warehouse.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from lakehouse.catalog.sources import Access
from lakehouse.errors import NotFoundError, PermissionDeniedError
from lakehouse.io import ListPage, ObjectStore
from lakehouse.io.cost import REQUEST_KINDS
from lakehouse.io.decorators import StoreDecorator

__all__ = ["AuthorityStore"]

R = TypeVar("R")
_READING = frozenset({"get", "head", "list"})


class AuthorityStore(StoreDecorator):
    """A warehouse as an account sees it.

    Args:
        inner: the whole warehouse.
        access: databases that are seen.
        account: whose it is, for messages.
    """

    def __init__(self, inner: ObjectStore, access: Access, account: str) -> None:
        super().__init__(inner)
        self._access, self._account = access, account

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Makes a request about a database that may be seen."""
        if "/" in key and not await self._shows(key):
            if REQUEST_KINDS[verb] in _READING:
                raise NotFoundError(f"there is no object {key!r} at {self.url}", key=key)
            raise self._denied(key)
        return await request()

    async def list_page(
        self,
        prefix: str = "",
        *,
        start_after: str | None = None,
        delimiter: str | None = None,
        page: str | None = None,
        limit: int | None = None,
    ) -> ListPage:
        """Lists what may be seen; a page may be shorter than the store's."""
        if "/" in prefix and not await self._shows(prefix):
            return ListPage(objects=(), prefixes=(), next_page=None)
        found = await self.inner.list_page(
            prefix, start_after=start_after, delimiter=delimiter, page=page, limit=limit
        )
        if "/" in prefix:
            return found
        return replace(
            found,
            objects=tuple([one for one in found.objects if "/" not in one.key or await self._shows(one.key)]),
            prefixes=tuple([one for one in found.prefixes if await self._shows(one)]),
        )

    async def delete_batch(self, keys: Sequence[str]) -> None:
        """Deletes objects of databases that may be seen."""
        for key in keys:
            if not await self._shows(key):
                raise self._denied(key)
        await self.inner.delete_batch(keys)

    async def _shows(self, key: str) -> bool:
        return await self._access.shows((key.partition("/")[0],))

    def _denied(self, key: str) -> PermissionDeniedError:
        # Whether there is such a database is not said.
        database = key.partition("/")[0]
        return PermissionDeniedError(
            f"account {self._account!r} may not use a database {database!r}: take another name, or have "
            "whoever administers the accounts allow it",
            account=self._account,
            database=database,
        )
