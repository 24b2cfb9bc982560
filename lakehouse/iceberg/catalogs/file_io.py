"""Files for pyiceberg's catalogs: what they read comes through our stores, and they write nothing.

A catalog of pyiceberg runs in a thread and reads metadata there; each read is handed to the event loop that
started the thread, so that it is counted, limited and retried as other requests are. The thread holds none of
the limits that the request needs, so the two never wait for each other.

Invariant: what was read is kept until the call ends, and so is read once.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NoReturn

import anyio.from_thread

from lakehouse.errors import InvalidInputError

__all__ = ["FILE_IO", "StoreFileIO", "reading"]

FILE_IO = "lakehouse.iceberg.catalogs.StoreFileIO"
"""Name of the class for the property ``py-io-impl``."""
_Read = Callable[[str], Coroutine[Any, Any, bytes]]
_read: ContextVar[_Read] = ContextVar("lakehouse.iceberg.catalogs.file_io")


@contextlib.contextmanager
def reading(read: _Read) -> Iterator[None]:
    """Has files that pyiceberg opens in threads started in a block read by a function of the event loop."""
    token = _read.set(read)
    try:
        yield
    finally:
        _read.reset(token)


class StoreFileIO:
    """pyiceberg's FileIO, for reading. It has the methods of that class, and is imported without it.

    Args:
        properties: those of the catalog and of the table.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.properties = dict(properties)

    def new_input(self, location: str) -> _StoreFile:
        """Returns the file at a location, which is read when it is opened."""
        return _StoreFile(location)

    def new_output(self, location: str) -> NoReturn:
        """Refuses to write."""
        raise _refused("writing of", location)

    def delete(self, location: object) -> NoReturn:
        """Refuses to delete."""
        raise _refused("deletion of", str(getattr(location, "location", location)))


class _StoreFile:
    """A file that pyiceberg reads."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._data: bytes | None = None

    def _loaded(self) -> bytes:
        if self._data is None:
            self._data = anyio.from_thread.run(_read.get(), self.location)
        return self._data

    def __len__(self) -> int:
        return len(self._loaded())

    def exists(self) -> bool:
        """Returns whether the file can be read."""
        try:
            self._loaded()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> io.BytesIO:
        """Returns the file's bytes as a stream."""
        return io.BytesIO(self._loaded())


def _refused(what: str, location: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what} {location}: Iceberg tables of attached catalogs are read here and not written; write them "
        "with the program that owns the catalog",
        kind="unsupported",
        location=location,
    )
