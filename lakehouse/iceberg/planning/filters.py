"""Runtime filters fitted to a table: each bound once, then asked of manifests and of files.

Invariant: a filter excludes only what has no row that it lets through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.expr import bind, col
from lakehouse.expr.columnar import FileBounds
from lakehouse.expr.runtime_filter import RuntimeFilter
from lakehouse.iceberg.manifests import ManifestFile
from lakehouse.iceberg.planning.bounds_maker import BoundsMaker
from lakehouse.iceberg.planning.files import FileSet
from lakehouse.kernels.arrays import Mask

__all__ = ["AppliedFilter", "BoundFilter", "bound_filters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundFilter:
    """A runtime filter fitted to a schema."""

    filter: RuntimeFilter
    column: str
    """Name of its column, as bounds have it."""
    excluded: Callable[[FileBounds], Mask]
    """Returns for each file, or manifest, whether no row of it is let through."""

    def __str__(self) -> str:
        return self.filter.describe()

    def of_manifests(self, manifests: Sequence[ManifestFile], bounds: BoundsMaker) -> Mask:
        """Returns for each manifest, True if no row of it is let through."""
        return self.excluded(bounds.of_manifests(manifests, (self.column,)))

    def of_files(self, files: FileSet, bounds: BoundsMaker) -> Mask:
        """Returns for each file, True if no row of it is let through."""
        return self.excluded(bounds.of_files(files, (self.column,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFilter:
    """A runtime filter, and what it excludes."""

    filter: BoundFilter
    manifests: Mask
    """For each data manifest of the snapshot, True if it has no wanted row."""
    files: Mask
    """For each candidate, True if it has none."""


def bound_filters(filters: Iterable[RuntimeFilter], schema: pa.Schema) -> list[BoundFilter]:
    """Fits runtime filters to the columns of a table.

    Raises:
        InvalidInputError: one is none, is on a column that there is not, or makes no sense for its type.
    """
    found = []
    for one in filters:
        if not isinstance(one, RuntimeFilter):
            raise InvalidInputError(
                f"a runtime filter is made by RuntimeFilter.in_, .range, .bloom, .prefix or .predicate, "
                f"not {one!r}"
            )
        (column,) = bind(col(one.column).is_null(), schema).columns()
        found.append(BoundFilter(filter=one, column=column, excluded=one.bound(schema)))
    return found
