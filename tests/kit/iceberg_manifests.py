"""Manifests that pyiceberg writes, and its own reading of them: what our decoder is compared with."""

from __future__ import annotations

import datetime as dt
import random
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

__all__ = ["FIELD_IDS", "SNAPSHOT", "entries_of", "written_list", "written_manifest"]

SNAPSHOT = 8_744_736_658_442_914_487
FIELD_IDS = (1, 2, 3, 4, 5, 6)
_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "ts", TimestampType(), required=False),
    NestedField(3, "name", StringType(), required=False),
    NestedField(4, "x", DoubleType(), required=False),
    NestedField(5, "k", IntegerType(), required=False),
    NestedField(6, "città", StringType(), required=False),
)
_SPEC = PartitionSpec(
    PartitionField(2, 1000, DayTransform(), "ts_day"),
    PartitionField(6, 1001, IdentityTransform(), "city"),
    spec_id=3,
)
_EPOCH = dt.date(1970, 1, 1)


def _statistics(number: int, dice: random.Random) -> dict[str, Any]:
    """Maps of an entry; now and then a field or a whole map is missing."""
    low = {
        1: struct.pack("<q", number * 1000),
        2: struct.pack("<q", 1_700_000_000_000_000 + number),
        3: f"name {number:06}".encode(),
        4: struct.pack("<d", number / 2),
        5: struct.pack("<i", number % 100),
        6: "Århus".encode()[: 2 + number % 4],
    }
    maps: dict[str, Any] = {
        "column_sizes": {field: dice.randrange(10**6) for field in FIELD_IDS},
        "value_counts": dict.fromkeys(FIELD_IDS, 1000 + number % 7),
        "null_value_counts": {field: 0 if field < 6 else number % 3 for field in FIELD_IDS},
        "nan_value_counts": {4: number % 2},
        "lower_bounds": dict(low),
        "upper_bounds": {field: bound + b"~" if field in (3, 6) else bound for field, bound in low.items()},
    }
    if number % 5 == 4:
        for name in ("null_value_counts", "lower_bounds", "upper_bounds"):
            del maps[name][dice.choice(FIELD_IDS)]
    if number % 11 == 10:
        maps[dice.choice(list(maps))] = None
    return maps


def _file(number: int, dice: random.Random, *, full: bool) -> DataFile:
    day = dt.date(2024, 1, 1) + dt.timedelta(days=number % 9)
    city = None if number % 4 == 3 else ["Genève", "Roma"][number % 2]
    token = uuid.UUID(int=dice.getrandbits(128))
    maps = _statistics(number, dice)
    if full:
        maps = {name: value or {} for name, value in maps.items()}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"s3://bucket/db/events/data/ts_day={day}/city={city}/{number:05}-{token}.parquet",
        file_format=FileFormat.ORC if number % 8 == 7 else FileFormat.PARQUET,
        partition=Record((day - _EPOCH).days, city),
        record_count=1000 + number % 7,
        file_size_in_bytes=dice.randrange(10**7, 10**10),
        key_metadata=b"key" if number % 6 == 5 else None,
        split_offsets=[4, 4 + number * 1000][: 1 + number % 2] if number % 3 else None,
        equality_ids=None,
        sort_order_id=None if number % 3 == 2 else number % 2,
        **maps,
    )


def written_manifest(
    folder: Path, count: int, *, version: int = 2, codec: str = "deflate", seed: int = 1
) -> Any:
    """Writes a manifest of so many entries, and returns its line of a manifest list, as pyiceberg has it."""
    dice = random.Random(seed)
    path = f"{folder}/manifest-{version}-{codec}-{seed}.avro"
    io = PyArrowFileIO()
    with write_manifest(version, _SPEC, _SCHEMA, io.new_output(path), SNAPSHOT, codec) as writer:  # type: ignore[arg-type]
        for number in range(count):
            status = ManifestEntryStatus(1 if version == 1 else (1, 1, 0, 2)[number % 4])
            known = status != ManifestEntryStatus.ADDED
            entry = ManifestEntry.from_args(
                status=status,
                snapshot_id=SNAPSHOT - number if known else SNAPSHOT,
                sequence_number=number if known else None,
                file_sequence_number=number if known else None,
                data_file=_file(number, dice, full=False),
            )
            writer.add_entry(entry)
    return writer.to_manifest_file()


def entries_of(manifest: ManifestFile) -> list[ManifestEntry]:
    """All entries of a manifest as pyiceberg reads them."""
    return manifest.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)


def written_list(folder: Path, manifests: Sequence[ManifestFile], *, version: int = 2) -> str:
    """Writes a manifest list, and returns its path."""
    path = f"{folder}/list-{version}.avro"
    output = PyArrowFileIO().new_output(path)
    with write_manifest_list(version, output, SNAPSHOT, None, 7, "deflate") as writer:  # type: ignore[arg-type]
        writer.add_manifests(list(manifests))
    return path
