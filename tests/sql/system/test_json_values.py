"""Values as JSON: text that any reader of JSON takes, and that says the value."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.sql.system.json_values import json_texts

_TEXTS = st.text(max_size=8)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.none() | st.fixed_dictionaries({"a": st.none() | _TEXTS}), max_size=5))
def test_structs_read_back(values: list[Any]) -> None:
    """A struct of texts is an object that reads back as it was; null stays null."""
    column = pa.array(values, pa.struct({"a": pa.string()}))
    read = [None if text is None else json.loads(text) for text in json_texts(column).to_pylist()]
    assert read == values


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (5, pa.int64(), "5"),
        (True, pa.bool_(), "true"),
        (0.5, pa.float64(), "0.5"),
        (float("nan"), pa.float64(), '"nan"'),
        (float("-inf"), pa.float64(), '"-inf"'),
        (Decimal("1.50"), pa.decimal128(9, 2), '"1.50"'),
        (dt.date(2026, 1, 2), pa.date32(), '"2026-01-02"'),
        (dt.timedelta(seconds=1), pa.duration("s"), '"0:00:01"'),
        (b"\x00\xff", pa.binary(), '"00ff"'),
        ([("k", 1)], pa.map_(pa.string(), pa.int32()), '{"k":1}'),
        ([1, None], pa.list_(pa.int8()), "[1,null]"),
        ("ä\n", pa.string(), '"ä\\n"'),
    ],
)
def test_each_type_has_its_text(value: Any, kind: pa.DataType, text: str) -> None:
    """Numbers stay numbers; what JSON has not is text, bytes in hexadecimal digits."""
    assert json_texts(pa.array([value], kind)).to_pylist() == [text]
