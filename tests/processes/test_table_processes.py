"""Processes that commit to one table at once on a real store, also when they are killed in the middle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import lakehouse
from lakehouse.lake import Lake
from lakehouse.storage.table import Table
from tests.kit.committing_process import Job, Writer, writers

SCHEMA = pa.schema({"who": pa.int64(), "number": pa.int64()})


class Place:
    """Where a table is."""

    def __init__(self, url: str, storage_options: dict[str, Any]) -> None:
        self._at = {"url": url, "storage_options": storage_options}

    def connect(self) -> Lake:
        """The warehouse, for this process."""
        return lakehouse.connect(**self._at)

    def job(self, who: int, last: int, **more: Any) -> Job:
        """Something for another process to do."""
        return Job(**self._at, table="db.t", who=who, last=last, **more)


@pytest.fixture
def place(bucket_url: str, storage_options: dict[str, Any]) -> Place:
    """In a bucket of the test's own."""
    return Place(f"{bucket_url}/warehouse", storage_options)


async def made(lake: Lake, **layout: Any) -> Table:
    """An empty table."""
    await lake.create_database("db")
    return await lake.create_table("db.t", SCHEMA, **layout)


async def rows_of(table: Table) -> list[tuple[int, int]]:
    """All rows, repetitions too."""
    return sorted((one["who"], one["number"]) for one in await table.scan().to_pylist())


async def commits_of(table: Table) -> dict[int, list[int]]:
    """Numbers that each process has committed, in the order of the snapshots."""
    found: dict[int, list[int]] = {}
    for one in (await table.snapshots()).to_pylist():
        if one["message"]:
            who, number = map(int, one["message"].split(":"))
            found.setdefault(who, []).append(number)
    return found


async def answers_of(started: list[Writer]) -> list[list[dict[str, Any]]]:
    """Lets processes commit at once, until they end by themselves."""
    for one in started:
        one.begin()
    return [await asyncio.to_thread(one.answers) for one in started]


@pytest.mark.parametrize("layout", [{}, {"primary_key": ["who", "number"]}], ids=["append-only", "keyed"])
async def test_commits_of_four_processes_are_there_once(place: Place, layout: dict[str, Any]) -> None:
    """Four processes that commit twenty times each at once leave eighty commits, each in its order."""
    async with place.connect() as lake:
        table = await made(lake, **layout)
        with writers([place.job(who, 19) for who in range(4)]) as started:
            answers = [one for found in await answers_of(started) for one in found]
        assert len(answers) == 80
        assert await rows_of(table) == [(who, number) for who in range(4) for number in range(20)]
        assert await table.current_snapshot() == 81
        assert await commits_of(table) == {who: list(range(20)) for who in range(4)}
    for one in answers:
        once = 2 if one["number"] == 0 else 0
        assert 2 <= one["requests"] <= 2 + once + 4 * (one["attempts"] - 1), (
            "a file, a snapshot; once in a process the store's proof and time; four for a lost race"
        )


async def test_one_process_of_four_gets_a_key(place: Place) -> None:
    """Of four processes that insert the same keys one gets each, and the others are told."""
    async with place.connect() as lake:
        table = await made(lake, primary_key="number")
        with writers([place.job(who, 9, how="insert") for who in range(4)]) as started:
            answers = await answers_of(started)
        assert [len(found) for found in answers] == [10] * 4
        won = [
            (who, one["number"]) for who, found in enumerate(answers) for one in found if "taken" not in one
        ]
        assert sorted(number for _, number in won) == list(range(10))
        assert await rows_of(table) == sorted(won)


async def test_killed_processes_lose_nothing_that_was_acknowledged(place: Place) -> None:
    """Whenever processes are killed: what was answered is there, once and in order, at most one more is."""
    chance = random.Random(7)
    async with place.connect() as lake:
        table = await made(lake)
        with writers([place.job(who, 999) for who in range(4)]) as started:

            async def kill_soon(one: Writer) -> list[dict[str, Any]]:
                one.begin()
                found = await asyncio.to_thread(one.answers, chance.randrange(1, 8))
                await asyncio.sleep(chance.uniform(0, 0.03))
                one.kill()
                return found + await asyncio.to_thread(one.answers)

            answers = await asyncio.gather(*map(kill_soon, started))
        there, committed = Counter(await rows_of(table)), await commits_of(table)
        assert set(there.values()) == {1}
        for who, found in enumerate(answers):
            answered, visible = [one["number"] for one in found], committed.get(who, [])
            assert visible == list(range(len(visible)))
            assert answered == visible[: len(answered)]
            assert len(visible) - len(answered) in (0, 1)
            assert sorted(number for other, number in there if other == who) == visible
        assert await table.current_snapshot() == 1 + len(there)


async def test_killed_processes_go_on_by_their_sequences(place: Place) -> None:
    """Processes that are killed and started again behind their last answer leave every row once."""
    chance, last, rounds = random.Random(11), 9, 3
    async with place.connect() as lake:
        table = await made(lake)
        first = dict.fromkeys(range(3), 0)
        for turn in range(rounds):
            jobs = [place.job(who, last, first=number, how="sequence") for who, number in first.items()]
            with writers(jobs) as started:
                for one in started:
                    one.begin()
                if turn < rounds - 1:
                    await asyncio.sleep(chance.uniform(0.02, 0.15))
                    for one in started:
                        one.kill()
                for who, one in enumerate(started):
                    found = await asyncio.to_thread(one.answers)
                    first[who] = max([first[who], *(answer["number"] + 1 for answer in found)])
        assert await rows_of(table) == [(who, number) for who in range(3) for number in range(last + 1)]
        assert await commits_of(table) == {who: list(range(last + 1)) for who in range(3)}


async def test_commits_of_sixteen_tasks_are_there_once(place: Place) -> None:
    """Sixteen tasks of one process that commit twenty times each lose no race and no row."""
    async with place.connect() as lake:
        table = await made(lake)
        await table.current_snapshot()

        async def work(who: int) -> int:
            done = [await table.append([{"who": who, "number": number}]) for number in range(20)]
            return sum(one.attempts for one in done)

        assert sum(await asyncio.gather(*map(work, range(16)))) == 320
        assert await rows_of(table) == [(who, number) for who in range(16) for number in range(20)]
        assert await table.current_snapshot() == 321
