"""Names of columns as people write them: plain, with dots into structs, and in backticks.

::

    amount              a column
    address.street      the field ``street`` of the struct ``address``
    `net.amount`        a column whose name holds a dot
    address.`a.b`       a field whose name holds a dot
    `we``ird`           within backticks two of them are one

A text with a dot is a path if its first part is a nested column, else the name of a column. If the path leads
to no field and a column has the whole text as its name, that column is meant; if both exist, the text is
refused as ambiguous.

Invariant: :func:`parts_of` reads back what :func:`written` wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from lakehouse.errors import InvalidInputError

__all__ = ["ambiguous", "is_quoted", "parts_of", "resolved", "written"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def parts_of(text: str) -> tuple[str, ...]:
    """Returns the steps that a text names; the whole text where it is not well formed."""
    parts, at = [], 0
    while match := _PART.match(text, at):
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        at = match.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            break
        at += 1
    return (text,)


def is_quoted(text: str) -> bool:
    """Returns whether a text is well formed and has backticks, so that it has one meaning only."""
    return "`" in text and parts_of(text) != (text,)


def written(parts: Sequence[str]) -> str:
    """Returns a text that names these steps and nothing else; only what needs backticks has them."""
    return ".".join(
        "`" + part.replace("`", "``") + "`" if re.search("[.`]", part) else part for part in parts
    )


def resolved(
    text: str,
    names: Collection[str],
    *,
    nested: Callable[[str], bool],
    leads: Callable[[Sequence[str]], bool],
) -> tuple[str, ...]:
    """Returns the steps to what a text names: a column, or a field inside one, be it there or not.

    Args:
        text: the name as people write it.
        names: names of the columns.
        nested: tells whether a column has fields inside.
        leads: tells whether steps lead to a field that exists.

    Raises:
        InvalidInputError: a column has the whole text as its name, and it is a path as well.
    """
    parts = parts_of(text)
    if is_quoted(text):
        return (text,) if text in names else parts
    if len(parts) == 1 or parts[0] not in names or not nested(parts[0]):
        return (text,)
    if text not in names:
        return parts
    if leads(parts):
        raise ambiguous(text)
    return (text,)


def ambiguous(text: str) -> InvalidInputError:
    """Returns the error for a text that names both a column and a field inside another."""
    parts = parts_of(text)
    return InvalidInputError(
        f"{text!r} is a column of that name and the field {parts[-1]!r} of {written(parts[:-1])!r}: write "
        f"{written([text])} for the column, and rename it to reach the field by name",
        column=text,
    )
