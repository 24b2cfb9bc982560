"""Bombs: a few bytes that say they are many. Each decoder has a bound, and keeps to it in memory too."""

from __future__ import annotations

import gzip
import json
import struct
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

from lakehouse.errors import FormatError
from lakehouse.format.index.tantivy_directory import TantivyDirectory
from lakehouse.format.metadata.manifest import decode_manifest
from lakehouse.format.metadata.name_pointer import decode_pointer
from lakehouse.format.metadata.snapshot import decode_snapshot
from lakehouse.format.metadata.wal_segment import SegmentHeader, WalBatch, decode_segment, encode_segment
from lakehouse.format.puffin.codec import compress_blob, decompress_blob
from lakehouse.format.puffin.footer import PuffinFooter
from lakehouse.format.puffin.lz4_frame import compress_lz4
from lakehouse.format.schema.schema_object import decode_schema
from lakehouse.format.sstable.frame import BlockType, open_block, seal_block
from lakehouse.format.sstable.meta import FileMeta
from lakehouse.index.greptime.manifest import fold_manifest, plan_manifest
from lakehouse.index.puffin.reader import PuffinReader
from lakehouse.testing import memory_store
from tests.kit.crafted_runs import claimed_dictionary, claimed_page, read_run, sealed_run
from tests.kit.memory_pools import counted_pool
from tests.kit.table_samples import TABLE

_SCALE = 1 if settings().max_examples <= 100 else 4
"""Bombs and their bounds are larger where counter-examples are looked for."""
_MIB = _SCALE << 20
SEGMENT = SegmentHeader(table=TABLE, number=1, epoch=1, token="0" * 32, time_ms=0, schema_id=0)
ALLOWED = 40 * _MIB
"""What a decoder may take for a bomb: the longest text it reads, and room for the values that it allows."""


def many(piece: bytes, size: int = 6 * _MIB) -> bytes:
    """A JSON list of so many bytes."""
    return b"[" + piece * (size // len(piece)) + b"0]"


def footer(payload: bytes, *, lz4: bool) -> bytes:
    """A puffin file with that payload for a footer."""
    stored = compress_lz4(payload, finished=False) if lz4 else payload
    return b"PFA1PFA1" + stored + struct.pack("<iI4s", len(stored), int(lz4), b"PFA1")


def parse_puffin(data: bytes) -> Any:
    """Its footer."""
    return PuffinFooter.parse(data, len(data), max_bytes=8 * _MIB)


def sealed(members: bytes) -> bytes:
    """A sealed object of these members."""
    body = b'{"format":1,' + members
    return body + b',"crc32c":"%08x"}' % google_crc32c.value(body)


def manifest(rows: int, text: str) -> bytes:
    """A manifest of that many entries with the same long path, which Parquet stores once."""
    sink = pa.BufferOutputStream()
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    table = pa.table({"path": paths}).replace_schema_metadata(
        {"lakehouse.format": "1", "lakehouse.table": str(TABLE)}
    )
    pq.write_table(table, sink, compression="zstd", store_schema=False, dictionary_pagesize_limit=8 << 20)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_manifest(data: bytes) -> Any:
    """Its entries."""
    return decode_manifest(data, key="m", table=TABLE, checksum=google_crc32c.value(data))


def fold(data: bytes) -> Any:
    """The state of a region whose only delta is this."""
    name = f"manifest/{0:020}.json.gz"
    return fold_manifest(plan_manifest([name]), {name: data}, max_bytes=16 * _MIB)


def segment(rows: pa.Table, codec: str) -> bytes:
    """A segment of the log with these rows."""
    return encode_segment(SEGMENT, [WalBatch(rows=rows)], codec=codec)


def lying_segment(codec: str) -> bytes:
    """A segment of a few bytes one of whose buffers says that it becomes a terabyte."""
    rows = pa.table({"a": pa.array([7] * 1000, pa.int64())})
    data = segment(rows, codec)
    says = struct.pack("<q", 8 * 1000)
    assert data.count(says) == 1
    at = 80 + 4
    head = 24
    body = bytearray(data[at:].replace(says, struct.pack("<q", 1 << 40)))
    crc = google_crc32c.extend(google_crc32c.value(bytes(body[: head - 4])), bytes(body[head:]))
    struct.pack_into("<I", body, head - 4, crc)
    return data[:at] + bytes(body)


def repeated_text(kind: pa.DataType, *, listed: bool = False) -> bytes:
    """A Parquet run that says a value of a MiB once, and that all its rows have it."""
    count = 131_072
    value = pa.array(["x" * (1 << 20)]).cast(kind)
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), value)
    if listed:
        values = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values)
    return sealed_run(pa.table([values], ["a"]), compression="zstd", dictionary_pagesize_limit=8 << 20)


def read_segment(data: bytes) -> Any:
    """Its rows, of 16 MiB at most."""
    return decode_segment(data, key="w", table=TABLE, number=1, rows_bytes_max=16 * _MIB)


BOMBS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "puffin, lists": (parse_puffin, lambda: footer(many(b"[],"), lz4=True)),
    "puffin, objects": (parse_puffin, lambda: footer(many(b'{"a":{}},'), lz4=True)),
    "puffin, numbers": (parse_puffin, lambda: footer(many(b"0,"), lz4=False)),
    "puffin, beyond its limit": (parse_puffin, lambda: footer(bytes(48 * _MIB), lz4=True)),
    "puffin, one long text": (
        parse_puffin,
        lambda: footer(b'{"blobs":"' + b"x" * (6 * _MIB) + b'"}', lz4=True),
    ),
    "puffin, deep": (parse_puffin, lambda: footer(b"[" * 200_000, lz4=True)),
    "snapshot": (lambda data: decode_snapshot(data, key="s"), lambda: sealed(b'"id":' + many(b"[],"))),
    "snapshot, a long text for a number": (
        lambda data: decode_snapshot(data, key="s"),
        lambda: sealed(b'"id":"' + b"x" * (6 * _MIB) + b'"'),
    ),
    "schema": (lambda data: decode_schema(data, key="s"), lambda: sealed(b'"id":' + many(b"{},"))),
    "schema, deep": (
        lambda data: decode_schema(data, key="s"),
        lambda: sealed(
            b'"id":0,"fields":[' + b'{"id":1,"name":"a","type":{"list":' * 400 + b"0" + b"}}" * 400 + b"]"
        ),
    ),
    "pointer": (lambda data: decode_pointer(data, key="p"), lambda: sealed(b'"name":' + many(b"0,"))),
    "meta block": (lambda data: FileMeta.parse(data, offset=0), lambda: many(b"[],")),
    "tantivy directory": (TantivyDirectory.decode, lambda: b'{"files":' + many(b"{},") + b"}"),
    "manifest of GreptimeDB": (fold, lambda: gzip.compress(many(b"{},", 12 * _MIB), 1)),
    "manifest of GreptimeDB, beyond its limit": (fold, lambda: gzip.compress(bytes(48 * _MIB), 1)),
    "blob, lz4": (
        lambda data: decompress_blob(data, "lz4", max_bytes=4 * _MIB),
        lambda: bytes(compress_blob(bytes(64 * _MIB), "lz4")),
    ),
    "blob, zstd": (
        lambda data: decompress_blob(data, "zstd", max_bytes=4 * _MIB),
        lambda: bytes(compress_blob(bytes(64 * _MIB), "zstd")),
    ),
    "manifest, a path that many entries share": (read_manifest, lambda: manifest(20_000, "x" * (1 << 20))),
    "run, a text that all rows have": (read_run, lambda: repeated_text(pa.string())),
    "run, a binary that all rows have": (read_run, lambda: repeated_text(pa.binary())),
    "run, a text that all of a list are": (read_run, lambda: repeated_text(pa.string(), listed=True)),
    "run, a page of 2 GiB": (read_run, lambda: claimed_page((1 << 31) - 1, 0)),
    "run, a page of 2 GiB that zstd could make": (read_run, lambda: claimed_page((1 << 31) - 1, 1 << 17)),
    "run, a page of more values than rows": (read_run, lambda: claimed_page(8_000, 0, values=(1 << 31) - 1)),
    "run, a dictionary of 2^31 values": (read_run, claimed_dictionary),
    "segment, zstd": (read_segment, lambda: segment(pa.table({"a": np.zeros(8 * _MIB)}), "zstd")),
    "segment, lz4": (read_segment, lambda: segment(pa.table({"a": np.zeros(8 * _MIB)}), "lz4")),
    "segment, rows without bytes": (read_segment, lambda: segment(pa.table({"a": pa.nulls(1 << 30)}), "lz4")),
    "segment, a buffer that says a terabyte, zstd": (read_segment, lambda: lying_segment("zstd")),
    "segment, a buffer that says a terabyte, lz4": (read_segment, lambda: lying_segment("lz4")),
    "block, more than it says": (
        lambda data: open_block(data, BlockType.META, offset=0),
        lambda: _lying_block(),
    ),
}


def _lying_block() -> bytes:
    """A block whose payload decompresses to far more than its head says."""
    block = seal_block(BlockType.META, bytes(48 * _MIB), "zstd")
    head = bytearray(block[:-4])
    struct.pack_into("<I", head, 2, len(block))
    return bytes(head) + struct.pack("<I", google_crc32c.value(bytes(head)))


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_a_short_error_in_bounded_memory(name: str) -> None:
    """A decoder refuses a bomb with a short error, and takes no more memory than its bound."""
    decode, make = BOMBS[name]
    data = make()
    tracemalloc.start()
    try:
        with counted_pool() as counted, pytest.raises(FormatError) as raised:
            decode(data)
        peak = tracemalloc.get_traced_memory()[1] + (counted.max_memory() or 0)
    finally:
        tracemalloc.stop()
    assert peak < (_MIB if decode is read_segment else 1_400 << 20 if decode is read_manifest else ALLOWED)
    assert len(raised.value.message) < 2_000
    assert len(repr(raised.value)) < 4_000


def test_a_footer_that_is_long_or_may_become_so_is_known_by_its_end() -> None:
    """What an event loop should not parse is told by the last bytes, before anything is decoded."""
    assert PuffinFooter.takes_long(footer(bytes(2 * _MIB), lz4=True))
    assert PuffinFooter.takes_long(footer(bytes(2 * _MIB), lz4=False))
    assert not PuffinFooter.takes_long(footer(json.dumps({"blobs": []}).encode(), lz4=False))
    assert not PuffinFooter.takes_long(b"")


async def test_a_long_footer_is_parsed_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A footer that may become long is parsed in another thread, a short one in the loop's."""
    threads: list[bool] = []
    parse = PuffinFooter.parse

    def watched(tail: bytes, file_size: int, **about: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return parse(tail, file_size, **about)

    monkeypatch.setattr(PuffinFooter, "parse", watched)
    store = memory_store()
    await store.put("bomb.puffin", footer(many(b"[],"), lz4=True))
    await store.put("short.puffin", footer(b'{"blobs":[]}', lz4=False))
    with pytest.raises(FormatError, match=r"bomb\.puffin.*more than 250,000 values"):
        await PuffinReader(store, "bomb.puffin").footer()
    assert not threads[-1]
    await PuffinReader(store, "short.puffin").footer()
    assert threads[-1]
