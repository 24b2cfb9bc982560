"""Streams of rows as bytes: JSON lines and Parquet, written while rows come, in little memory."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from lakehouse.cli.escapes import json_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["json_lines", "parquet_bytes"]


async def json_lines(
    batches: AsyncIterator[pa.RecordBatch], *, default: Callable[[Any], Any] | None = None
) -> AsyncGenerator[bytes, None]:
    """Yields a line with an object for each row; ``default`` writes what JSON has no type for."""
    async for batch in batches:
        rows = batch.to_pylist(maps_as_pydicts="lossy")
        yield b"".join(json_text(row, default=default).encode() + b"\n" for row in rows)


async def parquet_bytes(
    batches: AsyncIterator[pa.RecordBatch], schema: pa.Schema
) -> AsyncGenerator[bytes, None]:
    """Yields the bytes of one Parquet file."""
    import pyarrow.parquet as pq

    sink = _Drain()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:  # io-ok: drained below
        async for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Drain(io.RawIOBase):
    """A file that is emptied as it is written, so that output of any size needs little memory."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        """Returns True: bytes can be written."""
        return True

    def tell(self) -> int:
        """Returns the bytes written so far, taken ones included: Parquet's offsets count from the start."""
        return self._position

    def write(self, data: Any) -> int:
        """Keeps the bytes until they are taken."""
        chunk = bytes(data)
        self._chunks.append(chunk)
        self._position += len(chunk)
        return len(chunk)

    def take(self) -> bytes:
        """Returns the bytes that were written since the last call."""
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken
