"""Drafts of views: arguments, and names that are looked for in the search path."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.lake import Lake
from tests.kit.worlds import process, restored

SQL = {"duckdb": "select * from t join b.u on true join cat.ns.w on true"}


async def made() -> Lake:
    """Databases a and b; t is in b only."""
    lake = process(await restored({}))
    for name in ("a", "b"):
        await lake.create_database(name)
    await lake.create_table("b.t", pa.schema({"id": pa.int64()}))
    return lake


async def test_names_without_a_database_are_in_that_of_the_view() -> None:
    """A bare name is the view's neighbour; full names and those of catalogs stay as they are."""
    view = await (await made()).create_view("a.v", SQL)
    assert view.depends_on == ("a.t", "b.u", "cat.ns.w")


async def test_names_without_a_database_are_looked_for_in_the_search_path() -> None:
    """The first database of the path that has the relation has it; the first of all if none has."""
    lake = await made()
    assert (await lake.create_view("a.v", SQL, search_path=["a", "b"])).depends_on == (
        "b.t",
        "b.u",
        "cat.ns.w",
    )
    assert (await lake.create_view("a.w", SQL, search_path=["cat.ns", "b"])).depends_on == (
        *("b.t", "b.u", "cat.ns.w"),
    )
    nowhere = await lake.create_view("a.x", {"duckdb": "from nix"}, search_path=["b", "a"])
    assert nowhere.depends_on == ("b.nix",)


async def test_given_dependencies_are_taken_as_they_are() -> None:
    """With depends_on nothing is parsed; without it and without DuckDB's dialect it is not known."""
    lake = await made()
    given = await lake.create_view("a.v", {"duckdb": "this is no SQL"}, depends_on=["b.t", "b.t", "b.u"])
    assert given.depends_on == ("b.t", "b.u")
    assert (await lake.create_view("a.w", {"trino": "select * from t"})).depends_on is None
    assert (await lake.create_view("a.x", {"trino": "select 1"}, depends_on=[])).depends_on == ()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sql": "select 1"}, "by dialect"),
        ({"sql": {}}, "by dialect"),
        ({"sql": {"duckdb": ""}}, "dialect"),
        ({"sql": {"duckdb": 3}}, "dialect"),
        ({"sql": {"": "select 1"}}, "dialect"),
        ({"sql": {"duckdb": "nonsense"}}, "parse"),
        ({"sql": {"trino": "x" * 1_100_000}}, "1,100,000 characters"),
        ({"columns": "a"}, "columns is a list"),
        ({"columns": [1]}, "columns is a list"),
        ({"depends_on": ["t"]}, "in full"),
        ({"search_path": [""]}, "search_path is a list"),
        ({"owner": 3}, "owner is text"),
        ({"comment": b"x"}, "comment is text"),
    ],
)
async def test_wrong_arguments_are_refused(arguments: dict[str, Any], says: str) -> None:
    """Arguments of the wrong kind are an error that says what is wanted, and no view is made."""
    lake = await made()
    with pytest.raises(InvalidInputError, match=says):
        await lake.create_view("a.v", **{"sql": {"trino": "select 1"}, **arguments})
    assert [name async for name in lake.views("a")] == []
