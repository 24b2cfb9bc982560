"""Coverage of a view of a table: its files, and which of them need defaults that a version cannot tell."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.format.metadata import FileEntry
from lakehouse.iceberg.publishing.coverage import Coverage, cover
from lakehouse.iceberg.publishing.schemas import misses_default
from lakehouse.io import map_bounded
from lakehouse.storage.tables import OpenTable, View

__all__ = ["coverage_of"]


async def coverage_of(table: OpenTable, view: View, version: int) -> Coverage:
    """Returns the files of a snapshot that are published in a version of the format."""
    files = await view.files()
    gaps = await _gaps(table, view, files, version)
    return cover(
        files,
        view.snapshot,
        view.schema,
        version=version,
        misses_default=lambda entry: entry.schema_id in gaps,
    )


async def _gaps(table: OpenTable, view: View, files: Iterable[FileEntry], version: int) -> set[int]:
    """Returns the schemas of files whose rows have defaults that the version cannot tell."""
    used = {entry.schema_id for entry in files} - {view.schema.id}
    refs = [ref for ref in view.schema_object.ancestors if ref.id in used]
    stored = map_bounded(table.schemas.read, refs, table.settings.read_concurrency)
    return {one.schema.id async for one in stored if misses_default(view.schema, one.schema, version)}
