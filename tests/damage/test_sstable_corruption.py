"""Bytes that are no SSTable, or no longer the one that was written."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.format.sstable.frame import (
    CODECS,
    RAW_BYTES_MAX,
    BlockType,
    Footer,
    Handle,
    Header,
    open_block,
    seal_block,
)
from lakehouse.format.sstable.index import BlockIndex
from lakehouse.format.sstable.reader import SstableFile, decode_sstable
from lakehouse.format.sstable.writer import SstableOptions, encode_sstable
from lakehouse.kernels.need_more import NeedMore
from tests.kit.blob_samples import flipped
from tests.kit.sstable_samples import SCHEMA, WAYS, looped, rows_of

ROWS = rows_of(40)
FILE = encode_sstable(ROWS, SCHEMA, SstableOptions(block_bytes=300, codec="lz4"))
FOOTER = Footer.unpack(FILE[-Footer.ENCODED_SIZE :], offset=len(FILE) - Footer.ENCODED_SIZE)


def part(handle: Handle) -> bytes:
    """A block of the file as it is stored."""
    return FILE[handle.offset : handle.end]


def with_blocks(*, data: list[bytes] | None = None, **contents: bytes) -> bytes:
    """The file with other contents in some blocks, its frame sound."""
    file = SstableFile.parse(FILE, len(FILE))
    assert isinstance(file, SstableFile)
    stored = data or [FILE[slice(*file.block_range(at))] for at in range(len(file.index.raw))]
    end = Header.ENCODED_SIZE + sum(map(len, stored))
    parts = [Header(rows=40, end=end, blocks=len(stored)).pack(), *stored]
    handles = {}
    for name, kind in (("bloom", BlockType.BLOOM), ("index", BlockType.INDEX), ("meta", BlockType.META)):
        handle = getattr(FOOTER, name)
        content = contents.get(name, open_block(part(handle), kind, offset=handle.offset))
        sealed = seal_block(kind, content, "none")
        handles[name] = Handle(end, len(sealed))
        end += len(sealed)
        parts.append(sealed)
    return b"".join([*parts, Footer(**handles).pack()])


def test_the_sample_is_sound() -> None:
    """Without damage the file is its rows, and so is one whose frame was made again."""
    assert decode_sstable(FILE).equals(ROWS)
    assert decode_sstable(with_blocks()).equals(ROWS)


def test_every_truncation_is_noticed() -> None:
    """A file that ends anywhere before its end is an error."""
    for size in range(len(FILE)):
        with pytest.raises(FormatError):
            decode_sstable(FILE[:size])


@pytest.mark.parametrize("way", WAYS)
def test_every_flipped_bit_is_noticed(way: str) -> None:
    """A file with any bit turned over is an error."""
    with looped(way):
        for bit in range(8 * len(FILE)):
            with pytest.raises(FormatError):
                decode_sstable(flipped(FILE, bit))


@given(st.binary(max_size=200))
def test_foreign_files_are_no_sstables(data: bytes) -> None:
    """Bytes from anywhere are an error, whether read from the front or from the end."""
    with pytest.raises(FormatError):
        decode_sstable(data)
    if len(data) >= Header.ENCODED_SIZE + Footer.ENCODED_SIZE:
        with pytest.raises(FormatError, match="no SSTable"):
            SstableFile.parse(data, len(data))


def test_errors_say_where() -> None:
    """Damage in a block is an error with the block's offset, what is there and what should be."""
    with pytest.raises(CorruptionError, match="data block at byte 32 is damaged: its checksum is") as caught:
        decode_sstable(flipped(FILE, 8 * 60))
    assert caught.value.context["offset"] == 32
    assert caught.value.context["expected"] != caught.value.context["got"]


def _resealed(data: bytes, at: int, value: bytes) -> bytes:
    """The footer or header with other bytes in it and a checksum that fits them."""
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    if len(data) == Header.ENCODED_SIZE:
        changed[-4:] = google_crc32c.value(bytes(changed[:-4])).to_bytes(4, "little")
    else:
        changed[36:40] = google_crc32c.value(bytes(changed[:36] + changed[40:])).to_bytes(4, "little")
    return bytes(changed)


@pytest.mark.parametrize("version", [0, 2, 65_535])
def test_other_versions_are_not_read(version: int) -> None:
    """A file of a version this release does not know says so, from both ends."""
    header = _resealed(FILE[: Header.ENCODED_SIZE], 4, version.to_bytes(2, "little"))
    with pytest.raises(UnsupportedVersionError, match="Upgrade"):
        decode_sstable(header + FILE[Header.ENCODED_SIZE :])
    footer = _resealed(FILE[-Footer.ENCODED_SIZE :], 40, version.to_bytes(4, "little"))
    with pytest.raises(UnsupportedVersionError, match="Upgrade"):
        SstableFile.parse(FILE[: -Footer.ENCODED_SIZE] + footer, len(FILE))


def test_unknown_flags_are_not_read() -> None:
    """A flag is something a reader has to know."""
    with pytest.raises(UnsupportedVersionError, match="flags 0x1"):
        Header.unpack(_resealed(FILE[: Header.ENCODED_SIZE], 6, b"\x01\x00"))


@pytest.mark.parametrize("at", range(0, 36, 4))
def test_handles_point_to_where_blocks_are(at: int) -> None:
    """A footer whose blocks do not stand back to back before it is an error."""
    footer = _resealed(FILE[-Footer.ENCODED_SIZE :], at, b"\x07\x00\x00\x00")
    with pytest.raises(CorruptionError):
        SstableFile.parse(FILE[: -Footer.ENCODED_SIZE] + footer, len(FILE))


def test_a_header_agrees_with_the_footer() -> None:
    """A header that counts other rows than the footer's index is an error."""
    header = Header(rows=41, end=FOOTER.data_end, blocks=6).pack()
    with pytest.raises(CorruptionError, match="header does not say"):
        decode_sstable(header + FILE[Header.ENCODED_SIZE :])


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_open_to_what_was_sealed(codec: str) -> None:
    """Any content comes back, and what a codec cannot shrink is stored as it is."""
    noise = np.random.default_rng(1).bytes(1000)
    for content in (b"", b"a", b"ab" * 5000, noise):
        stored = seal_block(BlockType.DATA, content, codec)
        assert open_block(stored, BlockType.DATA, offset=0) == content
    assert len(seal_block(BlockType.DATA, noise, codec)) == 1014
    assert codec == "none" or len(seal_block(BlockType.DATA, b"ab" * 5000, codec)) < 1000


def test_a_block_is_of_one_type() -> None:
    """A block of another type in a block's place is an error."""
    with pytest.raises(CorruptionError, match="another block"):
        open_block(part(FOOTER.index), BlockType.META, offset=0)


def _block(kind: int, codec: int, raw: int, payload: bytes) -> bytes:
    head = struct.pack("<BBII", kind, codec, raw, len(payload)) + payload
    crc: int = google_crc32c.value(head)
    return head + crc.to_bytes(4, "little")


@pytest.mark.parametrize(
    "stored",
    [
        _block(1, 4, 3, b"abc"),
        _block(1, 0, 4, b"abc"),
        _block(1, 1, 10, b"abc"),
        _block(1, 2, 10, b"\xff\xff\xff"),
        _block(1, 3, 10, b"abc"),
        _block(1, 3, RAW_BYTES_MAX + 1, pa.Codec("zstd").compress(b"abc", asbytes=True)),
        _block(1, 3, 2, pa.Codec("zstd").compress(b"abc", asbytes=True)),
        _block(1, 1, 2, pa.Codec("snappy").compress(b"abc", asbytes=True)),
        _block(1, 2, 2, pa.Codec("lz4_raw").compress(b"abc", asbytes=True)),
    ],
)
def test_payloads_that_are_none_are_refused(stored: bytes) -> None:
    """An unknown codec, a payload that is none of its codec's, or one that needs more room is an error."""
    with pytest.raises(CorruptionError):
        open_block(stored, BlockType.DATA, offset=0)


@pytest.mark.parametrize("codec", ["snappy", "lz4_raw", "zstd"])
def test_a_payload_fills_the_room_it_asks_for(codec: str) -> None:
    """A payload of fewer bytes than its block says is an error: nothing else may stand in the rest."""
    number = CODECS.index(codec.removesuffix("_raw"))
    payload = pa.Codec(codec).compress(b"abc" * 100, asbytes=True)
    with pytest.raises(CorruptionError):
        open_block(_block(1, number, 10_000, payload), BlockType.DATA, offset=0)


@pytest.mark.parametrize("name", ["index", "meta", "bloom"])
@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=120))
def test_contents_from_anywhere_are_refused(name: str, content: bytes) -> None:
    """An index, metadata or filter of any bytes under a sound checksum is an error."""
    with pytest.raises(FormatError):
        decode_sstable(with_blocks(**{name: content}))


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_from_anywhere_are_refused(way: str, data: st.DataObject) -> None:
    """Data blocks of as many bytes as the index says, but any, are an error."""
    file = SstableFile.parse(FILE, len(FILE))
    assert isinstance(file, SstableFile)
    contents = [np.random.default_rng(data.draw(st.integers(0, 9))).bytes(size) for size in file.index.raw]
    with looped(way), pytest.raises(CorruptionError):
        file.rows(range(len(contents)), contents, file.columns({1, 2, 3}))


def test_a_block_in_anothers_place_is_refused() -> None:
    """Two blocks of one size that changed places are an error, for readers of all rows."""
    rows = rows_of(64, step=1)
    data = encode_sstable(rows, SCHEMA, SstableOptions(block_bytes=1, codec="none"))
    file = SstableFile.parse(data, len(data))
    assert isinstance(file, SstableFile)
    contents = [file.content(at, data[slice(*file.block_range(at))]) for at in range(4)]
    contents[1], contents[2] = contents[2], contents[1]
    with pytest.raises(CorruptionError, match="keys do not ascend"):
        file.rows(range(4), contents, file.columns({1}))


def _meta(**changes: Any) -> bytes:
    members = json.loads(open_block(part(FOOTER.meta), BlockType.META, offset=0))
    return json.dumps(members | changes).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 41, "kinds": [41, 0, 0]},
        {"rows": -1},
        {"rows": 40.0},
        {"rows": True},
        {"kinds": [39, 0, 0]},
        {"kinds": [40, 0]},
        {"kinds": [41, -1, 0]},
        {"fields": []},
        {"fields": [{"id": 1, "name": "id", "type": "bigints"}]},
        {"fields": [{"id": 1, "name": "id", "type": "bigint"}] * 2},
        {"fields": [{"id": 1, "name": "id", "type": "array<bigint>"}]},
        {"fields": [{"id": 1, "name": "id", "type": "array<bigint>", "ids": [1]}]},
        {"fields": [{"id": 1, "name": "id", "type": "double"}]},
        {"fields": 3},
        {"key": [9]},
        {"key": [1, 1]},
        {"key": None},
        {"stats": []},
        {"stats": {"1": [1, "zz", None, 1]}},
        {"properties": 3},
    ],
)
def test_metadata_that_describes_no_rows_is_refused(changes: dict[str, Any]) -> None:
    """Metadata with members that are wrong, or contradict each other or the index, is an error."""
    with pytest.raises(FormatError):
        decode_sstable(with_blocks(meta=_meta(**changes)))


def test_other_types_in_the_metadata_make_no_wrong_rows() -> None:
    """Values that are not of the size that their type asks for are an error."""
    fields = [
        {"id": 1, "name": "id", "type": "bigint", "required": True},
        {"id": 2, "name": "amount", "type": "int"},
        {"id": 3, "name": "note", "type": "string"},
    ]
    with pytest.raises(CorruptionError):
        decode_sstable(with_blocks(meta=_meta(fields=fields)))


def test_a_tail_says_what_is_missing() -> None:
    """A tail that is too short is answered with the range to read, once for the footer, once for the rest."""
    size = len(FILE)
    assert SstableFile.parse(FILE[-10:], size) == NeedMore(start=size - 48, end=size)
    assert SstableFile.parse(FILE[-48:], size) == NeedMore(start=FOOTER.index.offset, end=size)
    assert isinstance(SstableFile.parse(FILE[FOOTER.index.offset :], size), SstableFile)


def test_decoding_is_bounded_by_what_the_index_says() -> None:
    """A block that holds more than the index says is refused before its rows are looked at."""
    file = SstableFile.parse(FILE, len(FILE))
    assert isinstance(file, SstableFile)
    stored = FILE[slice(*file.block_range(0))]
    larger = SstableFile(file.footer, file.meta, _with_raw(file, int(file.index.raw[0]) + 1))
    with pytest.raises(CorruptionError, match="as many bytes as the index says"):
        larger.content(0, stored)


def _with_raw(file: SstableFile, raw: int) -> BlockIndex:
    changed = file.index.raw.copy()
    changed[0] = raw
    return replace(file.index, raw=changed)
