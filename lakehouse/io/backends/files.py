"""Object stores out of fsspec file systems, of what all of these can do.

Two uses: any scheme we have no backend for, and any chain of them, can be read through
:class:`FsspecBackend` (and most schemes written; committed to once ``check_store`` passes, since
only a race can show whether its create mode is atomic), and the memory and local backends build on
its parts.

Invariant: archives, servers of pages, and chains are never written to: the error says so before
anything is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import fsspec
import fsspec.core
from fsspec.archive import AbstractArchiveFileSystem
from fsspec.implementations.dirfs import DirFileSystem

from lakehouse.config import IoSettings
from lakehouse.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io.backends.backend import Listing, StoreBackend, check_length
from lakehouse.io.backends.class_options import parameters
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

__all__ = ["FsspecBackend", "os_errors", "page_of", "part_of", "unsupported"]

R = TypeVar("R")

_READ_ONLY = {
    "data": "the bytes stand in the URL",
    "git": "a commit of a repository does not change",
    "github": "files of a repository are changed by git",
    "http": "servers of pages have no writes that a commit could rely on",
    "https": "servers of pages have no writes that a commit could rely on",
    "libarchive": "an archive is read as it is",
    "reference": "references point into files of others",
    "tar": "an archive is read as it is",
    "zip": "an archive is read as it is",
}
"""Schemes that are read only, with the reason."""
_CHAINED = "file systems around others are for reading; connect to the innermost one to write"


@contextlib.contextmanager
def os_errors(verb: str, key: str, url: str) -> Iterator[None]:
    """Makes one of our errors of what a file system raises."""
    where = f"{verb} of {key!r} at {url}"
    facts = {"key": key, "verb": verb, "url": url}
    try:
        yield
    except LakehouseError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError(f"{where}: there is no such object", **facts) from error
    except FileExistsError as error:
        raise ConflictError(f"{where}: the key is taken", **facts) from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise InvalidInputError(
            f"{where}: a directory stands where the object should, or an object where a directory should; "
            "on this store a key cannot also be the beginning of another",
            **facts,
        ) from error
    except PermissionError as error:
        raise PermissionDeniedError(f"{where}: not allowed: {error}", **facts) from error
    except NotImplementedError as error:
        raise unsupported(verb, url) from error
    except OSError as error:
        # A full disk, a lost mount: passing, as far as the engine can know.
        raise UnavailableError(f"{where}: {error.strerror or error}", **facts) from error
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"{where}: the file system refuses: {error}", **facts) from error
    except Exception as error:
        # Whatever a file system's own client library raises ends here.
        raise UnavailableError(f"{where}: {type(error).__name__}: {error}", **facts) from error


def unsupported(verb: str, url: str) -> InvalidInputError:
    """The error for a verb that the store does not have."""
    return InvalidInputError(
        f"the store at {url} cannot do {verb}: use s3://, file:// or memory:// for that",
        kind="unsupported",
        verb=verb,
        url=url,
    )


def part_of(data: bytes, start: int, end: int, size: int, where: str, key: str) -> bytes:
    """Bytes ``[start, end)`` of what came, be it those or the whole object."""
    if len(data) == size and end - start != size:
        return data[start:end]  # whoever answered does not know ranges
    check_length(data, end - start, where, key)
    return data


def page_of(metas: Iterator[ObjectMeta], asked: Listing) -> ListPage:
    """The first page of objects that come in key order, grouped at the delimiter."""
    objects: list[ObjectMeta] = []
    prefixes: list[str] = []
    last = ""
    for meta in metas:
        group = None
        if asked.delimiter is not None and (at := meta.key.find(asked.delimiter, len(asked.prefix))) >= 0:
            group = meta.key[: at + len(asked.delimiter)]
        if group is not None and prefixes and prefixes[-1] == group:
            last = meta.key
            continue
        if len(objects) + len(prefixes) >= asked.limit:
            return ListPage(objects=tuple(objects), prefixes=tuple(prefixes), next_page=last)
        if group is None:
            objects.append(meta)
        else:
            prefixes.append(group)
        last = meta.key
    return ListPage(objects=tuple(objects), prefixes=tuple(prefixes))


class FsspecBackend(StoreBackend):
    """Any fsspec file system or chain; asynchronous ones are awaited, others and chains run in threads."""

    def __init__(
        self, location: Location, options: StorageOptions | None = None, settings: IoSettings | None = None
    ) -> None:
        super().__init__(location, options, settings)
        self._links = location.links
        why = _READ_ONLY.get(location.scheme, _CHAINED if len(self._links) > 1 else None)
        self.capabilities = Capabilities(put_if_absent=why is None, read_only=why)
        self._root = self.url
        """The root as the file system takes it."""
        self._fs: Any = None
        self._awaited = False
        self._opening: asyncio.Lock | None = None
        self._threads: anyio.CapacityLimiter | None = None

    async def _connected(self) -> Any:
        self.anchor.check()
        if self._fs is None:
            self._opening = self._opening or asyncio.Lock()
            async with self._opening:
                if self._fs is None:
                    await self._connect()
        return self._fs

    async def _connect(self) -> None:
        with self.options.hiding(), self._opening_errors():
            if len(self._links) > 1:
                self._fs, self._root = await self._thread(self._chained)
                return
            kind = fsspec.get_filesystem_class(self.location.scheme)
            options: dict[str, Any] = {**self.options.reveal(), "skip_instance_cache": True}
            # What is put around another file system waits for it in a thread.
            self._awaited = bool(getattr(kind, "async_impl", False)) and "target_protocol" not in parameters(
                kind
            )
            if self._awaited:
                self._fs = kind(**options, asynchronous=True)
            else:
                self._fs = await self._thread(lambda: kind(**options))

    def _chained(self) -> tuple[Any, str]:
        """The outermost file system of the chain, and the root in it."""
        bits = [
            link.path if link.scheme == "file" else f"{link.scheme}://{link.path}" for link in self._links
        ]
        fs, root = fsspec.core.url_to_fs("::".join(bits), **self.options.reveal())
        # Paths in a directory's file system begin there, where others go on from what is inside.
        return fs, self._links[0].path if isinstance(fs, DirFileSystem) else str(root)

    @contextlib.contextmanager
    def _opening_errors(self) -> Iterator[None]:
        try:
            yield
        except LakehouseError:
            raise
        except (ValueError, ImportError, TypeError, FileNotFoundError) as error:
            raise InvalidInputError(
                f"fsspec cannot open {self.url} with these options: {error}", url=self.url
            ) from error
        except PermissionError as error:
            raise PermissionDeniedError(f"{self.url} cannot be opened: {error}", url=self.url) from error
        except OSError as error:
            raise UnavailableError(
                f"{self.url} cannot be reached: {error}", kind="unreachable", url=self.url
            ) from error
        except Exception as error:
            # Such as what an archive's reader says of a file that is none.
            raise InvalidInputError(
                f"{self.url} cannot be opened: {type(error).__name__}: {error}", url=self.url
            ) from error

    async def _thread(self, fn: Callable[[], R]) -> R:
        """Runs blocking work in a thread, ``io.threads`` at once; archives and chains stand one at a time."""
        self.anchor.check()
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self.settings.threads)
        if len(self._links) > 1 or isinstance(self._fs, AbstractArchiveFileSystem):
            # An archive's reader has one place in one file, and caches of files race with themselves.
            self._threads.total_tokens = 1
        return await anyio.to_thread.run_sync(fn, limiter=self._threads)

    async def _do(self, verb: str, key: str, name: str, *arguments: Any, **options: Any) -> Any:
        """One call of the file system, by the name of its plain method."""
        fs = await self._connected()
        with self.options.hiding(), os_errors(verb, key, self.url):
            if self._awaited:
                method: Callable[..., Awaitable[Any]] = getattr(fs, f"_{name}")
                return await method(*arguments, **options)
            return await self._thread(lambda: getattr(fs, name)(*arguments, **options))

    async def _path(self, key: str) -> str:
        await self._connected()  # which finds out where the root is
        # The whole URL: file systems strip what they do not need, and HTTP's needs it.
        return f"{self._root}/{check_key(key)}" if self._root else check_key(key)

    def _meta(self, key: str, info: dict[str, Any]) -> ObjectMeta:
        if info.get("type") == "directory":
            raise NotFoundError(f"{key!r} at {self.url} is a directory, not an object", key=key)
        modified = next(
            (
                info[name]
                for name in ("LastModified", "mtime", "last_modified", "updated", "created")
                if info.get(name)
            ),
            None,
        )
        version = next(
            (str(info[name]) for name in ("ETag", "etag", "checksum", "md5", "generation") if info.get(name)),
            None,
        )
        return ObjectMeta(
            key=key, size=int(info["size"] or 0), version=version, modified_ms=_milliseconds(modified)
        )

    async def aclose(self) -> None:
        fs, self._fs = self._fs, None
        self._threads = self._opening = None
        self.anchor.weigh()
        if isinstance(fs, AbstractArchiveFileSystem):
            fs.close()
        session = getattr(fs, "_session", None)
        if session is not None and asyncio.iscoroutinefunction(getattr(session, "close", None)):
            await session.close()

    # --- verbs -------------------------------------------------------------------------

    async def get(self, key: str, *, version: str | None = None) -> Fetched:
        meta = await self._checked_head(key, version) if version else None
        data: bytes = await self._do("get", key, "cat_file", await self._path(key))
        return Fetched(key=key, data=data, start=0, size=len(data), version=meta.version if meta else None)

    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        check_range(key, start, end)
        meta = await self._checked_head(key, version)
        end = min(end, meta.size)
        data = b""
        if start < end:
            data = await self._do("get_range", key, "cat_file", await self._path(key), start=start, end=end)
            data = part_of(data, start, end, meta.size, f"get_range of {key!r} at {self.url}", key)
        return Fetched(key=key, data=data, start=min(start, meta.size), size=meta.size, version=meta.version)

    async def get_suffix(self, key: str, length: int, *, version: str | None = None) -> Fetched:
        raise unsupported("get_suffix", self.url)

    async def _checked_head(self, key: str, version: str | None) -> ObjectMeta:
        meta = await self.head(key)
        self._check_version(key, meta.version, version)
        return meta

    async def head(self, key: str) -> ObjectMeta:
        return self._meta(key, await self._do("head", key, "info", await self._path(key)))

    async def _list_page(self, asked: Listing) -> ListPage:
        fs = await self._connected()
        prefix, after = asked.prefix, asked.after
        folder = prefix.rpartition("/")[0]
        path = await self._path(folder) if folder else self._root
        base = str(fs._strip_protocol(self._root)).rstrip("/")
        root = len(base) + 1 if base else 0
        fs.invalidate_cache()  # a listing that is kept does not show what came meanwhile
        try:
            found: dict[str, dict[str, Any]] = await self._do("list_page", prefix, "find", path, detail=True)
        except NotFoundError:
            found = {}
        metas = (
            self._meta(name[root:], found[name])
            for name in sorted(found)
            if name[root:].startswith(prefix) and name[root:] > after
        )
        return page_of(metas, asked)

    async def put(self, key: str, data: Buffer) -> Stored:
        return await self._write("put", key, data, "overwrite")

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        try:
            return await self._write("put_if_absent", key, data, "create")
        except AlreadyExistsError as error:
            raise ConflictError(str(error), key=key) from error

    async def _write(self, verb: str, key: str, data: Buffer, mode: str) -> Stored:
        self.capabilities.check_writable(self.url)
        path = await self._path(key)
        with contextlib.suppress(NotImplementedError, InvalidInputError, AttributeError):
            await self._do(verb, key, "makedirs", path.rpartition("/")[0], exist_ok=True)
        await self._do(verb, key, "pipe_file", path, bytes(data), mode=mode)
        return Stored(key=key, size=len(data))

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        self.capabilities.check_writable(self.url)
        raise unsupported("put_if_match", self.url)

    async def delete(self, key: str) -> None:
        self.capabilities.check_writable(self.url)
        with contextlib.suppress(NotFoundError):
            await self._do("delete", key, "rm_file", await self._path(key))

    async def multipart_start(self, key: str) -> str:
        self.capabilities.check_writable(self.url)
        raise unsupported("multipart_start", self.url)

    async def multipart_part(self, key: str, upload: str, number: int, data: Buffer) -> str:
        raise unsupported("multipart_part", self.url)

    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored:
        raise unsupported("multipart_complete", self.url)

    async def multipart_abort(self, key: str, upload: str) -> None:
        raise unsupported("multipart_abort", self.url)


def _milliseconds(moment: Any) -> int | None:
    if isinstance(moment, dt.datetime):
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return int(moment.timestamp() * 1000)
    return int(moment * 1000) if isinstance(moment, int | float) else None
