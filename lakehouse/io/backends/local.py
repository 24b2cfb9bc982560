"""Objects as files of a local directory.

Reads go through fsspec's local file system; what it has no words for is done with the
operating system here: a put writes a hidden file beside the target, syncs it, moves it
into place (``link`` for a create, which fails when the name is taken; ``rename``
otherwise) and syncs the directory. So an object is there whole or not at all, also after
a power cut. ``io.fsync = false`` leaves the syncs out.

There is no clock to ask: a write says when its file was written, a read does not say when
that was. This process's clock is nobody's but its own.

Replacing under a condition takes a lock file per directory, because POSIX has no
compare-and-rename. It serialises processes of one machine; for network file systems the
lock is only as good as theirs, which ``check_store`` finds out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from fsspec.implementations.local import LocalFileSystem

from lakehouse.config import IoSettings
from lakehouse.errors import ConflictError, InvalidInputError, NotFoundError
from lakehouse.ids import new_token
from lakehouse.io.backends.backend import Listing, StoreBackend
from lakehouse.io.backends.files import os_errors, page_of
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

__all__ = ["HIDDEN_PREFIX", "LocalBackend"]

R = TypeVar("R")

HIDDEN_PREFIX = ".lakehouse-"
"""File names that begin so are ours and no objects: files being written, locks, uploads."""
_TOKEN_ATTRIBUTE = "user.lakehouse.token"  # noqa: S105 - the name of an attribute


class LocalBackend(StoreBackend):
    """``file:///directory`` or a plain path."""

    capabilities = Capabilities(
        put_if_absent=True, put_if_match=True, suffix_range=True, multipart=True, commit_proven=True
    )

    def __init__(
        self, location: Location, options: StorageOptions | None = None, settings: IoSettings | None = None
    ) -> None:
        super().__init__(location, options, settings)
        self._root = Path(location.path)
        self._fs = LocalFileSystem(skip_instance_cache=True)
        self._threads: anyio.CapacityLimiter | None = None

    async def _run(self, verb: str, key: str, work: Callable[[Path], R]) -> R:
        """Runs blocking work on the key's path in a thread."""
        self.anchor.check()
        path = self._path(key)
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self.settings.threads)

        def guarded() -> R:
            with os_errors(verb, key, self.url):
                return work(path)

        return await anyio.to_thread.run_sync(guarded, limiter=self._threads)

    def _path(self, key: str) -> Path:
        name = check_key(key).rpartition("/")[2]
        if name.startswith(HIDDEN_PREFIX):
            raise InvalidInputError(f"object key {key!r} uses the reserved prefix {HIDDEN_PREFIX!r}", key=key)
        return self._root / key

    # --- reads -----------------------------------------------------------------------

    async def get(self, key: str, *, version: str | None = None) -> Fetched:
        return await self._run(
            "get", key, lambda path: self._read(key, path, version, lambda size: (0, size))
        )

    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        check_range(key, start, end)
        return await self._run(
            "get_range", key, lambda path: self._read(key, path, version, lambda size: (start, end))
        )

    async def get_suffix(self, key: str, length: int, *, version: str | None = None) -> Fetched:
        check_range(key, 0, length)
        return await self._run(
            "get_suffix", key, lambda path: self._read(key, path, version, lambda size: (size - length, size))
        )

    def _read(
        self, key: str, path: Path, version: str | None, span: Callable[[int], tuple[int, int]]
    ) -> Fetched:
        # One open file is one version: a replacement meanwhile gets another inode.
        with self._fs.open(str(path), "rb") as file:
            status = os.fstat(file.fileno())
            found = _version(status)
            self._check_version(key, found, version)
            start, end = (max(0, min(at, status.st_size)) for at in span(status.st_size))
            file.seek(start)
            data: bytes = file.read(end - start)
        token = _token(path)
        return Fetched(key=key, data=data, start=start, size=status.st_size, version=found, token=token)

    async def head(self, key: str) -> ObjectMeta:
        return await self._run("head", key, lambda path: self._meta(key, path))

    def _meta(self, key: str, path: Path) -> ObjectMeta:
        status = path.stat()
        if not path.is_file():
            raise NotFoundError(f"{key!r} at {self.url} is a directory, not an object", key=key)
        return ObjectMeta(
            key=key,
            size=status.st_size,
            version=_version(status),
            modified_ms=_written_ms(status),
            token=_token(path),
        )

    async def _list_page(self, asked: Listing) -> ListPage:
        def work(_: Path) -> ListPage:
            return page_of(self._walk("", asked.prefix, asked.after), asked)

        return await self._run("list_page", "listing", work)

    def _walk(self, folder: str, prefix: str, after: str) -> Iterator[ObjectMeta]:
        """Objects below ``folder`` in key order, without entering what cannot match."""
        try:
            with os.scandir(self._root / folder) as entries:
                # A directory sorts as its keys do: with the slash that follows its name.
                named = sorted(
                    (entry.name + "/" if entry.is_dir() else entry.name, entry) for entry in entries
                )
        except FileNotFoundError:
            return
        for name, entry in named:
            key = folder + name
            if name.startswith(HIDDEN_PREFIX):
                continue
            if name.endswith("/"):
                reachable = key.startswith(prefix) or prefix.startswith(key)
                if reachable and (key > after or after.startswith(key)):
                    yield from self._walk(key, prefix, after)
            elif key.startswith(prefix) and key > after:
                with contextlib.suppress(FileNotFoundError):  # deleted since it was listed
                    status = entry.stat()
                    yield ObjectMeta(
                        key=key,
                        size=status.st_size,
                        version=_version(status),
                        modified_ms=_written_ms(status),
                    )

    # --- writes ----------------------------------------------------------------------------

    async def put(self, key: str, data: Buffer) -> Stored:
        return await self._run("put", key, lambda path: self._write(key, path, data, os.replace))

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        def create(temporary: Path, path: Path) -> None:
            # link() fails when the name is taken, atomically; rename() would overwrite.
            os.link(temporary, path)
            temporary.unlink()

        return await self._run("put_if_absent", key, lambda path: self._write(key, path, data, create, token))

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        def work(path: Path) -> Stored:
            with _locked(path.parent):
                found = _version(path.stat())
                if found != version:
                    raise ConflictError(f"{key!r} at {self.url} is version {found}, not {version}", key=key)
                return self._write(key, path, data, os.replace, token)

        return await self._run("put_if_match", key, work)

    def _write(
        self,
        key: str,
        path: Path,
        data: Buffer,
        place: Callable[[Path, Path], None],
        token: str | None = None,
    ) -> Stored:
        self._make_directory(path.parent)
        temporary = path.parent / f"{HIDDEN_PREFIX}{new_token()}"
        try:
            with self._fs.open(str(temporary), "wb") as file:
                file.write(data)
                file.flush()
                if self.settings.fsync:
                    os.fsync(file.fileno())
            if token is not None:
                with contextlib.suppress(OSError, AttributeError):  # not every file system has attributes
                    os.setxattr(temporary, _TOKEN_ATTRIBUTE, token.encode())
            status = temporary.stat()
            place(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if self.settings.fsync:
            _sync_directory(path.parent)
        return Stored(key=key, size=len(data), version=_version(status), store_time_ms=_written_ms(status))

    def _make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        missing = [directory]
        while not missing[-1].parent.is_dir():
            missing.append(missing[-1].parent)
        directory.mkdir(parents=True, exist_ok=True)
        if self.settings.fsync:
            for made in missing:
                _sync_directory(made.parent)

    async def delete(self, key: str) -> None:
        await self._run("delete", key, lambda path: self._unlink(path))

    async def delete_batch(self, keys: Sequence[str]) -> None:
        paths = [self._path(key) for key in keys]
        if keys:
            await self._run("delete_batch", keys[0], lambda _: self._unlink(*paths))

    def _unlink(self, *paths: Path) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()

    # --- uploads in parts: a hidden directory beside the target ---------------------------

    async def multipart_start(self, key: str) -> str:
        def work(path: Path) -> str:
            self._make_directory(path.parent)
            upload = f"{HIDDEN_PREFIX}upload-{new_token()}"
            (path.parent / upload).mkdir()
            return upload

        return await self._run("multipart_start", key, work)

    async def multipart_part(self, key: str, upload: str, number: int, data: Buffer) -> str:
        def work(path: Path) -> str:
            with self._fs.open(str(self._upload(path, upload) / str(number)), "wb") as file:
                file.write(data)
            return str(number)

        return await self._run("multipart_part", key, work)

    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored:
        def work(path: Path) -> Stored:
            directory = self._upload(path, upload)
            if not directory.is_dir():
                raise NotFoundError(f"there is no upload {upload!r} of {key!r} at {self.url}", key=key)
            whole = directory / "whole"
            with self._fs.open(str(whole), "wb") as into:
                for receipt in receipts:
                    with self._fs.open(str(directory / receipt), "rb") as part:
                        while chunk := part.read(1 << 20):
                            into.write(chunk)
                into.flush()
                if self.settings.fsync:
                    os.fsync(into.fileno())
            status = whole.stat()
            whole.replace(path)
            if self.settings.fsync:
                _sync_directory(path.parent)
            _remove_upload(directory)
            return Stored(key=key, size=size, version=_version(status), store_time_ms=_written_ms(status))

        return await self._run("multipart_complete", key, work)

    async def multipart_abort(self, key: str, upload: str) -> None:
        await self._run("multipart_abort", key, lambda path: _remove_upload(self._upload(path, upload)))

    def _upload(self, path: Path, upload: str) -> Path:
        if not upload.startswith(f"{HIDDEN_PREFIX}upload-") or "/" in upload:
            raise InvalidInputError(f"{upload!r} is not an upload of this store")
        return path.parent / upload

    async def aclose(self) -> None:
        self._threads = None
        self.anchor.weigh()


def _version(status: os.stat_result) -> str:
    # Every write makes a new inode; the time tells apart a number that is used again.
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _token(path: Path) -> str | None:
    try:
        return os.getxattr(path, _TOKEN_ATTRIBUTE).decode()
    except (OSError, AttributeError):
        return None


def _written_ms(status: os.stat_result) -> int:
    """When the file was written, by the clock of whoever keeps it: that of a file server, for its files."""
    return status.st_mtime_ns // 1_000_000


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Holds the directory's lock against other processes and threads."""
    descriptor = os.open(directory / f"{HIDDEN_PREFIX}lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_upload(directory: Path) -> None:
    if not directory.is_dir():
        return
    for part in directory.iterdir():
        part.unlink(missing_ok=True)
    directory.rmdir()
