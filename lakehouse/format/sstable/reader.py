"""Decoder of SSTables: metadata from the file's end, rows from its blocks.

Pure: takes bytes, and returns the ranges that are still missing. The specification is
``docs/spec/v1/sstable.md``.

Invariant: the rows it returns are those that were written. A block is decoded only if its checksum is
right and it has the number of rows, and the range of keys, that the index states.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.keys.order_value import decode_fixed, value_width
from lakehouse.format.keys.row_key import RowKeyCodec
from lakehouse.format.metadata.file_entry import RowKind
from lakehouse.format.schema.types import KIND_FIELD, DataType, Primitive, arrow_field, arrow_type
from lakehouse.format.sstable.bloom import BloomFilter, parse_bloom
from lakehouse.format.sstable.entries import BlockEntries, BlockError, Blocks, entry_keys, scan_blocks
from lakehouse.format.sstable.frame import BlockType, Footer, Header, open_block
from lakehouse.format.sstable.index import BlockIndex
from lakehouse.format.sstable.loops import read_only, sums
from lakehouse.format.sstable.meta import FileMeta
from lakehouse.format.sstable.row_values import KeyValues, RowValues
from lakehouse.format.sstable.rows import RowError, RowLayout, one_sized, unpack_row, unpack_rows
from lakehouse.format.sstable.search import SearchBlock
from lakehouse.kernels.need_more import NeedMore

__all__ = ["ColumnSelection", "SstableFile", "decode_sstable"]

_KIND = arrow_field(KIND_FIELD)
_WIDE = frozenset(map(Primitive, ("int64", "time", "timestamp", "timestamp_ntz")))
"""Types whose values are the same eight bytes in keys and in Arrow, but for their order and the sign."""
_SIGN = 1 << 63
_BATCH_RAW_BYTES = 1 << 25
"""Bytes of content at which a batch of blocks ends that are decoded together, into one chunk of Arrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSelection:
    """Selection of columns of a file; the kinds of rows follow them."""

    schema: pa.Schema
    """Schema of the selected rows, in the order of the file's columns."""
    order: tuple[int, ...]
    """Ids of the selected columns, in that order."""
    values: tuple[bool, ...]
    """For each column that is not part of the key, True if it is selected."""
    keys: bool
    """True if a column of the key is selected."""


@functools.cache
def _kind_columns() -> list[pa.Array]:
    """Returns for each kind its column of one row; made on first use, since making arrays loads pandas."""
    return [pa.array([int(kind)], pa.int8()) for kind in RowKind]


class SstableFile:
    """Parsed metadata of one file, which decodes its blocks.

    Args:
        footer: the file's footer.
        meta: the file's description of its rows.
        index: the file's index.
    """

    __slots__ = ("_key_codec", "_key_types", "_layout", "arrow", "footer", "index", "meta")

    def __init__(self, footer: Footer, meta: FileMeta, index: BlockIndex) -> None:
        self.footer = footer
        self.meta = meta
        self.index = index
        self._layout = RowLayout.of(meta.value_fields)
        self._key_codec = RowKeyCodec(meta.key_fields) if meta.key else None
        self._key_types = [field.type for field in meta.key_fields]
        self.arrow = [arrow_field(field) for field in meta.fields]
        """The file's columns as Arrow fields, with their ids."""

    @classmethod
    def parse(cls, tail: bytes, size: int) -> SstableFile | NeedMore:
        """Parses the metadata from the last bytes of a file of ``size`` bytes; else returns the range needed.

        Raises:
            FormatError: the file is no SSTable.
            CorruptionError: it is damaged.
            UnsupportedVersionError: a newer release wrote it.
        """
        if size < Header.ENCODED_SIZE + Footer.ENCODED_SIZE:
            raise CorruptionError(f"the file has {size} bytes, too few for an SSTable", offset=0)
        at = size - Footer.ENCODED_SIZE
        start = size - len(tail)
        if start > at:
            return NeedMore(start=at, end=size)
        footer = Footer.unpack(tail[at - start :], offset=at)
        if start > footer.index.offset:
            return NeedMore(start=footer.index.offset, end=size)
        meta_bytes = tail[footer.meta.offset - start : footer.meta.end - start]
        index_bytes = tail[footer.index.offset - start : footer.index.end - start]
        meta_content = open_block(meta_bytes, BlockType.META, offset=footer.meta.offset)
        meta = FileMeta.parse(meta_content, offset=footer.meta.offset)
        index_content = open_block(index_bytes, BlockType.INDEX, offset=footer.index.offset)
        index = BlockIndex.parse(index_content, footer)
        if int(index.firsts[-1]) != meta.rows:
            raise CorruptionError(
                f"the blocks of the index have {index.firsts[-1]} rows, the file has {meta.rows}",
                offset=footer.index.offset,
                expected=meta.rows,
                got=int(index.firsts[-1]),
            )
        try:
            return cls(footer, meta, index)
        except InvalidInputError as error:  # raised for a column that cannot be part of a key
            raise CorruptionError(
                f"the meta block does not describe rows: {error.message}", offset=footer.meta.offset
            ) from error

    @property
    def weight(self) -> int:
        """Approximate bytes in memory."""
        index = self.index
        keys = sum(map(len, index.separators)) + sum(
            len(piece.first_key + piece.last_key) for piece in index.pieces
        )
        return 4096 + 600 * len(self.arrow) + 120 * len(index.separators) + 300 * len(index.pieces) + keys

    def block_of(self, key: bytes) -> int | None:
        """Returns the number of the only block that can have the key; None when none can."""
        block = bisect_left(self.index.separators, key)
        return block if block < len(self.index.separators) else None

    def block_range(self, block: int) -> tuple[int, int]:
        """Returns the place of a block in the file, ``[start, end)``."""
        return int(self.index.offsets[block]), int(self.index.offsets[block + 1])

    def content(self, block: int, stored: bytes) -> bytes:
        """Verifies the stored bytes of a block and returns its content.

        Raises:
            CorruptionError: they are not the bytes of that block.
        """
        start, end = self.block_range(block)
        if len(stored) != end - start:
            raise CorruptionError(
                f"the file ends inside the data block at byte {start}",
                offset=start,
                expected=end - start,
                got=len(stored),
            )
        content = open_block(stored, BlockType.DATA, offset=start)
        if len(content) != self.index.raw[block]:
            raise self._damage_error(block, "it has not as many bytes as the index says")
        return content

    def bloom(self, stored: bytes) -> BloomFilter:
        """Decodes the bloom filter from its block's bytes in the file.

        Raises:
            CorruptionError: they are not the bytes of such a block.
        """
        offset = self.footer.bloom.offset
        try:
            return parse_bloom(open_block(stored, BlockType.BLOOM, offset=offset))
        except ValueError as error:
            raise CorruptionError(f"the bloom filter is damaged: {error}", offset=offset) from error

    def columns(self, ids: Collection[int]) -> ColumnSelection:
        """Selects the columns of the file that have these ids, for :meth:`rows` and :meth:`row`."""
        meta = self.meta
        fields = [arrow for arrow, field in zip(self.arrow, meta.fields, strict=True) if field.id in ids]
        return ColumnSelection(
            schema=pa.schema([*fields, _KIND]),
            order=tuple(field.id for field in meta.fields if field.id in ids),
            values=tuple(field.id in ids for field in self._layout.fields),
            keys=any(number in ids for number in meta.key),
        )

    def rows(self, blocks: Sequence[int], contents: Sequence[bytes], columns: ColumnSelection) -> pa.Table:
        """Decodes the rows of blocks, which must be given in ascending order.

        Raises:
            CorruptionError: the content of a block is not that of rows of this file.
        """
        parts = [
            self._batch(blocks[begin:end], contents[begin:end], columns)
            for begin, end in _batches([len(content) for content in contents])
        ]
        return pa.Table.from_batches(parts, columns.schema)

    def _batch(
        self, numbers: Sequence[int], contents: Sequence[bytes], columns: ColumnSelection
    ) -> pa.RecordBatch:
        places = np.asarray(numbers, np.int64)
        blocks = Blocks(
            data=read_only(np.frombuffer(b"".join(contents), np.uint8)),
            begins=sums([len(content) for content in contents]),
            firsts=sums(self.index.firsts[places + 1] - self.index.firsts[places]),
        )
        try:
            entries = scan_blocks(blocks)
            keys = self._key_columns(blocks, entries) if columns.keys else ()
            values = unpack_rows(self._layout, blocks.data, entries.values, entries.ends, columns.values)
        except RowError as error:
            block = int(np.searchsorted(blocks.firsts, error.row, side="right")) - 1
            raise self._damage_error(numbers[block], f"a row {error.what}") from error
        except BlockError as error:
            raise self._damage_error(numbers[error.block], error.what) from error
        kinds = pa.array(entries.kinds.view(np.int8))
        return pa.RecordBatch.from_arrays(self._ordered(keys, values, kinds, columns), schema=columns.schema)

    def _key_columns(self, blocks: Blocks, entries: BlockEntries) -> Sequence[pa.Array]:
        try:
            return self._codec().decode(entry_keys(blocks, entries))
        except CorruptionError as error:
            raise BlockError(0, f"or one behind it has a key that is none: {error.message}") from error

    def _ordered(
        self,
        keys: Sequence[pa.Array],
        values: Sequence[pa.Array | None],
        kinds: pa.Array,
        columns: ColumnSelection,
    ) -> list[pa.Array]:
        """Returns the selected columns in the order of the file's, and the kinds."""
        by_id = dict(zip(self.meta.key, keys, strict=False))
        by_id.update(zip([field.id for field in self._layout.fields], values, strict=True))
        return [*(by_id[number] for number in columns.order), kinds]

    def search_block(self, block: int, stored: bytes) -> SearchBlock:
        """Opens a block for lookups of single keys, from its bytes in the file.

        Raises:
            CorruptionError: they are not the bytes of that block.
        """
        content = self.content(block, stored)
        try:
            opened = SearchBlock(content, int(self.index.firsts[block + 1] - self.index.firsts[block]))
        except BlockError as error:
            raise self._damage_error(block, error.what) from error
        separators = self.index.separators
        if (block and opened.keys[0] <= separators[block - 1]) or opened.keys[-1] > separators[block]:
            raise self._damage_error(block, "its keys are not between the separators of the index")
        return opened

    def row(self, number: int, block: SearchBlock, key: bytes, columns: ColumnSelection) -> pa.Table | None:
        """Decodes the row of a key in block ``number`` as a table of one row; None when it has none.

        Raises:
            CorruptionError: the content is not that of a block of this file.
        """
        try:
            entry = block.find(key)
            if entry is None:
                return None
            values = unpack_row(self._layout, block.content, entry.begin, entry.end, columns.values)
            keys = self._one_key(key) if columns.keys else ()
        except (BlockError, RowError) as error:
            raise self._damage_error(number, error.what) from error
        kind = _kind_columns()[entry.kind]
        return pa.Table.from_arrays(self._ordered(keys, values, kind, columns), schema=columns.schema)

    def values(self, columns: ColumnSelection) -> tuple[RowValues, KeyValues | None]:
        """Returns decoders of selected columns for :meth:`row_values`; the second if some are of the key."""
        keys = None
        if columns.keys:
            keys = KeyValues(self._codec(), self._key_types)
        return RowValues(self._layout, columns.values), keys

    def row_values(
        self, number: int, block: SearchBlock, key: bytes, decoders: tuple[RowValues, KeyValues | None]
    ) -> tuple[int, list[object]] | None:
        """Decodes the row of a key in block ``number`` to Python objects; None when it has none.

        Returns its kind, and the values of the columns of the key, then of the others.

        Raises:
            CorruptionError: the content is not that of a block of this file.
        """
        values, keys = decoders
        try:
            entry = block.find(key)
            if entry is None:
                return None
            found = values.decode(block.content, entry.begin, entry.end)
        except (BlockError, RowError) as error:
            raise self._damage_error(number, error.what) from error
        return entry.kind, found if keys is None else keys.decode(key) + found

    def _codec(self) -> RowKeyCodec:
        assert self._key_codec is not None  # only tables with a key have columns of it
        return self._key_codec

    def _one_key(self, key: bytes) -> Sequence[pa.Array]:
        parts = zip(self._codec().split(key), self._key_types, strict=True)
        return [_one_value(part, kind) for part, kind in parts]

    def _damage_error(self, block: int, what: str) -> CorruptionError:
        offset = int(self.index.offsets[block])
        return CorruptionError(f"the data block at byte {offset} is damaged: {what}", offset=offset)


def decode_sstable(data: bytes) -> pa.Table:
    """Decodes all rows of a whole file, as the encoder was given them.

    Raises:
        FormatError: the file is no SSTable.
        CorruptionError: it is damaged.
        UnsupportedVersionError: a newer release wrote it.
    """
    header = Header.unpack(data)
    file = SstableFile.parse(data, len(data))
    assert isinstance(file, SstableFile)
    footer, index = file.footer, file.index
    if (header.rows, header.end, header.blocks) != (file.meta.rows, footer.data_end, len(index.raw)):
        raise CorruptionError("the header does not say what the footer says", offset=0)
    if footer.bloom.size:
        file.bloom(data[footer.bloom.offset : footer.bloom.end])
    blocks = range(len(index.raw))
    contents = [file.content(block, data[slice(*file.block_range(block))]) for block in blocks]
    rows = file.rows(blocks, contents, file.columns({field.id for field in file.meta.fields}))
    return rows if file.meta.kinds[0] < file.meta.rows else rows.drop_columns([KIND_FIELD.name])


def _one_value(part: bytes, kind: DataType) -> pa.Array:
    """Decodes one encoded value of a key to an array."""
    if kind in _WIDE:
        number = int.from_bytes(part, "big") ^ _SIGN
        buffers = [None, pa.py_buffer(number.to_bytes(8, "little"))]
        return pa.Array.from_buffers(arrow_type(kind), 1, buffers)
    if value_width(kind) is None:
        return one_sized(kind, part)
    return decode_fixed(np.frombuffer(part, np.uint8), kind)


def _batches(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields ranges ``[begin, end)`` of neighbouring blocks that are decoded together."""
    begin = total = 0
    for at, size in enumerate(sizes):
        total += size
        if total >= _BATCH_RAW_BYTES or at == len(sizes) - 1:
            yield begin, at + 1
            begin, total = at + 1, 0
