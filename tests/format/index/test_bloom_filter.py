"""Single filters: sizes, hash counts and bits as upstream's library chooses them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.index.bloom import probe
from lakehouse.format.index.bloom_filter import (
    BLOCK_BYTES,
    Draws,
    block_count,
    build_filters,
    check_rate,
    draws_of,
)
from lakehouse.format.index.siphash import hash_values
from tests.kit.bloom_reference import bloom_filter, size_and_draws

RATES = st.sampled_from([1.0, 0.5, 0.1, 0.01, 0.001, 1e-6, 1e-12, 1e-40]) | st.floats(1e-9, 1)


def filter_of(values: set[bytes], rate: float) -> bytes:
    """One filter by the vectorised code."""
    hashes = hash_values(pa.array(sorted(values), pa.binary()))
    body, _ = build_filters(hashes, np.zeros(len(values), np.int64), np.array([len(values)]), rate)
    return body


@pytest.mark.parametrize(
    ("count", "plain", "sparse"),
    [
        (0, 0, 32),
        (1, 0, 32),
        (2, 9, 18),
        (3, 3, 13),
        (4, 2, 10),
        (5, 2, 8),
        (6, 59, None),
        (7, 50, None),
        (8, 44, None),
        (12, 29, None),
        (20, 17, None),
        (53, 6, None),
        (54, 13, None),
        (10240, 6, None),
    ],
)
def test_hash_counts_are_upstreams(count: int, plain: int, sparse: int | None) -> None:
    """At a rate of one in a hundred the counts are those that upstream's library has."""
    assert draws_of(block_count(count, 0.01), count) == Draws(plain=plain, sparse=sparse)


@pytest.mark.parametrize(("count", "blocks"), [(0, 1), (53, 1), (54, 2), (10240, 192)])
def test_sizes_are_upstreams(count: int, blocks: int) -> None:
    """At a rate of one in a hundred the sizes are those that upstream's library has."""
    assert block_count(count, 0.01) == blocks


@settings(max_examples=200)
@given(st.integers(0, 200_000) | st.integers(0, 60), RATES)
def test_sizes_and_counts_follow_the_specification(count: int, rate: float) -> None:
    """For any number of values and rate, sizes and counts are those of the plain description."""
    blocks = block_count(count, rate)
    draws = draws_of(blocks, count)
    assert (blocks, draws.plain, draws.sparse) == size_and_draws(count, rate)


def test_every_density_occurs() -> None:
    """Each of the densities from 8 to 32 is chosen for some size and count, or can be left out."""
    used = {draws_of(blocks, count).sparse for blocks in range(1, 80) for count in range(400)}
    assert {8, 9, 10, 13, 16, 18, 24, 32} <= used


def test_known_filters_are_upstreams() -> None:
    """Filters of known values have the bits that upstream's library sets."""
    y = "2464bf3cf2d412923b362a6f36e04756147984bcbc48e9dc45d4cc67865916b1"
    y += "b8cb6e8c78f38200cf9dd9bebcfeb7c4a8e0330c4367594bd93b7cb70c78861f"
    ab = "7319e82400302fbe4e54928bcf60c038cf5079d898450b48fb606cbb5072cdaa"
    ab += "f33c0a33c97458485e5604915f56765d4f9669683831dcc36b42a5e9c57c5a1b"
    assert filter_of({b"y"}, 0.01).hex() == y
    assert filter_of({b"a", b"b"}, 0.01).hex() == ab


@settings(max_examples=80, deadline=None)
@given(st.sets(st.binary(max_size=12), max_size=40), RATES)
def test_bits_follow_the_specification(values: set[bytes], rate: float) -> None:
    """A filter has the bits of the plain description, which sets them one by one."""
    assert filter_of(values, rate) == bloom_filter(values, rate)


def test_an_empty_filter_is_a_block_of_zeros() -> None:
    """Nothing sets no bit, and still has a block."""
    assert filter_of(set(), 0.01) == bytes(BLOCK_BYTES)
    assert not probe(bytes(BLOCK_BYTES), 0, pa.array([b"", b"a"])).any()


@settings(max_examples=60, deadline=None)
@given(st.sets(st.binary(max_size=12), max_size=300), RATES)
def test_what_is_in_a_filter_is_found(values: set[bytes], rate: float) -> None:
    """Every value of a filter is found in it, whatever the rate."""
    assert probe(filter_of(values, rate), len(values), pa.array(sorted(values), pa.binary())).all()


def test_what_is_not_in_a_filter_is_rarely_found() -> None:
    """Other values are found about as rarely as the rate says."""
    rate = 0.01
    body = filter_of({b"%d" % i for i in range(10_000)}, rate)
    found = probe(body, 10_000, pa.array([b"x%d" % i for i in range(50_000)]))
    assert 0.5 * rate < found.mean() < 2 * rate


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, float("nan")])
def test_rates_outside_their_range_are_refused(rate: float) -> None:
    """A false positive rate is above 0 and at most 1."""
    with pytest.raises(InvalidInputError, match="rate"):
        check_rate(rate)
