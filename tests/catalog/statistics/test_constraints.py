"""Constraints: what planners may rely on, and what is not said to whom."""

from __future__ import annotations

import pyarrow as pa

import lakehouse
from lakehouse.catalog.sources import TableFacts
from lakehouse.catalog.statistics.constraints import (
    Constraint,
    ConstraintKind,
    constraints_of,
)


def facts(format: str = "lakehouse", **more: tuple[str, ...]) -> TableFacts:  # noqa: A002
    """What a source says of a table."""
    return TableFacts(format=format, schema_id=0, schema_json="{}", field_ids={}, **more)


def test_keys_and_columns_that_are_never_null_are_constraints() -> None:
    """The key comes first, and then each column by itself."""
    assert constraints_of(facts(primary_key=("id",), not_null=("id", "day"))) == (
        Constraint(kind=ConstraintKind.PRIMARY_KEY, columns=("id",)),
        Constraint(kind=ConstraintKind.NOT_NULL, columns=("id",)),
        Constraint(kind=ConstraintKind.NOT_NULL, columns=("day",)),
    )
    assert constraints_of(facts()) == ()


def test_identifier_fields_of_iceberg_are_not_enforced() -> None:
    """Nobody keeps them unique, so that a planner must not drop a distinct for them."""
    (key,) = constraints_of(facts("iceberg", primary_key=("id",)))
    assert not key.is_enforced


async def test_the_graph_tells_constraints_of_a_table_as_it_is_now() -> None:
    """A lake's graph answers by name, for no request more than the table's node."""
    async with lakehouse.connect("memory://constraints") as lake:
        await lake.create_database("sales")
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
        await lake.create_table("sales.orders", schema, primary_key="id")
        found = await lake.graph.constraints("sales.orders")
        assert [(one.kind, one.columns) for one in found] == [
            (ConstraintKind.PRIMARY_KEY, ("id",)),
            (ConstraintKind.NOT_NULL, ("id",)),
        ]
        with lakehouse.measure() as cost:
            assert await lake.graph.constraints("sales.orders") == found
        assert cost.requests == 0
