"""Manifests: the entries of many files as one Parquet object.

Invariant: decoding returns the entries that were encoded, in their order. Statistics stay in Arrow until
those of a file are asked for, so the cost of reading a manifest grows with files, not with columns.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.errors import CorruptionError, InvalidInputError, UnsupportedVersionError
from lakehouse.excerpt import short
from lakehouse.format.limits.json_object import COUNT_MAX
from lakehouse.format.limits.parquet_bounds import read_bounded
from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry, FileFormat, IndexRef, Level
from lakehouse.format.metadata.sealed_json import REPAIR_ADVICE
from lakehouse.format.metadata.stats_table import FileStats, StatsTable

__all__ = ["decode_manifest", "encode_manifest"]

_FORMAT = 1
_DECODED_BYTES_MAX = 1 << 30
"""Maximum memory of the rows of a manifest: entries of a million files."""
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
    """Encodes a manifest of these entries; what it returns was read back and compared."""
    columns = {name: [getattr(entry, name) for entry in entries] for name in _PLAIN}
    columns |= {
        "lo": [_named(entry.lo) for entry in entries],
        "hi": [_named(entry.hi) for entry in entries],
        "level": [int(entry.level) for entry in entries],
        "format": [entry.format.value for entry in entries],
        "stats": [_stats_rows(entry.stats) for entry in entries],
        "crc32c": [entry.checksum for entry in entries],
        "index_path": [entry.index.path if entry.index else None for entry in entries],
        "index_size": [entry.index.size if entry.index else None for entry in entries],
        "index_ids": [list(entry.index.ids) if entry.index else None for entry in entries],
        "index_footer_bytes": [entry.index.footer_bytes if entry.index else None for entry in entries],
        "index_crc32c": [entry.index.checksum if entry.index else None for entry in entries],
        "index_reach": [list(entry.index.reach) if entry.index else None for entry in entries],
    }
    rows = pa.table({field.name: pa.array(columns[field.name], field.type) for field in _SCHEMA}, _SCHEMA)
    sink = pa.BufferOutputStream()
    # Without the Arrow schema, which would be half of a small manifest.
    writer = pq.ParquetWriter(  # io-ok: a sink in memory
        sink, _SCHEMA, compression="zstd", write_statistics=False, store_schema=False
    )
    with writer:
        writer.add_key_value_metadata({"lakehouse.format": str(_FORMAT), "lakehouse.table": str(table)})
        writer.write_table(rows)  # io-ok: into that sink
    data: bytes = sink.getvalue().to_pybytes()
    again = _read(data, "just made", table)
    problem = _problem(again) or (
        "" if again.equals(rows.cast(again.schema)) else "it would be read as something else"
    )
    if problem:
        raise InvalidInputError(f"the new manifest: {problem}; nothing was written")
    return data


_OF_LATER = ("index_ids", "index_footer_bytes", "index_crc32c", "index_reach")
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
        {"field": id_, "nulls": column.nulls, "low": column.low, "high": column.high, "exact": column.exact}
        for id_, column in stats.items()
    ]


def decode_manifest(data: bytes, *, key: str, table: uuid.UUID, checksum: int) -> tuple[FileEntry, ...]:
    """Decodes the entries of a manifest.

    Args:
        data: the whole object.
        key: key of the object; named in errors.
        table: id of the table to which it must belong.
        checksum: CRC32C of the object, from the snapshot.
    """
    crc = google_crc32c.value(data)
    if crc != checksum:
        raise CorruptionError(
            f"manifest {key} is damaged: CRC32C {crc:08x}, the snapshot says {checksum:08x}{REPAIR_ADVICE}",
            key=key,
            expected=checksum,
            got=crc,
        )
    rows = _read(data, key, table)
    problem = _problem(rows)
    if problem:
        raise CorruptionError(f"manifest {key}: {problem}{REPAIR_ADVICE}", key=key)
    return tuple(_entries(rows))


def _read(data: bytes, key: str, table: uuid.UUID) -> pa.Table:
    """Returns the rows of a manifest, with the columns and types of :data:`_SCHEMA`."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))  # io-ok: bytes in memory
        metadata = file.metadata.metadata or {}
        version = metadata.get(b"lakehouse.format", b"?").decode()
        owner = metadata.get(b"lakehouse.table", b"").decode()
        if version == str(_FORMAT) and owner == str(table):
            return _with_all_columns(read_bounded(file, bytes_max=_DECODED_BYTES_MAX))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise CorruptionError(
            f"manifest {key} is no Parquet file of entries: {str(error)[:200]}{REPAIR_ADVICE}", key=key
        ) from error
    if version != str(_FORMAT):
        raise UnsupportedVersionError(
            f"manifest {key} is of format {short(version)}; this release reads {_FORMAT}. Upgrade lakehouse.",
            key=key,
        )
    raise CorruptionError(f"manifest {key} belongs to table {short(owner)}, not to {table}", key=key)


def _with_all_columns(rows: pa.Table) -> pa.Table:
    """Adds missing columns as nulls: manifests of older releases have only path and size of indexes."""
    missing = [name for name in _SCHEMA.names if name not in rows.column_names]
    for name in missing:
        if name not in _OF_LATER:
            raise ValueError(f"it has no column {name!r}")
        rows = rows.append_column(_SCHEMA.field(name), pa.nulls(len(rows), _SCHEMA.field(name).type))
    # The cast renames elements of lists, which Parquet's reader names otherwise than Arrow. Nulls are
    # let through here, because :func:`_problem` reports them better.
    return rows.select(_SCHEMA.names).cast(pa.schema([field.with_nullable(True) for field in _SCHEMA]))


def _problem(rows: pa.Table) -> str:
    """Returns the first problem of rows of the right types; empty when there is none."""
    for field in _SCHEMA:
        column = rows.column(field.name)
        if not field.nullable and column.null_count:
            return f"column {field.name!r} has nulls"
        problem = _range_problem(field.name, column)
        if problem:
            return problem
    if not len(rows):
        return ""
    known_formats = pa.array([known.value for known in FileFormat])
    if not pc.all(pc.is_in(rows["format"], known_formats)).as_py():
        return "a format of files is unknown to this release"
    return _position_problem(rows)


def _range_problem(name: str, column: pa.ChunkedArray) -> str:
    """Returns the problem of a column at any depth: numbers out of range, nulls within lists or structs."""
    kind = column.type
    if pa.types.is_list(kind):
        inside = pc.list_flatten(column)
        return f"column {name!r} has nulls" if inside.null_count else _range_problem(name, inside)
    if pa.types.is_struct(kind):
        valid = column.drop_null()
        for at, field in enumerate(kind):
            part = pc.struct_field(valid, at)
            if not field.nullable and part.null_count:
                return f"{field.name!r} of column {name!r} has nulls"
            problem = _range_problem(f"{name}.{field.name}", part)
            if problem:
                return problem
        return ""
    if not pa.types.is_integer(kind):
        return ""
    least, most = pc.min_max(column).as_py().values()
    top = _TOPS.get(name, COUNT_MAX)
    if least is not None and (least < 0 or most > top):
        return f"column {name!r} has {least} to {most}, numbers are from 0 to {top}"
    return ""


_TOPS = {"level": max(Level), "crc32c": 2**32 - 1, "index_crc32c": 2**32 - 1}


def _position_problem(rows: pa.Table) -> str:
    for name in ("lo", "hi"):
        valid = rows[name].drop_null()
        if any(pc.struct_field(valid, at).null_count for at in range(len(_POSITION))):
            return f"a position of column {name!r} has a part missing"
    if rows["lo"].null_count != rows["hi"].null_count:
        return "an interval has one end"
    return ""


def _index(columns: Mapping[str, list[Any]], at: int) -> IndexRef | None:
    """Returns the index of an entry; manifests of older releases have only its path and size."""
    path = columns["index_path"][at]
    if path is None:
        return None
    return IndexRef(
        path=path,
        size=columns["index_size"][at] or 0,
        ids=tuple(columns["index_ids"][at] or ()),
        footer_bytes=columns["index_footer_bytes"][at] or 0,
        checksum=columns["index_crc32c"][at],
        reach=tuple(columns["index_reach"][at] or ()),
    )


def _entries(rows: pa.Table) -> Iterator[FileEntry]:
    columns = {name: rows.column(name).to_pylist() for name in rows.column_names if name != "stats"}
    stats = StatsTable(rows.column("stats").combine_chunks())
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
            stats=FileStats(stats, at),
        )


def _position(parts: Mapping[str, int] | None) -> tuple[int, int, int] | None:
    return None if parts is None else (parts["commit"], parts["kind"], parts["number"])
