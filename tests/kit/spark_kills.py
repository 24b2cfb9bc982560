"""Drivers of Spark that are killed: what they do, and who kills them.

``python -m tests.kit.spark_kills writes|stream URL LAST`` is a driver of its own, with storage options as
JSON in ``STORAGE`` and Spark's master in ``MASTER``. It begins from the first step whenever it is started;
what it did before, it must find done. :func:`run_to_the_end` starts it, kills workers and whole drivers at
random moments, starts it again, and asks for a look at the tables after every kill.

Workers are those of tasks, which Spark does again. Python processes that plan for the driver are killed with
it: Spark ends a query whose planner is lost.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakehouse.spark
from lakehouse.spark import Connection

ROWS = 300
"""Rows of a step."""
KEYS = 1_000
"""Keys that steps write."""
ROOT = Path(__file__).parents[2]
_SILENCE_S = 300.0
"""A driver that says nothing for so long hangs; how long all of it takes depends on the machine."""
_LOOK_S = 2.0
_POLL_S = 0.1
_TASK_WORKER = "pyspark.worker"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def keys_of(step: int) -> list[int]:
    """The keys that a step upserts."""
    return [(step * 311 + number * 7) % KEYS for number in range(ROWS)]


def _rows(spark: SparkSession, step: int) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr(f"({step} * 311 + id * 7) % {KEYS} AS id", f"{step} AS step")


def writes(spark: SparkSession, last: int) -> None:
    """Steps of an append, an upsert, and every third time a compaction."""
    for step in range(1, last + 1):
        rows = _rows(spark, step)
        lakehouse.spark.write(rows, "db.log").append(writer=("log", step))
        done = lakehouse.spark.write(rows, "db.state").upsert(writer=("state", step))
        if step % 3 == 0 and done.changed:
            lakehouse.spark.compact(spark, "db.state", full=True)
        print("step", step, flush=True)


def stream(spark: SparkSession, last: int) -> None:
    """A query that copies a table, batch by batch, to another one."""
    incoming = spark.readStream.format("lakehouse").option("max_rows_per_trigger", ROWS).load("db.log")
    query = lakehouse.spark.write_stream(
        incoming, "db.copies", checkpoint=os.environ["CHECKPOINT"], trigger={"availableNow": True}
    )
    seen = None
    while not query.awaitTermination(_LOOK_S):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != seen:
            seen = progress["batchId"]
            print("batch", seen, flush=True)
    print("step", last, flush=True)


def main(what: str, url: str, last: str) -> None:
    """The driver."""
    spark = lakehouse.spark.session(
        "killed", master=os.environ["MASTER"], memory="512m", config={"spark.sql.shuffle.partitions": "2"}
    )
    lakehouse.spark.register(spark, Connection(url=url, storage_options=json.loads(os.environ["STORAGE"])))
    print("started", flush=True)
    {"writes": writes, "stream": stream}[what](spark, int(last))
    spark.stop()


# --- the killer ---------------------------------------------------------------------------


def run_to_the_end(
    what: str,
    url: str,
    storage: Mapping[str, Any],
    *,
    last: int,
    driver_kills: int,
    worker_kills: int,
    seed: int,
    look: Callable[[], None],
    master: str,
) -> None:
    """Runs a driver until it has ended by itself.

    Args:
        what: ``writes`` or ``stream``.
        url: of the warehouse.
        storage: its options.
        last: how many steps there are.
        driver_kills: how often the driver is killed, with its JVM and its workers.
        worker_kills: how many of its workers (or executors) are killed besides, in each of its lives.
        seed: of the moments.
        look: called after each kill.
        master: of Spark; tasks are to be tried again.
    """
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as checkpoint:
        environment = {
            **os.environ,
            "STORAGE": json.dumps(dict(storage)),
            "MASTER": master,
            "CHECKPOINT": f"file://{checkpoint}",
            "PYTHONPATH": str(ROOT),
        }
        for life in range(driver_kills + 1):
            with subprocess.Popen(
                [sys.executable, "-m", "tests.kit.spark_kills", what, url, str(last)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                start_new_session=True,
            ) as driver:
                try:
                    _one_life(driver, moments, worker_kills, ends=life == driver_kills)
                finally:
                    _kill_group(driver)
            look()


def _one_life(driver: subprocess.Popen[bytes], moments: random.Random, workers: int, *, ends: bool) -> None:
    """Kills workers at random moments; then the driver, unless this life may end by itself."""
    said = _Said(driver)
    while (line := said.line()) != "started":
        assert line, f"the driver ended with status {driver.wait()}"
    for _ in range(workers):
        time.sleep(moments.uniform(0.2, 2.0))
        while not (found := _workers(driver.pid)) and driver.poll() is None:
            time.sleep(_POLL_S)
        if found:
            _kill(moments.choice(found))
    if not ends:
        time.sleep(moments.uniform(0.5, 6.0))
        return
    while said.line():
        pass
    assert driver.wait() == 0, f"the driver ended with status {driver.returncode}: {said.lines}"


class _Said:
    """What a driver says, as it says it."""

    def __init__(self, driver: subprocess.Popen[bytes]) -> None:
        assert driver.stdout is not None
        self.lines: list[str] = []
        self._from, self._rest = driver.stdout.fileno(), b""

    def line(self) -> str:
        """The next line; empty = it has ended."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], _SILENCE_S)
            assert ready, f"nothing came for {_SILENCE_S:g} s after {self.lines}"
            more = os.read(self._from, 1 << 16)
            if not more:
                return ""
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        self.lines.append(line.decode())
        return self.lines[-1]


def _kill_group(driver: subprocess.Popen[bytes]) -> None:
    """The driver, its JVM and its workers, none of which can say goodbye."""
    for pid in [driver.pid, *(pid for pid, _ in _descendants(driver.pid))]:
        _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _workers(driver: int) -> list[int]:
    """Processes of tasks below a driver: Python workers, the daemon that forks them, and executors."""
    found = []
    for pid, _ in _descendants(driver):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        except OSError:
            continue
        if words[-1] == _TASK_WORKER or _EXECUTOR in words:
            found.append(pid)
    return found


def _descendants(root: int) -> list[tuple[int, str]]:
    """Processes below one, parents first, with their names."""
    children: dict[int, list[tuple[int, str]]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = place.read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        children.setdefault(int(rest[1]), []).append((int(place.parent.name), name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(0), [])
        found += below
        todo += [pid for pid, _ in below]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
