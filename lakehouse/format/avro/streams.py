"""Streams: the numbers that a program's walk over blocks has found, each leaf's one after another.

Invariant: streams take no more memory than the caller allows, however the bytes were made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from lakehouse.format.avro.loops import LOOPS, walk
from lakehouse.format.avro.operations import BAD_COUNT, FULL, WHY
from lakehouse.format.avro.program import Program, Slot
from lakehouse.kernels.arrays import I64, U8, Mask

__all__ = ["STREAM_BYTES_MAX", "Streams", "gathered", "read_only_bytes"]

STREAM_BYTES_MAX = 1 << 31
"""Default limit of the memory of all streams of some blocks."""
_EMPTY_ITEMS_MAX = 1 << 16
"""Items and entries that take no bytes, and so could be any number."""
_REPEATED_GUESS = 8
"""Items of a list for each entry, as room is made for them before any is known."""
_ROOM_MIN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The streams of some blocks, by slot of their program."""

    data: U8
    """The blocks' decompressed bytes, to which starts refer."""
    entries: int
    """Number of entries of all blocks."""
    arena: I64
    """Numbers of all streams."""
    bases: I64
    """Where each stream begins in it."""
    heads: I64
    """Where each stream ends."""

    @classmethod
    def read(
        cls, program: Program, data: bytes | memoryview, blocks: I64, *, bytes_max: int = STREAM_BYTES_MAX
    ) -> Self:
        """Walks over blocks, given where each begins and ends in the data and its number of entries.

        Raises:
            ValueError: the bytes are none of the program's schema, or the streams would be too large.
        """
        raw = read_only_bytes(data)
        entries = _total(blocks[2::3])
        least = program.bytes_min
        if entries > (len(raw) // least if least else _EMPTY_ITEMS_MAX):
            raise ValueError(WHY[BAD_COUNT])
        room = np.full(program.streams, max(1, entries), np.int64)
        room[program.repeated] = entries * _REPEATED_GUESS + _ROOM_MIN
        walked = _Walk(program, raw, blocks, room, bytes_max)
        walked.run()
        return cls(data=raw, entries=entries, arena=walked.arena, bases=walked.bases, heads=walked.heads)

    def of(self, stream: int) -> I64:
        """The numbers of a stream."""
        return self.arena[self.bases[stream] : self.heads[stream]]

    def numbers(self, slot: Slot) -> I64:
        """Numbers of an int, long or enum, starts of other leaves, or numbers of items of an array or map."""
        return self.of(slot.stream)

    def lengths(self, slot: Slot) -> I64:
        """Lengths of bytes or strings."""
        return self.of(slot.stream + 1)

    def valid(self, slot: Slot) -> Mask | None:
        """Which are values and not null; None = all."""
        return None if slot.validity < 0 else self.of(slot.validity) != 0

    def fixed(self, slot: Slot) -> U8:
        """Bytes of a boolean, float, double or fixed, a row each; those of nulls are arbitrary."""
        starts, width = self.of(slot.stream), slot.width
        if len(starts) * width > STREAM_BYTES_MAX:  # a null takes as many as a value
            raise ValueError(f"a column takes more than {STREAM_BYTES_MAX:,} bytes in memory")
        if width > len(self.data):  # all are null
            return np.zeros((len(starts), width), np.uint8)
        found: U8 = np.lib.stride_tricks.sliding_window_view(self.data, width)[starts]
        return found


class _Walk:
    """A walk over blocks, with room that grows as it proves too small."""

    __slots__ = ("_blocks", "_bytes_max", "_data", "_program", "arena", "bases", "heads", "limits", "state")

    def __init__(self, program: Program, data: U8, blocks: I64, room: I64, bytes_max: int) -> None:
        self._program, self._data, self._blocks, self._bytes_max = program, data, blocks, bytes_max
        self.state = np.array([-1, 0, 0, _EMPTY_ITEMS_MAX], np.int64)
        self.arena, self.bases, self.limits = self._rooms(room)
        self.heads = self.bases.copy()

    def run(self) -> None:
        """Walks until all entries are read."""
        while (ended := self._once()) == FULL:
            self._grow()
        if ended:
            block, left = int(self.state[0]), int(self.state[1])
            entry = int(self._blocks[3 * block + 2]) - left if left else left
            place = f"block {block}, entry {entry}" if left else f"block {block}"
            raise ValueError(f"{WHY[ended]} ({place})")

    def _rooms(self, room: I64) -> tuple[I64, I64, I64]:
        # Added up as Python's numbers, which do not wrap.
        total = sum(room.tolist())
        if total * 8 > self._bytes_max:
            raise ValueError(
                f"its values take more than {self._bytes_max:,} bytes in memory while they are read"
            )
        limits = np.cumsum(room)
        return np.empty(total, np.int64), limits - room, limits

    def _once(self) -> int:
        program = self._program
        saved = np.empty_like(self.heads)
        frames = np.zeros(2 * program.depth, np.int64)
        compiled = LOOPS.compiled_for(len(self._data))
        if compiled is not None:
            ended = compiled.walk(
                self._data.view(np.int8), program.code, self._blocks, self.arena, self.heads, self.limits,
                saved, frames, self.state,
            )  # fmt: skip
        else:
            ended, saved = self._interpreted()
        if ended != 0:
            self.heads[:], self.limits = saved, np.where(self.heads == self.limits, -1, self.limits)
        return int(ended)

    def _interpreted(self) -> tuple[int, I64]:
        # Lists are indexed quicker than arrays, and have Python's own numbers, which do not wrap.
        heads, state = self.heads.tolist(), self.state.tolist()
        saved, frames = heads.copy(), [0] * (2 * self._program.depth)
        ended = walk(
            self._data.view(np.int8).data, self._program.listed, self._blocks.tolist(), self.arena.data,
            heads, self.limits.tolist(), saved, frames, state,
        )  # fmt: skip
        self.heads[:], self.state[:] = heads, state
        return ended, np.array(saved, np.int64)

    def _grow(self) -> None:
        """Doubles the room of streams that have none left."""
        ends = np.append(self.bases[1:], len(self.arena))
        room = ends - self.bases
        used = self.heads - self.bases
        full = self.limits < 0
        done, left = int(self.state[0]), int(self.state[1])
        before = max(1, _total(self._blocks[2 : 3 * done + 3 : 3]) - left)
        # As many as the entries so far suggest, so that most streams grow once.
        likely = used * (_total(self._blocks[2::3]) / before) * 1.1
        room = np.where(full, np.maximum(room * 2, likely.astype(np.int64)), room)
        old, old_bases = self.arena, self.bases
        self.arena, self.bases, self.limits = self._rooms(room)
        self.heads = self.bases + used
        for to, start, count in zip(self.bases.tolist(), old_bases.tolist(), used.tolist(), strict=True):
            self.arena[to : to + count] = old[start : start + count]


def _total(counts: I64) -> int:
    # A block may say any number: sums of arrays wrap.
    return sum(counts.tolist())


def read_only_bytes(data: bytes | memoryview) -> U8:
    """The same bytes as an array that cannot be written through, so that loops are compiled once."""
    raw = np.frombuffer(data, np.uint8)
    raw.flags.writeable = False
    return raw


def gathered(data: U8, starts: I64, lengths: I64) -> tuple[U8, I64]:
    """Copies scattered bytes one after another; returns them with their offsets and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    compiled = LOOPS.compiled_for(total)
    if compiled is not None:
        out = np.empty(total, np.uint8)
        compiled.copy_spans(data, np.ascontiguousarray(starts), np.ascontiguousarray(lengths), offsets, out)
        return out, offsets
    shifts: Sequence[int] | Any = np.repeat(starts - offsets[:-1], lengths)
    return data[shifts + np.arange(total)], offsets
