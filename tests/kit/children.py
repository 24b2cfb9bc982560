"""A program whose children work on the tables that it has worked on: ``python -m tests.kit.children JSON``.

It reads and writes, keeps its lake open, and starts children in every way there is; they connect
themselves, read and write. It prints what each child found, and ends with an error when one hangs.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

import lakehouse.sync

__all__ = ["Plan", "Told", "run"]

multiprocessing.set_forkserver_preload(["lakehouse.sync", "lakehouse.io.backends.s3", "numba"])
ROWS = 3_000
_AT_ONCE = 4
_PATIENCE_S = 60
"""A child that takes longer hangs: a request that nobody answers takes 120 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where the table is, and how many children to start in which way."""

    url: str
    storage_options: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    children: dict[str, int]
    """By ``fork``, ``spawn``, ``forkserver``, or ``bare`` for a fork without multiprocessing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a child found."""

    how: str
    rows: int
    """Of those that were there when it was started."""
    got: bool
    """Whether its own row was there afterwards."""


def run(plan: Plan) -> list[Told]:
    """What every child of a program of its own found."""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-m", __name__]
    words = json.dumps(dataclasses.asdict(plan))
    done = subprocess.run([*command, words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return [Told(**json.loads(line)) for line in done.stdout.splitlines()]


def _work(plan: Plan, how: str, number: int) -> Told:
    """Reads and writes in every way that has threads behind it."""
    options = plan.storage_options
    with lakehouse.sync.connect(plan.url, storage_options=options, settings=plan.settings) as lake:
        table = lake.table("db.t")
        rows = table.scan(f"id < {ROWS} and note = 'old'").to_arrow().num_rows
        assert table.get({"id": 1}) == {"id": 1, "note": "old"}
        table.upsert([{"id": number, "note": "new"}])
        got = table.get({"id": number}) == {"id": number, "note": "new"}
    return Told(how=how, rows=rows, got=got)


def _child(plan: Plan, how: str, number: int, parent: Connection) -> None:
    parent.send(_work(plan, how, number))
    parent.close()


def _started(plan: Plan, how: str, number: int) -> Iterator[Told | None]:
    """Starts a child in the first step of the iteration; what it told is the second."""
    ours, theirs = multiprocessing.Pipe()
    if how == "bare":
        pid = os.fork()
        if not pid:
            _child(plan, how, number, theirs)
            sys.stdout.flush()
            os._exit(0)
    else:
        process = multiprocessing.get_context(how).Process(target=_child, args=(plan, how, number, theirs))
        process.start()
        pid = process.pid or 0
    theirs.close()
    yield None
    if not ours.poll(_PATIENCE_S):
        raise SystemExit(f"child {number} ({how}) hangs")
    told = ours.recv()
    if how == "bare":
        os.waitpid(pid, 0)
    else:
        process.join(_PATIENCE_S)
        assert process.exitcode == 0, f"child {number} ({how}) ended with {process.exitcode}"
    yield told


def _prepare(lake: lakehouse.sync.Lake) -> None:
    lake.create_database("db")
    table = lake.create_table(
        "db.t", pa.schema({"id": pa.int64(), "note": pa.string()}), primary_key="id", bucket=2
    )
    for part in range(2):
        table.upsert([{"id": one, "note": "old"} for one in range(part, ROWS, 2)])
    with table.writer() as writer:
        writer.put([{"id": 0, "note": "old"}]).wait()
    table.compact(full=True)
    assert table.scan().to_arrow().num_rows == ROWS
    assert table.get({"id": 1}) is not None


def _tell(told: Told | None) -> None:
    assert told is not None
    print(json.dumps(dataclasses.asdict(told)), flush=True)


def main(plan: Plan) -> None:
    """Starts the children, a few at once."""
    options = plan.storage_options
    with lakehouse.sync.connect(plan.url, storage_options=options, settings=plan.settings) as lake:
        _prepare(lake)
        numbers = iter(range(ROWS, 1 << 30))
        waiting: list[Iterator[Told | None]] = []
        for how, count in plan.children.items():
            for _ in range(count):
                waiting.append(_started(plan, how, next(numbers)))
                next(waiting[-1])
                if len(waiting) == _AT_ONCE:
                    _tell(next(waiting.pop(0)))
        for one in waiting:
            _tell(next(one))
        assert lake.table("db.t").scan(f"id >= {ROWS}").count() == sum(plan.children.values())


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
