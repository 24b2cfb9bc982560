"""Values as text of DuckDB's JSON type: what differs in shape from table to table stands in one column.

Numbers stay numbers where JSON has them; decimals, times and the like are text, bytes are hexadecimal digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

__all__ = ["JSON", "json_texts"]

JSON = pa.json_(pa.string())
"""Arrow's extension type that DuckDB reads as JSON."""


def json_texts(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Returns each value as the text of one JSON document; null stays null. Maps become objects."""
    given = values.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else _text(value) for value in given], pa.string())


def _text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inside) for name, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inside) for inside in value]
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
