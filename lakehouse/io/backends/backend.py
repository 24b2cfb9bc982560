"""Backends have in common: where they are, how they travel, what a listing is asked for.

Invariant: a backend travels as configuration; where it arrives it connects anew.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.config import IoSettings
from lakehouse.errors import ConflictError, UnavailableError
from lakehouse.io.anchor import Anchor
from lakehouse.io.location import Location
from lakehouse.io.options import StorageOptions
from lakehouse.io.protocols import ListPage
from lakehouse.io.store import ObjectStore

__all__ = ["Listing", "StoreBackend", "check_length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Question for one page of a listing; its words are those of ``ObjectStore.list_page``."""

    prefix: str
    start_after: str | None
    delimiter: str | None
    page: str | None
    limit: int
    """Maximum number of objects and prefixes, at most ``io.list_page_size``."""

    @property
    def after(self) -> str:
        """The key behind which the page begins, where pages are named by their last key."""
        return max(self.start_after or "", self.page or "")


class StoreBackend(ObjectStore):
    """A store that is asked directly; its place, its options and its bounds.

    Args:
        location: place of the root.
        options: fsspec's; None = none.
        settings: bounds; None = the defaults.
    """

    def __init__(
        self, location: Location, options: StorageOptions | None = None, settings: IoSettings | None = None
    ) -> None:
        self.location = location
        self.options = options or StorageOptions()
        self.settings = settings or IoSettings()
        self.url = location.url
        self.anchor = Anchor(self.url)

    async def list_page(
        self,
        prefix: str = "",
        *,
        start_after: str | None = None,
        delimiter: str | None = None,
        page: str | None = None,
        limit: int | None = None,
    ) -> ListPage:
        most = self.settings.list_page_size
        asked = Listing(
            prefix=prefix,
            start_after=start_after,
            delimiter=delimiter,
            page=page,
            limit=min(limit or most, most),
        )
        return await self._list_page(asked)

    @abc.abstractmethod
    async def _list_page(self, asked: Listing) -> ListPage: ...

    async def delete_batch(self, keys: Sequence[str]) -> None:
        for key in keys:
            await self.delete(key)

    def _check_version(self, key: str, version: str | None, wanted: str | None) -> None:
        """Refuses an object that is no longer the one that is asked for."""
        if wanted is not None and version != wanted:
            raise ConflictError(
                f"{key!r} at {self.url} was replaced: it is version {version}, not {wanted}",
                kind="object-changed",
                key=key,
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.location, self.options, self.settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url})"


def check_length(data: bytes, wanted: int, where: str, key: str) -> None:
    """Refuses a body that ended early."""
    if len(data) != wanted:
        raise UnavailableError(
            f"{where}: {len(data)} of {wanted} bytes arrived",
            kind="truncated-body",
            key=key,
            expected=wanted,
            got=len(data),
        )
