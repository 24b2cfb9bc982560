"""Codec of the content of an SSTable's data blocks: entries in key order, with restarts to search from.

::

    entry      kind u8, shared varint, unshared varint, size varint, key bytes[unshared], value bytes[size]
    block      entries | restarts u32 each | rows u32

A key is the first ``shared`` bytes of the key before it and ``unshared`` bytes of its own. Every
16th entry of a block, from the first on, is a restart: it shares nothing. The restarts at the
block's end are the offsets of those entries in the block; there are ceil(rows / 16) of them. Numbers
are little-endian.

Invariant: :func:`cut_blocks` accepts keys only that ascend, without equals. :func:`scan_blocks`
accepts whole entries with their restarts and nothing else; its memory is bounded by 16 times the
bytes it reads, since no key is longer than the bytes between two restarts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata.file_entry import RowKind
from lakehouse.format.sstable.loops import (
    VARINT_PARTS,
    VARINT_STAND_INS,
    Kernel,
    Packed,
    fresh_bytes,
    numbers,
    put_varint,
    read_only,
    read_varint,
    sums,
)
from lakehouse.kernels.arrays import I64, U8
from lakehouse.kernels.compiled import Loops
from lakehouse.kernels.copying import copy_bytes

__all__ = [
    "ENTRY_BYTES_MIN",
    "KIND_MAX",
    "RESTART_ROWS",
    "BlockEntries",
    "BlockError",
    "Blocks",
    "cut_blocks",
    "entry_keys",
    "scan_blocks",
    "trailer_size",
]

RESTART_ROWS = 16
"""Number of entries from one whose key is written in full to the next."""
ENTRY_BYTES_MIN = 4
"""Minimum bytes of an entry: a block has no more rows than a quarter of its bytes."""
KIND_MAX = int(max(RowKind))
"""Highest kind of an entry."""
_OFFSET_MAX = (1 << 31) - 1


class BlockError(ValueError):
    """Raised for bytes that are no block; ``block`` is its number among those given."""

    def __init__(self, block: int, what: str) -> None:
        super().__init__(what)
        self.block = block
        self.what = what


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The content of data blocks, one after another."""

    data: U8
    begins: I64
    """Offset of each block in ``data``, and the end of the last one."""
    firsts: I64
    """Number of each block's first row, and the number of all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEntries:
    """The rows of some blocks: offsets of their parts in the blocks' bytes."""

    kinds: U8
    shared: I64
    """Bytes that the key shares with the key before."""
    suffixes: I64
    """Offset of the key's own bytes; the value follows them."""
    values: I64
    """Offset of the value."""
    ends: I64
    """Offset behind the value."""
    lengths: I64
    """Bytes of the whole key."""


# --- loops --------------------------------------------------------------------------------


def _varint_size(value: int) -> int:
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


def trailer_size(rows: int) -> int:
    """Returns the bytes of the restarts and the count of rows that end a block."""
    return 4 * ((rows + RESTART_ROWS - 1) // RESTART_ROWS + 1)


def _same(a: Any, at: int, b: Any, to: int, n: int, most: int) -> int:
    """Returns the number of equal bytes at ``a[at]`` and ``b[to]``, up to ``most``, ``n`` of them known."""
    while n < most and a[at + n] == b[to + n]:
        n += 1
    return n


def _put_u32(out: Any, at: int, value: int) -> None:
    for i in range(4):
        out[at + i] = (value >> (8 * i)) & 255


def _get_u32(data: Any, at: int) -> int:
    return int(data[at]) | int(data[at + 1]) << 8 | int(data[at + 2]) << 16 | int(data[at + 3]) << 24


def _plan(
    keys: Any, offsets: Any, sizes: Any, target: int, shared: Any, places: Any, firsts: Any, begins: Any
) -> int:
    """Cuts rows into blocks: finds the shared bytes of each key and the places of entries and blocks.

    Returns the number of blocks, or -1 - i when the key of row i is not above the one before.
    """
    blocks = 0
    first = 0
    at = 0
    for i in range(len(sizes)):
        length = offsets[i + 1] - offsets[i]
        same = 0
        if i > 0:
            before = offsets[i] - offsets[i - 1]
            same = _same(keys, offsets[i - 1], keys, offsets[i], 0, min(before, length))
            if same == length or (same < before and keys[offsets[i - 1] + same] > keys[offsets[i] + same]):
                return -1 - i
        trailer = trailer_size(i - first)
        if i == 0 or at - begins[blocks - 1] + trailer >= target:
            if i > 0:
                at += trailer
            first = i
            firsts[blocks] = i
            begins[blocks] = at
            blocks += 1
        if (i - first) % RESTART_ROWS == 0:  # a restart has its whole key
            same = 0
        shared[i] = same
        places[i] = at
        own = length - same
        at += 1 + _varint_size(same) + _varint_size(own) + _varint_size(sizes[i]) + own + sizes[i]
    firsts[blocks] = len(sizes)
    begins[blocks] = at + trailer_size(len(sizes) - first)
    return blocks


def _write(
    keys: Any, offsets: Any, kinds: Any, values: Any, value_offsets: Any, shared: Any, places: Any,
    firsts: Any, out: Any,
) -> None:  # fmt: skip
    """Writes the blocks that were planned; ``firsts`` ends with the number of rows."""
    for block in range(len(firsts) - 1):
        first = firsts[block]
        end = firsts[block + 1]
        begin = places[first]
        at = begin
        for i in range(first, end):
            own = offsets[i + 1] - offsets[i] - shared[i]
            size = value_offsets[i + 1] - value_offsets[i]
            out[at] = kinds[i]
            at = put_varint(out, at + 1, shared[i])
            at = put_varint(out, at, own)
            at = put_varint(out, at, size)
            copy_bytes(out, at, keys, offsets[i] + shared[i], own)
            at += own
            copy_bytes(out, at, values, value_offsets[i], size)
            at += size
        for i in range(first, end, RESTART_ROWS):
            _put_u32(out, at, places[i] - begin)
            at += 4
        _put_u32(out, at, end - first)


def _scan(
    data: Any, begins: Any, firsts: Any, kinds: Any, shared: Any, suffixes: Any, values: Any, ends: Any,
    lengths: Any,
) -> int:  # fmt: skip
    """Finds the parts of every entry. Returns the number of an invalid block, or -1."""
    for block in range(len(begins) - 1):
        begin = begins[block]
        rows = firsts[block + 1] - firsts[block]
        restarts = begins[block + 1] - trailer_size(rows)
        if restarts < begin or _get_u32(data, begins[block + 1] - 4) != rows:
            return block
        at = begin
        before = 0
        for n in range(rows):
            i = firsts[block] + n
            if n % RESTART_ROWS == 0:
                if _get_u32(data, restarts + n // RESTART_ROWS * 4) != at - begin:
                    return block
                before = 0
            if at >= restarts or data[at] > KIND_MAX:
                return block
            kinds[i] = data[at]
            same, at = read_varint(data, at + 1, restarts)
            if at < 0 or same > before:
                return block
            own, at = read_varint(data, at, restarts)
            if at < 0:
                return block
            size, at = read_varint(data, at, restarts)
            if at < 0 or own > restarts - at or size > restarts - at - own:
                return block
            shared[i] = same
            suffixes[i] = at
            values[i] = at + own
            at += own + size
            ends[i] = at
            before = same + own
            lengths[i] = before
        if at != restarts:
            return block
    return -1


def _join(data: Any, shared: Any, suffixes: Any, values: Any, offsets: Any, out: Any) -> int:
    """Writes whole keys one after another. Returns a row whose key is not above the one before, or -1."""
    for i in range(len(shared)):
        at = offsets[i]
        same = shared[i]
        own = values[i] - suffixes[i]
        if i == 0:
            copy_bytes(out, at, data, suffixes[i], own)
        else:
            previous = offsets[i - 1]
            copy_bytes(out, at, out, previous, same)
            copy_bytes(out, at + same, data, suffixes[i], own)
            before = at - previous
            length = same + own
            same = _same(out, previous, out, at, same, min(before, length))
            if same == length or (same < before and out[previous + same] > out[at + same]):
                return i
    return -1


_UNIT = Loops(
    *VARINT_PARTS,
    _varint_size,
    trailer_size,
    _same,
    _put_u32,
    _get_u32,
    _plan,
    _write,
    _scan,
    _join,
    **VARINT_STAND_INS,
)
_plan_blocks = Kernel(_UNIT, _plan)
_write_blocks = Kernel(_UNIT, _write)
_scan_entries = Kernel(_UNIT, _scan)
_join_keys = Kernel(_UNIT, _join)


# --- blocks -------------------------------------------------------------------------------


def cut_blocks(
    keys: Packed,
    kinds: U8,
    values: Packed,
    block_bytes: int,
    *,
    first_row: int = 0,
    after: bytes | None = None,
) -> Blocks:
    """Encodes rows as the content of blocks: each but the last has ``block_bytes`` or up to a row more.

    Args:
        keys: keys of the rows.
        kinds: kinds of the rows.
        values: values of the rows.
        block_bytes: bytes of content at which a block ends.
        first_row: number of the first row, for errors.
        after: the key of the row before these; None = there is none.

    Raises:
        InvalidInputError: the keys do not ascend.
    """
    rows = len(kinds)
    shared, places = numbers(rows), numbers(rows)
    firsts, begins = numbers(rows + 1), numbers(rows + 1)
    sizes = values.lengths
    blocks = _plan_blocks(rows, keys.data, keys.offsets, sizes, block_bytes, shared, places, firsts, begins)
    if rows and after is not None and keys.one(0) <= after:
        blocks = -1
    if blocks < 0:
        row = first_row - 1 - blocks
        raise InvalidInputError(
            f"the key of row {row} is not above that of the row before it: sort rows by key, fold equal ones",
            row=row,
        )
    firsts, begins = firsts[: blocks + 1].copy(), begins[: blocks + 1].copy()
    out = fresh_bytes(int(begins[-1]) if rows else 0)
    _write_blocks(
        rows, keys.data, keys.offsets, kinds, values.data, values.offsets, shared, places, firsts, out
    )
    return Blocks(data=read_only(out), begins=begins, firsts=firsts)


def scan_blocks(blocks: Blocks) -> BlockEntries:
    """Decodes the entries of whole blocks.

    Raises:
        BlockError: one of them is no block of as many rows.
    """
    rows = int(blocks.firsts[-1])
    kinds = fresh_bytes(rows)
    shared, suffixes, values, ends, lengths = (numbers(rows) for _ in range(5))
    bad = _scan_entries(
        rows, blocks.data, blocks.begins, blocks.firsts, kinds, shared, suffixes, values, ends, lengths
    )
    if bad >= 0:
        raise BlockError(bad, "its entries do not fill it as its restarts and its number of rows say")
    return BlockEntries(
        kinds=kinds, shared=shared, suffixes=suffixes, values=values, ends=ends, lengths=lengths
    )


def entry_keys(blocks: Blocks, entries: BlockEntries) -> pa.Array:
    """Returns the keys, as a binary array.

    Raises:
        BlockError: they do not ascend.
    """
    rows = len(entries.kinds)
    offsets = sums(entries.lengths)
    if int(offsets[-1]) > _OFFSET_MAX:
        raise BlockError(0, "its keys and those of the blocks after it have more than 2 GiB")
    out = fresh_bytes(int(offsets[-1]))
    bad = _join_keys(rows, blocks.data, entries.shared, entries.suffixes, entries.values, offsets, out)
    if bad >= 0:
        block = int(np.searchsorted(blocks.firsts, bad, side="right")) - 1
        raise BlockError(block, "its keys do not ascend")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
