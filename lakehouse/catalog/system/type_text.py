"""Types of columns as text, out of Iceberg's schema JSON: ``long``, ``decimal(9,2)``, ``list<string>``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["ColumnText", "columns_of"]

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_DEPTH_MAX = 32


class ColumnText(NamedTuple):
    """A column, as ``information_schema.columns`` shows it."""

    name: str
    type: str
    is_required: bool
    precision: int | None
    scale: int | None


def columns_of(schema_json: str) -> Iterator[ColumnText]:
    """Yields the top-level columns of a schema, in their order."""
    for field in json.loads(schema_json).get("fields", ()):
        text = _type_text(field["type"])
        found = _DECIMAL.fullmatch(text)
        precision, scale = (int(found[1]), int(found[2])) if found else (None, None)
        yield ColumnText(field["name"], text, bool(field.get("required")), precision, scale)


def _type_text(kind: str | Mapping[str, Any], depth: int = 0) -> str:
    if isinstance(kind, str):
        return kind
    if depth > _DEPTH_MAX:
        return "…"
    inner = depth + 1
    match kind.get("type"):
        case "list":
            return f"list<{_type_text(kind['element'], inner)}>"
        case "map":
            return f"map<{_type_text(kind['key'], inner)}, {_type_text(kind['value'], inner)}>"
        case _:
            fields = (f"{each['name']}: {_type_text(each['type'], inner)}" for each in kind.get("fields", ()))
            return f"struct<{', '.join(fields)}>"
