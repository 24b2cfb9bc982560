"""The directory blob of a tantivy index in a puffin file, which lists the index's files.

Every file of the index is a blob of its own, whose type is a UUID; the directory blob is
compact JSON::

    {"files":[{"relative_path":"meta.json","blob_index":6,"key":"<uuid>"},…]}

``blob_index`` is the number of the file's blob in the footer, ``key`` its type; they must
agree. Paths use ``/``.

Invariant: a directory that was decoded names each file once, by a path that stays below the
folder into which it is unpacked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from lakehouse.errors import CorruptionError
from lakehouse.excerpt import short
from lakehouse.format.limits.json_object import parse_json

__all__ = ["TantivyDirectory", "TantivyFile"]

_FILES_MAX = 1 << 16
"""Maximum number of files of an index; tantivy keeps about ten for each segment."""
_PATH_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TantivyFile:
    """A file of an index, and the blob that holds it."""

    relative_path: str
    """Path below the index's folder, parts joined by ``/``."""
    blob_index: int
    """Number of its blob in the footer, from 0."""
    key: str
    """Type of its blob."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TantivyDirectory:
    """The list of all files of an index."""

    files: tuple[TantivyFile, ...]

    def encode(self) -> bytes:
        """Encodes the blob."""
        files = [
            {"relative_path": file.relative_path, "blob_index": file.blob_index, "key": file.key}
            for file in self.files
        ]
        return json.dumps({"files": files}, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Decodes a blob; other keys of its JSON are ignored."""
        try:
            document = parse_json(data)
        except ValueError as error:
            raise _damage_error("is not JSON", "JSON", bytes(data[:60])) from error
        files = document.get("files") if isinstance(document, dict) else None
        if not isinstance(files, list) or len(files) > _FILES_MAX:
            raise _damage_error("has no list of files", f"at most {_FILES_MAX} files", type(files).__name__)
        directory = cls(files=tuple(_file(entry) for entry in files))
        paths = {file.relative_path for file in directory.files}
        if len(paths) != len(directory.files):
            raise _damage_error("names a file twice", len(directory.files), len(paths))
        return directory

    def check_blobs(self, blob_types: Sequence[str]) -> None:
        """Checks that each file's blob has the number and the type that the directory states.

        Args:
            blob_types: types of all blobs of the puffin file, in the footer's order.

        Raises:
            CorruptionError: one has not.
        """
        for file in self.files:
            there = blob_types[file.blob_index] if file.blob_index < len(blob_types) else None
            if there != file.key:
                raise _damage_error(
                    f"says {short(file.relative_path)} is blob {file.blob_index}, which is another",
                    file.key,
                    there,
                )


def _file(entry: Any) -> TantivyFile:
    if not isinstance(entry, dict):
        raise _damage_error("lists something that is no file", "an object", entry)
    path, index, key = entry.get("relative_path"), entry.get("blob_index"), entry.get("key")
    if not isinstance(path, str) or not _stays_below(path):
        raise _damage_error("names a file outside its folder", "a relative path", path)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise _damage_error(f"has no place for {path!r}", "a blob's number", index)
    if not isinstance(key, str) or not key:
        raise _damage_error(f"has no key for {path!r}", "a blob's type", key)
    return TantivyFile(relative_path=path, blob_index=index, key=key)


def _stays_below(path: str) -> bool:
    """Returns whether a path consists of plain names joined by ``/``, on any operating system."""
    if len(path) > _PATH_MAX or any(ord(char) < 32 or char in "\\:" for char in path):
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


def _damage_error(what: str, expected: object, got: object) -> CorruptionError:
    shown = short(got, 200)
    return CorruptionError(
        f"tantivy directory {what}: expected {expected}, got {shown}", expected=expected, got=shown
    )
