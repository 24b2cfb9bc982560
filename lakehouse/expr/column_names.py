"""Names of columns as people write them: plain, with dots into structs, and in backticks.

::

    amount              a column
    address.street      the field ``street`` of the struct ``address``
    `net.amount`        a column whose name holds a dot
    address.`a.b`       a field whose name holds a dot
    `we``ird`           within backticks two of them are one

A text with a dot is a path where its first part is a nested column. Where it is none, and a column has the
whole text as its name, it is that column. Where both are there, nobody guesses.

Invariant: :func:`parts_of` reads back what :func:`written` wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from lakehouse.errors import InvalidInputError

__all__ = ["ambiguous", "is_quoted", "parts_of", "resolved", "written"]

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def parts_of(text: str) -> tuple[str, ...]:
    """The steps that a text names; the whole text where it is not well formed."""
    parts, at = [], 0
    while found := _PART.match(text, at):
        parts.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        at = found.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            break
        at += 1
    return (text,)


def is_quoted(text: str) -> bool:
    """Whether a well-formed text has backticks, so that nothing has to be guessed."""
    return "`" in text and parts_of(text) != (text,)


def written(parts: Sequence[str]) -> str:
    """A text that names these steps and nothing else; only what needs backticks has them."""
    return ".".join("`" + one.replace("`", "``") + "`" if re.search("[.`]", one) else one for one in parts)


def resolved(
    text: str,
    names: Collection[str],
    *,
    nested: Callable[[str], bool],
    leads: Callable[[Sequence[str]], bool],
) -> tuple[str, ...]:
    """The steps to what a text names: a column, or a field inside one, be it there or not.

    Args:
        text: as people write it.
        names: of the columns.
        nested: whether a column has fields inside.
        leads: whether steps lead to a field that is there.

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
    """The error that says that a text names two things."""
    parts = parts_of(text)
    return InvalidInputError(
        f"{text!r} is a column of that name and the field {parts[-1]!r} of {written(parts[:-1])!r}: write "
        f"{written([text])} for the column, and rename it to reach the field by name",
        column=text,
    )
