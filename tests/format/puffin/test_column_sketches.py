"""Statistics files: what a footer says of columns, of our files and of others'."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import FormatError
from lakehouse.format.keys import encode_value
from lakehouse.format.puffin.builder import PuffinBuilder
from lakehouse.format.puffin.column_sketches import ColumnSketch, SketchedTable, encode_sketches, sketches_of
from lakehouse.format.puffin.footer import PuffinFooter
from lakehouse.format.puffin.theta_builder import ThetaBuilder
from lakehouse.format.puffin.theta_sketch import ThetaSketch
from lakehouse.format.schema.types import Primitive
from tests.kit.blob_samples import flipped, spec_bytes

COLUMN = ColumnSketch(
    field_id=1,
    ndv=2,
    rows=4,
    nulls=1,
    low=encode_value(1, Primitive("int64")),
    high=encode_value(2, Primitive("int64")),
)
TABLE = SketchedTable(snapshot=7, share=1.0, columns={1: COLUMN})

counts = st.none() | st.integers(0, 2**60)
columns = st.builds(
    ColumnSketch,
    field_id=st.just(1),
    ndv=counts,
    rows=counts,
    nulls=counts,
    low=st.none() | st.binary(max_size=8),
    high=st.none() | st.binary(max_size=8),
)


def footer_of(data: bytes) -> PuffinFooter:
    """The footer of a whole file."""
    footer = PuffinFooter.parse(data, len(data), strict=True)
    assert isinstance(footer, PuffinFooter)
    return footer


def test_the_example_of_the_specification_is_a_statistics_file() -> None:
    """The bytes in the specification decode to what the page says, and are made again of it."""
    data = spec_bytes("statistics.md", "statistics")
    sketch = ThetaBuilder()
    sketch.update(pa.array([1, 2, 2, None], pa.int64()))
    assert encode_sketches(TABLE, {1: sketch.encode()}, created_by="lakehouse") == data
    footer = footer_of(data)
    assert sketches_of(footer) == TABLE
    (blob,) = footer.blobs
    assert ThetaSketch.parse(data[blob.offset : blob.end]).estimate == 2


@given(columns, st.floats(0.001, 1.0), st.integers(1, 2**40))
def test_facts_survive_the_footer(column: ColumnSketch, share: float, snapshot: int) -> None:
    """What is known comes back, and what is not known stays so."""
    table = SketchedTable(snapshot=snapshot, share=share, columns={1: column})
    data = encode_sketches(table, {1: ThetaBuilder().encode()}, created_by="x")
    assert sketches_of(footer_of(data)) == table


@pytest.mark.parametrize(
    "told", [{"ndv": "-1"}, {"ndv": "1e9", "rows": "x", "nulls": "9" * 40}, {"low": "xyz", "high": "0"}]
)
def test_what_is_no_number_is_not_known(told: dict[str, Any]) -> None:
    """Properties of others that make no sense are passed over."""
    builder = PuffinBuilder(properties={"share": "nan"})
    chunks = builder.add("apache-datasketches-theta-v1", b"", fields=(3,), snapshot_id=5, properties=told)
    found = sketches_of(footer_of(b"".join([*chunks, builder.finish()])))
    assert found == SketchedTable(snapshot=5, share=1.0, columns={3: ColumnSketch(field_id=3, ndv=None)})


def test_damaged_files_are_refused_or_tell_something_else() -> None:
    """A flipped bit or a cut end is an error of the format, or facts that nobody relies upon."""
    data = spec_bytes("statistics.md", "statistics")
    for bit in range(8 * len(data)):
        damaged = flipped(data, bit)
        try:
            footer = PuffinFooter.parse(damaged, len(damaged), strict=True)
        except FormatError:
            continue
        assert isinstance(footer, PuffinFooter)
        assert sketches_of(footer).snapshot >= 0
