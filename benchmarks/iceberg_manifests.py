"""Iceberg tables with very many entries, made quickly: metadata alone, without data files.

pyiceberg writes one manifest of one entry for each spec; every other entry is that one with other bytes in
the places of its path, partition, counts and bounds. All numbers are of one length in Avro, so that the
places are the same in every entry and numpy fills them for a whole manifest at once. Manifest lists are
pyiceberg's throughout.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import struct
import tempfile
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestampType

__all__ = ["DAY_US", "FIRST_DAY", "ManyFiles"]

DAY_US = 86_400_000_000
FIRST_DAY = 19_000
"""Day of the first manifest."""
_ROWS = 100_000
"""The least number of rows of a file: from here to a million, Avro takes three bytes."""
_SIZE = 16_000_000
"""The least size of a file: from here to 134 million, Avro takes four bytes."""
_NULLS = 5_000
"""A number of nulls: from 64 to 8 thousand, Avro takes two bytes."""
_MARK = b"#" * 32
_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestampType(), required=False),
    NestedField(3, "amount", DoubleType(), required=False),
    NestedField(4, "customer", LongType(), required=False),
    NestedField(5, "region", StringType(), required=False),
    NestedField(6, "status", IntegerType(), required=False),
)
_SPECS = (
    PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"), spec_id=0),
    PartitionSpec(PartitionField(5, 1001, IdentityTransform(), "region"), spec_id=1),
    PartitionSpec(
        PartitionField(2, 1000, DayTransform(), "ts_day"),
        PartitionField(4, 1002, BucketTransform(16), "customer_bucket"),
        spec_id=2,
    ),
)
_COLUMNS = (1, 2, 3, 4, 5, 6)
_REGIONS = 50


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ManyFiles:
    """A table: so many manifests of so many entries, six columns with statistics.

    ``id`` ascends from file to file, a manifest is a day of ``ts``, and other columns are spread everywhere.
    """

    location: str
    manifests: int
    entries: int
    """Of each manifest."""
    specs: int = 1
    """Manifests take turns among them."""
    _lengths: dict[int, int] = dataclasses.field(default_factory=dict)
    """Of the manifests that were made, by their numbers."""

    @property
    def path_length(self) -> int:
        """Characters of each file's path."""
        return len(_path(self.location))

    @property
    def files(self) -> int:
        """The number of data files."""
        return self.manifests * self.entries

    def ids_of(self, file: int) -> tuple[int, int]:
        """The least and the greatest ``id`` of a file."""
        return file * _ROWS, (file + 1) * _ROWS - 1

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Keys below the location, with their content; the metadata file comes last."""
        for number in range(self.manifests):
            yield self._key(number), self._manifest(number, self.entries)
        yield from self._snapshot_objects([])

    def added_objects(self) -> Iterator[tuple[str, bytes]]:
        """The objects that a commit of one file adds, after :meth:`objects`."""
        yield self._key(self.manifests), self._manifest(self.manifests, 1)
        yield from self._snapshot_objects([self._line(self.manifests, 1)])

    @property
    def metadata_key(self) -> str:
        """The metadata file. The commit replaces it, where a catalog would name another one."""
        return f"metadata/00001-{uuid.UUID(int=1)}.metadata.json"

    def _snapshot_objects(self, added: Sequence[ManifestFile]) -> Iterator[tuple[str, bytes]]:
        snapshot = 1 + len(added)
        lines = [self._line(number, self.entries) for number in range(self.manifests)]
        yield _list_key(snapshot), self._list([*added, *lines], snapshot)
        yield self.metadata_key, self._metadata(snapshot)

    def _key(self, number: int) -> str:
        return f"metadata/{uuid.UUID(int=number)}-m0.avro"

    def _spec(self, number: int) -> PartitionSpec:
        return _SPECS[number % self.specs]

    def _line(self, number: int, entries: int) -> ManifestFile:
        rows = np.random.default_rng(number).integers(_ROWS, 1_000_000, entries)
        return ManifestFile.from_args(
            manifest_path=f"{self.location}/{self._key(number)}",
            manifest_length=self._lengths[number],
            partition_spec_id=self._spec(number).spec_id,
            content=ManifestContent.DATA,
            sequence_number=1,
            min_sequence_number=1,
            added_snapshot_id=1,
            added_files_count=entries,
            existing_files_count=0,
            deleted_files_count=0,
            added_rows_count=int(rows.sum()),
            existing_rows_count=0,
            deleted_rows_count=0,
            partitions=[self._summary(field, number) for field in self._spec(number).fields],
        )

    def _summary(self, field: PartitionField, number: int) -> PartitionFieldSummary:
        day = FIRST_DAY + number
        ends: Mapping[str, tuple[bytes, bytes]] = {
            "ts_day": (struct.pack("<i", day), struct.pack("<i", day)),
            "region": (_region(0), _region(_REGIONS - 1)),
            "customer_bucket": (struct.pack("<i", 0), struct.pack("<i", 15)),
        }
        return PartitionFieldSummary(False, False, *ends[field.name])

    def _manifest(self, number: int, entries: int) -> bytes:
        header, content, sync = _template(self.location, self._spec(number).spec_id)
        filled = _filled(content, self._spec(number).spec_id, number, number * self.entries, entries)
        packer = zlib.compressobj(1, wbits=-15)
        packed = packer.compress(filled.tobytes()) + packer.flush()
        found = header + _varint(entries) + _varint(len(packed)) + packed + sync
        self._lengths[number] = len(found)
        return found

    def _list(self, lines: Sequence[ManifestFile], number: int) -> bytes:
        def write(path: str) -> None:
            output = PyArrowFileIO().new_output(path)
            with write_manifest_list(2, output, number, number - 1 or None, number, "deflate") as writer:
                writer.add_manifests(list(lines))

        return _written(write)

    def _metadata(self, snapshots: int) -> bytes:
        specs = [json.loads(spec.model_dump_json()) for spec in _SPECS[: self.specs]]
        return json.dumps(
            {
                "format-version": 2,
                "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, self.location)),
                "location": self.location,
                "last-sequence-number": snapshots,
                "last-updated-ms": 1_700_000_000_000 + snapshots,
                "last-column-id": 6,
                "schemas": [json.loads(_SCHEMA.model_dump_json())],
                "current-schema-id": 0,
                "partition-specs": specs,
                "default-spec-id": specs[-1]["spec-id"],
                "last-partition-id": 1002,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "default-sort-order-id": 0,
                "properties": {},
                "current-snapshot-id": snapshots,
                "refs": {"main": {"snapshot-id": snapshots, "type": "branch"}},
                "snapshots": [self._snapshot(number) for number in range(1, snapshots + 1)],
            }
        ).encode()

    def _snapshot(self, number: int) -> dict[str, Any]:
        return {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": 1_700_000_000_000 + number,
            "summary": {"operation": "append"},
            "manifest-list": f"{self.location}/{_list_key(number)}",
            "schema-id": 0,
            **({"parent-snapshot-id": number - 1} if number > 1 else {}),
        }


def _list_key(number: int) -> str:
    return f"metadata/snap-{number}-1-{uuid.UUID(int=number)}.avro"


def _region(number: int) -> bytes:
    return b"region%02d" % number


def _written(write: Any) -> bytes:
    """What a function of pyiceberg's wrote to the path it is given."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "file.avro")
        write(str(path))
        return path.read_bytes()


# --- entries ----------------------------------------------------------------------------


def _filled(content: bytes, spec_id: int, number: int, first: int, entries: int) -> np.ndarray:
    """The entries of a manifest, a row of bytes each."""
    random = np.random.default_rng(number)
    rows = random.integers(_ROWS, 1_000_000, entries)
    sizes = random.integers(_SIZE, 8 * _SIZE, entries)
    ids = (first + np.arange(entries)) * _ROWS
    since = random.integers(0, DAY_US - 3_600_000_000, entries) + (FIRST_DAY + number) * DAY_US
    regions = random.integers(0, _REGIONS, entries)
    amounts = random.random(entries) * 1e6
    customers = random.integers(0, 1 << 40, entries)
    texts = np.array([_region(place) for place in range(_REGIONS)])[regions]
    matrix = np.tile(np.frombuffer(content, np.uint8), (entries, 1))
    fill = functools.partial(_fill, matrix, content)
    fill(_MARK, np.frombuffer(random.bytes(16 * entries).hex().encode(), np.uint8).reshape(-1, 32))
    fill(_varint(_ROWS), _varints(rows, 3))
    fill(_varint(_SIZE), _varints(sizes, 4))
    fill(_varint(_NULLS), _varints(random.integers(64, 8_000, entries), 2))
    for column in _COLUMNS:
        fill(_varint(_ROWS + column), _varints(rows, 3))
        fill(_varint(_SIZE + column), _varints(sizes // 8 + 2_000_000, 4))
    ends = {
        1: (ids, ids + _ROWS - 1),
        2: (since, since + 3_600_000_000 - 1),
        3: (amounts, amounts + 1e5),
        4: (customers, customers + (1 << 38)),
        5: (texts, texts),
        6: (regions % 7, regions % 7 + 5),
    }
    for column, both in ends.items():
        for end, values in enumerate(both):
            fill(_sample(column, end), _bytes_of(values.astype(_KINDS[column])))
    if spec_id == 1:
        fill(_REGION, _bytes_of(texts))
    else:
        day = _varint(FIRST_DAY)
        fill(day, _varints(np.full(entries, FIRST_DAY + number), 3))
        if spec_id == 2:
            # After the day comes the branch of a union, then the bucket.
            matrix[:, content.index(day) + len(day) + 1] = 2 * random.integers(0, 16, entries)
    return matrix


_REGION = b"a region"
_KINDS = {1: "<i8", 2: "<i8", 3: "<f8", 4: "<i8", 5: "S8", 6: "<i4"}
"""How bounds are stored."""


def _fill(matrix: np.ndarray, content: bytes, sample: bytes, values: np.ndarray) -> None:
    """Puts a value into every entry, where the template has the sample."""
    assert content.count(sample) == 1, f"{sample!r} is {content.count(sample)} times in the template"
    at = content.index(sample)
    matrix[:, at : at + len(sample)] = values


def _sample(column: int, end: int) -> bytes:
    """A bound that is nowhere else in the template."""
    return (b"%d%d" % (column, end) * 4)[: np.dtype(_KINDS[column]).itemsize]


def _bytes_of(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def _varint(number: int) -> bytes:
    """A number that is not negative, as Avro has it."""
    rest, out = number << 1, bytearray()
    while rest > 127:
        out.append((rest & 127) | 128)
        rest >>= 7
    return bytes([*out, rest])


def _varints(numbers: np.ndarray, length: int) -> np.ndarray:
    """Numbers, all of which take so many bytes."""
    parts = [(numbers << 1 >> 7 * place) & 127 for place in range(length)]
    return np.stack([part | 128 for part in parts[:-1]] + parts[-1:], axis=1).astype(np.uint8)


def _path(location: str) -> str:
    """A path with the mark in it, as writers name files."""
    return f"{location}/data/ts_day=2023-01-01/00000-{_MARK.decode()}-00001.parquet"


@functools.lru_cache
def _template(location: str, spec_id: int) -> tuple[bytes, bytes, bytes]:
    """Header, the one entry and the mark of an uncompressed manifest, the header as if it were compressed."""
    spec = _SPECS[spec_id]
    partition = {0: (FIRST_DAY,), 1: (_REGION.decode(),), 2: (FIRST_DAY, 0)}[spec_id]
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=_path(location),
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=_ROWS,
        file_size_in_bytes=_SIZE,
        column_sizes={column: _SIZE + column for column in _COLUMNS},
        value_counts={column: _ROWS + column for column in _COLUMNS},
        null_value_counts={**dict.fromkeys(_COLUMNS, 0), 6: _NULLS},
        nan_value_counts={3: 0},
        lower_bounds={column: _sample(column, 0) for column in _COLUMNS},
        upper_bounds={column: _sample(column, 1) for column in _COLUMNS},
        split_offsets=[4],
        sort_order_id=0,
    )
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=data_file)

    def write(path: str) -> None:
        output = PyArrowFileIO().new_output(path)
        with write_manifest(2, spec, _SCHEMA, output, 1, "null") as writer:
            writer.add_entry(entry)

    whole = _written(write)
    sync = whole[-16:]
    header, _, rest = whole.partition(sync)
    content = rest[: -len(sync)]
    for number in (1, len(content) - 3):  # the block begins with how many entries and bytes it has
        content = content.removeprefix(_varint(number))
    # Both names of codecs are counted in one byte before them.
    named = b"\x14avro.codec\x08null"
    assert header.count(named) == 1
    return header.replace(named, b"\x14avro.codec\x0edeflate") + sync, content, sync
