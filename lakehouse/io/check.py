"""Is this store safe to commit on? Tried out, not believed.

A store may accept the header ``If-None-Match`` and ignore it, overwrite on an empty body,
or list late. :func:`check_store` races real writers against the live store, under a
prefix of its own that it removes again, and says of each property whether it holds. The
engine commits only where all required ones do.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from lakehouse.errors import ConflictError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.ids import new_token
from lakehouse.io.decorators import innermost
from lakehouse.io.store import ObjectStore

__all__ = ["CheckResult", "StoreReport", "check_store", "ensure_may_commit"]

R = TypeVar("R")

_CREATE_ROUNDS = 8
_CREATE_RACERS = 16
_CAS_TASKS = 8
_CAS_INCREMENTS = 4
_LARGE_BYTES = 12 * 1024 * 1024

_passed: set[str] = set()
"""Roots whose store passed in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One property and whether the store has it."""

    name: str
    holds: bool
    required: bool
    """Whether the engine needs it to commit."""
    detail: str
    """What was seen."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """Everything :func:`check_store` found out."""

    url: str
    backend: str
    results: tuple[CheckResult, ...]

    @property
    def may_commit(self) -> bool:
        """Whether every required property holds."""
        return all(result.holds for result in self.results if result.required)

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """Required properties that do not hold."""
        return tuple(result for result in self.results if result.required and not result.holds)


async def check_store(store: ObjectStore) -> StoreReport:
    """Tries the store out under ``_lakehouse_check/…``; takes about a second.

    Wrong credentials, a missing bucket or an unreachable endpoint are raised as they are:
    they say nothing about what the store can do.
    """
    root = f"_lakehouse_check/{new_token()}"
    probe = _Probe(store, root)
    results: list[CheckResult] = []
    try:
        for name, required, check in probe.checks():
            results.append(await _run(name, required, check))
            if not results[0].holds:
                break  # it takes no writes: nothing else can be tried
    finally:
        await probe.remove()
    report = StoreReport(url=store.url, backend=type(innermost(store)).__name__, results=tuple(results))
    if report.may_commit:
        _passed.add(store.url)
    return report


def ensure_may_commit(store: ObjectStore) -> None:
    """Refuses stores that cannot take part in commits, and says why and what to do.

    Stores of a proven kind pass; others must have passed :func:`check_store` in this process.
    """
    can = store.capabilities
    if can.put_if_absent and (can.commit_proven or store.url in _passed):
        return
    why = (
        "its conditional puts are not proven: run `lakehouse check-store` on it, or connect with check=True"
        if can.put_if_absent
        else "it has no conditional puts, so two writers could overwrite each other's commits"
    )
    raise InvalidInputError(
        f"the store at {store.url} can be read, but not committed to: {why}",
        kind="unsafe-store",
        url=store.url,
    )


async def _run(name: str, required: bool, check: Callable[[], Awaitable[str | None]]) -> CheckResult:
    """A check returns None when the property holds (or a remark after ``ok:``), else what is wrong."""
    started = time.perf_counter()
    try:
        wrong = await check()
    except LakehouseError as error:
        if error.kind in ("bad-credentials", "missing-bucket", "unreachable", "clock-skew", "wrong-region"):
            raise
        wrong = error.message
    holds = wrong is None or wrong.startswith("ok: ")
    detail = "as it should" if wrong is None else wrong.removeprefix("ok: ")
    seconds = time.perf_counter() - started
    return CheckResult(name=name, holds=holds, required=required, detail=detail, seconds=seconds)


class _Probe:
    """The single checks."""

    def __init__(self, store: ObjectStore, root: str) -> None:
        self._store = store
        self._root = root

    def checks(self) -> list[tuple[str, bool, Callable[[], Awaitable[str | None]]]]:
        return [
            ("takes writes", True, self.takes_writes),
            ("read after write", True, self.read_after_write),
            ("create has one winner", True, self.create_race),
            ("create with an empty body", True, self.empty_create),
            ("replace under a condition", True, self.replace_race),
            ("list after write", True, self.list_after_write),
            ("list after delete", True, self.list_after_delete),
            ("ranged reads", True, self.ranges),
            ("suffix reads in one request", False, self.suffix),
            ("conditional reads", False, self.conditional_read),
            ("large objects in parts", True, self.large),
            ("batch deletes", True, self.batch_delete),
            ("tells the time", False, self.time),
        ]

    async def remove(self) -> None:
        """Removes what the checks wrote, as far as the store lets us."""
        with contextlib.suppress(LakehouseError):
            keys = [meta.key async for meta in self._store.list(self._root + "/")]
            await self._store.delete_many(keys)

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}"

    async def takes_writes(self) -> str | None:
        await self._store.put(self._key("hello"), b"hello")
        return None

    async def read_after_write(self) -> str | None:
        key = self._key("rw")
        for text in (b"one", b"two"):
            await self._store.put(key, text)
            if (await self._store.get(key)).data != text:
                return "a read after a write does not return what was written"
        return None

    async def create_race(self) -> str | None:
        for turn in range(_CREATE_ROUNDS):
            key = self._key(f"race-{turn}")
            bodies = [f"{new_token()} racer {racer}".encode() for racer in range(_CREATE_RACERS)]
            won = await _all(self._creates(key, body) for body in bodies)
            if won.count(True) != 1:
                return f"round {turn}: {won.count(True)} of {_CREATE_RACERS} concurrent creates succeeded"
            if (await self._store.get(key)).data != bodies[won.index(True)]:
                return f"round {turn}: the object is not the winner's: a loser overwrote it"
        return f"ok: one winner in each of {_CREATE_ROUNDS} rounds of {_CREATE_RACERS}"

    async def _creates(self, key: str, body: bytes) -> bool:
        try:
            await self._store.put_if_absent(key, body)
        except ConflictError:
            return False
        return True

    async def empty_create(self) -> str | None:
        key = self._key("empty")
        await self._store.put(key, b"there")
        if await self._creates(key, b""):
            return "creating with an empty body overwrites what is there"
        return None

    async def replace_race(self) -> str | None:
        key = self._key("counter")
        await self._store.put(key, b"0 start")

        async def count() -> bool:
            for _ in range(_CAS_INCREMENTS):
                while True:
                    seen = await self._store.get(key)
                    if seen.version is None:
                        return False
                    body = f"{int(seen.data.split()[0]) + 1} {new_token()}".encode()
                    try:
                        await self._store.put_if_match(key, body, version=seen.version)
                        break
                    except ConflictError:
                        continue
            return True

        done = await _all(count() for _ in range(_CAS_TASKS))
        if not all(done):
            return "objects have no versions, so none can be named in a condition"
        found, wanted = int((await self._store.get(key)).data.split()[0]), _CAS_TASKS * _CAS_INCREMENTS
        if found != wanted:
            return f"{wanted} concurrent increments counted {found}: updates were lost"
        try:
            await self._store.put_if_match(key, b"stale", version='"00000000000000000000000000000000"')
        except ConflictError:
            return f"ok: {wanted} concurrent increments, none lost"
        return "a stale version is not refused"

    async def list_after_write(self) -> str | None:
        keys = [self._key(f"list/{number:03}") for number in range(12)]
        await _all(self._store.put(key, b"x") for key in keys)
        listed = [meta.key async for meta in self._store.list(self._key("list/"))]
        if listed != keys:
            return f"{len(listed)} of {len(keys)} new objects are listed, or not in order"
        after = [meta.key async for meta in self._store.list(self._key("list/"), start_after=keys[5])]
        return None if after == keys[6:] else "start-after does not begin behind the key"

    async def list_after_delete(self) -> str | None:
        key = self._key("list/000")
        await self._store.delete(key)
        await self._store.delete(key)
        listed = [meta.key async for meta in self._store.list(self._key("list/"))]
        return "a deleted object is still listed" if key in listed else None

    async def ranges(self) -> str | None:
        key, body = self._key("range"), bytes(range(256)) * 40
        await self._store.put(key, body)
        for start, end in ((0, 1), (100, 5000), (10_000, 20_000), (10_240, 10_250)):
            part = await self._store.get_range(key, start, end)
            if part.data != body[start:end] or part.size != len(body):
                return (
                    f"range [{start}, {end}) of 10,240 bytes gives {len(part.data)} bytes, size {part.size}"
                )
        return None

    async def suffix(self) -> str | None:
        if not self._store.capabilities.suffix_range:
            return "not offered: tails of unknown size cost a HEAD more"
        key = self._key("range")
        for length in (1, 100, 20_000):
            tail = await self._store.get_suffix(key, length)
            if tail.end != 10_240 or len(tail.data) != min(length, 10_240):
                return f"the last {length} bytes come as [{tail.start}, {tail.end}) of {tail.size}"
        return None

    async def conditional_read(self) -> str | None:
        key = self._key("rw")
        version = (await self._store.get(key)).version
        if version is None:
            return "not offered: objects have no versions"
        await self._store.put(key, b"three")
        try:
            await self._store.get(key, version=version)
        except ConflictError:
            return None
        return "a read that insists on an older version gets the newer one"

    async def large(self) -> str | None:
        if not self._store.capabilities.multipart:
            return "ok: not offered: objects are sent in one piece"
        key = self._key("large")
        chunk = bytes(range(256)) * 4096
        upload = await self._store.multipart_start(key)
        parts = [chunk * 6, chunk * 6]
        receipts = [
            await self._store.multipart_part(key, upload, at, part) for at, part in enumerate(parts, 1)
        ]
        with contextlib.suppress(NotFoundError):
            await self._store.head(key)
            return "the object appears before its upload is complete"
        await self._store.multipart_complete(key, upload, receipts, size=_LARGE_BYTES)
        meta = await self._store.head(key)
        edge = await self._store.get_range(key, _LARGE_BYTES // 2 - 5, _LARGE_BYTES // 2 + 5)
        if meta.size != _LARGE_BYTES or edge.data != chunk[-5:] + chunk[:5]:
            return (
                f"an object of {_LARGE_BYTES:,} bytes sent in parts reads back as {meta.size:,}, or otherwise"
            )
        return None

    async def batch_delete(self) -> str | None:
        await self._store.delete_batch([self._key(f"list/{number:03}") for number in range(12)])
        left = [meta.key async for meta in self._store.list(self._key("list/"))]
        return f"{len(left)} of 12 objects are still there" if left else None

    async def time(self) -> str | None:
        told = (await self._store.put(self._key("rw"), b"time")).store_time_ms
        if told is None:
            return "not offered: this machine's clock is used"
        skew = told / 1000 - time.time()
        return f"ok: {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"


async def _all(work: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Runs all of it at once; the point here is the race, so there is no bound."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
