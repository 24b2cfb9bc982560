"""Division of a merge unit into sections: ranges of keys that are read and merged separately, in key order.

Pieces of files arrive by their first key. A section ends where the next piece begins, once it
holds enough; a piece that reaches across the end belongs to both sections and is read once. So a
scan holds at any time the sections under way and, of every run, the piece at the border, however
large the runs are.

Invariant: sections are disjoint and ascend; every row of a wanted piece is in exactly one of them,
together with all newer rows of its key. A piece of which no row can be wanted takes part only where
it may hide a row of an older wanted piece, and then only its keys are read: the rule of pruning
(``docs/spec/v1/table.md``), applied to pieces. Where rows are folded, a piece takes part unless it
has no wanted row and overlaps no piece of another run.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakehouse.storage.files.reader import EVERY_KEY, KeyRange, RunReader

__all__ = ["Chunk", "Section", "SectionPart", "SectionSweep"]


_FEW = 8
"""Divisor of the target: a section with fewer rows than this part is not ended just to avoid a merge."""
_TOO_MANY = 1.5
"""Factor of the target up to which a section may grow to end at a better place."""


@dataclass(slots=True, kw_only=True, eq=False)
class Chunk:
    """A piece of a file that is waiting to get into a section."""

    reader: RunReader
    number: int
    """Number of the piece in its file."""
    rows: int
    low: bytes
    """Row key of its first row."""
    high: bytes
    """Row key of its last row."""
    age: int
    """Place of its run among the runs of the merge unit, oldest first."""
    wanted: bool = True
    """Whether one of its rows may match the condition."""
    matches: bool = False
    """Whether all its rows are known to match."""
    part: SectionPart | None = None
    """Part that it is read with, once a section needs it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class SectionPart:
    """Pieces of one file that are read at once."""

    reader: RunReader
    pieces: tuple[int, ...]
    piece_rows: tuple[int, ...]
    low: bytes
    high: bytes
    age: int
    wanted: bool
    """Whether its rows may match; else only its keys are read, because they may hide older rows."""
    matches: bool
    spans: bool
    """Whether its last piece reaches into the next section."""

    @property
    def rows_before_last(self) -> int:
        """Number of rows of all its pieces but the last."""
        return sum(self.piece_rows[:-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """The rows of a range of keys, [low, high), to be read and merged together."""

    low: bytes | None
    """Least key, included; None = from the first key."""
    high: bytes | None
    """End of the keys, excluded; None = to the last key."""
    parts: tuple[SectionPart, ...]
    """Parts, oldest first, then by key."""
    fresh: frozenset[SectionPart]
    """Parts that no section before uses."""
    merges: bool
    """Whether parts overlap, so that rows must be merged."""

    def cuts(self, part: SectionPart) -> tuple[bytes | None, bytes | None]:
        """Returns the keys to cut the part's rows at: drop rows below the first and from the second on."""
        return (
            self.low if self.low is not None and part.low < self.low else None,
            self.high if self.high is not None and part.high >= self.high else None,
        )


class _Gathered:
    """Pieces that will be in one section."""

    __slots__ = ("chunks", "overlaps", "rows")

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.rows = 0
        self.overlaps = False

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.rows += chunk.rows

    def extend(self, other: _Gathered) -> None:
        self.chunks += other.chunks
        self.rows += other.rows
        self.overlaps |= other.overlaps


class SectionSweep:
    """Divides the pieces of one merge unit into sections, in the order of their first keys.

    Args:
        target_rows: number of rows to gather for a section.
        folds: whether rows of a key are folded.
        keys: range of keys to return; every piece that is added has some of them.
    """

    def __init__(self, target_rows: int, *, folds: bool = False, keys: KeyRange = EVERY_KEY) -> None:
        self._folds = folds
        self.target_rows = target_rows
        """Number of rows to gather for the next section. It has more when a single piece does, and
        rows that reach into it from the one before are added."""
        self._heap: list[tuple[bytes, int, Chunk]] = []
        self._numbers = itertools.count()
        self._low, self._end = keys
        self._carried: list[Chunk] = []
        """Pieces of the section before that reach into this one."""
        self._settled = _Gathered()
        """Pieces that overlap no piece to come."""
        self._cluster = _Gathered()
        """Pieces since the last gap between keys."""
        self._reach: bytes | None = None
        """Greatest key of all pieces so far."""

    def add(self, chunks: Sequence[Chunk]) -> None:
        """Adds the pieces of another file."""
        for chunk in chunks:
            heapq.heappush(self._heap, (chunk.low, next(self._numbers), chunk))

    def sections(self, before: bytes | None) -> Iterator[Section]:
        """Yields the sections complete if later files begin at ``before`` or above; None = no more files."""
        while self._heap and (before is None or self._heap[0][0] < before):
            yield from self._take(heapq.heappop(self._heap)[-1])
        if before is None or self._settled.rows + self._cluster.rows >= self.target_rows:
            self._settle()
            yield from self._close(self._end if before is None else before)

    def _take(self, chunk: Chunk) -> Iterator[Section]:
        is_gap = self._reach is None or chunk.low > self._reach
        if is_gap:
            self._settle()
            if self._settled.overlaps and self._is_worth_a_section():
                yield from self._close(chunk.low)  # the pieces to come may need no merge
        elif not self._cluster.overlaps:
            if self._cluster.chunks and not self._settled.overlaps and self._is_worth_a_section():
                yield from self._close(self._cluster.chunks[0].low)  # the pieces before need no merge
            self._cluster.overlaps = True
        if self._is_enough_before(chunk):
            self._settle()
            yield from self._close(chunk.low)
            self._cluster.overlaps = not is_gap
        self._cluster.add(chunk)
        self._reach = chunk.high if self._reach is None else max(self._reach, chunk.high)

    def _is_enough_before(self, chunk: Chunk) -> bool:
        """Returns whether to end the section before the piece: best where one of its largest run begins.

        Pieces of that run then do not reach into the next section, as all other runs' may.
        """
        gathered = self._settled.rows + self._cluster.rows
        more = gathered + chunk.rows
        if not gathered or more <= self.target_rows:
            return False
        rows_of: dict[int, int] = {}
        for gathered_chunk in (*self._settled.chunks, *self._cluster.chunks):
            rows_of[gathered_chunk.age] = rows_of.get(gathered_chunk.age, 0) + gathered_chunk.rows
        return rows_of.get(chunk.age, 0) == max(rows_of.values()) or more > _TOO_MANY * self.target_rows

    def _is_worth_a_section(self) -> bool:
        return self._settled.rows * _FEW >= self.target_rows

    def _settle(self) -> None:
        self._settled.extend(self._cluster)
        self._cluster = _Gathered()

    def _close(self, high: bytes | None) -> Iterator[Section]:
        """Ends the section of the settled pieces, before ``high``."""
        if high is not None and self._low is not None and high <= self._low:
            return  # the piece begins below the range of keys asked for
        chunks = self._carried + self._settled.chunks
        low, self._low = self._low, high
        self._settled = _Gathered()
        self._carried = [] if high is None else [chunk for chunk in chunks if chunk.high >= high]
        needed = _folded(chunks) if self._folds else _needed(chunks)
        if needed:
            fresh = _read_at_once([chunk for chunk in needed if chunk.part is None], high)
            parts = {chunk.part for chunk in needed if chunk.part is not None}
            yield Section(
                low=low,
                high=high,
                parts=tuple(sorted(parts, key=lambda part: (part.age, part.low))),
                fresh=frozenset(fresh),
                merges=_overlap(parts, low),
            )


def _needed(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Returns the wanted pieces, and newer ones that may hide some of their rows."""
    wanted = [chunk for chunk in chunks if chunk.wanted]
    return [
        chunk
        for chunk in chunks
        if chunk.wanted
        or any(old.age < chunk.age and old.low <= chunk.high and chunk.low <= old.high for old in wanted)
    ]


def _folded(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Returns wanted pieces, and all that overlap another run's: only folded rows can be judged."""
    before: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.low):
        before = [earlier for earlier in before if earlier.high >= chunk.low]
        for earlier in before:
            if earlier.age != chunk.age:
                earlier.wanted = chunk.wanted = True
                earlier.matches = chunk.matches = False
        before.append(chunk)
    return [chunk for chunk in chunks if chunk.wanted]


def _overlap(parts: Iterable[SectionPart], low: bytes | None) -> bool:
    """Returns whether rows of two parts may be mixed in key order, by their bounds, from ``low`` on."""
    reach: bytes | None = None
    for begin, end in sorted((max(part.low, low or b""), part.high) for part in parts):
        if reach is not None and begin <= reach:
            return True
        reach = end
    return False


def _read_at_once(chunks: Sequence[Chunk], high: bytes | None) -> list[SectionPart]:
    """Groups the pieces into parts, one for each file and use."""
    groups: dict[tuple[int, bool], list[Chunk]] = {}
    for chunk in chunks:
        groups.setdefault((id(chunk.reader), chunk.wanted), []).append(chunk)
    parts = []
    for group in groups.values():
        part = SectionPart(
            reader=group[0].reader,
            pieces=tuple(chunk.number for chunk in group),
            piece_rows=tuple(chunk.rows for chunk in group),
            low=group[0].low,
            high=group[-1].high,
            age=group[0].age,
            wanted=group[0].wanted,
            matches=all(chunk.matches for chunk in group),
            spans=high is not None and group[-1].high >= high,
        )
        for chunk in group:
            chunk.part = part
        parts.append(part)
    return parts
