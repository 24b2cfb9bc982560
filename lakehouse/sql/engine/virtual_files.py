"""Virtual files: paths that exist for one statement, and are ranges of objects of our stores.

DuckDB asks a file system of Python for files, and that file system knows nothing but the paths that were
added: no listing, no pattern, no HEAD, no writing. A path has a token that only its statement knows. DuckDB
looks each path up on the thread that plans the statement, where the context says which statement that is, so
that even a token that leaked opens nothing elsewhere.

Invariant: a path that was not added, or belongs to another statement, has no bytes. Several threads read
one handle at once, each at a position of its own.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fsspec import AbstractFileSystem

from lakehouse.errors import CorruptionError, InvalidInputError, LakehouseError, PermissionDeniedError
from lakehouse.ids import new_token
from lakehouse.io.protocols import Fetched, Gets
from lakehouse.sql.engine.loop_bridge import LoopBridge

__all__ = ["ROOT", "LakeFileSystem", "VirtualFiles"]

ROOT = "lake://q/"
"""Beginning of all virtual paths; DuckDB is allowed nothing else."""
_PATH = re.compile(re.escape(ROOT) + r"[\w=%.,+~/-]+")
_SUFFIX = re.compile(r"(?:/?[\w=%.,+~-]+)*")
_TAIL_BYTES = 64 * 1024
_TAILS_BYTES = 1024 * 1024
_LONG_AGO = dt.datetime(1970, 1, 1)


class VirtualFiles:
    """Files that one statement may open, by virtual path.

    Args:
        bridge: the statement's, through which bytes are fetched.
    """

    def __init__(self, bridge: LoopBridge) -> None:
        self._bridge = bridge
        self._files: dict[str, _VirtualFile] = {}
        self._tails_left = _TAILS_BYTES
        self.token = new_token()
        """Secret of this statement: the part of each path behind :data:`ROOT`."""

    def add(
        self, store: Gets, key: str, size: int, *, suffix: str = ".parquet", version: str | None = None
    ) -> str:
        """Gives an object a path that SQL can read, and returns it.

        Args:
            store: where it is.
            key: its key there.
            size: its bytes, so that nobody asks the store for them.
            suffix: end of the path, behind a number; such as ``/day=2026-01-05/0.parquet``.
            version: what its version must be, where that is known.
        """
        if not _SUFFIX.fullmatch(suffix) or ".." in suffix:
            raise InvalidInputError(
                f"suffix {suffix!r} of a virtual path has other characters than parts of Hive's paths",
                suffix=suffix,
            )
        path = f"{ROOT}{self.token}/{len(self._files)}{suffix}"
        self._files[path] = _VirtualFile(self, store, key, size, version)
        return path

    def get(self, path: str) -> _VirtualFile | None:
        """The file of a path; None when it was not added."""
        return self._files.get(path)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Says that this thread plans the statement of these files."""
        mark = _asking.set(self)
        try:
            yield
        finally:
            _asking.reset(mark)

    def fetch(self, request: Coroutine[Any, Any, Fetched]) -> Fetched:
        """Waits for a request to a store, on a thread of DuckDB."""
        return self._bridge.wait(request)

    def fail(self, error: LakehouseError) -> LakehouseError:
        """Keeps an error for whoever runs the statement, because DuckDB hands on its text only."""
        self._bridge.keep(error)
        return error

    def may_keep(self, tail: bytes) -> bool:
        """Whether there is room to remember the end of a file, where its footer is."""
        self._tails_left -= len(tail)
        return self._tails_left >= 0

    def named_in(self, text: str) -> tuple[str | None, str]:
        """The key of the first virtual path in a message, and the message with keys instead of paths."""
        first: str | None = None

        def named(match: re.Match[str]) -> str:
            nonlocal first
            file = self._files.get(match.group())
            if file is None:
                return match.group()
            first = first or file.key
            return file.key

        told = _PATH.sub(named, text)
        return first, told


_asking: ContextVar[VirtualFiles | None] = ContextVar("lakehouse_sql_files", default=None)


class _VirtualFile:
    """An object with a virtual path."""

    __slots__ = ("_files", "_store", "_tail", "_version", "key", "size")

    def __init__(self, files: VirtualFiles, store: Gets, key: str, size: int, version: str | None) -> None:
        self._files, self._store, self._version = files, store, version
        self._tail = b""
        self.key = key
        self.size = size

    def read(self, start: int, end: int) -> bytes:
        """Bytes of a range; the file's end is remembered, because planning and executing read it again."""
        end = min(end, self.size)
        if end <= start:
            return b""
        if self.size - start <= len(self._tail):
            return self._tail[start - self.size :][: end - start]
        data = self._fetch(start, end)
        if end == self.size and len(data) <= _TAIL_BYTES and self._files.may_keep(data):
            self._tail = data
        return data

    def _fetch(self, start: int, end: int) -> bytes:
        fetched = self._files.fetch(self._store.get_range(self.key, start, end, version=self._version))
        if len(fetched.data) != end - start:
            raise self._files.fail(
                CorruptionError(
                    f"{self.key} is to have {self.size:,} bytes, and ends at {fetched.end:,}",
                    key=self.key,
                    offset=fetched.end,
                    expected=self.size,
                    got=fetched.size,
                )
            )
        return fetched.data


class _Handle:
    """An open virtual file: a position for each thread, because DuckDB seeks and reads on many at once."""

    def __init__(self, file: _VirtualFile) -> None:
        self._file = file
        self._at = threading.local()

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self.tell(), self._file.size)[whence]
        self._at.offset = base + offset
        return base + offset

    def tell(self) -> int:
        return getattr(self._at, "offset", 0)

    def read(self, length: int = -1) -> bytes:
        start = self.tell()
        data = self._file.read(start, self._file.size if length < 0 else start + length)
        self._at.offset = start + len(data)
        return data

    def close(self) -> None:
        """Holds nothing that is to be given back."""


class LakeFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The file system of an instance: finds the virtual files of the statements under way."""

    protocol = "lake"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.statements: dict[str, VirtualFiles] = {}
        """Files of the statements under way, by token."""

    def admit(self, files: VirtualFiles) -> None:
        """Lets a statement's files be found."""
        self.statements[files.token] = files

    def forget(self, files: VirtualFiles) -> None:
        """Lets them be found no more."""
        self.statements.pop(files.token, None)

    def open(self, path: str, mode: str = "rb", **options: Any) -> _Handle:
        """Opens a virtual file to be read."""
        if mode != "rb":
            raise self._refused(path, "written")
        return _Handle(self._file(path))

    def glob(self, path: str, **options: Any) -> list[str]:
        """The path itself, where it may be read: DuckDB asks on the thread that plans, before it opens."""
        files = _asking.get()
        # An empty answer would do, were there no functions that take it for no rows.
        if files is None or files.get(path) is None:
            raise self._refused(path, "read")
        return [path]

    def isfile(self, path: str) -> bool:
        """Whether the path may be read."""
        return self._found(path) is not None

    def isdir(self, path: str) -> bool:
        """Whether it is a directory: there are none."""
        return False

    def exists(self, path: str, **options: Any) -> bool:
        """Whether the path may be read."""
        return self.isfile(path)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self._file(path).size

    def modified(self, path: str) -> dt.datetime:
        """When it was written, which DuckDB wants of each file and uses for nothing here."""
        return _LONG_AGO

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Size and sort of a file."""
        return {"name": path, "size": self.size(path), "type": "file"}

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """Refuses to list."""
        raise self._refused(path, "listed")

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Refuses to make a directory."""
        raise self._refused(path, "made")

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Refuses to remove."""
        raise self._refused(path, "removed")

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Refuses to move."""
        raise self._refused(path1, "moved")

    def _found(self, path: str) -> _VirtualFile | None:
        files = self.statements.get(path.removeprefix(ROOT).partition("/")[0])
        if files is None or _asking.get() not in (None, files):
            return None
        return files.get(path)

    def _file(self, path: str) -> _VirtualFile:
        file = self._found(path)
        if file is None:
            raise self._refused(path, "read")
        return file

    def _refused(self, path: str, done: str) -> LakehouseError:
        error = PermissionDeniedError(f"{path} cannot be {done} by a statement of SQL", path=path)
        files = _asking.get()
        return error if files is None else files.fail(error)
