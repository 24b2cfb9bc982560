"""Search of an FST's keys by a regular expression.

Invariant: the values found are those of exactly the keys that match, and matching takes time
linear in the keys visited, whatever the pattern: it is RE2's, as in Arrow and DuckDB.

The syntax is that of Rust's ``regex``, which GreptimeDB uses, with two differences: ``\\d``,
``\\w``, ``\\s`` and ``\\b`` know ASCII only (``\\p{Nd}`` and the like know Unicode), and classes
cannot be intersected or subtracted. Neither has look-around or back references. A
pattern matches anywhere in a key unless it is anchored; ``.`` is no line break. Keys are
text: those that are not UTF-8 match nothing.

A pattern that begins with ``^`` and plain characters visits only the keys with that prefix. Any
other pattern visits every key.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.fst.fst import Fst
from lakehouse.format.fst.read import STEPS_MAX, KeyRange
from lakehouse.kernels.arrays import U64

__all__ = ["literal_prefix", "values_matching"]

_META = frozenset(r"\.^$|?*+()[]{}")
_MAKES_OPTIONAL = frozenset("?*{")


def values_matching(fst: Fst, pattern: str, *, whole: bool = False, steps_max: int = STEPS_MAX) -> U64:
    """Returns the values of the keys that match, in key order.

    Args:
        fst: the map.
        pattern: regular expression in RE2 syntax.
        whole: True if the whole key must match, not just a part of it.
        steps_max: as for :meth:`lakehouse.format.fst.fst.Fst.batches`.
    """
    _check_pattern(pattern)
    prefix = literal_prefix(pattern, whole=whole).encode()
    if whole:
        pattern = rf"\A(?:{pattern})\z"
    parts = [np.empty(0, np.uint64)]
    for batch in fst.batches(KeyRange.with_prefix(prefix), steps_max=steps_max):
        matches = pc.match_substring_regex(_as_text(batch.keys), pattern)
        parts.append(batch.values[pc.fill_null(matches, False).to_numpy(zero_copy_only=False)])
    return np.concatenate(parts)


def _check_pattern(pattern: str) -> None:
    """Refuses patterns that RE2 does not accept."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise InvalidInputError(
            f"{pattern!r} is not a regular expression: {error}", pattern=pattern
        ) from error


def literal_prefix(pattern: str, *, whole: bool = False) -> str:
    """Returns the text that every match begins with; empty when none is known."""
    if "|" in pattern:  # alternatives may begin differently, and even in brackets a bar costs only time
        return ""
    if pattern.startswith("^"):
        pattern = pattern[1:]
    elif not whole:
        return ""
    prefix = ""
    at = 0
    while at < len(pattern):
        char = pattern[at]
        # An escaped sign stands for itself; escaped letters and digits have a meaning.
        if char == "\\" and at + 1 < len(pattern) and pattern[at + 1] in _META:
            at += 1
            char = pattern[at]
        elif char in _META:
            # ``?``, ``*`` and ``{`` may repeat the character before them zero times.
            return prefix[:-1] if char in _MAKES_OPTIONAL else prefix
        prefix += char
        at += 1
    return prefix


def _as_text(keys: pa.BinaryArray) -> pa.StringArray:
    """Returns the keys as text, null where they are not UTF-8."""
    try:
        return pc.cast(keys, pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(key) for key in keys.to_pylist()], pa.string())


def _decoded(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
