"""What searches read of large indexes of tables."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.expr import Expr, matching
from lakehouse.storage.scan import section_reader
from lakehouse.storage.table import Table
from lakehouse.testing import RecordingStore, memory_store
from tests.kit.indexed_tables import NAME, SMALL, lake_on, rows, table_with, value

FILES, ROWS = 3, 40_000
SCHEMA = pa.schema({"id": pa.int64(), "trace": pa.string(), "body": pa.string()})


def traces(file: int) -> list[str]:
    """Values that occur once, in no order."""
    draw = random.Random(file)
    return [f"{draw.getrandbits(64):016x}" for _ in range(ROWS)]


async def large_table() -> Table:
    """A table of some files, of which every row has another trace; opened by a process that knows nothing."""
    store = memory_store()
    lake = lake_on(store)
    await lake.create_database("db")
    table = await lake.create_table(
        NAME,
        SCHEMA,
        primary_key="id",
        indexes={"trace": "inverted"},
        options={**SMALL, "compaction.auto": "off"},
    )
    for file in range(FILES):
        ids = range(file * ROWS, (file + 1) * ROWS)
        body = [f"{number * 2_654_435_761 % (1 << 60):x}" * 8 for number in ids]
        await table.append(pa.table({"id": ids, "trace": traces(file), "body": body}, schema=SCHEMA))
    return await lake_on(store).table(NAME)


async def bytes_to_plan(table: Table, where: str) -> int:
    """Bytes that are read before any data file is."""
    return (await table.scan(where).explain()).cost.bytes_read


async def index_bytes(table: Table) -> int:
    """What the index files have together."""
    return sum(file["index_bytes"] for file in (await table.files()).to_pylist())


async def test_equality_reads_a_few_pages_of_large_lists_of_terms() -> None:
    """A value that one row has is found in lists of terms of which a small part is read."""
    table = await large_table()
    wanted = traces(1)[777]
    assert await bytes_to_plan(table, f"trace = '{wanted}'") * 3 < await index_bytes(table)
    scan = table.scan(f"trace = '{wanted}'")
    assert [row["id"] for row in await scan.to_pylist()] == [ROWS + 777]
    assert scan.report.files_pruned["index"] == FILES - 1


async def test_values_that_no_row_has_are_looked_up_too() -> None:
    """Values between, below and above all that are there leave every file out."""
    table = await large_table()
    scan = table.scan("trace in ('8000000000000000', '0', 'zzz')")
    assert await scan.count() == 0
    assert scan.report.files_pruned["index"] == FILES


async def test_pages_that_were_read_are_kept() -> None:
    """The same search again reads nothing of the index files."""
    table = await large_table()
    where = f"trace = '{traces(0)[5]}'"
    first, again = await bytes_to_plan(table, where), await bytes_to_plan(table, where)
    assert again * 20 < first


async def test_only_rows_that_an_index_names_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a piece the condition is evaluated for the segments alone that may hold the value."""
    tested: list[int] = []

    def counting(where: Expr, table: pa.Table) -> Any:
        tested.append(table.num_rows)
        return matching(where, table)

    monkeypatch.setattr(section_reader, "matching", counting)
    table = await table_with({"host": "inverted"}, files=2, count=3000)
    found = await table.scan(f"host = 'Host-{value(4711)}'").to_pylist()
    assert [row["id"] for row in found] == [4711]
    assert tested == [1024]


@pytest.mark.parametrize("kind", ["bloom", "inverted"])
async def test_a_column_is_asked_of_its_own_index(kind: str) -> None:
    """Of two columns of one type with an index each, a condition goes by the index of the one it names."""
    table = await table_with({"n": kind, "place.zip": kind}, files=0)
    changed = [{**row, "place": {"city": "a", "zip": -row["n"] - 1}} for row in rows(200)]
    await table.append(changed)
    for where, ids in (
        (f"n = {value(7)}", [7]),
        (f"place.zip = {-value(8) - 1}", [8]),
        ("place.zip = 5", []),
    ):
        scan = table.scan(where)
        assert [row["id"] for row in await scan.to_pylist()] == ids
        assert scan.report.indexes_read == 1


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_rows_of_segments_are_those_the_file_was_built_with(size: int) -> None:
    """Whatever the size of segments, every row is found by its value, and few others are looked at."""
    indexes = {"n": {"inverted": {"segment_row_count": size}}, "host": {"bloom": {"granularity": size}}}
    options = {**SMALL, "parquet.row_group_rows": 128}
    table = await table_with(indexes, files=1, count=300, options=options)
    for number in (0, 99, 150, 299):
        for where in (f"n = {value(number)}", f"host = 'Host-{value(number)}'"):
            scan = table.scan(where)
            assert [row["id"] for row in await scan.to_pylist()] == [number]
            assert scan.report.rows_pruned_by_index > 100


async def test_what_no_index_tells_may_be_anywhere() -> None:
    """An alternative about a column without an index excludes nothing, nor does one without an index file."""
    table = await table_with({"host": "inverted"}, files=3, count=100)
    scan = table.scan(f"host = 'Host-{value(5)}' or n = {value(150)}")
    assert [row["id"] for row in await scan.to_pylist()] == [5, 150]
    await table.add_index("n", "inverted")
    scan = table.scan(f"host = 'Host-{value(5)}' or n = {value(150)}")
    assert [row["id"] for row in await scan.to_pylist()] == [5, 150]


@pytest.mark.parametrize("small_first", [False, True])
async def test_a_small_index_comes_with_the_footer(small_first: bool) -> None:
    """Of a file that has large indexes too, a small one takes one read, wherever its definition stands."""
    store = RecordingStore(memory_store())
    lake = lake_on(store)
    await lake.create_database("db")
    said = {"body": "fulltext", "trace": "inverted"}
    indexes = dict(said.items() if small_first else reversed(said.items()))
    table = await lake.create_table(NAME, SCHEMA, primary_key="id", indexes=indexes, options=SMALL)
    words = [f"word{number % 100}" for number in range(ROWS)]
    await table.append(pa.table({"id": range(ROWS), "trace": traces(0), "body": words}, schema=SCHEMA))
    assert await index_bytes(table) > 10 * 64 * 1024
    table = await lake_on(store).table(NAME)
    begin = len(store.calls)
    assert (await table.scan("matches(body, 'nowhere')").explain()).files_pruned["index"] == 1
    assert [call.verb for call in store.calls[begin:] if "/index/" in call.key] == ["get_range"]
