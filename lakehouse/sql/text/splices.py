"""Splices: ranges of a text replaced, and the way back from an offset of the result to the user's own text.

Invariant: what no cut covers is in the result byte for byte, and its offsets lead back to where it stood.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakehouse.errors import InternalError

__all__ = ["Cut", "Splices"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cut:
    """A range of bytes of a text, and what stands in its place."""

    start: int
    end: int
    """Exclusive; the same as ``start`` where something is inserted."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Splices:
    """A text with its cuts made."""

    raw: bytes
    """The text before the cuts."""
    cuts: tuple[Cut, ...]
    """In order, none over another."""
    result: bytes = field(repr=False)
    _starts: tuple[int, ...] = field(repr=False)
    # Where each replacement begins in the result.

    @classmethod
    def of(cls, raw: bytes, cuts: Iterable[Cut]) -> Splices:
        """Makes cuts in a text."""
        ordered = tuple(sorted(cuts))
        pieces, starts, length, last = [], [], 0, 0
        for cut in ordered:
            if not last <= cut.start <= cut.end <= len(raw):
                raise InternalError(f"a cut at {cut.start}:{cut.end} overlaps another, or leaves the text")
            new = cut.text.encode()
            pieces += [raw[last : cut.start], new]
            starts.append(length + cut.start - last)
            length = starts[-1] + len(new)
            last = cut.end
        result = b"".join([*pieces, raw[last:]])
        return cls(raw=raw, cuts=ordered, result=result, _starts=tuple(starts))

    @property
    def text(self) -> str:
        """The result as text."""
        return self.result.decode()

    def origin(self, offset: int, length: int = 0) -> tuple[int, int]:
        """Returns the (start, end) in the text before the cuts of a range of the result.

        A range that begins in a replacement begins where that was cut out.
        """
        start, _ = self._replaced(offset)
        return start, self._replaced(offset + length - 1)[1] if length else start

    def _replaced(self, offset: int) -> tuple[int, int]:
        """Returns where one byte of the result stood: itself, or all that its replacement replaced."""
        index = bisect_right(self._starts, offset) - 1
        beyond, last = offset, 0
        if index >= 0:
            cut = self.cuts[index]
            last, beyond = cut.end, offset - self._starts[index] - len(cut.text.encode())
            if beyond < 0:
                return cut.start, cut.end
        at = min(max(last + beyond, 0), len(self.raw))
        return at, min(at + 1, len(self.raw))
