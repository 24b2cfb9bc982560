"""Parquet runs with pages that no writer writes: right checksums and a sealed footer around anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.format.parquet.decode import decode_chunks
from lakehouse.format.parquet.file_footer import MAGIC
from lakehouse.format.parquet.leaf_columns import leaf_count
from lakehouse.format.parquet.run_footer import (
    PIECES_KEY,
    RUN_KEY,
    PieceTable,
    RunFooter,
    RunHead,
    crc32c,
    seal,
)
from lakehouse.kernels.arrays import U8
from lakehouse.kernels.varint import encode_varint

__all__ = [
    "claimed_dictionary",
    "claimed_page",
    "data_page",
    "dictionary_page",
    "read_run",
    "sealed_run",
    "with_chunks",
]


def sealed_run(table: pa.Table, **how: Any) -> bytes:
    """A run of these rows without a key, written by pyarrow in a way of one's own."""
    sink = pa.BufferOutputStream()
    written: list[pq.FileMetaData] = []
    size = how.pop("row_group_size", max(table.num_rows, 1))
    starts = range(0, table.num_rows, size)
    rows = np.array([min(size, table.num_rows - start) for start in starts], np.uint32)
    with pq.ParquetWriter(
        sink, table.schema, store_schema=False, metadata_collector=written, **how
    ) as writer:
        leaves = sum(leaf_count(field.type) for field in table.schema)
        blank = np.zeros((len(rows), leaves), np.uint32)
        flags = np.zeros((len(rows), leaves), np.uint8)
        pieces = PieceTable(rows=rows, sizes=blank, checksums=blank, flags=flags, keys=())
        head = RunHead(schema_id=0, kinds=(table.num_rows, 0, 0))
        writer.add_key_value_metadata({RUN_KEY: head.pack(), PIECES_KEY: pieces.pack()})
        writer.write_table(table, row_group_size=size)
    groups = [written[0].row_group(number) for number in range(len(rows))]
    sizes = [[group.column(leaf).total_compressed_size for leaf in range(leaves)] for group in groups]
    data = np.frombuffer(sink.getvalue(), np.uint8).copy()
    return _sealed(data, pieces, replace(pieces, sizes=np.array(sizes, np.uint32)))


def with_chunks(data: bytes, chunks: Mapping[tuple[int, int], bytes]) -> bytes:
    """A run with other bytes, as many, for the chunks of these row groups and leaves."""
    footer = RunFooter.parse(data, len(data))
    assert isinstance(footer, RunFooter)
    changed = np.frombuffer(data, np.uint8).copy()
    for (group, leaf), chunk in chunks.items():
        start, size = int(footer.starts[group, leaf]), int(footer.pieces.sizes[group, leaf])
        assert len(chunk) == size
        changed[start : start + size] = np.frombuffer(chunk, np.uint8)
    return _sealed(changed, footer.pieces, footer.pieces)


def _sealed(data: U8, before: PieceTable, pieces: PieceTable) -> bytes:
    ends = np.cumsum(pieces.sizes, dtype=np.int64) + len(MAGIC)
    starts = ends - pieces.sizes.reshape(-1)
    found = [crc32c(data[start:end]) for start, end in zip(starts, ends, strict=True)]
    checksums = np.array(found, np.uint32).reshape(pieces.sizes.shape)
    footer = data[int(ends[-1]) :]
    at = footer.tobytes().rfind(b'"crc32c":"') + 10
    footer[at : at + 8] = np.frombuffer(b"0" * 8, np.uint8)
    seal(footer, before, replace(pieces, checksums=checksums))
    return data.tobytes()


def read_run(data: bytes) -> pa.Table:
    """All rows of a run."""
    footer = RunFooter.parse(data, len(data))
    assert isinstance(footer, RunFooter)
    groups, leaves = footer.pieces.sizes.shape
    return decode_chunks(footer, np.frombuffer(data, np.uint8), range(groups), range(leaves))


def data_page(whole: int, packed: int, values: int, *, encoding: int = 0) -> bytes:
    """The header of a data page of version 1."""
    about = _number(values) + _number(encoding) + _number(3) + _number(3)
    return _number(0) + _number(whole) + _number(packed) + b"\x2c" + about + b"\x00\x00"


def dictionary_page(whole: int, packed: int, values: int) -> bytes:
    """The header of a dictionary."""
    return (
        _number(2) + _number(whole) + _number(packed) + b"\x4c" + _number(values) + _number(0) + b"\x00\x00"
    )


def claimed_page(whole: int, size: int, *, values: int = 1_000) -> bytes:
    """A Parquet run whose one page says that it becomes so many bytes, and has about ``size`` of noise."""
    return _with_header(size, lambda packed: data_page(whole, packed, values))


def claimed_dictionary() -> bytes:
    """A Parquet run whose dictionary says that it has 2^31 values."""
    return _with_header(0, lambda packed: dictionary_page(8_000, packed, (1 << 31) - 1))


def _with_header(size: int, make: Callable[[int], bytes]) -> bytes:
    """A run whose only chunk is a header, made for so many bytes, and noise."""
    numbers = np.random.default_rng(1).integers(0, 1 << 62, max(1_000, size // 8))
    data = sealed_run(pa.table({"a": numbers}), compression="zstd", use_dictionary=False)
    parsed = RunFooter.parse(data, len(data))
    assert isinstance(parsed, RunFooter)
    chunk = int(parsed.pieces.sizes[0, 0])
    packed = chunk - len(make(chunk - 30))
    return with_chunks(data, {(0, 0): make(packed) + numbers.tobytes()[:packed].ljust(packed, b"x")})


def _number(value: int) -> bytes:
    """The next field of a struct, a number."""
    return b"\x15" + encode_varint(value << 1 if value >= 0 else (-value << 1) - 1)
