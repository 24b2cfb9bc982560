"""System objects are immutable: whatever would change one is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.errors import InvalidInputError
from lakehouse.lake import Lake

_WRITES: dict[str, Callable[[Lake], Awaitable[object]]] = {
    "create_database": lambda lake: lake.create_database("information_schema", if_not_exists=True),
    "drop_database": lambda lake: lake.drop_database("information_schema", if_exists=True),
    "create_table": lambda lake: lake.create_table("information_schema.t", pa.schema({"id": pa.int64()})),
    "drop_table": lambda lake: lake.drop_table("information_schema.tables", if_exists=True),
    "rename_table": lambda lake: lake.rename_table("information_schema.tables", "own.tables"),
    "rename_into": lambda lake: lake.rename_table("own.t", "information_schema.t"),
    "create_view": lambda lake: lake.create_view("information_schema.v", {"duckdb": "select 1"}),
    "drop_view": lambda lake: lake.drop_view("information_schema.tables", if_exists=True),
    "rename_view": lambda lake: lake.rename_view("information_schema.tables", "own.tables"),
    "attach_catalog": lambda lake: lake.attach_catalog("information_schema", {"type": "directory"}),
}


@pytest.mark.parametrize("write", _WRITES)
async def test_a_write_to_a_system_object_is_a_clear_error(write: str) -> None:
    """Nothing in information_schema is created, renamed or dropped, also not with ``if_exists``."""
    async with lakehouse.connect(f"memory://system-objects/{write}") as lake:
        await lake.create_database("own")
        await lake.create_table("own.t", pa.schema({"id": pa.int64()}))
        with pytest.raises(InvalidInputError, match="what the catalog computes"):
            await _WRITES[write](lake)
        assert [name async for name in lake.tables("own")] == ["own.t"]
