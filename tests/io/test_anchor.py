"""Where a connected store may be used: errors instead of hangs on other loops and in children."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.io import ObjectStore, open_store
from lakehouse.io.anchor import Anchor
from lakehouse.testing.stores import memory_store


async def _check(anchor: Anchor) -> None:
    anchor.check()


def test_it_holds_on_the_loop_of_its_first_use() -> None:
    """On one loop an anchor may be asked any number of times, from any task."""
    anchor = Anchor("memory://x")

    async def several() -> None:
        anchor.check()
        await asyncio.create_task(_check(anchor))
        anchor.check()

    asyncio.run(several())


def test_another_loop_is_refused() -> None:
    """A second loop gets an error that says what to do, and the first one goes on."""
    anchor = Anchor("memory://x")
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(_check(anchor))
        with pytest.raises(InvalidInputError, match="close it") as caught:
            second.run(_check(anchor))
        first.run(_check(anchor))
    assert caught.value.kind == "wrong-loop"
    assert caught.value.context == {"url": "memory://x"}
    assert "memory://x" in str(caught.value)


def test_a_loop_of_another_thread_is_refused() -> None:
    """Threads have loops of their own."""
    anchor, errors = Anchor("memory://x"), []

    def elsewhere() -> None:
        try:
            asyncio.run(_check(anchor))
        except InvalidInputError as error:
            errors.append(error.kind)

    asyncio.run(_check(anchor))
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert errors == ["wrong-loop"]


def test_a_weighed_anchor_may_be_dropped_anywhere() -> None:
    """After closing, the next loop is as good as the first."""
    anchor = Anchor("memory://x")
    for _ in range(2):
        asyncio.run(_check(anchor))
        anchor.weigh()


def _urls(tmp_path: Path) -> list[str]:
    return [memory_store().url, f"file://{tmp_path}"]


def test_consecutive_runs_need_a_close_between_them(tmp_path: Path) -> None:
    """A store may be used in one asyncio.run after the other when it was closed in each."""
    for url in _urls(tmp_path):
        store = open_store(url)

        async def use(store: ObjectStore = store) -> None:
            async with store:
                await store.put("k", b"x")
                assert (await store.get("k")).data == b"x"

        asyncio.run(use())
        asyncio.run(use())


def test_consecutive_runs_without_a_close_are_refused(tmp_path: Path) -> None:
    """Without a close, the second run gets the clear error, from any verb."""
    for url in _urls(tmp_path):
        store = open_store(url)
        asyncio.run(store.put("k", b"x"))  # type: ignore[arg-type]
        for call in (store.get, store.head, store.delete, store.multipart_start):
            with pytest.raises(InvalidInputError) as caught:
                asyncio.run(call("k"))  # type: ignore[arg-type]
            assert caught.value.kind == "wrong-loop"


def test_a_pickled_copy_is_free(tmp_path: Path) -> None:
    """A copy made by pickle connects where it is used, whatever the original does."""
    for url in _urls(tmp_path):
        store = open_store(url)
        with asyncio.Runner() as first, asyncio.Runner() as second:
            first.run(store.put("k", b"x"))  # type: ignore[arg-type]
            copy: ObjectStore = pickle.loads(pickle.dumps(store))
            assert second.run(copy.get("k")).data == b"x"  # type: ignore[arg-type]
            assert first.run(store.get("k")).data == b"x"  # type: ignore[arg-type]


CHILDREN = """
    import asyncio, os, pickle, sys
    from lakehouse.errors import InvalidInputError
    from lakehouse.io import open_store

    def in_child(work):
        child = os.fork()
        if not child:
            try:
                os._exit(work())
            except BaseException:
                import traceback
                traceback.print_exc()
            os._exit(99)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def kind_of(call):
        try:
            asyncio.run(call)
        except InvalidInputError as error:
            print(error, flush=True)
            return 1 if error.kind == "wrong-process" else 2
        return 0

    async def use(store):
        async with store:
            await store.get("k")

    connected, fresh = open_store(sys.argv[1]), open_store(sys.argv[1])
    asyncio.run(connected.put("k", b"x"))
    copy = pickle.dumps(connected)
    print([
        in_child(lambda: kind_of(connected.get("k"))),
        in_child(lambda: kind_of(use(fresh))),
        in_child(lambda: kind_of(use(pickle.loads(copy)))),
    ])
"""


def test_children_of_a_fork(tmp_path: Path) -> None:
    """A child may not use what its parent connected, but what was not connected yet, or a copy."""
    command = [sys.executable, "-c", textwrap.dedent(CHILDREN), f"file://{tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    told, outcome = done.stdout.rsplit("\n", 2)[:2]
    assert outcome == "[1, 0, 0]", done.stdout + done.stderr
    assert "pickle it" in told
    assert str(tmp_path) in told


def test_the_processes_are_named() -> None:
    """The error after a fork says which process connected and which one asks."""
    anchor = Anchor("memory://x")
    asyncio.run(_check(anchor))
    anchor._pid = 1  # as a child sees it
    with pytest.raises(InvalidInputError, match=rf"in process 1 .* in its child {os.getpid()}"):
        asyncio.run(_check(anchor))
