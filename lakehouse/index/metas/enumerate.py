"""Enumeration of the metadata of every index: one entry per (file, index, target), one request per file.

``iterate_index_metas`` returns a scan that is iterated once. Files are read concurrently
within a bound, results come as they finish or in the source's order, and memory does not
grow with the number of files. A file that cannot be read is a problem in the scan's
report and does not end the scan.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
import xxhash

from lakehouse.config import IndexSettings
from lakehouse.errors import KINDS, FormatError, InvalidInputError, LakehouseError
from lakehouse.index.metas.file_metas import FileMetas, read_file_metas
from lakehouse.index.metas.rows import COMPACT, GREPTIME, RowShape
from lakehouse.index.metas.sources import FileProblem, GuardedSource, IndexFile, IndexSource
from lakehouse.index.models import IndexEntry, IndexFileLocator, IndexType
from lakehouse.index.puffin.reader import MetaCache, PuffinReader
from lakehouse.io import Cost, ObjectStore, map_bounded
from lakehouse.io.cost import counting
from lakehouse.log import get_logger

__all__ = ["Authorise", "IndexMetaScan", "ScanStats", "iterate_index_metas", "masked_location"]

_log = get_logger(__name__)

_PROBLEMS_MAX = 10_000
_TABLES_MAX = 10_000
"""Maximum number of the authoriser's answers that are kept."""
_MASK_CHARS = 16

Authorise = Callable[[str], bool | Awaitable[bool]]
"""Function that tells whether the caller may see a table, given its directory."""


@dataclass(slots=True)
class ScanStats:
    """Counts and costs of a scan so far."""

    files: int = 0
    """Files read or answered from the cache."""
    entries: Counter[str] = field(default_factory=Counter)
    """Entries by index type."""
    cache_hits: int = 0
    failed_files: int = 0
    """Files that could not be read at all."""
    broken_blobs: int = 0
    """Blobs, or targets of an inverted one, that could not be read in full, in files that could be read."""
    hidden_files: int = 0
    """Files of tables that the authoriser withheld."""
    seconds: float = 0.0
    """Wall time of the scan in seconds."""
    cost: Cost = field(default_factory=Cost)
    """Requests to the store and bytes."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the statistics as a dict for JSON output."""
        return {
            "files": self.files,
            "entries": dict(sorted(self.entries.items())),
            "cache_hits": self.cache_hits,
            "failed_files": self.failed_files,
            "broken_blobs": self.broken_blobs,
            "hidden_files": self.hidden_files,
            "seconds": round(self.seconds, 6),
            "cost": self.cost.as_dict(),
        }


def iterate_index_metas(
    source: IndexSource,
    *,
    concurrency: int | None = None,
    kinds: Collection[IndexType | str] | None = None,
    errors: Literal["collect", "raise"] = "collect",
    order: Literal["completed", "listing"] = "completed",
    cache: MetaCache | None = None,
    authorise: Authorise | None = None,
    mask_locations: bool = False,
    settings: IndexSettings | None = None,
) -> IndexMetaScan:
    """Returns a scan of the metadata of every index in the files of a source.

    Args:
        source: the files; see :mod:`lakehouse.index.metas.sources`.
        concurrency: files read at once; ``index.concurrency`` when not given.
        kinds: only indexes of these kinds, given as words or members; the others cost nothing.
        errors: ``raise`` ends the scan with the first problem as an error; ``collect`` continues and
            reports.
        order: ``completed`` yields entries of files as they are read, ``listing`` in the source's order.
        cache: keeps what was read; a second scan of the same files makes no request. A file is identified
            by its key, its size and its version, if the source has them.
        authorise: asked once for each table directory, before any object of it is read; files of
            tables it refuses are left out, and so are their problems.
        mask_locations: directories and paths in entries, problems, errors and logs are replaced by
            stable pseudonyms; of a message that may hold one, only the kind is left.

    Example::

        async for entry in iterate_index_metas(PrefixSource(store), concurrency=32):
            print(entry.locator.file_id, entry.index_type, entry.target_key)
    """
    settings = settings or IndexSettings()
    concurrency = settings.concurrency if concurrency is None else concurrency
    if concurrency < 1:
        raise InvalidInputError(f"concurrency must be at least 1, not {concurrency}")
    if errors not in ("collect", "raise") or order not in ("completed", "listing"):
        raise InvalidInputError(
            f"errors is 'collect' or 'raise', order 'completed' or 'listing', not {errors!r} and {order!r}"
        )
    return IndexMetaScan(
        source,
        concurrency=concurrency,
        kinds=None if kinds is None else frozenset(map(_kind, kinds)),
        collect=errors == "collect",
        ordered=order == "listing",
        cache=cache,
        authorise=authorise,
        mask=mask_locations,
        settings=settings,
    )


class IndexMetaScan:
    """A scan: iterate it once, then read ``stats`` and ``problems``."""

    def __init__(
        self,
        source: IndexSource,
        *,
        concurrency: int,
        kinds: frozenset[IndexType] | None,
        collect: bool,
        ordered: bool,
        cache: MetaCache | None,
        authorise: Authorise | None,
        mask: bool,
        settings: IndexSettings,
    ) -> None:
        self._source = source
        self._store: ObjectStore = source.store
        self._concurrency = concurrency
        self._kinds = kinds
        self._collect = collect
        self._ordered = ordered
        self._cache = cache
        self._authorise = authorise
        self._mask = mask
        self._settings = settings
        self._prefetch = settings.prefetch_bytes
        self._allowed: dict[str, bool] = {}
        self._begun = False
        self.stats = ScanStats()
        """Statistics, which grow while the scan runs."""
        self.problems: list[FileProblem] = []
        """The first 10,000 problems, one per bad file; ``stats`` counts all of them."""

    def __aiter__(self) -> AsyncIterator[IndexEntry]:
        return self._entries()

    async def batches(
        self, shape: RowShape = COMPACT, *, rows: int = 8192
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yields the entries as rows of a shape, in batches of ``rows`` rows (the last may be smaller).

        Entries whose metadata could not be read in full are left out, except in GreptimeDB's shape.
        """
        waiting: list[IndexEntry] = []
        async with aclosing(self._entries()) as entries:
            async for entry in entries:
                if entry.error is not None and shape is not GREPTIME:
                    continue
                waiting.append(entry)
                if len(waiting) >= rows:
                    yield shape.to_batch(waiting)
                    waiting = []
        if waiting:
            yield shape.to_batch(waiting)

    async def to_arrow(self, shape: RowShape = COMPACT) -> pa.Table:
        """Returns all entries as one table; see :meth:`batches`."""
        return pa.Table.from_batches([batch async for batch in self.batches(shape)], schema=shape.schema)

    async def _entries(self) -> AsyncGenerator[IndexEntry, None]:
        if self._begun:
            raise InvalidInputError("a scan is iterated once: start another one with iterate_index_metas")
        self._begun = True
        started = time.perf_counter()
        files = map_bounded(self._read, self._visible(), self._concurrency, ordered=self._ordered)
        try:
            async with aclosing(files):
                async for file, metas in files:
                    if metas is None:
                        continue
                    locator = self._shown(file.locator, metas.size)
                    for target in metas.targets:
                        self.stats.entries[target.index_type.value] += 1
                        entry = target.entry(locator)
                        if self._mask and entry.error is not None:
                            entry = replace(
                                entry, error=entry.error.replace(file.key, masked_location(file.key), 1)
                            )
                        yield entry
        finally:
            self.stats.seconds = time.perf_counter() - started
            self._summarise()

    async def _visible(self) -> AsyncIterator[IndexFile]:
        """Yields the files of the source that may be read; notes problems of the source on the way."""
        source = self._source
        if self._authorise is not None and isinstance(source, GuardedSource):
            files = source.visible_files(self._is_allowed)
        else:
            files = source.files()
        try:
            while True:
                with counting(self.stats.cost):
                    file = await anext(files, None)
                if file is None:
                    return
                if not await self._is_allowed(_table_of(file)):
                    self.stats.hidden_files += 1
                elif isinstance(file, FileProblem):
                    self.stats.failed_files += 1
                    self._note(file)
                else:
                    yield file
        finally:
            if isinstance(files, AsyncGenerator):
                await files.aclose()

    async def _is_allowed(self, table_dir: str) -> bool:
        if self._authorise is None:
            return True
        allowed = self._allowed.get(table_dir)
        if allowed is None:
            answer = self._authorise(table_dir)
            if len(self._allowed) >= _TABLES_MAX:  # bounded memory; files of a table mostly follow each other
                self._allowed.clear()
            allowed = self._allowed[table_dir] = bool(await answer if inspect.isawaitable(answer) else answer)
        return allowed

    async def _read(self, file: IndexFile) -> tuple[IndexFile, FileMetas | None]:
        """Reads the metadata of one file; None when it cannot be read."""
        key = (self._store.url, file.key, file.size, file.version, self._kinds)
        if self._cache is not None:
            cached: FileMetas | None = self._cache.get_if_present(key)
            if cached is not None:
                self.stats.files += 1
                self.stats.cache_hits += 1
                return file, cached
        prefetch = self._prefetch if file.tail_bytes is None else file.tail_bytes
        reader = PuffinReader(
            self._store, file.key, size=file.size, prefetch_bytes=prefetch, settings=self._settings
        )
        failed: LakehouseError | None = None
        try:
            with counting(self.stats.cost):
                metas = await read_file_metas(reader, settings=self._settings, kinds=self._kinds)
        except LakehouseError as error:
            failed = error
        # Noted outside the handler: an error raised here must not have the first one as its context.
        if failed is not None:
            self.stats.failed_files += 1
            self._note(FileProblem.of(file.key, failed))
            return file, None
        self.stats.files += 1
        # Files of one writer look alike: when one needed a longer tail, the next ones will.
        if self._prefetch < metas.tail_bytes <= self._settings.prefetch_max_bytes:
            self._prefetch = metas.tail_bytes
        if metas.broken:
            self.stats.broken_blobs += len(metas.broken)
            self._note(FileProblem.of(file.key, metas.broken[0], further=len(metas.broken) - 1))
        elif self._cache is not None and file.version in (None, reader.version):
            self._cache.put(key, metas)
        return file, metas

    def _note(self, problem: FileProblem) -> None:
        """Records and logs a problem; raises it instead if problems are not collected."""
        error, problem = problem.error, replace(problem, error=None)
        if self._mask:
            problem, error = _masked_problem(problem, error)
        if not self._collect:
            raise error or LakehouseError(problem.message, kind=problem.kind, key=problem.path)
        if len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(problem)
        _log.warning(
            "an index file cannot be read in full", path=problem.path, kind=problem.kind, what=problem.message
        )

    def _shown(self, locator: IndexFileLocator, size: int) -> IndexFileLocator:
        """Returns the locator for callers: masked if asked for, with the store's size if it had none."""
        if locator.index_file_size is None:
            locator = replace(locator, index_file_size=size)
        if not self._mask:
            return locator
        return replace(
            locator,
            table_dir=masked_location(locator.table_dir),
            index_file_path=masked_location(locator.index_file_path),
        )

    def _summarise(self) -> None:
        stats = self.stats
        _log.info(
            "enumerated index metadata",
            files=stats.files,
            entries=stats.entries.total(),
            failed_files=stats.failed_files,
            cache_hits=stats.cache_hits,
            cost=str(stats.cost),
            seconds=round(stats.seconds, 3),
        )


def _kind(word: str) -> IndexType:
    try:
        return IndexType(word)
    except ValueError as error:
        raise InvalidInputError(
            f"{word!r} is no kind of index: take one of {', '.join(IndexType)}", got=word
        ) from error


def masked_location(location: str) -> str:
    """Returns a pseudonym for a location, the same in every scan."""
    return "masked:" + xxhash.xxh3_128_hexdigest(location.encode())[:_MASK_CHARS]


def _table_of(file: IndexFile | FileProblem) -> str:
    if isinstance(file, IndexFile):
        return file.locator.table_dir
    if file.table_dir is not None:
        return file.table_dir
    directory, slash, _ = file.path.rpartition("/")
    return directory + slash


def _masked_problem(
    problem: FileProblem, error: LakehouseError | None
) -> tuple[FileProblem, LakehouseError | None]:
    """Returns the problem without locations, and an error with the same message."""
    path = masked_location(problem.path)
    # Errors of formats come from code that knows bytes but no locations, so the text behind the path may
    # stay. Other errors may come from stores, which know locations.
    safe = isinstance(error, FormatError) and problem.message.startswith(problem.path)
    rest = problem.message[len(problem.path) :] if safe else f": {KINDS.get(problem.kind, problem.kind)}"
    table_dir = None if problem.table_dir is None else masked_location(problem.table_dir)
    problem = replace(problem, path=path, message=path + rest, table_dir=table_dir)
    if error is not None:
        error = type(error)(problem.message, kind=error.kind, key=path, offset=problem.offset)
    return problem, error
