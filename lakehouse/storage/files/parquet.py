"""One Parquet data file, read with as few requests as its layout allows.

Opening costs one ranged read of the file's tail (the entry knows the size), a second one when the
footer does not fit, none when its metadata is cached. A small file is read whole by the same
request. Reading fetches the chunks of the columns and row groups asked for, neighbours together,
and decodes them in a thread.

Invariant: rows handed out are those that were written. Every byte that is decoded was checked against a
checksum, the checksums are in a footer that has one itself, and the footer agrees with the snapshot's entry;
any difference is a CorruptionError that names the object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lakehouse.cache import weigh
from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.keys import RowKeyCodec
from lakehouse.format.metadata import FileEntry
from lakehouse.format.parquet import (
    FileFooter,
    GroupStats,
    LeafColumns,
    RunFooter,
    chunk_ranges,
    crc32c,
    decode_chunks,
    image_of,
    leaf_count,
)
from lakehouse.format.schema import (
    KIND_FIELD,
    Field,
    TableOptions,
    TableSchema,
    check_types,
    project,
    with_field_ids,
)
from lakehouse.io import ObjectStore, map_bounded
from lakehouse.io.work import in_thread
from lakehouse.kernels.arrays import I64, U8
from lakehouse.kernels.need_more import NeedMore
from lakehouse.storage.files.integrity import check_same, reading
from lakehouse.storage.files.reader import Piece
from lakehouse.storage.metadata.caches import RunCaches

__all__ = ["WHOLE_BYTES", "ParquetRun", "open_parquet"]

WHOLE_BYTES = 512 * 1024
"""Maximum size in bytes of a file that is read whole when it is opened: its bytes take less time than
another request would."""
_GAP_BYTES = 512 * 1024
"""Maximum gap in bytes between chunks that share a request: reading it takes less time than a request."""
_PORTION_BYTES = 1024 * 1024
"""Minimum bytes of encoded chunks that are worth a thread of their own."""
_TAIL_BYTES = 64 * 1024
"""Minimum bytes that are read of the tail of larger files."""
_CHUNK_FOOTER_BYTES = 192
"""Estimated bytes of a column chunk in the footer: 100 to 150 of Parquet's, 12 of ours, bounds of text."""

R = TypeVar("R")


class _Opened:
    """Metadata of a file, kept between reads."""

    __slots__ = ("_named", "columns", "footer", "version", "weight")

    def __init__(
        self,
        footer: FileFooter,
        version: str | None,
        schema: TableSchema,
        naming: Sequence[Field] | None = None,
    ) -> None:
        self.footer = footer
        naming = schema.fields if naming is None else naming
        columns = footer.arrow_schema()
        self._named: tuple[Field, ...] | None = None
        """Fields that columns are found for by name, where a file of some other program has no ids."""
        if not footer.is_sealed:
            found = with_field_ids(columns, naming)
            if found is not columns and not naming:
                raise InvalidInputError(
                    "the file's columns have no field ids, and nothing says which names stand for which: "
                    "give the table a name mapping"
                )
            self._named = None if found is columns else tuple(naming)
            columns = found
            check_types(columns, schema.fields)
        self.columns = LeafColumns(columns)
        self.version = version
        self.weight = footer.weight + weigh(self.columns)

    def with_ids(self, rows: pa.Table) -> pa.Table:
        """Returns rows of the file with field ids."""
        return rows if self._named is None else rows.cast(with_field_ids(rows.schema, self._named))


class _Group:
    """A decoded row group, for point reads."""

    __slots__ = ("keys", "table", "weight")

    def __init__(self, keys: pa.Array, table: pa.Table) -> None:
        self.keys = keys
        self.table = table
        self.weight = weigh((keys, table))

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> bytes:
        return self.keys[row].as_py()  # type: ignore[no-any-return]

    def row(self, key: bytes) -> pa.Table:
        """Returns the row of that key as a table of one row, or of none."""
        at = bisect_left(self, key)
        is_there = at < len(self) and self[at] == key
        return self.table.slice(at, 1 if is_there else 0)


async def open_parquet(
    store: ObjectStore,
    root: str,
    entry: FileEntry,
    schema: TableSchema,
    caches: RunCaches,
    *,
    footer: type[FileFooter] = RunFooter,
    home: str = "",
    naming: Sequence[Field] | None = None,
) -> ParquetRun:
    """Opens a reader of the file; one request, two when its footer is long, none when it is cached.

    Args:
        store: the store that holds the table.
        root: the table's directory in the store; may be empty.
        entry: the file.
        schema: the schema that reads are made with; its key is the table's.
        caches: shared by all files of the store.
        footer: the footer of files of its kind.
        home: what tells the store's keys from those of others in the caches, where they share some.
        naming: fields that columns of a foreign file without ids are found for; None = the schema's.

    Raises:
        CorruptionError: the object is damaged, or not the file that the entry describes.
        UnsupportedVersionError: a newer release wrote it.
        NotFoundError: there is no such object.
    """
    where = (home or root, entry.path)
    key = f"{root}/{entry.path}" if root else entry.path
    whole: bytes | None = None

    async def load(_: object) -> _Opened:
        nonlocal whole
        with reading(key):
            opened, tail = await _load(store, key, entry, schema, footer, naming)
        if len(tail) == entry.size:
            whole = tail
            caches.blocks.put((*where, "file"), tail)
        return opened

    opened = await caches.metadata.get(where, load)
    assert opened is not None  # load always returns one
    with reading(key):
        _check_entry(opened.footer, entry)
    if whole is None and entry.size <= WHOLE_BYTES:
        whole = caches.blocks.get_if_present((*where, "file"))
    image = None if whole is None else np.frombuffer(whole, np.uint8)
    return ParquetRun(store, key, where, entry, schema, caches, opened, image)


async def _load(
    store: ObjectStore,
    key: str,
    entry: FileEntry,
    schema: TableSchema,
    kind: type[FileFooter],
    naming: Sequence[Field] | None,
) -> tuple[_Opened, bytes]:
    """Reads the file's metadata; returns it with the tail that was read for it."""
    length = _tail_bytes(entry, schema)
    fetched = await store.get_tail(key, max(length, 1), size=entry.size)
    if fetched.size != entry.size or len(fetched.data) != length:
        raise CorruptionError(
            f"the object has {fetched.size} bytes, the snapshot says {entry.size}: "
            "it was cut off, or another file stands in its place",
            expected=entry.size,
            got=fetched.size,
        )
    tail = fetched.data
    footer = await in_thread(kind.parse, tail, entry.size)
    if isinstance(footer, NeedMore):
        rest = await store.get_range(key, footer.start, entry.size - length, version=fetched.version)
        tail = rest.data + tail
        footer = await in_thread(kind.parse, tail, entry.size)
    if isinstance(footer, NeedMore):
        raise CorruptionError(
            "the object ended within its footer when it was read again", offset=footer.start
        )
    if len(tail) == entry.size and entry.checksum is not None and entry.checksum != crc32c(tail):
        raise CorruptionError(
            f"the file has checksum {crc32c(tail):08x}, the snapshot says {entry.checksum:08x}: "
            "it is damaged",
            offset=0,
            expected=entry.checksum,
            got=crc32c(tail),
        )
    return _Opened(footer, fetched.version, schema, naming), tail


def _tail_bytes(entry: FileEntry, schema: TableSchema) -> int:
    """Returns how many bytes to read at the end of a file: its footer by estimate, or a small file whole."""
    if entry.size <= WHOLE_BYTES:
        return entry.size
    groups = -(-entry.rows // TableOptions.parse(schema.options).parquet_row_group_rows)
    leaves = sum(leaf_count(field.type) for field in schema.arrow())
    return min(entry.size, max(_TAIL_BYTES, groups * leaves * _CHUNK_FOOTER_BYTES))


def _check_entry(footer: FileFooter, entry: FileEntry) -> None:
    """Refuses a sound file that is not the one the snapshot refers to."""
    if not isinstance(footer, RunFooter):
        check_same("size and rows", (entry.size, entry.rows), (footer.size, footer.rows))
        return
    ends = (footer.first_keys[0], footer.last_keys[-1]) if footer.first_keys else (None, None)
    counts = (entry.size, entry.rows, entry.updates, entry.deletes)
    expected = (*counts, entry.schema_id, entry.min_key, entry.max_key)
    got = (footer.size, footer.rows, *footer.head.kinds[1:], footer.head.schema_id, *ends)
    check_same("size, rows, updates, deletes, schema, first and last key", expected, got)


class ParquetRun:
    """An open Parquet file: see :class:`~lakehouse.storage.files.reader.RunReader`."""

    __slots__ = ("_caches", "_image", "_key", "_opened", "_pieces", "_schema", "_store", "_where", "entry")

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        where: tuple[str, str],
        entry: FileEntry,
        schema: TableSchema,
        caches: RunCaches,
        opened: _Opened,
        image: U8 | None,
    ) -> None:
        self._store = store
        self._key = key
        self._where = where
        self.entry = entry
        self._schema = schema
        self._caches = caches
        self._opened = opened
        self._image = image
        """Bytes fetched already, at their places in the file: at least all that will be read; else None."""
        self._pieces: tuple[Piece, ...] | None = None

    @property
    def pieces(self) -> Sequence[Piece]:
        """The file's row groups."""
        if self._pieces is None:
            self._pieces = tuple(_pieces(self._opened))
        return self._pieces

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Reads these columns of these row groups (None = all), with ``_VALUE_KIND`` last when asked for.

        Fetches the column chunks that are needed and no others, except gaps that are too small to be worth
        a request.
        """
        groups, wanted = self._groups(pieces), _with_kinds(fields, kinds)
        leaves = self._opened.columns.needed(wanted)
        tables = await self._decoded(groups, leaves, lambda table: project(table, wanted), rows=rows)
        # Joining would forget the number of rows of a table without columns.
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> ParquetRun:
        """Returns this file with these columns of these row groups fetched and not yet decoded."""
        groups = self._groups(pieces)
        leaves = self._opened.columns.needed(_with_kinds(fields, kinds))
        if self._image is not None or not groups or not leaves:
            return self
        with reading(self._key):
            image = await self._fetched(groups, leaves, _GAP_BYTES)
        return ParquetRun(
            self._store, self._key, self._where, self.entry, self._schema, self._caches, self._opened, image
        )

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Returns the row of that row key, with its ``_VALUE_KIND``, as a table of one row, or of none.

        Reads one row group in one request; its decoded columns are kept for the next.
        """
        wanted = (*fields, KIND_FIELD)
        footer = self._opened.footer
        group = bisect_left(footer.last_keys, key)
        if group == len(footer.last_keys) or key < footer.first_keys[group]:
            return project(_NO_ROWS, wanted)
        leaves = self._opened.columns.needed((*wanted, *self._schema.key_fields))

        async def load(_: object) -> _Group:
            # One request: the bytes between the chosen columns belong to the same row group.
            gap = self._store.settings.coalesce_max_bytes
            (rows,) = await self._decoded((group,), leaves, self._keyed, gap_bytes=gap)
            return rows

        rows = await self._caches.blocks.get((*self._where, group, leaves), load)
        assert rows is not None  # load always returns a row group
        return project(rows.row(key), wanted)

    def _keyed(self, table: pa.Table) -> _Group:
        key_fields = self._schema.key_fields
        return _Group(RowKeyCodec(key_fields).encode(project(table, key_fields).columns), table)

    async def _decoded(
        self,
        groups: Sequence[int],
        leaves: Sequence[int],
        finish: Callable[[pa.Table], R],
        *,
        gap_bytes: int = _GAP_BYTES,
        rows: I64 | None = None,
    ) -> list[R]:
        """Decodes these leaves of these row groups in portions, in threads; ``finish`` makes the results."""
        opened, footer = self._opened, self._opened.footer
        if not groups or not leaves:
            # Without columns, one column of nulls carries the number of rows.
            count = sum(footer.group_rows[list(groups)].tolist()) if rows is None else len(rows)
            return [finish(pa.table([pa.nulls(count)], [""]))]
        with reading(self._key):
            image = self._image
            if image is None:
                image = await self._fetched(groups, leaves, gap_bytes)

            async def decode(portion: tuple[Sequence[int], I64 | None]) -> R:
                its_groups, its_rows = portion
                return await in_thread(
                    lambda: finish(
                        opened.with_ids(decode_chunks(footer, image, its_groups, leaves, rows=its_rows))
                    )
                )

            portions = list(_with_rows(footer, _portions(footer, groups, leaves), rows))
            return [done async for done in map_bounded(decode, portions, len(portions))]

    async def _fetched(self, groups: Sequence[int], leaves: Sequence[int], gap_bytes: int) -> U8:
        most = self._store.settings.coalesce_max_bytes
        ranges = chunk_ranges(self._opened.footer, groups, leaves, max_bytes=most)
        version = self._opened.version
        parts = await self._store.get_ranges(self._key, ranges, version=version, gap_bytes=gap_bytes)
        return await in_thread(image_of, ranges, parts)

    def _groups(self, pieces: Sequence[int] | None) -> Sequence[int]:
        return range(len(self._opened.footer.group_rows)) if pieces is None else pieces


def _with_kinds(fields: Sequence[Field], kinds: bool) -> tuple[Field, ...]:
    return (*fields, KIND_FIELD) if kinds else tuple(fields)


def _portions(footer: FileFooter, groups: Sequence[int], leaves: Sequence[int]) -> list[Sequence[int]]:
    """Divides the row groups into neighbouring portions, one for each core, that are worth a thread each."""
    sizes = footer.sizes[np.ix_(groups, leaves)].sum(axis=1, dtype=np.int64).cumsum()
    count = max(1, min(pa.cpu_count(), len(groups), int(sizes[-1]) // _PORTION_BYTES))
    bounds = [0, *np.searchsorted(sizes, [sizes[-1] * n // count for n in range(1, count)]).tolist()]
    pairs = zip(bounds, [*bounds[1:], len(groups)], strict=True)
    return [groups[start:end] for start, end in pairs if start < end]


def _with_rows(
    footer: FileFooter, portions: Iterable[Sequence[int]], rows: I64 | None
) -> Iterator[tuple[Sequence[int], I64 | None]]:
    """Yields the portions, each with the numbers of the rows wanted of it; None = all."""
    begin = 0
    for portion in portions:
        if rows is None:
            yield portion, None
            continue
        end = begin + int(footer.group_rows[list(portion)].sum())
        yield portion, rows[slice(*np.searchsorted(rows, (begin, end)))] - begin
        begin = end


_NO_ROWS = pa.table([pa.nulls(0)], [""])


def _pieces(opened: _Opened) -> Iterator[Piece]:
    footer = opened.footer
    keyed = bool(footer.first_keys)
    first_row = 0
    sizes = footer.sizes.sum(axis=1, dtype=np.int64).tolist()
    starts = footer.starts.min(axis=1, initial=footer.size).tolist()
    for group, (rows, size) in enumerate(zip(footer.group_rows.tolist(), sizes, strict=True)):
        yield Piece(
            rows=rows,
            first_row=first_row,
            size=size,
            start=starts[group],
            min_key=footer.first_keys[group] if keyed else None,
            max_key=footer.last_keys[group] if keyed else None,
            stats=GroupStats(footer, opened.columns, group),
        )
        first_row += rows
