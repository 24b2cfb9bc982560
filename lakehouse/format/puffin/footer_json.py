"""Strict JSON of puffin footers: whatever was read can be written again.

Invariant: :func:`load_json` returns only values that :func:`dump_json` takes back: no
non-finite numbers, no half surrogate pairs. A value of the wrong type or out of range is a
CorruptionError that names the key and the object it stands in.
"""

from __future__ import annotations

import json
from typing import Any

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.limits.json_object import parse_json

__all__ = ["dump_json", "integer", "json_object", "load_json", "string_map", "typed"]

_I64_MAX = (1 << 63) - 1
_VALUES_MAX = 250_000
"""Maximum number of JSON values of a footer: those of some 25,000 blobs."""


def load_json(payload: bytes, offset: int) -> Any:
    """Parses a payload that begins at byte ``offset`` of its file."""
    try:
        return parse_json(payload, values_max=_VALUES_MAX)
    except ValueError as error:
        raise CorruptionError(
            f"puffin footer at byte {offset} is not JSON that can be read: {error}",
            offset=offset,
            expected="JSON",
        ) from error


def dump_json(document: Any) -> bytes:
    """Writes compact JSON as serde does: no spaces, text beyond ASCII unescaped."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the puffin footer has a value JSON cannot hold: {error}") from error


def json_object(document: Any, where: str) -> dict[str, Any]:
    """Returns the value if it is a JSON object, else refuses it; errors call it ``where``."""
    if not isinstance(document, dict):
        raise CorruptionError(f"{where} is no JSON object", expected="object", got=type(document).__name__)
    return document


def typed(value: Any, key: str, wanted: type, where: str) -> Any:
    """Returns the value if it is of that JSON type, else refuses it."""
    if type(value) is not wanted:
        raise CorruptionError(
            f"{key!r} of {where} is {short(value)}", expected=wanted.__name__, got=short(value)
        )
    return value


def integer(value: Any, key: str, where: str, top: int = _I64_MAX) -> int:
    """Returns the value if it is an integer in -top-1..top, else refuses it, as floats and booleans."""
    if type(value) is not int or not -top - 1 <= value <= top:
        raise CorruptionError(
            f"{key!r} of {where} is {short(value)}",
            expected=f"an integer of {top.bit_length() + 1} bits",
            got=short(value),
        )
    return value


def string_map(value: Any, where: str) -> dict[str, str]:
    """Returns the value of ``properties`` if it is a map of text to text, else refuses it."""
    properties: dict[str, str] = typed(value, "properties", dict, where)
    for key, text in properties.items():
        if type(text) is not str:
            raise CorruptionError(
                f"property {short(key)} of {where} is {short(text)}", expected="text", got=short(text)
            )
    return properties
