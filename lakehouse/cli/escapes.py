"""Text of others, made fit to be printed: nothing in it moves a cursor, ends a row or hides what follows.

Invariant: what these functions return has no control characters, no lone surrogates and no characters that
turn the direction of writing; tab-separated values keep null, the empty text and any other apart.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["NULL_FIELD", "json_text", "separated", "visible"]

NULL_FIELD = r"\N"
"""Null among tab-separated values, as PostgreSQL's COPY and ClickHouse write it; a backslash is doubled."""
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    number = ord(character)
    return _NAMED.get(character) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")


def visible(text: str, *, lines: bool = False) -> str:
    """Returns a text in which every character can be seen; with ``lines`` it may have several lines."""
    if lines:
        return "\n".join(visible(line) for line in text.split("\n"))
    return _UNSEEN.sub(_escaped, text)


def separated(text: str | None) -> str:
    """Returns a field of tab-separated values."""
    return NULL_FIELD if text is None else visible(text.replace("\\", r"\\"))


def json_text(value: Any, *, indent: int | None = None, default: Any = str) -> str:
    """Writes JSON that reads as it looks, on a terminal too."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=default)
    # What is left are parts of texts: elsewhere JSON has none but line ends.
    return "\n".join(_UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", line) for line in text.split("\n"))
