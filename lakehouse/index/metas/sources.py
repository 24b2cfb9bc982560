"""Sources of index files: a prefix, a list, a GreptimeDB data directory.

A source yields files with their sizes and the tables they belong to; it opens none of the files.
Sizes come from listings and manifests, so that reading a file needs one request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeAlias, runtime_checkable

from lakehouse.errors import LakehouseError
from lakehouse.index.models import IndexFileLocator
from lakehouse.io import ObjectMeta, ObjectStore

__all__ = [
    "FileListSource",
    "FileProblem",
    "GuardedSource",
    "IndexFile",
    "IndexSource",
    "IsVisible",
    "PrefixSource",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """An index file to read."""

    locator: IndexFileLocator
    size: int | None
    """Size in bytes, from a listing or a manifest; None = not known."""
    version: str | None = None
    """Version when it was listed, by which the cache notices replaced files; None = not known."""
    tail_bytes: int | None = None
    """Bytes of its end that hold all metadata, from a manifest; None = not known."""

    @property
    def key(self) -> str:
        """Key of the object."""
        return self.locator.index_file_path


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """Problem of one file, or of blobs in it."""

    path: str
    kind: str
    """Kind of the error, a word of :data:`lakehouse.errors.KINDS`."""
    message: str
    blob: str | None = None
    """Type of the first broken blob; None = the whole file is broken."""
    offset: int | None = None
    """Offset in the file; None = not known."""
    further: int = 0
    """Number of further blobs of the file, or targets in them, that are broken."""
    table_dir: str | None = None
    """Directory of the table it belongs to; None = the directory of the file."""
    error: LakehouseError | None = field(default=None, repr=False, compare=False)
    """The error itself, until the scan has noted it."""

    @classmethod
    def of(cls, path: str, error: LakehouseError, *, table_dir: str | None = None, further: int = 0) -> Self:
        """Makes a problem of an error."""
        blob = error.context.get("blob")
        return cls(
            path=path,
            kind=error.kind,
            message=error.message,
            blob=blob if isinstance(blob, str) else None,
            offset=error.context.get("offset"),
            further=further,
            table_dir=table_dir,
            error=error,
        )


IsVisible: TypeAlias = Callable[[str], Awaitable[bool]]
"""Function that tells whether the caller may see a table, given its directory."""


class IndexSource(Protocol):
    """Protocol of a source, which yields the index files to read."""

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        ...

    def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Returns an iterator over the files in a stable order; those without a valid name are problems."""
        ...


@runtime_checkable
class GuardedSource(IndexSource, Protocol):
    """Protocol of a source that reads objects of tables, and so must be told which tables it may read."""

    def visible_files(self, is_visible: IsVisible) -> AsyncIterator[IndexFile | FileProblem]:
        """Returns the files but reads no object of hidden tables, whose files may be among them."""
        ...


class PrefixSource:
    """Source of every puffin file whose key begins with a prefix, whatever it belongs to.

    The table directory of an entry is the directory of its file, the file id the name up to
    the first dot; there are no regions.
    """

    def __init__(self, store: ObjectStore, prefix: str = "", *, suffix: str = ".puffin") -> None:
        self._store = store
        self._prefix = prefix
        self._suffix = suffix

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        return self._store

    async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the files in key order."""
        async for meta in self._store.list(self._prefix):
            if meta.key.endswith(self._suffix):
                yield _loose_file(meta)


class FileListSource:
    """Source of listed files, (key, size); a size of None costs nothing more on stores with suffix reads."""

    def __init__(self, store: ObjectStore, files: Iterable[tuple[str, int | None]]) -> None:
        self._store = store
        self._files = files

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        return self._store

    async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """Yields the files in the order of the list."""
        for key, size in self._files:
            yield IndexFile(locator=_locator(key, size), size=size)


def _loose_file(meta: ObjectMeta) -> IndexFile:
    return IndexFile(locator=_locator(meta.key, meta.size), size=meta.size, version=meta.version)


def _locator(key: str, size: int | None) -> IndexFileLocator:
    directory, _, name = key.rpartition("/")
    return IndexFileLocator(
        table_dir=f"{directory}/" if directory else "",
        region_id=0,
        file_id=name.split(".", 1)[0],
        index_file_path=key,
        index_file_size=size,
    )
