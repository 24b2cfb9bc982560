"""The content of data blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import InvalidInputError
from lakehouse.format.sstable.entries import (
    RESTART_ROWS,
    BlockError,
    Blocks,
    cut_blocks,
    entry_keys,
    scan_blocks,
)
from lakehouse.format.sstable.loops import Packed, read_only
from lakehouse.format.sstable.search import SearchBlock
from tests.kit.sstable_samples import WAYS, looped

every_way = pytest.mark.parametrize("way", WAYS)
no_deadline = settings(deadline=None, max_examples=50)  # the first compiled run loads the compiler

KEYS = st.lists(
    st.binary(max_size=6) | st.lists(st.sampled_from([b"\x00", b"a", b"\xff"]), max_size=5).map(b"".join),
    min_size=1,
    max_size=60,
    unique=True,
).map(sorted)


def packed(values: list[bytes]) -> Packed:
    """The values one after another."""
    data = np.frombuffer(b"".join(values), np.uint8)
    return Packed(data=read_only(data), offsets=np.cumsum([0, *map(len, values)]))


def cut(keys: list[bytes], block_bytes: int = 1 << 20) -> Blocks:
    """Blocks of these keys; the value of each is the key backwards, its kind the length modulo 3."""
    kinds = np.array([len(key) % 3 for key in keys], np.uint8)
    return cut_blocks(packed(keys), kinds, packed([key[::-1] for key in keys]), block_bytes)


def block(blocks: Blocks, at: int) -> tuple[bytes, int]:
    """The content of one block, and its number of rows."""
    content = blocks.data[blocks.begins[at] : blocks.begins[at + 1]].tobytes()
    return content, int(blocks.firsts[at + 1] - blocks.firsts[at])


@every_way
@no_deadline
@given(KEYS, st.integers(1, 300))
def test_blocks_scan_to_what_was_written(way: str, keys: list[bytes], block_bytes: int) -> None:
    """Keys, kinds and values come back, in whatever number of blocks they are."""
    with looped(way):
        blocks = cut(keys, block_bytes)
        entries = scan_blocks(blocks)
        found = entry_keys(blocks, entries).to_pylist()
    assert found == keys
    assert entries.kinds.tolist() == [len(key) % 3 for key in keys]
    spans = zip(entries.values.tolist(), entries.ends.tolist(), strict=True)
    assert [blocks.data[begin:end].tobytes() for begin, end in spans] == [key[::-1] for key in keys]


@pytest.mark.skipif(len(WAYS) < 2, reason="numba is not installed")
@no_deadline
@given(KEYS, st.integers(1, 300))
def test_both_ways_write_the_same_blocks(keys: list[bytes], block_bytes: int) -> None:
    """Compiled and interpreted loops write the same."""
    written = set()
    for way in WAYS:
        with looped(way):
            blocks = cut(keys, block_bytes)
        written.add((blocks.data.tobytes(), blocks.begins.tobytes(), blocks.firsts.tobytes()))
    assert len(written) == 1


@given(KEYS, st.integers(1, 300))
def test_a_block_ends_with_the_row_that_fills_it(keys: list[bytes], block_bytes: int) -> None:
    """Every block but the last reaches the size asked for, and would not without its last row."""
    blocks = cut(keys, block_bytes)
    for at in range(len(blocks.begins) - 1):
        content, rows = block(blocks, at)
        first = int(blocks.firsts[at])
        assert len(content) >= block_bytes or first + rows == len(keys)
        if rows > 1:
            assert int(cut(keys[first : first + rows - 1]).begins[-1]) < block_bytes


@given(KEYS, st.integers(1, 300), st.lists(st.binary(max_size=6), max_size=10))
def test_seeking_finds_what_scanning_finds(keys: list[bytes], block_bytes: int, others: list[bytes]) -> None:
    """Every key is found in its block and nowhere else, and no other key is."""
    blocks = cut(keys, block_bytes)
    for at in range(len(blocks.begins) - 1):
        content, rows = block(blocks, at)
        mine = keys[int(blocks.firsts[at]) :][:rows]
        searched = SearchBlock(content, rows)
        for key in {*keys, *others}:
            found = searched.find(key)
            assert (found is not None) == (key in mine)
            if found is not None:
                assert (found.kind, content[found.begin : found.end]) == (len(key) % 3, key[::-1])


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 32, 33])
def test_every_sixteenth_key_is_a_restart(rows: int) -> None:
    """The block's end says where the first entry and each sixteenth begin, whose keys are whole."""
    keys = [b"prefix%03d" % at for at in range(rows)]
    content, _ = block(cut(keys), 0)
    count = -(-rows // RESTART_ROWS)
    assert int.from_bytes(content[-4:], "little") == rows
    restarts = np.frombuffer(content, "<u4", count, len(content) - 4 - 4 * count)
    for at, begin in enumerate(restarts.tolist()):
        assert content[begin + 1 : begin + 3] == b"\x00\x09"  # shares nothing, has nine bytes of its own
        assert content[begin + 4 : begin + 13] == keys[16 * at]


def test_sizes_beyond_a_byte_are_found() -> None:
    """Keys and values of hundreds of thousands of bytes are scanned and sought as others are."""
    keys = [b"", b"k" * 200, b"k" * 20_000, b"k" * 20_000 + b"a", b"l"]
    blocks = cut(keys)
    content, rows = block(blocks, 0)
    assert entry_keys(blocks, scan_blocks(blocks)).to_pylist() == keys
    searched = SearchBlock(content, rows)
    for key in keys:
        found = searched.find(key)
        assert found is not None
        assert content[found.begin : found.end] == key[::-1]


@every_way
@pytest.mark.parametrize(
    ("keys", "row"), [([b"a", b"a"], 1), ([b"b", b"ba", b"b"], 2), ([b"a", b"c", b"b"], 2), ([b"", b""], 1)]
)
def test_keys_that_do_not_ascend_are_refused(way: str, keys: list[bytes], row: int) -> None:
    """An equal or lesser key is an error that names its row."""
    with looped(way), pytest.raises(InvalidInputError) as caught:
        cut(keys)
    assert caught.value.context["row"] == row


@every_way
@no_deadline
@given(st.binary(max_size=60), st.integers(1, 40), st.binary(max_size=3))
def test_any_bytes_are_a_block_or_refused(way: str, content: bytes, rows: int, key: bytes) -> None:
    """Bytes from anywhere that are no block of so many rows are a BlockError, never a crash."""
    content += rows.to_bytes(4, "little")
    blocks = Blocks(
        data=np.frombuffer(content, np.uint8),
        begins=np.array([0, len(content)]),
        firsts=np.array([0, rows]),
    )
    with looped(way), pytest.raises(BlockError):
        entry_keys(blocks, scan_blocks(blocks))
    try:
        found = SearchBlock(content, rows).find(key)
    except BlockError:
        return
    assert found is None or 0 <= found.begin <= found.end <= len(content)


@every_way
@no_deadline
@given(KEYS, st.data())
def test_a_changed_byte_is_a_sound_block_or_refused(way: str, keys: list[bytes], data: st.DataObject) -> None:
    """A block with a byte changed has ascending keys within its bounds, or is a BlockError."""
    blocks = cut(keys)
    raw = bytearray(blocks.data.tobytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    changed = Blocks(data=np.frombuffer(bytes(raw), np.uint8), begins=blocks.begins, firsts=blocks.firsts)
    try:
        with looped(way):
            entries = scan_blocks(changed)
            found = entry_keys(changed, entries).to_pylist()
    except BlockError:
        return
    assert found == sorted(set(found))
    assert len(found) == len(keys)
    assert (entries.values <= entries.ends).all()
    assert int(entries.ends.max()) <= len(raw)
