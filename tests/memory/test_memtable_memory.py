"""What memtables say they take is what the process grows by."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, gc, json, os, sys, uuid
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakehouse.format.metadata.wal_segment import SegmentHeader, WalBatch, WalSegment
from lakehouse.storage.write.memtable import Memtables

rows, segments, columns = map(int, sys.argv[1:])


def resident():
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def segment(number):
    ids = np.arange(number * rows, (number + 1) * rows)
    texts = np.char.add("value-", ids.astype(str))
    made = {"id": ids, **{f"c{n}": texts if n % 2 else ids / 3 for n in range(columns - 1)}}
    table = pa.table(made)
    batch = WalBatch(rows=pa.concat_tables([table, table.slice(0, 0)]).combine_chunks())
    token, name = uuid.uuid4().hex, uuid.UUID(int=1)
    header = SegmentHeader(table=name, number=number, epoch=1, token=token, time_ms=0, schema_id=0)
    return WalSegment(header=header, batches=(batch,))


memtables = Memtables(max_bytes=1 << 40, max_segments=1 << 40, max_waiting=1)
warm = segments // 5
for number in range(warm):
    memtables.add(segment(number), 0.0)
before, counted = resident(), memtables.bytes
for number in range(warm, warm + segments):
    memtables.add(segment(number), 0.0)
print(json.dumps([memtables.bytes - counted, resident() - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@pytest.mark.parametrize(
    ("rows", "segments", "columns"),
    [(10_000, 100, 3), (500, 1_000, 6), (1, 8_000, 3), (10, 6_000, 13)],
    ids=["many rows", "some rows", "single rows", "many columns"],
)
def test_what_is_counted_is_what_the_process_grows_by(rows: int, segments: int, columns: int) -> None:
    """Bytes counted for keys, values and what holds them agree with resident memory within 20 %."""
    command = [sys.executable, "-c", PROGRAM, *map(str, (rows, segments, columns))]
    counted, grown = json.loads(subprocess.run(command, capture_output=True, timeout=100, check=True).stdout)
    assert grown > 10 << 20
    assert counted == pytest.approx(grown, rel=0.2), (counted, grown)
