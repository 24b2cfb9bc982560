"""Judges the bounds of many files at once, as :class:`lakehouse.expr.bounds.Judge` does those of one.

A judge of single files costs some microseconds of Python for each; a table of a million files is judged here
with a few passes over its columns of bounds.

Invariant: NONE and ALL are said only where the judge of single files would say them too. Where a list of
constants is long, SOME may be said where that one says more: constants are then looked up by their first
eight bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.expr.bounds import ANY, FALSE, NULL, TRUE, Outcomes, Verdict, plain_value
from lakehouse.expr.nodes import CompareOp

__all__ = ["UNKNOWN", "VERDICTS", "ColumnarBounds", "ColumnarJudge", "FileBounds"]

VERDICTS = (Verdict.NONE, Verdict.SOME, Verdict.ALL)
"""Verdicts, numbered so that many take a byte each."""
UNKNOWN = -1
"""A count of nulls that is not known."""
_LOOPED_MAX = 8
"""Constants up to here are compared one by one, each with two passes over the bounds."""
_PREFIX_BYTES = 8

_Bits: TypeAlias = npt.NDArray[np.uint8]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Counts: TypeAlias = npt.NDArray[np.int64]


class ColumnarBounds:
    """Bounds of one column in every file.

    Args:
        low: not above any value of the file; null = not known, or there is none.
        high: not below any value of the file; null likewise.
        nulls: rows without a value; :data:`UNKNOWN` = not known.
    """

    __slots__ = ("high", "low", "nulls")

    def __init__(self, low: pa.Array, high: pa.Array, nulls: _Counts) -> None:
        self.low, self.high, self.nulls = _Ends(low), _Ends(high), nulls


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBounds:
    """Bounds of some columns in every file."""

    rows: _Counts
    """Maximum number of rows of each file."""
    columns: Mapping[str, ColumnarBounds] = field(default_factory=dict)
    """Bounds by column name; nothing is known, in any file, of a column that is missing."""


_Of: TypeAlias = Callable[[FileBounds], _Bits]
_OfBounds: TypeAlias = Callable[[ColumnarBounds], _Bits]


class ColumnarJudge(Outcomes[FileBounds, _Bits]):
    """A condition made ready to judge many files at once; see :class:`Outcomes` for the arguments.

    Keys that ``encode`` makes must be of the type of the bounds: bytes for encoded bounds, else values.
    """

    __slots__ = ()

    def __call__(self, bounds: FileBounds) -> npt.NDArray[np.uint8]:
        """Returns the verdict of each file, as its place in :data:`VERDICTS`."""
        verdicts: npt.NDArray[np.uint8] = _VERDICT_OF[self._outcomes(bounds)]
        return verdicts

    def _same(self, outcomes: int) -> _Of:
        return lambda bounds: np.full(len(bounds.rows), outcomes, np.uint8)

    def _mapped(self, inner: _Of, table: list[int]) -> _Of:
        taken = np.array(table, np.uint8)
        return lambda bounds: taken[inner(bounds)]

    def _combined(self, parts: list[_Of], table: list[list[int]]) -> _Of:
        flat = np.array(table, np.uint8).reshape(-1)
        return lambda bounds: functools.reduce(
            lambda left, right: flat[(left << 3) | right], (part(bounds) for part in parts)
        )

    def _null_test(self, name: str) -> _Of:
        def outcomes(bounds: FileBounds) -> _Bits:
            known = bounds.columns.get(name)
            if known is None:
                return np.full(len(bounds.rows), TRUE | FALSE, np.uint8)
            nulls = known.nulls
            counted = (nulls > 0) * np.uint8(TRUE) | (nulls < bounds.rows) * np.uint8(FALSE)
            return np.where(nulls == UNKNOWN, np.uint8(TRUE | FALSE), counted)

        return outcomes

    def _compared(self, op: CompareOp, name: str, constant: object) -> _Of:
        value = plain_value(constant)
        if value is None:
            return self._same(NULL)
        if value != value:
            return _of_values(name, lambda known: np.full(len(known.nulls), TRUE | FALSE, np.uint8))
        key = self._encode(name, constant)
        if op in ("=", "<>"):
            hit, miss = (TRUE, FALSE) if op == "=" else (FALSE, TRUE)
            return _of_values(name, lambda known: _equal(known, key, hit, miss))
        upward = op in ("<", "<=")
        below, above = (TRUE, FALSE) if upward else (FALSE, TRUE)
        # What is below the key, or the key too: so the outcome of the key itself is said once.
        closed = op in ("<=", ">")
        nan_outcome = FALSE if isinstance(value, float) else 0

        def outcomes(known: ColumnarBounds) -> _Bits:
            lower = known.low.compare("<=" if closed else "<", key)
            upper = known.high.compare(">" if closed else ">=", key)
            made = lower * np.uint8(below) | upper * np.uint8(above)
            # A NaN is above every number or compares as false, and is there only without a high bound.
            return made | known.high.unknown * np.uint8(nan_outcome) if nan_outcome else made

        return _of_values(name, outcomes)

    def _among(self, name: str, constants: tuple[Any, ...]) -> _Of:
        values = [plain_value(constant) for constant in constants]
        keys = sorted(
            {
                self._encode(name, constant)
                for constant, value in zip(constants, values, strict=True)
                if value is not None and value == value
            }
        )
        # Of floats 0.0 and -0.0, or NaNs, may count as one value or as two.
        vague = any(isinstance(value, float) for value in values)
        with_nan = any(value != value for value in values)
        miss = NULL if None in values else FALSE

        def outcomes(known: ColumnarBounds) -> _Bits:
            hit, only = _any_held(known, keys)
            made = np.where(hit | with_nan, np.uint8(TRUE | miss), np.uint8(miss))
            return made if vague else np.where(only, np.uint8(TRUE), made)

        return _of_values(name, outcomes)

    def _beginning(self, name: str, prefix: str, *, exact: bool) -> _Of:
        key = self._encode(name, prefix)
        return _of_values(name, lambda known: _beginning(known, key, exact))


_VERDICT_OF = np.array([2 if bits == TRUE else 1 if bits & TRUE else 0 for bits in range(8)], np.uint8)


def _of_values(name: str, outcomes: _OfBounds) -> _Of:
    """Outcomes of what is null for nulls, given those for the values between two bounds."""

    def with_nulls(bounds: FileBounds) -> _Bits:
        known = bounds.columns.get(name)
        if known is None:
            return np.full(len(bounds.rows), ANY, np.uint8)
        made = outcomes(known) | (known.nulls != 0) * np.uint8(NULL)
        empty = (known.nulls != UNKNOWN) & (known.nulls >= bounds.rows)
        return np.where(empty, np.where(known.nulls > 0, np.uint8(NULL), np.uint8(0)), made)

    return with_nulls


def _held(known: ColumnarBounds, key: Any) -> tuple[_Mask, _Mask]:
    """Returns for each file whether a key is within the bounds, and whether it surely equals both of them."""
    within = known.low.compare("<=", key) & known.high.compare(">=", key)
    only = known.low.compare("==", key, unknown=False) & known.high.compare("==", key, unknown=False)
    return within, only


def _equal(known: ColumnarBounds, key: Any, hit: int, miss: int) -> _Bits:
    within, only = _held(known, key)
    made = np.where(within, np.uint8(hit | miss), np.uint8(miss))
    return np.where(only, np.uint8(hit), made)


def _any_held(known: ColumnarBounds, keys: list[Any]) -> tuple[_Mask, _Mask]:
    """Returns whether one of ascending keys may be within the bounds, and whether one surely equals both."""
    nothing = np.zeros(len(known.nulls), np.bool_)
    if len(keys) <= _LOOPED_MAX:
        held = [_held(known, key) for key in keys]
        withins, onlys = [within for within, _ in held], [only for _, only in held]
        return functools.reduce(np.logical_or, withins, nothing), functools.reduce(
            np.logical_or, onlys, nothing
        )
    lows, highs = known.low.ranks(unknown_least=True), known.high.ranks(unknown_least=False)
    ranks = known.low.ranks_of(keys)
    if lows is None or highs is None or ranks is None:
        return known.low.compare("<=", keys[-1]) & known.high.compare(">=", keys[0]), nothing
    # Several keys may have one rank, so nothing is known for sure where one is within the bounds.
    at = np.searchsorted(ranks, lows, side="left")
    return (at < len(ranks)) & (ranks[np.minimum(at, len(ranks) - 1)] <= highs), nothing


def _beginning(known: ColumnarBounds, key: Any, exact: bool) -> _Bits:
    begin = known.low.beginnings(key)
    may = begin.compare("<=", key) & known.high.compare(">=", key)
    made = np.where(may, np.uint8(TRUE | FALSE), np.uint8(FALSE))
    if not exact:
        return made
    every = begin.compare("==", key, unknown=False) & known.high.beginnings(key).compare(
        "==", key, unknown=False
    )
    return np.where(every, np.uint8(TRUE), made)


_RELATIONS: Mapping[str, tuple[Callable[[Any, Any], Any], str]] = {
    "<": (np.less, "less"),
    "<=": (np.less_equal, "less_equal"),
    "==": (np.equal, "equal"),
    ">=": (np.greater_equal, "greater_equal"),
    ">": (np.greater, "greater"),
}


class _Ends:
    """The low or the high bound of a column in many files, to be compared with constants.

    Values are compared by numbers that ascend as they do, their ranks. Those of bytes and texts are their
    first eight bytes, so that values of the rank of the constant are compared once more, as they are.
    """

    __slots__ = ("_array", "_is_exact", "_ranks", "unknown")

    def __init__(self, array: pa.Array) -> None:
        if pa.types.is_floating(array.type):
            # NaN bounds nothing: it is among values that are above and below it.
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        self._array = array
        self.unknown: _Mask = _mask(array.is_null())
        """For each file, True if the bound is unknown."""
        self._ranks, self._is_exact = _ranks(array)

    def compare(self, relation: str, key: Any, *, unknown: bool = True) -> _Mask:
        """Returns for each file whether its bound is in a relation to a key; ``unknown`` if not known."""
        by_rank, by_value = _RELATIONS[relation]
        ranks, key_ranks = self._ranks, self.ranks_of([key])
        if ranks is None or key_ranks is None:
            found = getattr(pc, by_value)(self._array, pa.scalar(key, self._array.type))
            mask = _mask(found.fill_null(unknown))
        else:
            rank = key_ranks[0]
            mask = by_rank(ranks, rank)
            if not self._is_exact:
                tied = np.flatnonzero(ranks == rank)
                if len(tied):
                    again = getattr(pc, by_value)(self._array.take(tied), pa.scalar(key, self._array.type))
                    mask[tied] = _mask(again.fill_null(unknown))
            mask[self.unknown] = unknown
        return mask

    def ranks(self, *, unknown_least: bool) -> npt.NDArray[Any] | None:
        """Numbers that ascend as the bounds do; unknown ones have the least or the greatest. None = none."""
        if self._ranks is None or not self.unknown.any():
            return self._ranks
        limits: Any = np.finfo if self._ranks.dtype.kind == "f" else np.iinfo
        end = limits(self._ranks.dtype).min if unknown_least else limits(self._ranks.dtype).max
        if self._ranks.dtype.kind == "f":
            end = -np.inf if unknown_least else np.inf
        return np.where(self.unknown, self._ranks.dtype.type(end), self._ranks)

    def ranks_of(self, keys: list[Any]) -> npt.NDArray[Any] | None:
        """Returns the ranks of constants, comparable with those of the bounds; None if these have none."""
        return _ranks(pa.array(keys, self._array.type))[0]

    def beginnings(self, key: str | bytes) -> _Ends:
        """Returns of each bound as many characters (of binary bounds: bytes) as the key has."""
        cut = pc.binary_slice if isinstance(key, bytes) else pc.utf8_slice_codeunits
        return _Ends(cut(self._array, 0, len(key)))


def _mask(array: pa.Array) -> _Mask:
    # A copy, because masks are written into.
    mask: _Mask = np.array(array.to_numpy(zero_copy_only=False), np.bool_)
    return mask


def _ranks(array: pa.Array) -> tuple[npt.NDArray[Any] | None, bool]:
    """Numbers that ascend as values do, with any for null; and whether equal ones mean equal values."""
    kind = array.type
    if pa.types.is_floating(kind):
        return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64), True
    if pa.types.is_temporal(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_unsigned_integer(kind):
        return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64), True
    if pa.types.is_integer(array.type):
        return array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), True
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _prefixes(array.cast(pa.binary() if pa.types.is_string(kind) else pa.large_binary())), False
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _prefixes(array), False
    return None, True


def _prefixes(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns the first eight bytes of each value as a big-endian number, with zeros behind short values."""
    of_one_width = _of_one_width(array)
    if of_one_width is not None:
        return of_one_width
    zeros = pa.scalar(bytes(_PREFIX_BYTES), array.type)
    nothing = pa.scalar(b"", array.type)
    padded = pc.binary_join_element_wise(array.fill_null(b""), zeros, nothing)
    cut = pc.binary_slice(padded, 0, _PREFIX_BYTES).cast(pa.binary(_PREFIX_BYTES))
    return np.frombuffer(cut.buffers()[1], ">u8", len(cut), cut.offset * _PREFIX_BYTES).astype(np.uint64)


def _of_one_width(array: pa.Array) -> npt.NDArray[np.uint64] | None:
    """Returns the same where all values have one width, as those of numbers do, in a tenth of the time."""
    count = len(array)
    if array.null_count or not count:
        return None
    offsets = np.frombuffer(
        array.buffers()[1], np.int64 if pa.types.is_large_binary(array.type) else np.int32
    )
    offsets = offsets[array.offset : array.offset + count + 1]
    width = int(offsets[1] - offsets[0])
    if not width or not (np.diff(offsets) == width).all():
        return None
    data = np.frombuffer(array.buffers()[2], np.uint8, count * width, int(offsets[0])).reshape(count, width)
    first = np.zeros((count, _PREFIX_BYTES), np.uint8)
    first[:, : min(width, _PREFIX_BYTES)] = data[:, :_PREFIX_BYTES]
    return first.view(">u8").reshape(count).astype(np.uint64)
