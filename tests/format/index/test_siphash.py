"""SipHash of columns, compared with the reference description."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.index.siphash import hash_values
from tests.kit.bloom_reference import siphash
from tests.kit.sstable_samples import WAYS, looped

every_way = pytest.mark.parametrize("way", WAYS)
LONG = st.integers(0, 700).flatmap(lambda size: st.binary(min_size=size, max_size=size))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"", 0x299959FBE7898B4A), (b"a", 0x79FA18D2988F1E31), (b"host-0000", 0xE8C90BE09788B9D8)],
)
def test_hashes_are_upstreams(value: bytes, expected: int) -> None:
    """Known values have the hashes that upstream's filters were made with."""
    assert hash_values(pa.array([value])).tolist() == [expected]
    assert siphash(value) == expected


@every_way
@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.none() | st.binary(max_size=40) | LONG, max_size=40),
    skip=st.integers(0, 5),
    wide=st.booleans(),
)
def test_columns_hash_as_their_values_do(way: str, values: list[bytes | None], skip: int, wide: bool) -> None:
    """Each value of a column, of any lengths and from any offset, has its own hash."""
    array = pa.array(values, pa.large_binary() if wide else pa.binary())[skip:]
    with looped(way):
        hashes = hash_values(array).tolist()
    wanted = values[skip:]
    assert [h for h, v in zip(hashes, wanted, strict=True) if v is not None] == [
        siphash(v) for v in wanted if v is not None
    ]


@every_way
def test_columns_of_many_blocks_hash_alike(way: str) -> None:
    """Columns longer than what is hashed together hash value for value as short ones."""
    values = [b"%d" % (i * i) for i in range(40_000)]
    array = pa.array(values)
    with looped(way):
        hashes = hash_values(array)
    assert [int(hashes[i]) for i in range(0, 40_000, 997)] == [
        siphash(values[i]) for i in range(0, 40_000, 997)
    ]


def test_one_very_long_value_among_short_ones() -> None:
    """A value thousands of words long does not disturb its neighbours."""
    values = [b"a", bytes(range(256)) * 100, b"", b"b" * 9]
    assert hash_values(pa.array(values)).tolist() == [siphash(value) for value in values]
