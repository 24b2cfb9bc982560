"""Bloom filters bit by bit, as the specification tells them: what the vectorised code is compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["bloom_filter", "segment_sets", "siphash", "size_and_draws"]

MASK = (1 << 64) - 1
OPERATORS = (  # noqa: SIM905 - a table is easier to compare with the specification
    "8 && 9 &&|&& 10 &|&& 11 |&|&& 12 |&& 13 &||&& 14 ||&& 15 |||&& 16 & 17 &&&|& 18 &&|& 19 |&&|& 20 &|& "
    "21 &|&|& 22 |&|& 23 ||&|& 24 |& 25 &&||& 26 &||& 27 |&||& 28 ||& 29 &|||& 30 |||& 31 ||||&"
).split()
DENSITIES = {**dict(zip(map(int, OPERATORS[::2]), OPERATORS[1::2], strict=True)), 32: ""}
WORK = dict(zip(range(8, 33), map(int, "3656465626564656365646561"), strict=True))


def rotated(value: int, bits: int) -> int:
    """A 64-bit word, rotated left."""
    return (value << bits | value >> (64 - bits)) & MASK


def siphash(value: bytes) -> int:
    """SipHash-1-3 of a value with its length before it."""
    key0, key1 = 0, 42 << 56
    v = [
        key0 ^ 0x736F6D6570736575,
        key1 ^ 0x646F72616E646F6D,
        key0 ^ 0x6C7967656E657261,
        key1 ^ 0x7465646279746573,
    ]

    def sip_round() -> None:
        v[0] = (v[0] + v[1]) & MASK
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] = (v[2] + v[3]) & MASK
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)

    message = len(value).to_bytes(8, "little") + value
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 255])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        sip_round()
        v[0] ^= word
    v[2] ^= 255
    for _ in range(3):
        sip_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def size_and_draws(values: int, rate: float) -> tuple[int, int, int | None]:
    """Blocks, plain hashes and sparse target of a filter."""
    ln2 = math.log(2.0)
    bits = max(512, 8 * math.ceil(values * math.log(rate) / (-8 * ln2 * ln2)))
    words = -(-bits // 64)
    blocks = -(-words // 8)

    def alike(target: int) -> float:
        return math.log(1 - target / 64) / math.log(63 / 64)

    per_block = values / blocks
    wanted = math.inf if per_block == 0 else 512 / per_block * ln2
    total = int(min(max(wanted, 1), 8 * alike(32)))
    hashes, target = total, 0
    for t, work in WORK.items():
        exact = total - 8 * alike(t)
        rest = int(exact + math.copysign(0.5, exact))
        if rest >= 0 and rest + work < hashes + target:
            hashes, target = rest, t
    return blocks, hashes, target or None


def bloom_filter(values: set[bytes], rate: float) -> bytes:
    """The filter of a set of values."""
    blocks, hashes, target = size_and_draws(len(values), rate)
    words = [0] * (8 * blocks)
    for value in values:
        h1 = siphash(value)
        h2 = (h1 >> 32) * 0x517CC1B727220A95 & MASK
        for _ in range(hashes):
            block = (h1 >> 32) * blocks >> 32
            h1 = rotated((h1 + h2) & MASK, 5)
            bit = h1 & 511
            words[8 * block + bit // 64] |= 1 << bit % 64
        if target:
            block = (h1 >> 32) * blocks >> 32
            lanes = []
            for _ in range(4):
                h1 = rotated((h1 + h2) & MASK, 5)
                lanes.append(h1)
            for half in (0, 4):
                lanes = [(lane + 4 * h2) & MASK for lane in lanes]
                drawn = lanes
                for operator in DENSITIES[target]:
                    lanes = [(lane + 4 * h2) & MASK for lane in lanes]
                    pairs = zip(drawn, lanes, strict=True)
                    drawn = [a & b if operator == "&" else a | b for a, b in pairs]
                for lane in range(4):
                    words[8 * block + half + lane] |= drawn[lane]
    return b"".join(word.to_bytes(8, "little") for word in words)


def segment_sets(rows: Sequence[bytes | Sequence[bytes | None] | None], size: int) -> list[set[bytes]]:
    """The distinct values of each segment of rows that have one value or many."""
    sets: list[set[bytes]] = [set() for _ in range(-(-len(rows) // size))]
    for number, row in enumerate(rows):
        many = [row] if isinstance(row, bytes) or row is None else row
        sets[number // size].update(value for value in many if value is not None)
    return sets
