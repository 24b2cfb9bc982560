"""Rows as a Parquet run.

A run is an ordinary Parquet file: one column per field of the schema, with its field id, then

* ``_SEQUENCE_NUMBER`` (int64): left out when every row inherits it, as in all files that commits write,
* ``_VALUE_KIND`` (int8): left out when every row is an insert.

Rows are sorted by row key. What the engine needs besides Parquet's own metadata is in
:mod:`lakehouse.format.parquet_footer`.

Invariant: every value reads back as it was; the file depends on nothing but rows, schema and options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.errors import InternalError
from lakehouse.format.arrays import I64, U8
from lakehouse.format.file_entry import KIND_COLUMN, SEQUENCE_COLUMN
from lakehouse.format.parquet_columns import leaf_count
from lakehouse.format.parquet_encoding import choose_encodings
from lakehouse.format.parquet_footer import (
    HAS_NAN,
    MAGIC,
    PIECES_KEY,
    RUN_KEY,
    TRAILER,
    PieceTable,
    RunHead,
    crc32c,
    seal,
)
from lakehouse.format.row_key import RowKeyCodec
from lakehouse.format.table_schema import TableSchema
from lakehouse.format.types import Field, Primitive, arrow_field

__all__ = ["KIND_FIELD", "SEQUENCE_FIELD", "ParquetOptions", "encode_parquet"]

SEQUENCE_FIELD = Field(id=2_147_483_400, name=SEQUENCE_COLUMN, type=Primitive("int64"))
"""The snapshot a row came with, null = the one that added the file.

The ids of both are below those that Iceberg reserves (2,147,483,447 and up), and above all others.
"""
KIND_FIELD = Field(id=2_147_483_401, name=KIND_COLUMN, type=Primitive("int8"), initial_default=0)
"""What a row does to the older rows of its key; files without it have inserts alone."""

_HIDDEN = (SEQUENCE_FIELD, KIND_FIELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """How a run is laid out."""

    row_group_rows: int = 131_072
    """Most rows of a row group: what one point read decodes, and the least a scan reads of a column."""
    compression: str = "zstd"
    """``none``, ``snappy``, ``lz4`` or ``zstd``."""
    compression_level: int = 1
    """Where the codec has levels (zstd)."""
    delta: bool = True
    """Whether integers may be stored as deltas: a third less bytes and time. False is for readers
    that do not know them (Spark before 3.3, Iceberg's Spark runtime before 1.10)."""


def encode_parquet(rows: pa.Table, schema: TableSchema, options: ParquetOptions) -> pa.Buffer:
    """The bytes of a run.

    Takes long and holds no lock meanwhile: call it in a thread.

    Args:
        rows: the columns of the schema, and where not all rows have the common value, the columns
            ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``; sorted by row key, which is unique.
        schema: what the rows are of. A required column that is null in some row, as rows of kind
            delete have it, is written as an optional one.
        options: the layout.
    """
    table = _file_table(rows, schema)
    starts = np.arange(0, table.num_rows, options.row_group_rows)
    head = RunHead(schema_id=schema.id, kinds=_kind_counts(rows))
    blank = _blank_pieces(table, schema, starts)
    encodings = choose_encodings(table, group_rows=options.row_group_rows, delta=options.delta)
    sink = pa.BufferOutputStream()
    written: list[pq.FileMetaData] = []
    with pq.ParquetWriter(  # io-ok: a sink in memory
        sink,
        table.schema,
        compression=options.compression,
        compression_level=options.compression_level if options.compression == "zstd" else None,
        store_schema=False,
        store_decimal_as_integer=True,
        metadata_collector=written,
        **encodings.arguments(),
    ) as writer:
        writer.add_key_value_metadata({RUN_KEY: head.pack(), PIECES_KEY: blank.pack()})
        if table.num_rows:
            writer.write_table(table, row_group_size=options.row_group_rows)  # io-ok: the same sink
    file = sink.getvalue()
    _seal(np.frombuffer(file, np.uint8), written[0], blank)
    return file


def _file_table(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """The rows as the file has them: field ids, nothing required that has nulls, no column for nothing."""
    fields, columns = [], []
    for field in (*schema.fields, *(one for one in _HIDDEN if one.name in rows.column_names)):
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
    """The field, optional where values are null, on every level.

    Arrow keeps something for a required part of a struct that is null; where that is null too,
    Parquet's writer would refuse it.
    """
    kind = field.type
    if pa.types.is_struct(kind):
        parts = [(kind.field(n), [one.field(n) for one in arrays]) for n in range(kind.num_fields)]
        kind = pa.struct([_loosened(*part) for part in parts])
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _loosened(kind.item_field, [one.items for one in arrays]))
    elif pa.types.is_list(kind):
        kind = pa.list_(_loosened(kind.value_field, [one.values for one in arrays]))
    has_nulls = any(one.null_count for one in arrays)
    return field.with_type(kind).with_nullable(field.nullable or has_nulls)


def _kind_counts(rows: pa.Table) -> tuple[int, int, int]:
    if KIND_COLUMN not in rows.column_names:
        return rows.num_rows, 0, 0
    inserts, updates, deletes = np.bincount(rows.column(KIND_COLUMN).to_numpy(), minlength=3).tolist()
    return inserts, updates, deletes


def _blank_pieces(table: pa.Table, schema: TableSchema, starts: I64) -> PieceTable:
    """What is known of the row groups before they are written."""
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
    """Which column chunks hold a NaN: Parquet's statistics do not count them."""
    flags = np.zeros((len(starts), sum(leaf_count(field.type) for field in table.schema)), np.uint8)
    leaf = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_floating(field.type) and pc.any(found := pc.is_nan(column)).as_py():
            nans = found.fill_null(False).to_numpy().astype(np.uint8)
            flags[:, leaf] = HAS_NAN * np.maximum.reduceat(nans, starts)
        leaf += leaf_count(field.type)
    return flags


def _seal(file: U8, metadata: pq.FileMetaData, blank: PieceTable) -> None:
    """Completes the table of pieces from what was written."""
    groups, leaves = blank.sizes.shape
    chunks = (metadata.row_group(group).column(leaf) for group in range(groups) for leaf in range(leaves))
    sizes = np.fromiter((chunk.total_compressed_size for chunk in chunks), np.uint32, groups * leaves)
    ends = len(MAGIC) + np.cumsum(sizes, dtype=np.int64)
    checksums = [
        crc32c(file[end - size : end]) for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
    ]
    length, _ = TRAILER.unpack(file[-TRAILER.size :].tobytes())
    footer = file[len(file) - TRAILER.size - length :]
    if len(file) - len(footer) != (ends[-1] if groups else len(MAGIC)):
        raise InternalError(
            "the Parquet writer left bytes between column chunks: runs cannot be written with it"
        )
    pieces = replace(
        blank,
        sizes=sizes.reshape(groups, leaves),
        checksums=np.array(checksums, np.uint32).reshape(groups, leaves),
    )
    seal(footer, blank, pieces)
