"""Jobs in executors: a table that tasks open, work in waves, progress, cost and memory.

A job is planned in the driver with the engine's own planners. Its tasks are values; each is done by a
coroutine of the engine in a Spark task of its own, and its result goes back to the driver, which
commits. Tasks that belong together (the parts of one merge unit) are in one wave; two waves are under way
at a time, and what a wave made is committed while the next is at work, so that a long job loses little to
an error. Spark repeats a task that is lost; what the task had uploaded is an orphan then.

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
from lakehouse.io.work import ProgressCallback, ProgressReporter
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
        """Opens the table in the calling process; returns it with the process's lake."""
        house = warehouse(self.connection)
        error = NotFoundError(
            f"{self.name} is another table now than the one the job began with: somebody has dropped or "
            "renamed it meanwhile",
            table=self.name,
        )
        return house, house.same_table(self.name, self.uuid, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Generic[R]):
    """Result of a task, and its cost."""

    value: R
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent(Generic[T]):
    """A task on its way."""

    task: T
    weight: int
    """Share of the step's progress, in the unit of its total."""


def _context(spark: SparkSession) -> SparkContext | None:
    """Returns the session's context; None = a Connect session, which has none."""
    context: SparkContext | None = getattr(spark, "sparkContext", None)
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counter of finished work, which travels with tasks."""

    accumulator: Accumulator[int] | None
    """Spark's own counter; None under Connect."""

    def add(self, weight: int) -> None:
        """Adds finished work, which Spark counts for the attempt that it takes."""
        if self.accumulator is not None:
            self.accumulator.add(weight)


class _Counter:
    """Progress of a step: by Spark's counter, or under Connect by the pieces of work that have ended."""

    def __init__(self, spark: SparkSession, report: Callable[[int], None]) -> None:
        context = _context(spark)
        self.tally = Tally(accumulator=context.accumulator(0) if context is not None else None)
        self._report = report
        self._shown = 0
        self._finished = 0

    def look(self) -> None:
        """Reports what Spark has counted since the last look."""
        if self.tally.accumulator is not None:
            self._show(self.tally.accumulator.value)

    def finished(self, weight: int) -> None:
        """Counts a piece of work that has ended, whether or not Spark has counted its tasks by now."""
        self._finished += weight
        self._show(self._finished)

    def _show(self, done: int) -> None:
        # Spark's counter lags behind the pieces that have ended; progress never goes back.
        if done > self._shown:
            self._report(done - self._shown)
            self._shown = done


class Job:
    """One job on one table, in the driver.

    Args:
        spark: the session; classic or Connect.
        table: ``db.table``.
        connection: the warehouse; None = the one that was registered.
        progress: called with how far the job has got, by tasks that are done; under Connect by waves.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: str,
        connection: Connection | None,
        progress: ProgressCallback | None,
    ) -> None:
        self.spark = spark
        chosen = connection_of(spark, connection)
        self.house = warehouse(chosen)
        self.core = self.house.table(table)
        self.at = TableAt(connection=chosen, name=table, uuid=self.core.uuid)
        self._own, self._paid = Cost(), Cost()
        self._tell = progress
        self.reporter = ProgressReporter(progress)
        context = _context(spark)
        self.slots = context.defaultParallelism if context is not None else _SLOTS_UNKNOWN
        """Number of tasks that run at once, about."""
        self.slots_of_machine = self._slots_of_machine(context)
        """Number of tasks that share the memory of a machine; 0 = one for each of its cores."""

    @property
    def cost(self) -> Cost:
        """Cost of the driver, and of all tasks that counted."""
        return self._own + self._paid

    def pay(self, cost: Cost) -> None:
        """Adds the cost of tasks."""
        self._paid = self._paid + cost

    def _slots_of_machine(self, context: SparkContext | None) -> int:
        if context is not None and context.master.startswith("local"):
            return self.slots
        cores = self.spark.conf.get("spark.executor.cores", None)
        return int(cores) if cores is not None else 0

    def call(self, work: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs a coroutine of the engine in the driver, counts its cost and returns its result."""

        async def counted() -> R:
            with counting(self._own):
                return await work(*args, **kwargs)

        return self.house.call(counted)

    def task_memory(self) -> int:
        """Returns how many bytes of rows and files a task may hold; asks an executor, whose limits count."""
        answers: list[int] = []
        self.run(
            "ask executors",
            memory_of_task,
            [[self.slots_of_machine]],
            lambda results: answers.extend(answer for _, [answer] in results),
        )
        return answers[0]

    @contextlib.contextmanager
    def holding(self, view: View) -> Generator[None, None, None]:
        """Keeps a state while the block runs, so that the files of tasks stay, however long these take."""

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
            done: called in the driver, wave by wave, with the results of every unit and its number.
            weight: share of a task in the progress.
        """
        waves = waves_of(units, max(1, self.slots * _WAVE_TASKS))

        def begun(wave: Sequence[int]) -> Callable[[Tally], list[Counted[R]]]:
            return partial(self._wave, [units[at] for at in wave], work, weight)

        def settled(number: int, results: list[Counted[R]]) -> None:
            values = iter([result.value for result in results])
            for result in results:
                self.pay(result.cost)
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
        """Makes Spark do pieces of work in order, two at a time, and reports progress.

        Args:
            step: what progress calls it.
            works: each blocks until it is done; tasks in executors may count with what it gets.
            weights: share of each in the progress.
            done: called in the caller's thread with the number of a piece and its result.
        """
        counter = _Counter(self.spark, partial(self._report, step, sum(weights)))
        with _Threads(self.spark) as threads:
            waiting = {threads.submit(partial(work, counter.tally)): at for at, work in enumerate(works)}
            while waiting:
                ended, _ = concurrent.futures.wait(
                    waiting, timeout=_POLL_S, return_when=concurrent.futures.FIRST_COMPLETED
                )
                counter.look()
                for future in ended:
                    at = waiting.pop(future)
                    result = future.result()
                    counter.finished(weights[at])
                    done(at, result)

    def _report(self, step: str, total: int, more: int) -> None:
        self.reporter.step(step, more, total)

    def _wave(
        self,
        units: Sequence[Sequence[T]],
        work: Callable[[OpenTable, T], Awaitable[R]],
        weight: Callable[[T], int],
        tally: Tally,
    ) -> list[Counted[R]]:
        tasks = [_Sent(task=task, weight=weight(task)) for unit in units for task in unit]
        finished = run_tasks(self.spark, partial(_in_executor, self.at, work, tally), tasks)
        return [done.value for done in finished]


def waves_of(units: Sequence[Sequence[object]], width: int) -> list[list[int]]:
    """Divides units, by number and in order, into waves of about ``width`` tasks; units stay whole."""
    waves: list[list[int]] = []
    tasks = width  # as if a wave were full: the first unit begins one
    for number, unit in enumerate(units):
        if tasks >= width:
            waves.append([])
            tasks = 0
        waves[-1].append(number)
        tasks += len(unit)
    return waves


async def memory_of_task(table: OpenTable, slots: int) -> int:
    """Returns how many bytes of rows and files a task may hold; runs in an executor.

    Args:
        table: the table.
        slots: how many tasks share the memory of a machine; 0 = one for each core.
    """
    settings = table.env.settings
    wanted, cached = settings.table.compaction_memory_bytes, settings.cache.max_bytes
    return task_memory(wanted, slots, cached=cached)


def _in_executor(
    at: TableAt,
    work: Callable[[OpenTable, T], Awaitable[R]],
    tally: Tally,
    sent: _Sent[T],
) -> Counted[R]:
    house, table = at.opened()

    async def counted() -> Counted[R]:
        with measure() as cost:
            value = await work(table, sent.task)
        return Counted(value=value, cost=cost)

    result = house.call(counted)
    tally.add(sent.weight)
    return result


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
            # Else the executors would go on with work whose results nobody takes.
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._spark.interruptTag(self._tag)
        self._pool.shutdown()

    def submit(self, work: Callable[[], R]) -> concurrent.futures.Future[R]:
        """Begins the work in one of the threads."""

        def tagged() -> R:
            self._spark.addTag(self._tag)
            return work()

        future: concurrent.futures.Future[R] = self._pool.submit(self._inherit(tagged))
        return future
