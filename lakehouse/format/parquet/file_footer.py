"""The footer of any Parquet file: parsed from the end of the file, with the places of its column chunks.

Files end with their Thrift metadata, its length and the magic. Files that other programs wrote are read by
this footer, and our own by :class:`~lakehouse.format.parquet.run_footer.RunFooter`, which is sealed.

Invariant: every chunk of a parsed footer lies between the first bytes of the file and the footer, and the row
groups have the rows of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.errors import CorruptionError, InvalidInputError
from lakehouse.format.parquet.chunk_places import chunk_places
from lakehouse.format.parquet.pages import LeafShape
from lakehouse.kernels.arrays import I64, U8
from lakehouse.kernels.need_more import NeedMore

__all__ = ["MAGIC", "TRAILER", "FileFooter", "metadata_of", "with_moments"]

MAGIC = b"PAR1"
"""First and last bytes of a Parquet file."""
TRAILER = struct.Struct("<I4s")
"""Bytes behind the footer: its length, and the magic."""

_ENCRYPTED = b"PARE"
_MOMENT = pa.timestamp("us", tz="UTC")
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_LENGTH_BYTES = 4
_BYTES_PER_THRIFT_BYTE = 9
"""Bytes of parsed metadata in memory per byte of its Thrift form, as measured with many row groups."""


class FileFooter:
    """The parsed footer of one file; immutable, and shared by its readers.

    Args:
        metadata: a ``pyarrow.parquet.FileMetaData``.
        start: place of the footer in the file.
        size: bytes of the file.
        group_rows: rows of each row group.
        sizes: bytes of each chunk, row groups × leaf columns.
        starts: place of each chunk, in the same shape.
        keys: first and last row key of each row group in turn; empty where the file does not tell.
    """

    __slots__ = (
        "dictionary_texts", "first_keys", "group_rows", "last_keys", "metadata", "moments", "rows", "shapes",
        "size", "sizes", "starts", "weight",
    )  # fmt: skip

    is_sealed: ClassVar[bool] = False
    """True if the engine wrote the file, so that checksums and statistics of all chunks are in the footer."""

    def __init__(
        self,
        metadata: Any,
        *,
        start: int,
        size: int,
        group_rows: Any,
        sizes: Any,
        starts: I64,
        keys: Sequence[bytes] = (),
    ) -> None:
        self.metadata = metadata
        self.group_rows, self.sizes, self.starts = group_rows, sizes, starts
        self.rows = int(group_rows.sum())
        """Rows of all row groups."""
        self.first_keys = list(keys[0::2])
        """Least row key of each row group."""
        self.last_keys = list(keys[1::2])
        """Greatest row key of each row group, ascending."""
        self.size = size
        """Size of the file in bytes."""
        self.shapes = [LeafShape.of(metadata.schema.column(leaf)) for leaf in range(metadata.num_columns)]
        """Shape of the values of each leaf."""
        self.dictionary_texts = _dictionary_texts(metadata)
        """Names of columns of text, by leaf, that were written dictionary-encoded."""
        self.moments = frozenset() if self.is_sealed else _moments(metadata)
        """Columns of INT96, an old type of timestamps that Spark and Hive write: moments of UTC."""
        self.weight = _BYTES_PER_THRIFT_BYTE * (size - start) + 16 * sizes.size + 4096
        """Approximate bytes in memory."""

    @classmethod
    def parse(cls, tail: bytes | memoryview, size: int) -> Self | NeedMore:
        """Parses the footer from the last bytes of a file of ``size`` bytes; else returns the range to read.

        Raises:
            CorruptionError: it is not what such a file ends with.
            UnsupportedVersionError: a newer release wrote the file.
        """
        tail = memoryview(tail)
        if size < len(MAGIC) + TRAILER.size:
            raise CorruptionError(f"a file of {size} bytes is too short for Parquet", offset=0, got=size)
        if len(tail) < TRAILER.size:
            return NeedMore(start=size - TRAILER.size, end=size)
        length, magic = TRAILER.unpack(tail[-TRAILER.size :])
        whole = length + TRAILER.size
        if magic == _ENCRYPTED:
            raise InvalidInputError("the file is encrypted Parquet, which cannot be read: write it in plain")
        if magic != MAGIC or whole + len(MAGIC) > size:
            raise CorruptionError(
                f"the file ends with {bytes(tail[-TRAILER.size :]).hex()}, which is no end of Parquet: "
                "it is damaged, cut off, or something else",
                offset=size - TRAILER.size,
                expected=MAGIC,
                got=magic,
            )
        if whole > len(tail):
            return NeedMore(start=size - whole, end=size)
        return cls._parsed(bytes(tail[-whole:]), size - whole)

    @classmethod
    def _parsed(cls, footer: bytes, start: int) -> Self:
        metadata = metadata_of(footer, start)
        found = chunk_places(footer[: -TRAILER.size], metadata.schema, start)
        if (found.starts < len(MAGIC)).any() or (found.starts + found.sizes > start).any():
            raise CorruptionError(
                f"a column chunk lies outside of the file's bytes {len(MAGIC)} to {start}", offset=start
            )
        if (rows := int(found.group_rows.sum())) != metadata.num_rows:
            raise CorruptionError(
                f"the row groups have {rows} rows, and the file {metadata.num_rows}", offset=start
            )
        size = start + len(footer)
        return cls(
            metadata,
            start=start,
            size=size,
            group_rows=found.group_rows,
            sizes=found.sizes,
            starts=found.starts,
        )

    def arrow_schema(self) -> pa.Schema:
        """Returns the schema of the rows that are decoded."""
        return with_moments(self.metadata.schema.to_arrow_schema(), self.moments)

    def may_have_nan(self, group: int, leaf: int) -> bool:
        """Returns whether a value of a chunk may be a NaN, which Parquet's bounds leave out."""
        return self.metadata.schema.column(leaf).physical_type in _FLOATS

    def check_chunk(self, group: int, leaf: int, chunk: U8) -> None:
        """Refuses a chunk that is not as it was written; of files of others, the decoder checks the pages."""


def metadata_of(footer: bytes, start: int) -> Any:
    """Parses the Thrift metadata of a footer that begins at ``start``: a ``pyarrow.parquet.FileMetaData``."""
    try:
        return pq.read_metadata(pa.BufferReader(footer))  # io-ok: bytes in memory
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptionError(f"the Parquet footer cannot be parsed: {error}", offset=start) from error


def with_moments(schema: pa.Schema, moments: Collection[str]) -> pa.Schema:
    """Returns the schema with these columns as moments of microseconds, whose years nanoseconds would end."""
    for name in moments:
        at = schema.get_field_index(name)
        if at >= 0:
            schema = schema.set(at, schema.field(at).with_type(_MOMENT))
    return schema


def _moments(metadata: Any) -> frozenset[str]:
    """Returns the names of the columns of INT96 that are not nested."""
    leaves = (metadata.schema.column(leaf) for leaf in range(metadata.num_columns))
    return frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96" and "." not in leaf.path)


def _dictionary_texts(metadata: Any) -> dict[int, str]:
    """Returns the columns of text that the first row group has dictionary-encoded: names by leaf.

    An error about another row group costs time alone.
    """
    texts: dict[int, str] = {}
    if not metadata.num_row_groups:
        return texts
    group = metadata.row_group(0)
    for leaf in range(metadata.num_columns):
        schema = metadata.schema.column(leaf)
        if schema.logical_type.type == "STRING" and schema.path == schema.name:
            chunk = group.column(leaf)
            # Every other way to write a text begins with four bytes of its length.
            is_short = chunk.total_uncompressed_size < _LENGTH_BYTES * chunk.num_values
            if is_short and "RLE_DICTIONARY" in chunk.encodings:
                texts[leaf] = schema.name
    return texts
