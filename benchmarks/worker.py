"""Work in other processes: one line of JSON asks, one line answers.

:class:`Worker` is the end that asks, :func:`serve` the one that answers. A worker may run under
another interpreter, with other packages, so nothing but the standard library is needed here.
What a worker prints besides goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Worker", "WorkerFailedError", "commits", "serve", "started"]

_ROOT = Path(__file__).parents[1]
_LINE_BYTES_MAX = 64 * 1024 * 1024
_END_S = 10.0

Command = Callable[..., Any]
"""Takes JSON values by name and returns one, sync or async."""


class WorkerFailedError(Exception):
    """What was asked could not be done; the message is the worker's traceback."""


class Worker:
    """A process that does what it is asked, one thing after the other. Made by :func:`started`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, command: str, /, **arguments: Any) -> Any:
        """The answer to a command; WorkerFailedError when it raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, arguments]).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise WorkerFailedError(f"the worker ended with status {await self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerFailedError(answer["error"])
        return answer["result"]


@contextlib.asynccontextmanager
async def started(module: str, *arguments: str, python: str | Path = sys.executable) -> AsyncIterator[Worker]:
    """A worker that runs a module of this repository; it ends with the block, or with this process.

    Args:
        module: calls :func:`serve`.
        arguments: of its command line.
        python: the interpreter.
    """
    process = await asyncio.create_subprocess_exec(
        python,
        *("-m", module, *arguments),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES_MAX,
    )
    try:
        yield Worker(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def serve(commands: Mapping[str, Command]) -> None:
    """Answers until there are no more questions."""
    answers = os.fdopen(os.dup(1), "w")
    # Libraries that print must not end up among the answers.
    os.dup2(2, 1)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, arguments = json.loads(line)
        try:
            result = commands[command](**arguments)
            if inspect.isawaitable(result):
                result = await result
            answer = {"result": result}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


async def commits(
    commit: Callable[[int], Awaitable[Any]], first: int, count: int, tasks: int = 1
) -> list[dict[str, Any]]:
    """Commits of single rows by tasks, ``count`` by each: the row, seconds and error of every one."""
    done: list[dict[str, Any]] = []

    async def work(begin: int) -> None:
        for number in range(begin, begin + count):
            began = time.perf_counter()
            error = None
            try:
                await commit(number)
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
            done.append({"id": number, "seconds": time.perf_counter() - began, "error": error})

    async with asyncio.TaskGroup() as group:
        for task in range(tasks):
            group.create_task(work(first + task * count))
    return done
