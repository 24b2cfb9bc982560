"""Statistics of one column of a manifest, all at once, to compare them with what others read."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.iceberg.manifests import ManifestColumns
from lakehouse.iceberg.manifests.columns import RawBounds
from lakehouse.kernels.arrays import I64

__all__ = ["FieldStats", "field_stats"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldStats:
    """Statistics of one column in all files."""

    low: RawBounds | None
    """Lower bounds; None = no file has one. :func:`decoded_bounds` makes values of them."""
    high: RawBounds | None
    """Upper bounds likewise."""
    nulls: I64
    """Nulls of each file; :data:`UNKNOWN` = not known, here and below."""
    nans: I64
    """NaNs of each file."""
    values: I64
    """Values of each file, nulls and NaNs included."""


def field_stats(columns: ManifestColumns, field_id: int) -> FieldStats:
    """Statistics of a column; those of a column that no file mentions are not known."""
    return FieldStats(
        low=columns.low(field_id),
        high=columns.high(field_id),
        nulls=columns.nulls(field_id),
        nans=columns.nans(field_id),
        values=columns._counts(columns.value_counts, field_id),
    )
