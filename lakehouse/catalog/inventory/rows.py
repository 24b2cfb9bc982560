"""Rows of an inventory: what is said of a manifest, and of a live file.

Invariant: columns keep their names and types; more may be added at the end. Numbers are those of the manifest
itself, not those that a list says of it.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from lakehouse.catalog.inventory.stated import StatedManifest
from lakehouse.format.metadata import FileEntry
from lakehouse.iceberg.manifests import UNKNOWN
from lakehouse.iceberg.planning import LiveEntries

__all__ = ["FILES", "MANIFESTS", "InventoryShape", "RowBuilder"]

_Part: TypeAlias = tuple[int, tuple[Any, ...]]
"""Number of rows, and for each column the list of their values, or the one value of all."""
_CONTENTS = ("data", "position_deletes", "equality_deletes")
_OWNER = {"catalog": pa.string(), "table": pa.string(), "format": pa.string(), "snapshot": pa.int64()}

MANIFESTS = pa.schema(
    {
        **_OWNER,
        "path": pa.string(),
        "bytes": pa.int64(),
        "content": pa.string(),
        "spec_id": pa.int32(),
        "added_snapshot": pa.int64(),
        "files": pa.int64(),
        "rows": pa.int64(),
        "file_bytes": pa.int64(),
    }
)
"""A row for each manifest; ``files``, ``rows`` and ``file_bytes`` are of its live files."""
FILES = pa.schema(
    {
        **_OWNER,
        "content": pa.string(),
        "path": pa.string(),
        "file_format": pa.string(),
        "bytes": pa.int64(),
        "rows": pa.int64(),
        "spec_id": pa.int32(),
        "added_snapshot": pa.int64(),
        "manifest": pa.string(),
    }
)
"""A row for each live file; ``rows`` as stored, ``manifest`` null where the snapshot itself has the file."""


class InventoryShape(enum.Enum):
    """Sort of rows."""

    MANIFESTS = "manifests"
    FILES = "files"

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return MANIFESTS if self is InventoryShape.MANIFESTS else FILES


class RowBuilder:
    """Collects rows of one shape, and gives them out in batches.

    Args:
        shape: sort of rows.
        rows: size of a batch.
    """

    def __init__(self, shape: InventoryShape, rows: int) -> None:
        self._shape, self._rows = shape, rows
        self._parts: list[_Part] = []
        self._count = 0

    def add(self, manifest: StatedManifest, entries: LiveEntries | Sequence[FileEntry]) -> int:
        """Adds what a manifest says; returns the number of its live files."""
        if isinstance(entries, LiveEntries):
            return self._add_iceberg(manifest, entries)
        live = [entry for entry in entries if entry.path not in manifest.removed]
        if self._shape is InventoryShape.FILES:
            self._add_files(
                manifest,
                ["data"] * len(live),
                [f"{manifest.location}/{entry.path}" for entry in live],
                [entry.format.value for entry in live],
                [entry.size for entry in live],
                [entry.rows for entry in live],
                [entry.at for entry in live],
            )
        elif manifest.path is not None:
            sums = sum(entry.rows for entry in live), sum(entry.size for entry in live)
            self._add_manifest(manifest, len(live), *sums)
        return len(live)

    def _add_iceberg(self, manifest: StatedManifest, entries: LiveEntries) -> int:
        columns, count = entries.columns, entries.count
        rows, sizes = entries.numbers(columns.records), entries.numbers(columns.size)
        if self._shape is InventoryShape.MANIFESTS:
            self._add_manifest(manifest, count, int(rows.sum()), int(sizes.sum()))
            return count
        added = entries.live(entries.inherited.snapshot_id).tolist()
        self._add_files(
            manifest,
            [_CONTENTS[at] for at in entries.numbers(columns.content).tolist()],
            columns.paths(entries.at).to_pylist(),
            [columns.formats[at] for at in entries.numbers(columns.format).tolist()],
            sizes.tolist(),
            rows.tolist(),
            [None if at == UNKNOWN else at for at in added],
        )
        return count

    def _add_manifest(self, manifest: StatedManifest, files: int, rows: int, size: int) -> None:
        row = (manifest.path, manifest.bytes, manifest.content, manifest.spec_id, manifest.added_snapshot)
        self._extend(1, (*manifest.owner, *row, files, rows, size))

    def _add_files(self, manifest: StatedManifest, *columns: list[Any]) -> None:
        content, path, file_format, size, rows, added = columns
        named = (content, path, file_format, size, rows, manifest.spec_id, added, manifest.path)
        self._extend(len(path), (*manifest.owner, *named))

    def _extend(self, count: int, values: tuple[Any, ...]) -> None:
        if count:
            self._parts.append((count, values))
            self._count += count

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether there is a batch."""
        return len(self) >= self._rows

    def batch(self) -> pa.RecordBatch:
        """Takes the first batch of rows away."""
        schema, rows = self._shape.schema, self._rows
        parts, self._parts, self._count = self._parts, [], 0
        columns = [_column(parts, at) for at in range(len(schema))]
        self._extend(len(columns[0]) - rows, tuple(column[rows:] for column in columns))
        arrays = [pa.array(column[:rows], kind) for column, kind in zip(columns, schema.types, strict=True)]
        return pa.record_batch(arrays, schema=schema)


def _column(parts: Sequence[_Part], at: int) -> list[Any]:
    """Puts the values of a column of all parts behind each other."""
    values: list[Any] = []
    for count, part in parts:
        value = part[at]
        values += value if isinstance(value, list) else itertools.repeat(value, count)
    return values
