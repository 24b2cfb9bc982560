"""Codec of a node of an FST, format version 3.

A node is read backwards from its address, the position of its last byte. In file order::

    one transition, not final, output 0, to the node written just before
        [input]? state=11cccccc
    one transition, not final
        [output]? [delta] sizes [input]? state=10cccccc
    any other
        [final output]? [output n-1 .. 0]? [delta n-1 .. 0] [input n-1 .. 0]
        [table of 256 if n > 32] sizes [count if n = 0 or n > 63] state=0fnnnnnn

``cccccc`` is the input's place among the common bytes (1 to 63), or 0 when the input byte
is written out. ``f`` is 1 in a final node, ``nnnnnn`` is its number of transitions.
``sizes`` is delta size << 4 | output size; all numbers of a node have the same size, little
endian. A delta is the node's first byte minus the target's address, or 0 for target 0: the
final node without transitions, which is never written. The table gives the transition of an
input byte, 255 for none. A count byte of 1 means 256.

Invariant: ``decode_node`` accepts a node only if it lies behind the header and every target
lies before it, so following transitions always ends, whatever the bytes are.

These functions run interpreted and compiled (see :mod:`lakehouse.kernels.compiled`): outputs are
64-bit patterns, signed when compiled and unbounded when interpreted; callers mask them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = [
    "BAD_NODE",
    "HEADER_BYTES",
    "NODE_FUNCTIONS",
    "NODE_STAND_INS",
    "decode_node",
    "encode_node",
    "find_input",
    "transition",
]

HEADER_BYTES = 16
"""Bytes of format version and type, two u64, before the first node."""
BAD_NODE = 0
"""``kind`` of a decoded node whose bytes are invalid."""
_NEXT_NODE, _ONE_NODE, _ANY_NODE = 1, 2, 3

_COMMON_INPUTS = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""Input bytes with a short form, most frequent first; stored by place; never renumber."""
_COMMON_BYTE = b"\0" + _COMMON_INPUTS
_COMMON_PLACE = bytes(_COMMON_INPUTS.find(byte) + 1 for byte in range(256))
_TABLE_ABOVE = 32
"""Nodes with more transitions than this carry the table of 256."""
_COUNT_MAX = 63
"""Maximum number of transitions that the state byte can hold."""


def _read_uint(data: Any, pos: int, size: int) -> int:
    """Returns the little-endian number of ``size`` bytes at ``pos``."""
    value = 0
    for i in range(size - 1, -1, -1):
        value = value * 256 + data[pos + i]
    return value


def _write_uint(out: Any, pos: int, value: int, size: int) -> int:
    """Writes a little-endian number in ``size`` bytes; returns the position behind it."""
    for i in range(size):
        out[pos + i] = (value >> (8 * i)) & 255
    return pos + size


def _uint_size(value: int) -> int:
    """Returns the least number of bytes that hold the number, at least 1."""
    size = 1
    while size < 8 and value >> (8 * size):
        size += 1
    return size


def _delta_to(start: int, target: int) -> int:
    """Returns the delta by which a node that starts at ``start`` refers to the address ``target``."""
    return start - target if target else 0


def encode_node(
    out: Any, start: int, trans: Any, first: int, end: int, final: int, final_output: int, last: int
) -> int:
    """Writes a node at ``start``; returns the position behind it.

    ``trans`` holds the transitions ``first`` to ``end`` as (inputs, outputs, targets), and
    ``last`` is the address of the node written before. ``out`` must have room.
    """
    inputs, outputs, targets = trans
    if final or end - first != 1:
        return _encode_any(out, start, trans, first, end, final, final_output)
    pos = start
    byte = inputs[first]
    place = _COMMON_PLACE[byte]
    state = 0xC0
    if targets[first] != last or outputs[first]:
        state = 0x80
        output_size = 0
        if outputs[first]:
            output_size = _uint_size(outputs[first])
            pos = _write_uint(out, pos, outputs[first], output_size)
        delta = _delta_to(start, targets[first])
        delta_size = _uint_size(delta)
        pos = _write_uint(out, pos, delta, delta_size)
        out[pos] = delta_size << 4 | output_size
        pos += 1
    if not place:
        out[pos] = byte
        pos += 1
    out[pos] = state | place
    return pos + 1


def _encode_any(out: Any, start: int, trans: Any, first: int, end: int, final: int, final_output: int) -> int:
    """Writes a node in the general form; returns the position behind it."""
    inputs, outputs, targets = trans
    count = end - first
    delta_size = 0
    most = final_output
    for i in range(first, end):
        most = max(most, outputs[i])
        delta_size = max(delta_size, _uint_size(_delta_to(start, targets[i])))
    output_size = _uint_size(most) if most else 0
    pos = start
    if output_size:
        if final:
            pos = _write_uint(out, pos, final_output, output_size)
        for i in range(end - 1, first - 1, -1):
            pos = _write_uint(out, pos, outputs[i], output_size)
    for i in range(end - 1, first - 1, -1):
        pos = _write_uint(out, pos, _delta_to(start, targets[i]), delta_size)
    for i in range(end - 1, first - 1, -1):
        out[pos] = inputs[i]
        pos += 1
    if count > _TABLE_ABOVE:
        for i in range(256):
            out[pos + i] = 255
        for i in range(count):
            out[pos + inputs[first + i]] = i
        pos += 256
    out[pos] = delta_size << 4 | output_size
    pos += 1
    state = 0x40 if final else 0
    if 1 <= count <= _COUNT_MAX:
        state |= count
    else:
        out[pos] = 1 if count == 256 else count
        pos += 1
    out[pos] = state
    return pos + 1


def decode_node(data: Any, addr: int) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    """Decodes a node: (kind, count, final, final output, a, b, c, delta size, output size, start).

    With one transition that is not final, a, b and c are its input, output and target;
    otherwise the places of the first input, delta and output. Ask :func:`transition`.
    """
    bad = (BAD_NODE, 0, 0, 0, 0, 0, 0, 0, 0, addr)
    if addr == 0:
        return (_ANY_NODE, 0, 1, 0, 0, 0, 0, 0, 0, 0)
    if addr < HEADER_BYTES:
        return bad
    state = _read_uint(data, addr, 1)
    if state < 0x80:
        return _decode_any(data, addr, state)
    pos = addr
    byte = _read_uint(_COMMON_BYTE, state & 63, 1)
    if state & 63 == 0:
        pos -= 1
        byte = _read_uint(data, pos, 1)
    if state >= 0xC0:
        # The target is the byte before: it needs a place of its own behind the header.
        if pos - 1 < HEADER_BYTES:
            return bad
        return (_NEXT_NODE, 1, 0, 0, byte, 0, pos - 1, 0, 0, pos)
    pos -= 1
    sizes = _read_uint(data, pos, 1)
    delta_size, output_size = sizes >> 4, sizes & 15
    start = pos - delta_size - output_size
    if start < HEADER_BYTES or not 1 <= delta_size <= 8 or output_size > 8:
        return bad
    delta = _read_uint(data, pos - delta_size, delta_size)
    if not 0 <= delta <= start - HEADER_BYTES:
        return bad
    output = _read_uint(data, start, output_size)
    target = start - delta if delta else 0
    return (_ONE_NODE, 1, 0, 0, byte, output, target, delta_size, output_size, start)


def _decode_any(data: Any, addr: int, state: int) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    """Decodes a node in general form whose state byte is at ``addr``."""
    bad = (BAD_NODE, 0, 0, 0, 0, 0, 0, 0, 0, addr)
    final = state >> 6
    count = state & 63
    pos = addr - 1
    if count == 0:
        count = _read_uint(data, pos, 1)
        pos -= 1
        if count == 1:  # a count of 1 fits the state byte, so this stands for 256, which fits no byte
            count = 256
    sizes = _read_uint(data, pos, 1)
    delta_size, output_size = sizes >> 4, sizes & 15
    if delta_size > 8 or output_size > 8 or (count and not delta_size):
        return bad
    table = 256 if count > _TABLE_ABOVE else 0
    first_input = pos - table - 1
    first_delta = first_input + 1 - count - delta_size
    first_output = first_delta + delta_size - count * delta_size - output_size
    start = first_output + output_size - (count + final) * output_size
    if start < HEADER_BYTES:
        return bad
    final_output = 0
    if final:
        final_output = _read_uint(data, start, output_size)
    return (
        _ANY_NODE, count, final, final_output,
        first_input, first_delta, first_output, delta_size, output_size, start,
    )  # fmt: skip


def transition(
    data: Any, node: tuple[int, int, int, int, int, int, int, int, int, int], i: int
) -> tuple[int, int, int]:
    """Returns input, output and target of a node's transition; target -1 when that is invalid."""
    kind, _, _, _, a, b, c, delta_size, output_size, start = node
    if kind != _ANY_NODE:
        return a, b, c
    byte = _read_uint(data, a - i, 1)
    delta = _read_uint(data, b - i * delta_size, delta_size)
    output = _read_uint(data, c - i * output_size, output_size)
    if not 0 <= delta <= start - HEADER_BYTES:
        return byte, output, -1
    return byte, output, start - delta if delta else 0


def find_input(data: Any, node: tuple[int, int, int, int, int, int, int, int, int, int], byte: int) -> int:
    """Returns the number of the transition with this input, or the count of transitions when none has it."""
    kind, count, _, _, a, _, _, _, _, _ = node
    if kind != _ANY_NODE:
        return 0 if a == byte else count
    if count > _TABLE_ABOVE:
        place = _read_uint(data, a + 1 + byte, 1)
        # The table may be damaged: its answer counts only if the transition has that input.
        return place if place < count and data[a - place] == byte else count
    for i in range(count):
        if data[a - i] == byte:
            return i
    return count


NODE_FUNCTIONS = (
    _read_uint, _write_uint, _uint_size, _delta_to, _encode_any, encode_node,
    _decode_any, decode_node, transition, find_input,
)  # fmt: skip
"""The functions of this module, callees first, for :class:`lakehouse.kernels.compiled.Loops`."""
NODE_STAND_INS: Mapping[str, Any] = {
    "_COMMON_BYTE": np.frombuffer(_COMMON_BYTE, np.uint8),
    "_COMMON_PLACE": np.frombuffer(_COMMON_PLACE, np.uint8),
}
"""Constants that take the place of those above in compiled functions."""
