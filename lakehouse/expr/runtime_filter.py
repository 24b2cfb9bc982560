"""Runtime filters: what is learnt of a column while a query runs, such as the keys of a join's small side.

A :class:`RuntimeFilter` is a condition on one column, made of wanted values, a range, a Bloom filter, a
prefix or a predicate. It drops files by their bounds (:meth:`RuntimeFilter.judge`), as a condition of the
query does, and rows (:meth:`RuntimeFilter.to_condition`). :func:`among` makes a condition of values alone:
listed while they are few, else as ranges.

Invariant: nothing is dropped that has, or may have, a row that the filter lets through.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.expr.bind import bind, fit_constant, type_of
from lakehouse.expr.columnar import UNKNOWN, ColumnarBounds, ColumnarJudge, FileBounds, SortedKeys, any_held
from lakehouse.expr.evaluate import matching
from lakehouse.expr.nodes import (
    Applied,
    Column,
    Constant,
    Expr,
    FunctionCall,
    In,
    IsNull,
    all_of,
    any_of,
    col,
)
from lakehouse.expr.parse import parse_where
from lakehouse.expr.required import next_prefix
from lakehouse.expr.rewrite import with_ranges_listed
from lakehouse.expr.text import to_sql, value_to_sql
from lakehouse.kernels.arrays import I64, Mask
from lakehouse.kernels.exact_casts import cast_exactly, family_of
from lakehouse.kernels.value_hashes import whole_numbers

__all__ = ["Bloom", "RuntimeFilter", "among", "fitting"]

_LISTED_MAX = 64
"""Maximum values of a range that is asked value by value."""
_ASKED_MAX = 1 << 22
"""Maximum values of all ranges together that a Bloom filter is asked for."""
_CONDITION_MAX = 10_000
"""Maximum values of a condition on rows that lists them."""
_SHOWN_MAX = 5

_Drops: TypeAlias = Callable[[FileBounds], Mask]


class Bloom(Protocol):
    """A Bloom filter, of anybody's make."""

    def might_contain(self, values: pa.Array) -> Mask:
        """Returns for each value whether it may be one of the wanted ones."""
        ...


class RuntimeFilter(abc.ABC):
    """A filter on one column that is known only while a query runs."""

    __slots__ = ()
    column: str
    """Name of the column; a dot leads into a struct."""

    @staticmethod
    def in_(
        column: str, values: Iterable[Any] | pa.Array | pa.ChunkedArray, *, null_aware: bool = False
    ) -> RuntimeFilter:
        """Lets through rows with one of some values.

        Args:
            column: name of the column.
            values: wanted values; nulls among them count only if ``null_aware``. Those that the column cannot
                have match no row.
            null_aware: True if a null among the values lets rows without a value through.
        """
        return _In(column=_named(column), values=_collected(values), null_aware=null_aware)

    @staticmethod
    def range(
        column: str,
        low: Any = None,
        high: Any = None,
        low_inclusive: bool = True,
        high_inclusive: bool = True,
    ) -> RuntimeFilter:
        """Lets through rows with a value in a range; None = the range has no such end."""
        if low is None and high is None:
            raise InvalidInputError(f"a range of {column} has a low end, a high end or both")
        column = _named(column)
        ends: list[Expr] = []
        if low is not None:
            ends.append(col(column) >= low if low_inclusive else col(column) > low)
        if high is not None:
            ends.append(col(column) <= high if high_inclusive else col(column) < high)
        return _Where(column=column, where=all_of(*ends), rejects_nulls=True)

    @staticmethod
    def bloom(column: str, bloom: Bloom) -> RuntimeFilter:
        """Lets through rows with a value that may be in a Bloom filter."""
        return _Asked(column=_named(column), asked=bloom)

    @staticmethod
    def prefix(column: str, prefix: str | bytes) -> RuntimeFilter:
        """Lets through rows with a text, or bytes, that begin with a prefix."""
        column = _named(column)
        if isinstance(prefix, str):
            return _Where(column=column, where=col(column).starts_with(prefix), rejects_nulls=True)
        end = next_prefix(prefix)
        ends = [col(column) >= prefix] + ([] if end is None else [col(column) < end])
        return _Where(column=column, where=all_of(*ends), rejects_nulls=True)

    @staticmethod
    def predicate(condition: Expr | str) -> RuntimeFilter:
        """Lets through rows that meet a condition on one column.

        Raises:
            InvalidInputError: it is a condition on no column or on several, or it needs an index's words.
        """
        where = parse_where(condition) if isinstance(condition, str) else condition
        names = sorted(where.columns())
        if len(names) != 1:
            named = ", ".join(names) or "none"
            raise InvalidInputError(f"a runtime filter is on one column, and {to_sql(where)} names {named}")
        if any(isinstance(node, Applied) or _is_matches(node) for node in where.walk()):
            raise InvalidInputError(
                f"{to_sql(where)}: words are looked for by a query, not by a runtime filter"
            )
        return _Where(column=names[0], where=where, rejects_nulls=_rejects_nulls(where, names[0]))

    @property
    @abc.abstractmethod
    def is_null_rejecting(self) -> bool:
        """Whether no row without a value is let through; False where that is not known."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Returns the filter as a short text, for explanations."""

    @abc.abstractmethod
    def bound(self, schema: pa.Schema) -> Callable[[FileBounds], Mask]:
        """Returns :meth:`judge` for one schema, so that values are converted once for many calls."""

    @abc.abstractmethod
    def to_condition(self, schema: pa.Schema) -> Expr:
        """Returns the filter as a condition on rows, to be bound to the schema as others are.

        Raises:
            InvalidInputError: there is no such column, or the filter makes no sense for its type.
        """

    def judge(self, bounds: FileBounds, schema: pa.Schema) -> Mask:
        """Returns for each file, or whatever else is bounded, whether no row of it is let through.

        Args:
            bounds: bounds of columns; of partition values, of metrics or of both.
            schema: the table's columns, of whose types bounds are.

        Raises:
            InvalidInputError: there is no such column, or the filter makes no sense for its type.
        """
        return self.bound(schema)(bounds)

    def __str__(self) -> str:
        return self.describe()


def _named(column: str) -> str:
    return col(column).name


def _rejects_nulls(where: Expr, name: str) -> bool:
    """Returns whether a condition on one column is not true for null, which is null whatever the type."""
    kinds = (pa.int64(), pa.string(), pa.timestamp("us"), pa.date32(), pa.bool_(), pa.binary(), pa.float64())
    for kind in kinds:
        row = pa.table([pa.nulls(1, kind)], names=[name])
        with contextlib.suppress(InvalidInputError, pa.ArrowException):
            return not matching(bind(where, row.schema), row)[0].as_py()
    return False


def _is_matches(node: Expr) -> bool:
    return isinstance(node, FunctionCall) and node.name == "matches"


def _collected(values: Iterable[Any] | pa.Array | pa.ChunkedArray) -> pa.Array | tuple[Any, ...]:
    """Returns values as an array, or as they are where they have several types."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    if isinstance(values, pa.Array):
        return values
    given = tuple(values)
    with contextlib.suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array(given)
    return given


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Where(RuntimeFilter):
    """A filter that is a condition."""

    column: str
    where: Expr
    rejects_nulls: bool

    @property
    def is_null_rejecting(self) -> bool:
        return self.rejects_nulls

    def describe(self) -> str:
        return to_sql(self.where)

    def bound(self, schema: pa.Schema) -> _Drops:
        where = bind(self.to_condition(schema), schema)
        plain = ColumnarJudge(where)
        listed = with_ranges_listed(where, max_values=_LISTED_MAX)
        of_buckets = plain if listed.same_as(where) else ColumnarJudge(listed)

        def drops(bounds: FileBounds) -> Mask:
            # Lists are asked of hashes; ends of ranges say the same of bounds, and more quickly.
            is_hashed = any(known.residues for known in bounds.columns.values())
            dropped: Mask = (of_buckets if is_hashed else plain)(bounds) == 0
            return dropped

        return drops

    def to_condition(self, schema: pa.Schema) -> Expr:
        bind(self.where, schema)
        _check_prefix(self.where, schema)
        return self.where


def _check_prefix(where: Expr, schema: pa.Schema) -> None:
    """Refuses prefixes of what is no text, which would fail only when rows are read."""
    for node in where.walk():
        if isinstance(node, FunctionCall) and node.name == "starts_with":
            kind = type_of(_resolved(next(iter(node.columns())), schema), schema)
            if kind is not None and family_of(kind) != "text":
                raise InvalidInputError(f"{to_sql(node)}: {kind} has no prefix that is text")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _In(RuntimeFilter):
    """A filter that has wanted values."""

    column: str
    values: pa.Array | tuple[Any, ...]
    null_aware: bool

    @property
    def _with_null(self) -> bool:
        if isinstance(self.values, tuple):
            has_null = any(value is None for value in self.values)
        else:
            has_null = self.values.null_count > 0
        return self.null_aware and has_null

    @property
    def is_null_rejecting(self) -> bool:
        return not self._with_null

    def describe(self) -> str:
        first = self.values[: _SHOWN_MAX + 1]
        if isinstance(first, pa.Array) and pa.types.is_timestamp(first.type) and first.type.unit == "ns":
            first = first.cast(pa.string())  # Python has no moments with nanoseconds
        plain = first.to_pylist() if isinstance(first, pa.Array) else first
        texts = [value_to_sql(value) for value in plain if value is not None][:_SHOWN_MAX]
        more = f", … {len(self.values):,} values" if len(self.values) > _SHOWN_MAX else ""
        or_null = f" OR {self.column} IS NULL" if self._with_null else ""
        return f"{self.column} IN ({', '.join(texts)}{more}){or_null}"

    def _of(self, schema: pa.Schema) -> tuple[str, pa.DataType, pa.Array]:
        """Returns the column's name, its type, and the values that it can have."""
        column = _resolved(self.column, schema)
        kind = cast(pa.DataType, type_of(column, schema))
        return column.name, kind, _converted(self.values, kind, column)

    def bound(self, schema: pa.Schema) -> _Drops:
        name, _, values = self._of(schema)
        with_nan = False
        if pa.types.is_floating(values.type):
            is_nan = pc.is_nan(values)
            with_nan, values = bool(pc.any(is_nan).as_py()), values.filter(pc.invert(is_nan))
        keys = SortedKeys(values)

        def drops(bounds: FileBounds) -> Mask:
            known = bounds.columns.get(name)
            if known is None:
                nothing = not len(keys) and not with_nan and not self._with_null
                return np.full(len(bounds.rows), nothing)
            found = any_held(known, keys)
            if with_nan:
                found |= known.nan
            kept = found & ~_without_values(known, bounds.rows)
            if self._with_null:
                kept |= known.nulls != 0
            return ~kept

        return drops

    def to_condition(self, schema: pa.Schema) -> Expr:
        name, kind, values = self._of(schema)
        if len(values) <= _CONDITION_MAX:
            # Python has no moments with nanoseconds.
            is_fine = pa.types.is_timestamp(kind) and kind.unit == "ns"
            where: Expr = In(col(name), tuple(values if is_fine else values.to_pylist()))
        else:
            ranges = among(name, kind, values, max_values=0)
            call = FunctionCall("among", (Column(name), Constant(f"{len(values):,} values")))
            where = all_of(ranges, Applied(call, lambda tested: _is_among(tested, values)))
        return any_of(where, IsNull(Column(name))) if self._with_null else where


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked(RuntimeFilter):
    """A filter that asks a Bloom filter for values."""

    column: str
    asked: Bloom

    @property
    def is_null_rejecting(self) -> bool:
        return True

    def describe(self) -> str:
        count = getattr(self.asked, "values", None)
        of = f" of {count:,} values" if isinstance(count, int) else ""
        return f"{self.column} in a Bloom filter{of}"

    def bound(self, schema: pa.Schema) -> _Drops:
        name = _resolved(self.column, schema).name

        def drops(bounds: FileBounds) -> Mask:
            known = bounds.columns.get(name)
            if known is None:
                return np.zeros(len(bounds.rows), np.bool_)
            dropped = _without_values(known, bounds.rows)
            dropped[np.flatnonzero(known.single)] |= self._lacks_single(known)
            self._ask_ranges(known, dropped)
            return dropped

        return drops

    def _lacks_single(self, known: ColumnarBounds) -> Mask:
        """Returns for the files with one value each whether it is not wanted."""
        coded = known.low.array.filter(pa.array(known.single)).dictionary_encode()
        lacks: Mask = ~_contained(self.asked, coded.dictionary)[coded.indices.to_numpy()]
        return lacks

    def _ask_ranges(self, known: ColumnarBounds, dropped: Mask) -> None:
        """Drops files with a few whole numbers or days between their ends, none of which is wanted."""
        kind = known.low.array.type
        if not (pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)):
            return
        lows, highs = (whole_numbers(ends.array) for ends in (known.low, known.high))
        few = (highs >= lows) & (highs.view(np.uint64) - lows.view(np.uint64) < _LISTED_MAX)
        few &= ~(known.low.unknown | known.high.unknown | known.single | dropped)
        places = np.flatnonzero(few)
        sizes = highs[places] - lows[places] + 1
        if not len(places) or sizes.sum() > _ASKED_MAX:
            return
        begins = np.cumsum(sizes) - sizes
        numbers = np.arange(sizes.sum()) - np.repeat(begins - lows[places], sizes)
        plain = pa.int32() if pa.types.is_date32(kind) else kind
        coded = pa.array(numbers, plain).cast(kind).dictionary_encode()
        contained = _contained(self.asked, coded.dictionary)[coded.indices.to_numpy()]
        dropped[places] |= ~np.logical_or.reduceat(contained, begins)

    def to_condition(self, schema: pa.Schema) -> Expr:
        column = _resolved(self.column, schema)
        call = FunctionCall("might_contain", (column, Constant(self.describe())))
        return Applied(call, lambda tested: _asked(self.asked, tested))


def _is_among(tested: Any, values: pa.Array) -> Any:
    if pa.types.is_floating(tested.type):
        # Arrow compares bits, in which the two zeros differ.
        tested, values = pc.add(tested, 0.0), pc.add(values, 0.0)
    return pc.if_else(pc.is_null(tested), pa.scalar(None, pa.bool_()), pc.is_in(tested, value_set=values))


def _asked(bloom: Bloom, tested: Any) -> Any:
    if isinstance(tested, pa.Scalar):
        return _asked(bloom, pa.array([tested.as_py()], tested.type))[0]
    if isinstance(tested, pa.ChunkedArray):
        return pa.chunked_array([_asked(bloom, chunk) for chunk in tested.chunks], pa.bool_())
    contained = pa.array(_contained(bloom, tested))
    return pc.if_else(tested.is_null(), pa.scalar(None, pa.bool_()), contained)


def _contained(bloom: Bloom, values: pa.Array) -> Mask:
    contained = np.asarray(bloom.might_contain(values), np.bool_)
    if pa.types.is_floating(values.type):
        # Both zeros are equal here, and to some hashes they are not.
        contained = contained | pc.equal(values, 0.0).fill_null(False).to_numpy(zero_copy_only=False)
    return contained


def _without_values(known: ColumnarBounds, rows: I64) -> Mask:
    """Returns for each file whether no row of it has a value."""
    without: Mask = (known.nulls != UNKNOWN) & (known.nulls >= rows)
    return without


def _resolved(name: str, schema: pa.Schema) -> Column:
    """Returns the column under the name that conditions on it are bound to."""
    (bound,) = bind(IsNull(col(name)), schema).columns()
    return Column(bound)


def _converted(values: pa.Array | Sequence[Any], kind: pa.DataType, column: Column) -> pa.Array:
    """Returns the values that a column of a type can have, without nulls."""
    if isinstance(values, pa.Array) and (
        family_of(values.type) == family_of(kind)
        or pa.types.is_null(values.type)
        or not _is_text(values.type)
    ):
        return cast_exactly(values, kind).drop_null()
    fitted = []
    for value in values.to_pylist() if isinstance(values, pa.Array) else values:
        fit = None if value is None else fit_constant(value, kind, column)
        if fit is None and value is not None:
            raise InvalidInputError(f"{column.name} is {kind} and has no value equal to {value!r}")
        if fit is not None and fit[1] == 0:
            fitted.append(fit[0])
    return pa.array(fitted, kind)


def _is_text(kind: pa.DataType) -> bool:
    return family_of(kind) == "text"


_RANGES = 16
"""Maximum number of ranges; more cost more per row than they filter out."""


def among(name: str, kind: pa.DataType, values: pa.Array, *, max_values: int) -> Expr:
    """Returns a condition that is true where the column has one of these values.

    Args:
        name: of the column.
        kind: its type, whose values have an order.
        values: wanted values, of a type that casts to it; nulls are ignored.
        max_values: maximum number of listed values; more become ranges, divided at the widest gaps.
    """
    distinct = pc.unique(fitting(values, kind))
    column = col(name)
    if len(distinct) <= max_values or not len(distinct):
        return column.is_in(distinct.to_pylist())
    ordered = distinct.take(pc.sort_indices(distinct))
    begins = _begins(ordered)
    ends = np.append(begins[1:] - 1, len(ordered) - 1)
    lows, highs = (ordered.take(pa.array(places)).to_pylist() for places in (begins, ends))
    return any_of(*(column.between(low, high) for low, high in zip(lows, highs, strict=True)))


def fitting(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Casts values to the column's type, and drops those that it cannot hold: no row has them."""
    return cast_exactly(values, kind).drop_null()


def _begins(ordered: pa.Array) -> I64:
    """Returns the places at which ranges begin among ascending values."""
    count = min(_RANGES, len(ordered))
    try:
        numbers = ordered if pa.types.is_integer(ordered.type) else ordered.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Gaps between texts have no width: ranges get equal numbers of values instead.
        return np.arange(count, dtype=np.int64) * len(ordered) // count
    gaps = np.diff(numbers.to_numpy(zero_copy_only=False).astype(np.float64))
    widest = np.sort(np.argsort(gaps)[len(gaps) - count + 1 :])
    return np.concatenate([np.zeros(1, np.int64), widest + 1])
