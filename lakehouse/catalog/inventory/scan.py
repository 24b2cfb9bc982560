"""Inventory of tables: manifests of all of them read within one bound, and given out as rows.

Tables are opened, and manifests read, by two fan-outs of the same bound. A table or manifest that cannot be
read is a problem in the report, and ends nothing. Manifests of Iceberg tables are decoded together as they
arrive: most of what a small one costs is its header, which all of a table share.

Invariant: memory does not grow with the number of tables, manifests or files.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import pyarrow as pa

from lakehouse.catalog.inventory.rows import InventoryShape, RowBuilder
from lakehouse.catalog.inventory.stated import Raw, StatedManifest, stated
from lakehouse.errors import InvalidInputError, LakehouseError
from lakehouse.format.metadata import FileEntry
from lakehouse.iceberg import IcebergTable
from lakehouse.iceberg.planning import LiveEntries, decode_whole
from lakehouse.io import Cost, map_bounded
from lakehouse.io.cost import counting
from lakehouse.io.work import in_thread
from lakehouse.log import get_logger
from lakehouse.storage.table import Table

__all__ = ["InventoryScan", "InventoryStats", "ListedTable", "TableProblem"]

_log = get_logger(__name__)

_PROBLEMS_MAX = 10_000
_TOGETHER = 32
"""Manifests that are decoded together: more are hardly quicker, and hold rows back."""
_TOGETHER_BYTES = 1 << 20

_Read = LiveEntries | Sequence[FileEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """Table as a listing has it; of a listing that failed, a table whose ``open`` raises why."""

    catalog: str
    """Name of the attached catalog; empty for the warehouse."""
    name: str
    """Full name."""
    open: Callable[[], Awaitable[Table | IcebergTable]]
    is_wanted: bool = False
    """Whether its absence is a problem; else it was dropped meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProblem:
    """A table, a manifest of it, or a listing of tables that could not be read."""

    table: str
    """Full name of the table, or of the catalog or database that was listed."""
    path: str | None
    """URL of the manifest; None = it is no single manifest."""
    kind: str
    """Kind of the error, a word of :data:`lakehouse.errors.KINDS`."""
    message: str

    @classmethod
    def of(cls, table: str, error: LakehouseError, path: str | None = None) -> Self:
        """Makes a problem of an error."""
        return cls(table=table, path=path, kind=error.kind, message=error.message)


@dataclass(slots=True)
class InventoryStats:
    """Counts and costs of a scan so far."""

    tables: int = 0
    """Tables opened."""
    manifests: int = 0
    """Manifests read, or found in memory."""
    cache_hits: int = 0
    """Manifests found in memory."""
    files: int = 0
    """Live files of the manifests."""
    failed_tables: int = 0
    """Tables and listings that could not be read at all."""
    failed_manifests: int = 0
    seconds: float = 0.0
    """Wall time of the scan in seconds."""
    cost: Cost = field(default_factory=Cost)
    """Requests to the stores and bytes; a catalog service's own requests are not among them."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the statistics as a dict for JSON output."""
        return {
            "tables": self.tables,
            "manifests": self.manifests,
            "cache_hits": self.cache_hits,
            "files": self.files,
            "failed_tables": self.failed_tables,
            "failed_manifests": self.failed_manifests,
            "seconds": round(self.seconds, 6),
            "cost": self.cost.as_dict(),
        }


class InventoryScan:
    """A scan of manifests or files: iterate it once, then read ``stats`` and ``problems``."""

    def __init__(
        self,
        tables: AsyncIterator[ListedTable],
        shape: InventoryShape,
        *,
        concurrency: int,
        errors: Literal["collect", "raise"] = "collect",
    ) -> None:
        if concurrency < 1:
            raise InvalidInputError(f"concurrency must be at least 1, not {concurrency}")
        if errors not in ("collect", "raise"):
            raise InvalidInputError(f"errors is 'collect' or 'raise', not {errors!r}")
        self._tables, self._shape = tables, shape
        self._concurrency, self._collect = concurrency, errors == "collect"
        self._begun = False
        self.stats = InventoryStats()
        """Statistics, which grow while the scan runs."""
        self.problems: list[TableProblem] = []
        """The first 10,000 problems; ``stats`` counts all of them."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return self._shape.schema

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self.batches()

    async def batches(self, *, rows: int = 8192) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the rows in batches of ``rows`` rows (the last may be smaller), as they are read."""
        if self._begun:
            raise InvalidInputError("a scan is iterated once: start another one")
        self._begun = True
        started = time.perf_counter()
        builder = RowBuilder(self._shape, rows)
        try:
            async with aclosing(self._entries()) as found:
                async for manifest, entries in found:
                    self.stats.manifests += manifest.path is not None
                    self.stats.files += builder.add(manifest, entries)
                    while builder.is_full:
                        yield builder.batch()
            if len(builder):
                yield builder.batch()
        finally:
            self.stats.seconds = time.perf_counter() - started

    async def to_arrow(self) -> pa.Table:
        """Returns all rows as one table."""
        return pa.Table.from_batches([batch async for batch in self.batches()], schema=self.schema)

    # --- manifests ----------------------------------------------------------------

    async def _entries(self) -> AsyncGenerator[tuple[StatedManifest, _Read], None]:
        """Yields the entries of every manifest; some are decoded while others are on their way."""
        waiting: list[tuple[StatedManifest, Raw]] = []
        waiting_bytes = 0
        reads = map_bounded(self._read, self._stated(), self._concurrency, ordered=False)
        async with aclosing(reads):
            async for manifest, got in reads:
                if isinstance(got, LakehouseError):
                    self._note(manifest.owner[1], got, manifest.path)
                elif isinstance(got, Raw):
                    waiting.append((manifest, got))
                    waiting_bytes += got.manifest.length
                    if len(waiting) >= _TOGETHER or waiting_bytes > _TOGETHER_BYTES:
                        for one in await self._decoded(waiting):
                            yield one
                        waiting, waiting_bytes = [], 0
                else:
                    yield manifest, got
        if waiting:
            for one in await self._decoded(waiting):
                yield one

    async def _read(self, manifest: StatedManifest) -> tuple[StatedManifest, _Read | Raw | LakehouseError]:
        kept = manifest.kept()
        if kept is not None:
            self.stats.cache_hits += manifest.path is not None
            return manifest, kept
        try:
            with counting(self.stats.cost):
                return manifest, await manifest.read()
        except LakehouseError as error:
            return manifest, error

    async def _decoded(
        self, waiting: Sequence[tuple[StatedManifest, Raw]]
    ) -> Iterable[tuple[StatedManifest, LiveEntries]]:
        """Decodes manifests together; where that fails one by one, so that only broken ones are missing."""
        try:
            columns = await in_thread(decode_whole, [(raw.manifest, raw.data) for _, raw in waiting])
        except LakehouseError as error:
            if len(waiting) == 1:
                manifest = waiting[0][0]
                self._note(manifest.owner[1], error, manifest.path)
                return ()
            return [one for each in waiting for one in await self._decoded([each])]
        pairs = zip(waiting, columns, strict=True)
        return [(manifest, manifest.decoded(raw, one)) for (manifest, raw), one in pairs]

    # --- tables -------------------------------------------------------------------

    async def _stated(self) -> AsyncGenerator[StatedManifest, None]:
        tables = map_bounded(self._opened, self._tables, self._concurrency, ordered=False)
        async with aclosing(tables):
            async for manifests in tables:
                for manifest in manifests:
                    yield manifest

    async def _opened(self, listed: ListedTable) -> Iterable[StatedManifest]:
        """Opens a table and lists its manifests; one that is gone by now is left out."""
        try:
            with counting(self.stats.cost):
                found = await stated(listed.catalog, await listed.open())
        except LakehouseError as error:
            if listed.is_wanted or error.kind != "not-found":
                self._note(listed.name, error)
            return ()
        self.stats.tables += 1
        return found

    def _note(self, table: str, error: LakehouseError, path: str | None = None) -> None:
        """Records and logs a problem; raises it instead if problems are not collected."""
        if path is None:
            self.stats.failed_tables += 1
        else:
            self.stats.failed_manifests += 1
        if not self._collect:
            raise error
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(TableProblem.of(table, error, path))
        _log.warning("a table cannot be read in full", table=table, path=path, what=error.message)
