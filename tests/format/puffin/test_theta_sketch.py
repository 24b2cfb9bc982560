"""Theta sketches: the preamble, and the estimate it gives."""

from __future__ import annotations

import struct

import pytest

from lakehouse.errors import FormatError
from lakehouse.format.puffin.theta_sketch import ThetaSketch, number_of_properties
from tests.kit.blob_samples import flipped, spec_bytes

# Preambles that DataSketches 5.2 wrote for 0, 1, 2 and 100,000 distinct values.
EMPTY = bytes.fromhex("01030300001ecc93")
SINGLE = bytes.fromhex("01030300001acc93e56b61eec8804420")
EXACT = bytes.fromhex("02030300000acc93020000000000000015f97dcbbd86a105e56b61eec8804420")
ESTIMATE = bytes.fromhex("03030300000acc93bd10000000000000b45c206511599a05") + bytes(8 * 4285)


@pytest.mark.parametrize(
    ("blob", "entries", "estimate"),
    [(EMPTY, 0, 0), (SINGLE, 1, 1), (EXACT, 2, 2), (ESTIMATE, 4285, 97892)],
    ids=["empty", "single", "exact", "estimate"],
)
def test_sketches_give_their_estimate(blob: bytes, entries: int, estimate: int) -> None:
    """Entries divided by theta, which is 1 where it is not written."""
    sketch = ThetaSketch.parse(blob)
    assert sketch.entries == entries
    assert round(sketch.estimate) == estimate
    assert sketch.seed_hash == 0x93CC


def test_the_compressed_form_is_counted() -> None:
    """Serial version 4 packs its entries; their number and theta are read all the same."""
    packed = bytes([2, 4, 3, 20, 2, 8]) + struct.pack("<HQH", 0x93CC, 1 << 62, 300) + bytes(750)
    assert ThetaSketch.parse(packed).estimate == 600
    with pytest.raises(FormatError, match="another size"):
        ThetaSketch.parse(packed[:-1])


@pytest.mark.parametrize("blob", [EMPTY, SINGLE, EXACT], ids=["empty", "single", "exact"])
def test_damage_is_refused_or_harmless(blob: bytes) -> None:
    """A flipped bit or a missing byte gives an error or a number that is not negative."""
    damaged = [flipped(blob, bit) for bit in range(8 * len(blob))] + [
        blob[:size] for size in range(len(blob))
    ]
    refused = 0
    for one in damaged:
        try:
            assert ThetaSketch.parse(one).estimate >= 0
        except FormatError:
            refused += 1
    assert refused > len(blob)


@pytest.mark.parametrize(
    ("properties", "ndv"), [({"ndv": "42"}, 42), ({}, None), ({"ndv": "-1"}, None), ({"ndv": "many"}, None)]
)
def test_the_number_of_distinct_values_is_a_property(properties: dict[str, str], ndv: int | None) -> None:
    """Iceberg keeps the estimate beside the blob, so the blob need not be read for it."""
    assert number_of_properties(properties) == ndv


def test_the_specifications_example_is_read() -> None:
    """The sketch of the specification is of two values."""
    assert ThetaSketch.parse(spec_bytes("deletion-vector.md", "theta-sketch")).estimate == 2
