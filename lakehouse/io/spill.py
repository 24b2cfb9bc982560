"""Rows on this machine's disk, for work that does not fit into memory.

Invariant: what was put there is gone when the spill is closed, and nobody else sees it. Reading takes the
memory of one batch, and no addresses besides: files are read, not mapped.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from lakehouse.errors import UnavailableError

__all__ = ["PrivateDirectory", "Spill"]


class PrivateDirectory:
    """A directory that only this user can enter, for a library that spills by itself.

    It is gone when it is closed, and at the latest when nothing refers to it or the process ends; a forked
    child leaves it to its parent.

    Args:
        folder: where it is made; None = where the system keeps such things.
    """

    def __init__(self, folder: str | None = None) -> None:
        try:
            self.path = tempfile.mkdtemp(prefix="lakehouse-spill-", dir=folder)
        except OSError as error:
            place = folder or tempfile.gettempdir()
            raise UnavailableError(
                f"no directory for spilled bytes can be made in {place}: {error.strerror or error}",
                path=place,
            ) from error
        self._dropped = weakref.finalize(self, _delete, self.path, os.getpid())

    def close(self) -> None:
        """Deletes it with all that is in it."""
        self._dropped()


class Spill:
    """Tables put aside in a directory of their own.

    Args:
        folder: where the directory is made; None = where the system keeps such things.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._parent = folder
        self._place: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def put(self, rows: pa.Table, batch_rows: int) -> int:
        """Writes a table, to be read in batches of so many rows; its number."""
        if self._place is None:
            self._place = tempfile.TemporaryDirectory(prefix="lakehouse-spill-", dir=self._parent)
        number, self._count = self._count, self._count + 1
        with (
            pa.OSFile(str(self._file(number)), "wb") as sink,
            pa.ipc.new_file(sink, rows.schema) as writer,
        ):
            writer.write_table(rows, max_chunksize=batch_rows)
        return number

    def batches(self, number: int) -> Iterator[tuple[pa.Table, bool]]:
        """A table's rows again, in their order; with each batch, whether others follow."""
        with pa.OSFile(str(self._file(number)), "rb") as source, pa.ipc.open_file(source) as reader:
            last = reader.num_record_batches - 1
            for place in range(last + 1):
                yield pa.Table.from_batches([reader.get_batch(place)]), place < last

    def close(self) -> None:
        """Deletes everything."""
        if self._place is not None:
            self._place.cleanup()

    def _file(self, number: int) -> Path:
        assert self._place is not None
        return Path(self._place.name) / str(number)


def _delete(path: str, pid: int) -> None:
    if pid == os.getpid():
        shutil.rmtree(path, ignore_errors=True)
