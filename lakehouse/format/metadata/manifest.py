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
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.errors import CorruptionError, InvalidInputError, UnsupportedVersionError
from lakehouse.excerpt import short
from lakehouse.format.limits.json_object import COUNT_MAX
from lakehouse.format.limits.parquet_bounds import read_bounded
from lakehouse.format.metadata.file_entry import ColumnStats, FileEntry, FileFormat, IndexRef, Level
from lakehouse.format.metadata.sealed_json import REPAIR_ADVICE

__all__ = ["decode_manifest", "encode_manifest"]

_FORMAT = 1
_DECODED_BYTES_MAX = 1 << 30
"""Most memory that the rows of a manifest may take: entries of a million files."""
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
    again = _read(data, "just made", table)
    problem = _problem(again) or (
        "" if again.equals(found.cast(again.schema)) else "it would be read as something else"
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
            f"manifest {key} is damaged: CRC32C {found:08x}, the snapshot says {checksum:08x}{REPAIR_ADVICE}",
            key=key,
            expected=checksum,
            got=found,
        )
    rows = _read(data, key, table)
    problem = _problem(rows)
    if problem:
        raise CorruptionError(f"manifest {key}: {problem}{REPAIR_ADVICE}", key=key)
    return tuple(_entries(rows))


def _read(data: bytes, key: str, table: uuid.UUID) -> pa.Table:
    """The rows of a manifest, with the columns and types of :data:`_SCHEMA`."""
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
    """The rows with every column; manifests of older releases have no more of indexes than path and size."""
    missing = [name for name in _SCHEMA.names if name not in rows.column_names]
    for name in missing:
        if name not in _OF_LATER:
            raise ValueError(f"it has no column {name!r}")
        rows = rows.append_column(_SCHEMA.field(name), pa.nulls(len(rows), _SCHEMA.field(name).type))
    # The reader's names of lists' elements are others than Arrow's.
    return rows.select(_SCHEMA.names).cast(pa.schema([one.with_nullable(True) for one in _SCHEMA]))


def _problem(rows: pa.Table) -> str:
    """What is wrong with rows of the right types; empty when nothing is."""
    for field in _SCHEMA:
        column = rows.column(field.name)
        if not field.nullable and column.null_count:
            return f"column {field.name!r} has nulls"
        problem = _range_problem(field.name, column)
        if problem:
            return problem
    if not len(rows):
        return ""
    if not pc.all(pc.is_in(rows["format"], pa.array([one.value for one in FileFormat]))).as_py():
        return "a format of files is unknown to this release"
    return _position_problem(rows)


def _range_problem(name: str, column: pa.ChunkedArray) -> str:
    """Numbers, at any depth, that are below zero or too large, and nulls where lists have none."""
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
    """The index of an entry; manifests of older releases tell less of it."""
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
