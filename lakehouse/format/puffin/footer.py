"""Puffin files: blobs back to back, and a footer that describes and locates them.

::

    "PFA1" | blob 0 | blob 1 | ... | footer
    footer: "PFA1" | payload | payload size, i32 | flags, u32 | "PFA1"

The payload is JSON, raw or (flag bit 0) one LZ4 frame. Numbers are little-endian.

Invariants: :meth:`PuffinFooter.parse` returns only blobs that lie between the head magic and
the footer and do not overlap; a parsed footer is encoded again without loss, unknown keys included;
JSON is written as GreptimeDB does, byte for byte.

A reader fetches no more of a file than its tail, so the magic bytes in front of the blobs and of the
payload are checked on request only (``strict``); upstream does not check them.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.excerpt import short
from lakehouse.format.puffin.codec import BLOB_BYTES_MAX, decompress_blob, inflate
from lakehouse.format.puffin.footer_json import (
    dump_json,
    integer,
    json_object,
    load_json,
    string_map,
    typed,
)
from lakehouse.format.puffin.lz4_frame import compress_lz4, with_end_mark
from lakehouse.kernels.need_more import NeedMore

__all__ = [
    "CREATED_BY",
    "FILE_BYTES_MIN",
    "FOOTER_BYTES_MAX",
    "MAGIC",
    "TRAILER_BYTES",
    "BlobMeta",
    "PuffinFooter",
]

MAGIC = b"PFA1"
"""Magic bytes: Puffin Fratercula arctica, version 1."""
_TRAILER = struct.Struct("<iI4s")
TRAILER_BYTES = _TRAILER.size
"""Bytes of payload size, flags and magic, which a reader needs first."""
FILE_BYTES_MIN = 2 * len(MAGIC) + TRAILER_BYTES
"""Size of a file without blobs and without payload."""
FOOTER_BYTES_MAX = 64 << 20
"""Default maximum bytes of a footer's payload, stored or decompressed."""
CREATED_BY = "created-by"
"""File property in which Iceberg writers name themselves."""
_FLAG_LZ4 = 1
_SHORT_BYTES = 1 << 18
_SHORT_LZ4_BYTES = 1 << 10
"""Maximum bytes of an LZ4 payload that counts as short: LZ4 makes at most 255 bytes of one."""
_I32_MAX = (1 << 31) - 1
_FILE_KEYS = ("blobs", "properties")
_CODEC = "compression-codec"
_BLOB_KEYS: Mapping[str, tuple[type, Any]] = {
    "type": (str, None),
    "fields": (list, []),
    "snapshot-id": (int, 0),
    "sequence-number": (int, 0),
    "offset": (int, None),
    "length": (int, None),
    _CODEC: (str, None),
    "properties": (dict, {}),
}
"""JSON type of each key of a blob, and its default (None: the key is mandatory, but for the codec)."""
_USUAL_BLOBS = {
    keys: tuple(_BLOB_KEYS[key][0] for key in keys)
    for keys in (
        tuple(key for key in _BLOB_KEYS if key not in left_out)
        for left_out in ((), (_CODEC,), ("properties",), (_CODEC, "properties"))
    )
}
"""Usual lists of keys, with the types of their values: a blob that has these needs no further check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMeta:
    """Description of a blob in the footer."""

    type: str
    """Type of the blob; GreptimeDB's lookup key."""
    offset: int
    """Offset of its first byte in the file."""
    length: int
    """Bytes in the file, as stored there: compressed if it has a codec."""
    fields: tuple[int, ...] = ()
    """Ids of the fields it was computed from (Iceberg)."""
    snapshot_id: int = 0
    """Snapshot it was computed from (Iceberg)."""
    sequence_number: int = 0
    """Sequence number of that snapshot (Iceberg)."""
    codec: str | None = None
    """Codec: ``lz4``, ``zstd``, None, or a word this release does not know."""
    properties: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the JSON object that the specification does not name."""

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.offset + self.length

    def decompress(
        self, stored: bytes | memoryview, *, max_bytes: int = BLOB_BYTES_MAX
    ) -> bytes | memoryview:
        """Returns the content of the blob whose bytes in the file are ``stored``."""
        what = f"blob {self.type!r} at byte {self.offset}"
        if len(stored) != self.length:
            raise InvalidInputError(f"{what} has {self.length} bytes, not {len(stored)}: pass all of them")
        try:
            return decompress_blob(stored, self.codec, max_bytes=max_bytes, what=what)
        except FormatError as error:
            error.context |= {"type": self.type, "blob_offset": self.offset}
            raise

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object in the footer, keys in the order in which upstream writes them."""
        document: dict[str, Any] = {
            "type": self.type,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "offset": self.offset,
            "length": self.length,
        }
        if self.codec is not None:
            document[_CODEC] = self.codec
        if self.properties:
            document["properties"] = dict(self.properties)
        return document | dict(self.extra)

    @classmethod
    def from_json(cls, document: Any, index: int, blobs_end: int) -> Self:
        """Reads a JSON object as blob ``index`` of its file, which must end at ``blobs_end`` or before."""
        where = f"blob {index} of the puffin footer"
        table = json_object(document, where)
        # Most blobs have one of the usual lists of keys, so one comparison replaces a check of each key.
        usual = _USUAL_BLOBS.get(tuple(table))
        if usual is None or usual != tuple(map(type, table.values())):
            _check_values(table, where)
        fields, properties = table.get("fields"), table.get("properties")
        meta = cls(
            type=table["type"],
            offset=table["offset"],
            length=table["length"],
            fields=tuple([integer(value, "fields", where, _I32_MAX) for value in fields]) if fields else (),
            snapshot_id=integer(table.get("snapshot-id", 0), "snapshot-id", where),
            sequence_number=integer(table.get("sequence-number", 0), "sequence-number", where),
            codec=table.get(_CODEC),
            properties=string_map(properties, where) if properties else {},
            extra={} if usual else {key: table[key] for key in table if key not in _BLOB_KEYS},
        )
        if meta.offset < len(MAGIC) or meta.length < 0 or meta.end > blobs_end:
            raise CorruptionError(
                f"{where} ({short(meta.type)}) is [{meta.offset}, {meta.end}), but blobs are within "
                f"[{len(MAGIC)}, {blobs_end})",
                type=short(meta.type),
                offset=meta.offset,
                expected=(len(MAGIC), blobs_end),
                got=(meta.offset, meta.end),
            )
        return meta


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFooter:
    """Footer of a puffin file: its blobs and properties."""

    blobs: tuple[BlobMeta, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the file; Iceberg's ``created-by`` is one."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the JSON object that the specification does not name."""
    lz4: bool = False
    """True if the payload is stored as an LZ4 frame."""

    def find(self, type: str) -> BlobMeta | None:  # noqa: A002 - the footer's own word
        """Returns the first blob of that type."""
        return next((blob for blob in self.blobs if blob.type == type), None)

    def encode(self) -> bytes:
        """Returns the footer's bytes, from its first magic to its last."""
        document: dict[str, Any] = {"blobs": [blob.to_json() for blob in self.blobs]}
        if self.properties:
            document["properties"] = dict(self.properties)
        payload = dump_json(document | dict(self.extra))
        self._check_readable(payload)
        if self.lz4:
            payload = compress_lz4(payload, finished=False)
        if len(payload) > _I32_MAX:
            raise InvalidInputError(f"a puffin footer of {len(payload)} bytes is too long: write fewer blobs")
        return MAGIC + payload + _TRAILER.pack(len(payload), _FLAG_LZ4 if self.lz4 else 0, MAGIC)

    @staticmethod
    def takes_long(tail: bytes | memoryview) -> bool:
        """Returns whether the footer at the end of ``tail`` may be too long to parse in an event loop."""
        if len(tail) < TRAILER_BYTES:
            return False
        size, flags, _ = _TRAILER.unpack(tail[-TRAILER_BYTES:])
        return bool(size > (_SHORT_LZ4_BYTES if flags & _FLAG_LZ4 else _SHORT_BYTES))

    def _check_readable(self, payload: bytes) -> None:
        """Refuses a footer that readers would refuse or read as another."""
        ends = max((blob.end for blob in self.blobs), default=len(MAGIC))
        try:
            again = type(self)._from_json(load_json(payload, 0), ends, self.lz4)
        except FormatError as error:
            problem = f"the new puffin footer cannot be read: {error.message}; nothing was written"
            raise InvalidInputError(problem, **error.context) from error
        if again != self:
            raise InvalidInputError(
                "the new puffin footer would be read as something else; nothing was written"
            )

    @classmethod
    def parse(
        cls,
        tail: bytes | memoryview,
        file_size: int,
        *,
        strict: bool = False,
        max_bytes: int = FOOTER_BYTES_MAX,
    ) -> Self | NeedMore:
        """Returns the footer of a file whose last bytes are ``tail``, or the tail that would hold it.

        Args:
            tail: the last ``len(tail)`` bytes of the file.
            file_size: size of the whole file.
            strict: True also checks the magic before the payload and, when ``tail`` is the whole
                file, the one before the blobs; upstream checks neither.
            max_bytes: maximum bytes of the payload, stored or decompressed.
        """
        if len(tail) > file_size:
            raise InvalidInputError(f"the tail has {len(tail)} bytes, the puffin file only {file_size}")
        if file_size < FILE_BYTES_MIN:
            raise _damage_error("puffin file is too small", 0, f"at least {FILE_BYTES_MIN} bytes", file_size)
        if len(tail) < TRAILER_BYTES:
            return NeedMore(start=file_size - TRAILER_BYTES, end=file_size)
        size, flags, magic = _TRAILER.unpack(tail[-TRAILER_BYTES:])
        if magic != MAGIC:
            raise _damage_error("not a puffin file: wrong magic at its end", file_size - 4, MAGIC, magic)
        start = file_size - TRAILER_BYTES - size
        if size < 0 or start < 2 * len(MAGIC):
            expected = f"0..{file_size - FILE_BYTES_MIN}"
            raise _damage_error(
                "puffin footer has an impossible payload size", file_size - 12, expected, size
            )
        if size > max_bytes:
            raise _damage_error(
                "puffin footer is longer than the limit", file_size - 12, f"at most {max_bytes}", size
            )
        blobs_end = start - len(MAGIC)
        needed = blobs_end if strict else start
        if file_size - len(tail) > needed:
            return NeedMore(start=needed, end=file_size)
        base = file_size - len(tail)
        if strict:
            _check_magic(tail[blobs_end - base :], blobs_end)
            if base == 0:
                _check_magic(tail, 0)
        payload = bytes(tail[start - base : start - base + size])
        if flags & _FLAG_LZ4:
            what = "LZ4 payload of the puffin footer"
            payload = inflate("lz4", with_end_mark(payload, what=what), max_bytes=max_bytes, what=what)
        return cls._from_json(load_json(payload, start), blobs_end, bool(flags & _FLAG_LZ4))

    @classmethod
    def _from_json(cls, document: Any, blobs_end: int, lz4: bool) -> Self:
        where = "puffin footer"
        table = json_object(document, where)
        entries = typed(table.get("blobs"), "blobs", list, where)
        blobs: list[BlobMeta] = []
        for index, entry in enumerate(entries):
            try:
                blobs.append(BlobMeta.from_json(entry, index, blobs_end))
            except FormatError as error:
                error.context["blob"] = index
                raise
        _check_overlaps(blobs)
        return cls(
            blobs=tuple(blobs),
            properties=string_map(table.get("properties", {}), where),
            extra={key: value for key, value in table.items() if key not in _FILE_KEYS},
            lz4=lz4,
        )


def _check_values(table: Mapping[str, Any], where: str) -> None:
    """Refuses a blob with a value of the wrong type, or without a mandatory key."""
    for key, (wanted, default) in _BLOB_KEYS.items():
        value = table.get(key, default)
        if type(value) is wanted or (key == _CODEC and value is None):
            continue
        if key not in table:
            raise CorruptionError(
                f"{where} has no {key!r}", expected=key, got=short(sorted(itertools.islice(table, 20)))
            )
        raise CorruptionError(
            f"{key!r} of {where} ({short(table.get('type'))}) is {short(value)}",
            expected=wanted.__name__,
            got=short(value),
        )


def _check_magic(data: bytes | memoryview, offset: int) -> None:
    if data[:4] != MAGIC:
        raise _damage_error("wrong magic in a puffin file", offset, MAGIC, bytes(data[:4]))


def _check_overlaps(blobs: list[BlobMeta]) -> None:
    end = 0
    for blob in blobs:
        if blob.offset < end:
            break
        end = blob.end
    else:
        return  # one behind the other, as nearly all writers put them
    order = sorted((blob.offset, blob.end, index) for index, blob in enumerate(blobs) if blob.length)
    for (_, end, first), (offset, _, second) in itertools.pairwise(order):
        if offset < end:
            a, b = blobs[first], blobs[second]
            raise CorruptionError(
                f"blobs {first} ({short(a.type)}, ends at byte {a.end}) and {second} ({short(b.type)}, "
                f"begins at byte {b.offset}) of the puffin file overlap",
                blob=second,
                type=short(b.type),
                offset=b.offset,
                expected=a.end,
                got=b.offset,
            )


def _damage_error(what: str, offset: int, expected: object, got: object) -> CorruptionError:
    return CorruptionError(
        f"{what} (byte {offset}): expected {expected!r}, got {got!r}",
        offset=offset,
        expected=expected,
        got=got,
    )
