"""The objects that the specification of tables shows as examples."""

from __future__ import annotations

import uuid

from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry, FileFormat, IndexRef, Level
from lakehouse.format.metadata.name_pointer import NamePointer
from lakehouse.format.metadata.snapshot import (
    CommitKind,
    Counts,
    ManifestRef,
    ParentRef,
    Ref,
    SchemaRef,
    Snapshot,
    WriterMark,
)

TABLE = uuid.UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
TOKEN = "0123456789abcdef0123456789abcdef"

POINTER = NamePointer(
    name="sales.orders", table=TABLE, path="sales/orders-01020304", token=TOKEN, time_ms=1_760_000_000_000
)

ENTRY = FileEntry(
    path="data/day=2026-01-02/bucket-1/7d1e0a52-3c1f-4a54-9a3c-2f0f8e6d5c4b.parquet",
    partition=(bytes.fromhex("80000000000050e6"),),
    bucket=1,
    total_buckets=4,
    size=2345,
    rows=3,
    deletes=1,
    min_key=bytes.fromhex("8000000000000001"),
    max_key=bytes.fromhex("8000000000000007"),
    stats={
        1: ColumnStats(
            nulls=0, low=b"\x80" + bytes(6) + b"\x01", high=b"\x80" + bytes(6) + b"\x07", exact=True
        )
    },
    checksum=0xDEADBEEF,
)

COMPACTED = FileEntry(
    path="data/bucket-0/f3b1c7d2-0e5a-4d6b-8c9f-1a2b3c4d5e6f.sst",
    run=2,
    at=9,
    lo=(3, 0, 17),
    hi=(8, 1, 0),
    level=Level.BOTTOM,
    format=FileFormat.SSTABLE,
    size=99,
    rows=5,
    updates=2,
    min_key=b"a",
    max_key=b"zz",
    stats={2: ColumnStats(nulls=5), 3: ColumnStats(nulls=1, low=b"x")},
    schema_id=3,
    index=IndexRef(path="index/0f8e6d5c-4b7d-4e0a-923c-1f4a549a3c2f.puffin", size=512),
)

SNAPSHOT = Snapshot(
    id=12,
    token=TOKEN,
    parent=ParentRef(id=11, token="f" * 32),
    kind=CommitKind.UPSERT,
    time_ms=1_760_000_000_123,
    table=TABLE,
    schema=SchemaRef(id=0, path="schema/schema-11111111-2222-4333-8444-555555555555"),
    manifests=(
        ManifestRef(
            path="manifest/manifest-aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee",
            size=4096,
            entries=200,
            rows=1_000_000,
            checksum=0x1C291CA3,
            at=10,
        ),
    ),
    added=(ENTRY,),
    removed=("data/bucket-0/old.parquet",),
    gone=("data/bucket-0/old.parquet",),
    writers={"loader-1": WriterMark(sequence=41, snapshot=12, time_ms=1_760_000_000_123)},
    refs={"v1": Ref(snapshot=5)},
    earliest=2,
    total=Counts(files=200, rows=999_003, bytes=50_000_000),
    plus=Counts(files=1, rows=3, bytes=2345),
    minus=Counts(files=1, rows=1_000, bytes=70_000),
)
