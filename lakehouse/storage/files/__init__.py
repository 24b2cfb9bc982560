"""Data files: written and read, whatever their format.

Words: *run* (sorted rows) → *file* → *piece* (read at once: a row group, some blocks). A *reader* gives
pieces and rows, a *source* opens readers; *uploads* are files in the store that no snapshot has yet.
*Foreign* files are Parquet that other programs wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.storage.files.foreign import ForeignFiles, foreign_entry
    from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, Piece, RunReader, has_keys
    from lakehouse.storage.files.row_writer import write_rows
    from lakehouse.storage.files.selected_rows import SelectedRows, entry_of_selected
    from lakehouse.storage.files.uploaded_files import UploadedFiles, delete_files, object_paths

__all__ = [
    "EVERY_KEY", "ForeignFiles", "KeyRange", "Piece", "RunReader", "SelectedRows", "UploadedFiles",
    "delete_files", "entry_of_selected", "foreign_entry", "has_keys", "object_paths", "write_rows",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "foreign": "ForeignFiles foreign_entry",
        "reader": "EVERY_KEY KeyRange Piece RunReader has_keys",
        "row_writer": "write_rows",
        "selected_rows": "SelectedRows entry_of_selected",
        "uploaded_files": "UploadedFiles delete_files object_paths",
    },
)
