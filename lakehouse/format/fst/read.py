"""Reader of an FST's nodes: many lookups at once, and ordered scans between bounds.

Invariant: whatever the bytes are, these functions end, use memory in proportion to the
input and the batch asked for, and do not recurse. Targets lie before their node (the node
decoder refuses others), so a path is no longer than the file; a scan also refuses dead ends
and inputs out of order, so it emits keys in strictly ascending order and after few steps each;
and every scan has a budget of steps, because a small file of shared nodes can hold a great many
long keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError
from lakehouse.format.fst.node import (
    BAD_NODE,
    NODE_FUNCTIONS,
    NODE_STAND_INS,
    decode_node,
    find_input,
    transition,
)
from lakehouse.kernels.arrays import I64, U8, U64, Mask
from lakehouse.kernels.compiled import Loops

__all__ = ["ALL_KEYS", "STEPS_MAX", "FstEntries", "KeyRange", "look_up", "scan_nodes"]

STEPS_MAX = 1 << 28
"""Default maximum of transitions that one scan follows; they take seconds when compiled."""
_BATCH_KEYS = 1 << 16
_BATCH_KEYS_INTERPRETED = 1 << 10
_BATCH_BYTES = 1 << 20
_INTERPRETED_STEPS = 20_000
"""Steps a scan makes before it asks for compiled code."""
_BITS_64 = (1 << 64) - 1

_DONE, _FULL, _DEEP, _SPENT, _BAD = range(5)
"""Reasons why a scan stopped: past the bound, no room for the next key, path longer than the stacks,
out of steps, invalid nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Keys between two bounds, compared as bytes."""

    low: bytes = b""
    """Lower bound."""
    low_closed: bool = True
    """True if the lower bound is inclusive."""
    high: bytes | None = None
    """Upper bound; None = no bound."""
    high_closed: bool = True
    """True if the upper bound is inclusive."""

    @classmethod
    def with_prefix(cls, prefix: bytes) -> Self:
        """Returns the range of the keys that begin with ``prefix``."""
        stem = prefix.rstrip(b"\xff")
        high = stem[:-1] + bytes([stem[-1] + 1]) if stem else None
        return cls(low=prefix, high=high, high_closed=False)


ALL_KEYS = KeyRange()
"""Range of every key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FstEntries:
    """Keys and values of a map, in key order."""

    keys: pa.BinaryArray | None
    """Keys; None when only values were asked for."""
    values: U64


def _lookup_loop(data: Any, root: int, queries: Any, ends: Any, hits: Any, values: Any) -> int:
    """Looks every query up; returns -1, or the address of an invalid node."""
    start = 0
    for i in range(len(ends)):
        end = ends[i]
        addr = root
        total = 0
        while True:
            node = decode_node(data, addr)
            if node[0] == BAD_NODE:
                return addr
            if start == end:
                break
            at = find_input(data, node, queries[start])
            if at == node[1]:
                break
            _, output, target = transition(data, node, at)
            if target < 0:
                return addr
            total += output
            addr = target
            start += 1
        if start == end and node[2]:
            hits[i] = 1
            values[i] = total + node[3]
        start = end
    return -1


def _is_past(path: Any, length: int, high: Any, closed: int) -> bool:
    """Returns whether the first ``length`` bytes of ``path`` are past the upper bound."""
    for i in range(min(length, len(high))):
        if path[i] != high[i]:
            return bool(path[i] > high[i])
    return length > len(high) or (length == len(high) and not closed)


def _scan_loop(
    data: Any, stack: Any, path: Any, depth: int, bounded: int, high: Any, closed: int, steps: int, out: Any
) -> tuple[int, int, int, int, int]:
    """Continues a scan; returns (why it stopped, depth, steps left, keys emitted, their bytes).

    ``stack`` holds address, next transition (-1 = not entered yet) and sum of outputs per
    depth; ``path`` the input last followed at each depth; ``out`` the emitted keys' bytes
    (not emitted if empty), ends and values.
    """
    addrs, nexts, sums = stack
    keys, ends, values = out
    emitted = 0
    used = 0
    while depth >= 0:
        node = decode_node(data, addrs[depth])
        at = nexts[depth]
        if node[0] == BAD_NODE:
            return _BAD, depth, steps, emitted, used
        if at < 0:
            if node[2]:
                if bounded and _is_past(path, depth, high, closed):
                    return _DONE, -1, steps, emitted, used
                if emitted == len(ends) or (len(keys) and used + depth > len(keys)):
                    return _FULL, depth, steps, emitted, used
                if len(keys):
                    for i in range(depth):
                        keys[used + i] = path[i]
                    used += depth
                ends[emitted] = used
                values[emitted] = sums[depth] + node[3]
                emitted += 1
            elif node[1] == 0:  # a dead end, which no builder writes and which would cost steps for nothing
                return _BAD, depth, steps, emitted, used
            at = 0
        if at == node[1]:
            depth -= 1
            continue
        if depth + 1 == len(addrs):
            nexts[depth] = at
            return _DEEP, depth, steps, emitted, used
        if steps == 0:
            nexts[depth] = at
            return _SPENT, depth, steps, emitted, used
        steps -= 1
        byte, output, target = transition(data, node, at)
        if target < 0 or (at and byte <= path[depth]):
            return _BAD, depth, steps, emitted, used
        path[depth] = byte
        nexts[depth] = at + 1
        depth += 1
        addrs[depth] = target
        nexts[depth] = -1
        sums[depth] = sums[depth - 1] + output
    return _DONE, -1, steps, emitted, used


_LOOPS = Loops(*NODE_FUNCTIONS, _lookup_loop, _is_past, _scan_loop, **NODE_STAND_INS)


def look_up(
    data: bytes,
    root: int,
    queries: U8,
    ends: I64,
    *,
    compiled: bool | None = None,
) -> tuple[Mask, U64]:
    """Returns for each query whether it is a key, and its value or 0."""
    loops = _LOOPS.compiled_for(len(ends), wanted=compiled)
    if loops is None:
        flags, totals = [0] * len(ends), [0] * len(ends)
        bad = _lookup_loop(data, root, queries.tobytes(), ends.tolist(), flags, totals)
        results = np.array(flags, np.bool_), np.array([total & _BITS_64 for total in totals], np.uint64)
    else:
        hits, sums = np.zeros(len(ends), np.bool_), np.zeros(len(ends), np.int64)
        bad = loops._lookup_loop(np.frombuffer(data, np.uint8), root, queries, ends, hits, sums)
        results = hits, sums.view(np.uint64)
    if bad >= 0:
        raise _bad_node_error(bad)
    return results


def scan_nodes(
    data: bytes,
    root: int,
    keys: KeyRange,
    *,
    with_keys: bool,
    steps_max: int,
    expected: int,
    compiled: bool | None = None,
) -> Iterator[FstEntries]:
    """Yields the entries of a range, in batches of at most 65,536 keys and about 1 MiB.

    ``expected`` is the number of keys of the whole map; more is damage.
    """
    scan = _Scan(data, root, keys, with_keys=with_keys)
    early = 0
    if compiled or (compiled is None and _LOOPS.is_loaded):
        scan.compile(_LOOPS.compiled_for(expected, wanted=True))
    elif compiled is None:
        # A short range ends before compiled code is loaded.
        early = _INTERPRETED_STEPS
    while scan.depth >= 0:
        steps = min(steps_max, early or steps_max)
        out = scan.batch(expected)
        why, steps_left, emitted, used = scan.run(steps, out)
        steps_max -= steps - steps_left
        expected -= emitted
        if early:
            early -= steps - steps_left
            if not early:
                scan.compile(_LOOPS.compiled_for(expected))
        if why == _BAD:
            raise _bad_node_error(scan.addr)
        if expected < 0 or (why == _SPENT and steps_max == 0):
            raise FormatError(
                "this FST holds more keys than it says, or more and longer ones than a scan may visit; "
                "it was stopped: allow more steps if the index is known to be good",
                offset=scan.addr,
            )
        if why == _DEEP:
            scan.deepen()
        elif why == _FULL and not emitted:
            scan.batch_bytes = scan.depth
        if emitted:
            yield _entries(out, emitted, used)


class _Scan:
    """State of a scan, in lists while interpreted and in arrays once compiled."""

    __slots__ = (
        "batch_bytes",
        "batch_keys",
        "closed",
        "data",
        "depth",
        "high",
        "loop",
        "path",
        "stack",
        "stop",
    )

    def __init__(self, data: bytes, root: int, keys: KeyRange, *, with_keys: bool) -> None:
        room = len(keys.low) + 64
        self.data: Any = data
        self.high: Any = keys.high or b""
        self.stop, self.closed = keys.high is not None, keys.high_closed
        self.stack: Any = ([0] * room, [0] * room, [0] * room)
        self.path: Any = bytearray(room)
        self.loop: Any = _scan_loop
        self.batch_keys = _BATCH_KEYS_INTERPRETED
        self.batch_bytes = _BATCH_BYTES if with_keys else 0
        self.depth = _seek(data, root, keys, self.stack, self.path)

    @property
    def addr(self) -> int:
        """Address of the node at which the scan is."""
        return int(self.stack[0][self.depth])

    def compile(self, loops: Any) -> None:
        """Continues with compiled code, unless there is none."""
        if loops is not None:
            self.data, self.high = np.frombuffer(self.data, np.uint8), np.frombuffer(self.high, np.uint8)
            self.stack = tuple(np.array(numbers, np.int64) for numbers in self.stack)
            self.path = np.array(self.path)
            self.loop = loops._scan_loop
            self.batch_keys = _BATCH_KEYS

    def batch(self, expected: int) -> tuple[Any, Any, Any]:
        """Returns empty output: bytes, ends and values of keys."""
        # Room for one key more than expected, so that a surplus key is seen.
        count, size = min(self.batch_keys, expected + 1), self.batch_bytes
        if self.loop is _scan_loop:
            return bytearray(size), [0] * count, [0] * count
        return np.empty(size, np.uint8), np.empty(count, np.int64), np.empty(count, np.int64)

    def run(self, steps: int, out: tuple[Any, Any, Any]) -> tuple[int, int, int, int]:
        """Continues; returns (why it stopped, steps left, keys emitted, their bytes)."""
        why, self.depth, *rest = self.loop(
            self.data, self.stack, self.path, self.depth, self.stop, self.high, self.closed, steps, out
        )
        return why, rest[0], rest[1], rest[2]

    def deepen(self) -> None:
        """Doubles the room for the path."""
        self.stack = tuple(_doubled(numbers) for numbers in self.stack)
        self.path = _doubled(self.path)


def _bad_node_error(addr: int) -> CorruptionError:
    """Returns the error for an invalid node."""
    return CorruptionError(f"the FST has no valid node at byte {addr}: the index is damaged", offset=addr)


def _seek(data: bytes, root: int, keys: KeyRange, stack: Any, path: bytearray) -> int:
    """Puts the stack before the first key of a range; returns its depth."""
    addrs, nexts, sums = stack
    addrs[0] = root
    for depth, byte in enumerate(keys.low):
        node = decode_node(data, addrs[depth])
        if node[0] == BAD_NODE:
            raise _bad_node_error(addrs[depth])
        # From here on the path only takes inputs above this one.
        path[depth] = byte
        for at in range(node[1]):
            input_, output, target = transition(data, node, at)
            if target < 0:
                raise _bad_node_error(addrs[depth])
            if input_ >= byte:
                break
        else:
            at = node[1]
        nexts[depth] = at
        if at == node[1] or input_ != byte:
            return depth
        nexts[depth] = at + 1
        addrs[depth + 1] = target
        sums[depth + 1] = sums[depth] + output
    nexts[len(keys.low)] = -1 if keys.low_closed else 0
    return len(keys.low)


def _doubled(buffer: Any) -> Any:
    if isinstance(buffer, np.ndarray):
        return np.concatenate([buffer, np.zeros_like(buffer)])
    return buffer + type(buffer)(bytes(len(buffer)))


def _entries(out: tuple[Any, Any, Any], emitted: int, used: int) -> FstEntries:
    keys, ends, values = out
    if isinstance(values, np.ndarray):
        numbers = values[:emitted].view(np.uint64)
    else:
        numbers = np.array([value & _BITS_64 for value in values[:emitted]], np.uint64)
    if not len(keys):
        return FstEntries(keys=None, values=numbers)
    offsets = np.zeros(emitted + 1, np.int32)
    offsets[1:] = ends[:emitted]
    array = pa.Array.from_buffers(
        pa.binary(), emitted, [None, pa.py_buffer(offsets), pa.py_buffer(bytes(keys[:used]))]
    )
    return FstEntries(keys=array, values=numbers)
