"""The footer of a Parquet run: the places of its column chunks, the keys of its row groups, and checksums.

Two values in Parquet's key-value metadata make a Parquet file a run::

    lakehouse.run       {"version":1,"schema":s,"kinds":[i,u,d],"crc32c":"xxxxxxxx"}
    lakehouse.pieces    base64 of:
        row groups       u32        g
        leaf columns     u32        c
        keys             u32        k = 2g, or 0 in tables without a primary key
        rows             u32 × g    rows of each row group
        chunk sizes      u32 × g×c  bytes of each column chunk, row group by row group
        chunk checksums  u32 × g×c  CRC32C of each chunk
        chunk flags      u8  × g×c  bit 0: floats among which is a NaN
        key ends         u32 × k    in the bytes that follow
        keys                        first and last row key of each row group

All little-endian. Chunks lie back to back from byte 4 on, so their sizes give their places.
``crc32c`` is the checksum of the whole footer (Thrift, length and magic) in hexadecimal, taken while
its own eight digits are zeros. The specification is ``docs/spec/v1/parquet-run.md``.

Invariant: :meth:`RunFooter.parse` returns what the writer sealed, no bit of which was changed.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import google_crc32c
import numpy as np

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.format.limits.json_object import count, parse_json, whole
from lakehouse.format.parquet.file_footer import MAGIC, FileFooter, metadata_of
from lakehouse.kernels.arrays import I64, U8, U32

__all__ = [
    "HAS_NAN",
    "PIECES_KEY",
    "RUN_KEY",
    "PieceTable",
    "RunFooter",
    "RunHead",
    "crc32c",
    "seal",
]

HAS_NAN = 1
"""Flag of a column chunk: some value is a NaN, which Parquet's bounds leave out."""
RUN_KEY = "lakehouse.run"
"""Key of the value about the file as a whole."""
PIECES_KEY = "lakehouse.pieces"
"""Key of the value about each row group."""

_VERSION = 1

_COUNTS = struct.Struct("<3I")
_SEAL = b'"crc32c":"'
_UNSEALED = b"00000000"
_HEAD_VALUES_MAX = 1_000


def crc32c(data: Any) -> int:
    """Returns the CRC32C of any bytes."""
    return int(google_crc32c.value(np.frombuffer(data, np.uint8)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """Metadata of the file as a whole: the value of ``lakehouse.run``."""

    schema_id: int
    """Id of the schema its rows were written with."""
    kinds: tuple[int, int, int]
    """Numbers of rows of kind insert, update and delete."""

    def pack(self) -> bytes:
        """Encodes the value, not sealed yet."""
        plain = {"version": _VERSION, "schema": self.schema_id, "kinds": self.kinds, "crc32c": "0" * 8}
        return json.dumps(plain, separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Decodes the value of ``lakehouse.run``."""
        try:
            plain = parse_json(data, values_max=_HEAD_VALUES_MAX)
            version = whole(plain["version"])
            if version > _VERSION:
                raise UnsupportedVersionError(
                    f"the file is a run of version {version}, this release reads up to {_VERSION}: upgrade",
                    expected=_VERSION,
                    got=version,
                )
            inserts, updates, deletes = map(count, plain["kinds"])
            return cls(schema_id=whole(plain["schema"]), kinds=(inserts, updates, deletes))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise CorruptionError(f"{RUN_KEY} does not say what it has to: {data[:100]!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTable:
    """Metadata of each row group and of each of its column chunks: the value of ``lakehouse.pieces``."""

    rows: U32
    """Rows of each row group."""
    sizes: U32
    """Bytes of each chunk: row groups × leaf columns."""
    checksums: U32
    """CRC32C of each chunk, in the same shape."""
    flags: U8
    """Flags of each chunk, :data:`HAS_NAN` or 0, in the same shape."""
    keys: tuple[bytes, ...]
    """First and last row key of each row group in turn; empty in tables without a primary key."""

    def pack(self) -> bytes:
        """Encodes the value; its length depends on the shape and the keys alone."""
        ends = np.cumsum([len(key) for key in self.keys], dtype=np.uint32)
        parts = (
            _COUNTS.pack(*self.sizes.shape, len(self.keys)),
            *(part.tobytes() for part in (self.rows, self.sizes, self.checksums, self.flags, ends)),
            *self.keys,
        )
        return base64.b64encode(b"".join(parts))

    @classmethod
    def unpack(cls, text: bytes) -> Self:
        """Decodes the value of ``lakehouse.pieces``."""
        try:
            data = base64.b64decode(text, validate=True)
            groups, columns, keys = _COUNTS.unpack_from(data)
            chunks = groups * columns
            numbers = np.frombuffer(data, "<u4", groups + 2 * chunks, _COUNTS.size)
            at = _COUNTS.size + numbers.nbytes
            flags = np.frombuffer(data, np.uint8, chunks, at)
            ends = np.frombuffer(data, "<u4", keys, at + chunks).tolist()
            if any(a > b for a, b in pairwise(ends)):
                raise ValueError("its keys overlap")
            at += chunks + 4 * keys
            if keys not in (0, 2 * groups) or at + (ends[-1] if ends else 0) != len(data):
                raise ValueError(f"{keys} keys for {groups} row groups in {len(data)} bytes")
        except (ValueError, OverflowError, struct.error) as error:
            raise CorruptionError(f"{PIECES_KEY} is no table of pieces: {error}") from error
        shape = (groups, columns)
        return cls(
            rows=numbers[:groups],
            sizes=numbers[groups : groups + chunks].reshape(shape),
            checksums=numbers[groups + chunks :].reshape(shape),
            flags=flags.reshape(shape),
            keys=tuple(data[at + a : at + b] for a, b in zip([0, *ends], ends, strict=False)),
        )


class RunFooter(FileFooter):
    """The parsed footer of a run."""

    __slots__ = ("head", "pieces")

    is_sealed = True

    def __init__(self, head: RunHead, pieces: PieceTable, metadata: Any, *, start: int, size: int) -> None:
        ends: I64 = np.cumsum(pieces.sizes, dtype=np.int64).reshape(pieces.sizes.shape) + len(MAGIC)
        super().__init__(
            metadata,
            start=start,
            size=size,
            group_rows=pieces.rows,
            sizes=pieces.sizes,
            starts=ends - pieces.sizes,
            keys=pieces.keys,
        )
        self.head = head
        self.pieces = pieces

    @classmethod
    def _parsed(cls, footer: bytes, start: int) -> Self:
        _check_seal(footer, start)
        metadata = metadata_of(footer, start)
        values = metadata.metadata or {}
        head = RunHead.unpack(values.get(RUN_KEY.encode(), b""))
        pieces = PieceTable.unpack(values.get(PIECES_KEY.encode(), b""))
        parsed = cls(head, pieces, metadata, start=start, size=start + len(footer))
        shape = (metadata.num_row_groups, metadata.num_columns)
        end = len(MAGIC) + int(pieces.sizes.sum(dtype=np.int64))
        if (
            pieces.sizes.shape != shape
            or end != start
            or not parsed.rows == sum(head.kinds) == metadata.num_rows
        ):
            raise CorruptionError(
                f"{PIECES_KEY} says {parsed.rows} rows in {pieces.sizes.shape} chunks up to byte {end}, "
                f"Parquet {metadata.num_rows} in {shape} up to byte {start}",
                offset=start,
            )
        return parsed

    def may_have_nan(self, group: int, leaf: int) -> bool:
        """Returns whether a value of a chunk is a NaN."""
        return bool(self.pieces.flags[group, leaf] & HAS_NAN)

    def check_chunk(self, group: int, leaf: int, chunk: U8) -> None:
        """Refuses a chunk whose checksum is not the one that was written."""
        expected, got = int(self.pieces.checksums[group, leaf]), crc32c(chunk)
        if got != expected:
            path = self.metadata.row_group(group).column(leaf).path_in_schema
            start = int(self.starts[group, leaf])
            raise CorruptionError(
                f"column {path!r} of row group {group} (bytes {start} to {start + len(chunk)}) has checksum "
                f"{got:08x}, written was {expected:08x}: the file is damaged",
                offset=start,
                expected=expected,
                got=got,
                column=path,
            )


def seal(footer: U8, blank: PieceTable, pieces: PieceTable) -> None:
    """Completes a footer in place once all chunks are written: writes the pieces, then the checksum.

    Args:
        footer: the end of a file from the first byte of its footer on.
        blank: the table of pieces that the footer has.
        pieces: the table that replaces it: of the same shape, with the same keys.
    """
    # Both tables have the same length, and so the footer's Thrift structure stays valid.
    at = footer.tobytes().rfind(blank.pack())
    text = pieces.pack()
    footer[at : at + len(text)] = np.frombuffer(text, np.uint8)
    at = footer.tobytes().rfind(_SEAL) + len(_SEAL)
    footer[at : at + len(_UNSEALED)] = np.frombuffer(b"%08x" % crc32c(footer), np.uint8)


def _check_seal(footer: bytes, start: int) -> None:
    at = footer.rfind(_SEAL)
    if at < 0:
        raise CorruptionError(
            f"the footer has no {RUN_KEY}: the file is damaged, or some other program wrote it",
            offset=start,
        )
    at += len(_SEAL)
    expected = footer[at : at + len(_UNSEALED)]
    got = b"%08x" % crc32c(footer[:at] + _UNSEALED + footer[at + len(_UNSEALED) :])
    if got != expected:
        raise CorruptionError(
            f"the footer's checksum is {got.decode()}, written was {expected!r}: the file is damaged",
            offset=start,
            expected=expected,
            got=got,
        )
