"""Bounds for what comes from outside, known before anything is made of it.

Words: *object* (bytes of a store) → *document* (its JSON) → *field* (a value, checked and named in errors).
A *ratio* says how many bytes a compressed byte can stand for, a *bound* how large a buffer may become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.limits.json_object import (
        INT64_MAX,
        JsonObject,
        each,
        flag,
        items,
        members,
        moment,
        number,
        optional,
        parse_json,
        text,
        whole,
    )

__all__ = [
    "INT64_MAX", "JsonObject", "each", "flag", "items", "members", "moment", "number", "optional",
    "parse_json", "text", "whole",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "json_object": (
            "INT64_MAX JsonObject each flag items members moment number optional parse_json text whole"
        ),
    },
)
