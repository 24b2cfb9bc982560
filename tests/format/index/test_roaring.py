"""Roaring bitmaps: every library's bytes, and nothing read that is not one."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.index.roaring import EMPTY, encode_many, encode_one, read_bitmap, union_many
from lakehouse.kernels.arrays import U32
from tests.kit.blob_samples import flipped

pyroaring = pytest.importorskip("pyroaring")

ALL = 1 << 32
"""Above every number."""


def numbers(*parts: object) -> U32:
    """Ascending numbers of ranges and lists."""
    return np.unique(np.concatenate([np.array(list(part), np.uint32) for part in parts]))  # type: ignore[call-overload]


stretches = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.sampled_from([1, 2, 3, 70, 4096, 4097, 9000, 70000])), max_size=6
).map(lambda spans: numbers([], *(range(start, start + size) for start, size in spans)))
scattered = st.sets(st.integers(0, ALL - 1), max_size=300).map(lambda found: numbers(sorted(found)))
bitmaps = stretches | scattered

EXAMPLES = {
    "empty": numbers([]),
    "one": numbers([0]),
    "few": numbers([1, 5, 9, 70_000, 4_000_000_000]),
    "full array": numbers(range(0, 2 * 4096, 2)),
    "bitmap": numbers(range(0, 2 * 4097, 2)),
    "run": numbers(range(100, 60_000)),
    "mixed": numbers(range(10), range(65_536, 131_072), range(200_000, 300_000, 3)),
}


def test_the_empty_and_the_smallest_bitmap() -> None:
    """Nothing takes 8 bytes, the number 0 takes 18."""
    assert encode_one(EXAMPLES["empty"]) == EMPTY == bytes.fromhex("3a30000000000000")
    assert encode_one(EXAMPLES["one"]).hex() == "3a30000001000000" + "00000000" + "10000000" + "0000"


@settings(deadline=None)
@given(bitmaps)
def test_bytes_are_every_librarys(values: U32) -> None:
    """Without runs and with them, the bytes are those of the reference library."""
    reference = pyroaring.BitMap(values)
    reference.shrink_to_fit()
    plain = encode_one(values)
    assert read_bitmap(plain, below=ALL)[0].tolist() == values.tolist()
    reference.run_optimize()
    assert encode_one(values, runs=True) == reference.serialize()
    # Runs are all that the reference may choose differently by itself.
    assert pyroaring.BitMap.deserialize(plain) == reference
    assert plain[:4] == struct.pack("<I", 12346)


@settings(deadline=None)
@given(bitmaps, st.booleans(), st.binary(max_size=3), st.binary(max_size=3))
def test_a_bitmap_is_read_out_of_its_surroundings(
    values: U32, runs: bool, before: bytes, behind: bytes
) -> None:
    """A bitmap knows where it ends, so others can follow it."""
    data = encode_one(values, runs=runs)
    found, stop = read_bitmap(before + data + behind, len(before), below=ALL)
    assert found.tolist() == values.tolist()
    assert stop == len(before) + len(data)


@settings(deadline=None)
@given(st.lists(bitmaps, max_size=6))
def test_many_at_once_are_each_alone(groups: list[U32]) -> None:
    """Bitmaps built together are those built one by one, and their union is everybody's numbers."""
    out, stops = encode_many(
        np.concatenate([numbers([]), *groups]), np.cumsum([len(group) for group in groups], dtype=np.int64)
    )
    starts = np.concatenate([[0], stops[:-1]]).astype(np.int64)[: len(stops)]
    for group, start, stop in zip(groups, starts.tolist(), stops.tolist(), strict=True):
        assert out[start:stop].tobytes() == encode_one(group)
    small = [group[group < 1 << 20] for group in groups]
    out, stops = encode_many(
        np.concatenate([numbers([]), *small]), np.cumsum([len(group) for group in small], dtype=np.int64)
    )
    starts = np.concatenate([[0], stops[:-1]]).astype(np.int64)[: len(stops)]
    found = union_many(out.tobytes(), starts, stops - starts, below=1 << 20, numbers_max=1 << 30)
    assert found.tolist() == numbers([], *small).tolist()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("runs", [False, True])
def test_every_flipped_bit_and_truncation_is_survived(name: str, runs: bool) -> None:
    """Damage is refused, or gives ascending numbers that can be; what is cut off is always refused."""
    data = encode_one(EXAMPLES[name], runs=runs)
    where, below = np.array([0]), int(EXAMPLES[name].max(initial=0)) + 1
    for bit in range(8 * min(len(data), 64)):
        damaged = flipped(data, bit)
        try:
            found, _ = read_bitmap(damaged, below=below)
            assert (np.diff(found.astype(np.int64)) > 0).all()
            assert len(found) == 0 or found[-1] < below
            if below < 1 << 20:
                union_many(damaged, where, np.array([len(data)]), below=below, numbers_max=1 << 20)
        except CorruptionError:
            pass
    for size in range(len(data)) if len(data) < 300 else range(0, len(data), 97):
        with pytest.raises(CorruptionError):
            read_bitmap(data[:size], below=below)


@pytest.mark.parametrize("name", ["few", "run", "mixed"])
def test_numbers_that_cannot_be_are_damage(name: str) -> None:
    """No number reaches the bound the reader was given, read alone or with others."""
    values = EXAMPLES[name]
    data = encode_one(values, runs=True)
    top = int(values[-1])
    with pytest.raises(CorruptionError):
        read_bitmap(data, below=top)
    if top < 1 << 20:
        with pytest.raises(CorruptionError):
            union_many(data, np.array([0]), np.array([len(data)]), below=top, numbers_max=1 << 20)


def test_a_bomb_is_not_unfolded() -> None:
    """A few bytes that stand for the whole number range are refused by what their header says."""
    count = 1 << 16
    head = struct.pack("<HH", 12347, count - 1) + b"\xff" * (count // 8)
    cards = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(count))
    first = len(head) + len(cards) + 4 * count
    offsets = b"".join(struct.pack("<I", first + 6 * place) for place in range(count))
    data = head + cards + offsets + struct.pack("<HHH", 1, 0, 0xFFFF) * count
    with pytest.raises(CorruptionError, match="more numbers"):
        read_bitmap(data, below=1 << 24)


def test_many_small_bombs_are_given_up() -> None:
    """Bitmaps that each unfold to the allowed range are stopped by their sum."""
    one = encode_one(numbers(range(60_000)), runs=True)
    starts = np.arange(100) * len(one)
    with pytest.raises(FormatError, match="given up"):
        union_many(one * 100, starts, np.full(100, len(one)), below=1 << 16, numbers_max=1_000_000)


def test_a_bitmap_must_fill_its_size() -> None:
    """Bytes left over behind a bitmap are damage, whichever way it is read."""
    for values in (EXAMPLES["few"], EXAMPLES["empty"], EXAMPLES["one"]):
        data = encode_one(values) + b"\0\0"
        with pytest.raises(CorruptionError):
            union_many(data, np.array([0]), np.array([len(data)]), below=1 << 24, numbers_max=1 << 20)


def test_a_place_outside_the_bytes_is_a_mistake() -> None:
    """Bitmaps are read where there are bytes."""
    with pytest.raises(InvalidInputError, match="outside"):
        union_many(EMPTY, np.array([1]), np.array([8]), below=10, numbers_max=10)
