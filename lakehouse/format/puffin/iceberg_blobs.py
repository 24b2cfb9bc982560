"""Recognition of Iceberg's own blobs by their metadata, without reading the blobs.

Invariant: a property that is missing or invalid reads as None; only decoding the blob shows whether
a property is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lakehouse.format.puffin.deletion_vector import CARDINALITY, DELETION_VECTOR, REFERENCED_DATA_FILE
from lakehouse.format.puffin.footer import BlobMeta
from lakehouse.format.puffin.theta_sketch import NDV, THETA_SKETCH, number_of_properties

__all__ = ["DeletionVectorBlob", "IcebergBlob", "ThetaSketchBlob", "iceberg_blob"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorBlob:
    """The deleted rows of a data file; ``decode_deletion_vector`` has their positions."""

    data_file: str | None
    """Location of the data file."""
    cardinality: int | None
    """Number of deleted rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThetaSketchBlob:
    """A sketch of a column's distinct values; ``ThetaSketch.parse`` has its estimate."""

    fields: tuple[int, ...]
    """Ids of the columns."""
    distinct_values: int | None
    """Estimate of the number of distinct values that the writer noted."""


IcebergBlob: TypeAlias = DeletionVectorBlob | ThetaSketchBlob
"""A blob that Iceberg's puffin specification defines."""


def iceberg_blob(blob: BlobMeta) -> IcebergBlob | None:
    """Returns the properties of a blob of Iceberg's; None for other blobs."""
    if blob.type == DELETION_VECTOR:
        return DeletionVectorBlob(
            data_file=blob.properties.get(REFERENCED_DATA_FILE),
            cardinality=number_of_properties(blob.properties, CARDINALITY),
        )
    if blob.type == THETA_SKETCH:
        return ThetaSketchBlob(fields=blob.fields, distinct_values=number_of_properties(blob.properties, NDV))
    return None
