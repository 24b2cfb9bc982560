"""Encoder of Parquet runs.

A run is an ordinary Parquet file: one column per field of the schema, with its field id, then

* ``_SEQUENCE_NUMBER`` (int64): left out when every row inherits it, as in all files that commits write,
* ``_VALUE_KIND`` (int8): left out when every row is an insert.

Rows are sorted by row key. :mod:`lakehouse.format.parquet.run_footer` has the metadata that the engine needs
besides Parquet's own.

Invariant: every value reads back unchanged; the file depends on nothing but rows, schema and options.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.errors import InternalError
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN
from lakehouse.format.parquet.encodings import ColumnEncodings, choose_encodings
from lakehouse.format.parquet.file_footer import MAGIC, TRAILER
from lakehouse.format.parquet.joined_footers import join_footers
from lakehouse.format.parquet.leaf_columns import leaf_count
from lakehouse.format.parquet.run_footer import (
    HAS_NAN,
    PIECES_KEY,
    RUN_KEY,
    PieceTable,
    RunHead,
    crc32c,
    seal,
)
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import KIND_FIELD, SEQUENCE_FIELD, arrow_field
from lakehouse.kernels.arrays import I64, U8, U32
from lakehouse.kernels.cores import on_cores

__all__ = ["ParquetOptions", "encode_parquet"]


_SHARE_BYTES = 4 * 1024 * 1024
"""Minimum bytes of rows in memory that are worth a thread of their own."""
_SHARES_PER_CORE = 2
"""Shares of the rows per core: more than one, so that a busy core does not delay the others."""
_GROUP_BYTES_MAX = 1 << 30
"""Maximum bytes of a row group in memory: half of the readers' limit, since their estimates are high."""
_HIDDEN = (SEQUENCE_FIELD, KIND_FIELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """Layout of a run."""

    row_group_rows: int = 131_072
    """Maximum rows of a row group: a point read decodes one, and a scan reads a column by row groups. Fewer
    where they would take more than a GiB in memory."""
    compression: str = "zstd"
    """Codec: ``none``, ``snappy``, ``lz4`` or ``zstd``."""
    compression_level: int = 1
    """Level of the codec, if it has levels (zstd)."""
    delta: bool = True
    """True if integers may be stored as deltas: a third less bytes and time. False is for readers
    that do not know them (Spark before 3.3, Iceberg's Spark runtime before 1.10)."""


def encode_parquet(
    rows: pa.Table, schema: TableSchema, options: ParquetOptions, *, threads: int | None = None
) -> pa.Buffer:
    """Encodes a run.

    Takes long and holds no lock meanwhile: call it in a thread.

    Args:
        rows: the columns of the schema, and where not all rows have the common value, the columns
            ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``; sorted by row key, which is unique.
        schema: schema of the rows. A required column that is null in some row, as rows of kind
            delete have it, is written as an optional one.
        options: the layout.
        threads: maximum number of cores; None = as many as pyarrow uses. Changes no byte.
    """
    table = _file_table(rows, schema)
    options = replace(options, row_group_rows=_fitting_rows(table, options.row_group_rows))
    starts = np.arange(0, table.num_rows, options.row_group_rows)
    head = RunHead(schema_id=schema.id, kinds=_kind_counts(rows))
    blank = _blank_pieces(table, schema, starts)
    encodings = choose_encodings(table, group_rows=options.row_group_rows, delta=options.delta)

    def encode(part: pa.Table) -> _Part:
        return _encode_part(part, options, encodings, {RUN_KEY: head.pack(), PIECES_KEY: blank.pack()})

    parts = on_cores(encode, _shares(table, options.row_group_rows, threads or pa.cpu_count()))
    pieces = replace(
        blank,
        sizes=np.concatenate([part.sizes for part in parts]).reshape(blank.sizes.shape),
        checksums=np.concatenate([part.checksums for part in parts]).reshape(blank.sizes.shape),
    )
    file = parts[0].file if len(parts) == 1 else _joined(parts)
    end = len(MAGIC) + int(pieces.sizes.sum(dtype=np.int64))
    seal(np.frombuffer(file, np.uint8)[end:], blank, pieces)
    return file


def _fitting_rows(table: pa.Table, rows: int) -> int:
    """Returns the rows of a row group with which none of several rows exceeds :data:`_GROUP_BYTES_MAX`."""
    if table.nbytes > _GROUP_BYTES_MAX:
        while rows > 1 and any(
            table.slice(start, rows).nbytes > _GROUP_BYTES_MAX for start in range(0, table.num_rows, rows)
        ):
            rows = -(-min(rows, table.num_rows) // 2)
    return rows


def _shares(table: pa.Table, group_rows: int, threads: int) -> list[pa.Table]:
    """Cuts the rows between row groups into shares that are worth a thread each."""
    groups = -(-table.num_rows // group_rows)
    most = _SHARES_PER_CORE * threads if threads > 1 else 1
    count = max(1, min(most, groups, table.nbytes // _SHARE_BYTES))
    bounds = [groups * share // count * group_rows for share in range(count + 1)]
    return [table.slice(start, end - start) for start, end in itertools.pairwise(bounds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Row groups that were encoded together, as a Parquet file."""

    file: pa.Buffer
    footer: bytes
    """Thrift structure of its footer."""
    sizes: U32
    """Bytes of each column chunk."""
    checksums: U32
    """CRC32C of each column chunk."""


def _encode_part(
    table: pa.Table, options: ParquetOptions, encodings: ColumnEncodings, values: dict[str, bytes]
) -> _Part:
    level = options.compression_level if options.compression == "zstd" else None
    sink = pa.BufferOutputStream()
    written: list[pq.FileMetaData] = []
    with pq.ParquetWriter(  # io-ok: a sink in memory
        sink,
        table.schema,
        store_schema=False,
        store_decimal_as_integer=True,
        metadata_collector=written,
        **encodings.arguments(options.compression, level),
    ) as writer:
        writer.add_key_value_metadata(values)
        if table.num_rows:
            writer.write_table(table, row_group_size=options.row_group_rows)  # io-ok: the same sink
    file = sink.getvalue()
    image = np.frombuffer(file, np.uint8)
    groups = [written[0].row_group(group) for group in range(written[0].num_row_groups)]
    sizes = [
        group.column(leaf).total_compressed_size for group in groups for leaf in range(group.num_columns)
    ]
    bounds = list(itertools.accumulate(sizes, initial=len(MAGIC)))
    checksums = [crc32c(image[start:end]) for start, end in itertools.pairwise(bounds)]
    length, _ = TRAILER.unpack(image[-TRAILER.size :].tobytes())
    if bounds[-1] + length + TRAILER.size != len(file):
        raise InternalError("this pyarrow leaves bytes between column chunks: runs cannot be written with it")
    return _Part(
        file=file,
        footer=image[bounds[-1] : -TRAILER.size].tobytes(),
        sizes=np.array(sizes, np.uint32),
        checksums=np.array(checksums, np.uint32),
    )


def _joined(parts: Sequence[_Part]) -> pa.Buffer:
    """Joins parts into one file of all their row groups."""
    sizes = [int(part.sizes.sum(dtype=np.int64)) for part in parts]
    shifts = list(itertools.accumulate(sizes, initial=0))
    footer = join_footers([part.footer for part in parts], shifts[:-1])
    end = len(MAGIC) + shifts[-1]
    file = pa.allocate_buffer(end + len(footer) + TRAILER.size)
    image = np.frombuffer(file, np.uint8)

    def place(at: int) -> None:
        start, size = len(MAGIC), sizes[at]
        chunks = np.frombuffer(parts[at].file, np.uint8)[start : start + size]
        image[start + shifts[at] : start + shifts[at] + size] = chunks

    on_cores(place, range(len(parts)))
    image[: len(MAGIC)] = np.frombuffer(MAGIC, np.uint8)
    image[end:] = np.frombuffer(footer + TRAILER.pack(len(footer), MAGIC), np.uint8)
    return file


def _file_table(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Returns the columns of the file: with field ids, optional if they have nulls, hidden ones if needed."""
    fields, columns = [], []
    for field in (*schema.fields, *(hidden for hidden in _HIDDEN if hidden.name in rows.column_names)):
        column = rows.column(field.name)
        if field is SEQUENCE_FIELD and column.null_count == len(column):
            continue
        if field is KIND_FIELD and not pc.any(pc.not_equal(column, 0)).as_py():
            continue
        wanted = _loosened(arrow_field(field), column.chunks)
        fields.append(wanted)
        columns.append(column if column.type == wanted.type else column.cast(wanted.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _loosened(field: pa.Field, arrays: Sequence[pa.Array]) -> pa.Field:
    """Returns the field, made optional on every level where values are null.

    Arrow keeps a value for a required part of a struct that is null; where that value is null too,
    Parquet's writer would refuse it.
    """
    kind = field.type
    if pa.types.is_struct(kind):
        parts = [(kind.field(n), [array.field(n) for array in arrays]) for n in range(kind.num_fields)]
        kind = pa.struct([_loosened(*part) for part in parts])
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _loosened(kind.item_field, [array.items for array in arrays]))
    elif pa.types.is_list(kind):
        kind = pa.list_(_loosened(kind.value_field, [array.values for array in arrays]))
    has_nulls = any(array.null_count for array in arrays)
    return field.with_type(kind).with_nullable(field.nullable or has_nulls)


def _kind_counts(rows: pa.Table) -> tuple[int, int, int]:
    if KIND_COLUMN not in rows.column_names:
        return rows.num_rows, 0, 0
    inserts, updates, deletes = np.bincount(rows.column(KIND_COLUMN).to_numpy(), minlength=3).tolist()
    return inserts, updates, deletes


def _blank_pieces(table: pa.Table, schema: TableSchema, starts: I64) -> PieceTable:
    """Returns the table of pieces with what is known before writing: sizes and checksums are 0."""
    ends = np.append(starts[1:], table.num_rows)[: len(starts)]
    keys: tuple[bytes, ...] = ()
    if schema.primary_key and len(starts):
        bounds = pa.array(np.column_stack((starts, ends - 1)).reshape(-1))
        columns = [table.column(name).take(bounds) for name in schema.primary_key]
        keys = tuple(RowKeyCodec(schema.key_fields).encode(columns).to_pylist())
    flags = _nan_flags(table, starts)
    blank = np.zeros(flags.shape, np.uint32)
    rows = (ends - starts).astype(np.uint32)
    return PieceTable(rows=rows, sizes=blank, checksums=blank, flags=flags, keys=keys)


def _nan_flags(table: pa.Table, starts: I64) -> U8:
    """Returns flags of the column chunks that hold a NaN: Parquet's statistics do not count NaNs."""
    flags = np.zeros((len(starts), sum(leaf_count(field.type) for field in table.schema)), np.uint8)
    leaf = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_floating(field.type) and pc.any(is_nan := pc.is_nan(column)).as_py():
            nans = is_nan.fill_null(False).to_numpy().astype(np.uint8)
            flags[:, leaf] = HAS_NAN * np.maximum.reduceat(nans, starts)
        leaf += leaf_count(field.type)
    return flags
