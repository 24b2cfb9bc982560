"""Columns of manifests in as few bytes as their values allow: numbers, lists of numbers, and texts.

A manifest stays in the cache for long and is one of thousands, and most of its columns say the same for every
entry, or numbers that are small.

Invariant: what goes in comes out; only the form is smaller.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.format.avro import spans_array
from lakehouse.kernels.arrays import I64, U8, Mask

__all__ = ["UNKNOWN", "NumberLists", "Numbers", "Texts", "alike", "narrowed"]

T = TypeVar("T")

UNKNOWN = -1
"""A number that is not known: missing in the file, or below zero, which no such number is."""
_WIDTHS = (np.int8, np.int16, np.int32)
_OBJECT_BYTES = 64
"""Bytes of an object beside its arrays, about."""
_CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Bytes of a character that are not its first."""
_SAMPLE = 64
"""Texts that are looked at before all are: they tell most often that there is no end to look for."""


def narrowed(values: I64) -> npt.NDArray[Any]:
    """Returns the values in the narrowest whole numbers that hold them."""
    if not len(values):
        return values.astype(np.int8)
    low, high = int(values.min()), int(values.max())
    for width in _WIDTHS:
        bounds = np.iinfo(width)
        if bounds.min <= low and high <= bounds.max:
            return values.astype(width)
    return values.copy()


def alike(cuts: Sequence[int], make: Callable[[int], T]) -> list[T]:
    """Makes the parts between cuts, where a part depends on its number of entries alone.

    Parts of one size are one object: of thousands of small manifests most columns say the same, and objects
    that are kept cost the garbage collector time again and again.
    """
    sizes = [end - begin for begin, end in itertools.pairwise(cuts)]
    made = {size: make(size) for size in set(sizes)}
    return [made[size] for size in sizes]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """Numbers, one for each entry; :data:`UNKNOWN` where there is none."""

    count: int
    constant: int | None
    """Value of all entries; None = they differ."""
    narrow: npt.NDArray[Any] | None = None
    """The values, where they differ."""

    @classmethod
    def of(cls, values: I64) -> Self:
        """The numbers of an array."""
        count = len(values)
        first = int(values[0]) if count else UNKNOWN
        if not count or bool((values == first).all()):
            return cls(count=count, constant=first)
        return cls(count=count, constant=None, narrow=narrowed(values))

    @classmethod
    def same(cls, value: int, count: int) -> Self:
        """A number that all entries have."""
        return cls(count=count, constant=value)

    def all(self) -> I64:
        """The numbers of all entries."""
        if self.narrow is None:
            return np.full(self.count, self.constant, np.int64)
        return self.narrow.astype(np.int64)

    def at(self, rows: I64) -> I64:
        """The numbers of some entries."""
        if self.narrow is None:
            return np.full(len(rows), self.constant, np.int64)
        return self.narrow[rows].astype(np.int64)

    def count_of(self, value: int) -> int:
        """How many entries have that number."""
        if self.narrow is None:
            return self.count if self.constant == value else 0
        return int(np.count_nonzero(self.narrow == value))

    def cut(self, cuts: Sequence[int]) -> list[Self]:
        """The numbers of neighbouring entries, apart: those of each pair of cuts."""
        make, narrow = type(self), self.narrow
        if narrow is None:
            return alike(cuts, lambda count: make(count=count, constant=self.constant))
        return [
            make(count=1, constant=int(narrow[begin]))
            if end - begin == 1
            else make(count=end - begin, constant=None, narrow=narrow[begin:end].copy())
            for begin, end in itertools.pairwise(cuts)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return _OBJECT_BYTES + (0 if self.narrow is None else self.narrow.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumberLists:
    """Lists of numbers, one for each entry; :data:`UNKNOWN` as a length where there is none."""

    lengths: Numbers
    values: Numbers
    """Numbers of all lists, one after another."""

    def at(self, rows: I64) -> list[tuple[int, ...] | None]:
        """The lists of some entries; None = there is none."""
        lengths = self.lengths.all()
        ends = np.cumsum(np.maximum(lengths, 0))
        values = self.values.all()
        return [
            tuple(values[ends[row] - lengths[row] : ends[row]].tolist()) if lengths[row] >= 0 else None
            for row in rows.tolist()
        ]

    def cut(self, cuts: Sequence[int]) -> list[Self]:
        """The lists of neighbouring entries, apart."""
        make, length, value = type(self), self.lengths.constant, self.values.constant
        if length is not None and value is not None:
            same = Numbers.same
            return alike(
                cuts,
                lambda count: make(lengths=same(length, count), values=same(value, max(length, 0) * count)),
            )
        ends = np.zeros(self.lengths.count + 1, np.int64)
        np.cumsum(np.maximum(self.lengths.all(), 0), out=ends[1:])
        parts = zip(self.lengths.cut(cuts), self.values.cut(ends[cuts].tolist()), strict=True)
        return [make(lengths=lengths, values=values) for lengths, values in parts]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.lengths.nbytes + self.values.nbytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Texts:
    """Texts, one for each entry, without the beginning and the end that all of them share."""

    prefix: str
    suffix: str
    middles: pa.Array
    """Parts that differ; null where there is no text."""

    @classmethod
    def of(cls, data: U8, starts: I64, lengths: I64, valid: Mask | None) -> Self:
        """The texts that lie in data.

        Raises:
            ValueError: they are not UTF-8.
        """
        some = slice(None) if valid is None else valid
        prefix, suffix = _shared(data, starts[some], lengths[some])
        cut = len(prefix) + len(suffix)
        sizes = lengths - cut if valid is None else np.where(valid, lengths - cut, 0)
        middles = spans_array(pa.string(), data, starts + len(prefix), sizes, valid)
        middles.validate(full=True)
        return cls(prefix=prefix.decode(), suffix=suffix.decode(), middles=middles)

    def at(self, rows: I64 | None = None) -> pa.Array:
        """The texts of some entries, None = of all, as an Arrow array; null where there is none."""
        middles = self.middles if rows is None else self.middles.take(pa.array(rows))
        return pc.binary_join_element_wise(
            pa.scalar(self.prefix), middles, pa.scalar(self.suffix), pa.scalar("")
        )

    def cut(self, cuts: Sequence[int]) -> list[Self]:
        """The texts of neighbouring entries, apart."""
        make, prefix, suffix, nothing = type(self), self.prefix, self.suffix, self.middles.slice(0, 0)
        slices = (self.middles.slice(begin, end - begin) for begin, end in itertools.pairwise(cuts))
        # Put together with nothing they are copied, so that no part keeps the bytes of all.
        return [
            make(prefix=prefix, suffix=suffix, middles=pa.concat_arrays([one, nothing])) for one in slices
        ]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return _OBJECT_BYTES + len(self.prefix) + len(self.suffix) + int(self.middles.nbytes)


def _shared(data: U8, starts: I64, lengths: I64) -> tuple[bytes, bytes]:
    """The beginning and the end that all texts share, cut between characters and not overlapping."""
    if not len(starts):
        return b"", b""
    texts = spans_array(pa.binary(), data, starts, lengths, None)
    ends = pc.min_max(texts)
    prefix = _whole_characters(_beginning(ends["min"].as_py(), ends["max"].as_py()))
    room = int(lengths.min()) - len(prefix)
    suffix = _shared_end(texts.slice(0, _SAMPLE))
    if suffix and len(texts) > _SAMPLE and not pc.all(pc.ends_with(texts, suffix)).as_py():
        suffix = _shared_end(texts)
    suffix = suffix[len(suffix) - min(room, len(suffix)) :].lstrip(_CONTINUATIONS)
    return prefix, suffix if _whole_characters(suffix) == suffix else b""


def _shared_end(texts: pa.Array) -> bytes:
    turned = [text[::-1] for text in texts.to_pylist()]
    return _beginning(min(turned), max(turned))[::-1]


def _beginning(one: bytes, other: bytes) -> bytes:
    """Returns the beginning that both have."""
    size = min(len(one), len(other))
    pairs = zip(one, other, strict=False)
    return one[: next((at for at, (left, right) in enumerate(pairs) if left != right), size)]


def _whole_characters(data: bytes) -> bytes:
    """The beginning of the bytes that is UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start]
    return data
