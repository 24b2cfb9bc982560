"""System relations, builtins and hints without ``await``."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakehouse.sync
from lakehouse.errors import NotFoundError
from tests.kit.hint_providers import Provider


def test_engines_are_served_without_await() -> None:
    """The blocking graph gives what the other gives: objects, hints, and rows as batches or at once."""
    with lakehouse.sync.connect("memory://sync-system-scan") as lake:
        lake.create_database("own")
        lake.create_table("own.t", pa.schema({"id": pa.int64()}), primary_key="id")
        assert lake.graph.system_objects("duckdb", "2.0").named("function", "abs")
        lake.graph.engines.hints.register(Provider())
        hint = lake.graph.hint("own.t", engine_kind="duckdb", payload_type="test.type+json")
        assert hint is not None
        rows = lake.graph.system_rows("information_schema.columns", schema="own")
        assert [batch.num_rows for batch in rows] == [1]
        assert rows.to_arrow()["column_name"].to_pylist() == ["id"]
        assert (rows.relation, rows.warnings) == ("columns", [])


def test_opening_a_system_relation_says_how_it_is_read() -> None:
    """A relation of information_schema is no table: the error of opening it names the call that reads it."""
    with (
        lakehouse.sync.connect("memory://sync-system-open") as lake,
        pytest.raises(NotFoundError, match="system_rows"),
    ):
        lake.table("information_schema.tables")
