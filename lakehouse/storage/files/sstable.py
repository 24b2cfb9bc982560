"""Reader of one SSTable, with as few requests as its layout allows.

Opening costs one ranged read of the file's tail (the entry knows the size): footer, metadata, index,
and the bloom filter when it fits. It costs a second one when they do not fit, and none when they are
cached. A small file is read whole by the same request. A point read then costs one request, of one
block, or none: when the filter, the key range or a cached block answers. A filter too large for the
tail is read by the first point read.

Invariant: rows handed out are those that were written. Every block has a checksum, and the file's
metadata agrees with the snapshot's entry; any difference is a CorruptionError that names the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import KIND_FIELD, Field, TableSchema, arrow_schema, project
from lakehouse.format.sstable import (
    BloomFilter,
    ColumnSelection,
    KeyValues,
    RowValues,
    SearchBlock,
    SstableFile,
)
from lakehouse.io import ObjectStore
from lakehouse.io.work import in_thread
from lakehouse.kernels.arrays import I64
from lakehouse.kernels.need_more import NeedMore
from lakehouse.storage.files.integrity import check_same, reading
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.metadata.caches import RunCaches

__all__ = ["PREFETCH_BYTES", "WHOLE_BYTES", "ShownFields", "SstableRun", "open_sstable"]

WHOLE_BYTES = 256 * 1024
"""Maximum size in bytes of a file that is read whole when it is opened: its bytes take less time than
another request would."""
PREFETCH_BYTES = 256 * 1024
"""Maximum bytes that the first read takes of a larger file's tail."""
_TAIL_BYTES = 32 * 1024
"""Minimum bytes that it takes."""
_INDEX_BYTES_PER_BLOCK = 24
"""Estimated bytes of a block in the index."""
_SHOWN_MAX = 4
"""Selections of columns whose forms a file keeps."""
_BLOCK_BYTES = 8 * 1024
"""Estimated stored bytes of a block."""


class _Opened:
    """Metadata of a file, kept between reads."""

    __slots__ = ("bloom", "file", "run", "shown", "version", "weight")

    def __init__(self, file: SstableFile, bloom: BloomFilter | None, version: str | None) -> None:
        self.file = file
        self.bloom = bloom
        self.version = version
        self.shown: tuple[ShownFields, ...] = ()
        self.run: SstableRun | None = None
        """Reader that was made last."""
        self.weight = file.weight + (bloom.weight if bloom is not None else 0)


class ShownFields(NamedTuple):
    """Form of the rows for point reads that ask for some fields."""

    fields: tuple[Field, ...]
    columns: ColumnSelection
    nothing: pa.Table
    """The fields asked for, and the kinds, without a row."""
    same: bool
    """Whether the file has just these columns, so that rows need no projection."""
    places: tuple[tuple[str, int], ...] | None
    """Name of each field, and its place among the values of a row; None = one is not there as it is asked."""
    decoders: tuple[RowValues, KeyValues | None] | None
    """Decoders of single rows to Python objects; None where there are no places."""


async def open_sstable(
    store: ObjectStore,
    root: str,
    entry: FileEntry,
    schema: TableSchema,
    caches: RunCaches,
    *,
    prefetch_bytes: int | None = None,
) -> SstableRun:
    """Opens a reader of the file; one request, two when its metadata is long, none when it is cached.

    Args:
        store: the store that holds the table.
        root: the table's directory in the store; may be empty.
        entry: the file.
        schema: the schema that reads are made with; its key is the table's.
        caches: shared by all files of the store.
        prefetch_bytes: bytes of the tail to read first; None = estimated from the number of rows.

    Raises:
        CorruptionError: the object is damaged, or not the file that the entry describes.
        UnsupportedVersionError: a newer release wrote it.
        NotFoundError: there is no such object.
    """
    where = (root, entry.path)
    key = f"{root}/{entry.path}" if root else entry.path
    whole: bytes | None = None

    async def load(_: object) -> _Opened:
        nonlocal whole
        with reading(key):
            opened, tail = await _load(store, key, entry, schema, prefetch_bytes or _tail_bytes(entry))
        if len(tail) == entry.size:
            whole = tail
            caches.blocks.put((*where, "file"), tail)
        return opened

    opened = await caches.metadata.get(where, load)
    assert opened is not None  # load always returns one
    run: SstableRun | None = opened.run
    if run is not None and run.is_of(entry, store):
        return run
    if whole is None and entry.size <= WHOLE_BYTES:
        whole = caches.blocks.get_if_present((*where, "file"))
    run = SstableRun(store, key, where, entry, caches, opened, whole)
    # Bytes of a small file, and a filter that is read apart, are weighed and go by themselves.
    if whole is None and (opened.bloom is not None or not opened.file.footer.bloom.size):
        opened.run = run
    return run


def _tail_bytes(entry: FileEntry) -> int:
    """Returns how many bytes to read at the end of a file: its metadata by estimate, or a small one whole."""
    if entry.size <= WHOLE_BYTES:
        return max(entry.size, 1)
    index = entry.size // _BLOCK_BYTES * _INDEX_BYTES_PER_BLOCK
    # The bloom filter has about ten bits for each row.
    return min(PREFETCH_BYTES, _TAIL_BYTES + index + 10 * entry.rows // 8)


async def _load(
    store: ObjectStore, key: str, entry: FileEntry, schema: TableSchema, prefetch_bytes: int
) -> tuple[_Opened, bytes]:
    """Reads the file's metadata; returns it with the tail that was read for it."""
    fetched = await store.get_tail(key, prefetch_bytes, size=entry.size)
    if fetched.size != entry.size or fetched.end != entry.size:
        raise CorruptionError(
            f"the object has {fetched.size} bytes and ended at {fetched.end}, the snapshot says {entry.size}",
            offset=min(fetched.end, entry.size),
            expected=entry.size,
            got=fetched.size,
        )
    tail = fetched.data
    file = SstableFile.parse(tail, entry.size)
    while isinstance(file, NeedMore):
        behind = entry.size - len(tail)
        rest = await store.get_range(key, file.start, behind, version=fetched.version)
        if len(rest.data) != behind - file.start:
            raise CorruptionError(
                "the object ended within its metadata when it was read again", offset=file.start
            )
        tail = rest.data + tail
        file = SstableFile.parse(tail, entry.size)
    _check_entry(file, entry, schema)
    if len(tail) == entry.size and entry.checksum is not None:
        got = entry.size, int(google_crc32c.value(tail))
        check_same("size and checksum", (entry.size, entry.checksum), got)
    handle, start = file.footer.bloom, entry.size - len(tail)
    bloom = None
    if handle.size and handle.offset >= start:
        bloom = file.bloom(tail[handle.offset - start : handle.end - start])
    return _Opened(file, bloom, fetched.version), tail


def _check_entry(file: SstableFile, entry: FileEntry, schema: TableSchema) -> None:
    """Refuses a sound file that is not the one the snapshot refers to."""
    meta, pieces = file.meta, file.index.pieces
    ends = (pieces[0].first_key, pieces[-1].last_key) if pieces and meta.key else (None, None)
    key = tuple(field.id for field in schema.key_fields)
    expected = (entry.rows, entry.updates, entry.deletes, key, entry.min_key, entry.max_key)
    got = (meta.rows, *meta.kinds[1:], meta.key, *ends)
    check_same("rows, updates, deletes, key columns, first and last key", expected, got)


class SstableRun:
    """An open SSTable: see :class:`~lakehouse.storage.files.reader.RunReader`."""

    __slots__ = (
        "_bloom", "_caches", "_file", "_key", "_opened", "_pieces", "_store", "_version", "_where", "_whole",
        "entry",
    )  # fmt: skip

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        where: tuple[str, str],
        entry: FileEntry,
        caches: RunCaches,
        opened: _Opened,
        whole: bytes | None,
    ) -> None:
        self._store = store
        self._key = key
        self._where = where
        self.entry = entry
        self._caches = caches
        self._opened = opened
        self._file = opened.file
        self._bloom = opened.bloom
        self._version = opened.version
        self._whole = whole
        self._pieces: tuple[Piece, ...] | None = None

    def is_of(self, entry: FileEntry, store: ObjectStore) -> bool:
        """Returns whether it reads the file of this very entry from this very store."""
        return self.entry is entry and self._store is store

    @property
    def pieces(self) -> Sequence[Piece]:
        """Groups of neighbouring blocks, about a megabyte each."""
        if self._pieces is None:
            self._pieces = tuple(_pieces(self._file))
        return self._pieces

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Reads these columns of these pieces (None = all), with ``_VALUE_KIND`` last when asked for.

        Fetches blocks whole, since they hold all columns; columns that are not asked for are not decoded.
        """
        index = self._file.index
        asked = index.pieces if pieces is None else [index.pieces[at] for at in pieces]
        wanted = (*fields, KIND_FIELD) if kinds else tuple(fields)
        ids = {field.id for field in wanted}
        if not asked or ids.isdisjoint([KIND_FIELD.id, *(field.id for field in self._file.meta.fields)]):
            # The file has none of these columns: one column of nulls carries the number of rows.
            count = sum(int(index.firsts[piece.end] - index.firsts[piece.begin]) for piece in asked)
            return project(pa.table([pa.nulls(count if rows is None else len(rows))], [""]), wanted)
        with reading(self._key):
            ranges = [(int(index.offsets[piece.begin]), int(index.offsets[piece.end])) for piece in asked]
            stored = await self._ranges(ranges)
            blocks = [range(piece.begin, piece.end) for piece in asked]
            table = await in_thread(self._decode, blocks, stored, wanted, self._file.columns(ids))
            return table if rows is None else table.take(pa.array(rows))

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> SstableRun:
        """Returns the file itself: fetching columns separately saves nothing."""
        return self

    async def _ranges(self, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        whole = self._whole
        if whole is not None:
            return [whole[start:end] for start, end in ranges]
        return await self._store.get_ranges(self._key, ranges, version=self._version)

    def _decode(
        self,
        blocks: Sequence[range],
        stored: Sequence[bytes],
        wanted: Sequence[Field],
        columns: ColumnSelection,
    ) -> pa.Table:
        contents = []
        for piece, data in zip(blocks, stored, strict=True):
            first, _ = self._file.block_range(piece.start)
            for block in piece:
                start, end = self._file.block_range(block)
                contents.append(self._file.content(block, data[start - first : end - first]))
        numbers = [block for piece in blocks for block in piece]
        return project(self._file.rows(numbers, contents, columns), wanted)

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Returns the row of that row key, with its ``_VALUE_KIND``, as a table of one row, or of none.

        Reads one block in one request, or nothing when the bloom filter or the range of keys shows
        that there is no such row. Blocks are kept for the next reads.
        """
        shown = self._how(fields)
        with reading(self._key):
            found = await self._block_with(key)
            row = None if found is None else self._file.row(*found, key, shown.columns)
        if row is None:
            return shown.nothing
        return row if shown.same else project(row, (*shown.fields, KIND_FIELD))

    def values_of(self, fields: Sequence[Field]) -> ShownFields | None:
        """Returns what :meth:`get_values` takes for these fields; None where it cannot get them."""
        shown = self._how(fields)
        return None if shown.places is None else shown

    async def get_values(
        self, key: bytes, shown: ShownFields, *, is_likely: bool = False
    ) -> tuple[int, dict[str, object]] | None:
        """Returns kind and values of the row of that row key as Python objects; None when there is none.

        Costs what :meth:`get` costs in requests, and less to compute. Where the row ``is_likely`` there, the
        filter is asked only if it may save a request: it takes half as long as a search of the block.
        """
        assert shown.decoders is not None
        assert shown.places is not None  # both are there where rows are asked for by key
        with reading(self._key):
            found = await self._block_with(key, is_likely=is_likely)
            row = None if found is None else self._file.row_values(*found, key, shown.decoders)
        if row is None:
            return None
        kind, values = row
        return kind, {name: values[place] for name, place in shown.places}

    async def _block_with(self, key: bytes, *, is_likely: bool = False) -> tuple[int, SearchBlock] | None:
        """Returns the only block that may hold a key, with its number; None when none may."""
        file = self._file
        if not file.meta.key:
            raise InvalidInputError(
                f"{self._key} belongs to a table without a key: there is nothing to get by"
            )
        block = file.block_of(key)
        if block is None or key < file.index.pieces[0].first_key:
            return None
        place, blocks = (*self._where, block), self._caches.blocks
        if file.footer.bloom.size and not (is_likely and blocks.holds(place)):
            bloom = self._bloom or await self._load_bloom()
            if not bloom.may_hold(key):
                return None
        held = await blocks.get(place, self._load_block)
        assert held is not None  # _load_block always returns one
        return block, held

    def _how(self, fields: Sequence[Field]) -> ShownFields:
        """Returns the form of rows for these fields; kept, as point reads tend to ask for the same ones."""
        asked = tuple(fields)
        for shown in self._opened.shown:
            if shown.fields == asked:
                break
        else:
            schema = arrow_schema((*asked, KIND_FIELD))
            columns = self._file.columns({field.id for field in asked})
            same = columns.schema.equals(schema, check_metadata=True)
            places = _places(self._file, columns, asked)
            decoders = None if places is None else self._file.values(columns)
            # Kept with the metadata, since readers live for one read only.
            shown = ShownFields(asked, columns, schema.empty_table(), same, places, decoders)
            self._opened.shown = (shown, *self._opened.shown[: _SHOWN_MAX - 1])
        return shown

    async def _load_block(self, where: tuple[str, str, int]) -> SearchBlock:
        block = where[-1]
        (stored,) = await self._ranges([self._file.block_range(block)])
        return self._file.search_block(block, stored)

    async def _load_bloom(self) -> BloomFilter:
        async def load(_: object) -> BloomFilter:
            handle = self._file.footer.bloom
            (stored,) = await self._ranges([(handle.offset, handle.end)])
            return self._file.bloom(stored)

        bloom: BloomFilter | None = await self._caches.metadata.get((*self._where, "bloom"), load)
        assert bloom is not None
        self._bloom = bloom
        return bloom


def _places(
    file: SstableFile, columns: ColumnSelection, asked: Sequence[Field]
) -> tuple[tuple[str, int], ...] | None:
    """Returns the place of each field among the values of a row: the key's columns, then the others."""
    keys = [*file.meta.key] if columns.keys else []
    kinds = {field.id: field.type for field in file.meta.fields}
    order = [*keys, *(number for number in columns.order if number not in file.meta.key)]
    if any(kinds.get(field.id) != field.type for field in asked):
        return None
    return tuple((field.name, order.index(field.id)) for field in asked)


def _pieces(file: SstableFile) -> Iterator[Piece]:
    index, keyed = file.index, bool(file.meta.key)
    for piece in index.pieces:
        first_row = int(index.firsts[piece.begin])
        yield Piece(
            rows=int(index.firsts[piece.end]) - first_row,
            first_row=first_row,
            size=int(index.offsets[piece.end] - index.offsets[piece.begin]),
            min_key=piece.first_key if keyed else None,
            max_key=piece.last_key if keyed else None,
        )
