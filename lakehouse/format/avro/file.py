"""Avro files: their header, their blocks, and their entries as streams or Arrow tables.

::

    file      magic "Obj" 1 | metadata, a map of bytes | sync marker, 16 bytes | blocks
    block     entries, a number | bytes, a number | so many bytes, compressed | sync marker

Invariant: a file that parses has whole blocks, each behind the other, with the sync marker of its header;
what is read of them is bounded, and bytes that are no such file are a CorruptionError that names its key.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.avro.arrow import slot_array, slot_field
from lakehouse.format.avro.codecs import CODECS, decompress_avro_blocks
from lakehouse.format.avro.loops import LOOPS, find_blocks, read_number
from lakehouse.format.avro.operations import CUT, WHY
from lakehouse.format.avro.program import Program, compile_program
from lakehouse.format.avro.schema import AvroType, parse_avro_schema
from lakehouse.format.avro.streams import STREAM_BYTES_MAX, Streams, read_only_bytes
from lakehouse.kernels.arrays import I64

__all__ = ["CONTENT_BYTES_MAX", "MAGIC", "AvroFile"]

MAGIC = b"Obj\x01"
"""First bytes of a file."""
CONTENT_BYTES_MAX = 1 << 30
"""Default limit of the decompressed bytes that are held at once."""
_BATCH_BYTES = 1 << 21
"""Stored bytes of the blocks that are read as a batch, about; in memory they take ten times as many."""
_SYNC_BYTES = 16
_BLOCK_BYTES_MIN = 2 + _SYNC_BYTES
_ITEMS_MAX = 10_000
"""Maximum members of a header's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AvroFile:
    """A file whose header and blocks are known."""

    key: str
    """Key of the object, for errors."""
    data: bytes | memoryview
    """All bytes of the file."""
    metadata: Mapping[str, bytes]
    """Members of the header, the writer's schema among them."""
    codec: str
    """Name of the blocks' codec."""
    schema: AvroType
    """The writer's schema."""
    blocks: I64
    """Where each block's content begins and ends, and its number of entries: three numbers each."""
    header: bytes
    """All bytes before the sync marker, which is another in every file."""

    @classmethod
    def parse(cls, data: bytes | memoryview, *, key: str, like: Self | None = None) -> Self:
        """Parses the header and finds the blocks.

        Args:
            data: all bytes of the file.
            key: names the object in errors.
            like: a file that may have the same header, which is then not read again.

        Raises:
            FormatError: this is no Avro file, or it has a codec or schema that cannot be read.
            CorruptionError: it is damaged.
        """
        if like is not None and data[: len(like.header)] == like.header:
            begin = len(like.header) + _SYNC_BYTES
            if len(data) < begin:
                raise _header_error(key, WHY[CUT], len(data))
            return cls(
                key=key,
                data=data,
                metadata=like.metadata,
                codec=like.codec,
                schema=like.schema,
                blocks=_blocks(data, begin, key),
                header=like.header,
            )
        if data[: len(MAGIC)] != MAGIC:
            raise FormatError(
                f"{key} is no Avro file: it begins with {bytes(data[:4])!r} instead of {MAGIC!r}",
                key=key,
                offset=0,
            )
        metadata, at = _read_metadata(data, key)
        codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace") or "null"
        if codec not in CODECS:
            raise FormatError(
                f"{key} is compressed with {short(codec)}: codecs that can be read are {', '.join(CODECS)}",
                key=key,
                codec=codec,
            )
        try:
            schema = parse_avro_schema(metadata.get("avro.schema", b""))
        except ValueError as error:
            raise CorruptionError(f"the Avro schema of {key} cannot be read: {error}", key=key) from error
        blocks = _blocks(data, at, key)
        return cls(
            key=key,
            data=data,
            metadata=metadata,
            codec=codec,
            schema=schema,
            blocks=blocks,
            header=bytes(data[: at - _SYNC_BYTES]),
        )

    @property
    def entries(self) -> int:
        """Number of entries that the blocks say they have."""
        return sum(self.blocks[2::3].tolist())

    def streams(self, program: Program, *, bytes_max: int = CONTENT_BYTES_MAX) -> Streams:
        """Reads all entries at once; their blocks may become ``bytes_max`` bytes together."""
        streams = list(self._streams(program, bytes_max, batch_bytes=None))
        return streams[0]

    def streams_with(
        self, others: Sequence[Self], program: Program, *, bytes_max: int = CONTENT_BYTES_MAX
    ) -> Streams:
        """Reads all entries of this file, and behind them those of others of the same schema, by one walk."""
        contents: list[bytes | memoryview] = []
        places: list[I64] = []
        size = 0
        for file in (self, *others):
            with file._damage():
                content, blocks = file._content(file.blocks, bytes_max - size)
            moved = blocks.copy()
            moved[0::3] += size
            moved[1::3] += size
            contents.append(content)
            places.append(moved)
            size += len(content)
        with self._damage():
            return Streams.read(program, b"".join(contents), np.concatenate(places), bytes_max=bytes_max)

    def batches(
        self, columns: Sequence[str] | None = None, *, bytes_max: int = CONTENT_BYTES_MAX
    ) -> Iterator[pa.RecordBatch]:
        """Yields the entries, some blocks at a time; see :meth:`to_arrow`.

        Args:
            columns: names of the fields wanted, which stand in the order of the file; None = all.
            bytes_max: maximum decompressed bytes of one batch.
        """
        program = self._program(columns)
        for streams in self._streams(program, bytes_max, _BATCH_BYTES):
            with self._damage():
                yield pa.RecordBatch.from_struct_array(slot_array(program.root, streams, streams.entries))

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Reads the entries, which must be records, as a table; field ids are in the metadata of its fields.

        Args:
            columns: names of the fields wanted, which stand in the order of the file; None = all.
        """
        program = self._program(columns)
        return pa.Table.from_batches(self.batches(columns), schema=_arrow_schema(program))

    def _program(self, columns: Sequence[str] | None) -> Program:
        if self.schema.kind != "record":
            raise FormatError(
                f"{self.key} has entries of type {self.schema.kind}: a table needs records", key=self.key
            )
        names = [field.name for field in self.schema.fields]
        for name in columns or ():
            if name not in names:
                raise InvalidInputError(
                    f"{self.key} has no column {short(name)}: its columns are {short(names)}", key=self.key
                )
        try:
            return _arrow_program(self.schema, None if columns is None else frozenset(columns))
        except ValueError as error:
            raise FormatError(f"the schema of {self.key} cannot be read: {error}", key=self.key) from error

    def _streams(self, program: Program, bytes_max: int, batch_bytes: int | None) -> Iterator[Streams]:
        with self._damage():
            for blocks in self._batches_of_blocks(batch_bytes):
                content, places = self._content(blocks, bytes_max)
                yield Streams.read(program, content, places, bytes_max=max(STREAM_BYTES_MAX, bytes_max))

    def _batches_of_blocks(self, batch_bytes: int | None) -> Sequence[I64]:
        """The blocks, as many together as have so many stored bytes; None = all."""
        if batch_bytes is None:
            return [self.blocks]
        # The bytes before a block say in which batch it is.
        numbers = (self.blocks[::3] - self.blocks[:1]) // batch_bytes
        return np.split(self.blocks, 3 * (np.flatnonzero(np.diff(numbers)) + 1)) if len(numbers) else []

    def _content(self, blocks: I64, bytes_max: int) -> tuple[bytes | memoryview, I64]:
        """Returns the content of blocks, and where each begins and ends in it."""
        if self.codec == "null":
            return self.data, blocks
        parts = decompress_avro_blocks(self.data, blocks, self.codec, room=bytes_max)
        # By Python's own sum: most files have one block, for which numpy's takes longer than the rest.
        ends = [0, *itertools.accumulate(len(part) for part in parts)]
        places = blocks.copy()
        places[0::3], places[1::3] = ends[:-1], ends[1:]
        return b"".join(parts), places

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        """Raises what is wrong with the bytes as a CorruptionError."""
        try:
            yield
        except (ValueError, pa.ArrowException) as error:
            if isinstance(error, InvalidInputError):
                raise
            raise CorruptionError(f"{self.key} is damaged: {error}", key=self.key) from error


def _read_metadata(data: bytes | memoryview, key: str) -> tuple[Mapping[str, bytes], int]:
    """Returns the members of the header, and the place behind the sync marker."""
    cursor = _Cursor(data, len(MAGIC))
    found: dict[str, bytes] = {}
    try:
        while count := cursor.number():
            if count < 0:
                cursor.number()
            if abs(count) + len(found) > _ITEMS_MAX:
                raise ValueError(f"it has more than {_ITEMS_MAX:,} members")
            for _ in range(abs(count)):
                name = cursor.sized()
                found[name.decode("utf-8", "replace")] = cursor.sized()
        cursor.take(_SYNC_BYTES)
    except ValueError as error:
        raise _header_error(key, str(error), cursor.at) from error
    return found, cursor.at


def _header_error(key: str, why: str, at: int) -> CorruptionError:
    return CorruptionError(f"the header of {key} is damaged: {why}", key=key, offset=at)


class _Cursor:
    """A place in the header."""

    __slots__ = ("_signed", "at", "data")

    def __init__(self, data: bytes | memoryview, at: int) -> None:
        self.data, self.at = data, at
        self._signed = memoryview(data).cast("b")

    def number(self) -> int:
        """Reads a number."""
        value, after = read_number(self._signed, self.at, len(self.data))
        if after < 0:
            raise ValueError(WHY[after])
        self.at = after
        return int(value)

    def sized(self) -> bytes:
        """Reads a length and so many bytes."""
        return self.take(self.number())

    def take(self, size: int) -> bytes:
        """Reads so many bytes."""
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError(WHY[CUT])
        self.at += size
        return bytes(self.data[self.at - size : self.at])


def _blocks(data: bytes | memoryview, at: int, key: str) -> I64:
    raw = read_only_bytes(data).view(np.int8)
    blocks = np.empty(3 * ((len(data) - at) // _BLOCK_BYTES_MIN + 1), np.int64)
    sync = raw[at - _SYNC_BYTES : at]
    compiled = LOOPS.compiled_for(len(blocks))
    if compiled is None:
        found, at = find_blocks(raw.data, at, sync.data, blocks.data)
    else:
        found, at = compiled.find_blocks(raw, at, sync, blocks)
    if found < 0:
        raise CorruptionError(f"{key} is damaged at byte {at}: {WHY[found]}", key=key, offset=at)
    return blocks[: 3 * found].copy()


@functools.lru_cache(maxsize=64)
def _arrow_program(schema: AvroType, columns: frozenset[str] | None) -> Program:
    """Returns the program that reads some columns; the last ones are kept."""
    return compile_program(schema, None if columns is None else lambda field: field.name in columns)


def _arrow_schema(program: Program) -> pa.Schema:
    return pa.schema([slot_field(field, slot) for field, slot in program.root.fields])
