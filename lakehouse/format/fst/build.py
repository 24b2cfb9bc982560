"""Builder of FSTs, format version 3, that writes the very bytes of the ``fst`` crate.

Invariant: the bytes depend on the keys and values alone, and equal what the crate writes,
because the two things that decide them are the same: where outputs are pushed (towards the
root, by the minimum of what shares a transition) and which nodes are written twice. The
crate does not keep every node to compare with; it keeps a cache of 10,000 buckets of two,
found by an FNV-1a style hash, the more recently used one first. A smaller or larger cache
gives another, equally valid file.

The states on the path of the last key are open; those below what a new key shares with it
can gain no more transitions and are frozen, deepest first. Transitions of open states lie
in one pool: a state's own begin where its parent's end, so freezing cuts the pool short.
A cached node is not kept as a value: it is compared with the bytes written at its address.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lakehouse.errors import InvalidInputError
from lakehouse.format.fst.node import (
    HEADER_BYTES,
    NODE_FUNCTIONS,
    NODE_STAND_INS,
    decode_node,
    encode_node,
    transition,
)
from lakehouse.kernels.arrays import I64, U8
from lakehouse.kernels.compiled import Loops

__all__ = ["build_nodes"]

_BUCKETS = 10_000
"""Buckets of the node cache, two cells each; decides which nodes are written twice."""
_FNV_START = 14695981039346656037 - (1 << 64)
"""FNV-1a offset basis, as the signed number of the same bits."""
_FNV_PRIME = 1099511628211
_WRAP_MODULO = (1 << 64) % _BUCKETS
_NO_ADDRESS = 1
"""No node ends here: stands for "nothing written yet"."""
_TRANSITION_BYTES = 8 + 8 + 1
"""Maximum bytes of a transition: output, delta, input."""
_NODE_BYTES = 8 + 256 + 3
"""Maximum bytes of the rest of a node: final output, table, sizes, count, state."""


def _mixed(state: int, item: int) -> int:
    """Takes one FNV step in unsigned arithmetic."""
    return ((state ^ item) * _FNV_PRIME) & 0xFFFF_FFFF_FFFF_FFFF


def _mixed_signed(state: int, item: int) -> int:
    """Takes one FNV step in wrapping signed arithmetic, with the same bits."""
    return (state ^ item) * _FNV_PRIME


def _grown(buffer: Any, size: int) -> Any:
    """Extends a list or bytearray to a length of at least ``size``, doubling it."""
    buffer.extend(bytes(max(size, 2 * len(buffer)) - len(buffer)))
    return buffer


def _grown_array(buffer: Any, size: int) -> Any:
    """Returns a copy of an array with a length of at least ``size``, doubling it."""
    wider = np.empty(max(size, 2 * len(buffer)), buffer.dtype)
    # A loop: assigning a slice would compile numba's error messages, for seconds.
    for i in range(len(buffer)):
        wider[i] = buffer[i]
    return wider


def _hash_of(trans: Any, first: int, end: int, final: int, final_output: int) -> int:
    """Returns the cache's hash of a node."""
    inputs, outputs, targets = trans
    state = _mixed(_mixed(_FNV_START, final), final_output)
    for i in range(first, end):
        state = _mixed(_mixed(_mixed(state, inputs[i]), outputs[i]), targets[i])
    return state


def _bucket_of(state: int) -> int:
    """Returns the cache bucket of a hash: of its bits as an unsigned number, held as signed or not."""
    bucket = state % _BUCKETS  # a negative ``state`` is 2**64 too low, hence the modulo of that
    return bucket if state >= 0 else (bucket + _WRAP_MODULO) % _BUCKETS


def _is_written(out: Any, addr: int, trans: Any, first: int, end: int, final: int, final_output: int) -> bool:
    """Returns whether the node written at ``addr`` is this one."""
    inputs, outputs, targets = trans
    node = decode_node(out, addr)
    if node[1] != end - first or node[2] != final or node[3] != final_output:
        return False
    for i in range(end - first):
        byte, output, target = transition(out, node, i)
        if byte != inputs[first + i] or target != targets[first + i] or output != outputs[first + i]:
            return False
    return True


def _frozen(
    out: Any, pos: int, last: int, cells: Any, trans: Any, first: int, end: int, final: int, final_output: int
) -> Any:
    """Writes a node unless the cache has it: (out, its address, position behind all nodes, last written)."""
    # The final node without transitions and output is never written; its address is 0.
    if final and first == end and final_output == 0:
        return out, 0, pos, last
    state = _hash_of(trans, first, end, final, final_output)
    addrs, hashes = cells
    cell = 2 * _bucket_of(state)
    # Most nodes are new: the hashes tell so without a look at far-off bytes.
    for at in range(cell, cell + 2):
        addr = addrs[at]
        if addr and hashes[at] == state and _is_written(out, addr, trans, first, end, final, final_output):
            # The more recently used cell is the first of its bucket.
            addrs[at], hashes[at] = addrs[cell], hashes[cell]
            addrs[cell], hashes[cell] = addr, state
            return out, addr, pos, last
    room = pos + _NODE_BYTES + _TRANSITION_BYTES * (end - first)
    if room > len(out):
        out = _grown(out, room)
    pos = encode_node(out, pos, trans, first, end, final, final_output, last)
    addrs[cell + 1], hashes[cell + 1] = addrs[cell], hashes[cell]
    addrs[cell], hashes[cell] = pos - 1, state
    return out, pos - 1, pos, pos - 1


def _frozen_below(
    depth: int, out: Any, pos: int, last: int, cells: Any, states: Any, trans: Any, top: int, used: int
) -> Any:
    """Freezes the states below ``depth`` and closes its open transition: (out, pos, last, trans, used)."""
    finals, final_outputs, firsts, open_inputs, open_outputs = states
    inputs, outputs, targets = trans
    addr = 0
    while True:
        if open_inputs[top] >= 0:
            if used == len(inputs):
                inputs, outputs = _grown(inputs, used + 1), _grown(outputs, used + 1)
                targets = _grown(targets, used + 1)
            inputs[used] = open_inputs[top]
            outputs[used] = open_outputs[top]
            targets[used] = addr
            used += 1
            open_inputs[top] = -1
        trans = (inputs, outputs, targets)
        if top == depth:
            return out, pos, last, trans, used
        out, addr, pos, last = _frozen(
            out, pos, last, cells, trans, firsts[top], used, finals[top], final_outputs[top]
        )
        used = firsts[top]
        top -= 1


def _shared_prefix(data: Any, start: int, end: int, value: int, states: Any, outputs: Any, used: int) -> Any:
    """Returns the number of bytes that a key shares with the open path, and the rest of its value.

    Each shared transition keeps the part of its output that all its keys have; the rest moves
    below it.
    """
    finals, final_outputs, firsts, open_inputs, open_outputs = states
    depth = 0
    while depth < end - start and open_inputs[depth] == data[start + depth]:
        common = min(open_outputs[depth], value)
        rest = open_outputs[depth] - common
        open_outputs[depth] = common
        value -= common
        depth += 1
        if rest:
            if finals[depth]:
                final_outputs[depth] += rest
            deepest = open_inputs[depth] < 0
            for i in range(firsts[depth], used if deepest else firsts[depth + 1]):
                outputs[i] += rest
            if not deepest:
                open_outputs[depth] += rest
    return depth, value


def _add_path(data: Any, start: int, end: int, value: int, states: Any, top: int, used: int) -> int:
    """Opens states for a key's unshared bytes below ``top``; returns the new deepest state."""
    finals, final_outputs, firsts, open_inputs, open_outputs = states
    for i in range(start, end):
        open_inputs[top] = data[i]
        open_outputs[top] = value
        value = 0
        top += 1
        finals[top] = 0
        final_outputs[top] = 0
        firsts[top] = used
        open_inputs[top] = -1
    finals[top] = 1
    return top


def _build_loop(
    data: Any, ends: Any, values: Any, states: Any, trans: Any, cells: Any, out: Any, begin: Any
) -> Any:
    """Writes the nodes of all keys: (out, position behind the last node, root address, bad key or -1).

    ``begin`` is (first node's position, last node's address, depth of the root). As literals
    here they would make numba compile all that is called with them once more.
    """
    finals, final_outputs, firsts, open_inputs, _ = states
    pos, last, root = begin
    top = used = start = root
    for key in range(len(ends)):
        end = ends[key]
        if end == start and key == 0:  # the empty key, which has no path
            finals[0] = 1
            final_outputs[0] = values[0]
            continue
        depth, value = _shared_prefix(data, start, end, values[key], states, trans[1], used)
        if depth == end - start or open_inputs[depth] > data[start + depth]:
            return out, pos, 0, key
        out, pos, last, trans, used = _frozen_below(depth, out, pos, last, cells, states, trans, top, used)
        top = _add_path(data, start + depth, end, value, states, depth, used)
        start = end
    out, pos, last, trans, used = _frozen_below(root, out, pos, last, cells, states, trans, top, used)
    out, addr, pos, last = _frozen(out, pos, last, cells, trans, firsts[0], used, finals[0], final_outputs[0])
    return out, pos, addr, -1


_LOOPS = Loops(
    *NODE_FUNCTIONS, _hash_of, _bucket_of, _is_written, _frozen, _frozen_below, _shared_prefix, _add_path,
    _build_loop, adds_up=True, _mixed=_mixed_signed, _grown=_grown_array, **NODE_STAND_INS,
)  # fmt: skip


def build_nodes(
    data: U8,
    ends: I64,
    values: I64,
    *,
    compiled: bool | None = None,
) -> tuple[memoryview, int]:
    """Returns the nodes of a map, with room for the header before them, and the root's address.

    Args:
        data: the keys, one after another, in ascending byte order and each once.
        ends: offset behind each key.
        values: value of each key, not negative.
        compiled: see :meth:`lakehouse.kernels.compiled.Loops.compiled_for`.
    """
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    room = HEADER_BYTES + len(data) + 64
    begin = (HEADER_BYTES, _NO_ADDRESS, 0)
    loops = _LOOPS.compiled_for(len(ends), wanted=compiled)
    if loops is None:
        states = tuple([0] * (longest + 1) for _ in range(5))
        states[3][0] = -1
        trans: Any = ([0] * 256, [0] * 256, [0] * 256)
        cells: Any = ([0] * (2 * _BUCKETS), [0] * (2 * _BUCKETS))
        out, end, root, bad = _build_loop(
            data.tobytes(), ends.tolist(), values.tolist(), states, trans, cells, bytearray(room), begin
        )
    else:
        table = np.zeros((5, longest + 1), np.int64)
        table[3] = -1
        trans = tuple(np.zeros(256, np.int64) for _ in range(3))
        cells = np.zeros(2 * _BUCKETS, np.int64), np.zeros(2 * _BUCKETS, np.int64)
        out, end, root, bad = loops._build_loop(
            data, ends, values, tuple(table), trans, cells, np.zeros(room, np.uint8), begin
        )
    if bad >= 0:
        first = int(ends[bad - 1]) if bad else 0
        key = data[first : int(ends[bad])].tobytes()
        raise InvalidInputError(
            f"key {bad} of an FST, {key[:80]!r}, is not above the key before it: "
            "sort the keys by their bytes and give each once",
            index=int(bad),
        )
    return memoryview(out)[:end], int(root)
