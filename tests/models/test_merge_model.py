"""Random histories of tables with merge engines: scan, get, get_many and changes are the model's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from lakehouse.io.open import stacked
from lakehouse.lake import Lake
from lakehouse.storage.cdc.snapshot_diff import CHANGE_COLUMN
from lakehouse.storage.table import Table
from lakehouse.testing import memory_store
from tests.kit.merge_models import ENGINES, EngineCase, Row, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

T = TypeVar("T")
Rows = dict[int, Row]

IDS = st.integers(0, 6)
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"bucket": 3},
    {"options": {"file.format.level0": "sst"}},
    {"options": {"parquet.row_group_rows": "128"}, "bucket": 2},
]


class MergeHistory(RuleBasedStateMachine):
    """A table, and what each of its snapshots holds."""

    case: EngineCase

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = memory_store()
        self.now: Rows = {}
        self.past: dict[int, Rows] = {}
        self.table: Table

    def teardown(self) -> None:
        """Ends the loop."""
        self.runner.close()

    def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs on the machine's own loop."""
        return self.runner.run(work)

    @initialize(layout=st.sampled_from(LAYOUTS))
    def create(self, layout: dict[str, Any]) -> None:
        """An empty table."""

        async def work() -> None:
            lake = Lake(stacked(self.store))
            await lake.create_database("db")
            options = {**self.case.options, **layout.get("options", {})}
            columns = pa.schema({"id": pa.int64(), **self.case.columns})
            self.table = await lake.create_table(
                "db.t", columns, primary_key="id", options=options, bucket=layout.get("bucket", 1)
            )

        self.run_async(work())
        self.remember(1)

    def remember(self, snapshot: int) -> None:
        """What the new snapshot holds."""
        self.past[snapshot] = dict(self.now)

    def put(self, rows: list[Row]) -> None:
        """Merges rows into the model, one after the other."""
        for row in rows:
            own, old = self.case.own(row), self.now.get(row["id"])
            self.now[row["id"]] = own if old is None else self.case.merge(old, own)

    @rule(data=st.data())
    def upsert(self, data: st.DataObject) -> None:
        """Rows are merged onto those of their keys, several of one key in their order."""
        rows = data.draw(st.lists(rows_of(self.case, IDS), min_size=1, max_size=6))
        result = self.run_async(self.table.upsert(rows))
        self.put(rows)
        self.remember(result.snapshot)

    @rule(keys=st.lists(IDS, min_size=1, max_size=3))
    def delete_keys(self, keys: list[int]) -> None:
        """Keys are gone, and begin anew with the next row."""
        result = self.run_async(self.table.delete(keys=[{"id": key} for key in keys]))
        for key in keys:
            self.now.pop(key, None)
        self.remember(result.snapshot)

    @rule(data=st.data())
    def delete_where(self, data: st.DataObject) -> None:
        """Rows that match when all is merged are gone, and no other."""
        text, holds = data.draw(self.conditions())
        result = self.run_async(self.table.delete(text))
        self.now = {key: row for key, row in self.now.items() if not holds(row)}
        if result.changed:
            self.remember(result.snapshot)

    @rule(data=st.data())
    def overwrite(self, data: st.DataObject) -> None:
        """Nothing but the new rows is left."""
        rows = data.draw(st.lists(rows_of(self.case, IDS), min_size=1, max_size=4))
        result = self.run_async(self.table.overwrite(rows))
        self.now = {}
        self.put(rows)
        self.remember(result.snapshot)

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        """Runs are merged; nobody sees it."""
        self.run_async(self.table.compact(full=full))
        self.remember(self.run_async(self.table.current_snapshot()))

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        """An older state is the newest again."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        result = self.run_async(self.table.rollback(snapshot=number))
        self.now = dict(self.past[number])
        self.remember(result.snapshot)

    @rule(data=st.data(), flush=st.booleans())
    def stream(self, data: st.DataObject, flush: bool) -> None:
        """What a streaming writer puts is merged in order: in the log, covered by a commit, and flushed."""
        some = st.lists(rows_of(self.case, IDS), min_size=1, max_size=4)
        puts = data.draw(st.lists(some | IDS, min_size=1, max_size=3))
        committed = data.draw(some)

        async def work() -> None:
            async with self.table.writer() as writer:
                for rows in puts:
                    if isinstance(rows, int):
                        await (await writer.delete([{"id": rows}]))
                        self.now.pop(rows, None)
                    else:
                        await (await writer.put(rows))
                        self.put(rows)
                await self.check(self.now, freshness="wal")
                result = await self.table.upsert(committed)
                self.put(committed)
                await self.check(self.now)
                self.remember(result.snapshot)
                if flush:
                    await writer.flush()
                    await self.check(self.now)

        self.run_async(work())
        self.remember(self.run_async(self.table.current_snapshot()))

    # --- what must hold ---------------------------------------------------------------

    def conditions(self) -> st.SearchStrategy[tuple[str, Callable[[Row], bool]]]:
        """Conditions on the key and on columns of whole numbers."""
        names = ["id", *(name for name, kind in self.case.columns.items() if pa.types.is_integer(kind))]

        def at_least(name: str, bound: int) -> tuple[str, Callable[[Row], bool]]:
            return f"{name} >= {bound}", lambda row: row[name] is not None and row[name] >= bound

        def is_null(name: str) -> tuple[str, Callable[[Row], bool]]:
            return f"{name} IS NULL", lambda row: row[name] is None

        return st.builds(at_least, st.sampled_from(names), st.integers(-2, 6)) | st.builds(
            is_null, st.sampled_from(names)
        )

    async def check(self, expected: Rows, **at: Any) -> None:
        """Scan, get and get_many all find these rows."""
        rows = await self.table.scan(**at).to_pylist()
        assert sorted(rows, key=lambda row: row["id"]) == [row for _, row in sorted(expected.items())]
        assert await self.table.scan(**at).count() == len(expected)
        keys = [{"id": key} for key in range(7)]
        assert {row["id"]: row for row in (await self.table.get_many(keys, **at)).to_pylist()} == expected
        for key in keys[::3]:
            assert await self.table.get(key, **at) == expected.get(key["id"])

    @invariant()
    def the_newest_reads_as_the_model(self) -> None:
        """However it is read."""
        if self.past:
            self.run_async(self.check(self.now))

    @rule(data=st.data())
    def some_snapshot_reads_as_the_model(self, data: st.DataObject) -> None:
        """A snapshot reads the same for ever, whatever was compacted since."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        self.run_async(self.check(self.past[number], snapshot=number))

    @rule(data=st.data())
    def conditions_select_rows(self, data: st.DataObject) -> None:
        """A condition finds the rows that match when all is merged, in any snapshot."""
        number = data.draw(st.sampled_from(sorted(self.past)))
        text, holds = data.draw(self.conditions())
        found = self.run_async(self.table.scan(text, snapshot=number).to_pylist())
        expected = [row for _, row in sorted(self.past[number].items()) if holds(row)]
        assert sorted(found, key=lambda row: row["id"]) == expected

    @rule(data=st.data())
    def changes_are_net(self, data: st.DataObject) -> None:
        """Changes between two snapshots are what differs between their merged rows."""
        start = data.draw(st.sampled_from(sorted(self.past)))
        end = data.draw(st.sampled_from([n for n in sorted(self.past) if n >= start]))

        async def work() -> list[Row]:
            return [row async for rows in self.table.changes(start, end) for row in rows.to_pylist()]

        state = dict(self.past[start])
        for row in self.run_async(work()):
            change = row.pop(CHANGE_COLUMN)
            if change in ("delete", "update_before"):
                assert state.pop(row["id"]) == row
            else:
                state[row["id"]] = row
        assert state == self.past[end]


def _machine(case: EngineCase) -> type[RuleBasedStateMachine]:
    return type(MergeHistory)(f"History of {case}", (MergeHistory,), {"case": case})


@pytest.mark.parametrize("case", ENGINES, ids=str)
def test_histories(case: EngineCase) -> None:
    """A table with a merge engine reads as the model after any history."""
    bounds = settings(max_examples=12, stateful_step_count=15, deadline=None)
    run_state_machine_as_test(_machine(case), settings=bounds)
