"""Validation of an attached catalog: does it answer, list, accept the credentials, and can its files be read.

Each check says what it found in words that may be shown to anybody who administers the catalog: no credential
and nothing of the content. One that cannot be made because another failed is skipped.

Invariant: it ends within its time for each check, whatever hangs.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from lakehouse.catalog.nodes import RelationPath
from lakehouse.catalog.sources.source import CatalogSource, Pointer
from lakehouse.errors import LakehouseError, PermissionDeniedError, UnavailableError
from lakehouse.iceberg import IcebergTable

__all__ = ["CatalogCheck", "CatalogReport", "CheckStatus", "validate_source"]

R = TypeVar("R")
_NAMESPACES_MAX = 20
"""Namespaces that are looked into for a table to read."""
_NAMESPACES_SHOWN = 3


class CheckStatus(enum.StrEnum):
    """Outcome of a check."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCheck:
    """One thing that was tried."""

    name: str
    """``connection``, ``credential``, ``discovery`` or ``storage``."""
    status: CheckStatus
    text: str
    """For people; holds no credential."""
    kind: str | None = None
    """Kind of the error, where it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogReport:
    """Outcome of all checks of one catalog, in the order they were made."""

    catalog: str
    checks: tuple[CatalogCheck, ...]

    @property
    def is_ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status is not CheckStatus.FAILED for check in self.checks)

    def __getitem__(self, name: str) -> CatalogCheck:
        """Returns a check by its name."""
        return next(check for check in self.checks if check.name == name)

    def __str__(self) -> str:
        lines = [f"{check.name}: {check.status}: {check.text}" for check in self.checks]
        return "\n".join([f"catalog {self.catalog!r}", *lines])


async def validate_source(source: CatalogSource, *, timeout_s: float) -> CatalogReport:
    """Checks a source.

    Args:
        source: that is asked.
        timeout_s: seconds that each check may take.
    """
    return await _Validation(source, timeout_s).report()


class _Validation:
    def __init__(self, source: CatalogSource, timeout_s: float) -> None:
        self._source, self._timeout_s = source, timeout_s
        self._checks: dict[str, CatalogCheck] = {}

    async def report(self) -> CatalogReport:
        namespaces = await self._connection()
        table = await self._discovery(namespaces) if namespaces is not None else None
        await self._storage(table)
        names = ("connection", "credential", "discovery", "storage")
        return CatalogReport(catalog=self._source.name, checks=tuple([self._checks[one] for one in names]))

    async def _connection(self) -> list[RelationPath] | None:
        """Lists the outermost namespaces: the catalog has to answer, and to accept the credentials."""
        try:
            found = await self._timed(lambda: self._source.namespaces())
        except PermissionDeniedError as error:
            self._ok("connection", "the catalog answers")
            self._failed("credential", error)
            self._skipped("discovery", "the catalog refuses the credentials")
            return None
        except LakehouseError as error:
            self._failed("connection", error)
            self._skipped("credential", "the catalog does not answer")
            self._skipped("discovery", "the catalog does not answer")
            return None
        self._ok("connection", "the catalog answers")
        self._ok("credential", "the catalog accepts the credentials")
        return found

    async def _discovery(self, namespaces: list[RelationPath]) -> RelationPath | None:
        """Looks for a table, in a bounded number of namespaces."""
        try:
            return await self._timed(lambda: self._first_table(namespaces))
        except LakehouseError as error:
            self._failed("discovery", error)
            return None

    async def _first_table(self, namespaces: list[RelationPath]) -> RelationPath | None:
        waiting, looked = list(namespaces), 0
        while waiting and looked < _NAMESPACES_MAX:
            namespace = waiting.pop(0)
            looked += 1
            page = await self._source.page(namespace, limit=1)
            if page.entries:
                found = f"{len(namespaces)} namespaces, such as {_shown(namespaces)}"
                self._ok("discovery", f"{found}; there are tables in {_shown([namespace])}")
                return page.entries[0].path
            waiting.extend(await self._source.namespaces(namespace))
        seen = f"in the first {looked} namespaces" if looked else "and no namespace"
        self._ok("discovery", f"the catalog lists, and has no table {seen} that may be seen")
        return None

    async def _storage(self, table: RelationPath | None) -> None:
        """Reads metadata and the list of files of a table with the credentials of files."""
        if table is None:
            why = self._checks["discovery"]
            found = (
                "no table was found to read" if why.status is CheckStatus.OK else "no table could be listed"
            )
            self._skipped("storage", found)
            return
        try:
            await self._timed(lambda: self._read(table))
        except LakehouseError as error:
            self._failed("storage", error)
        else:
            self._ok("storage", f"metadata of {'.'.join(table)} were read")

    async def _read(self, table: RelationPath) -> None:
        pointer: Pointer = await self._source.pointer(table)
        opened: Any = await self._source.open(pointer)
        if isinstance(opened, IcebergTable):
            await opened.manifests()
        else:
            await self._source.snapshots(pointer)

    async def _timed(self, work: Callable[[], Awaitable[R]]) -> R:
        try:
            with anyio.fail_after(self._timeout_s):
                return await work()
        except TimeoutError:
            raise UnavailableError(f"no answer within {self._timeout_s:g} s", kind="timeout") from None

    def _ok(self, name: str, text: str) -> None:
        self._checks[name] = CatalogCheck(name=name, status=CheckStatus.OK, text=text)

    def _skipped(self, name: str, text: str) -> None:
        self._checks[name] = CatalogCheck(name=name, status=CheckStatus.SKIPPED, text=text)

    def _failed(self, name: str, error: LakehouseError) -> None:
        self._checks[name] = CatalogCheck(
            name=name, status=CheckStatus.FAILED, text=error.message, kind=error.kind
        )


def _shown(namespaces: list[RelationPath]) -> str:
    return ", ".join(".".join(one) for one in namespaces[:_NAMESPACES_SHOWN])
