"""obstore's threads: they do not survive a fork, and are done with Python before the interpreter ends."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lakehouse.io.backends import fast_runtime
from lakehouse.io.backends.fast_runtime import Requests
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket

PROGRAM = """
import asyncio, json, logging, os, sys
from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, NotFoundError
from lakehouse.io import open_store

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
URL, OPTIONS = json.loads(sys.argv[1])

async def get(fast_reads="auto", key="missing"):
    async with open_store(
        URL, storage_options=OPTIONS, settings=IoSettings(fast_reads=fast_reads)
    ) as store:
        await store.put_if_absent(f"{key}-{os.getpid()}", b"x", timed=False)
        return (await store.get(f"{key}-{os.getpid()}")).data

def in_child(work):
    sys.stdout.flush()
    if not (child := os.fork()):
        try:
            print(work())
        except InvalidInputError as error:
            print(error.kind, error)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture
def place(minio: ServerInfo) -> Iterator[str]:
    """URL and options of a bucket."""
    with fresh_bucket(minio) as name:
        yield json.dumps([f"s3://{name}", minio.storage_options])


def said(place: str, program: str) -> list[str]:
    """What a program prints."""
    command = [sys.executable, "-c", PROGRAM + program, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_child_goes_without_obstore_and_says_so_once(place: str) -> None:
    """A child of a process that used obstore asks the plain backend, and logs one line."""
    program = """
asyncio.run(get())
in_child(lambda: [asyncio.run(get(key=str(one))) for one in range(3)])
"""
    lines = said(place, program)
    assert lines[-1] == "[b'x', b'x', b'x']"
    assert [line for line in lines if "without obstore" in line] == lines[:-1]
    assert len(lines) == 2


def test_a_child_that_requires_obstore_is_told(place: str) -> None:
    """Where io.fast_reads is require, the error says what a fork did and what to do."""
    told = said(place, "asyncio.run(get()); in_child(lambda: asyncio.run(get('require')))")
    assert told[0].startswith("wrong-process io.fast_reads = require")
    assert "spawn" in told[0]


def test_a_child_of_a_process_without_obstore_may_use_it(place: str) -> None:
    """What was forked before obstore was loaded has threads of its own."""
    assert said(place, "in_child(lambda: asyncio.run(get('require'))); print('end')") == ["b'x'", "end"]


async def test_closing_waits_for_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is settled when nothing but its user refers to its future any more."""
    monkeypatch.setattr(fast_runtime, "_collect", lambda: None)
    requests = Requests()
    held: Any = [requests.follow(asyncio.get_running_loop().create_future())]
    settling = asyncio.create_task(requests.settle())
    for _ in range(3):
        await asyncio.sleep(0.002)
        assert not settling.done()
    held.clear()
    gc.collect()
    await settling


async def test_a_thread_that_never_returns_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that hangs does not hold up the end of its process."""
    monkeypatch.setattr(fast_runtime, "_collect", lambda: None)
    monkeypatch.setattr(fast_runtime, "_SETTLING_MAX_S", 0.01)
    requests = Requests()
    future = requests.follow(asyncio.get_running_loop().create_future())
    await requests.settle()
    assert not future.done()


def test_scripts_that_fail_end_with_their_own_exit_code(place: str) -> None:
    """A script whose last request failed, and that closes nothing, ends with the code that it chose."""
    program = """
import collections
import lakehouse.io.backends.fast

async def fail():
    store = open_store(URL, storage_options=OPTIONS, settings=IoSettings(fast_reads="require"))
    try:
        await store.get("missing")
    except NotFoundError:
        sys.exit(3)

async def load():  # what takes long, once, and without obstore
    async with open_store(URL, storage_options=OPTIONS, settings=IoSettings(fast_reads="off")) as store:
        await store.exists("missing")

asyncio.run(load())
assert "obstore" not in sys.modules
codes = collections.Counter()
for _ in range(15):
    if os.fork() == 0:
        asyncio.run(fail())
    codes[os.waitstatus_to_exitcode(os.wait()[1])] += 1
print(dict(codes))
"""
    assert said(place, program) == ["{3: 15}"]
