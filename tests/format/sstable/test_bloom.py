"""Hashes of keys, and the bloom filter over them."""

from __future__ import annotations

import random

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.sstable.bloom import build_bloom, parse_bloom
from lakehouse.format.sstable.key_hash import hash_keys
from lakehouse.format.sstable.loops import Packed, read_only
from tests.kit.sstable_samples import WAYS, looped

every_way = pytest.mark.parametrize("way", WAYS)


def packed(keys: list[bytes]) -> Packed:
    """The keys one after another."""
    data = np.frombuffer(b"".join(keys), np.uint8)
    return Packed(data=read_only(data), offsets=np.cumsum([0, *map(len, keys)]))


@every_way
def test_hashes_are_those_of_the_library(way: str) -> None:
    """Keys of every length hash as XXH3-64 does."""
    keys = [random.Random(size).randbytes(size) for size in (*range(300), *range(300))]
    with looped(way):
        assert hash_keys(packed(keys)).tolist() == [xxhash.xxh3_64_intdigest(key) for key in keys]


@every_way
@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=50))
def test_any_key_hashes_as_in_the_library(way: str, keys: list[bytes]) -> None:
    """Keys of any bytes hash as XXH3-64 does."""
    with looped(way):
        assert hash_keys(packed(keys)).tolist() == [xxhash.xxh3_64_intdigest(key) for key in keys]


@every_way
@pytest.mark.parametrize("bits_per_key", [1, 10, 64])
@settings(deadline=None)
@given(keys=st.lists(st.binary(max_size=12), max_size=40))
def test_no_key_is_denied(way: str, bits_per_key: int, keys: list[bytes]) -> None:
    """What was put in may be held, whatever the size of the filter."""
    with looped(way):
        bloom = parse_bloom(build_bloom(hash_keys(packed(keys)), bits_per_key))
    assert all(bloom.may_hold(key) for key in keys)


@pytest.mark.skipif(len(WAYS) < 2, reason="numba is not installed")
def test_both_ways_make_the_same_filter() -> None:
    """Compiled and interpreted loops set the same bits."""
    hashes = hash_keys(packed([b"%d" % at for at in range(5000)]))
    filters = set()
    for way in WAYS:
        with looped(way):
            filters.add(build_bloom(hashes, 10))
    assert len(filters) == 1


def test_ten_bits_a_key_let_one_in_a_hundred_pass() -> None:
    """Of keys that were not put in, less than 1.2 % pass, and seven bits are set for each key."""
    bloom = parse_bloom(build_bloom(hash_keys(packed([b"key %d" % at for at in range(20_000)])), 10))
    passed = sum(bloom.may_hold(b"other %d" % at) for at in range(20_000))
    assert bloom.hashes == 7
    assert passed / 20_000 < 0.012


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(15),
        bytes(16),
        b"\x07\0\0\0\0\0\0\0" + (64).to_bytes(8, "little") + bytes(7),
        b"\x07\0\0\0\0\0\0\0" + (60).to_bytes(8, "little") + bytes(8),
        b"\x07\0\0\0\x01\0\0\0" + (64).to_bytes(8, "little") + bytes(8),
        b"\xff\0\0\0\0\0\0\0" + (64).to_bytes(8, "little") + bytes(8),
        b"\x07\0\0\0\0\0\0\0" + (1 << 40).to_bytes(8, "little"),
    ],
)
def test_what_is_no_filter_is_refused(data: bytes) -> None:
    """Heads that do not fit their bytes are a ValueError."""
    with pytest.raises(ValueError):
        parse_bloom(data)
