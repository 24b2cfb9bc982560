"""Suggestions for unknown names in error messages.

Invariant: a suggestion is one of the known names, and its text ends the sentence of an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest", "suggestion"]

_SHOWN_MAX = 20
_COMPARED_MAX = 200


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that was probably meant, in any case; None if none is similar."""
    name = name[:_COMPARED_MAX]  # comparing takes time by the square of the length
    by_folded = {known_name.casefold(): known_name for known_name in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns ``did you mean 'amount'?``, or else a list of the known names."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    shown = ", ".join(names[:_SHOWN_MAX]) + (", …" if len(names) > _SHOWN_MAX else "")
    return f"there is {shown}" if names else "there is none"
