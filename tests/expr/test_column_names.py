"""Names of columns as people write them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.expr import bind, col, parse_where, to_sql
from lakehouse.expr.column_names import is_quoted, parts_of, written

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "st": pa.struct({"a": pa.int64(), "in": pa.struct({"b": pa.int64()}), "c.d": pa.int64()}),
        "net.amount": pa.int64(),
    }
)
BOTH = SCHEMA.append(pa.field("st.a", pa.int64()))

_names = st.text("ab.`\" '", min_size=1, max_size=5)


@given(parts=st.lists(_names, min_size=1, max_size=3))
def test_steps_are_read_back(parts: list[str]) -> None:
    """A text that was written for some steps names these and nothing else."""
    assert parts_of(written(parts)) == tuple(parts)


def test_a_text_that_is_not_well_formed_is_a_name() -> None:
    """A name may hold anything; who writes half a pair of backticks means them."""
    for text in ("", ".", "a.", ".a", "a..b", "we`ird", "`a", "`a`b", "``"):
        assert parts_of(text) == (text,)
        assert not is_quoted(text)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("st.a = 1", "st.a"),
        ("st.in.b = 1", "st.in.b"),
        ('"st"."a" = 1', "st.a"),
        ("`st`.`a` = 1", "st.a"),
        ('"net.amount" = 1', "net.amount"),
        ("`net.amount` = 1", "net.amount"),
        ("net.amount = 1", "net.amount"),
    ],
)
def test_conditions_name_columns_and_fields(text: str, bound: str) -> None:
    """A dot leads into a struct; a whole name goes in double quotes or backticks, or is found without."""
    assert bind(parse_where(text), SCHEMA).columns() == {bound}
    assert parse_where(to_sql(parse_where(text))).same_as(parse_where(text))


def test_conditions_of_python_have_backticks_too() -> None:
    """``col`` takes the same names."""
    assert bind(col("`net.amount`") > 1, SCHEMA).columns() == {"net.amount"}
    assert bind(col("st.a") > 1, SCHEMA).columns() == {"st.a"}


def test_backticks_in_texts_are_no_names() -> None:
    """What stands in quotes of another kind stays as it is."""
    parsed = parse_where("""id = '`x` ''`y`' and "we`ird" = 1 and `q"q` = 2""")
    assert "'`x` ''`y`'" in to_sql(parsed)
    assert parsed.columns() == {"id", written(["we`ird"]), 'q"q'}


def test_what_could_be_two_things_is_refused() -> None:
    """Where a column has the name that is a path as well, only backticks say which is meant."""
    for text in ("st.a = 1", '"st"."a" = 1'):
        with pytest.raises(InvalidInputError, match=r"'st\.a' is a column of that name and the field 'a'"):
            bind(parse_where(text), BOTH)
    assert bind(parse_where("`st.a` = 1"), BOTH).columns() == {"st.a"}
    assert bind(parse_where('"st.a" = 1'), BOTH).columns() == {"st.a"}


def test_what_is_not_there_is_named() -> None:
    """A path that leads nowhere, and a field whose name no condition can say."""
    with pytest.raises(InvalidInputError, match=r"there is no column 'st\.x'"):
        bind(parse_where("st.x = 1"), SCHEMA)
    with pytest.raises(InvalidInputError, match="a field whose name holds a dot"):
        bind(parse_where("st.`c.d` = 1"), SCHEMA)
