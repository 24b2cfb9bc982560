"""Loops over the rows of SSTables: varints, and the columns of rows, written and read at their places.

Invariant: a loop accesses no byte outside the bounds it is given, whatever the bytes are, and returns
the number of an invalid row instead (-1 = none); compiled code has no other protection. Arrays that a
loop reads bytes from are read-only (:func:`read_only`), so that each loop is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.kernels.arrays import I64, U8
from lakehouse.kernels.binary_arrays import binary_parts
from lakehouse.kernels.compiled import Loops
from lakehouse.kernels.copying import copy_bytes, copy_loop, copy_spans

__all__ = [
    "VARINT_PARTS",
    "VARINT_STAND_INS",
    "Kernel",
    "Packed",
    "element_counts",
    "element_spans",
    "fresh_bytes",
    "gather",
    "get_fixed",
    "numbers",
    "packed_binary",
    "put_elements",
    "put_fixed",
    "put_sized",
    "put_varint",
    "read_only",
    "read_varint",
    "spans",
    "sums",
    "varint_sizes",
]

_COUNTED_FROM = 1_000
"""Minimum rows of interpreted work that counts towards compiling: point reads must not end up loading a
compiler, which takes a second, for they run on the event loop."""
_VARINT_BITS_MAX = 35
"""Maximum bits of a varint of ours: five bytes hold any size below 4 GiB."""


class Kernel:
    """A loop that runs compiled where that pays, else interpreted over the same arrays.

    Interpreted work adds up: many small files pay for the compiler as one large file does.
    """

    __slots__ = ("_function", "_interpreted", "_name", "_unit")

    def __init__(self, unit: Loops, function: Callable[..., Any]) -> None:
        self._unit = unit
        self._function = function
        self._name = function.__name__
        self._interpreted = 0

    def __call__(self, work: int, *args: Any) -> Any:
        """Runs the loop; ``work`` is the approximate number of rows that it handles."""
        compiled = self._unit.compiled_for(work if self._unit.is_loaded else work + self._interpreted)
        if compiled is None:
            self._interpreted += work if work >= _COUNTED_FROM else 0
        else:
            return getattr(compiled, self._name)(*args)
        # A memoryview has Python's own integers, which do not wrap, and is quicker to index.
        return self._function(*[arg.data if isinstance(arg, np.ndarray) else arg for arg in args])


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Byte strings one after another."""

    data: U8
    """Bytes of all values; read-only."""
    offsets: I64
    """Offset of each value, and the end of the last one."""

    @property
    def lengths(self) -> I64:
        """Bytes of each value."""
        lengths: I64 = np.diff(self.offsets)
        return lengths

    def one(self, at: int) -> bytes:
        """Returns the value with number ``at``."""
        return self.data[self.offsets[at] : self.offsets[at + 1]].tobytes()


def packed_binary(column: pa.Array) -> Packed:
    """Returns the values of a binary or text array, uncopied; those of nulls are arbitrary."""
    offsets, data = binary_parts(column)
    return Packed(data=read_only(data), offsets=offsets)


def fresh_bytes(size: int) -> U8:
    """Returns zero bytes to be overwritten."""
    return np.zeros(size, np.uint8)


def numbers(count: int) -> I64:
    """Returns zeros to be overwritten."""
    return np.zeros(count, np.int64)


def sums(sizes: Sequence[int] | I64) -> I64:
    """Returns the offset of each of some values one after another, and the end of the last one."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def read_only(data: U8) -> U8:
    """Returns the same bytes as an array that cannot be written through."""
    view = data.view()
    view.flags.writeable = False
    return view


def varint_sizes(values: I64) -> I64:
    """Returns the number of bytes of each value's varint."""
    sizes = np.ones(len(values), np.int64)
    largest = int(values.max()) if len(values) else 0
    for bits in range(7, _VARINT_BITS_MAX, 7):
        if largest >> bits == 0:
            break
        sizes += values >= 1 << bits
    return sizes


def put_varint(out: Any, at: int, value: int) -> int:
    """Writes a number, seven bits per byte, lowest first; returns the place behind it."""
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


def read_varint(data: Any, at: int, end: int) -> Any:
    """Reads the number at ``at``; returns it and the place behind, -1 if it does not end before ``end``."""
    value = 0
    shift = 0
    while at < end and shift < _VARINT_BITS_MAX:
        byte = int(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 0, -1


def _put_fixed(out: Any, begins: Any, place: int, bit: int, data: Any, width: int, valid: Any) -> None:
    """Writes a column of fixed width to the rows that begin at ``begins`` (-1 = a row of no bytes)."""
    for i in range(len(begins)):
        at = begins[i]
        if at >= 0:
            if valid[i]:
                copy_bytes(out, at + place, data, i * width, width)
            else:
                out[at + (bit >> 3)] |= 1 << (bit & 7)


def _put_sized(out: Any, begins: Any, cursor: Any, bit: int, data: Any, offsets: Any, valid: Any) -> None:
    """Writes a sized column at the ``cursor`` of each row, which it moves."""
    for i in range(len(begins)):
        at = begins[i]
        if at >= 0:
            if valid[i]:
                size = offsets[i + 1] - offsets[i]
                to = put_varint(out, cursor[i], size)
                copy_bytes(out, to, data, offsets[i], size)
                cursor[i] = to + size
            else:
                out[at + (bit >> 3)] |= 1 << (bit & 7)


def _put_elements(out: Any, begins: Any, firsts: Any, data: Any, offsets: Any) -> None:
    """Writes lists: the count, then each element with its size."""
    for i in range(len(begins) - 1):
        to = put_varint(out, begins[i], firsts[i + 1] - firsts[i])
        for j in range(firsts[i], firsts[i + 1]):
            size = offsets[j + 1] - offsets[j]
            to = put_varint(out, to, size)
            copy_bytes(out, to, data, offsets[j], size)
            to += size


def _get_fixed(
    data: Any, begins: Any, ends: Any, place: int, bit: int, width: int, out: Any, valid: Any
) -> None:
    """Reads a column of fixed width from rows that are long enough for it."""
    for i in range(len(begins)):
        at = begins[i]
        if at == ends[i] or (data[at + (bit >> 3)] >> (bit & 7)) & 1:
            valid[i] = 0
        else:
            copy_bytes(out, i * width, data, at + place, width)


def _spans(
    data: Any, cursor: Any, begins: Any, ends: Any, bit: int, starts: Any, lengths: Any, valid: Any
) -> int:
    """Finds the values of a sized column and moves ``cursor`` behind them. Returns an invalid row, or -1."""
    for i in range(len(begins)):
        at = begins[i]
        end = ends[i]
        if at == end:
            valid[i] = 0
            cursor[i] = end
        elif (data[at + (bit >> 3)] >> (bit & 7)) & 1:
            valid[i] = 0
        else:
            size, start = read_varint(data, cursor[i], end)
            if start < 0 or size > end - start:
                return i
            starts[i] = start
            lengths[i] = size
            cursor[i] = start + size
    return -1


def _element_counts(data: Any, starts: Any, lengths: Any, valid: Any, counts: Any) -> int:
    """Reads the number of elements of each list, at most its bytes. Returns an invalid row, or -1."""
    for i in range(len(starts)):
        if valid[i]:
            end = starts[i] + lengths[i]
            count, at = read_varint(data, starts[i], end)
            if at < 0 or count > end - at:
                return i
            counts[i] = count
    return -1


def _element_spans(
    data: Any, starts: Any, lengths: Any, valid: Any, offsets: Any, begins: Any, ends: Any
) -> int:
    """Finds the elements of all lists. Returns an invalid row, or -1."""
    for i in range(len(starts)):
        if valid[i]:
            end = starts[i] + lengths[i]
            _, at = read_varint(data, starts[i], end)
            for j in range(offsets[i], offsets[i + 1]):
                size, at = read_varint(data, at, end)
                if at < 0 or size > end - at:
                    return i
                begins[j] = at
                at += size
                ends[j] = at
            if at != end:
                return i
    return -1


VARINT_PARTS: tuple[Callable[..., Any], ...] = (put_varint, read_varint)
"""Functions that loops of other modules call, for their :class:`~lakehouse.kernels.compiled.Loops`."""
VARINT_STAND_INS: dict[str, Any] = {"copy_bytes": copy_loop}
"""Stand-in for :func:`copy_bytes` in compiled loops."""

_UNIT = Loops(
    *VARINT_PARTS,
    _put_fixed,
    _put_sized,
    _put_elements,
    _get_fixed,
    _spans,
    copy_spans,
    _element_counts,
    _element_spans,
    **VARINT_STAND_INS,
)
put_fixed = Kernel(_UNIT, _put_fixed)
put_sized = Kernel(_UNIT, _put_sized)
put_elements = Kernel(_UNIT, _put_elements)
get_fixed = Kernel(_UNIT, _get_fixed)
spans = Kernel(_UNIT, _spans)
gather = Kernel(_UNIT, copy_spans)
element_counts = Kernel(_UNIT, _element_counts)
element_spans = Kernel(_UNIT, _element_spans)
