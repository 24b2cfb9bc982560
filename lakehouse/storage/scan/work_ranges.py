"""Key ranges that divide work, so that several processes can share it.

Ranges end where pieces of files begin, so that little is read twice: of each run, only the piece across the
end of a range.

Invariant: the ranges follow each other from no bound to no bound, so that every key is in exactly one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing

from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.io.work import map_bounded
from lakehouse.storage.files.reader import KeyRange, Piece, RunSource

__all__ = [
    "LARGE",
    "OPENED_MAX",
    "PieceSizes",
    "cut_files",
    "key_ranges",
    "opened_pieces",
    "piece_sizes",
    "pieces_of",
]

LARGE = 1.5
"""Number of shares from which on work is divided."""
OPENED_MAX = 64
"""Maximum number of files that a plan opens to find ends of ranges; for more, the files' own bounds serve."""

PieceSizes = Sequence[tuple[bytes, int]]
"""First key and size in bytes of each piece of a file."""


async def opened_pieces(
    source: RunSource, schema: TableSchema, entries: Iterable[FileEntry]
) -> dict[str, Sequence[Piece]]:
    """Opens files and returns their pieces, by path."""
    at_once = source.settings.read_concurrency
    opened = map_bounded(lambda entry: source.open(entry, schema), entries, at_once, ordered=False)
    async with aclosing(opened) as readers:
        return {reader.entry.path: reader.pieces async for reader in readers}


async def pieces_of(
    source: RunSource, schema: TableSchema, entries: Iterable[FileEntry]
) -> dict[str, PieceSizes]:
    """Opens files and returns the first keys and sizes of their pieces, by path."""
    opened = await opened_pieces(source, schema, entries)
    return {path: piece_sizes(pieces) for path, pieces in opened.items()}


def piece_sizes(pieces: Iterable[Piece]) -> PieceSizes:
    """Returns the first key and the size of each piece; an unknown key counts as below all others."""
    return [(piece.min_key or b"", piece.size) for piece in pieces]


def cut_files(
    entries: Iterable[FileEntry], share_bytes: int, pieces: Mapping[str, PieceSizes]
) -> list[KeyRange]:
    """Divides the keys of files of one merge unit into ranges of about equal size.

    Args:
        entries: files of a table with a key.
        share_bytes: bytes that a range should have at most.
        pieces: pieces of the files by path; a file that is not among them counts as one piece.
    """
    known = (pieces.get(entry.path, ((entry.min_key or b"", entry.size),)) for entry in entries)
    return key_ranges(itertools.chain.from_iterable(known), share_bytes)


def key_ranges(pieces: Iterable[tuple[bytes, int]], share_bytes: int) -> list[KeyRange]:
    """Returns ranges of about equal size, none much larger than a share unless a piece is.

    Args:
        pieces: first key and size in bytes of each piece.
        share_bytes: bytes that a range should have at most.
    """
    ordered = sorted(pieces)
    total = sum(size for _, size in ordered)
    count = max(1, -(-total // max(1, share_bytes)))
    cuts: list[bytes] = []
    before = 0
    for (key, size), (last, _) in zip(ordered, [(b"", 0), *ordered], strict=False):
        is_due = before * count >= total * (len(cuts) + 1)
        # Only between different keys: a range that begins and ends with one key would be empty.
        if is_due and key > last and len(cuts) + 1 < count:
            cuts.append(key)
        before += size
    return list(itertools.pairwise([None, *cuts, None]))
