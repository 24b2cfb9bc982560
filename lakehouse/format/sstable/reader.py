"""What is read of an SSTable: its metadata from the file's end, rows from its blocks.

Pure: bytes come in, and what is missing is said as ranges. The specification is
``docs/spec/v1/sstable.md``.

Invariant: rows handed out are those that were written. A block is decoded only if its checksum is
right and it has the rows, and the keys, that the index says.
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
from lakehouse.format.sstable.rows import RowError, RowLayout, one_sized, unpack_row, unpack_rows
from lakehouse.format.sstable.search import SearchBlock
from lakehouse.kernels.need_more import NeedMore

__all__ = ["ColumnSelection", "SstableFile", "decode_sstable"]

_KIND = arrow_field(KIND_FIELD)
_WIDE = frozenset(map(Primitive, ("int64", "time", "timestamp", "timestamp_ntz")))
"""Types whose values are the same eight bytes in keys and in Arrow, but for their order and the sign."""
_SIGN = 1 << 63
_BATCH_RAW_BYTES = 1 << 25
"""Blocks are decoded together until their content is so large; one chunk of Arrow each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSelection:
    """Some columns of a file, and the kinds of its rows behind them."""

    schema: pa.Schema
    """Of the rows, in the order of the file's columns."""
    order: tuple[int, ...]
    """Their ids."""
    values: tuple[bool, ...]
    """For each column that is not part of the key, whether it is one of them."""
    keys: bool
    """Whether a column of the key is."""


@functools.cache
def _kind_columns() -> list[pa.Array]:
    """The column of each kind of a table of one row; made late, since making arrays loads pandas."""
    return [pa.array([int(kind)], pa.int8()) for kind in RowKind]


class SstableFile:
    """The metadata of one file, and what its blocks hold.

    Args:
        footer: the file's.
        meta: the file's.
        index: the file's.
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
        """The columns, with their ids."""

    @classmethod
    def parse(cls, tail: bytes, size: int) -> SstableFile | NeedMore:
        """The metadata of a file of ``size`` bytes that ends so, or the range still needed.

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
        except InvalidInputError as error:  # of a column that cannot be part of a key
            raise CorruptionError(
                f"the meta block does not describe rows: {error.message}", offset=footer.meta.offset
            ) from error

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        index = self.index
        keys = sum(map(len, index.separators)) + sum(
            len(one.first_key + one.last_key) for one in index.pieces
        )
        return 4096 + 600 * len(self.arrow) + 120 * len(index.separators) + 300 * len(index.pieces) + keys

    def block_of(self, key: bytes) -> int | None:
        """The block that has the key if one has."""
        block = bisect_left(self.index.separators, key)
        return block if block < len(self.index.separators) else None

    def block_range(self, block: int) -> tuple[int, int]:
        """Where a block is in the file: ``[start, end)``."""
        return int(self.index.offsets[block]), int(self.index.offsets[block + 1])

    def content(self, block: int, stored: bytes) -> bytes:
        """The content of a block, given its bytes in the file.

        Raises:
            CorruptionError: they are not those of the block.
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
            raise self._damaged(block, "it has not as many bytes as the index says")
        return content

    def bloom(self, stored: bytes) -> BloomFilter:
        """The bloom filter, given its block's bytes in the file.

        Raises:
            CorruptionError: they are not those of one.
        """
        offset = self.footer.bloom.offset
        try:
            return parse_bloom(open_block(stored, BlockType.BLOOM, offset=offset))
        except ValueError as error:
            raise CorruptionError(f"the bloom filter is damaged: {error}", offset=offset) from error

    def columns(self, ids: Collection[int]) -> ColumnSelection:
        """The columns of the file that have these ids, to ask for rows of them."""
        meta = self.meta
        fields = [one for one, field in zip(self.arrow, meta.fields, strict=True) if field.id in ids]
        return ColumnSelection(
            schema=pa.schema([*fields, _KIND]),
            order=tuple(field.id for field in meta.fields if field.id in ids),
            values=tuple(field.id in ids for field in self._layout.fields),
            keys=any(number in ids for number in meta.key),
        )

    def rows(self, blocks: Sequence[int], contents: Sequence[bytes], columns: ColumnSelection) -> pa.Table:
        """The rows of blocks in ascending order.

        Raises:
            CorruptionError: a block is not one of rows of this file.
        """
        parts = [
            self._batch(blocks[begin:end], contents[begin:end], columns)
            for begin, end in _batches([len(one) for one in contents])
        ]
        return pa.Table.from_batches(parts, columns.schema)

    def _batch(
        self, numbers: Sequence[int], contents: Sequence[bytes], columns: ColumnSelection
    ) -> pa.RecordBatch:
        places = np.asarray(numbers, np.int64)
        blocks = Blocks(
            data=read_only(np.frombuffer(b"".join(contents), np.uint8)),
            begins=sums([len(one) for one in contents]),
            firsts=sums(self.index.firsts[places + 1] - self.index.firsts[places]),
        )
        try:
            entries = scan_blocks(blocks)
            keys = self._key_columns(blocks, entries) if columns.keys else ()
            values = unpack_rows(self._layout, blocks.data, entries.values, entries.ends, columns.values)
        except RowError as error:
            block = int(np.searchsorted(blocks.firsts, error.row, side="right")) - 1
            raise self._damaged(numbers[block], f"a row {error.what}") from error
        except BlockError as error:
            raise self._damaged(numbers[error.block], error.what) from error
        kinds = pa.array(entries.kinds.view(np.int8))
        return pa.RecordBatch.from_arrays(self._ordered(keys, values, kinds, columns), schema=columns.schema)

    def _key_columns(self, blocks: Blocks, entries: BlockEntries) -> Sequence[pa.Array]:
        assert self._key_codec is not None
        try:
            return self._key_codec.decode(entry_keys(blocks, entries))
        except CorruptionError as error:
            raise BlockError(0, f"or one behind it has a key that is none: {error.message}") from error

    def _ordered(
        self,
        keys: Sequence[pa.Array],
        values: Sequence[pa.Array | None],
        kinds: pa.Array,
        columns: ColumnSelection,
    ) -> list[pa.Array]:
        """The columns in the order of the file's, and the kinds."""
        by_id = dict(zip(self.meta.key, keys, strict=False))
        by_id.update(zip([field.id for field in self._layout.fields], values, strict=True))
        return [*(by_id[number] for number in columns.order), kinds]

    def search_block(self, block: int, stored: bytes) -> SearchBlock:
        """A block to find keys in, given its bytes in the file.

        Raises:
            CorruptionError: they are not those of the block.
        """
        content = self.content(block, stored)
        try:
            found = SearchBlock(content, int(self.index.firsts[block + 1] - self.index.firsts[block]))
        except BlockError as error:
            raise self._damaged(block, error.what) from error
        separators = self.index.separators
        if (block and found.keys[0] <= separators[block - 1]) or found.keys[-1] > separators[block]:
            raise self._damaged(block, "its keys are not between the separators of the index")
        return found

    def row(self, number: int, block: SearchBlock, key: bytes, columns: ColumnSelection) -> pa.Table | None:
        """The row of that key in block ``number``, as a table of one row; None when the block has none.

        Raises:
            CorruptionError: the content is not that of a block of this file.
        """
        try:
            found = block.find(key)
            if found is None:
                return None
            values = unpack_row(self._layout, block.content, found.begin, found.end, columns.values)
            keys = self._one_key(key) if columns.keys else ()
        except (BlockError, RowError) as error:
            raise self._damaged(number, error.what) from error
        kind = _kind_columns()[found.kind]
        return pa.Table.from_arrays(self._ordered(keys, values, kind, columns), schema=columns.schema)

    def _one_key(self, key: bytes) -> Sequence[pa.Array]:
        assert self._key_codec is not None
        parts = zip(self._key_codec.split(key), self._key_types, strict=True)
        return [_one_value(part, kind) for part, kind in parts]

    def _damaged(self, block: int, what: str) -> CorruptionError:
        offset = int(self.index.offsets[block])
        return CorruptionError(f"the data block at byte {offset} is damaged: {what}", offset=offset)


def decode_sstable(data: bytes) -> pa.Table:
    """All rows of a whole file, as they were handed to the encoder.

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
    """An array of one value that a key holds."""
    if kind in _WIDE:
        number = int.from_bytes(part, "big") ^ _SIGN
        buffers = [None, pa.py_buffer(number.to_bytes(8, "little"))]
        return pa.Array.from_buffers(arrow_type(kind), 1, buffers)
    if value_width(kind) is None:
        return one_sized(kind, part)
    return decode_fixed(np.frombuffer(part, np.uint8), kind)


def _batches(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbours that are decoded together."""
    begin = total = 0
    for at, size in enumerate(sizes):
        total += size
        if total >= _BATCH_RAW_BYTES or at == len(sizes) - 1:
            yield begin, at + 1
            begin, total = at + 1, 0
