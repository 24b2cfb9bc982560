"""May the engine commit on this store? Tried out, not believed.

A store may accept the header ``If-None-Match`` and ignore it, honour it for one writer and not for two
that meet, overwrite on an empty body, or list late. :func:`check_store` races real writers against
the live store, under a prefix of its own that it removes again, and says of each property whether it
holds. The engine commits only where all required ones do. A race that is won cleanly proves nothing
about the next one: a report says how many rounds a store passed, and never that it is safe.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import ConflictError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.ids import new_token
from lakehouse.io.decorators import innermost
from lakehouse.io.proofs.proof import lift_refusal, ungated
from lakehouse.io.proofs.races import PutCondition, Race, RaceTally, says_nothing
from lakehouse.io.store import ObjectStore
from lakehouse.io.work.progress import ProgressCallback, ProgressReporter
from lakehouse.io.work.report import Report

__all__ = ["CheckResult", "StoreReport", "check_store"]

_SMALL_BYTES = 64
_PARTS_BYTES = 12 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One property and whether the store has it."""

    name: str
    holds: bool
    required: bool
    """Whether the engine needs it to commit."""
    detail: str
    """Observation behind the verdict, in words."""
    seconds: float
    reason: str | None = None
    """Why a condition does not hold: ``ignored`` (it has no effect), ``raced`` (it fails writers that
    meet) or ``undecided`` (the store gave no clear answers); for anything else an error's kind, or None."""
    race: RaceTally | None = None
    """Outcomes of the rounds, for a property that is raced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport(Report):
    """Everything :func:`check_store` found out."""

    url: str
    backend: str
    results: tuple[CheckResult, ...]

    @property
    def may_commit(self) -> bool:
        """Whether every required property holds."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """Required properties that do not hold."""
        return tuple(result for result in self.results if result.required and not result.holds)

    @property
    def rounds(self) -> int:
        """Rounds that were raced, over all races."""
        return sum(result.race.rounds for result in self.results if result.race)

    def as_dict(self) -> dict[str, Any]:
        """Returns the checks and the verdict as plain data."""
        checks = [dataclasses.asdict(result) for result in self.results]
        return {
            "url": self.url,
            "backend": self.backend,
            "may_commit": self.may_commit,
            "rounds": self.rounds,
            "checks": [{**check, "seconds": round(check["seconds"], 4)} for check in checks],
        }

    def raise_if_unsafe(self) -> None:
        """Raises an InvalidInputError of kind ``unsafe-store`` that names what fails."""
        if self.may_commit:
            return
        wrong = "; ".join(f"{result.name}: {result.detail}" for result in self.failures)
        raise InvalidInputError(
            f"the store at {self.url} can be read, but not committed to: {wrong}. Use one that honours "
            "conditional puts (docs/reference/stores.md), or connect without check=True to read.",
            kind="unsafe-store",
            url=self.url,
            failures=[result.name for result in self.failures],
        )


async def check_store(
    store: ObjectStore,
    *,
    others: Sequence[ObjectStore] = (),
    short: bool = False,
    rounds: int | None = None,
    writers: int | None = None,
    large_bytes: int | None = None,
    progress: ProgressCallback | None = None,
) -> StoreReport:
    """Tries the store out under ``_lakehouse_check/…`` and removes what it wrote.

    Creates and replacing puts are raced, each with small and with large bodies. A store that fails
    its conditions in one round of a hundred is found with as many rounds more often than not, so
    more rounds find more.

    Args:
        store: the store.
        others: the same place by other ways: opened again, so that writers share no connections, or
            by other endpoints of the same storage. Writers are spread over all of them.
        short: the form for the start of a program: fewer rounds (``io.check_short_rounds``), small bodies.
        rounds: rounds of each race; ``io.check_rounds`` when not given.
        writers: writers in each round; ``io.check_writers`` when not given.
        large_bytes: size of large bodies, 0 leaves them out; ``io.check_large_bytes`` when not given.
        progress: told how far it has got.

    Wrong credentials, a missing bucket or an unreachable endpoint are raised as they are:
    they say nothing about what the store can do.

    Example::

        async with lakehouse.open_store("s3://bucket") as store:
            report = await lakehouse.check_store(store, rounds=200)
        print(report.may_commit, report.rounds)
    """
    settings = store.settings
    plan = _Races(
        rounds=_count("rounds", rounds, settings.check_short_rounds if short else settings.check_rounds, 1),
        writers=_count("writers", writers, settings.check_writers, 2),
        large_bytes=_count("large_bytes", large_bytes, 0 if short else settings.check_large_bytes, 0),
    )
    probe = _Probe(
        tuple(map(ungated, (store, *others))),
        f"_lakehouse_check/{new_token()}",
        plan,
        ProgressReporter(progress),
    )
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
        await lift_refusal(store)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Races:
    """How the races are run."""

    rounds: int
    writers: int
    large_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """The outcome of one check."""

    holds: bool = True
    detail: str = "as it should"
    reason: str | None = None
    race: RaceTally | None = None


_Check = Callable[[], Awaitable[_Finding]]


def _wrong(detail: str, *, reason: str | None = None) -> _Finding:
    return _Finding(holds=False, detail=detail, reason=reason)


def _count(name: str, value: object, default: int, low: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise InvalidInputError(f"{name} is a whole number from {low}, not {value!r}")
    return value


async def _run(name: str, required: bool, check: _Check) -> CheckResult:
    """The result of a check; an error that speaks of the store is what is wrong with it."""
    started = time.perf_counter()
    try:
        finding = await check()
    except LakehouseError as error:
        if says_nothing(error):
            raise
        finding = _wrong(error.message, reason=error.kind)
    return CheckResult(
        name=name,
        holds=finding.holds,
        required=required,
        detail=finding.detail,
        seconds=time.perf_counter() - started,
        reason=finding.reason,
        race=finding.race,
    )


class _Probe:
    """The single checks."""

    def __init__(
        self, stores: Sequence[ObjectStore], root: str, races: _Races, reporter: ProgressReporter
    ) -> None:
        self._stores, self._root, self._races, self._reporter = stores, root, races, reporter
        self._store = stores[0]
        self._ignored: set[PutCondition] = set()

    def checks(self) -> list[tuple[str, bool, _Check]]:
        """Names of the checks, whether the engine needs what they try, and the checks."""
        large = [
            ("create has one winner, large bodies", True, self.large_create_race),
            ("replace under a condition, large bodies", True, self.large_replace_race),
        ]
        return [
            ("takes writes", True, self.takes_writes),
            ("read after write", True, self.read_after_write),
            ("create has one winner", True, self.create_race),
            ("create with an empty body", True, self.empty_create),
            ("replace under a condition", True, self.replace_race),
            *(large if self._races.large_bytes else ()),
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

    async def takes_writes(self) -> _Finding:
        await self._store.put(self._key("hello"), b"hello")
        return _Finding()

    async def read_after_write(self) -> _Finding:
        key = self._key("rw")
        for text in (b"one", b"two"):
            await self._store.put(key, text)
            for store in self._stores:
                if (await store.get(key)).data != text:
                    return _wrong("a read after a write does not return what was written")
        return _Finding()

    async def create_race(self) -> _Finding:
        key = self._key("taken")
        await self._store.put(key, b"first")
        accepted = not await _is_refused(self._store.put_if_absent(key, b"second"))
        if accepted or (await self._store.get(key)).data != b"first":
            return self._has_no_effect(PutCondition.CREATE, "a create of a key that is taken overwrites it")
        return await self._race("create has one winner", PutCondition.CREATE, _SMALL_BYTES)

    async def large_create_race(self) -> _Finding:
        step = "create has one winner, large bodies"
        return await self._race(step, PutCondition.CREATE, self._races.large_bytes)

    async def empty_create(self) -> _Finding:
        key = self._key("empty")
        await self._store.put(key, b"there")
        if not await _is_refused(self._store.put_if_absent(key, b"")):
            return _wrong("creating with an empty body overwrites what is there", reason="ignored")
        return _Finding()

    async def replace_race(self) -> _Finding:
        key, missing = self._key("replaced"), self._key("missing")
        version = (await self._store.put(key, b"first")).version
        if version is None:
            return _wrong("objects have no versions, so none can be named in a condition")
        await self._store.put_if_match(key, b"second", version=version)
        accepted = not await _is_refused(self._store.put_if_match(key, b"third", version=version))
        if accepted or (await self._store.get(key)).data != b"second":
            return self._has_no_effect(
                PutCondition.REPLACE, "a replace of an old version overwrites the new one"
            )
        created = not await _is_refused(self._store.put_if_match(missing, b"x", version=version))
        if created or await self._store.exists(missing):
            return self._has_no_effect(PutCondition.REPLACE, "a replace of nothing creates")
        return await self._race("replace under a condition", PutCondition.REPLACE, _SMALL_BYTES)

    async def large_replace_race(self) -> _Finding:
        step = "replace under a condition, large bodies"
        return await self._race(step, PutCondition.REPLACE, self._races.large_bytes)

    def _has_no_effect(self, condition: PutCondition, seen: str) -> _Finding:
        self._ignored.add(condition)
        return _wrong(f"{condition.value} is ignored: {seen}", reason="ignored")

    async def _race(self, step: str, condition: PutCondition, body_bytes: int) -> _Finding:
        if condition in self._ignored:
            return _wrong(f"{condition.value} is ignored, so there is nothing to race", reason="ignored")
        race = Race(
            self._stores,
            self._key("race"),
            condition,
            writers=self._races.writers,
            body_bytes=body_bytes,
        )
        tally = await race.run(self._races.rounds, self._reporter, step)
        detail = str(tally) if tally.reason is None else f"{condition.value} is {tally.reason}: {tally}"
        return _Finding(holds=tally.reason is None, detail=detail, reason=tally.reason, race=tally)

    async def list_after_write(self) -> _Finding:
        keys = [self._key(f"list/{number:03}") for number in range(12)]
        for key in keys:
            await self._store.put(key, b"x")
        listed = [meta.key async for meta in self._store.list(self._key("list/"))]
        if listed != keys:
            return _wrong(f"{len(listed)} of {len(keys)} new objects are listed, or not in order")
        after = [meta.key async for meta in self._store.list(self._key("list/"), start_after=keys[5])]
        if after != keys[6:]:
            return _wrong("start-after does not begin behind the key")
        return _Finding()

    async def list_after_delete(self) -> _Finding:
        key = self._key("list/000")
        await self._store.delete(key)
        await self._store.delete(key)
        listed = [meta.key async for meta in self._store.list(self._key("list/"))]
        return _wrong("a deleted object is still listed") if key in listed else _Finding()

    async def ranges(self) -> _Finding:
        key, body = self._key("range"), bytes(range(256)) * 40
        await self._store.put(key, body)
        for start, end in ((0, 1), (100, 5000), (10_000, 20_000), (10_240, 10_250)):
            part = await self._store.get_range(key, start, end)
            if part.data != body[start:end] or part.size != len(body):
                return _wrong(
                    f"range [{start}, {end}) of 10,240 bytes gives {len(part.data)} bytes, size {part.size}"
                )
        return _Finding()

    async def suffix(self) -> _Finding:
        if not self._store.capabilities.suffix_range:
            return _wrong("not offered: tails of unknown size cost a HEAD more")
        key = self._key("range")
        for length in (1, 100, 20_000):
            tail = await self._store.get_suffix(key, length)
            if tail.end != 10_240 or len(tail.data) != min(length, 10_240):
                return _wrong(f"the last {length} bytes come as [{tail.start}, {tail.end}) of {tail.size}")
        return _Finding()

    async def conditional_read(self) -> _Finding:
        key = self._key("rw")
        version = (await self._store.get(key)).version
        if version is None:
            return _wrong("not offered: objects have no versions")
        await self._store.put(key, b"three")
        try:
            await self._store.get(key, version=version)
        except ConflictError:
            return _Finding()
        return _wrong("a read that insists on an older version gets the newer one")

    async def large(self) -> _Finding:
        if not self._store.capabilities.multipart:
            return _Finding(detail="not offered: objects are sent in one piece")
        key = self._key("large")
        chunk = bytes(range(256)) * 4096
        upload = await self._store.multipart_start(key)
        parts = [chunk * 6, chunk * 6]
        receipts = [
            await self._store.multipart_part(key, upload, at, part) for at, part in enumerate(parts, 1)
        ]
        with contextlib.suppress(NotFoundError):
            await self._store.head(key)
            return _wrong("the object appears before its upload is complete")
        await self._store.multipart_complete(key, upload, receipts, size=_PARTS_BYTES)
        meta = await self._store.head(key)
        edge = await self._store.get_range(key, _PARTS_BYTES // 2 - 5, _PARTS_BYTES // 2 + 5)
        if meta.size != _PARTS_BYTES or edge.data != chunk[-5:] + chunk[:5]:
            return _wrong(
                f"an object of {_PARTS_BYTES:,} bytes sent in parts reads back as {meta.size:,}, or otherwise"
            )
        return _Finding()

    async def batch_delete(self) -> _Finding:
        await self._store.delete_batch([self._key(f"list/{number:03}") for number in range(12)])
        left = [meta.key async for meta in self._store.list(self._key("list/"))]
        return _wrong(f"{len(left)} of 12 objects are still there") if left else _Finding()

    async def time(self) -> _Finding:
        told = (await self._store.put(self._key("rw"), b"time")).store_time_ms
        if told is None:
            return _wrong("not offered: this machine's clock is used")
        skew = told / 1000 - time.time()
        return _Finding(detail=f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine")


async def _is_refused(put: Awaitable[object]) -> bool:
    """Whether a put whose condition does not hold is refused for that."""
    try:
        await put
    except (ConflictError, NotFoundError):
        return True
    return False
