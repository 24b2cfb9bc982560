"""Avro and ORC files, which are fetched whole and decoded at once: each is one piece.

Invariant: nothing is fetched before rows are asked for, so that admission of the scan bounds what is in
memory. An object of another size than the manifest says, or of other rows, is refused.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

import pyarrow as pa

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.avro import AvroFile
from lakehouse.format.metadata import FileEntry, FileFormat
from lakehouse.format.schema import Field, project, with_field_ids
from lakehouse.iceberg.locations import Place
from lakehouse.iceberg.reading.faults import check_size, named
from lakehouse.io.work import in_thread
from lakehouse.kernels.arrays import I64
from lakehouse.storage.files import Piece, RunReader
from lakehouse.storage.metadata import RunCaches

__all__ = ["AvroRows", "OrcRows"]

_SMALL_BYTES = 512 * 1024
"""Maximum size of a file that is cached: it may be read twice, for its deletes and for its rows."""
_FIELD_ID = b"PARQUET:field_id"
_ORC_ID = b"iceberg.id"


class _WholeFile(abc.ABC):
    """A file of one piece: a ``RunReader``.

    Args:
        place: where it is.
        path: as the manifest has it, for messages.
        what: its part in the table, for messages.
        size: bytes that it must have.
        rows: rows that it must have.
        naming: fields that columns are found for by name where they have no ids; none = it is refused.
        caches: of small files.
    """

    __slots__ = ("_caches", "_naming", "_path", "_place", "_size", "_what", "entry", "pieces")

    def __init__(
        self,
        place: Place,
        path: str,
        *,
        what: str,
        size: int,
        rows: int,
        naming: Sequence[Field],
        caches: RunCaches,
    ) -> None:
        self._place, self._path, self._what, self._size = place, path, what, size
        self._naming, self._caches = naming, caches
        # Not called Parquet, because to fetch some columns of it first would fetch it twice.
        self.entry = FileEntry(path=path, at=1, size=size, rows=rows, format=FileFormat.SSTABLE)
        self.pieces: Sequence[Piece] = (Piece(rows=rows, first_row=0, size=size),) if rows else ()

    async def read(
        self,
        fields: Sequence[Field],
        pieces: Sequence[int] | None = None,
        *,
        kinds: bool = False,
        rows: I64 | None = None,
    ) -> pa.Table:
        """Fetches the file and decodes these columns; ``rows`` are the numbers wanted, None = all."""
        if kinds:
            raise InvalidInputError(f"{self._path} has rows of one kind alone")
        if not self.pieces or (pieces is not None and not len(pieces)):
            return project(pa.table([pa.nulls(0)], [""]), tuple(fields))
        with named(self._path, self._what):
            data = await self._fetched()
            return await in_thread(self._decoded, data, tuple(fields), rows)

    async def load(
        self, fields: Sequence[Field], pieces: Sequence[int] | None = None, *, kinds: bool = False
    ) -> RunReader:
        """Returns itself: the file is fetched when it is read."""
        return self

    async def get(self, key: bytes, fields: Sequence[Field]) -> pa.Table:
        """Refuses to look up a key: such files have none."""
        raise InvalidInputError(f"{self._path} has no keys to look up")

    async def _fetched(self) -> bytes:
        cached: bytes | None = self._caches.blocks.get_if_present(
            (self._place.root, self._place.key, "whole")
        )
        if cached is not None:
            return cached
        fetched = await self._place.store.get(self._place.key)
        check_size(self._size, len(fetched.data))
        if self._size <= _SMALL_BYTES:
            self._caches.blocks.put((self._place.root, self._place.key, "whole"), fetched.data)
        return fetched.data

    def _decoded(self, data: bytes, fields: tuple[Field, ...], rows: I64 | None) -> pa.Table:
        table = self._table(data, {field.id for field in fields})
        if table.num_rows != self.entry.rows:
            raise CorruptionError(
                f"it has {table.num_rows:,} rows, and the manifest says {self.entry.rows:,}",
                expected=self.entry.rows,
                got=table.num_rows,
            )
        table = table if rows is None else table.take(pa.array(rows))
        return project(table, fields)

    def _chosen(self, schema: pa.Schema, ids: set[int]) -> tuple[pa.Schema, list[str]]:
        """Returns the schema of the file with field ids, and the names of the columns to decode."""
        with_ids = with_field_ids(schema, self._naming)
        if with_ids is not schema and not self._naming:
            raise InvalidInputError(
                f"{self._path}: the file's columns have no field ids, and nothing says which names stand for "
                "which: give the table a name mapping",
                key=self._path,
            )
        return with_ids, [column.name for column in with_ids if _id_of(column) in ids]

    @abc.abstractmethod
    def _table(self, data: bytes, ids: set[int]) -> pa.Table:
        """Decodes the columns of these field ids, with the ids as metadata."""


class AvroRows(_WholeFile):
    """An Avro file of rows."""

    __slots__ = ()

    def _table(self, data: bytes, ids: set[int]) -> pa.Table:
        file = AvroFile.parse(data, key=self._path)
        names = [field.name for field in file.schema.fields]
        plain = pa.schema(
            [
                pa.field(field.name, pa.null(), metadata=_metadata(field.field_id))
                for field in file.schema.fields
            ]
        )
        _, chosen = self._chosen(plain, ids)
        # Without a column nothing would say how many rows there are.
        table = file.to_arrow(chosen or names[:1])
        return table if self._has_ids(table) else table.cast(self._chosen(table.schema, ids)[0])

    @staticmethod
    def _has_ids(table: pa.Table) -> bool:
        return any(_id_of(column) is not None for column in table.schema)


class OrcRows(_WholeFile):
    """An ORC file of rows.

    Its decoder is Arrow's, which trusts lengths in the file: of a thousand damaged files one ends the
    process.
    """

    __slots__ = ()

    def _table(self, data: bytes, ids: set[int]) -> pa.Table:
        import pyarrow.orc as orc

        try:
            file = orc.ORCFile(pa.BufferReader(data))  # io-ok: bytes in memory
            schema, chosen = self._chosen(pa.schema([_of_orc(column) for column in file.schema]), ids)
            table: pa.Table = file.read(columns=chosen or file.schema.names[:1])
            return table.cast(pa.schema([schema.field(name) for name in table.column_names]))
        except (pa.ArrowMemoryError, InvalidInputError):
            raise  # of the machine, or of the call
        except (pa.ArrowException, OSError, ValueError) as error:
            if "out of range for nanosecond" in str(error):
                raise InvalidInputError(
                    f"{self._path} has timestamps outside of the years 1678 to 2261, with which ORC is not "
                    f"read: have it written as Parquet ({error})",
                    key=self._path,
                ) from error
            raise CorruptionError(f"it cannot be decoded as ORC: {error}") from error


def _of_orc(column: pa.Field) -> pa.Field:
    """Returns a column of an ORC file with its id, and with the type that Iceberg gave it.

    ORC's timestamps have nanoseconds always, its times are numbers; attributes say what is meant.
    """
    attributes, kind = column.metadata or {}, column.type
    if pa.types.is_timestamp(kind) and attributes.get(b"iceberg.timestamp-unit") != b"NANOS":
        kind = pa.timestamp("us", kind.tz)
    elif attributes.get(b"iceberg.long-type") == b"TIME":
        kind = pa.time64("us")
    elif pa.types.is_struct(kind):
        kind = pa.struct([_of_orc(inner) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_of_orc(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_of_orc(kind.key_field), _of_orc(kind.item_field))
    number = attributes.get(_ORC_ID)
    metadata = None if number is None else {_FIELD_ID: number}
    return pa.field(column.name, kind, column.nullable, metadata=metadata)


def _metadata(number: int | None) -> dict[bytes, bytes] | None:
    return None if number is None else {_FIELD_ID: str(number).encode()}


def _id_of(column: pa.Field) -> int | None:
    number = (column.metadata or {}).get(_FIELD_ID)
    return None if number is None else int(number)
