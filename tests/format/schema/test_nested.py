"""Nested arrays taken apart and put together."""

from __future__ import annotations

import io
import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.schema.nested import assembled, list_offsets, null_array, parts
from lakehouse.format.schema.types import DataType, arrow_type, children, with_ids
from tests.kit.type_strategies import nested_types, values_of

HIDDEN = pa.array([True, False])


def written(array: pa.Array) -> list[Any]:
    """The values after a round through a Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.table([array], schema=pa.schema([("c", array.type)])), file)
    found: list[Any] = pq.read_table(file).column(0).to_pylist()
    return found


@st.composite
def nested_arrays(draw: st.DrawFn) -> pa.Array:
    """A slice of a struct, list or map array."""
    kind: DataType = draw(nested_types.filter(children))
    values = draw(st.lists(values_of(kind), max_size=6))
    array = pa.array(values, arrow_type(with_ids(kind, itertools.count(1).__next__)))
    start = draw(st.integers(0, len(array)))
    return array.slice(start, draw(st.integers(0, len(array) - start)))


@given(nested_arrays())
def test_parts_put_together_are_the_array(array: pa.Array) -> None:
    """A slice of any nested array that is taken apart and put together has the same values and type."""
    again = assembled(array, array.type, parts(array))
    again.validate(full=True)
    assert again.type.equals(array.type, check_metadata=True)
    assert again.to_pylist() == array.to_pylist()
    assert written(again) == array.to_pylist()


@pytest.mark.parametrize(
    "array",
    [
        pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3]), mask=HIDDEN),
        pa.LargeListArray.from_arrays(pa.array([0, 2, 3], pa.int64()), pa.array([1, 2, 3]), mask=HIDDEN),
    ],
)
def test_elements_under_nulls_are_left_out(array: pa.Array) -> None:
    """Elements that a null list hides are no part of it."""
    assert parts(array)[0].to_pylist() == [3]
    assert list_offsets(array).tolist() == [0, 0, 1]
    assert assembled(array, pa.list_(pa.int64()), parts(array)).to_pylist() == [None, [3]]


def test_entries_under_nulls_are_left_out() -> None:
    """Entries that a null map hides are no part of it."""
    offsets, keys = pa.array([0, 2, 3], pa.int32()), pa.array([1, 2, 3])
    array = pa.MapArray.from_arrays(offsets, keys, pa.array(["a", "b", "c"]), mask=HIDDEN)
    assert [part.to_pylist() for part in parts(array)] == [[3], ["c"]]
    assert assembled(array, array.type, parts(array)).to_pylist() == [None, [(3, "c")]]


def test_parts_of_a_null_struct_are_null() -> None:
    """What stands under a null struct is not shown."""
    array = pa.StructArray.from_arrays([pa.array([1, 2])], names=["a"], mask=HIDDEN)
    assert parts(array)[0].to_pylist() == [None, 2]


def test_nothing_is_copied_without_need() -> None:
    """Parts of an array without hidden elements are its own memory."""
    values = pa.array(range(100))
    array = pa.ListArray.from_arrays(pa.array([0, 50, 100], pa.int32()), values).slice(1)
    inside = parts(array)[0]
    assert inside.buffers()[1].address == values.buffers()[1].address
    assert assembled(array, array.type, [inside]).values.buffers()[1].address == inside.buffers()[1].address


@given(nested_types, st.integers(0, 3))
def test_nulls_of_any_type(kind: DataType, rows: int) -> None:
    """Nulls of a type with required parts can be written, for nothing under them counts as null."""
    array = null_array(arrow_type(with_ids(kind, itertools.count(1).__next__)), rows)
    assert array.to_pylist() == [None] * rows
    assert written(array) == [None] * rows
