"""Keys that several runs of one write have: each is refused, no other is, and little is read to find out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import TableSettings
from lakehouse.errors import InvalidInputError
from lakehouse.format.metadata import FileEntry
from lakehouse.format.schema import TableSchema
from lakehouse.storage.files.uploaded_files import UploadedFiles
from lakehouse.storage.table import Table
from lakehouse.storage.write import conflicting_keys
from lakehouse.storage.write.conflicting_keys import refuse_shared_keys
from lakehouse.storage.write.distributed_writes import in_runs
from tests.kit.memory_runs import MemoryRuns
from tests.kit.run_histories import SCHEMA as KEYED
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, Row, process, restored


def some(*numbers: int, part: str = "a") -> list[Row]:
    """Rows with these ids."""
    return [{"id": number, "part": part, "v": 0} for number in numbers]


async def made(**layout: Any) -> Table:
    """An empty table."""
    lake = process(await restored({}))
    await lake.create_database("db")
    return await lake.create_table(NAME, SCHEMA, **(layout or {"primary_key": ["id"]}))


async def uploaded(table: Table, *tasks: list[Row]) -> list[UploadedFiles]:
    """What tasks uploaded, one for each list."""
    view = await table.core.newest()
    return [await table.core.write(view, rows) for rows in tasks]


async def test_a_key_in_two_tasks_is_named() -> None:
    """Of rows of one key in two tasks none is the newer, so the key is refused; other overlaps are not."""
    table = await made()
    schema = await table.schema()
    apart = in_runs(await uploaded(table, some(1, 3, 5), some(2, 4, 6)), schema)
    assert {one.run for one in apart.entries} == {0, 1}
    await refuse_shared_keys(apart.entries, schema, table.core)
    shared = in_runs(await uploaded(table, some(1, 3, 5), some(2, 3, 6)), schema)
    with pytest.raises(InvalidInputError, match="two rows of this write have the key id = 3") as refused:
        await refuse_shared_keys(shared.entries, schema, table.core)
    assert refused.value.context["key"] == {"id": 3}


async def test_keys_are_read_only_where_ranges_overlap() -> None:
    """Files with ranges of their own are not opened to look for common keys."""
    table = await made()
    schema = await table.schema()
    written = in_runs(await uploaded(table, some(1, 2), some(3, 4)), schema)

    class Never:
        """A source nobody asks."""

        settings = TableSettings()
        """Bounds on reads."""

        async def open(self, entry: FileEntry, schema: TableSchema) -> Any:
            """Never called."""
            raise AssertionError(entry.path)

    await refuse_shared_keys(written.entries, schema, Never())


async def test_a_key_of_several_columns_is_named_whole() -> None:
    """Rows that agree in some columns of the key differ; those that agree in all of them are refused."""
    table = await made(**LAYOUTS["key holds partition"])
    schema = await table.schema()
    apart = in_runs(await uploaded(table, some(1, 2), some(1, 2, part="b")), schema)
    await refuse_shared_keys(apart.entries, schema, table.core)
    shared = in_runs(await uploaded(table, some(1, 2), [*some(9, part="b"), *some(2)]), schema)
    with pytest.raises(InvalidInputError) as refused:
        await refuse_shared_keys(shared.entries, schema, table.core)
    assert refused.value.context["key"] == {"part": "a", "id": 2}


def run(*ids: int) -> pa.Table:
    """A run with these keys."""
    keys = sorted(ids)
    return pa.table({"id": keys, "a": [0] * len(keys), "b": [""] * len(keys)}, schema=KEYED.arrow())


@settings(max_examples=100, deadline=None)
@given(
    runs=st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=15), min_size=1, max_size=4),
    section_rows=st.sampled_from([1, 4, 1 << 20]),
)
async def test_a_write_is_refused_exactly_when_two_runs_share_a_key(
    runs: list[set[int]], section_rows: int
) -> None:
    """Whatever keys runs have, and however few rows are looked at at once, a shared key is found."""
    files = MemoryRuns(KEYED)
    entries = [files.add(run(*ids), lo=(2, 1, n), hi=(2, 1, n), run=n) for n, ids in enumerate(runs)]
    shared = {one for ids in runs for one in ids if sum(one in others for others in runs) > 1}
    refused = None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(conflicting_keys, "_SECTION_ROWS", section_rows)
        try:
            await refuse_shared_keys(entries, KEYED, files)
        except InvalidInputError as error:
            refused = error.context["key"]["id"]
    assert (refused in shared) if shared else refused is None


async def test_the_key_columns_alone_are_read() -> None:
    """Of runs whose ranges overlap nothing is read but the columns of the key."""
    files = MemoryRuns(KEYED)
    entries = [
        files.add(run(*ids), lo=(2, 1, n), hi=(2, 1, n), run=n) for n, ids in enumerate([(1, 3), (2, 4)])
    ]
    await refuse_shared_keys(entries, KEYED, files)
    assert files.reads
    assert {(names, kinds) for _, _, names, kinds in files.reads} == {(("id",), False)}
