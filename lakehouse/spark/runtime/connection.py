"""Connections of Spark's processes to a warehouse: a value that travels, and a lake that each process keeps.

Invariant: a process opens one lake for equal connections, when it first needs it and never in a parent
that it was forked from, and keeps it: workers are used again, and what they have cached with them.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.io import StorageOptions
from lakehouse.io.location import Location
from lakehouse.io.open import understood_options
from lakehouse.lake import Lake, connect
from lakehouse.spark.runtime.kept import Kept
from lakehouse.spark.runtime.worker_heap import put_loaded_aside
from lakehouse.spark.runtime.worker_memory import fit_into_limit
from lakehouse.storage.tables import OpenTable
from lakehouse.sync.bridge import Bridge

__all__ = ["Connection", "Warehouse", "warehouse"]

P = ParamSpec("P")
R = TypeVar("R")

_LAKES_MAX = 8
"""Maximum warehouses that a process keeps open; the one opened first makes room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A warehouse as ``lakehouse.connect`` takes it; plain values, which travel to executors.

    Credentials are best left to the environment of the executors: what is given here is part of the
    query's plan.
    """

    url: str
    """URL of the warehouse, such as ``s3://bucket/warehouse``."""
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    """Storage options of fsspec, such as ``endpoint_url``, in any spelling; secrets are shown as ``***``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the lake, such as ``{"cache.max_bytes": …}``."""
    catalogs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Catalogs of Iceberg tables by name, with the properties that ``lake.attach_catalog`` takes."""

    def __post_init__(self) -> None:
        if "://" not in self.url:
            raise InvalidInputError(
                f"a warehouse is a URL such as s3://bucket/warehouse, not {self.url!r}: executors have no "
                "working directory in common"
            )
        if self.url.startswith("memory://"):
            raise InvalidInputError(
                f"{self.url} is in the memory of one process, and Spark has several: use file:// or s3://"
            )

        options = understood_options(Location.parse(self.url), self.storage_options)
        object.__setattr__(self, "storage_options", options)

    @property
    def identity(self) -> str:
        """Key that equal connections share; a hash, so that no secret can be read from it."""
        known = (self.url, *map(_sorted, (self.revealed_options(), self.settings, self.catalogs)))
        return hashlib.sha256(repr(known).encode()).hexdigest()

    def revealed_options(self) -> dict[str, Any]:
        """Returns the storage options with their secrets, for code that sends them to where they are used."""
        return StorageOptions(self.storage_options).reveal()


class Warehouse:
    """A lake that this process keeps, for code that blocks. Made by :func:`warehouse`.

    Args:
        connection: where it is.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        fit_into_limit()
        self.lake: Lake = connect(
            connection.url,
            storage_options=connection.storage_options,
            settings=dict(connection.settings),
        )
        """The async lake: its methods run in :meth:`call`, :meth:`iterate` and :meth:`hold` only."""
        self._bridge = Bridge(self.lake)

    def call(self, work: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs an async function on the lake's event loop; returns or raises what it does."""
        return self._bridge.call(work, *args, **kwargs)

    def iterate(
        self, work: Callable[P, AsyncIterator[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Generator[R, None, None]:
        """Yields the items of an async iterator, which runs on the lake's event loop."""
        return self._bridge.iterate(work, *args, **kwargs)

    def hold(
        self, work: Callable[P, AbstractAsyncContextManager[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AbstractContextManager[R]:
        """Enters an async context manager, on the lake's event loop, around a block of code that blocks."""
        return self._bridge.hold(work, *args, **kwargs)

    def table(self, name: str) -> OpenTable:
        """Opens the table of that name, as the engine's functions take it."""
        return self.call(self.lake.table, name).core

    def same_table(self, name: str, known: uuid.UUID, otherwise: LakehouseError) -> OpenTable:
        """Opens the table of that name, if it is still the one with that id.

        Args:
            name: the table's.
            known: its id when the work began.
            otherwise: is raised when another table has the name by now.
        """
        table = self.table(name)
        if table.uuid != known:
            raise otherwise
        return table

    def close(self) -> None:
        """Closes the lake, which gives its connections back."""
        self._bridge.close()


_kept: Kept[Warehouse] = Kept(_LAKES_MAX, Warehouse.close)
"""Open warehouses by the identity of their connections."""


def warehouse(connection: Connection) -> Warehouse:
    """Returns this process's lake of a connection; called whenever a piece of work begins."""
    put_loaded_aside()
    return _kept.get(connection.identity, lambda: Warehouse(connection))


def _sorted(options: Any) -> Any:
    """Returns options in the order of their names, so that equal ones have the same text."""
    if isinstance(options, Mapping):
        return [(key, _sorted(options[key])) for key in sorted(options)]
    return options
