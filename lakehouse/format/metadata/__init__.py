"""Metadata of a table as objects of the store: what each says, and its bytes.

Words: *snapshot* (the whole state of a table) → *manifest* (entries of many files) → *entry* (one data
file). A *position* is a place in the order of commits: snapshot, then log or file, then number. A *pointer*
says which directory, or which version of a *view*, a name stands for, a *marker* that a database exists, the
*hint* where to begin to look. A *segment* is an object of the write-ahead log. A *sealed* object is JSON with
its own checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.doors import door

if TYPE_CHECKING:
    from lakehouse.format.metadata.database_marker import DatabaseMarker, decode_database, encode_database
    from lakehouse.format.metadata.file_entry import (
        KIND_COLUMN,
        SEQUENCE_COLUMN,
        ColumnStats,
        FileEntry,
        FileFormat,
        IndexRef,
        Level,
        Position,
        RowKind,
    )
    from lakehouse.format.metadata.hint import NO_HINT, Hint, decode_hint, encode_hint
    from lakehouse.format.metadata.live_files import ColumnarEntries, LiveFiles
    from lakehouse.format.metadata.manifest import decode_manifest, encode_manifest
    from lakehouse.format.metadata.name_pointer import (
        DroppedTable,
        NameKind,
        NamePointer,
        NameState,
        decode_pointer,
        encode_pointer,
    )
    from lakehouse.format.metadata.shared_query import (
        SharedPin,
        SharedQuery,
        decode_query,
        encode_query,
    )
    from lakehouse.format.metadata.snapshot import (
        CommitKind,
        Counts,
        ManifestRef,
        ParentRef,
        Ref,
        RefKind,
        SchemaRef,
        SegmentRange,
        Snapshot,
        StatisticsRef,
        WalRef,
        WriterMark,
        decode_snapshot,
        encode_snapshot,
    )
    from lakehouse.format.metadata.stats_table import FileStats, StatsColumn, stats_columns
    from lakehouse.format.metadata.store_proof import (
        PROOF_MS,
        Binding,
        ProofState,
        StoreProof,
        decode_proof,
        encode_proof,
    )
    from lakehouse.format.metadata.view_version import ViewVersion, decode_view_version, encode_view_version
    from lakehouse.format.metadata.wal_segment import (
        SegmentHeader,
        WalBatch,
        WalSegment,
        decode_segment,
        encode_segment,
    )

__all__ = [
    "KIND_COLUMN", "NO_HINT", "PROOF_MS", "SEQUENCE_COLUMN", "Binding", "ColumnStats", "ColumnarEntries",
    "CommitKind", "Counts", "DatabaseMarker", "DroppedTable", "FileEntry", "FileFormat", "FileStats",
    "Hint", "IndexRef", "Level", "LiveFiles", "ManifestRef", "NameKind", "NamePointer", "NameState",
    "ParentRef", "Position", "ProofState", "Ref", "RefKind", "RowKind", "SchemaRef", "SegmentHeader",
    "SegmentRange", "SharedPin", "SharedQuery", "Snapshot", "StatisticsRef", "StatsColumn", "StoreProof",
    "ViewVersion", "WalBatch", "WalRef", "WalSegment", "WriterMark", "decode_database", "decode_hint",
    "decode_manifest", "decode_pointer", "decode_proof", "decode_query", "decode_segment",
    "decode_snapshot", "decode_view_version", "encode_database", "encode_hint", "encode_manifest",
    "encode_pointer", "encode_proof", "encode_query", "encode_segment", "encode_snapshot",
    "encode_view_version", "stats_columns",
]  # fmt: skip

__getattr__, __dir__ = door(
    __name__,
    {
        "database_marker": "DatabaseMarker decode_database encode_database",
        "file_entry": (
            "KIND_COLUMN SEQUENCE_COLUMN ColumnStats FileEntry FileFormat IndexRef Level Position RowKind"
        ),
        "hint": "NO_HINT Hint decode_hint encode_hint",
        "live_files": "ColumnarEntries LiveFiles",
        "manifest": "decode_manifest encode_manifest",
        "name_pointer": "DroppedTable NameKind NamePointer NameState decode_pointer encode_pointer",
        "shared_query": "SharedPin SharedQuery decode_query encode_query",
        "snapshot": (
            "CommitKind Counts ManifestRef ParentRef Ref RefKind SchemaRef SegmentRange Snapshot "
            "StatisticsRef WalRef WriterMark decode_snapshot encode_snapshot"
        ),
        "stats_table": "FileStats StatsColumn stats_columns",
        "store_proof": "PROOF_MS Binding ProofState StoreProof decode_proof encode_proof",
        "view_version": "ViewVersion decode_view_version encode_view_version",
        "wal_segment": "SegmentHeader WalBatch WalSegment decode_segment encode_segment",
    },
)
