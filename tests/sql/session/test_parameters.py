"""Parameters: values by place and by name, and what is said of those that are missing or unknown."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import pytest

from lakehouse.errors import InvalidInputError
from tests.kit.sql_tables import sql_tables


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(1 << 62),
        2.5,
        "it's; --",
        b"\0\xff",
        decimal.Decimal("12.345"),
        dt.date(2026, 1, 2),
        dt.datetime(2026, 1, 2, 3, 4, 5),
        dt.time(1, 2, 3),
        [1, 2],
        {"a": 1, "b": "x"},
    ],
)
async def test_values_come_back_as_they_were(value: Any) -> None:
    """A value goes in as it is, by place and by name, and never as text of the statement."""
    async with sql_tables() as tables:
        for text, given in (("SELECT ? AS v", [value]), ("SELECT $v AS v", {"v": value})):
            assert await (await tables.lake.sql(text, given)).to_pylist() == [{"v": value}]


async def test_scalars_of_numpy_are_numbers() -> None:
    """Values that come out of arrays are taken as Python's."""
    async with sql_tables() as tables:
        result = await tables.lake.sql("SELECT $1 + $2 AS n", [np.int64(3), np.float64(0.5)])
        assert await result.to_pylist() == [{"n": 3.5}]


async def test_values_of_other_types_are_refused_by_name() -> None:
    """What SQL has no value for is an error that names the parameter."""
    async with sql_tables() as tables:
        assert await (await tables.lake.sql("SELECT $v::VARCHAR AS v", {"v": uuid.UUID(int=1)})).to_pylist()
        with pytest.raises(InvalidInputError, match="parameter v: a value is a number"):
            await tables.lake.sql("SELECT $v", {"v": object()})
        with pytest.raises(InvalidInputError, match="parameters are a list"):
            await tables.lake.sql("SELECT 1", "x")


async def test_missing_and_unknown_parameters_are_named() -> None:
    """A value that is missing is shown where it is asked for; one that nothing asks for is refused."""
    async with sql_tables("keyed") as tables:
        with pytest.raises(InvalidInputError, match="parameter least has no value") as caught:
            await tables.lake.sql("SELECT *\nFROM db.keyed WHERE id > $least", {})
        assert (caught.value.context["line"], caught.value.context["column"]) == (2, 26)
        with pytest.raises(InvalidInputError, match="parameter 2 has no value"):
            await tables.lake.sql("SELECT ? + ?", [1])
        with pytest.raises(InvalidInputError, match="no parameter leest; did you mean 'least'"):
            await tables.lake.sql("SELECT $least", {"least": 1, "leest": 1})
        with pytest.raises(InvalidInputError, match="no parameter 2"):
            await tables.lake.sql("SELECT ?", [1, 2])


async def test_times_take_parameters_beside_those_of_the_query() -> None:
    """A parameter of time travel is taken away before DuckDB counts the others."""
    async with sql_tables("compacted") as tables:
        table = await tables.lake.table("db.compacted")
        newest = await table.current_snapshot()
        text = "SELECT count(*) AS n FROM db.compacted FOR VERSION AS OF ? WHERE id < ?"
        assert await (await tables.lake.sql(text, [newest, 10])).to_pylist() == [{"n": 10}]


async def test_parameters_of_a_text_go_to_the_statements_that_name_them() -> None:
    """Each statement of a text takes the values that it asks for."""
    async with sql_tables() as tables:
        result = await tables.lake.sql("SELECT $a; SELECT $b AS b", {"a": 1, "b": 2})
        assert await result.to_pylist() == [{"b": 2}]
