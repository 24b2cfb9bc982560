"""Casts that change no value: what comes out equals what went in, or the first misfit is pointed at."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.format.schema import arrow_type, parse_type
from lakehouse.storage.rows.lossless_casts import Misfit, fit_values, may_fit, pieces, plain

MOMENT = dt.datetime(2026, 1, 31, 12, 0, 0, 5)


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([1, None], pa.uint64()), "tinyint", [1, None]),
        (pa.array([1.0, -0.0, None]), "int", [1, 0, None]),
        (pa.array([decimal.Decimal("2.00")]), "int", [2]),
        (pa.array([2**53, -(2**53)]), "double", [2.0**53, -(2.0**53)]),
        (pa.array([1.5, 0.1, float("inf")]), "float", [1.5, float(np.float32(0.1)), float("inf")]),
        (pa.array(np.array([1.5], np.float16)), "double", [1.5]),
        (pa.array([5, 99]), "decimal(4,2)", [decimal.Decimal("5.00"), decimal.Decimal("99.00")]),
        (pa.array([2**64 - 1], pa.uint64()), "decimal(38,18)", [decimal.Decimal(2**64 - 1)]),
        (pa.array([decimal.Decimal("1.500")]), "decimal(3,2)", [decimal.Decimal("1.50")]),
        (pa.array([b"abc"], pa.binary(3)), "binary", [b"abc"]),
        (pa.array([dt.datetime(2026, 1, 31)]), "date", [dt.date(2026, 1, 31)]),
        (pa.array([MOMENT]), "timestamp", [MOMENT.replace(tzinfo=dt.UTC)]),
        (pa.array([MOMENT], pa.timestamp("ns")), "timestamp_ntz", [MOMENT]),
        (pa.array([dt.time(1, 2, 3)], pa.time32("s")), "time", [dt.time(1, 2, 3)]),
        (pa.array([None, None], pa.string()), "int", [None, None]),
    ],
)
def test_casts(array: pa.Array, kind: str, values: list[Any]) -> None:
    """What the type can hold exactly is cast to it, and a double to the nearest float."""
    found = fit_values(plain(array), parse_type(kind))
    assert found.type == arrow_type(parse_type(kind))
    assert found.to_pylist() == values


def test_values_of_the_type_are_passed_on() -> None:
    """An array that has the type already is not copied."""
    array = pa.array([1, 2])
    assert fit_values(plain(array), parse_type("bigint")) is array


@pytest.mark.parametrize(
    ("array", "kind", "index", "why"),
    [
        (pa.array([None, 1, 128]), "tinyint", 2, "does not fit tinyint: whole numbers from -128 to 127"),
        (
            pa.array([1.0, 2.5, 1e300]),
            "int",
            1,
            "does not fit int: whole numbers from -2147483648 to 2147483647",
        ),
        (pa.array([1.0, None, 1e300]), "float", 2, "does not fit float: whole numbers must be held exactly"),
        (
            pa.array([2**53, 2**53 + 1]),
            "double",
            1,
            "does not fit double: whole numbers must be held exactly",
        ),
        (pa.array([dt.datetime(2026, 1, 1), MOMENT]), "date", 1, "does not fit date: it is not midnight"),
        (pa.array([0, 1_001], pa.timestamp("ns")), "timestamp_ntz", 1, "it counts microseconds, in 64 bits"),
        (pa.array([99, 100]), "decimal(4,2)", 1, "at most 2 digits before the point and 2 behind it"),
        (pa.array([None, "1"]), "int", 1, "is string, and the column int: cast it"),
        (pa.array([None, None, True]), "double", 2, "is bool, and the column double: cast it"),
    ],
)
def test_the_first_value_that_does_not_fit(array: pa.Array, kind: str, index: int, why: str) -> None:
    """A misfit has the place of the first value that is at fault, never of a null, and the reason."""
    found = fit_values(plain(array), parse_type(kind))
    assert isinstance(found, Misfit)
    assert found.index == index
    assert why in found.why


@given(st.integers(0, 99), st.sets(st.integers(0, 99)))
def test_a_misfit_is_the_first_wherever_it_stands(first: int, others: set[int]) -> None:
    """However many values do not fit, the first of them is found."""
    values = np.zeros(100, np.int64)
    values[[first, *(place for place in others if place > first)]] = 1_000
    found = fit_values(pa.array(values), parse_type("tinyint"))
    assert isinstance(found, Misfit)
    assert found.index == first


def test_infinity_is_a_float() -> None:
    """An infinite double stays infinite; only a finite one that would become infinite is refused."""
    array = pa.array([float("inf"), float("-inf"), None])
    assert fit_values(array, parse_type("float")).to_pylist() == array.to_pylist()


@pytest.mark.parametrize(
    ("source", "kind", "fits"),
    [
        (pa.null(), "int", True),
        (pa.uint64(), "tinyint", True),
        (pa.float64(), "bigint", True),
        (pa.decimal256(50, 2), "int", True),
        (pa.decimal128(5, 2), "double", False),
        (pa.float64(), "decimal(9,2)", False),
        (pa.string_view(), "binary", False),
        (pa.binary(4), "binary", True),
        (pa.timestamp("ns"), "date", True),
        (pa.timestamp("us", "UTC"), "date", False),
        (pa.timestamp("us", "UTC"), "timestamp_ntz", False),
        (pa.timestamp("us"), "timestamp", True),
        (pa.date32(), "timestamp", False),
        (pa.time64("ns"), "time", True),
        (pa.int64(), "boolean", False),
    ],
)
def test_types_whose_values_may_fit(source: pa.DataType, kind: str, fits: bool) -> None:
    """A type is refused beforehand where every value of it would be, and only there."""
    assert may_fit(source, parse_type(kind)) == fits


LISTS = [[1], None, [], [2, 3]]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
        (pc.run_end_encode(pa.array([1, 1, 2])), pa.int64()),
        (pa.array(["a", None], pa.string_view()), pa.large_string()),
        (pa.array([b"ab", None], pa.binary(2)), pa.large_binary()),
        (pa.array([b"a", None], pa.binary_view()), pa.large_binary()),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), pa.large_list(pa.int64())),
        (pa.array(LISTS, pa.list_view(pa.int64())), pa.large_list(pa.int64())),
        (pa.array(LISTS, pa.large_list_view(pa.int64())), pa.large_list(pa.int64())),
        (pa.array(LISTS, pa.list_(pa.int64())), pa.list_(pa.int64())),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_layouts_are_undone(array: pa.Array, kind: pa.DataType, start: int) -> None:
    """Values in a layout of another library are the same in a plain one, slices too."""
    found = plain(array.slice(start))
    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (kind, array.to_pylist()[start:])


def test_elements_behind_a_null_are_left_out() -> None:
    """A null of a list view may have a place and a size, and its elements are nobody's."""
    view = pa.ListViewArray.from_arrays(
        [0, 1, 3], [1, 2, 1], pa.array([1, 2, 3, 4]), mask=pa.array([False, True, False])
    )
    assert plain(view).to_pylist() == [[1], None, [4]]


def test_an_extension_is_its_storage() -> None:
    """Values of an extension type are those that it is stored as."""
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), None], pa.binary(16)))
    assert plain(array).to_pylist() == [bytes(16), None]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string(), pa.list_(pa.int64())])
def test_few_bytes_are_one_piece(kind: pa.DataType) -> None:
    """Rows that 32-bit offsets reach are not cut, and none are cut away."""
    values = [[1], None] if pa.types.is_list(kind) else ["a", None]
    (piece,) = pieces(pa.array(values, kind))
    assert piece.to_pylist() == values


def test_text_is_cut_where_offsets_end() -> None:
    """Large text is cut into as few slices as 32-bit offsets reach, and the rows stay as they are."""
    offsets = np.arange(6, dtype=np.int64) << 29  # 512 MB each: four are a byte too many
    held = pa.py_buffer(np.zeros(5 << 29, np.uint8))  # zeros that nobody reads take no room
    text = pa.Array.from_buffers(pa.large_string(), 5, [None, pa.py_buffer(offsets), held])
    assert [len(piece) for piece in pieces(text)] == [3, 2]
    assert [len(piece) for piece in pieces(text.slice(1))] == [3, 1]
