"""Ranges of keys that work is cut by, so that several processes can share it.

Ranges end where pieces of files begin, so that little is read twice: of each run, the piece across an
end.

Invariant: the ranges follow each other from no bound to no bound, so that every key is in exactly one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing

from lakehouse.format.metadata import FileEntry
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
"""Work is cut from so many shares on."""
OPENED_MAX = 64
"""Files that a plan opens for the sake of where to cut; of more, their own bounds will do."""
_OPENS = 16

PieceSizes = Sequence[tuple[bytes, int]]
"""The first key and the size of each piece."""


async def opened_pieces(source: RunSource, entries: Iterable[FileEntry]) -> dict[str, Sequence[Piece]]:
    """The pieces of files, by path."""
    opened = map_bounded(source.open, entries, _OPENS, ordered=False)
    async with aclosing(opened) as readers:
        return {reader.entry.path: reader.pieces async for reader in readers}


async def pieces_of(source: RunSource, entries: Iterable[FileEntry]) -> dict[str, PieceSizes]:
    """Where the pieces of files begin, by path."""
    return {path: piece_sizes(some) for path, some in (await opened_pieces(source, entries)).items()}


def piece_sizes(pieces: Iterable[Piece]) -> PieceSizes:
    """Where pieces begin."""
    return [(piece.min_key or b"", piece.size) for piece in pieces]


def cut_files(
    entries: Iterable[FileEntry], share_bytes: int, pieces: Mapping[str, PieceSizes]
) -> list[KeyRange]:
    """Ranges of about equal size for files of one merge unit.

    Args:
        entries: of a table with a key.
        share_bytes: what a range should have at most.
        pieces: by path; a file that is not among them counts as one.
    """
    known = (pieces.get(one.path, ((one.min_key or b"", one.size),)) for one in entries)
    return key_ranges(itertools.chain.from_iterable(known), share_bytes)


def key_ranges(pieces: Iterable[tuple[bytes, int]], share_bytes: int) -> list[KeyRange]:
    """Ranges of about equal size, none much larger than a share unless a piece is.

    Args:
        pieces: the first key and the size of each.
        share_bytes: what a range should have at most.
    """
    found = sorted(pieces)
    total = sum(size for _, size in found)
    count = max(1, -(-total // max(1, share_bytes)))
    cuts: list[bytes] = []
    before = 0
    for (key, size), (last, _) in zip(found, [(b"", 0), *found], strict=False):
        is_due = before * count >= total * (len(cuts) + 1)
        if is_due and key > last and len(cuts) + 1 < count:
            cuts.append(key)
        before += size
    return list(itertools.pairwise([None, *cuts, None]))
