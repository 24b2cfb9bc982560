"""References: the forms in which callers name what a catalog holds, and how text is read as one.

Text is split at dots; a part that has dots or quotes itself is written in double quotes, in which a quote is
doubled: ``"a.b".c`` has two parts. A tuple of parts is taken as it is.

Invariant: ``parse_name(show_name(parts)) == parts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakehouse.catalog.ids import ResourceId
from lakehouse.catalog.nodes import RelationPath
from lakehouse.errors import InvalidInputError
from lakehouse.excerpt import short

__all__ = ["NameRef", "Reference", "parse_name", "reference_parts", "show_name"]

_QUOTE = '"'
_NAME_CHARACTERS_MAX = 8_192
"""Maximum characters of a name, so that what comes from outside costs no more than a look."""
_PARTS_MAX = 64


@dataclass(frozen=True, slots=True)
class NameRef:
    """A name, and the id that it was resolved to earlier: one that has an id is not looked for by its
    name."""

    name: str | RelationPath
    id: ResourceId | None = None


Reference = str | RelationPath | ResourceId | NameRef
"""Forms of a reference: full name, its parts, an id, or both."""


def reference_parts(ref: Reference) -> RelationPath | ResourceId:
    """Returns the parts of a name, or the id, that a reference has."""
    given: Any = ref  # from outside, so it may be anything
    if isinstance(given, ResourceId):
        return given
    if isinstance(given, NameRef):
        return given.id if given.id is not None else reference_parts(given.name)
    if isinstance(given, str):
        return parse_name(given)
    if isinstance(given, tuple) and given and all(isinstance(part, str) for part in given):
        return _checked(given)
    raise InvalidInputError(
        "a reference is a full name, as 'sales.orders', a tuple of its parts, a ResourceId, or a NameRef, "
        f"not {short(given)}"
    )


def show_name(parts: RelationPath) -> str:
    """Returns a name as text, with quotes where a part needs them."""
    return ".".join(_shown(part) for part in parts)


def _shown(part: str) -> str:
    if part and "." not in part and _QUOTE not in part:
        return part
    return f"{_QUOTE}{part.replace(_QUOTE, _QUOTE * 2)}{_QUOTE}"


def parse_name(text: str) -> RelationPath:
    """Reads the text of a name.

    Raises:
        InvalidInputError: a part is empty, or a quote is not closed or stands inside a part.
    """
    if len(text) > _NAME_CHARACTERS_MAX:
        raise InvalidInputError(
            f"a name has {_NAME_CHARACTERS_MAX:,} characters at most, not {len(text):,}", name=short(text)
        )
    if _QUOTE not in text:  # nearly all are so
        return _checked(tuple(text.split(".")))
    parts, at = list[str](), 0
    while True:
        part, at = _quoted(text, at + 1) if text[at : at + 1] == _QUOTE else _plain(text, at)
        parts.append(part)
        if at == len(text):
            return _checked(tuple(parts))
        if text[at] != ".":
            raise _unclear(text, "a dot has to stand between two parts")
        at += 1


def _plain(text: str, begin: int) -> tuple[str, int]:
    """Reads a part without quotes; returns it with the place behind it."""
    end = text.find(".", begin)
    end = len(text) if end < 0 else end
    part = text[begin:end]
    if _QUOTE in part:
        raise _unclear(text, "a part with a quote in it has to be quoted as a whole")
    return part, end


def _quoted(text: str, begin: int) -> tuple[str, int]:
    """Reads a part whose quote is open; returns it with the place behind it."""
    parts, at = list[str](), begin
    while True:
        end = text.find(_QUOTE, at)
        if end < 0:
            raise _unclear(text, "a quote is not closed")
        parts.append(text[at:end])
        if text[end + 1 : end + 2] != _QUOTE:
            return _QUOTE.join(parts), end + 1
        at = end + 2


def _checked(parts: RelationPath) -> RelationPath:
    if len(parts) > _PARTS_MAX:
        raise InvalidInputError(f"a name has {_PARTS_MAX} parts at most, not {len(parts)}")
    if not all(parts):
        shown = show_name(parts)
        raise InvalidInputError(
            f"{shown} has an empty part: write database.table, or catalog.namespace.table", name=shown
        )
    return parts


def _unclear(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f'{short(text)} is no name: {why}, as in "a.b".c, whose parts are a.b and c', name=short(text)
    )
