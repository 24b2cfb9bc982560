"""Folders of partitions: readable, and valid keys whatever the values."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.order_value import encode_value
from lakehouse.format.keys.partition_path import PATH_BYTES_MAX, partition_dir
from lakehouse.format.schema.types import DataType, Field, Primitive, StringType
from tests.kit.blob_samples import spec_block
from tests.kit.typed_values import ORDERED_KINDS, fields_of, spec_value, values_of

SAFE_PART = re.compile(r"[A-Za-z0-9%-][A-Za-z0-9%_.-]*=[A-Za-z0-9%_.-]*")
DAY = dt.date(2026, 1, 1)
NAMES = st.text(min_size=1, max_size=60) | st.sampled_from(["_hidden", ".", "..", "%41", "a=b", "a/b"])


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[Field], list[bytes]]:
    """Partition columns with any names, and values of theirs."""
    kinds: list[DataType] = draw(st.lists(st.sampled_from(ORDERED_KINDS), min_size=1, max_size=40))
    fields = [Field(id=at + 1, name=draw(NAMES), type=kind) for at, kind in enumerate(kinds)]
    values: list[Any] = [
        draw(values_of(kind) | st.text(max_size=400)) if kind == StringType() else draw(values_of(kind))
        for kind in kinds
    ]
    return fields, [encode_value(value, kind) for value, kind in zip(values, kinds, strict=True)]


@given(partitions())
def test_every_folder_is_a_valid_key(found: tuple[list[Field], list[bytes]]) -> None:
    """Folders are short, of safe characters, with a name in every part that is not hidden."""
    path = partition_dir(*found)
    assert len(path.encode()) <= PATH_BYTES_MAX
    for part in path.split("/"):
        assert SAFE_PART.fullmatch(part)
        assert len(part) <= 160
        assert re.sub("%[0-9A-F]{2}", "", part).count("%") == 0


def test_folders_are_readable() -> None:
    """A folder says the columns and values in order."""
    fields = [
        Field(id=1, name="day", type=Primitive("date")),
        Field(id=2, name="region", type=StringType()),
    ]
    values = [encode_value(value, field.type) for value, field in zip((DAY, "eu"), fields, strict=True)]
    assert partition_dir(fields, values) == "day=2026-01-01/region=eu"


def test_the_specified_paths() -> None:
    """The examples of the specification are what is written."""
    for line in spec_block("row-key.md", "paths").splitlines():
        name, text, expected = re.split(r"\s{2,}", line)
        kind, value = spec_value(name, text)
        assert partition_dir(fields_of([kind]), [encode_value(value, kind)]) == expected


def test_long_values_are_cut() -> None:
    """A long text is cut before an escape and marked; short ones beside it stay whole."""
    fields = fields_of([StringType(), StringType()])
    long = partition_dir(fields, ["ü".encode() * 100, b"eu"])
    assert re.fullmatch(r"a=(%C3%BC)+(%C3)?\.\.\./b=eu", long)


def test_moments_that_python_lacks() -> None:
    """A year beyond Python's has a folder too."""
    far = (1 << 62).to_bytes(8, "big", signed=True)
    flipped = bytes([far[0] ^ 0x80]) + far[1:]
    assert partition_dir(fields_of([Primitive("timestamp")]), [flipped]).startswith("a=")


@pytest.mark.parametrize(("fields", "values"), [(1, 0), (0, 0), (1, 2)])
def test_each_column_has_a_value(fields: int, values: int) -> None:
    """There are as many values as columns, and one at least."""
    with pytest.raises(InvalidInputError, match="need as many values"):
        partition_dir(fields_of([StringType()] * fields), [b"a"] * values)
