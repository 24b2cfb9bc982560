"""Iceberg's own blobs are told from others by their type, and described by their properties."""

from __future__ import annotations

import pytest

from lakehouse.format.puffin.deletion_vector import deletion_vector_properties
from lakehouse.format.puffin.footer import BlobMeta
from lakehouse.format.puffin.iceberg_blobs import (
    DeletionVectorBlob,
    IcebergBlob,
    ThetaSketchBlob,
    iceberg_blob,
)
from tests.kit.blob_samples import footer_of, sample


@pytest.mark.parametrize(
    ("kind", "properties", "found"),
    [
        (
            "deletion-vector-v1",
            deletion_vector_properties("s3://b/f.parquet", 3),
            DeletionVectorBlob(data_file="s3://b/f.parquet", cardinality=3),
        ),
        ("deletion-vector-v1", {}, DeletionVectorBlob(data_file=None, cardinality=None)),
        ("deletion-vector-v1", {"cardinality": "-1"}, DeletionVectorBlob(data_file=None, cardinality=None)),
        ("apache-datasketches-theta-v1", {"ndv": "7"}, ThetaSketchBlob(fields=(2,), distinct_values=7)),
        ("apache-datasketches-theta-v1", {"ndv": "7.0"}, ThetaSketchBlob(fields=(2,), distinct_values=None)),
        ("deletion-vector-v2", {"cardinality": "3"}, None),
        ("greptime-inverted-index-v1", {}, None),
    ],
)
def test_blobs_are_recognised(kind: str, properties: dict[str, str], found: IcebergBlob | None) -> None:
    """A blob is what its type says, with the properties that are sound."""
    assert iceberg_blob(BlobMeta(type=kind, offset=4, length=9, fields=(2,), properties=properties)) == found


def test_other_blobs_of_iceberg_files_are_none() -> None:
    """Blobs of types that nobody knows are left to who wrote them."""
    assert [iceberg_blob(blob) for blob in footer_of(sample("sample-metric-data-uncompressed")).blobs] == [
        None,
        None,
    ]
