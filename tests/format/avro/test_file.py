"""Avro files: headers, blocks, and entries as tables."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse.errors import CorruptionError, FormatError, InvalidInputError
from lakehouse.format.avro import AvroFile, compile_program
from lakehouse.format.avro.loops import LOOPS
from lakehouse.kernels.compiled import numba_available
from tests.kit.avro_files import SYNC, avro_file, encode_number, packed, typed_entries

_SCHEMA = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": ["null", {"type": "map", "values": "int"}]},
        {"name": "flag", "type": "boolean"},
        {"name": "word", "type": {"type": "enum", "name": "word", "symbols": ["a", "b"]}},
        {"name": "x", "type": "double"},
    ],
}


def _entry(number: int) -> dict[str, Any]:
    return {
        "id": number * 1000,
        "name": None if number % 3 == 0 else f"name {number}",
        "tags": ["a", None, "bc"][: number % 4],
        "counts": None if number % 4 == 0 else [(f"k{at}", at - 2) for at in range(number % 5)],
        "flag": number % 2 == 0,
        "word": "ab"[number % 2],
        "x": number / 2,
    }


_ENTRIES = [_entry(number) for number in range(9)]
_BLOCKS = [_ENTRIES[:4], [], _ENTRIES[4:]]
_LOADED = [
    pytest.param(False, id="interpreted"),
    pytest.param(True, id="compiled", marks=pytest.mark.skipif(not numba_available(), reason="no numba")),
]


@pytest.fixture(params=_LOADED)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the loops compiled, or interprets them, whatever the work."""
    choose = type(LOOPS).compiled_for
    monkeypatch.setattr(
        type(LOOPS),
        "compiled_for",
        lambda loops, work, *, wanted=None: choose(loops, work, wanted=request.param),
    )


def _table(data: bytes) -> pa.Table:
    return AvroFile.parse(data, key="a.avro").to_arrow()


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_entries_come_back(codec: str) -> None:
    """A file of any codec is read as the entries it was made of."""
    assert _table(avro_file(_SCHEMA, _BLOCKS, codec)).to_pylist() == _ENTRIES


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_views_of_bytes_are_read(codec: str) -> None:
    """A file may lie in other bytes, which are not copied first."""
    data = avro_file(_SCHEMA, _BLOCKS, codec)
    file = AvroFile.parse(memoryview(b"before" + data + b"behind")[6:-6], key="a.avro")
    assert file.to_arrow().to_pylist() == _ENTRIES


@pytest.mark.usefixtures("_way")
def test_blocks_of_arrays_that_say_their_size_are_read() -> None:
    """Arrays and maps in many blocks, each with its size, are read, and passed over, as others."""
    data = avro_file(_SCHEMA, _BLOCKS, sized_blocks=True)
    assert _table(data).to_pylist() == _ENTRIES
    only = AvroFile.parse(data, key="a.avro").to_arrow(["x", "id"])
    assert only.to_pylist() == [{"id": one["id"], "x": one["x"]} for one in _ENTRIES]


@given(typed_entries())
def test_every_type_comes_back(made: tuple[Any, list[Any]]) -> None:
    """Entries of any schema are read as they were written, in one block or many, sized or not."""
    schema, entries = made
    for blocks in ([entries], [[entry] for entry in entries]):
        for sized in (False, True):
            data = avro_file(schema, blocks, "null", sized_blocks=sized)
            assert _table(data).to_pylist() == entries


@given(typed_entries())
def test_columns_are_read_without_the_others(made: tuple[Any, list[Any]]) -> None:
    """A column is the same when it is read alone, whatever stands around it."""
    schema, entries = made
    file = AvroFile.parse(avro_file(schema, [entries]), key="a.avro")
    for field in schema["fields"]:
        name = field["name"]
        assert file.to_arrow([name]).to_pylist() == [{name: entry[name]} for entry in entries]


@pytest.mark.skipif(not numba_available(), reason="numba is not installed")
@given(typed_entries())
def test_compiled_loops_fill_the_same_streams(made: tuple[Any, list[Any]]) -> None:
    """A walk fills the same streams compiled and interpreted."""
    schema, entries = made
    file = AvroFile.parse(avro_file(schema, [entries]), key="a.avro")
    program = compile_program(file.schema)
    found = []
    for wanted in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            choose = type(LOOPS).compiled_for
            patch.setattr(
                type(LOOPS),
                "compiled_for",
                lambda loops, work, wanted=wanted, choose=choose: choose(loops, work, wanted=wanted),
            )
            streams = file.streams(program)
        found.append([streams.of(stream).tolist() for stream in range(program.streams)])
    assert found[0] == found[1]


def test_blocks_that_say_their_size_are_passed_over_unread() -> None:
    """An array that nobody wants is passed over by the sizes of its blocks, whatever they hold."""
    items = {"type": "array", "items": {"type": "array", "items": "long"}}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": items}, {"name": "id", "type": "int"}],
    }
    content = encode_number(-3) + encode_number(4) + b"\xff" * 4 + b"\0" + encode_number(7)
    data = avro_file(schema, [], "null") + encode_number(1) + encode_number(len(content)) + content + SYNC
    file = AvroFile.parse(data, key="a.avro")
    assert file.to_arrow(["id"]).to_pydict() == {"id": [7]}
    with pytest.raises(CorruptionError, match=r"a\.avro is damaged"):
        file.to_arrow()


def test_unions_of_many_types_are_passed_over() -> None:
    """A field of a union of several types is passed over where it is not wanted, else an error."""
    fields = [{"name": "any", "type": ["null", "int", "string"]}, {"name": "id", "type": "long"}]
    schema = {"type": "record", "name": "r", "fields": fields}
    content = b"\x00\x02" + b"\x02\x08\x04" + b"\x04\x02a\x06"
    data = avro_file(schema, [], "null") + encode_number(3) + encode_number(len(content)) + content + SYNC
    file = AvroFile.parse(data, key="a.avro")
    assert file.to_arrow(["id"]).to_pydict() == {"id": [1, 2, 3]}
    with pytest.raises(FormatError, match="union of null, int, string"):
        file.to_arrow()


def test_a_union_of_one_type_has_no_other() -> None:
    """A union of one type is read as that type, and another branch is damage."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["int"]}]}
    assert _table(avro_file(schema, [[{"x": 5}]])).to_pydict() == {"x": [5]}
    with pytest.raises(CorruptionError, match="no branch"):
        _table(avro_file(schema, [], "null") + b"\x02\x04\x02\x0a" + SYNC)


def test_an_unknown_codec_is_named() -> None:
    """A codec that cannot be read is an error with its name."""
    with pytest.raises(FormatError, match=r"a\.avro is compressed with 'lzw'"):
        AvroFile.parse(avro_file(_SCHEMA, [], metadata={"avro.codec": b"lzw"}), key="a.avro")


def test_a_file_without_a_codec_is_not_compressed() -> None:
    """A header without a codec means that blocks are as they are."""
    data = avro_file(_SCHEMA, _BLOCKS, "null", metadata={"avro.codec": b""})
    assert _table(data).num_rows == len(_ENTRIES)


def test_what_is_no_avro_file_is_refused() -> None:
    """Bytes that do not begin as an Avro file does are no damage but another format."""
    with pytest.raises(FormatError, match="no Avro file") as caught:
        AvroFile.parse(b"PAR1....", key="a.avro")
    assert not isinstance(caught.value, CorruptionError)


def test_columns_that_are_not_there_are_refused() -> None:
    """A column of an unknown name is an error that lists those that there are."""
    with pytest.raises(InvalidInputError, match="no column 'unheard'"):
        AvroFile.parse(avro_file(_SCHEMA, []), key="a.avro").to_arrow(["unheard"])


def test_entries_must_be_records_to_be_a_table() -> None:
    """A file of numbers is no table."""
    with pytest.raises(FormatError, match="entries of type int"):
        _table(avro_file("int", [[1, 2]]))


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_file_that_is_cut_off_is_refused(codec: str) -> None:
    """A file without its end is damaged, or has fewer blocks when it is cut between two."""
    data = avro_file(_SCHEMA, _BLOCKS, codec)
    rows = set()
    for size in range(len(data)):
        try:
            rows.add(_table(data[:size]).num_rows)
        except CorruptionError:
            assert size >= 4
        except FormatError:
            assert size < 4
    assert rows == {0, 4}


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("sized", [False, True])
def test_damage_ends_in_an_error_or_an_answer(sized: bool) -> None:
    """Whatever bytes of the blocks are overwritten, it ends in a CorruptionError or in a table."""
    data = avro_file(_SCHEMA, _BLOCKS, "null", sized_blocks=sized)
    first = len(avro_file(_SCHEMA, [], "null"))
    dice = random.Random(7)
    ends = {True: 0, False: 0}
    for at in range(first, len(data)):
        for value in {0, 1, 2, 127, 128, 255, data[at] ^ 1 << dice.randrange(8)}:
            damaged = bytearray(data)
            damaged[at] = value
            try:
                _table(bytes(damaged)).validate(full=True)
                ends[True] += 1
            except CorruptionError as error:
                assert "a.avro" in str(error)  # noqa: PT017
                ends[False] += 1
    assert min(ends.values()) > 100


def test_a_damaged_header_is_an_error_or_another_file() -> None:
    """Whatever bit of the header is flipped, nothing but an error of the format comes of it."""
    data = avro_file(_SCHEMA, _BLOCKS, "null")
    first = len(avro_file(_SCHEMA, [], "null"))
    refused = 0
    for at in range(8 * first):
        damaged = bytearray(data)
        damaged[at // 8] ^= 1 << at % 8
        try:
            _table(bytes(damaged))
        except FormatError:
            refused += 1
    assert refused > 4 * first


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize(
    ("schema", "content", "entries", "why"),
    [
        ({"type": "array", "items": "null"}, encode_number(1 << 62) + b"\0", 1, "more items"),
        ({"type": "array", "items": "int"}, encode_number(1 << 62) + b"\0", 1, "more items"),
        (
            {"type": "array", "items": "int"},
            encode_number(-(1 << 63)) + encode_number(0) + b"\0",
            1,
            "more items",
        ),
        ({"type": "array", "items": "int"}, encode_number(-1) + encode_number(1 << 62), 1, "length"),
        ("string", encode_number(1 << 62), 1, "length"),
        ("string", encode_number(-1), 1, "length"),
        ("long", b"\xff" * 9 + b"\x02", 1, "64 bits"),
        ("long", b"\xff" * 11, 1, "64 bits"),
        ("int", encode_number(1 << 31), 1, "32 bits"),
        ("boolean", b"\x02", 1, "boolean"),
        ("double", bytes(7), 1, "runs out of its block"),
        ("boolean", b"", 1, "runs out of its block"),
        (["null", "int"], b"\x04\x02", 1, "no branch"),
        (["int", "null"], b"\x01\x02", 1, "no branch"),
        ("null", b"", 1 << 62, "more items"),
        ("int", b"\0", 1 << 62, "more items"),
        ("int", b"\0\0", 1, "more bytes"),
    ],
)
def test_impossible_numbers_are_refused(schema: Any, content: bytes, entries: int, why: str) -> None:
    """Counts, lengths and numbers that cannot be end the read at once."""
    whole = {"type": "record", "name": "r", "fields": [{"name": "x", "type": schema}]}
    block = encode_number(entries) + encode_number(len(content)) + content + SYNC
    with pytest.raises(CorruptionError, match=why):
        _table(avro_file(whole, [], "null") + block)


def test_many_nulls_of_wide_records_take_bounded_memory() -> None:
    """A byte that stands for a record of very many fields does not take memory without end."""
    leaves = [{"name": f"x{at}", "type": "long"} for at in range(30_000)]
    inner = {"type": "record", "name": "wide", "fields": leaves}
    schema = {"type": "record", "name": "r", "fields": [{"name": "w", "type": ["null", inner]}]}
    content = bytes(100_000)
    block = encode_number(100_000) + encode_number(len(content)) + content + SYNC
    with pytest.raises(CorruptionError, match="bytes in memory"):
        _table(avro_file(schema, [], "null") + block)


def test_names_used_over_and_over_are_refused() -> None:
    """A schema whose names stand for names stands for no more instructions than are allowed."""
    fields: list[Any] = [
        {"name": "a", "type": {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "int"}]}}
    ]
    for depth in range(1, 30):
        twice = [{"name": name, "type": f"r{depth - 1}"} for name in "ab"]
        fields.append({"name": f"f{depth}", "type": {"type": "record", "name": f"r{depth}", "fields": twice}})
    with pytest.raises(FormatError, match="over and over"):
        _table(avro_file({"type": "record", "name": "r", "fields": fields}, []))


def test_a_block_whose_sync_marker_is_another_is_refused() -> None:
    """A block must end with the marker of the header."""
    data = bytearray(avro_file(_SCHEMA, _BLOCKS))
    data[-1] ^= 1
    with pytest.raises(CorruptionError, match="sync marker"):
        AvroFile.parse(bytes(data), key="a.avro")


def test_entries_without_columns_are_counted() -> None:
    """A table of no columns has as many rows as there are entries."""
    file = AvroFile.parse(avro_file(_SCHEMA, _BLOCKS), key="a.avro")
    assert (file.to_arrow([]).num_rows, file.to_arrow([]).num_columns) == (len(_ENTRIES), 0)


def test_many_nulls_of_a_long_fixed_take_bounded_memory() -> None:
    """A byte that stands for a fixed of very many bytes does not take memory without end."""
    fixed = {"type": "fixed", "name": "f", "size": 50_000}
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", fixed]}]}
    content = bytes(100_000)
    block = encode_number(100_000) + encode_number(len(content)) + content + SYNC
    with pytest.raises(CorruptionError, match="bytes in memory"):
        _table(avro_file(schema, [], "null") + block)


def test_batches_hold_some_blocks_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file is read some blocks at a time, and each batch has whole blocks."""
    monkeypatch.setattr("lakehouse.format.avro.file._BATCH_BYTES", 100)
    blocks = [_ENTRIES] * 5
    file = AvroFile.parse(avro_file(_SCHEMA, blocks), key="a.avro")
    assert [batch.num_rows for batch in file.batches()] == [len(_ENTRIES)] * 5


def test_a_batch_has_a_limit() -> None:
    """Blocks that become more than is allowed are refused."""
    file = AvroFile.parse(avro_file(_SCHEMA, _BLOCKS), key="a.avro")
    with pytest.raises(CorruptionError, match="decompress to more"):
        list(file.batches(bytes_max=10))


@pytest.mark.usefixtures("_way")
def test_lists_of_any_length_find_room() -> None:
    """Lists that are longer than was foreseen are read whole."""
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "x", "type": {"type": "array", "items": "long"}}],
    }
    entries = [{"x": list(range(length))} for length in (0, 1, 5_000, 3, 700, 20_000)]
    assert _table(avro_file(schema, [entries[:3], entries[3:]])).to_pylist() == entries


def test_the_number_of_entries_is_known_before_they_are_read() -> None:
    """The blocks say how many entries there are."""
    data = avro_file(_SCHEMA, _BLOCKS, "null")
    file = AvroFile.parse(data, key="a.avro")
    assert (file.entries, file.blocks.dtype) == (len(_ENTRIES), np.int64)
    assert packed(b"x", "null") == b"x"
