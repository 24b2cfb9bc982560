"""Work in executors: values go out, values come back, and what failed for good comes back as itself.

Invariant: results are in the order of the tasks, one for each. An error that another try cannot mend is
raised in the driver as it was in the executor; all others are left to Spark, which tries again, and raised
when it gives up.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lakehouse.errors import CorruptionError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.spark.runtime.errors import carried, plain_errors

__all__ = ["TaskDone", "cores_of", "run_tasks"]

T = TypeVar("T")
R = TypeVar("R")

_FINAL: tuple[type[LakehouseError], ...] = (InvalidInputError, CorruptionError, NotFoundError)
"""Errors that come again however often a task is tried."""
_SCHEMA = "task long, outcome binary"
_ARROW = pa.schema({"task": pa.int64(), "outcome": pa.binary()})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone(Generic[R]):
    """Result of a task, and how it came about."""

    value: R
    attempt: int
    """Number of the attempt that did it; 0 = the first."""
    seconds: float
    """Time that the work took in the executor."""


def cores_of(spark: SparkSession) -> int | None:
    """Returns how many tasks run at once; None = a Connect session, which does not say."""
    context = getattr(spark, "sparkContext", None)
    return None if context is None else int(context.defaultParallelism)


def run_tasks(spark: SparkSession, work: Callable[[T], R], tasks: Sequence[T]) -> list[TaskDone[R]]:
    """Calls a function with each task, each in a Spark task of its own.

    Args:
        spark: the session; classic or Connect.
        work: is pickled by value where it is no module's function.
        tasks: values that can be pickled.

    Raises:
        LakehouseError: the first error by order of the tasks that no other try can mend, or the one for which
            Spark gave up.
    """
    if not tasks:
        return []
    sent = [pickle.dumps(task) for task in tasks]

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with carried():
                    outcome = _outcome(work, sent[number])
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int64()), pa.array([outcome], pa.binary())], schema=_ARROW
                )

    with plain_errors():
        rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(each, _SCHEMA).collect()
    outcomes: dict[int, Any] = {row.task: pickle.loads(bytes(row.outcome)) for row in rows}  # noqa: S301 - ours
    for number in sorted(outcomes):
        if isinstance(outcomes[number], LakehouseError):
            raise outcomes[number]
    return [outcomes[number] for number in range(len(tasks))]


def _outcome(work: Callable[[Any], Any], sent: bytes) -> bytes:
    context = TaskContext.get()
    began = time.monotonic()
    try:
        value = work(pickle.loads(sent))  # noqa: S301 - written by the driver
    except _FINAL as error:
        # Raised here, it would be tried again, to no avail: it travels as a value instead.
        return pickle.dumps(error)
    attempt = context.attemptNumber() if context is not None else 0
    return pickle.dumps(TaskDone(value=value, attempt=attempt, seconds=time.monotonic() - began))
