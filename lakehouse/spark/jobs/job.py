"""What jobs have in common: a table that executors open, work in waves, progress, cost, memory.

A job is planned in the driver with the engine's own planners. Its tasks are values; each is done by a
coroutine of the engine in a Spark task of its own, and what it came to goes back to the driver, which
commits. Tasks that belong together (the parts of one merge unit) are in one wave; two waves are under way
at a time, and what a wave made is committed while the next is at work, so that a long job loses little to
an error. A task that is lost is done again by Spark, whatever it had uploaded is an orphan then.

Invariant: what a task did counts once, by the message of the attempt that Spark took; the same holds of
its cost and of progress.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from pyspark import Accumulator, SparkContext, inheritable_thread_target
from pyspark.sql import SparkSession

from lakehouse.errors import NotFoundError
from lakehouse.io.cost import Cost, counting, measure
from lakehouse.io.work import ProgressCallback, Teller
from lakehouse.spark.runtime.connection import Connection, Warehouse, warehouse
from lakehouse.spark.runtime.session_connection import connection_of
from lakehouse.spark.runtime.tasks import run_tasks
from lakehouse.spark.runtime.worker_memory import task_memory
from lakehouse.storage.tables import OpenTable, View, reading

__all__ = ["Counted", "Job", "TableAt", "Tally", "memory_of_task", "waves_of"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_WAVE_TASKS = 8
"""Tasks of a wave for each that can run at once."""
_WAVES = 2
"""Waves under way: one fills the executors while the last tasks of another come to their end."""
_POLL_S = 0.25
_SLOTS_UNKNOWN = 8
"""Tasks that are taken to run at once where Spark does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A table, as a value that travels."""

    connection: Connection
    name: str
    uuid: uuid.UUID

    def opened(self) -> tuple[Warehouse, OpenTable]:
        """The table and the process's lake, wherever this is called."""
        house = warehouse(self.connection)
        error = NotFoundError(
            f"{self.name} is another table now than the one the job began with: somebody has dropped or "
            "renamed it meanwhile",
            table=self.name,
        )
        return house, house.same_table(self.name, self.uuid, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Generic[R]):
    """What a task came to, and its cost."""

    value: R
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent(Generic[T]):
    """A task on its way."""

    task: T
    weight: int
    """How much of the progress it is."""


def _context(spark: SparkSession) -> SparkContext | None:
    """None = the session is a Connect one."""
    found: SparkContext | None = getattr(spark, "sparkContext", None)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Travels with tasks, and counts what they have done."""

    accumulator: Accumulator[int] | None
    """None under Connect."""

    def add(self, weight: int) -> None:
        """So much more is done, if the attempt counts."""
        if self.accumulator is not None:
            self.accumulator.add(weight)


class _Counter:
    """What tasks have done, as Spark tells; under Connect, as pieces of work end."""

    def __init__(self, spark: SparkSession, told: Callable[[int], None]) -> None:
        context = _context(spark)
        self.tally = Tally(accumulator=context.accumulator(0) if context is not None else None)
        self._told = told
        self._shown = 0
        self._finished = 0

    def look(self) -> None:
        """Tells what is new."""
        if self.tally.accumulator is not None:
            self._show(self.tally.accumulator.value)

    def finished(self, weight: int) -> None:
        """A piece is done: what it was is counted whether or not Spark told."""
        self._finished += weight
        self._show(self._finished)

    def _show(self, done: int) -> None:
        if done > self._shown:
            self._told(done - self._shown)
            self._shown = done


class Job:
    """One job on one table, in the driver.

    Args:
        spark: the session; classic or Connect.
        table: ``db.table``.
        connection: the warehouse; None = the one that was registered.
        progress: told how far the job has got, by tasks that are done. Under Connect it hears of waves.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: str,
        connection: Connection | None,
        progress: ProgressCallback | None,
    ) -> None:
        self.spark = spark
        found = connection_of(spark, connection)
        self.house = warehouse(found)
        self.core = self.house.table(table)
        self.at = TableAt(connection=found, name=table, uuid=self.core.uuid)
        self._own, self._paid = Cost(), Cost()
        self._tell = progress
        self.teller = Teller(progress)
        context = _context(spark)
        self.slots = context.defaultParallelism if context is not None else _SLOTS_UNKNOWN
        """About how many tasks run at once."""
        self.slots_of_machine = self._slots_of_machine(context)
        """How many of them share the memory of a machine; 0 = one for each of its cores."""

    @property
    def cost(self) -> Cost:
        """Of the driver, and of all tasks that counted."""
        return self._own + self._paid

    def pay(self, cost: Cost) -> None:
        """Adds what tasks cost."""
        self._paid = self._paid + cost

    def _slots_of_machine(self, context: SparkContext | None) -> int:
        if context is not None and context.master.startswith("local"):
            return self.slots
        cores = self.spark.conf.get("spark.executor.cores", None)
        return int(cores) if cores is not None else 0

    def call(self, work: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """What a coroutine of the engine returns, run in the driver."""

        async def counted() -> R:
            with counting(self._own):
                return await work(*args, **kwargs)

        return self.house.call(counted)

    def task_memory(self) -> int:
        """Bytes of rows and files that a task may hold, as an executor says it."""
        found: list[int] = []
        self.run(
            "ask executors",
            memory_of_task,
            [[self.slots_of_machine]],
            lambda results: found.extend(one for _, [one] in results),
        )
        return found[0]

    @contextlib.contextmanager
    def holding(self, view: View) -> Generator[None, None, None]:
        """Keeps a state while the block runs, so that what tasks read stays, however long they take."""

        @contextlib.asynccontextmanager
        async def hold() -> AsyncIterator[None]:
            with counting(self._own):
                async with reading(self.core, view):
                    yield

        with self.house.hold(hold):
            yield

    def run(
        self,
        step: str,
        work: Callable[[OpenTable, T], Awaitable[R]],
        units: Sequence[Sequence[T]],
        done: Callable[[Sequence[tuple[int, list[R]]]], None],
        *,
        weight: Callable[[T], int] = lambda _: 1,
    ) -> None:
        """Does tasks in executors.

        Args:
            step: what progress calls it.
            work: a coroutine function of a module; it gets the table and a task.
            units: tasks that belong together, the largest first.
            done: told, in the driver and wave by wave, the results of every unit by its number.
            weight: how much of the progress a task is.
        """
        waves = waves_of(units, max(1, self.slots * _WAVE_TASKS))

        def begun(wave: Sequence[int]) -> Callable[[Tally], list[Counted[R]]]:
            return partial(self._wave, [units[at] for at in wave], work, weight)

        def settled(number: int, results: list[Counted[R]]) -> None:
            values = iter([one.value for one in results])
            for one in results:
                self.pay(one.cost)
            done([(at, [next(values) for _ in units[at]]) for at in waves[number]])

        weights = [sum(weight(task) for at in wave for task in units[at]) for wave in waves]
        self.watch(step, [begun(wave) for wave in waves], weights, settled)

    def watch(
        self,
        step: str,
        works: Sequence[Callable[[Tally], R]],
        weights: Sequence[int],
        done: Callable[[int, R], None],
    ) -> None:
        """Makes Spark do pieces of work in order, two at a time, and tells how far it has got.

        Args:
            step: what progress calls it.
            works: each blocks until it is done; tasks in executors may count with what it gets.
            weights: how much of the progress each is.
            done: told, in the caller's thread, what a piece came to.
        """
        counter = _Counter(self.spark, partial(self._told, step, sum(weights)))
        with _Threads(self.spark) as threads:
            waiting = {threads.submit(partial(work, counter.tally)): at for at, work in enumerate(works)}
            while waiting:
                ended, _ = concurrent.futures.wait(
                    waiting, timeout=_POLL_S, return_when=concurrent.futures.FIRST_COMPLETED
                )
                counter.look()
                for future in ended:
                    at = waiting.pop(future)
                    found = future.result()
                    counter.finished(weights[at])
                    done(at, found)

    def _told(self, step: str, total: int, more: int) -> None:
        self.teller.step(step, more, total)

    def _wave(
        self,
        units: Sequence[Sequence[T]],
        work: Callable[[OpenTable, T], Awaitable[R]],
        weight: Callable[[T], int],
        tally: Tally,
    ) -> list[Counted[R]]:
        tasks = [_Sent(task=task, weight=weight(task)) for unit in units for task in unit]
        found = run_tasks(self.spark, partial(_in_executor, self.at, work, tally), tasks)
        return [one.value for one in found]


def waves_of(units: Sequence[Sequence[object]], width: int) -> list[list[int]]:
    """Numbers of units in order, together so many that they have about ``width`` tasks."""
    waves: list[list[int]] = []
    tasks = width
    for number, unit in enumerate(units):
        if tasks >= width:
            waves.append([])
            tasks = 0
        waves[-1].append(number)
        tasks += len(unit)
    return waves


async def memory_of_task(core: OpenTable, slots: int) -> int:
    """Bytes of rows and files that a task may hold; in an executor.

    Args:
        core: the table.
        slots: how many tasks share the memory of a machine; 0 = one for each core.
    """
    settings = core.env.settings
    wanted, cached = settings.table.compaction_memory_bytes, settings.cache.max_bytes
    return task_memory(wanted, slots, cached=cached)


def _in_executor(
    at: TableAt,
    work: Callable[[OpenTable, T], Awaitable[R]],
    tally: Tally,
    sent: _Sent[T],
) -> Counted[R]:
    house, core = at.opened()

    async def counted() -> Counted[R]:
        with measure() as cost:
            value = await work(core, sent.task)
        return Counted(value=value, cost=cost)

    found = house.call(counted)
    tally.add(sent.weight)
    return found


class _Threads:
    """Threads that make Spark work; when the block ends early, so does the work."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"lakehouse-{uuid.uuid4().hex}"
        self._pool = concurrent.futures.ThreadPoolExecutor(_WAVES, thread_name_prefix="lakehouse-job")
        self._inherit = inheritable_thread_target(spark)

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._spark.interruptTag(self._tag)
        self._pool.shutdown()

    def submit(self, work: Callable[[], R]) -> concurrent.futures.Future[R]:
        """Begins the work in one of the threads."""

        def tagged() -> R:
            self._spark.addTag(self._tag)
            return work()

        found: concurrent.futures.Future[R] = self._pool.submit(self._inherit(tagged))
        return found
