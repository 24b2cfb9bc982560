"""Data files: written and read, whatever their format.

Words: *run* (sorted rows) → *file* → *piece* (read at once: a row group, some blocks). A *reader* gives
pieces and rows, a *source* opens readers; *uploads* are files in the store that no snapshot has yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.files.file_writer import delete_files, object_paths
    from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, has_keys
    from lakehouse.storage.files.row_writer import WrittenRows, write_rows

__all__ = [
    "EVERY_KEY", "KeyRange", "WrittenRows", "delete_files", "has_keys", "object_paths", "write_rows",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "file_writer": "delete_files object_paths",
        "reader": "EVERY_KEY KeyRange has_keys",
        "row_writer": "WrittenRows write_rows",
    },
)
