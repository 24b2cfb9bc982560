"""Admission of sections: as many as there is room for, one in any case, few at first with a limit."""

from __future__ import annotations

from typing import Any

import anyio
import pyarrow as pa
import pytest

from lakehouse.config import TableSettings
from lakehouse.format.schema import Field, Primitive
from lakehouse.storage.rows.row_size import RowSize
from lakehouse.storage.scan.admission import Gate, Work
from lakehouse.storage.scan.sections import Section, SectionPart

FIELD = Field(id=1, name="id", type=Primitive("int64"))


def gate_of(memory: int, *, concurrency: int = 8, limit: int | None = None) -> Gate:
    """Returns a gate for rows of 8 bytes."""
    settings = TableSettings(scan_memory_bytes=memory, scan_concurrency=concurrency)
    return Gate(settings, RowSize([FIELD], [FIELD], []), limit)


def section_of(*fresh: int, used: int | None = None) -> Section:
    """Returns a section of parts with so many rows; ``used`` is that of a part that one before has read."""

    def part(rows: int) -> SectionPart:
        reader: Any = None
        return SectionPart(
            reader=reader,
            pieces=(0, 1),
            piece_rows=(rows - 1, 1),
            low=b"",
            high=b"",
            age=0,
            wanted=True,
            matches=False,
            spans=False,
        )

    parts = [part(rows) for rows in fresh]
    more = [] if used is None else [part(used)]
    return Section(low=None, high=None, parts=(*parts, *more), fresh=frozenset(parts), merges=False)


async def admitted(gate: Gate, *weights: int) -> list[int]:
    """Returns the weights of the sections that get in, one after another, while none leaves."""
    inside: list[int] = []

    async def enter_all() -> None:
        for weight in weights:
            await gate.enter(weight)
            inside.append(weight)

    async with anyio.create_task_group() as group:
        group.start_soon(enter_all)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    return inside


async def test_sections_get_in_while_there_is_room() -> None:
    """Sections under way weigh no more than the memory allows."""
    assert await admitted(gate_of(100), 40, 60, 1) == [40, 60]


async def test_one_section_gets_in_whatever_its_weight() -> None:
    """A section that is larger than all memory is read alone."""
    assert await admitted(gate_of(100), 1_000, 1) == [1_000]


async def test_no_more_sections_than_the_setting_allows() -> None:
    """Sections without weight are bounded by their number."""
    assert await admitted(gate_of(100, concurrency=3), 0, 0, 0, 0) == [0, 0, 0]


async def test_a_section_that_leaves_makes_room() -> None:
    """Whoever waits gets in when a section was handed out."""
    gate = gate_of(100)
    await gate.enter(80)
    entered = anyio.Event()

    async def wait() -> None:
        await gate.enter(80)
        entered.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not entered.is_set()
        gate.leave(80)
        with anyio.fail_after(5):
            await entered.wait()


async def test_a_limited_scan_begins_with_one_section() -> None:
    """With a limit sections come one at first, and twice as many each time that one was handed out."""
    gate = gate_of(1 << 20, limit=10)
    assert await admitted(gate, 0, 0) == [0]
    gate.leave(0)
    assert await admitted(gate, 0, 0, 0) == [0, 0]
    gate.leave(0)
    assert await admitted(gate, *[0] * 9) == [0] * 3


@pytest.mark.parametrize(
    ("memory", "concurrency", "rows"), [(6_400, 8, 100), (6_400, 2, 200), (6_400, 1, 400), (1, 8, 1)]
)
def test_sections_are_of_a_size_that_some_fit_in(memory: int, concurrency: int, rows: int) -> None:
    """Four sections of two copies of each row fill the memory, fewer where fewer are under way at once."""
    assert gate_of(memory, concurrency=concurrency).target_rows == rows


async def test_a_limited_scan_wants_few_rows_first() -> None:
    """The first section has no more rows than the limit, later ones more and more, up to what fits."""
    gate = gate_of(6_400, limit=30)
    found = []
    for _ in range(4):
        found.append(gate.target_rows)
        await gate.enter(0)
        gate.leave(0)
    assert found == [30, 60, 100, 100]


def test_rows_that_were_read_before_weigh_nothing() -> None:
    """A section weighs two copies of the rows of its parts that none before it has."""
    gate = gate_of(100)
    assert gate.weight(section_of(10, 5)) == 15 * 8 * 2
    assert gate.weight(section_of(10, used=1_000)) == 10 * 8 * 2


def test_work_is_handed_over_once() -> None:
    """A section, and then its rows, are taken out once, so that nobody else holds them."""
    section, table = section_of(1), pa.table({"id": [1]})
    work = Work(section, 16)
    assert (work.take_section(), work.weight) == (section, 16)
    work.table = table
    assert work.take_table() is table
    for take in (work.take_section, work.take_table):
        with pytest.raises(AssertionError):
            take()
