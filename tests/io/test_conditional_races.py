"""Writers that race for one key, each behind a network that fails: what they are told is true."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.io import ObjectStore, Stored
from lakehouse.io.conditional import put_decisively
from lakehouse.testing.faults import FaultKind, FaultyStore
from lakehouse.testing.stores import memory_store
from tests.kit.odd_stores import HistoryStore, ShuffledStore, TokenlessStore, quick_policy

KEY = "log/1"
DRAWN = (
    FaultKind.FAIL_BEFORE,
    FaultKind.FAIL_AFTER,
    FaultKind.LANDS_LATER,
    FaultKind.CONFLICT,
    FaultKind.THROTTLE,
)


@dataclass
class _Race:
    """Writers of one key, each behind its own faulty network, in an order the seed decides."""

    seed: int
    writers: int
    rate: float
    keeps_tokens: bool
    kinds: tuple[FaultKind, ...] = DRAWN
    base: ObjectStore = field(default_factory=memory_store)
    outcomes: dict[str, Stored | LakehouseError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.history = HistoryStore(self.base if self.keeps_tokens else TokenlessStore(self.base))
        self.networks = [
            FaultyStore(
                ShuffledStore(self.history, self.rng),
                seed=self.rng.randrange(1 << 30),
                rate=self.rate,
                kinds=self.kinds,
            )
            for _ in range(self.writers)
        ]

    async def put(self, writer: int, token: str, body: bytes, expected: str | None) -> bool:
        """One logical write, its outcome written down; says whether it succeeded."""
        try:
            self.outcomes[token] = await put_decisively(
                self.networks[writer],
                KEY,
                body,
                token=token,
                expected=expected,
                policy=quick_policy(rng=random.Random(writer)),
            )
        except (ConflictError, UnavailableError, CommitUnknownError, NotFoundError) as error:
            self.outcomes[token] = error
            return False
        return True

    async def run(self, write: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """All writers at once; meanwhile, and at the end, what is late lands."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(write(writer)) for writer in range(self.writers)]
            while not all(task.done() for task in tasks):
                await asyncio.sleep(0)
                if self.rng.random() < 0.05:
                    await self.rng.choice(self.networks).land()
        for network in self.networks:
            await network.land()

    def of(self, *kinds: type) -> set[str]:
        """Tokens of the writes that ended so."""
        return {token for token, outcome in self.outcomes.items() if isinstance(outcome, kinds)}


RACES = st.builds(
    _Race,
    seed=st.integers(0, 1 << 30),
    writers=st.integers(2, 5),
    rate=st.sampled_from([0.0, 0.2, 0.5, 0.8]),
    keeps_tokens=st.booleans(),
)


def _check_outcomes(race: _Race) -> None:
    """What was claimed of each write is what happened to it."""
    applied = race.history.applied
    assert len(applied) == len(set(applied)), "a write was applied twice"
    assert race.of(Stored) <= set(applied), "success was claimed of a write that was not applied"
    refused = race.of(ConflictError, UnavailableError, NotFoundError)
    assert not refused & set(applied), "a write that was applied was reported as not there"


@given(race=RACES, same=st.booleans())
@settings(max_examples=150, deadline=None)
def test_racing_creates_have_at_most_one_winner(race: _Race, same: bool) -> None:
    """However writers race and networks fail, what each is told of its create is true."""

    async def create(writer: int) -> None:
        token = f"{writer:032}"
        await race.put(writer, token, b"same" if same else f"by {token}".encode(), None)

    asyncio.run(race.run(create))
    _check_outcomes(race)
    winners, unknown = race.of(Stored), race.of(CommitUnknownError)
    assert len(winners) <= 1
    assert winners <= set(race.history.applied) <= winners | unknown
    if not race.rate:
        assert len(winners) == 1
        assert len(race.of(ConflictError)) == race.writers - 1


@given(race=RACES)
@settings(max_examples=150, deadline=None)
def test_racing_increments_are_counted_exactly(race: _Race) -> None:
    """A counter under compare-and-swap is exact, give or take the increments reported as unknown."""
    succeeded = unknown = 0

    async def count(writer: int) -> None:
        nonlocal succeeded, unknown
        for turn in range(3):
            for attempt in range(40):
                seen = await race.base.get(KEY)
                token = f"{writer:016}{turn:08}{attempt:08}"
                body = f"{int(seen.data.split()[0]) + 1} {token}".encode()
                done = await race.put(writer, token, body, seen.version)
                if done or isinstance(race.outcomes[token], CommitUnknownError):
                    succeeded, unknown = succeeded + done, unknown + (not done)
                    break

    async def run() -> int:
        await race.base.put(KEY, b"0 start")
        await race.run(count)
        return int((await race.base.get(KEY)).data.split()[0])

    counted = asyncio.run(run())
    _check_outcomes(race)
    assert counted == len(race.history.applied)
    assert succeeded <= counted <= succeeded + unknown
    if not race.rate:
        assert counted == succeeded == race.writers * 3
