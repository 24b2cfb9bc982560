"""Values in JSON texts: the text of the value that a JSON Pointer (RFC 6901) leads to.

Invariant: the text of a string is its characters, of a number the digits as written, of a truth value
``true`` or ``false``. A null, an object, an array, a missing place and invalid JSON have no text.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError

__all__ = ["json_texts"]

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_POINTER = re.compile(r"(/([^~/]|~[01])*)*")


def json_texts(documents: Any, pointer: str) -> Any:
    """Returns the text of the value at a pointer, for each JSON text of a string column or for a scalar."""
    if not _POINTER.fullmatch(pointer):
        raise InvalidInputError(
            f"{pointer!r:.80} is no JSON pointer: it is empty or begins with '/', 0 or 1 follows each '~'",
            pointer=pointer,
        )
    steps = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    if isinstance(documents, pa.Scalar):
        text = documents.as_py()
        return pa.scalar(None if text is None else _text_at(text, steps), pa.large_string())
    if isinstance(documents, pa.ChunkedArray):
        documents = documents.combine_chunks()
    encoded = pc.cast(documents, pa.large_string()).dictionary_encode()
    # Arrow has no kernel for JSON; every distinct text is parsed once, by json's C code.
    texts = [None if text is None else _text_at(text, steps) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.large_string()).take(encoded.indices)


def _text_at(text: str, steps: tuple[str, ...]) -> str | None:
    try:
        value = _parser()(text)
    except (ValueError, RecursionError):
        return None
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    if isinstance(value, bool):
        return "true" if value else "false"
    # A lone surrogate, written as an escape, cannot be encoded as UTF-8.
    return value if isinstance(value, str) and _is_unicode(value) else None


@functools.cache
def _parser() -> Callable[[str], Any]:
    """Returns a parser that keeps numbers as written and refuses the ``NaN`` and ``Infinity`` of Python."""
    return json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse).decode


def _refuse(word: str) -> None:
    raise ValueError(word)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
