"""Judges the bounds of many files at once, as :class:`lakehouse.expr.bounds.Judge` does those of one.

A judge of single files costs some microseconds of Python for each; a table of a million files is judged here
with a few passes over its columns of bounds.

Invariant: what the judge of single files says of a file is said of it here too. NONE or ALL may be said where
that one says SOME, because more can be known of a file: that its high end is excluded, the residues of its
values' hashes, and that all its values are one, of which then every function is computed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.expr.bounds import ANY, FALSE, NULL, TRUE, Outcomes, Verdict
from lakehouse.expr.ends import Ends
from lakehouse.expr.evaluate import evaluate
from lakehouse.expr.nodes import Applied, CompareOp, Expr
from lakehouse.expr.required import next_prefix
from lakehouse.kernels.arrays import I32, I64, U8, Mask

__all__ = [
    "UNKNOWN",
    "VERDICTS",
    "ColumnarBounds",
    "ColumnarJudge",
    "FileBounds",
    "Residues",
    "SortedKeys",
    "any_held",
]

VERDICTS = (Verdict.NONE, Verdict.SOME, Verdict.ALL)
"""Verdicts, numbered so that many take a byte each."""
UNKNOWN = -1
"""A count of nulls that is not known."""
_LOOPED_MAX = 8
"""Constants up to here are compared one by one, each with two passes over the bounds."""
_TABLE_MAX = 1 << 20
"""Residues up to here are looked up in a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residues:
    """Numbers that all values of a column have in a file, such as those of buckets, made of their hashes."""

    of: Callable[[pa.Array], I32]
    """Makes the residues of constants of the column's type."""
    least: I32
    """Least residue in each file; :data:`UNKNOWN` = not known."""
    greatest: I32
    """Greatest residue; the same array where each file has one."""

    def held(self, constants: pa.Array) -> Mask:
        """Returns for each file whether the residue of one of the constants may be in it."""
        wanted = np.unique(self.of(constants))
        if not len(wanted):
            return np.zeros(len(self.least), np.bool_)
        if len(wanted) == 1:
            found = (self.least <= wanted[0]) & (self.greatest >= wanted[0])
        elif wanted[-1] < _TABLE_MAX:
            found = self._counted(wanted)
        else:
            at = np.searchsorted(wanted, self.least)
            found = (at < len(wanted)) & (wanted[np.minimum(at, len(wanted) - 1)] <= self.greatest)
        held: Mask = found | (self.least == UNKNOWN) | (self.greatest == UNKNOWN)
        return held

    def _counted(self, wanted: I32) -> Mask:
        """Looks residues up in a table of how many wanted ones are below each number."""
        below = np.searchsorted(wanted, np.arange(wanted[-1] + 2, dtype=wanted.dtype))
        top = len(below) - 1
        before = below[np.clip(self.least, 0, top)]
        upto = below[np.clip(self.greatest, -1, top - 1) + 1]
        found: Mask = upto > before
        return found


class ColumnarBounds:
    """Bounds of one column in every file.

    Args:
        low: not above any value of the file; null = not known, or there is none.
        high: not below any value of the file, NaN aside; null likewise.
        nulls: rows without a value; :data:`UNKNOWN` = not known.
        high_open: files whose values are all below the high bound; None = a value may equal it in any.
        residues: what is known of the hashes of the values.
        nan: files that may have a NaN; None = those without a known high end. In a file that has no value but
            NaN the low end is infinity and the high one its negative.
    """

    __slots__ = ("_nan", "_single", "high", "high_open", "low", "nulls", "residues")

    def __init__(
        self,
        low: pa.Array,
        high: pa.Array,
        nulls: I64,
        *,
        high_open: Mask | None = None,
        residues: Sequence[Residues] = (),
        nan: Mask | None = None,
    ) -> None:
        self.low = Ends(low)
        self.high = self.low if high is low else Ends(high)
        self.nulls, self.residues = nulls, tuple(residues)
        self.high_open = high_open if high_open is not None and high_open.any() else None
        self._nan = nan if pa.types.is_floating(low.type) else None
        self._single: Mask | None = None

    @property
    def nan(self) -> Mask:
        """For each file, True if a NaN may be among its values, if these are floats."""
        return self.high.unknown if self._nan is None else self._nan

    @property
    def single(self) -> Mask:
        """For each file, True if all its values are known to be equal."""
        if self._single is None:
            same = self.low.equals(self.high)
            if self.high_open is not None:
                same &= ~self.high_open
            self._single = same if self._nan is None else same & ~self._nan
        return self._single

    @property
    def only_nan(self) -> Mask | None:
        """For each file, True if all its values are NaN; None = nothing is known of NaN."""
        if self._nan is None:
            return None
        return (
            self._nan
            & self.low.compare("==", np.inf, unknown=False)
            & (self.high.compare("==", -np.inf, unknown=False))
        )

    def reaches(self, key: Any) -> Mask:
        """Returns for each file whether some value may be the key or above it."""
        reached = self.high.compare(">=", key)
        if self.high_open is not None:
            reached &= ~(self.high_open & self.high.compare("==", key, unknown=False))
        return reached

    def may_have(self, constants: pa.Array) -> Mask | None:
        """Returns for each file whether a value may be one of these by their hashes; None = any may."""
        held = [residues.held(constants) for residues in self.residues]
        return functools.reduce(np.logical_and, held) if held else None

    def intersected(self, other: ColumnarBounds) -> ColumnarBounds:
        """Returns the bounds that both together are: the higher of the low ones, the lower of the high ones.

        Where they contradict each other, no row is expected, and nothing is said that would hold for one.
        """
        low = _chosen(pc.max_element_wise, self.low.array, other.low.array)
        high = _chosen(pc.min_element_wise, self.high.array, other.high.array)
        opens = [
            bounds.high_open & Ends(high).equals(bounds.high)
            for bounds in (self, other)
            if bounds.high_open is not None
        ]
        return ColumnarBounds(
            low,
            low if high.equals(low) else high,
            np.where(self.nulls == UNKNOWN, other.nulls, self.nulls),
            high_open=functools.reduce(np.logical_or, opens) if opens else None,
            residues=(*self.residues, *other.residues),
            nan=None if self._nan is None and other._nan is None else self.nan & other.nan,
        )


def _chosen(of_both: Callable[..., pa.Array], one: pa.Array, other: pa.Array) -> pa.Array:
    """Returns of each file the better of two ends, or the one that is known."""
    if one.null_count == len(one):
        return other
    if other.null_count == len(other):
        return one
    kind = one.type
    if pa.types.is_boolean(kind):
        one, other = one.cast(pa.uint8()), other.cast(pa.uint8())
        return of_both(one, other, skip_nulls=True).cast(kind)
    if pa.types.is_timestamp(kind):
        # Moments of a zone have no kernel; their numbers ascend alike.
        one, other = one.view(pa.int64()), other.view(pa.int64())
    if pa.types.is_boolean(kind):
        return of_both(one.cast(pa.int8()), other.cast(pa.int8()), skip_nulls=True).cast(kind)
    return of_both(one, other, skip_nulls=True).view(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBounds:
    """Bounds of some columns in every file."""

    rows: I64
    """Maximum number of rows of each file."""
    columns: Mapping[str, ColumnarBounds] = field(default_factory=dict)
    """Bounds by column name; nothing is known, in any file, of a column that is missing."""


_Of: TypeAlias = Callable[[FileBounds], U8]
_OfBounds: TypeAlias = Callable[[ColumnarBounds], U8]


class ColumnarJudge(Outcomes[FileBounds, U8]):
    """A condition made ready to judge many files at once; see :class:`Outcomes` for the arguments.

    Keys that ``encode`` makes must be of the type of the bounds: bytes for encoded bounds, else values.
    """

    __slots__ = ()

    def __call__(self, bounds: FileBounds) -> U8:
        """Returns the verdict of each file, as its place in :data:`VERDICTS`."""
        verdicts: U8 = _VERDICT_OF[self._outcomes(bounds)]
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
        def outcomes(bounds: FileBounds) -> U8:
            known = bounds.columns.get(name)
            if known is None:
                return np.full(len(bounds.rows), TRUE | FALSE, np.uint8)
            nulls = known.nulls
            counted = (nulls > 0) * np.uint8(TRUE) | (nulls < bounds.rows) * np.uint8(FALSE)
            return np.where(nulls == UNKNOWN, np.uint8(TRUE | FALSE), counted)

        return outcomes

    def _key(self, name: str, constant: Any) -> Any:
        """Returns a constant as it is compared with bounds: nanoseconds as numbers, for Python has none."""
        if not self._encoded and isinstance(constant, pa.Scalar) and constant.type in _NANOSECONDS:
            return constant.value
        return self._encode(name, constant)

    def _compared(self, op: CompareOp, name: str, constant: object) -> _Of:
        value = _told(constant)
        if value is None:
            return self._same(NULL)
        if value != value:
            return _of_values(name, lambda known: np.full(len(known.nulls), TRUE | FALSE, np.uint8))
        key = self._key(name, constant)
        if op in ("=", "<>"):
            hit, miss = (TRUE, FALSE) if op == "=" else (FALSE, TRUE)
            return _of_values(name, lambda known: _equal(known, key, hit, miss))
        upward = op in ("<", "<=")
        below, above = (TRUE, FALSE) if upward else (FALSE, TRUE)
        # What is below the key, or the key too: so the outcome of the key itself is said once.
        closed = op in ("<=", ">")
        # A NaN is above every number, or compares as false.
        nan_outcome = above | FALSE if isinstance(value, float) else 0

        def outcomes(known: ColumnarBounds) -> U8:
            lower = known.low.compare("<=" if closed else "<", key)
            upper = known.high.compare(">", key) if closed else known.reaches(key)
            made = lower * np.uint8(below) | upper * np.uint8(above)
            if not nan_outcome:
                return made
            only_nan = known.only_nan
            if only_nan is not None:
                made = np.where(only_nan, np.uint8(0), made)
            return made | known.nan * np.uint8(nan_outcome)

        return _of_values(name, outcomes)

    def _among(self, name: str, constants: tuple[Any, ...]) -> _Of:
        values = [_told(constant) for constant in constants]
        keys = SortedKeys(
            self._key(name, constant)
            for constant, value in zip(constants, values, strict=True)
            if value is not None and value == value
        )
        with_nan = any(value != value for value in values)
        miss = NULL if None in values else FALSE

        def outcomes(known: ColumnarBounds) -> U8:
            hit = _any_held(known, keys)
            made = np.where(hit | with_nan, np.uint8(TRUE | miss), np.uint8(miss))
            # Both zeros are one value, here as among rows, and a file with a NaN has no single one.
            return np.where(hit & known.single, np.uint8(TRUE), made)

        return _of_values(name, outcomes)

    def _beginning(self, name: str, prefix: str, *, exact: bool) -> _Of:
        key = self._encode(name, prefix)
        return _of_values(name, lambda known: _beginning(known, key, exact))

    def _computed(self, expr: Expr) -> _Of | None:
        names = sorted(expr.columns())
        if self._encoded or not names or any(isinstance(node, Applied) for node in expr.walk()):
            return None
        return lambda bounds: _computed(expr, names, bounds)


def _computed(expr: Expr, names: Sequence[str], bounds: FileBounds) -> U8:
    """Computes a condition of files in which each of its columns has one value, or null alone."""
    made = np.full(len(bounds.rows), ANY, np.uint8)
    known = [bounds.columns[name] for name in names if name in bounds.columns]
    if len(known) < len(names):
        return made
    null = [(column.nulls != UNKNOWN) & (column.nulls >= bounds.rows) for column in known]
    single = [_computable(column) | without for column, without in zip(known, null, strict=True)]
    places = np.flatnonzero(functools.reduce(np.logical_and, single))
    if len(places):
        at = pa.array(places)
        values = [
            pc.if_else(pa.array(without[places]), pa.scalar(None, ends.type), ends.take(at))
            for without, ends in zip(null, (column.low.array for column in known), strict=True)
        ]
        made[places] = _outcomes_of(expr, names, values)
    return made


def _computable(known: ColumnarBounds) -> Mask:
    single: Mask = known.single & (known.nulls == 0)
    if pa.types.is_floating(known.low.array.type):
        # Both zeros are equal, and functions tell them apart: 1 / x is one.
        single &= ~known.low.compare("==", 0.0)
    return single


def _outcomes_of(expr: Expr, names: Sequence[str], values: list[pa.Array]) -> U8:
    inverse = None
    if len(values) == 1:
        # Many files have the same value.
        coded = values[0].dictionary_encode()
        # Nulls are a value of their own, at the end.
        with_null = pa.concat_arrays([coded.dictionary, pa.nulls(1, values[0].type)])
        values, inverse = [with_null], coded.indices.fill_null(len(coded.dictionary)).to_numpy()
    try:
        truths = evaluate(expr, pa.table(values, names=list(names)))
    except (pa.ArrowException, InvalidInputError):
        # A value for which it fails says nothing of the others; whoever reads the rows will be told.
        return np.full(1, ANY, np.uint8)
    if isinstance(truths, pa.Scalar):
        truths = pa.array([truths.as_py()], truths.type)
        inverse = None
    if not pa.types.is_boolean(truths.type):
        return np.full(1, ANY, np.uint8)
    if isinstance(truths, pa.ChunkedArray):
        truths = truths.combine_chunks()
    hits = truths.fill_null(False).to_numpy(zero_copy_only=False)
    nulls = truths.is_null().to_numpy(zero_copy_only=False)
    made = np.where(nulls, np.uint8(NULL), np.where(hits, np.uint8(TRUE), np.uint8(FALSE)))
    return made if inverse is None else made[inverse]


_NANOSECONDS = tuple(pa.timestamp("ns", zone) for zone in (None, "UTC"))


def _told(constant: object) -> Any:
    """Returns None for null, the value of a float, and anything but these for others."""
    if isinstance(constant, pa.Scalar):
        return constant.as_py() if pa.types.is_floating(constant.type) or not constant.is_valid else ""
    return constant


_VERDICT_OF = np.array([2 if bits == TRUE else 1 if bits & TRUE else 0 for bits in range(8)], np.uint8)


def _of_values(name: str, outcomes: _OfBounds) -> _Of:
    """Outcomes of what is null for nulls, given those for the values between two bounds."""

    def with_nulls(bounds: FileBounds) -> U8:
        known = bounds.columns.get(name)
        if known is None:
            return np.full(len(bounds.rows), ANY, np.uint8)
        made = outcomes(known) | (known.nulls != 0) * np.uint8(NULL)
        empty = (known.nulls != UNKNOWN) & (known.nulls >= bounds.rows)
        return np.where(empty, np.where(known.nulls > 0, np.uint8(NULL), np.uint8(0)), made)

    return with_nulls


class SortedKeys:
    """Constants in ascending order, each once, as arrays of the types of bounds.

    Args:
        keys: Python values that compare with each other, or an Arrow array without nulls or NaN.
    """

    __slots__ = ("_arrays", "_keys")

    def __init__(self, keys: Iterable[Any] | pa.Array) -> None:
        self._arrays: dict[pa.DataType, pa.Array] = {}
        if isinstance(keys, pa.Array):
            distinct = pc.unique(keys)
            self._arrays[keys.type] = self._keys = distinct.take(pc.sort_indices(distinct))
        else:
            self._keys = sorted(set(keys))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys.to_pylist() if isinstance(self._keys, pa.Array) else self._keys)

    def array(self, kind: pa.DataType) -> pa.Array:
        """Returns the constants as an array of a type."""
        found = self._arrays.get(kind)
        if found is None:
            is_array = isinstance(self._keys, pa.Array)
            found = self._keys.cast(kind) if is_array else pa.array(self._keys, kind)
            self._arrays[kind] = found
        return found


def _may_be(known: ColumnarBounds, key: Any) -> Mask:
    """Returns for each file whether a key may be one of its values."""
    within: Mask = known.low.compare("<=", key) & known.reaches(key)
    hashed = known.may_have(pa.array([key], known.low.array.type)) if known.residues else None
    return within if hashed is None else within & hashed


def any_held(known: ColumnarBounds, keys: SortedKeys) -> Mask:
    """Returns for each file whether one of some keys may be one of its values."""
    array = keys.array(known.low.array.type)
    if not len(array):
        return np.zeros(len(known.nulls), np.bool_)
    if known.single.all() and not pa.types.is_floating(array.type):
        within: Mask = np.array(pc.is_in(known.low.array, array))
    else:
        # The first key that is not below the low end must not be above the high one.
        first = known.low.places_among(array)
        within = known.high.not_below(array, np.minimum(first, len(array) - 1), known.high_open)
        within &= first < len(array)
    hashed = known.may_have(array)
    return within if hashed is None else within & hashed


def _equal(known: ColumnarBounds, key: Any, hit: int, miss: int) -> U8:
    within = _may_be(known, key)
    made = np.where(within, np.uint8(hit | miss), np.uint8(miss))
    return np.where(within & known.single, np.uint8(hit), made)


def _any_held(known: ColumnarBounds, keys: SortedKeys) -> Mask:
    if len(keys) > _LOOPED_MAX:
        return any_held(known, keys)
    each = (_may_be(known, key) for key in keys)
    return functools.reduce(np.logical_or, each, np.zeros(len(known.nulls), np.bool_))


def _beginning(known: ColumnarBounds, key: Any, exact: bool) -> U8:
    begin = known.low.beginnings(key)
    may = begin.compare("<=", key) & known.reaches(key)
    made = np.where(may, np.uint8(TRUE | FALSE), np.uint8(FALSE))
    if not exact:
        return made
    # All texts begin with the empty one, whatever is known of them.
    every = begin.compare("==", key, unknown=not key) & _ends_within(known, key)
    return np.where(every, np.uint8(TRUE), made)


def _ends_within(known: ColumnarBounds, key: Any) -> Mask:
    """Returns for each file whether no value is above those that begin with the key."""
    above = next_prefix(key)
    if above is None:
        return np.ones(len(known.nulls), np.bool_)
    within = known.high.beginnings(key).compare("==", key, unknown=False)
    if known.high_open is not None:
        within |= known.high_open & known.high.compare("==", above, unknown=False)
    return within
