"""Objects in memory: fsspec's memory file system, with versions and conditional puts.

One event loop turn is one atomic step, and the file system's dictionary is shared by the
whole process, so a check and the write after it need a lock only against other threads.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from lakehouse.config import IoSettings
from lakehouse.errors import ConflictError, NotFoundError
from lakehouse.io.backends.backend import Listing, StoreBackend
from lakehouse.io.backends.files import page_of
from lakehouse.io.location import Location
from lakehouse.io.options import StorageOptions
from lakehouse.io.protocols import (
    Buffer,
    Capabilities,
    Fetched,
    ListPage,
    ObjectMeta,
    Stored,
    check_key,
    check_range,
)

__all__ = ["MemoryBackend"]

_lock = threading.Lock()
_versions = itertools.count(1)
_uploads: dict[str, dict[int, bytes]] = {}


class MemoryBackend(StoreBackend):
    """``memory://name``: everything under ``/name`` of fsspec's memory file system."""

    capabilities = Capabilities(
        put_if_absent=True, put_if_match=True, suffix_range=True, multipart=True, commit_proven=True
    )

    def __init__(
        self, location: Location, options: StorageOptions | None = None, settings: IoSettings | None = None
    ) -> None:
        super().__init__(location, options, settings)
        self._files: dict[str, Any] = MemoryFileSystem.store
        self._root = f"/{location.path}".rstrip("/") + "/"

    def _file(self, key: str, version: str | None = None) -> Any:
        self.anchor.check()
        try:
            file = self._files[self._root + check_key(key)]
        except KeyError:
            raise NotFoundError(f"there is no object {key!r} at {self.url}", key=key) from None
        self._check_version(key, _version(file), version)
        return file

    def _fetched(self, key: str, start: int | None, end: int | None, version: str | None) -> Fetched:
        file = self._file(key, version)
        whole = file.getvalue()
        size = len(whole)
        start = min(size, start or 0)
        data = whole if end is None else whole[start:end]
        return Fetched(
            key=key,
            data=data,
            start=start,
            size=size,
            version=_version(file),
            token=getattr(file, "lakehouse_token", None),
            store_time_ms=_now_ms(),
        )

    async def get(self, key: str, *, version: str | None = None) -> Fetched:
        return self._fetched(key, None, None, version)

    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        check_range(key, start, end)
        return self._fetched(key, start, end, version)

    async def get_suffix(self, key: str, length: int, *, version: str | None = None) -> Fetched:
        check_range(key, 0, length)
        size = len(self._file(key).getbuffer())
        return self._fetched(key, max(0, size - length), size, version)

    async def head(self, key: str) -> ObjectMeta:
        return _meta(key, self._file(key), now=_now_ms())

    async def _list_page(self, asked: Listing) -> ListPage:
        self.anchor.check()
        begin, after = self._root + asked.prefix, self._root + asked.after
        # Of a copy: another thread, or a store that is collected meanwhile, may change the dictionary. It has
        # the objects of all stores in memory: those elsewhere are passed over without a step of Python's own.
        every = list(self._files)
        below = itertools.compress(every, map(str.startswith, every, itertools.repeat(begin)))
        paths = (path for path in below if path > after)
        # Without a delimiter one more than a page tells whether there is another.
        chosen = sorted(paths) if asked.delimiter else heapq.nsmallest(asked.limit + 1, paths)
        root = len(self._root)
        metas = (_meta(path[root:], self._files[path]) for path in chosen)
        return page_of(metas, asked)

    async def put(self, key: str, data: Buffer) -> Stored:
        return self._store(key, data)

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        with _lock:
            if self._root + check_key(key) in self._files:
                raise ConflictError(f"{key!r} at {self.url} exists already", key=key)
            return self._store(key, data, token)

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        with _lock:
            found = _version(self._file(key))
            if found != version:
                raise ConflictError(f"{key!r} at {self.url} is version {found}, not {version}", key=key)
            return self._store(key, data, token)

    def _store(self, key: str, data: Buffer, token: str | None = None) -> Stored:
        self.anchor.check()
        path = self._root + check_key(key)
        file = MemoryFile(None, path, bytes(data))
        file.lakehouse_version = str(next(_versions))
        file.lakehouse_token = token
        self._files[path] = file
        return Stored(key=key, size=len(data), version=file.lakehouse_version, store_time_ms=_now_ms())

    async def delete(self, key: str) -> None:
        self.anchor.check()
        self._files.pop(self._root + check_key(key), None)

    async def multipart_start(self, key: str) -> str:
        check_key(key)
        upload = f"upload-{next(_versions)}"
        _uploads[upload] = {}
        return upload

    async def multipart_part(self, key: str, upload: str, number: int, data: Buffer) -> str:
        self._parts(key, upload)[number] = bytes(data)
        return str(number)

    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored:
        parts = self._parts(key, upload)
        stored = self._store(key, b"".join(parts[int(receipt)] for receipt in receipts))
        del _uploads[upload]
        return stored

    async def multipart_abort(self, key: str, upload: str) -> None:
        _uploads.pop(upload, None)

    def _parts(self, key: str, upload: str) -> dict[int, bytes]:
        if upload not in _uploads:
            raise NotFoundError(f"there is no upload {upload!r} of {key!r} at {self.url}", key=key)
        return _uploads[upload]

    async def aclose(self) -> None:
        self.anchor.weigh()


def _meta(key: str, file: Any, now: int | None = None) -> ObjectMeta:
    return ObjectMeta(
        key=key,
        size=len(file.getbuffer()),
        version=_version(file),
        modified_ms=int(file.modified.timestamp() * 1000),
        token=getattr(file, "lakehouse_token", None),
        store_time_ms=now,
    )


def _version(file: Any) -> str:
    """Ours when we wrote it; otherwise what fsspec knows of somebody else's file."""
    version: str | None = getattr(file, "lakehouse_version", None)
    return version or f"{file.modified.timestamp()}-{len(file.getbuffer())}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
