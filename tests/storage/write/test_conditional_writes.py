"""Overwrites, deletes by condition and inserts of new keys, with others committing in between.

``test_serial_commits.py`` tries every pair of operations; here are the rules one by one, and what they cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakehouse.errors import AlreadyExistsError, InvalidInputError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.storage.tables.commit_result import CommitResult
from lakehouse.testing import RecordingStore
from tests.kit.table_operations import LAYOUTS, SCHEMA
from tests.kit.worlds import NAME, Row, StepIn, process, restored, table_of

ROWS = [(1, "a", 10), (2, "a", 20), (3, "b", 30), (4, "b", None)]


def some(*rows: tuple[int, str, int | None]) -> list[Row]:
    """Rows as dicts."""
    return [{"id": number, "part": part, "v": value} for number, part, value in rows]


async def made(layout: str, **options: str) -> ObjectStore:
    """A table of four rows in two partitions."""
    store = await restored({})
    lake = process(store)
    await lake.create_database("db")
    table = await lake.create_table(NAME, SCHEMA, options=options, **LAYOUTS[layout])
    await table.append(some(*ROWS))
    return store


async def rows_of(store: ObjectStore) -> list[tuple[int, str, int | None]]:
    """What a process reads that opens the table afresh."""
    found = await (await table_of(store)).scan().to_pylist()
    return sorted((row["id"], row["part"], row["v"]) for row in found)


class Race:
    """A process whose snapshot is created right after another process has committed."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.calls = RecordingStore(store)
        self.hooked = StepIn(self.calls)

    async def table(self, other: object) -> Table:
        """The table as the slower process sees it; ``other`` is called with the faster one's."""
        table = await table_of(self.hooked)
        await table.scan().to_arrow()
        faster = await table_of(self.store)

        async def step_in() -> None:
            await other(faster)  # type: ignore[operator]
            self.calls.clear()

        self.hooked.before(0, "/snapshot/", step_in, verb="put_if_absent")
        return table


keyed = pytest.mark.parametrize("layout", ["key holds partition", "rows move between partitions"])
everywhere = pytest.mark.parametrize("layout", LAYOUTS)


@everywhere
async def test_an_overwrite_removes_what_is_there_when_it_commits(layout: str) -> None:
    """Rows that others commit while an overwrite is under way are gone with the rest."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.append(some((9, "c", 90))))
    done = await table.overwrite(some((5, "a", 50)))
    assert done.attempts == 2
    assert await rows_of(store) == [(5, "a", 50)]


@everywhere
async def test_an_overwrite_of_a_partition_removes_what_is_there_when_it_commits(layout: str) -> None:
    """Rows that others commit to the partition are gone too, those of other partitions stay."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.append(some((8, "a", 80), (9, "b", 90))))
    await table.overwrite(some((5, "a", 50)), "part = 'a'")
    assert await rows_of(store) == [(3, "b", 30), (4, "b", None), (5, "a", 50), (9, "b", 90)]


async def test_a_row_that_moves_out_of_an_overwritten_partition_stays() -> None:
    """A row that another process has moved to another partition is not in the partition any more."""
    store = await made("rows move between partitions")
    table = await Race(store).table(lambda other: other.upsert(some((1, "b", 11))))
    await table.overwrite([], "part = 'a'")
    assert await rows_of(store) == [(1, "b", 11), (3, "b", 30), (4, "b", None)]


async def test_a_row_that_moves_into_an_overwritten_partition_goes() -> None:
    """A row that another process has moved into the partition is overwritten with it."""
    store = await made("rows move between partitions")
    table = await Race(store).table(lambda other: other.upsert(some((3, "a", 33))))
    await table.overwrite(some((5, "a", 50)), "part = 'a'")
    assert await rows_of(store) == [(4, "b", None), (5, "a", 50)]


@everywhere
async def test_an_overwrite_by_condition_sees_rows_that_begin_to_match(layout: str) -> None:
    """Rows that match and were committed meanwhile are replaced, those that do not match are kept."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.append(some((8, "a", 80), (9, "b", 5))))
    await table.overwrite(some((5, "a", 50)), "v >= 20")
    assert await rows_of(store) == [(1, "a", 10), (4, "b", None), (5, "a", 50), (9, "b", 5)]


@keyed
async def test_an_overwrite_by_condition_sees_rows_that_match_no_more(layout: str) -> None:
    """A row that another process has changed so that it does not match is left alone."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.upsert(some((2, "a", 1))))
    await table.overwrite(some((5, "a", 50)), "v >= 20")
    assert await rows_of(store) == [(1, "a", 10), (2, "a", 1), (4, "b", None), (5, "a", 50)]


@keyed
async def test_an_overwrite_by_condition_replaces_rows_of_its_own_keys(layout: str) -> None:
    """A key that both write has the row of the overwrite, which came second."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.upsert(some((5, "a", 1))))
    await table.overwrite(some((5, "a", 50)), "v >= 20")
    assert await rows_of(store) == [(1, "a", 10), (4, "b", None), (5, "a", 50)]


@everywhere
async def test_a_delete_sees_rows_that_begin_to_match(layout: str) -> None:
    """Rows that match and were committed meanwhile are deleted too."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.append(some((8, "a", 80), (9, "b", 5))))
    await table.delete("v >= 20")
    assert await rows_of(store) == [(1, "a", 10), (4, "b", None), (9, "b", 5)]


@keyed
async def test_a_delete_sees_rows_that_match_no_more(layout: str) -> None:
    """A row that another process has changed so that it does not match is not deleted."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.upsert(some((2, "a", 1))))
    done = await table.delete("v >= 20")
    assert done.rows == 1
    assert await rows_of(store) == [(1, "a", 10), (2, "a", 1), (4, "b", None)]


@everywhere
async def test_a_delete_of_what_others_deleted_does_nothing(layout: str) -> None:
    """When no row matches any more, no snapshot is made, and the files that were written are gone."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.delete("v >= 20"))
    done = await table.delete("v >= 20")
    assert not done.changed
    assert done.snapshot == 3
    live = {row["path"] for n in (2, 3) for row in (await table.files(snapshot=n)).to_pylist()}
    there = {one.key async for one in store.list("") if "/data/" in one.key}
    assert {key.partition("/data/")[2] for key in there} == {path.removeprefix("data/") for path in live}


@keyed
async def test_a_delete_is_decided_once_when_others_cannot_match(layout: str) -> None:
    """Rows whose statistics exclude the condition cost a lost race and nothing more."""
    store = await made(layout)
    race = Race(store)
    table = await race.table(lambda other: other.upsert(some((100, "b", 1))))
    done = await table.delete("v = 20")
    assert done.attempts == 2
    verbs = [call.verb for call in race.calls.calls if "/snapshot/" not in call.key]
    assert verbs == [], "nothing but snapshots is read or written again"
    assert await rows_of(store) == [(1, "a", 10), (3, "b", 30), (4, "b", None), (100, "b", 1)]


@everywhere
async def test_rows_of_which_a_condition_is_not_known_stay(layout: str) -> None:
    """A row for which the condition is null is neither deleted nor overwritten."""
    store = await made(layout)
    table = await table_of(store)
    await table.delete("v < 1000")
    assert await rows_of(store) == [(4, "b", None)]
    await table.overwrite([], "NOT (v < 1000)")
    assert await rows_of(store) == [(4, "b", None)]
    await table.delete("v IS NULL")
    assert await rows_of(store) == []


@everywhere
async def test_rows_outside_an_overwrite_are_refused(layout: str) -> None:
    """New rows that do not match the condition are an error that shows one, and nothing is left of them."""
    store = await made(layout)
    table = await table_of(store)
    before = [one.key async for one in store.list("")]
    with pytest.raises(InvalidInputError, match="'id': 6"):
        await table.overwrite(some((5, "a", 50), (6, "b", 7)), "v >= 20")
    with pytest.raises(InvalidInputError, match=r"part=b|'part': 'b'"):
        await table.overwrite(some((5, "a", 50), (6, "b", 7)), "part = 'a'")
    assert [one.key async for one in store.list("")] == before


@everywhere
async def test_an_overwrite_with_nothing_empties(layout: str) -> None:
    """No new rows leave an empty table, or an empty partition; doing so again makes no snapshot."""
    store = await made(layout)
    table = await table_of(store)
    assert (await table.overwrite([], "part = 'a'")).changed
    assert await rows_of(store) == [(3, "b", 30), (4, "b", None)]
    assert (await table.overwrite([])).changed
    assert not (await table.overwrite([])).changed
    assert await rows_of(store) == []


@keyed
async def test_one_of_two_inserts_of_a_key_wins(layout: str) -> None:
    """A key that another process inserts meanwhile is there already, and none of the new rows is."""
    store = await made(layout)
    table = await Race(store).table(lambda other: other.append(some((7, "a", 1)), on_conflict="error"))
    with pytest.raises(AlreadyExistsError, match="'id': 7"):
        await table.append(some((7, "a", 2), (8, "b", 2)), on_conflict="error")
    assert await rows_of(store) == [*ROWS, (7, "a", 1)]


@keyed
async def test_inserts_of_other_keys_both_win(layout: str) -> None:
    """Inserts that meet and have no key in common are both there."""
    store = await made(layout)
    table = await Race(store).table(
        lambda other: other.append(some((6, "a", 1), (8, "a", 1)), on_conflict="error")
    )
    await table.append(some((7, "a", 2)), on_conflict="error")
    assert await rows_of(store) == [*ROWS, (6, "a", 1), (7, "a", 2), (8, "a", 1)]


@keyed
async def test_an_insert_takes_each_key_once(layout: str) -> None:
    """Two rows of a call with one key are refused by their numbers, and nothing of the call is left."""
    store = await made(layout)
    before = [one.key async for one in store.list("")]
    with pytest.raises(InvalidInputError, match=r"rows 1 and 3 .* same key .*id = 6") as refused:
        await (await table_of(store)).append(
            some((5, "a", 1), (6, "a", 1), (7, "a", 1), (6, "a", 2), (5, "a", 2)), on_conflict="error"
        )
    assert refused.value.context["rows"] == (1, 3)
    assert refused.value.context["key"]["id"] == 6
    assert [one.key async for one in store.list("")] == before


async def test_an_insert_takes_each_key_once_however_far_apart() -> None:
    """A key of the first batch that comes again in the last one is refused, although buffers lie between."""
    store = await made("rows move between partitions", **{"write.buffer_bytes": "1 MiB"})
    before = [one.key async for one in store.list("")]

    def batches() -> Iterator[pa.Table]:
        for begin in range(100, 200_100, 50_000):
            ids = list(range(begin, begin + 50_000))
            yield pa.table({"id": ids, "part": ["a"] * len(ids), "v": ids})
        yield pa.table({"id": [300_000, 117], "part": ["a", "a"], "v": [0, 0]})

    with pytest.raises(InvalidInputError, match=r"rows 17 and 200,001 .* id = 117"):
        await (await table_of(store)).append(batches(), on_conflict="error")
    assert [one.key async for one in store.list("")] == before


@keyed
async def test_a_deleted_key_can_be_inserted(layout: str) -> None:
    """A key that another process deletes meanwhile does not refuse the insert."""
    store = await made(layout)
    race = Race(store)
    await (await table_of(store)).delete("id = 1")
    table = await race.table(lambda other: other.delete("id = 2"))
    await table.append(some((1, "a", 100)), on_conflict="error")
    assert await rows_of(store) == [(1, "a", 100), (3, "b", 30), (4, "b", None)]


@keyed
async def test_of_many_inserts_of_one_key_exactly_one_wins(layout: str) -> None:
    """Eight processes that insert one key at once: one is told that it did, seven that the key is there."""
    store = await made(layout)
    tables = [await table_of(store) for _ in range(8)]
    for turn in range(3):
        told = await asyncio.gather(
            *(
                table.append(some((50 + turn, "a", number)), on_conflict="error")
                for number, table in enumerate(tables)
            ),
            return_exceptions=True,
        )
        won = [number for number, one in enumerate(told) if isinstance(one, CommitResult)]
        assert len(won) == 1
        assert all(isinstance(one, AlreadyExistsError) for n, one in enumerate(told) if n not in won)
        assert (50 + turn, "a", won[0]) in await rows_of(store)


async def test_deletes_by_key_need_no_look() -> None:
    """Deleting keys reads no file, whatever others commit, and takes what is there when it commits."""
    store = await made("key holds partition", **{"file.format.level0": "sst"})
    race = Race(store)
    table = await race.table(lambda other: other.upsert(some((1, "a", 11), (9, "a", 9))))
    await table.delete(keys=[{"part": "a", "id": 1}, {"part": "a", "id": 77}])
    assert {call.verb for call in race.calls.calls} == {"put_if_absent", "get"}
    assert await rows_of(store) == [(2, "a", 20), (3, "b", 30), (4, "b", None), (9, "a", 9)]
