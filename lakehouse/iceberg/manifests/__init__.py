"""Manifest lists and manifests of Iceberg tables, decoded into columns.

Words: *manifest list* (the manifests of a snapshot) → *manifest* (an Avro file of entries) → *entry* (a data
or delete file, and whether it was added, kept or deleted) → *statistics* (counts and bounds of a column in a
file). An entry *inherits* what its manifest did not know when it was written. *Raw bounds* are bytes as they
were stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.iceberg.manifests.bounds import decoded_bounds
    from lakehouse.iceberg.manifests.columns import (
        ADDED,
        DATA,
        DELETED,
        EQUALITY_DELETES,
        EXISTING,
        POSITION_DELETES,
        Inherited,
        ManifestColumns,
    )
    from lakehouse.iceberg.manifests.compact import UNKNOWN, NumberLists, Numbers, Texts
    from lakehouse.iceberg.manifests.keyed import RawBounds
    from lakehouse.iceberg.manifests.manifest import decode_manifest, decode_manifests
    from lakehouse.iceberg.manifests.manifest_list import ManifestFile, PartitionSummary, decode_manifest_list

__all__ = [
    "ADDED", "DATA", "DELETED", "EQUALITY_DELETES", "EXISTING", "POSITION_DELETES", "UNKNOWN",
    "Inherited", "ManifestColumns", "ManifestFile", "NumberLists", "Numbers",
    "PartitionSummary", "RawBounds", "Texts", "decode_manifest", "decode_manifest_list", "decode_manifests",
    "decoded_bounds",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "bounds": "decoded_bounds",
        "columns": "ADDED DATA DELETED EQUALITY_DELETES EXISTING POSITION_DELETES Inherited ManifestColumns",
        "compact": "UNKNOWN NumberLists Numbers Texts",
        "keyed": "RawBounds",
        "manifest": "decode_manifest decode_manifests",
        "manifest_list": "ManifestFile PartitionSummary decode_manifest_list",
    },
)
