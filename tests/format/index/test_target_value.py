"""Values of sets of columns and of places in JSON: what the specification says."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.expr.json_path import json_texts
from lakehouse.format.index.greptime_value import encode_scalar
from lakehouse.format.index.target_value import NULL_PART, encode_column_set, encode_set_part
from tests.kit.blob_samples import spec_block

rows = st.lists(
    st.tuples(
        st.none() | st.integers(-2, 2),
        st.none() | st.text("ab\x00\x01", max_size=3),
        st.none() | st.binary(max_size=2),
        st.none() | st.sampled_from(["x", "xy"]),
    ),
    min_size=1,
    max_size=12,
)
PLAIN = (pa.int8(), pa.string(), pa.binary(), pa.string())
TYPES = (pa.int8(), pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string()))


@settings(deadline=None)
@given(rows)
def test_a_set_tells_rows_apart(found: list[tuple[Any, ...]]) -> None:
    """Two rows have the same bytes exactly when they agree in every column, nulls included."""
    columns = [
        pa.array(values, plain).cast(type_)
        for values, plain, type_ in zip(zip(*found, strict=True), PLAIN, TYPES, strict=True)
    ]
    encoded = encode_column_set(columns).to_pylist()
    for (one, left), (other, right) in itertools.combinations(zip(found, encoded, strict=True), 2):
        assert (one == other) == (left == right)


@settings(deadline=None)
@given(rows)
def test_a_search_knows_the_bytes(found: list[tuple[Any, ...]]) -> None:
    """The parts that a search makes of single values are those of the rows."""
    by_column = zip(zip(*found, strict=True), PLAIN, strict=True)
    columns = [pa.array(values, type_) for values, type_ in by_column]
    for row, encoded in zip(found, encode_column_set(columns).to_pylist(), strict=True):
        parts = (
            NULL_PART if value is None else encode_set_part(encode_scalar(value, type_), type_)
            for value, type_ in zip(row, PLAIN, strict=True)
        )
        assert b"".join(parts) == encoded


def test_the_specified_bytes_of_sets() -> None:
    """The examples of the specification are what is written."""
    for line in spec_block("target-values.md", "sets").splitlines():
        values, expected = re.split(r"\s{2,}", line, maxsplit=1)
        number, text, raw = json.loads(f"[{values}]")
        columns = [
            pa.array([number], pa.int8()),
            pa.array([text], pa.string()),
            pa.array([raw and raw.encode()], pa.binary()),
        ]
        assert encode_column_set(columns)[0].as_py().hex() == expected.replace(" ", "")


def test_the_specified_texts_of_json() -> None:
    """The examples of the specification are what is read."""
    for line in spec_block("target-values.md", "json").splitlines():
        document, pointer, expected = re.split(r"\s{2,}", line)
        found = json_texts(pa.array([document]), "" if pointer == "(whole)" else pointer)
        assert found.to_pylist() == [None if expected == "(null)" else expected], line


def test_a_set_is_of_several_columns() -> None:
    """One column is no set."""
    with pytest.raises(InvalidInputError, match="two columns or more"):
        encode_column_set([pa.array([1])])


@pytest.mark.parametrize("document", ["[" * 100_000, '{"a":"\\ud800"}', "NaN", '{"a":Infinity}', ""])
def test_documents_that_have_nothing(document: str) -> None:
    """What is no JSON, or no text, has no value, however it is broken."""
    assert json_texts(pa.array([document, '{"a":1}', None]), "/a").to_pylist() == [None, "1", None]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("a/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values)
def test_every_place_of_a_document(document: Any) -> None:
    """A pointer finds what stands at its place, whatever the names on the way."""

    def visit(value: Any, pointer: str) -> None:
        found = json_texts(pa.array([json.dumps(document)]), pointer)[0].as_py()
        if isinstance(value, dict | list) or value is None:
            assert found is None
        else:
            assert found == (json.dumps(value) if not isinstance(value, str) else value)
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for name, inner in items:
            visit(inner, f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")

    visit(document, "")
