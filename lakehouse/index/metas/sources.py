"""Where index files come from: a prefix, a list, a GreptimeDB data directory.

A source says which files there are, how large they are and what they belong to; it opens
none of them. Sizes come from listings and manifests, so that reading a file needs one
request.
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
    """A file to read."""

    locator: IndexFileLocator
    size: int | None
    """Bytes, when a listing or a manifest says."""
    version: str | None = None
    """Its version when it was listed; the cache tells replaced files by it."""
    tail_bytes: int | None = None
    """How much of its end holds all metadata, where a manifest says."""

    @property
    def key(self) -> str:
        """Key of the object."""
        return self.locator.index_file_path


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """What is wrong with one file, or with blobs of it."""

    path: str
    kind: str
    """A word of :data:`lakehouse.errors.KINDS`."""
    message: str
    blob: str | None = None
    """Type of the first broken blob; None: the whole file."""
    offset: int | None = None
    """Where in the file."""
    further: int = 0
    """How many more blobs of the file, or targets in them, are broken."""
    table_dir: str | None = None
    """Directory of the table it belongs to; None: the directory of the file."""
    error: LakehouseError | None = field(default=None, repr=False, compare=False)
    """The error itself, until the scan has noted it."""

    @classmethod
    def of(cls, path: str, error: LakehouseError, *, table_dir: str | None = None, further: int = 0) -> Self:
        """The problem that an error is."""
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
"""Whether the caller may see a table, by its directory."""


class IndexSource(Protocol):
    """Says which index files there are."""

    @property
    def store(self) -> ObjectStore:
        """Where they are."""
        ...

    def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """The files, in a stable order; what cannot even be named comes as a problem."""
        ...


@runtime_checkable
class GuardedSource(IndexSource, Protocol):
    """A source that reads objects of tables to know their files, and so must be told which it may."""

    def visible_files(self, is_visible: IsVisible) -> AsyncIterator[IndexFile | FileProblem]:
        """The files, with nothing read of tables that are not visible; their files may come all the same."""
        ...


class PrefixSource:
    """Every puffin file whose key begins with a prefix, whatever it belongs to.

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
        """The files in key order."""
        async for meta in self._store.list(self._prefix):
            if meta.key.endswith(self._suffix):
                yield _loose_file(meta)


class FileListSource:
    """The files of a list of (key, size); a size of None costs nothing more on stores with suffix reads."""

    def __init__(self, store: ObjectStore, files: Iterable[tuple[str, int | None]]) -> None:
        self._store = store
        self._files = files

    @property
    def store(self) -> ObjectStore:
        """Store that holds the files."""
        return self._store

    async def files(self) -> AsyncIterator[IndexFile | FileProblem]:
        """The files in the order of the list."""
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
