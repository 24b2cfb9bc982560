"""Rows as JSON has them, alike whoever read them; needs nothing but Python."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["plain_rows"]


def plain_rows(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows as text, in the order of these texts."""
    return sorted(json.dumps(_plain(dict(row)), sort_keys=True) for row in rows)


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case decimal.Decimal():
            return str(value)
        case dt.datetime():
            return (value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat()
        case dt.date() | dt.time():
            return value.isoformat()
    return value
