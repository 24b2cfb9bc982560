"""Counts that bytes say: none is believed before the bytes that it counts are seen to be there."""

from __future__ import annotations

import base64
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import google_crc32c
import numpy as np
import pytest

from lakehouse.errors import FormatError
from lakehouse.format.fst.fst import Fst, build_fst, masked_crc32c
from lakehouse.format.index.bloom import BloomMeta
from lakehouse.format.index.inverted_search import _union_bit_vecs
from lakehouse.format.index.protobuf import decode_varints
from lakehouse.format.index.roaring import encode_one, read_bitmap, union_many
from lakehouse.format.index.tantivy_store import META_FILE, without_zstd
from lakehouse.format.parquet.run_footer import PieceTable, RunHead
from lakehouse.format.puffin.codec import decompress_blob
from lakehouse.format.puffin.deletion_vector import decode_deletion_vector
from lakehouse.format.puffin.theta_sketch import ThetaSketch
from lakehouse.format.sstable.bloom import parse_bloom
from lakehouse.format.sstable.frame import BlockType, Footer, Handle, open_block, seal_block
from lakehouse.format.sstable.index import BlockIndex
from tests.kit.memory_pools import counted_pool

_MIB = 1 << 20
_HUGE = (1 << 32) - 1


def runs(containers: int) -> bytes:
    """A bitmap of that many containers, each with all of its 65,536 numbers in one run."""
    marks = np.packbits(np.ones(containers, np.bool_), bitorder="little").tobytes()
    cards = b"".join(struct.pack("<HH", key, 65_535) for key in range(containers))
    head = struct.pack("<HH", 12_347, containers - 1) + marks + cards
    offsets = [len(head) + 4 * containers + 6 * place for place in range(containers)]
    return head + np.array(offsets, "<u4").tobytes() + struct.pack("<HHH", 1, 0, 65_535) * containers


def union(data: bytes, *, below: int = 1 << 32) -> Any:
    """The numbers of one bitmap, a million at most."""
    whole = np.array([0]), np.array([len(data)])
    return union_many(data, *whole, below=below, numbers_max=1_000_000)


def deletion_vector(body: bytes) -> bytes:
    """A blob of these bitmaps, with a right length and checksum."""
    held = b"\xd1\xd3\x39\x64" + body
    return struct.pack(">I", len(held)) + held + struct.pack(">I", zlib.crc32(held))


def block(codec: int, payload: bytes, raw: int) -> bytes:
    """A block of an SSTable with a right checksum."""
    head = struct.pack("<BBII", BlockType.META, codec, raw, len(payload)) + payload
    return head + struct.pack("<I", google_crc32c.value(head))


def fst_of_many_keys() -> bytes:
    """A tree of a key that says it has all there can be."""
    body = bytearray(build_fst([b"a"], [1]))
    struct.pack_into("<Q", body, len(body) - 20, (1 << 64) - 1)
    struct.pack_into("<I", body, len(body) - 4, masked_crc32c(bytes(body[:-4])))
    return bytes(body)


def pieces(keys: list[int]) -> bytes:
    """A table of pieces of row groups without columns whose keys end at these places."""
    groups = len(keys) // 2
    parts = (struct.pack("<3I", groups, 0, len(keys)), bytes(4 * groups), np.array(keys, "<u4").tobytes())
    return base64.b64encode(b"".join(parts) + bytes(keys[-1]))


def index_of(blocks: int, pieces: int) -> Any:
    """The index of that many blocks and pieces, of which there are no bytes."""
    footer = Footer(meta=Handle(0, 1), index=Handle(0, 1), bloom=Handle(0, 0))
    return BlockIndex.parse(struct.pack("<II", blocks, pieces), footer)


CASES: dict[str, Callable[[], Any]] = {
    "runs of a bitmap": lambda: union(runs(60_000)),
    "containers of a bitmap": lambda: read_bitmap(struct.pack("<II", 12_346, _HUGE), below=1 << 32),
    "bitmaps of a deletion vector": lambda: decode_deletion_vector(
        deletion_vector(struct.pack("<Q", 1 << 60)), row_count=1 << 40
    ),
    "entries of a theta sketch": lambda: ThetaSketch.parse(
        struct.pack("<6BH", 2, 3, 3, 0, 0, 0, 1) + struct.pack("<II", _HUGE, 0)
    ),
    "segments of a bloom blob": lambda: BloomMeta.decode(
        b"\x08\x01\x10\xff\xff\xff\xff\x0f\x18\xff\xff\xff\xff\x0f", 0
    ),
    "bits of a filter": lambda: parse_bloom(struct.pack("<IIQ", 7, 0, 1 << 30)),
    "blocks of an index": lambda: index_of(_HUGE, 1),
    "pieces of an index": lambda: index_of(1, _HUGE),
    "keys that overlap": lambda: PieceTable.unpack(pieces([0, 50_000] * 5_000)),
    "row groups of a run": lambda: PieceTable.unpack(b"/////////////////////w=="),
    "values of a run's head": lambda: RunHead.unpack(b'{"version":1,"kinds":[' + b"[]," * _MIB + b"0]}"),
    "kinds of a run below zero": lambda: RunHead.unpack(b'{"version":1,"schema":0,"kinds":[5,-5,0]}'),
    "content of a block, snappy": lambda: open_block(block(1, b"x" * 40, 1 << 27), BlockType.META, offset=0),
    "content of a block, lz4": lambda: open_block(block(2, b"x" * 40, 1 << 27), BlockType.META, offset=0),
    "content of a block, zstd": lambda: open_block(block(3, b"x" * 40, 1 << 27), BlockType.META, offset=0),
    "content of a frame": lambda: decompress_blob(
        b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 50) + b"\x01\0\0", "zstd"
    ),
    "documents of a store": lambda: without_zstd(
        {
            META_FILE: b'{"index_settings":{"docstore_compression":"zstd"}}',
            "a.store": struct.pack("<I", _HUGE)
            + struct.pack("<IQB15x", 2, 4, 4)
            + struct.pack("<II", 0, 1337),
        }
    ),
}


def peak_of(act: Callable[[], Any]) -> int:
    """Bytes that a call takes at most, of Python's memory and of Arrow's."""
    tracemalloc.start()
    try:
        with counted_pool() as counted:
            act()
            return tracemalloc.get_traced_memory()[1] + (counted.max_memory() or 0)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CASES)
def test_a_count_without_its_bytes_is_refused(name: str) -> None:
    """A decoder refuses a count of more than its bytes hold, and takes no memory for it."""

    def refused() -> None:
        with pytest.raises((FormatError, ValueError)):
            CASES[name]()

    assert peak_of(refused) < 24 * _MIB


def test_a_bitmap_of_few_numbers_takes_little_however_many_there_may_be() -> None:
    """Bitmaps of few numbers take the memory of those, however many segments their blob says it has."""
    data = encode_one(np.array([3, 9], np.uint32))
    found: list[Any] = []
    assert peak_of(lambda: found.append(union(data))) < 2 * _MIB
    assert found[0].tolist() == [3, 9]
    whole = np.array([0]), np.array([1])
    assert peak_of(lambda: found.append(_union_bit_vecs(b"\x05", *whole, 1 << 32))) < _MIB
    assert found[1].tolist() == [0, 2]


def test_a_tree_takes_the_memory_of_its_keys_however_many_it_says() -> None:
    """The number of keys in an FST's footer is no reason to take memory."""
    found: list[Any] = []
    assert peak_of(lambda: found.extend(Fst.parse(fst_of_many_keys()).items())) < 4 * _MIB
    assert found == [(b"a", 1)]


@pytest.mark.parametrize("below", [10_000, 1 << 32])
def test_the_union_is_the_same_for_few_and_for_many_segments(below: int) -> None:
    """Numbers that several bitmaps have come once and in order, however many there may be."""
    parts = [encode_one(np.array(one, np.uint32), runs=True) for one in ([5, 9_000], [1, 5, 7], range(4000))]
    sizes = np.array([len(one) for one in parts])
    found = union_many(b"".join(parts), np.cumsum(sizes) - sizes, sizes, below=below, numbers_max=1_000_000)
    assert found.tolist() == [*range(4000), 9_000]


def test_a_truncated_list_of_varints_is_none() -> None:
    """A packed list that ends within a number has no values."""
    assert decode_varints(b"\xff" * 11) is None
    assert decode_varints(b"\x01\xff") is None


def test_a_sound_block_of_the_best_ratio_is_read() -> None:
    """What a codec makes of a content that never changes is below the bound of its ratio."""
    for codec in ("snappy", "lz4", "zstd"):
        content = bytes(8 * _MIB)
        assert open_block(seal_block(BlockType.META, content, codec), BlockType.META, offset=0) == content
