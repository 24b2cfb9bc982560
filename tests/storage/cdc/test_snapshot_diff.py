"""Net changes between snapshots of random histories."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import TableSettings
from lakehouse.format.metadata.file_entry import RowKind
from lakehouse.storage.cdc.snapshot_diff import CHANGE_COLUMN, net_changes
from tests.kit.memory_runs import MemoryRuns
from tests.kit.run_histories import SCHEMA, Lineage, lineages, run_table


async def changes(lineage: Lineage, first: int, second: int, **bounds: int) -> list[dict[str, Any]]:
    """All changes between two snapshots."""
    lineage.runs.settings = TableSettings(**bounds)
    found = net_changes(lineage.files[first], lineage.files[second], SCHEMA, lineage.runs)
    return [row async for table in found for row in table.to_pylist()]


@settings(max_examples=80, deadline=None)
@given(lineage=lineages(), memory=st.sampled_from([1, 1_000, 1 << 28]), data=st.data())
async def test_changes_lead_from_one_snapshot_to_the_other(
    lineage: Lineage, memory: int, data: st.DataObject
) -> None:
    """Changes are the rows in which two snapshots differ, by key, whatever happened in between."""
    count = len(lineage.states)
    first, second = (data.draw(st.integers(0, count - 1)) for _ in range(2))
    was, now = lineage.states[first], lineage.states[second]
    expected: list[dict[str, Any]] = []
    for key in sorted({*was, *now}):
        if key not in was:
            expected.append({**now[key], CHANGE_COLUMN: "insert"})
        elif key not in now:
            expected.append({**was[key], CHANGE_COLUMN: "delete"})
        elif was[key] != now[key]:
            expected += [
                {**was[key], CHANGE_COLUMN: "update_before"},
                {**now[key], CHANGE_COLUMN: "update_after"},
            ]
    assert await changes(lineage, first, second, scan_memory_bytes=memory) == expected


async def test_files_of_both_snapshots_are_not_looked_through() -> None:
    """Of a file that both snapshots have, only pieces with keys that may have changed are read."""
    runs = MemoryRuns(SCHEMA, piece_rows=10)
    old = runs.add(run_table(dict.fromkeys(range(100), (RowKind.INSERT, 1, "x"))), lo=(1, 1, 0), hi=(1, 1, 0))
    new = runs.add(run_table({55: (RowKind.INSERT, 2, "x")}), lo=(2, 1, 0), hi=(2, 1, 0))
    found = net_changes([old], [old, new], SCHEMA, runs)
    rows = [row async for table in found for row in table.to_pylist()]
    assert [(row["id"], row["a"], row[CHANGE_COLUMN]) for row in rows] == [
        (55, 1, "update_before"),
        (55, 2, "update_after"),
    ]
    assert {path for path, *_ in runs.reads} <= {new.path}
    assert [path for path, _ in runs.gets].count(old.path) == 1
