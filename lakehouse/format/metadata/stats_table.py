"""Statistics of many files as Arrow columns: what judges all of them at once instead of one by one.

A manifest holds the statistics of its entries as one list column. They stay there: an entry has a
:class:`FileStats`, which makes values of its own row when it is asked, and :func:`stats_columns` collects one
field of many entries without making a value of any.

Invariant: a column says of each file what the mapping of that file says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.expr.columnar import UNKNOWN
from lakehouse.format.metadata.file_entry import ColumnStats
from lakehouse.kernels.arrays import I64

__all__ = ["FileStats", "StatsColumn", "StatsTable", "stats_columns"]


@dataclass(frozen=True, slots=True)
class StatsColumn:
    """Statistics of one field in many files."""

    low: pa.Array
    """Binary; null = not known, or the file has no value."""
    high: pa.Array
    """Binary; null likewise."""
    nulls: I64
    """Number of nulls; :data:`lakehouse.expr.columnar.UNKNOWN` = not known."""

    def take(self, rows: I64) -> StatsColumn:
        """Returns the statistics of some of the files, by their places."""
        index = pa.array(rows)
        return StatsColumn(self.low.take(index), self.high.take(index), self.nulls[rows])


class StatsTable:
    """Statistics of all entries of a manifest.

    Args:
        lists: for each entry a list of structs of field, nulls, low, high and exact.
    """

    __slots__ = ("_columns", "_offsets", "_values")

    def __init__(self, lists: pa.ListArray) -> None:
        self._values: pa.StructArray = lists.values
        self._offsets: I64 = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int64)
        self._columns: dict[int, StatsColumn] = {}

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def row(self, row: int) -> dict[int, ColumnStats]:
        """Returns the statistics of one entry, by field id."""
        start, end = int(self._offsets[row]), int(self._offsets[row + 1])
        structs: list[dict[str, Any]] = self._values.slice(start, end - start).to_pylist()
        return {
            struct["field"]: ColumnStats(
                nulls=struct["nulls"], low=struct["low"], high=struct["high"], exact=struct["exact"]
            )
            for struct in structs
        }

    def size(self, row: int) -> int:
        """Returns the number of fields that an entry has statistics of."""
        return int(self._offsets[row + 1] - self._offsets[row])

    def column(self, field: int) -> StatsColumn:
        """Returns the statistics of a field in every entry; they are collected once."""
        column = self._columns.get(field)
        if column is None:
            places = np.flatnonzero(self._values.field("field").to_numpy() == field)
            at = np.full(len(self), -1, np.int64)
            at[np.searchsorted(self._offsets, places, side="right") - 1] = places
            index = pa.array(at, mask=at < 0)
            nulls = self._values.field("nulls").take(index).fill_null(UNKNOWN).to_numpy()
            low, high = (self._values.field(name).take(index) for name in ("low", "high"))
            column = self._columns[field] = StatsColumn(low, high, nulls)
        return column


class FileStats(Mapping[int, ColumnStats]):
    """Statistics of one entry of a manifest, by field id; converted from Arrow when they are first asked for.

    Args:
        table: statistics of all entries.
        row: place of the entry among them.
    """

    __slots__ = ("_stats", "row", "table")

    def __init__(self, table: StatsTable, row: int) -> None:
        self.table, self.row = table, row
        self._stats: dict[int, ColumnStats] | None = None

    def _all(self) -> dict[int, ColumnStats]:
        if self._stats is None:
            self._stats = self.table.row(self.row)
        return self._stats

    def __getitem__(self, field: int) -> ColumnStats:
        return self._all()[field]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return self.table.size(self.row)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as a dict: the table would take the statistics of all files along.
        return dict, (self._all(),)


def stats_columns(
    stats: Sequence[Mapping[int, ColumnStats]], fields: Iterable[int]
) -> dict[int, StatsColumn]:
    """Collects the statistics of some fields in many files, in their order.

    Args:
        stats: statistics of each file.
        fields: ids of the fields.
    """
    tables: dict[int, tuple[StatsTable, list[int], list[int]]] = {}
    loose: list[int] = []
    for place, of_file in enumerate(stats):
        if isinstance(of_file, FileStats):
            _, places, rows = tables.setdefault(id(of_file.table), (of_file.table, [], []))
            places.append(place)
            rows.append(of_file.row)
        else:
            loose.append(place)
    order = np.array([place for _, places, _ in tables.values() for place in places] + loose, np.int64)
    inverse: I64 = np.argsort(order)
    columns = {}
    for field in fields:
        parts = [table.column(field).take(np.array(rows)) for table, _, rows in tables.values()]
        parts.append(_loose_column([stats[place].get(field) for place in loose]))
        joined = StatsColumn(
            pa.concat_arrays([part.low for part in parts]),
            pa.concat_arrays([part.high for part in parts]),
            np.concatenate([part.nulls for part in parts]),
        )
        columns[field] = joined.take(inverse)
    return columns


def _loose_column(stats: Sequence[ColumnStats | None]) -> StatsColumn:
    return StatsColumn(
        pa.array([None if one is None else one.low for one in stats], pa.binary()),
        pa.array([None if one is None else one.high for one in stats], pa.binary()),
        np.array([UNKNOWN if one is None else one.nulls for one in stats], np.int64),
    )
