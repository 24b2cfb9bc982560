"""Tables of the characters that make words, and of lower case.

Invariant: :func:`word_table` and :func:`lower_table` are Rust's ``char::is_alphanumeric`` (and
``_``) and ``char::to_lowercase`` of the Unicode version that
:mod:`lakehouse.format.text.unicode_words` names, whatever version Python has; and
:func:`lower_text` is Rust's ``str::to_lowercase``. The one thing taken from Python is which
letters stand around a capital sigma.
"""

from __future__ import annotations

import functools

import numpy as np

from lakehouse.format.text.unicode_words import ALPHANUMERIC, LOWER
from lakehouse.kernels.arrays import U32, Mask

__all__ = ["SPECIAL", "lower_table", "lower_text", "word_table"]

_CODES = 0x110000
_SIGMA = "\u03a3"
_DOTTED_I = "\u0130"
SPECIAL = (ord(_DOTTED_I), ord(_SIGMA))
"""Characters whose lower case is two characters, or depends on their neighbours."""


@functools.cache
def word_table() -> Mask:
    """Returns for each code point whether it is alphanumeric or ``_``."""
    # Lengths of runs outside and inside the set, by turns, beginning with one outside.
    turns = [int(length, 36) for length in ALPHANUMERIC.split()]
    inside = np.arange(len(turns)) % 2 == 1
    table = np.zeros(_CODES, np.bool_)
    known = np.repeat(inside, turns)
    table[: len(known)] = known
    table[ord("_")] = True
    table.flags.writeable = False
    return table


@functools.cache
def lower_table() -> U32:
    """Returns for each code point its lower case; the :data:`SPECIAL` ones as they would be alone."""
    table = np.arange(_CODES, dtype=np.uint32)
    for run in LOWER.split():
        first, count, step, distance = map(int, run.split(","))
        codes = first + step * np.arange(count)
        table[codes] = codes + distance
    table.flags.writeable = False
    return table


def lower_text(text: str) -> str:
    """Returns the text in lower case; the form of a capital sigma depends on its neighbours."""
    if text.isascii():
        return text.lower()
    if _SIGMA in text:
        # The dotted I is the one letter whose lower case is longer, which would shift the places.
        lowered = text.replace(_DOTTED_I, "I").lower()
        text = "".join(lowered[place] if char == _SIGMA else char for place, char in enumerate(text))
    return text.translate(_lower_map())


@functools.cache
def _lower_map() -> dict[int, int | str]:
    table = lower_table()
    changed = np.flatnonzero(table != np.arange(_CODES)).tolist()
    return {**dict(zip(changed, table[changed].tolist(), strict=True)), ord(_DOTTED_I): "i\u0307"}
