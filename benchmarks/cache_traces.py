"""Made-up histories of cache use: what is asked for, in which order, and what it weighs.

Every trace is drawn from a fixed seed, so a hit ratio is a property of the policy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Trace", "mixed_traces", "uniform_traces"]

_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One history."""

    name: str
    keys: Sequence[int]
    weights: Sequence[int] | None = None
    """Bytes of each key's value; None: all the same."""
    capacity: int
    """What the cache holds: bytes, or values when all weigh the same."""


def uniform_traces(accesses: int, held: int) -> list[Trace]:
    """Skewed, scanning, looping and shifting use of values of one weight."""
    chance = np.random.default_rng(_SEED)
    keys = held * 10
    hot = _zipf(chance, accesses, keys, 0.9)
    scan = np.arange(keys, keys * 4)
    turns = accesses // (held * 5)
    scanned = [
        part
        for turn in range(turns)
        for part in (
            hot[turn * held * 5 : (turn + 1) * held * 5],
            np.roll(scan, -turn * held * 5 // 2)[: held * 5 // 2],
        )
    ]
    both = np.empty(accesses, dtype=np.int64)
    both[0::2] = hot[: (accesses + 1) // 2]
    both[1::2] = keys + np.arange(accesses // 2) % (held * 2)
    shifting = [_zipf(chance, accesses // 8, keys, 1.0) for _ in range(8)]
    found = {
        "zipf 0.8": _zipf(chance, accesses, keys, 0.8),
        "zipf 1.1": _zipf(chance, accesses, keys, 1.1),
        "zipf + scans": np.concatenate(scanned),
        "loop of 1.25": np.arange(accesses) % (held * 5 // 4),
        "loop of 2": np.arange(accesses) % (held * 2),
        "zipf + loop": both,
        "shifting zipf": np.concatenate(shifting),
    }
    return [Trace(name=name, keys=trace.tolist(), capacity=held) for name, trace in found.items()]


def mixed_traces(accesses: int) -> list[Trace]:
    """What the engine caches together, in 64 MiB: small metadata, blocks and manifests; then
    the same with scans over blocks."""
    chance = np.random.default_rng(_SEED)
    metadata, blocks, manifests, scanned = 100_000, 20_000, 300, 50_000
    weights = np.concatenate(
        [
            chance.integers(400, 2_000, metadata),
            chance.choice([4_096, 16_384, 65_536], blocks),
            chance.integers(1 << 20, 4 << 20, manifests),
            np.full(scanned, 32_768),
        ]
    )
    starts = np.cumsum([0, metadata, blocks, manifests])
    kinds = chance.choice(3, accesses, p=[0.6, 0.37, 0.03])
    drawn = [
        start + _zipf(chance, accesses, count, skew)
        for start, count, skew in zip(starts, (metadata, blocks, manifests), (0.9, 0.9, 0.7), strict=False)
    ]
    plain = np.choose(kinds, drawn)
    scan = starts[3] + np.arange(scanned)
    parts = [
        part
        for turn, at in enumerate(range(0, accesses, 20_000))
        for part in (plain[at : at + 20_000], np.roll(scan, -turn * 6_000)[:6_000])
    ]
    return [
        Trace(name=name, keys=trace.tolist(), weights=weights.tolist(), capacity=64 << 20)
        for name, trace in (("mixed weights", plain), ("mixed + scans", np.concatenate(parts)))
    ]


def _zipf(chance: np.random.Generator, count: int, keys: int, skew: float) -> np.ndarray:
    """Draws of keys whose shares fall with rank; which key has which rank is random."""
    shares = 1 / np.arange(1, keys + 1) ** skew
    return chance.permutation(keys)[chance.choice(keys, count, p=shares / shares.sum())]
