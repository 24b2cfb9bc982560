"""WAL segments: rows that were acknowledged and are in no data file yet, one object per group of puts.

Invariant: a segment is whole or reading it is an error. Its header identifies it (table, number, epoch,
token) and has the number of batches that follow; header and batches carry their own checksums, so a
flipped bit, a cut end and an object in another's place are noticed. A segment without batches is a fence.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import google_crc32c
import pyarrow as pa

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError, UnsupportedVersionError
from lakehouse.format.limits.ipc_bounds import check_stream
from lakehouse.format.limits.json_object import COUNT_MAX, MOMENT_MS_MAX

__all__ = [
    "ROWS_BYTES_MAX",
    "WAL_CODECS",
    "SegmentHeader",
    "WalBatch",
    "WalSegment",
    "decode_segment",
    "encode_segment",
]

_MAGIC = b"LHWL"
_VERSION = 2
"""Version that is written. Segments of version 1 have the same layout and are read; the epoch of their writer
need not be in a snapshot. A release that knows no other cannot take a log of version 2 over."""
_HEADER = struct.Struct("<4sHHII16sQQQiI16s")
_MARK = struct.Struct("<HQ")
_BATCH = struct.Struct("<IIIII")
_CRC = struct.Struct("<I")
_ALIGNMENT = 8
"""Alignment of Arrow's buffers in the segment, in bytes."""
WAL_CODECS = ("none", "lz4", "zstd")
"""Codecs for the bodies of batches."""
ROWS_BYTES_MAX = 1 << 30
"""Maximum bytes of a segment's rows in memory: twice those of the largest segment that a writer makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """Identity and metadata of a segment."""

    table: uuid.UUID
    """Id of the table it belongs to."""
    number: int
    """Number of the segment, from 1 without gaps; the order of segments."""
    epoch: int
    """Epoch of the streaming writer; a higher one fences all lower ones off."""
    token: str
    """Name of this write of the segment, the same in all its attempts: 32 hex digits."""
    time_ms: int
    """Time of the write in milliseconds since 1970, by the writer's clock; for people."""
    schema_id: int
    """Id of the schema the rows were written with."""
    writers: Mapping[str, int] = field(default_factory=dict)
    """Last sequence of each client of the writer that numbers its puts, up to this segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalBatch:
    """Rows in the order in which they were put, not sorted; a key may occur more than once."""

    rows: pa.Table
    """User columns with their field ids, and ``_VALUE_KIND`` last if some row is no insert."""
    min_key: bytes | None = None
    """Least row key; None in a table without a primary key."""
    max_key: bytes | None = None
    """Greatest row key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalSegment:
    """A segment: one object of the log."""

    header: SegmentHeader
    batches: tuple[WalBatch, ...] = ()

    @property
    def is_fence(self) -> bool:
        """True if it holds no row and only marks the beginning of a new epoch."""
        return not self.batches


def encode_segment(header: SegmentHeader, batches: Sequence[WalBatch] = (), *, codec: str = "none") -> bytes:
    """Encodes a segment; reads its header back before it returns."""
    held = sum(batch.rows.nbytes for batch in batches)
    if held > ROWS_BYTES_MAX:
        raise InvalidInputError(
            f"the new WAL segment would hold {held:,} bytes of rows, and {ROWS_BYTES_MAX:,} are read: "
            "put fewer rows at once"
        )
    try:
        head = _header_bytes(header, len(batches))
        again, size, _ = _header(head, "the new WAL segment")
    except (FormatError, ValueError, struct.error) as error:
        raise InvalidInputError(f"the new WAL segment cannot be written: {error}") from error
    if again != header:
        raise InvalidInputError("the new WAL segment would be read as something else; nothing was written")
    out: list[bytes | pa.Buffer] = [head]
    at = size
    for batch in batches:
        pieces = _batch(batch, codec, at)
        at += sum(len(piece) for piece in pieces)
        out += pieces
    return b"".join(out)


def _header_bytes(header: SegmentHeader, batches: int) -> bytes:
    """Encodes the header with its checksum."""
    marks = [name.encode() for name in header.writers]
    size = _HEADER.size + sum(_MARK.size + len(name) for name in marks) + _CRC.size
    parts = [
        _HEADER.pack(
            _MAGIC,
            _VERSION,
            0,
            size,
            batches,
            header.table.bytes,
            header.number,
            header.epoch,
            header.time_ms,
            header.schema_id,
            len(marks),
            bytes.fromhex(header.token),
        )
    ]
    for name, sequence in zip(marks, header.writers.values(), strict=True):
        parts += [_MARK.pack(len(name), sequence), name]
    head = b"".join(parts)
    return head + _CRC.pack(google_crc32c.value(head))


def _batch(batch: WalBatch, codec: str, at: int) -> list[bytes | pa.Buffer]:
    """Encodes the parts of one batch, which begins at byte ``at`` of the segment."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
    with pa.ipc.new_stream(sink, batch.rows.schema, options=options) as stream:
        stream.write_table(batch.rows)  # io-ok: bytes in memory
    body = sink.getvalue()
    keys = (batch.min_key or b"") + (batch.max_key or b"")
    before = at + _BATCH.size + _CRC.size + len(keys)
    gap = bytes(-before % _ALIGNMENT)  # so that Arrow can read the body where it lies
    fixed = _BATCH.pack(
        len(body), batch.rows.num_rows, _length(batch.min_key), _length(batch.max_key), len(gap)
    )
    crc = google_crc32c.extend(google_crc32c.value(fixed + keys + gap), body)
    return [fixed, _CRC.pack(crc), keys, gap, body]


_NO_KEY = 0xFFFFFFFF


def _length(key: bytes | None) -> int:
    return _NO_KEY if key is None else len(key)


def decode_segment(
    data: bytes, *, key: str, table: uuid.UUID, number: int, rows_bytes_max: int = ROWS_BYTES_MAX
) -> WalSegment:
    """Decodes a segment.

    Args:
        data: the whole object.
        key: key of the object; named in errors.
        table: id of the table to which it must belong.
        number: number that it must have.
        rows_bytes_max: maximum bytes of its rows in memory, all batches together.
    """
    header, at, count = _header(data, key)
    if header.table != table or header.number != number:
        raise CorruptionError(
            f"{key} holds segment {header.number} of table {header.table}: "
            f"the object was put in the place of segment {number} of table {table}",
            key=key,
            expected=number,
            got=header.number,
        )
    batches = []
    room = rows_bytes_max
    for _ in range(count):
        batch, at, held = _read_batch(data, at, key, room)
        room -= held
        batches.append(batch)
    if at != len(data):
        raise CorruptionError(
            f"WAL segment {key} has {len(data) - at:,} bytes behind its last batch", key=key, offset=at
        )
    return WalSegment(header=header, batches=tuple(batches))


def _header(data: bytes, key: str) -> tuple[SegmentHeader, int, int]:
    """Decodes the header; returns also its length and the number of batches."""
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise CorruptionError(
            f"{key} is not a WAL segment: {len(data):,} bytes that do not begin with {_MAGIC.decode()}",
            key=key,
            offset=0,
        )
    _, version, _, size, count, table, number, epoch, time_ms, schema_id, marks, token = _HEADER.unpack_from(
        data
    )
    if version > _VERSION:
        raise UnsupportedVersionError(
            f"{key} is a WAL segment of format {version}; this release reads up to {_VERSION}. "
            "Upgrade lakehouse.",
            key=key,
            version=version,
        )
    end = size - _CRC.size
    if not _HEADER.size <= end <= len(data) - _CRC.size or _CRC.unpack_from(data, end)[
        0
    ] != google_crc32c.value(data[:end]):
        raise CorruptionError(f"the header of WAL segment {key} is damaged", key=key, offset=0)
    writers = _writers(data[:end], marks)
    times_ok = 0 <= time_ms <= MOMENT_MS_MAX
    if writers is None or not times_ok or schema_id < 0 or max(number, epoch) > COUNT_MAX:
        raise CorruptionError(
            f"the header of WAL segment {key} says what no writer says: number {number}, epoch {epoch}, time "
            f"{time_ms}, schema {schema_id}, {marks} clients in {size:,} bytes",
            key=key,
            offset=0,
        )
    header = SegmentHeader(
        table=uuid.UUID(bytes=table),
        number=number,
        epoch=epoch,
        token=token.hex(),
        time_ms=time_ms,
        schema_id=schema_id,
        writers=writers,
    )
    return header, size, count


def _writers(head: bytes, marks: int) -> dict[str, int] | None:
    """Decodes the last sequences of the writer's clients; None when they do not fill the header exactly."""
    writers, at = {}, _HEADER.size
    for _ in range(marks):
        if at + _MARK.size > len(head):
            return None
        length, sequence = _MARK.unpack_from(head, at)
        at += _MARK.size + length
        try:
            writers[head[at - length : at].decode()] = sequence
        except UnicodeDecodeError:
            return None
    return writers if at == len(head) and len(writers) == marks else None


def _read_batch(data: bytes, at: int, key: str, room: int) -> tuple[WalBatch, int, int]:
    """Decodes the batch at byte ``at``; returns its end and the bytes of its rows, at most ``room``, too."""
    damage = CorruptionError(f"WAL segment {key} is damaged in the batch at byte {at:,}", key=key, offset=at)
    keys_at = at + _BATCH.size + _CRC.size
    if keys_at > len(data):
        raise damage
    size, rows, low, high, gap = _BATCH.unpack_from(data, at)
    low_size, high_size = (0 if length == _NO_KEY else length for length in (low, high))
    body_at = keys_at + low_size + high_size + gap
    end = body_at + size
    if end > len(data):
        raise damage
    buffer = pa.py_buffer(data)
    crc = google_crc32c.extend(
        google_crc32c.value(data[at : at + _BATCH.size]), buffer.slice(keys_at, end - keys_at)
    )
    if _CRC.unpack_from(data, at + _BATCH.size)[0] != crc:
        raise damage
    body = buffer.slice(body_at, size)
    try:
        held = check_stream(body, rows=rows, bytes_max=room)
        with pa.ipc.open_stream(body) as stream:
            table = stream.read_all()
        table.validate()
    except pa.ArrowMemoryError:
        raise  # the machine's fault, not the segment's
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptionError(f"{damage.message}: {error}", key=key, offset=at) from error
    if table.num_rows != rows:
        raise damage
    high_at = keys_at + low_size
    batch = WalBatch(
        rows=table,
        min_key=None if low == _NO_KEY else data[keys_at:high_at],
        max_key=None if high == _NO_KEY else data[high_at : high_at + high_size],
    )
    return batch, end, held
