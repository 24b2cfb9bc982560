"""Suggestions for names that are not there.

Invariant: a suggestion is one of the known names, and what is said ends the sentence of an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest", "suggestion"]

_SHOWN_MAX = 20
_COMPARED_MAX = 200


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, whatever its case."""
    name = name[:_COMPARED_MAX]  # comparing takes time by the square of the length
    by_folded = {one.casefold(): one for one in known}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[found[0]] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """``did you mean 'amount'?``, or else what there is."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    shown = ", ".join(names[:_SHOWN_MAX]) + (", …" if len(names) > _SHOWN_MAX else "")
    return f"there is {shown}" if names else "there is none"
