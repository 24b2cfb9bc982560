"""Roaring bitmaps of 32-bit numbers in the portable serialisation, without and with run containers.

::

    u32  12346                          or  u16 12347, u16 containers - 1, run flags
    u32  containers                         (one bit per container, least significant first)
    per container  u16 key, u16 cardinality - 1
    per container  u32 offset           absent behind 12347 when there are fewer than 4
    containers, one after another

A container holds the numbers whose upper 16 bits are its key, by their lower 16 bits: up to
4,096 of them as an ascending u16 array, more as a bitmap of 8,192 bytes; with its run flag
set as u16 number of runs, then u16 start and u16 length - 1 of each. All is little endian.

Invariant: bitmaps without runs are byte for byte those that every Roaring library writes; a bitmap
that deviates from the format is refused, and none is expanded beyond the numbers that its reader
allows.
"""

from __future__ import annotations

import struct

import numpy as np

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.kernels.arrays import I64, U8, U32, Mask

__all__ = ["EMPTY", "encode_many", "encode_one", "read_bitmap", "union_many"]


_COOKIE = 12346
"""Cookie of bitmaps without run containers; stored."""
_COOKIE_RUNS = 12347
"""Cookie of bitmaps with run flags; stored."""
_ARRAY_MAX = 4096
"""Maximum numbers of an array container."""
_BITMAP_BYTES = 8192
"""Size of a bitmap container in bytes."""
_NO_OFFSETS_BELOW = 4
"""Number of containers below which a bitmap with run flags has no offsets."""
_CONTAINERS_MAX = 1 << 16
_MARKS_MAX = 1 << 26
_BITMAPS_TOGETHER = 1 << 15
"""Number of bitmaps read together; more use more memory and no less time."""
_HEADER = struct.Struct("<II")
_SINGLE_ARRAY = np.frombuffer(_HEADER.pack(_COOKIE, 1), np.uint8)
_SINGLE_BODY = 16
"""Offset of the numbers in a bitmap with one container."""
_SINGLE_OFFSET = np.frombuffer(struct.pack("<I", _SINGLE_BODY), np.uint8)
EMPTY = _HEADER.pack(_COOKIE, 0)
"""Encoding of the empty bitmap."""


def encode_many(values: U32, ends: I64) -> tuple[U8, I64]:
    """Encodes bitmaps without run containers: returns their bytes, joined, and the offset behind each.

    Args:
        values: the numbers of all bitmaps, ascending and distinct within each.
        ends: for each bitmap, the place behind its last number in ``values``.
    """
    owners = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    first, sizes = _containers(values, owners)
    of = owners[first]
    data_sizes = np.where(sizes <= _ARRAY_MAX, 2 * sizes, _BITMAP_BYTES)
    counts = np.bincount(of, minlength=len(ends))
    lengths = 8 + 8 * counts + np.bincount(of, data_sizes, len(ends)).astype(np.int64)
    stops = np.cumsum(lengths)
    starts = stops - lengths
    out = np.zeros(int(stops[-1]) if len(stops) else 0, np.uint8)
    _put(out, starts, np.full(len(ends), _COOKIE), 4)
    _put(out, starts + 4, counts, 4)
    # For each container its number in its bitmap, and the offset of its data there.
    leading = (np.cumsum(counts) - counts)[of]
    place = np.arange(len(first)) - leading
    before = np.cumsum(data_sizes) - data_sizes
    offsets = 8 + 8 * counts[of] + before - before[leading]
    _put(out, starts[of] + 8 + 4 * place, values[first] >> np.uint32(16), 2)
    _put(out, starts[of] + 10 + 4 * place, sizes - 1, 2)
    _put(out, starts[of] + 8 + 4 * counts[of] + 4 * place, offsets, 4)
    begin = starts[of] + offsets
    within = np.arange(len(values)) - np.repeat(first, sizes)
    is_array = np.repeat(sizes <= _ARRAY_MAX, sizes)
    _put(out, (np.repeat(begin, sizes) + 2 * within)[is_array], values[is_array], 2)
    for i in np.flatnonzero(sizes > _ARRAY_MAX).tolist():
        out[begin[i] : begin[i] + _BITMAP_BYTES] = _bits(values[first[i] : first[i] + sizes[i]])
    return out, stops


def encode_one(values: U32, *, runs: bool = False) -> bytes:
    """Encodes one bitmap of ascending, distinct numbers; ``runs`` allows run containers that are smaller."""
    first, sizes = _containers(values, np.zeros(len(values), np.int64))
    flags, bodies = [], []
    for start, size in zip(first.tolist(), sizes.tolist(), strict=True) if runs else ():
        numbers = values[start : start + size]
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        is_run = 2 + 4 * (len(breaks) + 1) < min(2 * size, _BITMAP_BYTES)
        flags.append(is_run)
        if is_run:
            begin = np.concatenate([[0], breaks])
            lengths = np.diff(begin, append=size) - 1
            pairs = np.stack([numbers[begin] & np.uint32(0xFFFF), lengths], axis=1)
            bodies.append(struct.pack("<H", len(begin)) + pairs.astype("<u2").tobytes())
        elif size <= _ARRAY_MAX:
            bodies.append((numbers & np.uint32(0xFFFF)).astype("<u2").tobytes())
        else:
            bodies.append(_bits(numbers).tobytes())
    if not any(flags):
        return encode_many(values, np.array([len(values)]))[0].tobytes()
    count = len(first)
    marks = np.packbits(np.array(flags), bitorder="little").tobytes()
    cards = np.stack([values[first] >> np.uint32(16), sizes - 1], axis=1).astype("<u2").tobytes()
    head = struct.pack("<HH", _COOKIE_RUNS, count - 1) + marks + cards
    if count >= _NO_OFFSETS_BELOW:
        lengths = np.array([len(body) for body in bodies])
        offsets = len(head) + 4 * count + np.cumsum(lengths) - lengths
        head += offsets.astype("<u4").tobytes()
    return head + b"".join(bodies)


def read_bitmap(
    data: bytes, start: int = 0, *, below: int, numbers_max: int = 1 << 32, what: str = "bitmap"
) -> tuple[U32, int]:
    """Reads the numbers of the bitmap at ``start``; returns also the offset behind it.

    Args:
        data: bytes that hold the bitmap; more may follow it.
        start: offset of its first byte.
        below: exclusive upper bound of the numbers; a bitmap beyond it is damaged.
        numbers_max: maximum number of its numbers; more are refused.
        what: name of the bitmap in errors.
    """
    reader = _Reader(data, start, what)
    keys, sizes, flags, offsets = reader.header()
    total = int(sizes.sum())
    if total > below:
        raise reader.damage_error("more numbers than there can be", start, f"at most {below}", total)
    if total > numbers_max:
        raise _too_many_error(start)
    body = reader.pos - start
    if not flags.any() and int(sizes.max(initial=0)) <= _ARRAY_MAX:
        parts = [reader.take(2 * total).view("<u2")]
        places = np.cumsum(2 * sizes) - 2 * sizes
    else:
        parts, places = [], np.empty(len(sizes), np.int64)
        for i, (size, is_run) in enumerate(zip(sizes.tolist(), flags.tolist(), strict=True)):
            places[i] = reader.pos - start - body
            parts.append(reader.container(size, is_run=is_run))
    if offsets is not None and not np.array_equal(offsets, body + places):
        raise reader.damage_error(
            "containers elsewhere than its offsets say", start, "one after another", "others"
        )
    values = np.concatenate([np.empty(0, np.uint32), *parts], dtype=np.uint32)
    values |= np.repeat(keys << np.uint32(16), sizes)
    if not bool((values[1:] > values[:-1]).all()):
        raise reader.damage_error("numbers out of order", start, "ascending numbers", "others")
    if total and int(values[-1]) >= below:
        raise reader.damage_error("a number that cannot be", start, f"below {below}", int(values[-1]))
    return values, reader.pos


def union_many(data: bytes, starts: I64, sizes: I64, *, below: int, numbers_max: int) -> U32:
    """Returns the numbers in any of many bitmaps, ascending.

    Bitmaps of one array container, which most are, are read all together.

    Args:
        data: bytes that hold the bitmaps.
        starts: offset of the first byte of each.
        sizes: bytes of each; the bitmap must fill them.
        below: exclusive upper bound of the numbers.
        numbers_max: maximum of the numbers that the bitmaps hold together; more are refused.
    """
    raw = np.frombuffer(data, np.uint8)
    if len(starts) and (int(starts.min()) < 0 or int((starts + sizes).max()) > len(raw)):
        raise InvalidInputError(f"a bitmap lies outside the {len(raw)} bytes given")
    union = _Union(below)
    for first in range(0, len(starts), _BITMAPS_TOGETHER):
        batch = slice(first, first + _BITMAPS_TOGETHER)
        plain = _is_plain(raw, starts[batch], sizes[batch])
        values = _read_plain(raw, starts[batch][plain], sizes[batch][plain], below)
        union.add(values)
        numbers_max -= len(values)
        for start, size in zip(starts[batch][~plain].tolist(), sizes[batch][~plain].tolist(), strict=True):
            values, stop = read_bitmap(data, start, below=below, numbers_max=max(numbers_max, 0))
            if stop != start + size:
                raise _damage_error("bitmap", start, "another size", start, size, stop - start)
            union.add(values)
            numbers_max -= len(values)
    return union.numbers()


class _Union:
    """A union of numbers, whose memory is bounded or grows with the numbers added."""

    __slots__ = ("_marks", "_parts")

    def __init__(self, below: int) -> None:
        # A mark for each possible number is quickest, but a blob of a few bytes may claim four billion.
        self._marks = np.zeros(below, np.bool_) if below <= _MARKS_MAX else None
        self._parts = [np.empty(0, np.uint32)]

    def add(self, values: U32) -> None:
        """Adds the numbers of some bitmaps."""
        if self._marks is not None:
            self._marks[values] = True
        else:
            self._parts.append(values)

    def numbers(self) -> U32:
        """Returns all numbers, ascending and distinct."""
        if self._marks is not None:
            return np.flatnonzero(self._marks).astype(np.uint32)
        return np.unique(np.concatenate(self._parts, dtype=np.uint32))


def _too_many_error(start: int) -> FormatError:
    return FormatError(
        f"bitmaps hold so many numbers that reading them was given up at byte {start}: "
        "allow more if the index is known to be good",
        offset=start,
    )


def _is_plain(raw: U8, starts: I64, sizes: I64) -> Mask:
    """Returns for each bitmap whether it is one array container that fills its size."""
    plain = sizes > _SINGLE_BODY
    heads = raw[starts[plain][:, None] + np.arange(_SINGLE_BODY)]
    cards = (heads[:, 10].astype(np.int64) | heads[:, 11].astype(np.int64) << 8) + 1
    plain[plain] = (
        (heads[:, :8] == _SINGLE_ARRAY).all(axis=1)
        & (heads[:, 12:16] == _SINGLE_OFFSET).all(axis=1)
        & (cards <= _ARRAY_MAX)
        & (sizes[plain] == _SINGLE_BODY + 2 * cards)
    )
    return plain


def _read_plain(raw: U8, starts: I64, sizes: I64, below: int) -> U32:
    """Reads the numbers of bitmaps of one array container, joined in the order of the bitmaps."""
    counts = (sizes - _SINGLE_BODY) // 2
    ends = np.cumsum(counts)
    within = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    at = np.repeat(starts + _SINGLE_BODY, counts) + 2 * within
    lower = raw[at].astype(np.uint32) | raw[at + 1].astype(np.uint32) << np.uint32(8)
    keys = raw[starts + 8].astype(np.uint32) | raw[starts + 9].astype(np.uint32) << np.uint32(8)
    values: U32 = lower | np.repeat(keys << np.uint32(16), counts)
    wrong = values >= below
    wrong[1:] |= (within[1:] > 0) & (lower[1:] <= lower[:-1])
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        start = int(starts[np.searchsorted(ends, i, side="right")])
        what = "a number out of order or out of range"
        raise _damage_error("bitmap", start, what, start, f"ascending, below {below}", int(values[i]))
    return values


class _Reader:
    """A cursor over the bytes of a bitmap, whose errors name the place."""

    __slots__ = ("data", "pos", "start", "what")

    def __init__(self, data: bytes, start: int, what: str) -> None:
        self.data, self.start, self.pos, self.what = data, start, start, what

    def header(self) -> tuple[U32, I64, Mask, U32 | None]:
        """Reads keys, cardinalities and run flags of the containers, and their offsets if it has them."""
        cookie = int.from_bytes(self.take(4).tobytes(), "little")
        if cookie == _COOKIE:
            count = int.from_bytes(self.take(4).tobytes(), "little")
            flags = np.zeros(0, np.bool_)
        elif cookie & 0xFFFF == _COOKIE_RUNS:
            count = (cookie >> 16) + 1
            flags = np.unpackbits(self.take((count + 7) // 8), bitorder="little")[:count].astype(np.bool_)
        else:
            raise self.damage_error("no known cookie", self.start, f"{_COOKIE} or {_COOKIE_RUNS}", cookie)
        if count > _CONTAINERS_MAX:
            raise self.damage_error(
                "too many containers", self.start + 4, f"at most {_CONTAINERS_MAX}", count
            )
        pairs = self.take(4 * count).view("<u2").astype(np.uint32).reshape(count, 2)
        has_offsets = cookie == _COOKIE or count >= _NO_OFFSETS_BELOW
        offsets = self.take(4 * count).view("<u4") if has_offsets else None
        flags = flags if len(flags) else np.zeros(count, np.bool_)
        return pairs[:, 0], pairs[:, 1].astype(np.int64) + 1, flags, offsets

    def container(self, size: int, *, is_run: bool) -> U32:
        """Reads the lower halves of the next container's ``size`` numbers."""
        at = self.pos
        if is_run:
            (count,) = self.take(2).view("<u2").tolist()
            runs = self.take(4 * count).view("<u2").astype(np.int64).reshape(count, 2)
            lengths = runs[:, 1] + 1
            if int(lengths.sum()) != size or int(runs.sum(axis=1).max(initial=0)) > 0xFFFF:
                raise self.damage_error("runs of another length", at, size, int(lengths.sum()))
            ends = np.cumsum(lengths)
            return (np.arange(size) + np.repeat(runs[:, 0] - ends + lengths, lengths)).astype(np.uint32)
        if size <= _ARRAY_MAX:
            return self.take(2 * size).view("<u2").astype(np.uint32)
        numbers = np.flatnonzero(np.unpackbits(self.take(_BITMAP_BYTES), bitorder="little"))
        if len(numbers) != size:
            raise self.damage_error("another number of bits", at, size, len(numbers))
        return numbers.astype(np.uint32)

    def take(self, size: int) -> U8:
        """Reads the next ``size`` bytes."""
        if size > len(self.data) - self.pos:
            raise self.damage_error("no end", self.pos, f"{size} more bytes", len(self.data) - self.pos)
        taken = np.frombuffer(self.data, np.uint8, size, self.pos)
        self.pos += size
        return taken

    def damage_error(self, what: str, offset: int, expected: object, got: object) -> CorruptionError:
        """Returns the error for damage."""
        return _damage_error(self.what, self.start, what, offset, expected, got)


def _damage_error(
    name: str, start: int, what: str, offset: int, expected: object, got: object
) -> CorruptionError:
    return CorruptionError(
        f"{name} at byte {start} has {what} at byte {offset}: expected {expected}, got {got}",
        offset=offset,
        expected=expected,
        got=got,
    )


def _containers(values: U32, owners: I64) -> tuple[I64, I64]:
    """Returns for each container its first place in ``values``, and its number of values."""
    upper = values >> np.uint32(16)
    fresh = np.ones(len(values), np.bool_)
    fresh[1:] = (owners[1:] != owners[:-1]) | (upper[1:] != upper[:-1])
    first = np.flatnonzero(fresh)
    return first, np.diff(first, append=len(values))


def _bits(numbers: U32) -> U8:
    """Returns a bitmap container of the numbers' lower halves."""
    marks = np.zeros(8 * _BITMAP_BYTES, np.bool_)
    marks[numbers & np.uint32(0xFFFF)] = True
    return np.packbits(marks, bitorder="little")


def _put(out: U8, at: I64, numbers: I64 | U32, width: int) -> None:
    """Writes the low ``width`` bytes of each number at its place, little endian."""
    for k in range(width):
        out[at + k] = numbers >> 8 * k & 0xFF
