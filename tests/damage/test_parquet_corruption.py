"""Damaged, swapped and truncated Parquet files: an error that names the object, never a wrong row."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.cache import CacheBudget
from lakehouse.errors import CorruptionError
from lakehouse.format.metadata.file_entry import KIND_COLUMN
from lakehouse.format.parquet.writer import ParquetOptions, encode_parquet
from lakehouse.storage.metadata.caches import RunCaches
from tests.kit.blob_samples import flipped
from tests.kit.parquet_files import PATH, ROOT, StoredFile, key_of, stored
from tests.kit.parquet_samples import FIELDS, KEYED, many_rows

KEY = f"{ROOT}/{PATH}"
ROWS = many_rows(60)
LARGE = many_rows(40_000)


async def answer(file: StoredFile) -> pa.Table | str:
    """All rows and a looked-up one, or what is wrong."""
    try:
        run = await file.open()
        rows = await run.read(FIELDS)
        (found,) = (await run.get(key_of(KEYED, 30), FIELDS)).drop_columns(KIND_COLUMN).to_pylist()
    except CorruptionError as error:
        return error.message if error.context["key"] == KEY else f"not named: {error!r}"
    assert found == rows.slice(10, 1).to_pylist()[0]
    return rows


async def test_no_flipped_bit_makes_a_wrong_row() -> None:
    """A bit turned over in any byte of a file gives the right rows or an error that names the file."""
    file = (await stored(ROWS, KEYED, group_rows=25)).afresh(checksum=None)
    unnoticed = []
    footer = len(file.data) - 8 - int.from_bytes(file.data[-8:-4], "little")
    # Footers have a sweep of their own, over every bit.
    for byte in (*range(footer), *range(footer, len(file.data), 7)):
        await file.put(flipped(file.data, 8 * byte + byte % 8))
        found = await answer(file.afresh())
        if isinstance(found, str):
            assert found.startswith(f"{KEY}: ")
        else:
            assert found.equals(ROWS)
            unnoticed.append(byte)
    assert unnoticed == [0, 1, 2, 3]  # the first magic number, by which nothing is read


async def test_with_the_entrys_checksum_no_bit_of_a_small_file_escapes() -> None:
    """Files that are read whole are checked whole."""
    file = await stored(ROWS, KEYED)
    for bit in range(64):
        await file.put(flipped(file.data, bit))
        assert isinstance(await answer(file.afresh()), str)


@given(st.integers(0, 1 << 40), st.binary(min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_no_garbage_makes_a_wrong_row(at: int, garbage: bytes) -> None:
    """Bytes overwritten in a large file give the right rows or an error that names the file."""

    async def run() -> None:
        file = await stored(LARGE, KEYED, group_rows=4_000, codec="none")
        start = at % len(file.data)
        data = file.data[:start] + garbage + file.data[start + len(garbage) :]
        await file.put(data[: len(file.data)])
        found = await answer(file.afresh())
        assert isinstance(found, str) or found.equals(LARGE)

    asyncio.run(run())


@pytest.mark.parametrize("keep", [0, 1, 3, 11, 0.3, 0.9, 0.999, -1])
async def test_truncated_files_are_refused(keep: float) -> None:
    """A file that lost its end is refused when it is opened, whatever is left."""
    for rows in (ROWS, LARGE):
        file = await stored(rows, KEYED, codec="none")
        left = int(keep * len(file.data)) if 0 < keep < 1 else int(keep)
        await file.put(file.data[:left])
        message = await answer(file)
        assert isinstance(message, str)
        assert "cut off" in message


async def test_longer_files_are_refused() -> None:
    """Bytes behind the end of a file make it another file."""
    file = await stored(ROWS, KEYED)
    await file.put(file.data + b"PAR1")
    assert "cut off, or another file" in str(await answer(file))


async def test_swapped_files_are_refused() -> None:
    """A sound file of the same size, but with other rows, is refused by its entry."""
    file = await stored(ROWS, KEYED)
    other = encode_parquet(many_rows(60, first=3), KEYED, ParquetOptions()).to_pybytes()
    entry = {"size": len(other), "checksum": None}
    await file.put(other)
    assert "another file stands in its place" in str(await answer(file.afresh(**entry)))


@pytest.mark.parametrize("change", [{"rows": 61}, {"deletes": 1}, {"updates": 1}, {"schema_id": 9}])
async def test_entries_that_do_not_fit_are_refused(change: dict[str, int]) -> None:
    """Counts and schema of the entry are those of the file."""
    file = (await stored(ROWS, KEYED)).afresh(**change)
    assert "another file stands in its place" in str(await answer(file))


async def test_entries_are_compared_when_the_file_is_cached() -> None:
    """An entry that does not fit is refused whether its file is read or known."""
    file = await stored(ROWS, KEYED)
    await file.open()
    with pytest.raises(CorruptionError, match="another file stands in its place"):
        await replace(file, entry=replace(file.entry, rows=61)).open()


async def test_a_file_replaced_between_two_reads_is_refused() -> None:
    """Reads insist on the version that the footer was found in."""
    file = await stored(LARGE, KEYED, codec="none")
    run = await file.open()
    await file.put(file.data[:-8] + bytes(8))
    with pytest.raises(CorruptionError, match=f"{KEY} was replaced"):
        await run.read(FIELDS)


async def test_a_damaged_column_leaves_the_others_readable() -> None:
    """An error names column, row group and bytes; other columns and row groups are read."""
    file = await stored(LARGE, KEYED, group_rows=4_000, codec="none")
    run = await file.open()
    start = int(run._opened.footer.starts[3, 1])
    await file.put(flipped(file.data, 8 * (start + 1_000)))
    run = await replace(file, caches=RunCaches(CacheBudget())).open()
    with pytest.raises(CorruptionError, match="column 'amount' of row group 3") as caught:
        await run.read(FIELDS)
    assert caught.value.context["offset"] == start
    assert (await run.read(FIELDS[:1])).num_rows == 40_000
    assert (await run.read(FIELDS, [0, 1, 2])).num_rows == 12_000


async def test_other_objects_are_refused() -> None:
    """Something that never was a Parquet file is no Parquet file."""
    file = await stored(ROWS, KEYED)
    await file.put(b"x" * len(file.data))
    assert "no end of Parquet" in str(await answer(file))
