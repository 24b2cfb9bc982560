"""The index of rows in memory by key: every row of a key, in the order of the log, within bounds."""

from __future__ import annotations

import asyncio
import dataclasses

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.format.metadata.file_entry import KIND_COLUMN, RowKind
from lakehouse.format.metadata.wal_segment import SegmentHeader, WalBatch, WalSegment
from lakehouse.format.schema.types import Field, Primitive, arrow_field
from lakehouse.storage.rows.key_arrays import KeyColumns
from lakehouse.storage.wal.key_index import KeyIndex
from tests.kit.table_samples import TABLE, TOKEN

KEY = Field(id=1, name="id", type=Primitive("int64"), required=True)
VALUE = Field(id=2, name="v", type=Primitive("int64"))
SCHEMA = pa.schema([arrow_field(one).with_nullable(True) for one in (KEY, VALUE)])
KIND = pa.field(KIND_COLUMN, pa.int8(), nullable=False)
KEYS = KeyColumns([KEY])
CODEC = KEYS.codec


def segment(number: int, rows: list[tuple[int, int]], *, deletes: bool = False) -> WalSegment:
    """A segment with rows of a key and a value; or that deletes them."""
    header = SegmentHeader(table=TABLE, number=number, epoch=1, token=TOKEN, time_ms=0, schema_id=0)
    if not rows:
        return WalSegment(header=header)
    table = pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=SCHEMA)
    if deletes:
        table = table.append_column(KIND, pa.array([int(RowKind.DELETE)] * len(rows), pa.int8()))
    return WalSegment(header=header, batches=(WalBatch(rows=table),))


def found(index: KeyIndex, key: int, first: int, last: int) -> list[int]:
    """The values of a key's rows, newest first."""
    rows = index.newest_rows(CODEC.encode_one([key]), [VALUE], first=first, last=last)
    assert all(row.num_rows == 1 and row.column_names == ["v", KIND_COLUMN] for row in rows)
    return [row.column("v")[0].as_py() for row in rows]


@given(
    logs=st.lists(st.lists(st.integers(0, 4), max_size=6), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 8), max_size=3),
    key=st.integers(0, 5),
    bounds=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
@settings(max_examples=150, deadline=None)
def test_the_rows_of_a_key_come_newest_first(
    logs: list[list[int]], cuts: list[int], key: int, bounds: tuple[int, int]
) -> None:
    """Whatever was added together or twice, each row of the segments asked for is there once."""
    values = iter(range(1_000))
    wanted = [[(one, next(values)) for one in keys] for keys in logs]
    segments = [segment(number, rows) for number, rows in enumerate(wanted, 1)]
    index = KeyIndex()

    async def add() -> None:
        for cut in sorted({min(cut, len(segments)) for cut in cuts} | {len(segments)}):
            await index.extend(segments[:cut], KEYS)

    asyncio.run(add())
    first, last = min(bounds), max(bounds)
    expected = [
        value for rows in wanted[first - 1 : last][::-1] for one, value in reversed(rows) if one == key
    ]
    assert found(index, key, first, last) == expected


async def test_many_rows_are_added_aside_while_others_look() -> None:
    """Rows that a thread is adding are not shown to those who ask for older segments."""
    index = KeyIndex()
    old, new = segment(1, [(7, 1)]), segment(2, [(number % 100, number) for number in range(50_000)])
    await index.extend([old], KEYS)
    adding = asyncio.ensure_future(index.extend([old, new], KEYS))
    while not adding.done():
        assert found(index, 7, 1, 1) == [1]
        await asyncio.sleep(0)
    assert len(found(index, 7, 1, 2)) == 501
    assert len(found(index, 7, 2, 2)) == 500


async def test_deletions_are_rows_of_their_kind() -> None:
    """A row says whether it deletes, and none is made of a key alone."""
    index = KeyIndex()
    await index.extend([segment(1, [(1, 5)]), segment(2, [(1, 0)], deletes=True)], KEYS)
    newest, older = index.newest_rows(CODEC.encode_one([1]), [VALUE], first=1, last=2)
    assert newest.column(KIND_COLUMN).to_pylist() == [RowKind.DELETE]
    assert older.column(KIND_COLUMN).to_pylist() == [RowKind.INSERT]


async def test_keys_of_another_type_do_not_fit() -> None:
    """A key column that was widened may be encoded in another way; one that was renamed is not."""
    index = KeyIndex()
    narrow = KeyColumns([dataclasses.replace(KEY, type=Primitive("int32"))])
    assert index.fits(KEYS)
    assert index.fits(narrow)
    await index.extend([segment(1, [(1, 5)])], KEYS)
    assert index.fits(KeyColumns([dataclasses.replace(KEY, name="other")]))
    assert not index.fits(narrow)
