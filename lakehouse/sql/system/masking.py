"""Masking: pseudonyms in place of directories and paths, the same wherever a location stands."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.index.metas import masked_location

__all__ = ["locations_masked", "place_masked"]


def locations_masked(column: pa.Array) -> pa.Array:
    """Returns pseudonyms of locations, of texts or of lists of them."""

    def mask(value: object) -> object:
        if isinstance(value, list):
            return [mask(inside) for inside in value]
        return value if value is None else masked_location(str(value))

    return pa.array([mask(value) for value in column.to_pylist()], column.type)


def place_masked(text: str) -> str:
    """Returns a text, or its pseudonym where it is an absolute path or a URL."""
    return masked_location(text) if text.startswith("/") or "://" in text else text
