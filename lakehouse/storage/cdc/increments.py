"""Increments of a table from snapshot to snapshot, divided into pieces that are read independently.

Readers of streams take a state piece by piece, and then the additions of each commit. In a table with a
key, a piece is files whose keys no file of another piece has, before and after; its net changes
follow from it alone. In a table without one, a piece is a file, and the additions of a commit are its
files with new rows: compaction, index builds and rewrites that only remove rows have none. Rows of the
write-ahead log of such a table come when they are flushed; an earlier commit that covers them makes no
difference to readers of files.

Invariant: the pieces of a state, and those of a step, are the same list whenever they are computed,
so that a number of pieces is a position in them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import map_bounded
from lakehouse.storage.commit.kinds import traits_of
from lakehouse.storage.metadata.manifests import with_position
from lakehouse.storage.metadata.run_order import apart, appended_order, key_ends, units_of
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = [
    "Increment",
    "Limit",
    "added_by",
    "appended_in",
    "changed_pieces",
    "file_pieces",
    "read_snapshots",
    "state_pieces",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """Piece of an increment: files that are read together, and independently of all others."""

    before: tuple[FileEntry, ...] = ()
    """Files of the piece in the earlier state."""
    after: tuple[FileEntry, ...]
    """Files of the piece in the later state."""

    @property
    def added_files(self) -> tuple[FileEntry, ...]:
        """Files that only the later state has."""
        had = {entry.path for entry in self.before}
        return tuple(entry for entry in self.after if entry.path not in had)

    @property
    def size(self) -> int:
        """Bytes of the files that only the later state has, which a reader must read."""
        return sum(entry.size for entry in self.added_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Maximum to take at once; None = no limit. At least one piece is taken, however large it is."""

    files: int | None = None
    rows: int | None = None
    size: int | None = None
    """Bytes of files."""

    def exceeded(self, files: int, rows: int, size: int) -> bool:
        """Returns whether these numbers are above a limit."""
        return (
            (self.files is not None and files > self.files)
            or (self.rows is not None and rows > self.rows)
            or (self.size is not None and size > self.size)
        )

    def take(self, pieces: Sequence[Increment], begin: int) -> int:
        """Returns the end, exclusive, of the pieces that may be taken from ``begin`` on."""
        files = rows = size = 0
        for at in range(begin, len(pieces)):
            added = pieces[at].added_files
            files += len(added)
            rows += sum(entry.rows for entry in added)
            size += sum(entry.size for entry in added)
            if self.exceeded(files, rows, size):
                return max(at, begin + 1)
        return len(pieces)


def state_pieces(entries: Sequence[FileEntry], schema: TableSchema) -> list[Increment]:
    """Divides a state into pieces: by merge unit and key, or without a key by file in input order."""
    if not schema.primary_key:
        return file_pieces(entries)
    return [Increment(after=tuple(files)) for files in _apart(entries, schema)]


def file_pieces(entries: Iterable[FileEntry]) -> list[Increment]:
    """Makes each file a piece, in the order in which their rows came."""
    return [Increment(after=(entry,)) for entry in sorted(entries, key=appended_order)]


def changed_pieces(
    before: Sequence[FileEntry], after: Sequence[FileEntry], schema: TableSchema, *, every: bool = False
) -> list[Increment]:
    """Returns the pieces in which two states of a table with a key differ, by merge unit and key.

    Args:
        before: files of the earlier state, positions filled in.
        after: files of the later state, likewise.
        schema: schema to read both with.
        every: also pieces with the same files in both states, whose rows may have expired in between.
    """
    had, has = ({entry.path: entry for entry in entries} for entries in (before, after))
    pieces = []
    for files in _apart(list({**had, **has}.values()), schema):
        paths = [entry.path for entry in files]
        if every or any((path in had) != (path in has) for path in paths):
            pieces.append(
                Increment(
                    before=tuple(had[path] for path in paths if path in had),
                    after=tuple(has[path] for path in paths if path in has),
                )
            )
    return pieces


def _apart(entries: Sequence[FileEntry], schema: TableSchema) -> Iterator[list[FileEntry]]:
    """Groups files by merge unit and key, so that no group has a key of another."""
    for runs in units_of(entries, schema).values():
        unit_files = (entry for run in runs for entry in run)
        # The path makes the order total: readers count on the same pieces each time.
        files = sorted(unit_files, key=lambda entry: (entry.min_key or b"", entry.path))
        yield from apart(files, key_ends)


async def appended_in(table: OpenTable, snapshot: Snapshot) -> tuple[FileEntry, ...]:
    """Returns the files with new rows that a commit added to a table without a key."""
    if not traits_of(snapshot.kind).brings_rows:
        return ()
    own = [ref for ref in snapshot.manifests if ref.at in (None, snapshot.id)]
    entries = [with_position(entry, snapshot.id) for entry in snapshot.added]
    for listed in await table.manifests.listed(snapshot, own):
        entries += listed
    # Rewritten files keep their older positions, by which they are left out. Flushed rows have such, too.
    is_flush = snapshot.kind is CommitKind.FLUSH
    return tuple(
        entry
        for entry in entries
        if entry.at == snapshot.id and (is_flush or (entry.lo is not None and entry.lo[0] == snapshot.id))
    )


def added_by(snapshot: Snapshot) -> tuple[int, int, int]:
    """Estimates how many files, rows and bytes a reader of changes must read because of a commit."""
    segments = [covered for covered in snapshot.segments if covered.at in (None, snapshot.id)]
    files = sum(covered.last - covered.first + 1 for covered in segments)
    size = sum(covered.size for covered in segments)
    if not traits_of(snapshot.kind).changes_rows:
        return files, 0, size
    plus = snapshot.plus
    return files + plus.files, plus.rows, size + plus.bytes


async def read_snapshots(table: OpenTable, first: int, head: Snapshot) -> AsyncGenerator[Snapshot, None]:
    """Yields the snapshots from an id up to the head, in order; some are read ahead."""
    read, at_once = partial(table.snapshots.snapshot, head=head), table.settings.read_concurrency
    snapshots = map_bounded(read, range(first, head.id + 1), at_once)
    async with aclosing(snapshots):
        async for snapshot in snapshots:
            yield snapshot
