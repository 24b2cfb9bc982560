"""Every request of everything about the write-ahead log fails in every way: nothing acknowledged is lost.

A script is run once to see its requests. Then it is run again for each of them, on a copy of the table,
with a fault at that request. For a process that opens the table afresh afterwards: what was *done* is
there once and in its order, what *failed* is not, what is *unknown* may be, and so may what a process
did that ended. Whatever happened, the next writer goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from lakehouse.errors import FencedError, NotFoundError
from lakehouse.io import ObjectStore
from lakehouse.storage.table import Table
from lakehouse.storage.write.streaming_writer import TableWriter
from lakehouse.testing import Call, FaultKind, ManualClock, RecordingStore
from tests.cut_points.test_table_cut_points import MANY, Failing, check_files, plans, tags_of, told
from tests.kit.streaming import acknowledged, opened, vanish
from tests.kit.table_operations import LAYOUTS, OPERATIONS, Model, Operation, Shown, build, seen
from tests.kit.worlds import NAME, StepIn, World, process, restored, saved, table_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KEYED = "key holds partition"
MOVING = "rows move between partitions"
COVERED = [{"id": 2, "part": "a", "v": 7}, {"id": 20, "part": "b", "v": 1}]
TAIL = [{"id": 21, "part": "a", "v": 8}, {"id": 1, "part": "a", "v": 2}]
FIRST = [{"id": 30, "part": "a", "v": 30}, {"id": 21, "part": "a", "v": 31}]
SECOND = [{"id": 30, "part": "a", "v": 32}]
THEIRS = {"id": 50, "part": "b", "v": 50}
NEXT = {"id": 60, "part": "a", "v": 60}


_worlds: dict[str, tuple[World, Model]] = {}


async def streamed(layout: str) -> tuple[World, Model]:
    """A table with files, a covered segment, segments that nobody covers, and no writer any more."""
    if layout not in _worlds:
        world, model = await build(layout)
        store = await restored(world)
        writer = await opened(store)
        assert await acknowledged(writer, COVERED) == "done"
        await (await table_of(store)).set_comment("covered")
        assert await acknowledged(writer, TAIL) == "done"
        await vanish(writer)
        _worlds[layout] = await saved(store), model.put(*COVERED).put(*TAIL)
    return _worlds[layout]


async def fresh(table: Table) -> Shown:
    """What a reader sees that asks for everything acknowledged."""
    found = await table.scan(freshness="wal").to_arrow()
    return found.column_names, sorted(found.to_pylist(), key=repr)


async def go_on(store: ObjectStore, before: Shown) -> None:
    """The next writer takes over whatever was left, and loses none of it."""
    async with (await table_of(store)).writer() as writer:
        columns, rows = before
        row = {name: NEXT.get(name, 9) for name in columns}
        assert await acknowledged(writer, [row]) == "done"
    table = await table_of(store)
    assert await seen(table) == (columns, sorted([*rows, row], key=repr))
    assert await fresh(table) == await seen(table)
    assert not (await table._table.newest()).snapshot.segments
    await check_files(store)


# --- scripts of a writer --------------------------------------------------------------


@dataclass(slots=True)
class Told:
    """What a process was told of what it did, in order."""

    puts: list[tuple[str, Callable[[Model], Model]]] = field(default_factory=list)
    """Outcomes and what they would do to the table."""
    end: str = "done"
    """Of everything else."""

    def allowed(self, model: Model) -> list[Model]:
        """What the table may hold."""
        found = [model]
        for answer, change in self.puts:
            if answer == "done":
                found = [change(one) for one in found]
            elif answer != "failed":
                found += [change(one) for one in found]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Something that a process does with a writer."""

    name: str
    run: Callable[[TableWriter | Table, Told], Awaitable[None]]
    opens: bool = False
    """Whether it opens the writer itself."""
    leaves_none: bool = False
    """Whether the log is empty when it was done."""

    def __str__(self) -> str:
        return self.name


async def _puts(writer: TableWriter, told_: Told) -> None:
    told_.puts.append((await acknowledged(writer, FIRST), lambda one: one.put(*FIRST)))
    told_.puts.append((await acknowledged(writer, SECOND), lambda one: one.put(*SECOND)))


async def _flush(writer: TableWriter, told_: Told) -> None:
    await _puts(writer, told_)
    told_.end = await told(writer.flush())


async def _close(writer: TableWriter, told_: Told) -> None:
    await _puts(writer, told_)
    told_.end = await told(writer.close())


async def _open(table: Table, told_: Told) -> None:
    writer = table.writer()
    told_.end = await told(writer.__aenter__())
    if told_.end == "done":
        await told(writer.flush())
        await _puts(writer, told_)
        await vanish(writer)


SCRIPTS = (
    Script(name="puts", run=_puts),  # type: ignore[arg-type]
    Script(name="flush", run=_flush, leaves_none=True),  # type: ignore[arg-type]
    Script(name="close", run=_close, leaves_none=True),  # type: ignore[arg-type]
    Script(name="take over", run=_open, opens=True),  # type: ignore[arg-type]
)


async def run_script(script: Script, store: ObjectStore, prepared: Callable[[], None]) -> Told:
    """Lets a process do it, whose clock runs as it waits; ``prepared`` is called right before."""
    clock, found = ManualClock(skip=True), Told()
    table = await table_of(store, clock=clock)
    await table.current_snapshot()
    if script.opens:
        prepared()
        await script.run(table, found)
        return found
    writer = table.writer()
    await writer.__aenter__()
    await writer.flush()
    prepared()
    await script.run(writer, found)
    await vanish(writer)
    return found


@pytest.mark.parametrize(
    ("script", "layout"),
    [
        (script, layout)
        for script in SCRIPTS
        for layout in LAYOUTS
        if script.name == "flush" or layout == MOVING
    ],
    ids=lambda one: str(one).replace(" ", "-"),
)
async def test_every_cut_point_of_a_writer(script: Script, layout: str) -> None:
    """Acknowledged rows are there once and in order, by fresh reads and by the next writer's snapshots."""
    world, model = await streamed(layout)
    recording = RecordingStore(await restored(world))
    await run_script(script, recording, recording.clear)
    for number, kind, count in plans(list(recording.calls)):
        failing = Failing(await restored(world))

        def fail(
            failing: Failing = failing, number: int = number, kind: FaultKind = kind, count: int = count
        ) -> None:
            failing.fail(number, kind, count)

        answers = await run_script(script, failing.faulty, fail)
        await failing.over()
        where = (number, recording.calls[number], kind, count, [one for one, _ in answers.puts], answers.end)
        table = await table_of(failing.store)
        found = await fresh(table)
        assert found in [one.shown() for one in answers.allowed(model)], where
        if script.leaves_none and {answers.end, *(one for one, _ in answers.puts)} == {"done"}:
            assert await seen(table) == found, where
        await check_files(failing.store)
        if number % 2 == 0:
            await go_on(failing.store, found)


@pytest.mark.parametrize("script", [SCRIPTS[0], SCRIPTS[2]], ids=lambda one: one.name)
async def test_a_writer_survives_a_store_that_refuses_writes_for_a_while(script: Script) -> None:
    """Puts wait for a store that is away for less than the deadline, and are acknowledged then."""
    world, model = await streamed(KEYED)
    failing = Failing(await restored(world))
    answers = await run_script(script, failing.faulty, lambda: failing.fail(0, FaultKind.THROTTLE, MANY))
    await failing.over()
    assert ([one for one, _ in answers.puts], answers.end) == (["done", "done"], "done")
    assert await fresh(await table_of(failing.store)) == answers.allowed(model)[0].shown()


async def test_a_writer_gives_up_on_a_store_that_is_gone() -> None:
    """Past the deadline puts fail, and so does whatever follows; what was acknowledged is still there."""
    world, model = await streamed(KEYED)
    failing = Failing(await restored(world))
    answers = await run_script(SCRIPTS[2], failing.faulty, lambda: failing.fail(0, FaultKind.THROTTLE, 5_000))
    await failing.over()
    # A 503 leaves open whether the segment was written.
    assert [one for one, _ in answers.puts] == ["unknown", "unknown"]
    found = await fresh(await table_of(failing.store))
    assert found == model.shown()
    await go_on(failing.store, found)


@pytest.mark.parametrize("count", [1, MANY], ids=["once", "for a while"])
async def test_a_put_with_a_sequence_can_be_repeated_until_it_is_done(count: int) -> None:
    """However a put ended that carries a sequence, repeating it by the next writer leaves it there once."""
    world, model = await streamed("append-only")
    mark = ("loader", 5)

    async def put(store: ObjectStore, prepared: Callable[[], None]) -> str:
        table = await table_of(store, clock=ManualClock(skip=True))
        writer = table.writer()
        await writer.__aenter__()
        await writer.flush()
        prepared()
        answer = await acknowledged(writer, FIRST, writer=mark)
        await vanish(writer)
        return answer

    recording = RecordingStore(await restored(world))
    await put(recording, recording.clear)
    for number, kind, _ in plans(list(recording.calls)):
        failing = Failing(await restored(world))

        def fail(failing: Failing = failing, number: int = number, kind: FaultKind = kind) -> None:
            failing.fail(number, kind, count)

        await put(failing.faulty, fail)
        await failing.over()
        for _ in range(2):
            async with (await table_of(failing.store)).writer() as writer:
                assert await acknowledged(writer, FIRST, writer=mark) == "done"
        assert await seen(await table_of(failing.store)) == model.put(*FIRST).shown(), (number, kind)


# --- batch commits on a table with a log ----------------------------------------------


def with_a_put(store: ObjectStore, inner: ObjectStore, met: list[str]) -> ObjectStore:
    """A store on which a new writer flushes the log and puts a row right before a snapshot is created."""
    hooked = StepIn(store)

    async def step_in() -> None:
        writer = await opened(inner)
        await writer.flush()
        met.append(await acknowledged(writer, [THEIRS]))
        await vanish(writer)

    hooked.before(0, "/snapshot/", step_in, verb="put_if_absent")
    return hooked


async def requests_of(world: World, what: Operation, *, beside: bool) -> list[Call]:
    """What a call asks of the store when nothing fails."""
    inner = await restored(world)
    store = RecordingStore(inner)
    table = await table_of(with_a_put(store, inner, []) if beside else store)
    await table.current_snapshot()
    store.clear()
    await what.run(table)
    return store.calls


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-a-put"])
@pytest.mark.parametrize("what", OPERATIONS, ids=lambda one: one.name.replace(" ", "-"))
async def test_every_cut_point_of_a_commit_on_a_log(what: Operation, beside: bool) -> None:
    """A commit stands above what was acknowledged before it was called, and below what was put meanwhile."""
    world, model = await streamed(KEYED if what.needs_key else "append-only")
    for number, kind, count in plans(await requests_of(world, what, beside=beside)):
        failing, met = Failing(await restored(world)), list[str]()
        store = with_a_put(failing.faulty, failing.store, met) if beside else failing.faulty
        table = await table_of(store)
        await table.current_snapshot()
        failing.fail(number, kind, count)
        answer = await told(what.run(table))
        await failing.over()
        after = what.on(model)
        states = {"done": [after], "failed": [model]}.get(answer, [model, after])
        if met:
            assert met == ["done"]
            states = [one.put(THEIRS) for one in states]
        table = await table_of(failing.store)
        found = await fresh(table)
        assert (found, await tags_of(table)) in [(one.shown(), one.tags) for one in states], (
            number,
            kind,
            count,
            answer,
        )
        await check_files(failing.store)
        if number % 3 == 0:
            await go_on(failing.store, found)


# --- taking over, and dropping --------------------------------------------------------


async def fenced_attempts(
    world: World, call: Callable[[ObjectStore], Awaitable[object]]
) -> AsyncIterator[tuple[str, ObjectStore, TableWriter, str, str]]:
    """A call with every fault at every request, beside a writer of another process that puts after it."""
    recording = RecordingStore(await restored(world))
    await call(recording)
    for number, kind, count in plans(list(recording.calls)):
        failing = Failing(await restored(world))
        writer = await opened(failing.store)
        assert await acknowledged(writer, FIRST) == "done"
        failing.fail(number, kind, count)
        answer = await told(call(failing.faulty))
        later = await acknowledged(writer, SECOND)
        await failing.over()
        yield answer, failing.store, writer, later, f"{number} {recording.calls[number]} {kind} {count}"
        await vanish(writer)


async def test_every_cut_point_of_a_takeover_beside_a_writer() -> None:
    """One of the two has the log, or neither: rows of both stay as far as they were acknowledged."""
    world, model = await streamed(KEYED)
    model = model.put(*FIRST)

    async def take(store: ObjectStore) -> None:
        await vanish(await opened(store, clock=ManualClock(skip=True)))

    async for answer, store, writer, later, where in fenced_attempts(world, take):
        assert later in ("done", "failed"), where
        assert not (answer == "done" and later == "done"), where
        wanted = model.put(*SECOND) if later == "done" else model
        assert await fresh(await table_of(store)) == wanted.shown(), where
        await go_on(store, wanted.shown())
        with pytest.raises(FencedError):
            await (await writer.put([NEXT]))


async def test_every_cut_point_of_a_drop_beside_a_writer() -> None:
    """After a drop nothing is acknowledged; before, or when it failed, the table is there with all rows."""
    world, model = await streamed("append-only")
    model = model.put(*FIRST)

    async def drop(store: ObjectStore) -> None:
        await process(store, clock=ManualClock(skip=True)).drop_table(NAME)

    async for answer, store, writer, later, where in fenced_attempts(world, drop):
        gone = not await process(store).table_exists(NAME)
        if answer == "done":
            assert gone, where
            assert later == "failed", where
        try:
            table = await table_of(store)
            wanted = model.put(*SECOND) if later == "done" else model
            assert await fresh(table) == wanted.shown(), where
        except NotFoundError:
            assert answer != "failed", where
        await process(store).drop_table(NAME, if_exists=True)
        with pytest.raises((NotFoundError, FencedError)):
            await (await writer.put([NEXT]))
