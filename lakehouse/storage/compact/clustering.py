"""Clustering of append-only tables: the order of rows by columns, or along a z-order curve.

Rows are put in order range by range: bounds come from a sample, every chunk of rows is sorted together
with the bounds and cut at them, and the rows of a range are sorted once more. Rows that compare equal keep
the order they came in, by their place, so that every row has exactly one range and any range can be cut.

On a z-order curve each column's values are replaced by their ranks in the sample, scaled to as many bits as
every other column has: a column of few values or a skewed one counts as much as the others.

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
"""Place of a row: number of its file and of the row in it; the last column that rows are sorted by."""
_CURVE_COLUMN = "_CURVE"
"""Position of a row on the z-order curve."""
_FILE_BITS = 40
"""Bits of a place that number the row within its file; the file's number is above them."""
_BITS_MAX = 16
"""Maximum bits of one column on the curve."""
_CURVE_BITS = 64
"""Bits of all columns on the curve, which is one unsigned integer."""
_COLUMNS_MAX = 8
"""Maximum number of z-order columns: eight bits of each are left then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOrder:
    """Columns to order rows by; a value that is sent to other processes."""

    columns: tuple[tuple[str, bool], ...]
    """Names of the columns, each with True for descending order."""
    is_curve: bool = False
    """True for a z-order curve, on which all columns have the same weight."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _ in self.columns]


def parse_order(
    schema: TableSchema,
    *,
    sort_by: Sequence[str] | str | None = None,
    zorder_by: Sequence[str] | str | None = None,
) -> ClusterOrder:
    """Parses and checks the requested order.

    Args:
        schema: schema of the table.
        sort_by: names of columns; ``-name`` is descending.
        zorder_by: names of two to eight columns.

    Raises:
        InvalidInputError: a column is not there, is named twice or has no order, or not exactly one of
            ``sort_by`` and ``zorder_by`` is given.
    """
    if (sort_by is None) == (zorder_by is None):
        raise InvalidInputError("rewrite takes either sort_by or zorder_by")
    given = sort_by if sort_by is not None else zorder_by
    words = [given] if isinstance(given, str) else list(given or ())
    known = {field.name: field for field in schema.fields}
    columns: list[tuple[str, bool]] = []
    for word in words:
        # A column may itself be called "-name": then the word is its name.
        is_down = sort_by is not None and word not in known and word.startswith("-")
        name = word[1:] if is_down else word
        if name not in known or name in [taken for taken, _ in columns]:
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
    """Returns the places of ``rows`` rows of a file, ascending from its row ``first_row`` on."""
    begin = (file << _FILE_BITS) + first_row
    return pa.array(np.arange(begin, begin + rows, dtype=np.int64))


# --- sorting --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Sort order of rows: by the columns, or by their ranks among the values of a sample."""

    order: ClusterOrder
    edges: tuple[pa.Array, ...] = ()
    """Values of each column that divide it into ranks, ascending and distinct; empty without a z-order."""

    @classmethod
    def of(cls, order: ClusterOrder, sample: pa.Table) -> Self:
        """Returns the sort order whose ranks fit the values of a sample."""
        if not order.is_curve:
            return cls(order=order)
        # Two ranks are not divided by an edge: that below all edges and that of nulls above them.
        most = (1 << _bits(len(order.columns))) - 2
        edges = []
        for name in order.names:
            values = sample.column(name).combine_chunks().drop_null()
            values = values.take(pc.sort_indices(values))
            at = np.unique(np.linspace(0, max(0, len(values) - 1), min(most, len(values)), dtype=np.int64))
            edges.append(_distinct(values.take(pa.array(at)) if len(values) else values))
        return cls(order=order, edges=tuple(edges))

    def keyed(self, table: pa.Table) -> pa.Table:
        """Returns the rows with their sort columns; they have their places already."""
        if not self.order.is_curve:
            return table
        return table.append_column(_CURVE_COLUMN, pa.array(self._codes(table)))

    def bare(self, table: pa.Table) -> pa.Table:
        """Returns the rows without the added sort columns and places."""
        extra = [name for name in (_CURVE_COLUMN, PLACE_COLUMN) if name in table.column_names]
        return table.drop_columns(extra)

    def key_columns(self, table: pa.Table) -> pa.Table:
        """Selects the sort columns of keyed rows."""
        return table.select([name for name, _ in self._sort_keys()])

    def sorted(self, table: pa.Table) -> pa.Array:
        """Returns the numbers of keyed rows in sorted order."""
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
        codes = np.zeros(table.num_rows, np.uint64)
        # Bits are interleaved; among bits of one weight that of the first column is the highest.
        for bit in range(bits):
            for number, rank in enumerate(ranks):
                place = bit * len(ranks) + len(ranks) - 1 - number
                codes |= ((rank >> np.uint64(bit)) & np.uint64(1)) << np.uint64(place)
        return codes


def _bits(columns: int) -> int:
    return min(_BITS_MAX, _CURVE_BITS // columns)


def _distinct(values: pa.Array) -> pa.Array:
    """Drops the repetitions of sorted values."""
    if len(values) < 2:
        return values
    changes = pc.fill_null(pc.not_equal(values[1:], values[:-1]), False)
    if pa.types.is_floating(values.type):  # NaN differs from itself
        both = pc.and_(pc.is_nan(values[1:]), pc.is_nan(values[:-1]))
        changes = pc.and_not(changes, both)
    return values.filter(pa.array(np.concatenate([[True], changes.to_numpy(zero_copy_only=False)])))


def _ranks(values: pa.Array, edges: pa.Array) -> I64:
    """Returns for each value the number of edges that are not above it; nulls get one more than all edges."""
    count = len(values)
    # One stable sort of both: an edge equal to a value comes first, so it counts as not above.
    order = pc.sort_indices(pa.concat_arrays([edges, values])).to_numpy()
    is_edge = order < len(edges)
    ranks = np.empty(count, np.int64)
    ranks[order[~is_edge] - len(edges)] = np.cumsum(is_edge)[~is_edge]
    if values.null_count:
        ranks[values.is_null().to_numpy(zero_copy_only=False)] = len(edges) + 1
    return ranks


def _scaled(ranks: I64, edges: int, bits: int) -> U64:
    """Scales ranks from 0 to ``edges + 1`` to the full range of ``bits`` bits."""
    return (ranks * ((1 << bits) - 1) // (edges + 1)).astype(np.uint64)


# --- ranges ---------------------------------------------------------------------------


def range_bounds(curve: Curve, sample: pa.Table, count: int) -> pa.Table:
    """Returns the bounds of ranges of about one size: the sort columns of the first row of all but the first.

    Args:
        curve: the order.
        sample: rows with their places.
        count: number of ranges; a small sample may give fewer.
    """
    keys = curve.key_columns(curve.keyed(sample))
    order = curve.sorted(keys)
    at = np.unique(np.arange(1, count) * len(order) // count) if len(order) else np.empty(0, np.int64)
    return keys.take(order.take(pa.array(at[at > 0])))


def cut_at(curve: Curve, rows: pa.Table, bounds: pa.Table) -> Iterable[tuple[int, pa.Table]]:
    """Yields keyed rows range by range: the number of each range that has rows, and those in sorted order."""
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
