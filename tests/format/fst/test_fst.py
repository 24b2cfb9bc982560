"""FSTs: the bytes of the fst crate, read safely whatever they are."""

from __future__ import annotations

import hashlib
import random
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.errors import (
    CorruptionError,
    FormatError,
    InvalidInputError,
    UnsupportedVersionError,
)
from lakehouse.format.fst.fst import Fst, build_fst, masked_crc32c
from lakehouse.format.fst.read import KeyRange
from lakehouse.kernels.compiled import numba_available
from tests.kit.blob_samples import flipped, spec_block, spec_bytes

MODES = [False, True] if numba_available() else [False]
each_mode = pytest.mark.parametrize("compiled", MODES, ids=lambda on: "compiled" if on else "interpreted")

alphabets = st.sampled_from([b"ab", b"abc\x00\xff", b"te/oas", bytes(range(256))])
keys_of = alphabets.flatmap(
    lambda letters: st.sets(st.lists(st.sampled_from(letters), max_size=8).map(bytes), max_size=60)
)
maps = keys_of.flatmap(
    lambda keys: st.tuples(
        st.just(sorted(keys)),
        st.lists(st.integers(0, 7) | st.integers(0, (1 << 63) - 1), min_size=len(keys), max_size=len(keys)),
    )
)
bounds = st.binary(max_size=4)
HEADER = struct.pack("<QQ", 3, 0)
TERMS = sorted(b"%d" % (number * 7919) for number in range(40))
SMALL = build_fst(TERMS, [18 << 32 | 8 + 18 * place for place in range(40)])


def within(keys: KeyRange, key: bytes) -> bool:
    """Whether a key is in a range, by definition."""
    above = key > keys.low or (key == keys.low and keys.low_closed)
    return above and (keys.high is None or key < keys.high or (key == keys.high and keys.high_closed))


@pytest.mark.parametrize(
    ("items", "body", "root", "checksum", "size"),
    [
        ({b"key1": 1, b"key2": 2}, "0100000032311102ddc2010111a7", 0x1D, "7f85496c", 50),
        ({}, "000000", 0x12, "546b2d0f", 39),
        ({b"": 5}, "05010040", 0x13, "76c7bc0b", 40),
        ({b"": 0}, "", 0, "c4679536", 36),
    ],
)
def test_small_maps_have_the_crates_bytes(
    items: dict[bytes, int], body: str, root: int, checksum: str, size: int
) -> None:
    """Four maps known byte for byte."""
    data = build_fst(list(items), list(items.values()))
    assert data == HEADER + bytes.fromhex(body) + struct.pack("<QQ", len(items), root) + bytes.fromhex(
        checksum
    )
    assert len(data) == size
    assert dict(Fst.parse(data).items()) == items


def _scattered(count: int) -> list[bytes]:
    return sorted({b"%x" % (number * 2654435761 % (1 << 32)) for number in range(count)})


def _suffixed(count: int) -> list[bytes]:
    return sorted({b"%d-%x-suffix" % (number * 7919 % 65521, number % 977) for number in range(count)})


@each_mode
@pytest.mark.parametrize(
    ("keys", "values", "digest"),
    [
        pytest.param(_scattered(20_000), "places", "cf7d60ec7b9ce8c4", id="scattered-places"),
        pytest.param(_scattered(20_000), "thirds", "c26d7733f18cab85", id="scattered-thirds"),
        pytest.param(_suffixed(30_000), "places", "4a5d65c33fbd0a4f", id="suffixed-places"),
        pytest.param(_suffixed(30_000), "thirds", "9e68f484a2971df2", id="suffixed-thirds"),
    ],
)
def test_large_maps_have_the_crates_bytes(
    keys: list[bytes], values: str, digest: str, compiled: bool
) -> None:
    """Maps large enough to push nodes out of the cache hash to what crate fst 0.4.7 wrote."""
    numbers = np.arange(len(keys))
    outputs = 18 << 32 | 8 + 18 * numbers if values == "places" else numbers % 3
    data = build_fst(keys, outputs, compiled=compiled)
    assert hashlib.sha256(data).hexdigest().startswith(digest)


@each_mode
@pytest.mark.parametrize("width", [1, 2, 32, 33, 63, 64, 255, 256])
@pytest.mark.parametrize("step", [0, 70_000])
def test_nodes_of_every_width_are_read_back(width: int, step: int, compiled: bool) -> None:
    """Counts in the state byte, in a byte of their own, 256, and the table above 32 transitions."""
    items = {b"": 3} | {bytes([byte]): byte * step for byte in range(width)}
    fst = Fst.parse(build_fst(list(items), list(items.values()), compiled=compiled))
    assert dict(fst.items()) == items
    found, values = fst.get_many([*items, bytes([width % 256, 0])], compiled=compiled)
    assert found.tolist() == [True] * (width + 1) + [False]
    assert values[:-1].tolist() == list(items.values())


@each_mode
@settings(deadline=None)
@given(entries=maps, others=st.lists(bounds, max_size=10))
@example(entries=([], []), others=[b""])
def test_a_map_is_what_went_in(
    entries: tuple[list[bytes], list[int]], others: list[bytes], compiled: bool
) -> None:
    """Every key has its value, no other key has one, and entries come in key order."""
    keys, values = entries
    data = build_fst(keys, values, compiled=compiled)
    assert data == build_fst(pa.array(keys, pa.binary()), np.array(values, np.int64), compiled=False)
    fst = Fst.parse(data)
    expected = dict(zip(keys, values, strict=True))
    assert len(fst) == len(keys)
    assert list(fst.items()) == list(expected.items())
    found, outputs = fst.get_many(keys + others, compiled=compiled)
    for key, there, output in zip(keys + others, found.tolist(), outputs.tolist(), strict=True):
        assert (output if there else None) == expected.get(key) == fst.get(key)
        assert (key in fst) == there


@each_mode
@settings(deadline=None)
@given(maps, bounds, st.booleans(), st.none() | bounds, st.booleans())
def test_a_range_is_what_lies_in_it(
    compiled: bool,
    entries: tuple[list[bytes], list[int]],
    low: bytes,
    low_closed: bool,
    high: bytes | None,
    high_closed: bool,
) -> None:
    """Ranges and prefixes give what a look at every key gives."""
    keys, values = entries
    fst = Fst.parse(build_fst(keys, values, compiled=False))
    for wanted in (
        KeyRange(low=low, low_closed=low_closed, high=high, high_closed=high_closed),
        KeyRange.with_prefix(low),
    ):
        expected = [v for k, v in zip(keys, values, strict=True) if within(wanted, k)]
        assert fst.values(wanted, compiled=compiled).tolist() == expected
    prefixed = [(k, v) for k, v in zip(keys, values, strict=True) if k.startswith(low)]
    assert list(fst.items(KeyRange.with_prefix(low))) == prefixed


@each_mode
def test_batches_are_bounded_and_complete(compiled: bool) -> None:
    """A large range comes in several batches, which together are the range."""
    keys = [b"%06d" % number for number in range(200_000)] if compiled else _scattered(5_000)
    fst = Fst.parse(build_fst(keys, np.arange(len(keys))))
    batches = list(fst.batches(compiled=compiled))
    assert len(batches) > 1
    assert max(len(batch.values) for batch in batches) <= 1 << 16
    assert [key for batch in batches for key in batch.keys.to_pylist()] == keys
    assert np.concatenate([batch.values for batch in batches]).tolist() == list(range(len(keys)))


@each_mode
def test_long_keys_need_no_recursion(compiled: bool) -> None:
    """A key of 100,000 bytes is built, found and listed."""
    key = b"a" * 100_000
    fst = Fst.parse(build_fst([key, key + b"b"], [7, 9], compiled=compiled))
    assert fst.get(key) == 7
    assert [(len(k), v) for k, v in fst.items()] == [(100_000, 7), (100_001, 9)]
    assert fst.values(KeyRange(low=key, low_closed=False), compiled=compiled).tolist() == [9]


@each_mode
@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"], [b"ab", b"a"], [b"", b""], [b"a", b""]])
def test_unsorted_keys_are_refused(keys: list[bytes], compiled: bool) -> None:
    """Keys that do not ascend are a mistake of the caller, which the error places."""
    with pytest.raises(InvalidInputError, match="key 1 of an FST"):
        build_fst(keys, [0, 1], compiled=compiled)


@pytest.mark.parametrize("values", [[-1], [1 << 63], [1, 2]])
def test_values_out_of_range_are_refused(values: list[int]) -> None:
    """Values are 63-bit numbers, one for each key."""
    with pytest.raises(InvalidInputError):
        build_fst([b"a"], values)


def test_null_keys_are_refused() -> None:
    """A null is no key."""
    with pytest.raises(InvalidInputError, match="null"):
        build_fst(pa.array([b"a", None]), [0, 1])


def test_values_of_64_bits_are_read() -> None:
    """A map another writer gave the largest values there are is read right, interpreted and compiled."""
    # Two keys, "a" and "b": output 2**64 - 1 and 2**63 on the transitions of one root.
    body = bytes.fromhex("0000000000000080" + "ffffffffffffffff" + "0000" + "6261" + "18" + "02")
    data = HEADER + body + struct.pack("<QQ", 2, 16 + len(body) - 1)
    fst = Fst.parse(data + struct.pack("<I", masked_crc32c(data)))
    assert dict(fst.items()) == {b"a": (1 << 64) - 1, b"b": 1 << 63}
    for compiled in MODES:
        assert fst.get_many([b"a", b"b"], compiled=compiled)[1].tolist() == [(1 << 64) - 1, 1 << 63]
        assert fst.values(compiled=compiled).tolist() == [(1 << 64) - 1, 1 << 63]


def test_every_flipped_bit_is_found() -> None:
    """With its checksum looked at, no damaged map is read."""
    for bit in range(8 * len(SMALL)):
        with pytest.raises(FormatError):
            Fst.parse(flipped(SMALL, bit))


def test_every_truncation_is_found() -> None:
    """A map without its last bytes is refused."""
    for size in range(len(SMALL)):
        with pytest.raises(FormatError):
            Fst.parse(SMALL[:size])


def read_all(data: bytes, *, compiled: bool) -> None:
    """Every kind of read, unchecked bytes."""
    fst = Fst.parse(data, verify_checksum=False)
    for batch in fst.batches(steps_max=100_000, compiled=compiled):
        assert batch.keys is not None
        keys = batch.keys.to_pylist()
        assert keys == sorted(set(keys))
    fst.get_many(TERMS, compiled=compiled)
    list(fst.batches(KeyRange(low=b"5", high=b"7"), steps_max=100_000, compiled=compiled))


@each_mode
def test_damage_without_a_checksum_is_survived(compiled: bool) -> None:
    """Flipped bits and random bytes among the nodes end in an error of ours or a sorted answer, soon."""
    chance = random.Random(7)
    damaged = [flipped(SMALL, bit) for bit in range(0, 8 * len(SMALL), 1 if compiled else 5)]
    for _ in range(1_000 if compiled else 200):
        copy = bytearray(SMALL)
        for _ in range(chance.randrange(1, 30)):
            copy[chance.randrange(16, len(SMALL) - 20)] = chance.randrange(256)
        if chance.random() < 0.5:
            copy[-20:-12] = struct.pack("<Q", 1 << 40)
        damaged.append(bytes(copy))
    outcomes = set()
    for data in damaged:
        try:
            read_all(data, compiled=compiled)
            outcomes.add("read")
        except FormatError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def doubling(levels: int) -> bytes:
    """A few bytes in which every node leads twice to the one before it: 2**levels keys."""
    body = bytearray()
    start = 16
    last = 0
    for _ in range(levels):
        at = start + len(body)
        delta = at - last if last else 0
        body += bytes([delta, delta]) + b"ba" + b"\x10" + b"\x02"
        last = start + len(body) - 1
    return HEADER + bytes(body) + struct.pack("<QQ", (1 << levels) - 1, last) + bytes(4)


@each_mode
def test_a_bomb_is_stopped(compiled: bool) -> None:
    """A small file that holds 2**40 keys is given up after the steps allowed, in bounded batches."""
    fst = Fst.parse(doubling(40), verify_checksum=False)
    batches = fst.batches(steps_max=200_000, compiled=compiled)
    sizes = []
    with pytest.raises(FormatError, match="stopped"):
        sizes.extend(len(batch.values) for batch in batches)
    assert max(sizes, default=0) <= 1 << 16


def test_more_keys_than_announced_is_damage() -> None:
    """A map that holds more keys than it says is refused."""
    data = bytearray(SMALL)
    data[-20:-12] = struct.pack("<Q", 39)
    fst = Fst.parse(bytes(data), verify_checksum=False)
    with pytest.raises(FormatError, match="more keys"):
        list(fst.items())


def test_a_root_elsewhere_is_damage() -> None:
    """The root ends where the number of keys begins, and a map says so before it is read."""
    data = bytearray(SMALL)
    data[-12:-4] = struct.pack("<Q", 30)
    with pytest.raises(CorruptionError, match="root"):
        Fst.parse(bytes(data), verify_checksum=False)


@pytest.mark.parametrize(
    ("version", "error"), [(4, UnsupportedVersionError), (2, FormatError), (0, FormatError)]
)
def test_other_versions_are_named(version: int, error: type[FormatError]) -> None:
    """A newer format asks for an upgrade, an older one for a new index."""
    with pytest.raises(error, match=rf"version {version}"):
        Fst.parse(struct.pack("<Q", version) + SMALL[8:])


@pytest.mark.parametrize(
    ("name", "items"),
    [
        ("two-keys", {b"key1": 1, b"key2": 2}),
        ("no-keys", {}),
        ("empty-key-5", {b"": 5}),
        ("empty-key-0", {b"": 0}),
    ],
)
def test_the_specifications_examples_come_back(name: str, items: dict[bytes, int]) -> None:
    """The bytes of the specification hold these entries, and these entries make those bytes."""
    data = spec_bytes("fst.md", name)
    assert dict(Fst.parse(data).items()) == items
    assert build_fst(list(items), list(items.values())) == data


def test_the_specification_lists_the_common_inputs() -> None:
    """Every byte with a short form is in the specification's list, at its place."""
    listed = spec_block("fst.md", "common-inputs").strip().encode()
    assert len(listed) == 63
    for place, byte in enumerate(listed, start=1):
        # A chain of two transitions: the second byte's node leads to the node just before.
        data = build_fst([b"\0" + bytes([byte]) + b"\0"], [0])
        assert 0xC0 | place in data[16:-20]
