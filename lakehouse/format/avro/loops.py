"""Loops over the bytes of Avro: blocks of a file, and a program's walk over the values of blocks.

Bytes are signed, so that one below zero is one whose number goes on.

Invariant: a loop reads no byte outside the bounds it is given and writes no number outside its streams,
whatever the bytes are; compiled code has no other protection. Each step consumes a byte, a number of a stream
or one of the items of no bytes that are allowed, so every walk ends.
"""

from __future__ import annotations

from typing import Any

from lakehouse.format.avro.operations import (
    BAD_BLOCK,
    BAD_BRANCH,
    BAD_COUNT,
    BAD_NUMBER,
    BAD_SIZE,
    BLOCKS,
    CUT,
    DONE,
    END,
    FILL,
    FIXED,
    FULL,
    JUMP,
    LAST_READING,
    LONG_NUMBER,
    NEXT,
    NUMBER,
    OPTIONAL,
    SIZED,
    UNFILLED,
    UNION,
    UNSYNCED,
    WIDTH,
)
from lakehouse.kernels.compiled import Loops
from lakehouse.kernels.copying import copy_loop, copy_spans

__all__ = ["LOOPS", "find_blocks", "read_number", "walk"]

_PAYS_FROM = 2_000_000
"""Bytes that, interpreted, take as long as loading compiled code."""
_FRAME = 2
_SYNC_BYTES = 16


def read_number(data: Any, at: int, end: int) -> Any:
    """Reads the number at ``at``; returns it and the place behind, or why there is none, which is below 0."""
    if at >= end:
        return 0, CUT
    byte = data[at]
    at += 1
    # The lowest bit says whether the number is below zero, so what follows has 63 bits and never overflows.
    sign = byte & 1
    value = (byte & 127) >> 1
    shift = 6
    while byte < 0:
        if at >= end:
            return 0, CUT
        byte = data[at]
        at += 1
        if shift == 62 and (byte < 0 or byte > 1):
            return 0, LONG_NUMBER
        value |= (byte & 127) << shift
        shift += 7
    if sign:
        value = -value - 1
    return value, at


def find_blocks(data: Any, at: int, sync: Any, blocks: Any) -> Any:
    """Writes where the content of each block begins and ends and its number of entries, three numbers each.

    Returns the number of blocks, or why they are none, which is below 0, and the place behind the last sound
    one.
    """
    end = len(data)
    found = 0
    while at < end:
        first = at
        count, at = read_number(data, at, end)
        if at < 0:
            return at, first
        size, at = read_number(data, at, end)
        if at < 0:
            return at, first
        if count < 0 or size < 0 or size > end - at - _SYNC_BYTES:
            return BAD_BLOCK, first
        blocks[found] = at
        blocks[found + 1] = at + size
        blocks[found + 2] = count
        found += 3
        at += size
        for i in range(_SYNC_BYTES):
            if data[at + i] != sync[i]:
                return UNSYNCED, first
        at += _SYNC_BYTES
    return found // 3, at


def walk(
    data: Any,
    code: Any,
    blocks: Any,
    arena: Any,
    heads: Any,
    limits: Any,
    saved: Any,
    frames: Any,
    state: Any,
) -> int:
    """Walks over the entries of blocks and fills streams, from where ``state`` says.

    Args:
        data: bytes, signed.
        code: instructions of the program.
        blocks: where each block begins and ends and its number of entries, one after another.
        arena: numbers of all streams.
        heads: where each stream's next number belongs.
        limits: where the room of each stream ends.
        saved: room for a copy of ``heads``; afterwards those before the entry in which the walk ended.
        frames: room for two numbers for each array or map within another.
        state: number of the block, entries of it that are left, where the next one begins, and items of no
            bytes that are still allowed; afterwards where the walk ended.

    Returns:
        DONE, FULL if a stream has no room, or why the bytes are none of that schema.
    """
    block, left, at, spare = state[0], state[1], state[2], state[3]
    end = 0
    if block >= 0:
        end = blocks[3 * block + 1]
    while True:
        state[0], state[1], state[2], state[3] = block, left, at, spare
        if left == 0:
            if at != end:
                return UNFILLED
            block += 1
            if 3 * block >= len(blocks):
                return DONE
            at, end, left = blocks[3 * block], blocks[3 * block + 1], blocks[3 * block + 2]
            continue
        for stream in range(len(heads)):
            saved[stream] = heads[stream]
        ended, after, spare = _walk_entry(data, at, end, code, arena, heads, limits, frames, spare)
        if ended != DONE:
            return int(ended)
        if after == at:
            spare -= 1
            if spare < 0:
                return BAD_COUNT
        at = after
        left -= 1


def _walk_entry(
    data: Any, at: int, end: int, code: Any, arena: Any, heads: Any, limits: Any, frames: Any, spare: int
) -> Any:
    """Walks over one entry; returns how that ended, the place behind it, and what is left of ``spare``."""
    pc, top = 0, -_FRAME
    while True:
        operation, stream, b, c = code[pc], code[pc + 1], code[pc + 2], code[pc + 3]
        pc += WIDTH
        number = 0
        if operation <= LAST_READING:
            if at < end and data[at] >= 0:  # of one byte, as most are, and without a call
                number = data[at]
                number = (number >> 1) ^ -(number & 1)
                at += 1
            else:
                number, at = read_number(data, at, end)
                if at < 0:
                    return at, 0, 0
        if operation == NUMBER:
            if number < b or number > c:
                return BAD_NUMBER, 0, 0
        elif operation == SIZED:
            if number < 0 or number > end - at:
                return BAD_SIZE, 0, 0
            if stream >= 0:
                head = heads[stream]
                if head == limits[stream]:
                    return FULL, 0, 0
                arena[head] = at
                heads[stream] = head + 1
                stream += 1
            at += number
        elif operation == OPTIONAL:
            if number < 0 or number > 1:
                return BAD_BRANCH, 0, 0
            if number != b:
                pc = c
            number = 1 if number == b else 0
        elif operation == NEXT:
            if frames[top] == 0:
                at, spare = _next_block(data, at, end, frames, top, stream < 0, c, spare)
                if at < 0:
                    return at, 0, 0
            if frames[top] > 0:
                frames[top] -= 1
                continue
            number = frames[top + 1]
            top, pc = top - _FRAME, b
        elif operation == JUMP:
            pc = b
        elif operation == BLOCKS:
            top += _FRAME
            frames[top], frames[top + 1] = 0, 0
        elif operation == FIXED:
            if b > end - at:
                return CUT, 0, 0
            number = at
            at += b
        elif operation == UNION:
            if number < 0 or number >= b:
                return BAD_BRANCH, 0, 0
            pc += WIDTH * number
        elif operation != FILL:
            return (DONE, at, spare) if operation == END else (BAD_BRANCH, 0, 0)
        if stream >= 0:
            head = heads[stream]
            if head == limits[stream]:
                return FULL, 0, 0
            arena[head] = number
            heads[stream] = head + 1


def _next_block(
    data: Any, at: int, end: int, frames: Any, top: int, passes: bool, least: int, spare: int
) -> Any:
    """Reads the number of items of an array's next block, 0 for the last one, into its frame.

    Returns the place behind it, or why there is none, which is below 0, and what is left of ``spare``.
    """
    while True:
        count, at = read_number(data, at, end)
        if at < 0:
            return at, 0
        if count < 0:
            size, at = read_number(data, at, end)
            if at < 0:
                return at, 0
            if size < 0 or size > end - at:
                return BAD_SIZE, 0
            if passes:
                at += size
                continue
            # The least number has no opposite when compiled, and stays below zero.
            count = -count
        if count < 0 or count > (spare if least == 0 else (end - at) // least):
            return BAD_COUNT, 0
        if least == 0:
            spare -= count
        frames[top] = count
        frames[top + 1] += count
        return at, spare


LOOPS = Loops(
    read_number,
    find_blocks,
    _next_block,
    _walk_entry,
    walk,
    copy_spans,
    pays_from=_PAYS_FROM,
    adds_up=True,
    copy_bytes=copy_loop,
)
"""The loops of this module, compiled as one unit; each is an attribute under its name."""
