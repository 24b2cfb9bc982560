"""Segments of the write-ahead log: bytes and rows."""

from __future__ import annotations

import dataclasses
import uuid

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import CorruptionError, FormatError, UnsupportedVersionError
from lakehouse.format.metadata.file_entry import KIND_COLUMN, RowKind
from lakehouse.format.metadata.wal_segment import (
    WAL_CODECS,
    SegmentHeader,
    WalBatch,
    WalSegment,
    decode_segment,
    encode_segment,
)
from lakehouse.format.schema.types import Field, Primitive, StringType, arrow_field
from tests.kit.blob_samples import flipped, spec_bytes
from tests.kit.table_samples import TABLE, TOKEN
from tests.kit.type_strategies import column_sets, values_of

KIND = pa.field(KIND_COLUMN, pa.int8(), nullable=False)
HEADER = SegmentHeader(
    table=TABLE,
    number=7,
    epoch=3,
    token=TOKEN,
    time_ms=1_760_000_000_000,
    schema_id=0,
    writers={"loader-1": 41},
)
COLUMNS = (
    Field(id=1, name="id", type=Primitive("int64"), required=True),
    Field(id=2, name="s", type=StringType()),
)
ROWS = pa.table(
    [pa.array([300, 2]), pa.array(["ab", None]), pa.array([0, 2], pa.int8())],
    schema=pa.schema([*(arrow_field(one).with_nullable(True) for one in COLUMNS), KIND]),
)
BATCH = WalBatch(
    rows=ROWS, min_key=bytes.fromhex("8000000000000002"), max_key=bytes.fromhex("800000000000012c")
)


def decoded(data: bytes, *, number: int = 7, table: uuid.UUID = TABLE) -> WalSegment:
    """The segment in some bytes."""
    return decode_segment(data, key="the/key", table=table, number=number)


# --- the specification ----------------------------------------------------------------


def test_the_fence_of_the_specification_is_read_and_written() -> None:
    """The example is the fence that stands above it, and that fence is the example, byte for byte."""
    data = spec_bytes("wal.md", "fence")
    assert decoded(data) == WalSegment(header=HEADER)
    assert encode_segment(HEADER) == data


def test_the_segment_of_the_specification_is_read() -> None:
    """The example holds the rows that stand above it, with their kinds, field ids and keys."""
    data = spec_bytes("wal.md", "segment")
    found = decoded(data, number=8)
    assert found.header == dataclasses.replace(HEADER, number=8, writers={})
    (batch,) = found.batches
    assert batch.rows.equals(ROWS)
    assert batch.rows.schema.equals(ROWS.schema, check_metadata=True)
    assert (batch.min_key, batch.max_key) == (BATCH.min_key, BATCH.max_key)


def test_what_is_written_is_framed_as_the_specification_says() -> None:
    """Header, lengths and keys stand where the example has them; the Arrow stream is aligned."""
    data = encode_segment(dataclasses.replace(HEADER, number=8, writers={}), [BATCH])
    example = spec_bytes("wal.md", "segment")
    sizes = slice(84, 88)
    assert data[:84] == example[:84]
    assert data[88:104] == example[88:104]
    assert data[108:128] == example[108:128]
    assert int.from_bytes(data[sizes], "little") == len(data) - 128
    with pa.ipc.open_stream(data[128:]) as stream:
        assert stream.read_all().equals(ROWS)


# --- round trips ----------------------------------------------------------------------


@st.composite
def batches(draw: st.DrawFn) -> WalBatch:
    """Rows of any columns, some deleted perhaps."""
    fields = draw(column_sets())
    count = draw(st.integers(0, 4))
    arrow = pa.schema([arrow_field(one).with_nullable(True) for one in fields])
    columns = [
        pa.array(draw(st.lists(values_of(one.type), min_size=count, max_size=count)), at.type)
        for one, at in zip(fields, arrow, strict=True)
    ]
    rows = pa.Table.from_arrays(columns, schema=arrow)
    if draw(st.booleans()):
        kinds = draw(st.lists(st.sampled_from(RowKind), min_size=count, max_size=count))
        rows = rows.append_column(KIND, pa.array([int(one) for one in kinds], pa.int8()))
    keys = draw(st.none() | st.tuples(st.binary(max_size=20), st.binary(max_size=20)))
    return WalBatch(rows=rows, min_key=keys and keys[0], max_key=keys and keys[1])


headers = st.builds(
    SegmentHeader,
    table=st.uuids(),
    number=st.integers(1, 2**53),
    epoch=st.integers(0, 2**53),
    token=st.binary(min_size=16, max_size=16).map(bytes.hex),
    time_ms=st.integers(0, 253_402_300_799_999),
    schema_id=st.integers(0, 2**31 - 1),
    writers=st.dictionaries(st.text(min_size=1, max_size=8), st.integers(0, 2**63 - 1), max_size=4),
)


@settings(deadline=None)
@given(headers, st.lists(batches(), max_size=3), st.sampled_from(WAL_CODECS))
def test_a_segment_survives_its_bytes(header: SegmentHeader, some: list[WalBatch], codec: str) -> None:
    """Header, rows, kinds, field ids and keys come back as they went in, under every codec."""
    found = decoded(encode_segment(header, some, codec=codec), number=header.number, table=header.table)
    assert found.header == header
    assert list(found.header.writers) == list(header.writers)
    assert found.is_fence == (not some)
    assert len(found.batches) == len(some)
    for one, other in zip(found.batches, some, strict=True):
        assert one.rows.schema.equals(other.rows.schema, check_metadata=True)
        assert one.rows.to_pylist() == other.rows.to_pylist()
        assert (one.min_key, one.max_key) == (other.min_key, other.max_key)


@pytest.mark.parametrize("codec", WAL_CODECS)
def test_the_same_segment_has_the_same_bytes(codec: str) -> None:
    """A segment that is sent again is recognised by its bytes where the store keeps no tokens."""
    assert encode_segment(HEADER, [BATCH], codec=codec) == encode_segment(HEADER, [BATCH], codec=codec)


def test_rows_come_back_without_a_copy() -> None:
    """Without a codec the rows are the bytes of the segment: aligned, and read where they are."""
    data = encode_segment(HEADER, [BATCH, BATCH])
    before = pa.total_allocated_bytes()
    segment = decoded(data)
    assert pa.total_allocated_bytes() - before < 1_000
    for batch in segment.batches:
        batch.rows.validate(full=True)
        buffer = batch.rows.column("id").chunk(0).buffers()[1]
        assert buffer is not None
        assert buffer.address % 8 == pa.py_buffer(data).address % 8


# --- damage ---------------------------------------------------------------------------

SAMPLES = {
    "fence": encode_segment(HEADER),
    "plain": encode_segment(HEADER, [BATCH]),
    "two batches, lz4": encode_segment(
        HEADER, [BATCH, dataclasses.replace(BATCH, min_key=None, max_key=None)], codec="lz4"
    ),
}


@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)
def test_every_truncation_is_noticed(data: bytes) -> None:
    """A segment that ends anywhere before its end, or behind it, is an error that names the object."""
    assert decoded(data)
    for size in range(len(data)):
        with pytest.raises(CorruptionError, match="the/key"):
            decoded(data[:size])
    with pytest.raises(CorruptionError, match="1 bytes behind its last batch"):
        decoded(data + b"\0")


@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)
def test_every_flipped_bit_is_noticed(data: bytes) -> None:
    """A segment with any bit turned over is an error that names the object."""
    for bit in range(8 * len(data)):
        with pytest.raises(FormatError, match="the/key"):
            decoded(flipped(data, bit))


def test_a_damaged_batch_says_where_it_begins() -> None:
    """The error about a batch names the byte at which it begins."""
    data = SAMPLES["plain"]
    with pytest.raises(CorruptionError, match="in the batch at byte 102") as caught:
        decoded(flipped(data, 8 * len(data) - 1))
    assert caught.value.context["offset"] == 102


def test_a_segment_in_anothers_place_is_noticed() -> None:
    """A segment under another number, or in another table's directory, is an error that names both."""
    data = SAMPLES["plain"]
    with pytest.raises(CorruptionError, match=r"segment 7 .* in the place of segment 8"):
        decoded(data, number=8)
    with pytest.raises(CorruptionError, match=str(TABLE)):
        decoded(data, table=uuid.UUID(int=5))


def test_segments_of_version_1_are_read() -> None:
    """What writers wrote before they announced their epochs has the same layout, and is read."""
    data = bytearray(SAMPLES["plain"])
    data[4] = 1
    end = int.from_bytes(data[8:12], "little") - 4
    data[end : end + 4] = google_crc32c.value(bytes(data[:end])).to_bytes(4, "little")
    assert decoded(bytes(data)).batches == decoded(SAMPLES["plain"]).batches


def test_a_later_version_asks_for_an_upgrade() -> None:
    """A segment of a version that this release does not know says so, whatever else has changed in it."""
    data = bytearray(SAMPLES["plain"])
    data[4] = 3
    with pytest.raises(UnsupportedVersionError, match="Upgrade"):
        decoded(bytes(data))


@pytest.mark.parametrize("body", [b"", b"no stream at all", b"\xff\xff\xff\xff\x10\0\0\0"])
def test_a_batch_that_is_no_arrow_stream_is_an_error(body: bytes) -> None:
    """A sound checksum over bytes that Arrow cannot read is an error, not a crash."""
    data = bytearray(encode_segment(HEADER, [WalBatch(rows=ROWS)])[:102])
    fixed = b"".join(number.to_bytes(4, "little") for number in (len(body), 2, 0xFFFFFFFF, 0xFFFFFFFF, 0))
    data += fixed + google_crc32c.value(fixed + body).to_bytes(4, "little") + body
    with pytest.raises(CorruptionError, match="the/key"):
        decoded(bytes(data))


def test_a_batch_with_other_than_its_number_of_rows_is_an_error() -> None:
    """The number of rows in a batch's head is that of its stream."""
    data = bytearray(encode_segment(HEADER, [WalBatch(rows=ROWS)]))
    begin = 102
    data[begin + 4] = 3
    tail = bytes(data[begin : begin + 20]) + bytes(data[begin + 24 :])
    data[begin + 20 : begin + 24] = google_crc32c.value(tail).to_bytes(4, "little")
    with pytest.raises(CorruptionError, match="the/key"):
        decoded(bytes(data))


@pytest.mark.parametrize("data", [b"", b"LHWL", b"PAR1" + bytes(200), bytes(500)])
def test_other_bytes_are_no_segment(data: bytes) -> None:
    """What does not begin like a segment, or is shorter than a header, is an error."""
    with pytest.raises(CorruptionError, match="is not a WAL segment"):
        decoded(data)
