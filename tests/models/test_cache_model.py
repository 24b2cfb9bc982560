"""A cache under random use, next to a model of what may be served."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakehouse.cache import CacheSpec
from lakehouse.errors import UnavailableError
from lakehouse.testing import ManualClock
from tests.kit.loaders import budget_of, settled

KEYS = [(db, n) for db in ("a", "b") for n in range(4)]
TERM_S = 20
BUDGET = 6_000

keys = st.sampled_from(KEYS)


@dataclass(frozen=True, slots=True)
class _Was:
    """A value that the source had until some moment."""

    value: Any
    until: int
    """Number of the event that ended it."""
    until_s: float
    """Time of that event."""


@dataclass(slots=True)
class _Load:
    """A load under way."""

    keys: tuple[Any, ...]
    began: int
    began_s: float
    answer: asyncio.Future[None]


class CacheMachine(RuleBasedStateMachine):
    """One region over a source that changes; loads end when a rule says so.

    Whoever asks is given a value that the source had since the key was last invalidated
    or written, and within the term before the question.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.budget = budget_of(BUDGET, clock=self.clock, refresh_retry_s=3, refresh_concurrency=2)
        self.budget.guarantee("guarded", 1_500)
        self.region = self.budget.region(
            CacheSpec(name="tested", expire_after_write_s=TERM_S, refresh_after_write_s=8, prefix_length=1)
        )
        self.guarded = self.budget.region(CacheSpec(name="guarded"))
        self.guarded.put(("mine",), b"x" * 300)
        self.event = 0
        self.source: dict[Any, Any] = {}
        self.was: dict[Any, list[_Was]] = {key: [] for key in KEYS}
        self.cut: dict[Any, int] = dict.fromkeys(KEYS, -1)
        self.loads: list[_Load] = []
        self.asked: list[tuple[asyncio.Task[Any], tuple[Any, ...], dict[Any, int], float]] = []

    # --- the source ---

    async def _load(self, asked: tuple[Any, ...]) -> dict[Any, Any]:
        for load in self.loads:
            shared = [key for key in asked if key in load.keys and load.began > self.cut[key]]
            assert not shared or self.clock.steady() >= load.began_s + TERM_S, f"{shared} are loaded twice"
        self.event += 1
        load = _Load(asked, self.event, self.clock.steady(), self.loop.create_future())
        self.loads.append(load)
        found = {key: self.source[key] for key in asked if key in self.source}
        try:
            await load.answer
            return found
        finally:
            self.loads.remove(load)

    async def _load_one(self, key: Any) -> Any:
        return (await self._load((key,))).get(key)

    async def _load_many(self, asked: Any) -> dict[Any, Any]:
        return await self._load(tuple(asked))

    def _change(self, key: Any, value: Any) -> None:
        self.event += 1
        self.was[key].append(_Was(self.source.get(key), self.event, self.clock.steady()))
        if value is None:
            self.source.pop(key, None)
        else:
            self.source[key] = value

    def _cut_off(self, *gone: Any) -> None:
        self.event += 1
        for key in gone:
            self.cut[key] = self.event

    def _run(self) -> None:
        self.loop.run_until_complete(settled())
        for entry in list(self.asked):
            if entry[0].done():
                self.asked.remove(entry)
                self._check(*entry)

    def _check(self, task: asyncio.Task[Any], asked: Any, cut: dict[Any, int], at_s: float) -> None:
        if task.cancelled() or isinstance(task.exception(), UnavailableError):
            return
        for key in asked:
            allowed = [self.source.get(key)] + [
                was.value for was in self.was[key] if was.until > cut[key] and was.until_s > at_s - TERM_S
            ]
            assert task.result().get(key) in allowed, f"{key}: {task.result().get(key)} not in {allowed}"

    # --- rules ---

    @rule(key=keys, size=st.integers(1, 900), gone=st.booleans())
    def change(self, key: Any, size: int, gone: bool) -> None:
        """Somebody else writes or deletes."""
        self._change(key, None if gone else (self.event, bytes(size)))

    @rule(key=keys, size=st.integers(1, 900))
    def put(self, key: Any, size: int) -> None:
        """We write."""
        self._change(key, (self.event, bytes(size)))
        self._cut_off(key)
        self.region.put(key, self.source[key], tags=[key[1] % 2])

    @rule(asked=st.lists(keys, min_size=1, max_size=4, unique=True), single=st.booleans())
    def ask(self, asked: list[Any], single: bool) -> None:
        """Somebody reads."""
        asked = asked[:1] if single else asked

        async def get() -> dict[Any, Any]:
            if single:
                return {asked[0]: await self.region.get(asked[0], self._load_one, tags=[asked[0][1] % 2])}
            even, odd = ([key for key in asked if key[1] % 2 == tag] for tag in (0, 1))
            found = await self.region.get_many(even, self._load_many, tags=[0]) if even else {}
            return found | (await self.region.get_many(odd, self._load_many, tags=[1]) if odd else {})

        self.asked.append((self.loop.create_task(get()), tuple(asked), dict(self.cut), self.clock.steady()))
        self._run()

    @precondition(lambda self: self.loads)
    @rule(which=st.integers(0, 100), fails=st.booleans())
    def answer(self, which: int, fails: bool) -> None:
        """A load ends."""
        load = self.loads[which % len(self.loads)]
        if fails:
            load.answer.set_exception(UnavailableError("away"))
        else:
            load.answer.set_result(None)
        self._run()

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 100))
    def cancel(self, which: int) -> None:
        """A waiter gives up."""
        self.asked[which % len(self.asked)][0].cancel()
        self._run()

    @rule(key=keys)
    def invalidate(self, key: Any) -> None:
        """One key."""
        self._cut_off(key)
        self.region.invalidate(key)

    @rule(tag=st.integers(0, 1))
    def invalidate_tag(self, tag: int) -> None:
        """All keys of a tag."""
        self._cut_off(*[key for key in KEYS if key[1] % 2 == tag])
        self.region.invalidate_tag(tag)

    @rule(db=st.sampled_from(["a", "b"]))
    def invalidate_prefix(self, db: str) -> None:
        """All keys of a prefix."""
        self._cut_off(*[key for key in KEYS if key[0] == db])
        self.region.invalidate_prefix((db,))

    @rule()
    def invalidate_all(self) -> None:
        """All keys."""
        self._cut_off(*KEYS)
        self.region.invalidate_all()

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds: int) -> None:
        """Time goes by."""
        self.loop.run_until_complete(self.clock.advance(seconds))

    @rule()
    def purge(self) -> None:
        """Somebody sweeps."""
        self.budget.purge_expired()

    # --- what always holds ---

    @invariant()
    def within_bytes(self) -> None:
        """The budget holds, and what is said of it is the sum of its parts."""
        stats = self.budget.stats()
        assert sum(one.weight for one in stats) == self.budget.weight <= BUDGET
        if not len(self.region):
            assert self.region.weight == 0

    @invariant()
    def floor_kept(self) -> None:
        """What is within a floor stays."""
        assert self.guarded.get_if_present(("mine",)) is not None

    def teardown(self) -> None:
        """Ends every task that is left."""
        self.loop.run_until_complete(self.budget.aclose())
        for task, *_ in self.asked:
            task.cancel()
        self.loop.run_until_complete(settled())
        self.loop.close()


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_any_mix_of_sizes_stays_within_bytes() -> None:
    """A long random history of one budget, with caps, floors, tags and replacements, never breaks a bound."""
    chance = random.Random(5)
    budget = budget_of(50_000)
    budget.guarantee("b", 15_000)
    plain = budget.region(CacheSpec(name="a", prefix_length=1))
    capped = budget.region(CacheSpec(name="b", max_bytes=30_000))
    shared = budget.region(CacheSpec(name="c"), group="b")
    regions = [plain, capped, shared]
    for _ in range(20_000):
        region, key = chance.choice(regions), (chance.randrange(9), chance.randrange(60))
        what = chance.random()
        before = capped.weight + shared.weight
        if what < 0.6:
            region.put(key, bytes(chance.choice([10, 500, 4_000])), tags=[key[1] % 3] * chance.randrange(2))
        elif what < 0.97:
            region.get_if_present(key)
        elif what < 0.99:
            region.invalidate(key)
        else:
            region.invalidate_prefix(key[:1])
        assert budget.weight <= 50_000
        assert capped.weight <= 30_000
        if region is plain and before <= 15_000:
            assert capped.weight + shared.weight == before
    assert budget.weight == sum(region.weight for region in regions) > 25_000
    budget.invalidate_all()
    assert budget.weight == 0
