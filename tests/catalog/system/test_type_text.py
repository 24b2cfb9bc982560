"""Types of columns as text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse.catalog.system.type_text import columns_of


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timestamptz", "timestamptz"),
        ({"type": "list", "element": {"type": "list", "element": "int"}}, "list<list<int>>"),
        ({"type": "map", "key": "string", "value": "decimal(3,1)"}, "map<string, decimal(3,1)>"),
        (
            {"type": "struct", "fields": [{"name": "x", "type": "float"}, {"name": "y", "type": "date"}]},
            "struct<x: float, y: date>",
        ),
    ],
)
def test_nested_types_are_written_out(kind: Any, text: str) -> None:
    """A nested type says what is inside."""
    (column,) = columns_of(json.dumps({"fields": [{"name": "c", "type": kind, "required": False}]}))
    assert (column.name, column.type, column.is_required, column.precision) == ("c", text, False, None)


def test_endless_nesting_is_cut() -> None:
    """A type that is nested too deeply is cut, and does not end the process."""
    kind: Any = "int"
    for _ in range(200):
        kind = {"type": "list", "element": kind}
    (column,) = columns_of(json.dumps({"fields": [{"name": "c", "type": kind}]}))
    assert "…" in column.type
