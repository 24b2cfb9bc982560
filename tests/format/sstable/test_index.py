"""The index block."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError
from lakehouse.format.sstable.frame import Footer, Handle, Header
from lakehouse.format.sstable.index import BlockIndex, IndexBuilder

KEYS = st.lists(st.binary(max_size=5), min_size=1, max_size=40, unique=True).map(sorted)


def built(keys: list[bytes], cuts: list[int], piece_bytes: int = 100) -> tuple[bytes, Footer]:
    """The index of blocks that begin at these keys, and the footer of such a file."""
    builder = IndexBuilder(piece_bytes)
    bounds = [*sorted({0, *(cut % len(keys) for cut in cuts)}), len(keys)]
    for begin, end in pairwise(bounds):
        stored, raw = 20 + begin, 400 + begin
        builder.add(stored=stored, raw=raw, rows=end - begin, first_key=keys[begin], last_key=keys[end - 1])
    end = builder.data_end
    footer = Footer(meta=Handle(end + 14, 14), index=Handle(end, 14), bloom=Handle(0, 0))
    return builder.build(), footer


@given(KEYS, st.lists(st.integers(0, 1000), max_size=10), st.integers(1, 200))
def test_an_index_parses_to_its_blocks(keys: list[bytes], cuts: list[int], piece_bytes: int) -> None:
    """Blocks stand back to back behind the header, and pieces are neighbouring blocks with their keys."""
    data, footer = built(keys, cuts, piece_bytes)
    index = BlockIndex.parse(data, footer)
    blocks = len(index.raw)
    assert index.offsets[0] == Header.ENCODED_SIZE
    assert index.offsets[-1] == footer.data_end
    assert index.firsts[-1] == len(keys)
    assert [one.begin for one in index.pieces] == [0, *(one.end for one in index.pieces[:-1])]
    assert index.pieces[-1].end == blocks
    for one in index.pieces:
        rows = keys[int(index.firsts[one.begin]) : int(index.firsts[one.end])]
        assert (one.first_key, one.last_key) == (rows[0], rows[-1])
        assert index.offsets[one.end - 1] - index.offsets[one.begin] < piece_bytes


@given(KEYS, st.lists(st.integers(0, 1000), max_size=10))
def test_separators_lead_to_the_block_of_a_key(keys: list[bytes], cuts: list[int]) -> None:
    """The first separator from a key on is that of its block, and none is longer than it has to be."""
    data, footer = built(keys, cuts)
    index = BlockIndex.parse(data, footer)
    for row, key in enumerate(keys):
        block = bisect_left(index.separators, key)
        assert index.firsts[block] <= row < index.firsts[block + 1]
    for separator, first in zip(index.separators, index.firsts[1:-1].tolist(), strict=False):
        last, following = keys[first - 1], keys[first]
        shorter = [following[:size] for size in range(min(len(separator), len(following)))]
        assert not any(last <= one < following for one in shorter)


@given(st.binary(max_size=80))
def test_any_bytes_are_no_index(data: bytes) -> None:
    """Bytes from anywhere are a CorruptionError."""
    _, footer = built([b"a", b"b"], [1])
    with pytest.raises(CorruptionError):
        BlockIndex.parse(data, footer)


@given(KEYS, st.lists(st.integers(0, 1000), max_size=4), st.data())
def test_a_changed_index_is_sound_or_refused(keys: list[bytes], cuts: list[int], data: st.DataObject) -> None:
    """An index with a byte changed still adds up to the file, or is a CorruptionError."""
    raw, footer = built(keys, cuts)
    changed = bytearray(raw)
    changed[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        index = BlockIndex.parse(bytes(changed), footer)
    except CorruptionError:
        return
    assert index.offsets[-1] == footer.data_end
    assert list(index.separators) == sorted(index.separators)
    assert index.pieces[-1].end == len(index.raw)


def test_blocks_have_no_more_rows_than_fit() -> None:
    """A block that says more rows than its bytes can hold is a CorruptionError, not a place for them."""
    data, footer = built([b"a"], [])
    assert len(BlockIndex.parse(data, footer).raw) == 1
    with pytest.raises(CorruptionError, match="not those of the file"):
        BlockIndex.parse(data[:16] + b"\xff\xff\xff\xff" + data[20:], footer)


def test_a_piece_that_needs_much_room_is_refused() -> None:
    """A piece of many blocks that decompress to hundreds of megabytes is a CorruptionError."""
    builder = IndexBuilder(1 << 20)
    for at in range(4):
        builder.add(stored=20, raw=40, rows=1, first_key=bytes([at]), last_key=bytes([at]))
    footer = Footer(
        meta=Handle(builder.data_end + 14, 14), index=Handle(builder.data_end, 14), bloom=Handle(0, 0)
    )
    raw = builder.build()
    assert len(BlockIndex.parse(raw, footer).raw) == 4
    large = (1 << 27).to_bytes(4, "little") * 4
    with pytest.raises(CorruptionError, match="too large"):
        BlockIndex.parse(raw[:24] + large + raw[40:], footer)
