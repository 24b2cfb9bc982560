"""Puffin files: blobs back to back, and a footer that says what and where they are.

Words: *file* → *blob* (bytes with a type and properties) → *payload* (the bytes without their codec).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.puffin.builder import PuffinBuilder
    from lakehouse.format.puffin.codec import inflate
    from lakehouse.format.puffin.column_sketches import (
        ColumnSketch,
        SketchedTable,
        encode_sketches,
        sketches_of,
    )
    from lakehouse.format.puffin.deletion_vector import (
        DELETION_VECTOR,
        decode_deletion_vector,
        deletion_vector_properties,
        encode_deletion_vector,
    )
    from lakehouse.format.puffin.footer import MAGIC, TRAILER_BYTES, BlobMeta, PuffinFooter
    from lakehouse.format.puffin.iceberg_blobs import DeletionVectorBlob, ThetaSketchBlob, iceberg_blob
    from lakehouse.format.puffin.single_value_bytes import has_single_values
    from lakehouse.format.puffin.theta_builder import ThetaBuilder
    from lakehouse.format.puffin.theta_sketch import THETA_SKETCH, ThetaSketch, number_of_properties

__all__ = [
    "DELETION_VECTOR", "MAGIC", "THETA_SKETCH", "TRAILER_BYTES", "BlobMeta", "ColumnSketch",
    "DeletionVectorBlob", "PuffinBuilder", "PuffinFooter", "SketchedTable", "ThetaBuilder", "ThetaSketch",
    "ThetaSketchBlob", "decode_deletion_vector", "deletion_vector_properties", "encode_deletion_vector",
    "encode_sketches", "has_single_values", "iceberg_blob", "inflate", "number_of_properties", "sketches_of",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "builder": "PuffinBuilder",
        "codec": "inflate",
        "column_sketches": "ColumnSketch SketchedTable encode_sketches sketches_of",
        "deletion_vector": (
            "DELETION_VECTOR decode_deletion_vector deletion_vector_properties encode_deletion_vector"
        ),
        "footer": "MAGIC TRAILER_BYTES BlobMeta PuffinFooter",
        "iceberg_blobs": "DeletionVectorBlob ThetaSketchBlob iceberg_blob",
        "single_value_bytes": "has_single_values",
        "theta_builder": "ThetaBuilder",
        "theta_sketch": "THETA_SKETCH ThetaSketch number_of_properties",
    },
)
