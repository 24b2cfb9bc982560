"""What comes to a table from snapshot to snapshot, cut into pieces that are read apart.

Readers of streams take a state piece by piece, and then what each commit brought. In a table with a
key, a piece is files whose keys no file of another piece has, before and after; its net changes
follow from it alone. In a table without one, a piece is a file, and what a commit brought is the
files with new rows: compaction, index builds and rewrites that only take rows away bring none. Rows
of the write-ahead log of such a table come when they are flushed; whether a commit has covered them
before makes no difference to who reads files.

Invariant: the pieces of a state, and those of a step, are the same list whenever they are asked for,
so that a number of pieces is a position in them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from lakehouse.format.metadata import CommitKind, FileEntry, Snapshot
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import map_bounded
from lakehouse.storage.commit.kinds import traits_of
from lakehouse.storage.metadata.manifests import placed
from lakehouse.storage.metadata.run_order import apart, appended_order, key_ends, units_of
from lakehouse.storage.tables.open_tables import OpenTable

__all__ = [
    "Increment",
    "Limit",
    "appended_in",
    "brought_by",
    "changed_pieces",
    "file_pieces",
    "read_snapshots",
    "state_pieces",
]

_READS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """A piece: files that are read together, and by themselves."""

    before: tuple[FileEntry, ...] = ()
    """Those that the earlier state has."""
    after: tuple[FileEntry, ...]
    """Those that the later state has."""

    @property
    def brought(self) -> tuple[FileEntry, ...]:
        """Files that only the later state has."""
        had = {entry.path for entry in self.before}
        return tuple(entry for entry in self.after if entry.path not in had)

    @property
    def size(self) -> int:
        """Bytes of the files that a reader has to look through."""
        return sum(entry.size for entry in self.brought)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much to take at once; None = any number. What is taken is at least one piece, however large."""

    files: int | None = None
    rows: int | None = None
    size: int | None = None

    def exceeded(self, files: int, rows: int, size: int) -> bool:
        """Whether so much is too much."""
        return (
            (self.files is not None and files > self.files)
            or (self.rows is not None and rows > self.rows)
            or (self.size is not None and size > self.size)
        )

    def take(self, pieces: Sequence[Increment], begin: int) -> int:
        """Where to stop in a list of pieces when one begins there."""
        files = rows = size = 0
        for at in range(begin, len(pieces)):
            brought = pieces[at].brought
            files += len(brought)
            rows += sum(entry.rows for entry in brought)
            size += sum(entry.size for entry in brought)
            if self.exceeded(files, rows, size):
                return max(at, begin + 1)
        return len(pieces)


def state_pieces(entries: Sequence[FileEntry], schema: TableSchema) -> list[Increment]:
    """A state in pieces: by merge unit and key, or by file as they came."""
    if not schema.primary_key:
        return file_pieces(entries)
    return [Increment(after=tuple(files)) for files in _apart(entries, schema)]


def file_pieces(entries: Iterable[FileEntry]) -> list[Increment]:
    """Each file a piece, in the order in which their rows came."""
    return [Increment(after=(entry,)) for entry in sorted(entries, key=appended_order)]


def changed_pieces(
    before: Sequence[FileEntry], after: Sequence[FileEntry], schema: TableSchema, *, every: bool = False
) -> list[Increment]:
    """What two states of a table with a key differ in, by merge unit and key.

    Args:
        before: files of the earlier one, positions filled in.
        after: files of the later one.
        schema: both are read with it.
        every: pieces whose files are the same as well, because rows come of age.
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
    """Files in groups, none with keys of another, by merge unit and key."""
    for runs in units_of(entries, schema).values():
        files = sorted((one for run in runs for one in run), key=lambda one: (one.min_key or b"", one.path))
        yield from apart(files, key_ends)


async def appended_in(core: OpenTable, snapshot: Snapshot) -> tuple[FileEntry, ...]:
    """The files of new rows that a commit added to a table without a key."""
    if not traits_of(snapshot.kind).brings_rows:
        return ()
    own = [ref for ref in snapshot.manifests if ref.at in (None, snapshot.id)]
    found = [placed(entry, snapshot.id) for entry in snapshot.added]
    for listed in await core.manifests.listed(snapshot, own):
        found += listed
    # What is rewritten keeps its place in the order, which is before this commit. So do flushed rows.
    is_flush = snapshot.kind is CommitKind.FLUSH
    return tuple(
        one
        for one in found
        if one.at == snapshot.id and (is_flush or (one.lo is not None and one.lo[0] == snapshot.id))
    )


def brought_by(snapshot: Snapshot) -> tuple[int, int, int]:
    """About how many files, rows and bytes a reader of changes looks through because of a commit."""
    segments = [one for one in snapshot.segments if one.at in (None, snapshot.id)]
    files = sum(one.last - one.first + 1 for one in segments)
    size = sum(one.size for one in segments)
    if not traits_of(snapshot.kind).changes_rows:
        return files, 0, size
    plus = snapshot.plus
    return files + plus.files, plus.rows, size + plus.bytes


async def read_snapshots(core: OpenTable, first: int, head: Snapshot) -> AsyncGenerator[Snapshot, None]:
    """The snapshots from one on, up to the newest, some read ahead."""

    async def read(number: int) -> Snapshot:
        return await core.history.snapshot(number, head)

    snapshots = map_bounded(read, range(first, head.id + 1), _READS)
    async with aclosing(snapshots):
        async for snapshot in snapshots:
            yield snapshot
