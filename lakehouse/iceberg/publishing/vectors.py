"""Deletion vectors of published files: those of changed merge units are made, the others stay.

Which rows are hidden follows from which files of a merge unit are published. So the vectors of a unit that
has the same files as in the publication before are those of then, and no key of it is read.

Invariant: a data file has one vector at most, with exactly the rows that other published rows hide or that
delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.format.metadata import FileEntry
from lakehouse.format.puffin import (
    DELETION_VECTOR,
    PuffinBuilder,
    deletion_vector_properties,
    encode_deletion_vector,
)
from lakehouse.format.schema import TableSchema
from lakehouse.iceberg.publishing.assembly import KeptManifest
from lakehouse.iceberg.publishing.coverage import Coverage
from lakehouse.iceberg.publishing.hidden_rows import hidden_rows
from lakehouse.iceberg.publishing.manifests import Content, PublishedFile, Vector
from lakehouse.iceberg.publishing.store import PublishedStore
from lakehouse.storage.metadata import new_published_path
from lakehouse.storage.tables import OpenTable

__all__ = ["VectorWriter", "changed_units"]

_ROW_POSITION = 2_147_483_645
"""Field id that Iceberg reserves for the number of a row in its file."""
_PUFFIN_BYTES = 64 * 1024**2
"""Bytes of vectors from which on another puffin file is begun."""

_Runs = Sequence[Sequence[FileEntry]]


def changed_units(coverage: Coverage, before: Coverage | None, schema: TableSchema) -> list[_Runs]:
    """Returns the merge units with hidden rows whose files are not those of the publication before.

    Args:
        coverage: the files that are published now.
        before: those that were published before; None = it is not known.
        schema: schema of the table.
    """
    if before is None:
        return list(coverage.hiding)
    published, live = ({entry.path for entry in one.files} for one in (before, coverage))
    gone = [entry for entry in before.files if entry.path not in live]
    # Files of different numbers of buckets may hide each other's rows in whatever bucket they are.
    rescaled = len({entry.total_buckets for entry in [*gone, *coverage.files]}) > 1

    def unit(entry: FileEntry) -> tuple[Any, ...]:
        partition = entry.partition if schema.key_holds_partition else ()
        return partition, None if rescaled else entry.bucket

    touched = {unit(entry) for entry in gone}
    return [
        runs
        for runs in coverage.hiding
        if any(entry.path not in published or unit(entry) in touched for run in runs for entry in run)
    ]


@dataclass(slots=True)
class VectorWriter:
    """Writes the deletion vectors of one publication.

    Args:
        table: the table.
        place: its published objects.
        schema: its schema.
        snapshot: id of the snapshot that is published.
        written: takes the URLs of the puffin files that are written.
    """

    table: OpenTable
    place: PublishedStore
    schema: TableSchema
    snapshot: int
    written: list[str]

    async def vectors(
        self, coverage: Coverage, before: Coverage | None, manifests: Sequence[KeptManifest]
    ) -> dict[str, PublishedFile]:
        """Returns the entries of all deletion vectors, by URL of the data file.

        Args:
            coverage: the files that are published now.
            before: those that were published before; None = it is not known.
            manifests: the manifests of then.
        """
        changed = changed_units(coverage, before, self.schema)
        anew = {self.place.url(entry.path) for runs in changed for run in runs for entry in run}
        hiding = {self.place.url(entry.path) for runs in coverage.hiding for run in runs for entry in run}
        kept = {
            file.data_file: file
            for manifest in manifests
            if manifest.listed.content is Content.DELETES
            for file in manifest.files
            if file.data_file in hiding and file.data_file not in anew
        }
        return {**kept, **await self._made(changed)}

    async def _made(self, units: Sequence[_Runs]) -> dict[str, PublishedFile]:
        made: dict[str, PublishedFile] = {}
        puffin = _Puffin()
        for runs in units:
            hidden = await hidden_rows(self.table, self.schema, runs)
            for entry in (entry for run in runs for entry in run):
                if entry.path in hidden and entry.deletes < entry.rows:
                    puffin.add(self.place.url(entry.path), entry, hidden[entry.path])
            if puffin.builder.size > _PUFFIN_BYTES:
                made |= await self._stored(puffin)
                puffin = _Puffin()
        return made | await self._stored(puffin)

    async def _stored(self, puffin: _Puffin) -> dict[str, PublishedFile]:
        if not puffin.files:
            return {}
        data = puffin.finished()
        url = await self.place.put(new_published_path("deletes", self.snapshot, "puffin"), data)
        self.written.append(url)
        return {
            data_file: PublishedFile(
                data_file=data_file,
                entry=entry,
                vector=Vector(path=url, size=len(data), offset=offset, length=length, rows=rows),
                rows=rows,
            )
            for data_file, entry, offset, length, rows in puffin.files
        }


class _Puffin:
    """A puffin file of deletion vectors while it is made."""

    def __init__(self) -> None:
        self.builder = PuffinBuilder(allow_duplicates=True)
        self.files: list[tuple[str, FileEntry, int, int, int]] = []
        """Data file, our entry of it, offset and length of the blob, and its number of rows."""
        self._chunks: list[bytes | memoryview] = []

    def add(self, data_file: str, entry: FileEntry, rows: Any) -> None:
        """Adds the vector of a data file."""
        blob = encode_deletion_vector(rows)
        self._chunks += self.builder.add(
            DELETION_VECTOR,
            blob,
            fields=(_ROW_POSITION,),
            snapshot_id=-1,  # both are inherited, as Iceberg has it for vectors
            sequence_number=-1,
            properties=deletion_vector_properties(data_file, len(rows)),
        )
        self.files.append((data_file, entry, self.builder.size - len(blob), len(blob), len(rows)))

    def finished(self) -> bytes:
        """Returns the whole file."""
        return b"".join([*self._chunks, self.builder.finish()])
