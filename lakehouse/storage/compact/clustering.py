"""Rows of append-only tables in another order: sorted by columns, or along a z-order curve.

Rows are put in order range by range: bounds come from a sample, every chunk of rows is sorted together
with the bounds and cut at them, and what a range gathers is sorted once more. Rows that compare alike keep
the order they came in, by their place, so that every row has exactly one range and any range can be cut.

On a z-order curve each column's values count by their ranks in the sample, spread over as many bits as
every other column's: a column of few values or a skewed one takes part like the others.

Invariant: the order is total and the same wherever it is computed. Nulls come last, NaN before them. All
of it is vectorised.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import InvalidInputError
from lakehouse.format.schema import ListType, MapType, StructType, TableSchema
from lakehouse.kernels.arrays import I64, U64

__all__ = ["PLACE_COLUMN", "ClusterOrder", "Curve", "cut_at", "parse_order", "places", "range_bounds"]

PLACE_COLUMN = "_PLACE"
"""Where a row came from; the last column that rows are sorted by."""
_CURVE_COLUMN = "_CURVE"
_FILE_BITS = 40
_BITS_MAX = 16
_CURVE_BITS = 64
_COLUMNS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOrder:
    """What rows are to be ordered by; a value that travels."""

    columns: tuple[tuple[str, bool], ...]
    """Names, and whether descending."""
    is_curve: bool = False
    """Whether the columns are of equal weight."""

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [name for name, _ in self.columns]


def parse_order(
    schema: TableSchema,
    *,
    sort_by: Sequence[str] | str | None = None,
    zorder_by: Sequence[str] | str | None = None,
) -> ClusterOrder:
    """The order that was asked for.

    Args:
        schema: of the table.
        sort_by: names of columns; ``-name`` is descending.
        zorder_by: names of two to eight columns.

    Raises:
        InvalidInputError: a column is not there or has no order, or not exactly one of both is given.
    """
    if (sort_by is None) == (zorder_by is None):
        raise InvalidInputError("rewrite takes either sort_by or zorder_by")
    given = sort_by if sort_by is not None else zorder_by
    words = [given] if isinstance(given, str) else list(given or ())
    known = {field.name: field for field in schema.fields}
    columns: list[tuple[str, bool]] = []
    for word in words:
        is_down = sort_by is not None and word not in known and word.startswith("-")
        name = word[1:] if is_down else word
        if name not in known or name in [one for one, _ in columns]:
            what = "is named twice" if name in known else f"is not there; these are: {', '.join(known)}"
            raise InvalidInputError(f"column {name!r} {what}", column=name)
        if isinstance(known[name].type, ListType | MapType | StructType):
            raise InvalidInputError(f"column {name!r} is nested and has no order: choose others", column=name)
        columns.append((name, is_down))
    if not columns:
        raise InvalidInputError("name the columns that the rows are to be ordered by")
    if zorder_by is not None and not 2 <= len(columns) <= _COLUMNS_MAX:
        raise InvalidInputError(
            f"zorder_by takes two to {_COLUMNS_MAX} columns, not {len(columns)}: more would order by none of "
            "them, and one is sort_by"
        )
    return ClusterOrder(columns=tuple(columns), is_curve=zorder_by is not None)


def places(file: int, first_row: int, rows: int) -> pa.Array:
    """Where some rows came from: files by number, and rows within them."""
    begin = (file << _FILE_BITS) + first_row
    return pa.array(np.arange(begin, begin + rows, dtype=np.int64))


# --- sorting --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How rows are sorted: by the columns, or by their ranks among the values of a sample."""

    order: ClusterOrder
    edges: tuple[pa.Array, ...] = ()
    """For a curve: of each column, values that part it, ascending and different."""

    @classmethod
    def of(cls, order: ClusterOrder, sample: pa.Table) -> Self:
        """One that fits the values of a sample."""
        if not order.is_curve:
            return cls(order=order)
        most = (1 << _bits(len(order.columns))) - 2
        edges = []
        for name in order.names:
            values = sample.column(name).combine_chunks().drop_null()
            values = values.take(pc.sort_indices(values))
            at = np.unique(np.linspace(0, max(0, len(values) - 1), min(most, len(values)), dtype=np.int64))
            edges.append(_different(values.take(pa.array(at)) if len(values) else values))
        return cls(order=order, edges=tuple(edges))

    def keyed(self, table: pa.Table) -> pa.Table:
        """The rows with what they are sorted by; they have their places already."""
        if not self.order.is_curve:
            return table
        return table.append_column(_CURVE_COLUMN, pa.array(self._codes(table)))

    def bare(self, table: pa.Table) -> pa.Table:
        """The rows without it."""
        extra = [name for name in (_CURVE_COLUMN, PLACE_COLUMN) if name in table.column_names]
        return table.drop_columns(extra)

    def key_columns(self, table: pa.Table) -> pa.Table:
        """Of rows with what they are sorted by, that alone."""
        return table.select([name for name, _ in self._sort_keys()])

    def sorted(self, table: pa.Table) -> pa.Array:
        """Numbers of the rows in order, of rows with what they are sorted by."""
        return pc.sort_indices(table, sort_keys=self._sort_keys())

    def _sort_keys(self) -> list[tuple[str, str]]:
        columns = [(_CURVE_COLUMN, False)] if self.order.is_curve else list(self.order.columns)
        ways = [(name, "descending" if is_down else "ascending") for name, is_down in columns]
        return [*ways, (PLACE_COLUMN, "ascending")]

    def _codes(self, table: pa.Table) -> U64:
        bits = _bits(len(self.order.columns))
        ranks = [
            _scaled(_ranks(table.column(name).combine_chunks(), edges), len(edges), bits)
            for name, edges in zip(self.order.names, self.edges, strict=True)
        ]
        found = np.zeros(table.num_rows, np.uint64)
        for bit in range(bits):
            for number, rank in enumerate(ranks):
                place = bit * len(ranks) + len(ranks) - 1 - number
                found |= ((rank >> np.uint64(bit)) & np.uint64(1)) << np.uint64(place)
        return found


def _bits(columns: int) -> int:
    return min(_BITS_MAX, _CURVE_BITS // columns)


def _different(values: pa.Array) -> pa.Array:
    """Sorted values, each once."""
    if len(values) < 2:
        return values
    changes = pc.fill_null(pc.not_equal(values[1:], values[:-1]), False)
    if pa.types.is_floating(values.type):  # NaN differs from itself
        both = pc.and_(pc.is_nan(values[1:]), pc.is_nan(values[:-1]))
        changes = pc.and_not(changes, both)
    return values.filter(pa.array(np.concatenate([[True], changes.to_numpy(zero_copy_only=False)])))


def _ranks(values: pa.Array, edges: pa.Array) -> I64:
    """For each value, how many edges are not above it; null has one more than all."""
    count = len(values)
    order = pc.sort_indices(pa.concat_arrays([edges, values])).to_numpy()
    is_edge = order < len(edges)
    ranks = np.empty(count, np.int64)
    ranks[order[~is_edge] - len(edges)] = np.cumsum(is_edge)[~is_edge]
    if values.null_count:
        ranks[values.is_null().to_numpy(zero_copy_only=False)] = len(edges) + 1
    return ranks


def _scaled(ranks: I64, edges: int, bits: int) -> U64:
    """Ranks spread over all the bits."""
    return (ranks * ((1 << bits) - 1) // (edges + 1)).astype(np.uint64)


# --- ranges ---------------------------------------------------------------------------


def range_bounds(curve: Curve, sample: pa.Table, count: int) -> pa.Table:
    """What parts rows into so many ranges of about one size: the keys of the first row of all but the first.

    Args:
        curve: the order.
        sample: rows with their places.
        count: how many ranges.
    """
    keys = curve.key_columns(curve.keyed(sample))
    order = curve.sorted(keys)
    at = np.unique(np.arange(1, count) * len(order) // count) if len(order) else np.empty(0, np.int64)
    return keys.take(order.take(pa.array(at[at > 0])))


def cut_at(curve: Curve, rows: pa.Table, bounds: pa.Table) -> Iterable[tuple[int, pa.Table]]:
    """Rows with what they are sorted by, in order, cut by ranges: the number of each and its rows."""
    if not bounds.num_rows:
        yield 0, rows
        return
    keys = pa.concat_tables([bounds, curve.key_columns(rows)])
    order = curve.sorted(keys).to_numpy()
    cuts = np.flatnonzero(order < bounds.num_rows)
    inside = rows.take(pa.array(order[order >= bounds.num_rows] - bounds.num_rows))
    # Before the nth bound there are n other bounds among the sorted.
    ends = [*(cuts - np.arange(len(cuts))).tolist(), inside.num_rows]
    begin = 0
    for number, end in enumerate(ends):
        if end > begin:
            yield number, inside.slice(begin, end - begin)
        begin = end
