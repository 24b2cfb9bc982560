"""Manifests: the entries of many files as one Parquet object.

Invariant: entries come back as they went in and in their order. Statistics stay in Arrow until
somebody asks for those of one file, so reading a manifest costs per file, not per column.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.errors import CorruptionError, UnsupportedVersionError
from lakehouse.format.file_entry import ColumnStats, FileEntry, FileFormat, IndexRef, Level

__all__ = ["decode_manifest", "encode_manifest"]

_FORMAT = 1
_STATS = pa.struct(
    [
        pa.field("field", pa.int32(), nullable=False),
        pa.field("nulls", pa.int64(), nullable=False),
        pa.field("low", pa.binary()),
        pa.field("high", pa.binary()),
        pa.field("exact", pa.bool_(), nullable=False),
    ]
)
_POSITION = pa.struct([("commit", pa.int64()), ("kind", pa.int8()), ("number", pa.int64())])
_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("partition", pa.list_(pa.binary()), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("total_buckets", pa.int32(), nullable=False),
        pa.field("run", pa.int32(), nullable=False),
        pa.field("at", pa.int64()),
        pa.field("lo", _POSITION),
        pa.field("hi", _POSITION),
        pa.field("level", pa.int8(), nullable=False),
        pa.field("format", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("deletes", pa.int64(), nullable=False),
        pa.field("updates", pa.int64(), nullable=False),
        pa.field("min_key", pa.binary()),
        pa.field("max_key", pa.binary()),
        pa.field("stats", pa.list_(_STATS), nullable=False),
        pa.field("schema_id", pa.int32(), nullable=False),
        pa.field("crc32c", pa.int64()),
        pa.field("index_path", pa.string()),
        pa.field("index_size", pa.int64()),
        pa.field("index_ids", pa.list_(pa.int32())),
        pa.field("index_footer_bytes", pa.int64()),
        pa.field("index_crc32c", pa.int64()),
        pa.field("index_reach", pa.list_(pa.int64())),
    ]
)


def encode_manifest(entries: Sequence[FileEntry], *, table: uuid.UUID) -> bytes:
    """The bytes of a manifest of these entries."""
    columns = {name: [getattr(one, name) for one in entries] for name in _PLAIN}
    columns |= {
        "lo": [_named(one.lo) for one in entries],
        "hi": [_named(one.hi) for one in entries],
        "level": [int(one.level) for one in entries],
        "format": [one.format.value for one in entries],
        "stats": [_stats_rows(one.stats) for one in entries],
        "crc32c": [one.checksum for one in entries],
        "index_path": [one.index.path if one.index else None for one in entries],
        "index_size": [one.index.size if one.index else None for one in entries],
        "index_ids": [list(one.index.ids) if one.index else None for one in entries],
        "index_footer_bytes": [one.index.footer_bytes if one.index else None for one in entries],
        "index_crc32c": [one.index.checksum if one.index else None for one in entries],
        "index_reach": [list(one.index.reach) if one.index else None for one in entries],
    }
    found = pa.table({field.name: pa.array(columns[field.name], field.type) for field in _SCHEMA}, _SCHEMA)
    sink = pa.BufferOutputStream()
    # Without the Arrow schema, which would be half of a small manifest.
    writer = pq.ParquetWriter(  # io-ok: a sink in memory
        sink, _SCHEMA, compression="zstd", write_statistics=False, store_schema=False
    )
    with writer:
        writer.add_key_value_metadata({"lakehouse.format": str(_FORMAT), "lakehouse.table": str(table)})
        writer.write_table(found)  # io-ok: into that sink
    data: bytes = sink.getvalue().to_pybytes()
    return data


_PLAIN = (
    "path",
    "partition",
    "bucket",
    "total_buckets",
    "run",
    "at",
    "size",
    "rows",
    "deletes",
    "updates",
    "min_key",
    "max_key",
    "schema_id",
)


def _named(position: tuple[int, int, int] | None) -> dict[str, int] | None:
    return None if position is None else dict(zip(("commit", "kind", "number"), position, strict=True))


def _stats_rows(stats: Mapping[int, ColumnStats]) -> list[dict[str, Any]]:
    return [
        {"field": field, "nulls": one.nulls, "low": one.low, "high": one.high, "exact": one.exact}
        for field, one in stats.items()
    ]


def decode_manifest(data: bytes, *, key: str, table: uuid.UUID, checksum: int) -> tuple[FileEntry, ...]:
    """The entries of a manifest.

    Args:
        data: the whole object.
        key: where it was read; named in errors.
        table: whose it must be.
        checksum: CRC32C of the object, as the snapshot says.
    """
    found = google_crc32c.value(data)
    if found != checksum:
        raise CorruptionError(
            f"manifest {key} is damaged: CRC32C {found:08x}, the snapshot says {checksum:08x}",
            key=key,
            expected=checksum,
            got=found,
        )
    try:
        file = pq.ParquetFile(pa.BufferReader(data))  # io-ok: bytes in memory
        rows = file.read()
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"manifest {key} is no Parquet file: {error}", key=key) from error
    metadata = file.metadata.metadata or {}
    version = metadata.get(b"lakehouse.format", b"?").decode()
    owner = metadata.get(b"lakehouse.table", b"").decode()
    if version != str(_FORMAT):
        raise UnsupportedVersionError(
            f"manifest {key} is of format {version}; this release reads {_FORMAT}. Upgrade lakehouse.",
            key=key,
        )
    if owner != str(table):
        raise CorruptionError(f"manifest {key} belongs to table {owner}, not to {table}", key=key)
    return tuple(_entries(rows))


def _index(columns: Mapping[str, list[Any]], at: int) -> IndexRef | None:
    """The index of an entry; manifests of older releases tell less of it."""
    path = columns["index_path"][at]
    if path is None:
        return None
    size = columns["index_size"][at]
    if "index_ids" not in columns:
        return IndexRef(path=path, size=size)
    return IndexRef(
        path=path,
        size=size,
        ids=tuple(columns["index_ids"][at] or ()),
        footer_bytes=columns["index_footer_bytes"][at] or 0,
        checksum=columns["index_crc32c"][at],
        reach=tuple(columns["index_reach"][at] or ()) if "index_reach" in columns else (),
    )


def _entries(rows: pa.Table) -> Iterator[FileEntry]:
    columns = {name: rows.column(name).to_pylist() for name in rows.column_names if name != "stats"}
    stats = rows.column("stats").combine_chunks()
    offsets = stats.offsets.to_pylist() if len(stats) else []
    for at, plain in enumerate(zip(*(columns[name] for name in _PLAIN), strict=True)):
        fields: dict[str, Any] = dict(zip(_PLAIN, plain, strict=True))
        fields["partition"] = tuple(fields["partition"])
        yield FileEntry(
            **fields,
            lo=_position(columns["lo"][at]),
            hi=_position(columns["hi"][at]),
            level=Level(columns["level"][at]),
            format=FileFormat(columns["format"][at]),
            checksum=columns["crc32c"][at],
            index=_index(columns, at),
            stats=_ArrowStats(stats.values, offsets[at], offsets[at + 1]),
        )


def _position(found: Mapping[str, int] | None) -> tuple[int, int, int] | None:
    return None if found is None else (found["commit"], found["kind"], found["number"])


class _ArrowStats(Mapping[int, ColumnStats]):
    """Statistics of one file, made into values when they are first asked for."""

    __slots__ = ("_end", "_found", "_start", "_values")

    def __init__(self, values: pa.StructArray, start: int, end: int) -> None:
        self._values, self._start, self._end = values, start, end
        self._found: dict[int, ColumnStats] | None = None

    def _all(self) -> dict[int, ColumnStats]:
        if self._found is None:
            rows: Iterable[dict[str, Any]] = self._values.slice(
                self._start, self._end - self._start
            ).to_pylist()
            self._found = {
                row["field"]: ColumnStats(
                    nulls=row["nulls"], low=row["low"], high=row["high"], exact=row["exact"]
                )
                for row in rows
            }
        return self._found

    def __getitem__(self, field: int) -> ColumnStats:
        return self._all()[field]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return self._end - self._start

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._all(),)
