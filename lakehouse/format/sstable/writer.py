"""Encoder of SSTables: sorted rows, in blocks that are found by key and read alone.

The parts are in modules of their own: the frame (:mod:`~lakehouse.format.sstable.frame`), the
entries of data blocks (:mod:`~lakehouse.format.sstable.entries`), the values of entries
(:mod:`~lakehouse.format.sstable.rows`), the bloom filter, the index and the meta block. The
specification is ``docs/spec/v1/sstable.md``; :mod:`lakehouse.format.sstable.reader` reads.

Invariant: every value and every kind reads back unchanged; the file depends on nothing but rows,
schema and options. Encoding holds the file twice in memory, and some 100 MiB of rows under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from lakehouse.errors import InvalidInputError
from lakehouse.format.keys.column_stats import stats_of
from lakehouse.format.keys.order_value import binary_array
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import KIND_COLUMN, SEQUENCE_COLUMN, ColumnStats, RowKind
from lakehouse.format.schema.table_schema import TableSchema
from lakehouse.format.schema.types import SEQUENCE_FIELD, Field, arrow_type
from lakehouse.format.sstable.bloom import build_bloom
from lakehouse.format.sstable.entries import Blocks, cut_blocks
from lakehouse.format.sstable.frame import CODECS, BlockType, Footer, Handle, Header, seal_block
from lakehouse.format.sstable.index import IndexBuilder
from lakehouse.format.sstable.key_hash import hash_keys
from lakehouse.format.sstable.loops import Packed, packed_binary, read_only
from lakehouse.format.sstable.meta import FileMeta
from lakehouse.format.sstable.rows import RowLayout, pack_rows
from lakehouse.kernels.arrays import U64

__all__ = ["SstableOptions", "encode_sstable"]

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
_SLICE_ROWS = 1 << 18
_SLICE_BYTES = 1 << 25
_BLOCK_BYTES_MAX = 1 << 24
_BITS_PER_KEY_MAX = 64
_ROW_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SstableOptions:
    """Layout of a file."""

    block_bytes: int = 16_384
    """Bytes of a data block before compression: a block ends with the row that reaches them."""
    codec: str = "lz4"
    """Codec of blocks: ``none``, ``snappy``, ``lz4`` or ``zstd``."""
    bloom_bits_per_key: int = 10
    """Bits of the bloom filter for each key; 0 = no filter."""
    piece_bytes: int = 1 << 20
    """Stored bytes of a piece: of the blocks that scans read together."""
    properties: Mapping[str, str] = field(default_factory=lambda: _NO_PROPERTIES)
    """Text that the file carries for people and tools."""

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise InvalidInputError(
                f"SSTables have no codec {self.codec!r}: use one of {', '.join(CODECS)}", codec=self.codec
            )
        for name, low, high in (
            ("block_bytes", 1, _BLOCK_BYTES_MAX),
            ("bloom_bits_per_key", 0, _BITS_PER_KEY_MAX),
            ("piece_bytes", 1, 1 << 30),
        ):
            if not low <= getattr(self, name) <= high:
                raise InvalidInputError(
                    f"{name} of an SSTable must be from {low} to {high:,}, not {getattr(self, name)}",
                    option=name,
                )


def encode_sstable(
    rows: pa.Table,
    schema: TableSchema,
    options: SstableOptions | None = None,
    *,
    stats: Mapping[int, ColumnStats] | None = None,
) -> bytes:
    """Encodes a file.

    Takes long: call it in a thread.

    Args:
        rows: the columns of the schema, and where not all rows have the common value, the columns
            ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``; sorted by row key, which is unique.
        schema: schema of the rows.
        options: the layout.
        stats: statistics of the columns by field id; None = they are computed.

    Raises:
        InvalidInputError: the keys do not ascend, a column is missing or of another type, or a row
            is too large.
    """
    options = options or SstableOptions()
    fields = _fields(rows, schema)
    columns = [_column(rows, field) for field in fields]
    key = tuple(field.id for field in schema.key_fields)
    meta = FileMeta(
        schema_id=schema.id,
        fields=fields,
        key=key,
        rows=rows.num_rows,
        kinds=_kind_counts(rows),
        codec=options.codec,
        stats=stats_of(rows, schema.fields) if stats is None else stats,
        properties=options.properties,
    )
    writer = _Writer(meta, options)
    if KIND_COLUMN in rows.column_names:
        columns.append(rows.column(KIND_COLUMN))
    for part in _slices(columns, rows):
        writer.add(part)
    return writer.finish()


def _fields(rows: pa.Table, schema: TableSchema) -> tuple[Field, ...]:
    """Returns the columns that the file has."""
    names = rows.column_names
    if SEQUENCE_COLUMN in names and rows.column(SEQUENCE_COLUMN).null_count < rows.num_rows:
        return (*schema.fields, SEQUENCE_FIELD)
    return schema.fields


def _column(rows: pa.Table, field_: Field) -> pa.ChunkedArray:
    wanted = arrow_type(field_.type)
    column = rows.column(field_.name) if field_.name in rows.column_names else None
    if column is None or column.type != wanted:
        raise InvalidInputError(
            f"rows must have a column {field_.name!r} of type {wanted}"
            + (f", not {column.type}" if column is not None else ""),
            column=field_.name,
        )
    return column


def _kind_counts(rows: pa.Table) -> tuple[int, int, int]:
    if KIND_COLUMN not in rows.column_names:
        return rows.num_rows, 0, 0
    # As unsigned bytes: numbers below 0 are then above all kinds.
    counts = np.bincount(rows.column(KIND_COLUMN).to_numpy().view(np.uint8), minlength=len(RowKind)).tolist()
    if len(counts) > len(RowKind):
        raise InvalidInputError(f"a row's kind is one of {[*map(int, RowKind)]}: some row has another")
    inserts, updates, deletes = counts
    return inserts, updates, deletes


def _slices(columns: list[pa.ChunkedArray], rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yields the rows in parts of bounded size, whatever chunks they come in."""
    table = pa.table(columns, names=[str(at) for at in range(len(columns))])
    wide = rows.nbytes // max(rows.num_rows, 1) + 1
    step = max(1, min(_SLICE_ROWS, _SLICE_BYTES // wide))
    for begin in range(0, rows.num_rows, step):
        # More than one batch only where text of a part exceeds the 2 GiB of an Arrow array.
        yield from table.slice(begin, step).combine_chunks().to_batches()


class _Writer:
    """A file that is being written."""

    def __init__(self, meta: FileMeta, options: SstableOptions) -> None:
        self._meta = meta
        self._options = options
        self._layout = RowLayout.of(meta.value_fields)
        self._codec = RowKeyCodec(meta.key_fields) if meta.key else None
        places = {field_.id: at for at, field_ in enumerate(meta.fields)}
        self._key_places = [places[field_.id] for field_ in meta.key_fields]
        self._value_places = [places[field_.id] for field_ in meta.value_fields]
        header = Header(rows=meta.rows, end=0, blocks=0).pack()
        self._parts: list[bytes] = [header]  # replaced when the file is finished
        self._index = IndexBuilder(options.piece_bytes)
        self._hashes: list[U64] = []
        self._rows = 0
        self._last_key: bytes | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next rows, whose keys must be above those before."""
        count = batch.num_rows
        keys = self._keys(batch)
        values = pack_rows(self._layout, [batch.column(at) for at in self._value_places], count)
        has_kinds = batch.num_columns > len(self._meta.fields)
        kinds = batch.column(batch.num_columns - 1).to_numpy() if has_kinds else np.zeros(count, np.int8)
        blocks = cut_blocks(
            keys,
            read_only(kinds.view(np.uint8)),
            values,
            self._options.block_bytes,
            first_row=self._rows,
            after=self._last_key,
        )
        if self._meta.key and self._options.bloom_bits_per_key:
            self._hashes.append(hash_keys(keys))
        self._write(keys, blocks)
        self._rows += count
        self._last_key = keys.one(count - 1)

    def _keys(self, batch: pa.RecordBatch) -> Packed:
        if self._codec is not None:
            return packed_binary(self._codec.encode([batch.column(at) for at in self._key_places]))
        numbers = np.arange(self._rows, self._rows + batch.num_rows).astype(">u8")
        return packed_binary(binary_array(numbers.view(np.uint8), _ROW_NUMBER_BYTES))

    def _write(self, keys: Packed, blocks: Blocks) -> None:
        data = blocks.data.data
        begins, firsts = blocks.begins.tolist(), blocks.firsts.tolist()
        for at in range(len(begins) - 1):
            stored = seal_block(BlockType.DATA, data[begins[at] : begins[at + 1]], self._options.codec)
            self._parts.append(stored)
            self._index.add(
                stored=len(stored),
                raw=begins[at + 1] - begins[at],
                rows=firsts[at + 1] - firsts[at],
                first_key=keys.one(firsts[at]),
                last_key=keys.one(firsts[at + 1] - 1),
            )

    def finish(self) -> bytes:
        """Returns the file; the writer is used up."""
        index, meta, codec = self._index, self._meta, self._options.codec
        self._parts[0] = Header(rows=meta.rows, end=index.data_end, blocks=index.blocks).pack()
        end = index.data_end
        handles = {BlockType.BLOOM: Handle(0, 0)}
        contents = {BlockType.INDEX: index.build(), BlockType.META: meta.pack()}
        if self._hashes:
            bloom = build_bloom(np.concatenate(self._hashes), self._options.bloom_bits_per_key)
            contents = {BlockType.BLOOM: bloom, **contents}
        for kind, content in contents.items():
            # The bits of a good filter look random: they do not compress.
            stored = seal_block(kind, content, "none" if kind is BlockType.BLOOM else codec)
            handles[kind] = Handle(end, len(stored))
            end += len(stored)
            self._parts.append(stored)
        footer = Footer(
            meta=handles[BlockType.META], index=handles[BlockType.INDEX], bloom=handles[BlockType.BLOOM]
        )
        return b"".join([*self._parts, footer.pack()])
