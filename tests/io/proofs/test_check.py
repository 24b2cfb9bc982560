"""The check of a store: each way in which conditions fail is found and named, and nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.io import Buffer, ObjectStore, Stored
from lakehouse.io.open import stacked
from lakehouse.io.proofs.check import check_store
from lakehouse.io.work.progress import Progress
from lakehouse.lake import Lake
from lakehouse.testing import RecordingStore, UnsafeStore, memory_store

CREATE, REPLACE = "create has one winner", "replace under a condition"
CHECKS = {"put_if_absent": CREATE, "put_if_match": REPLACE}


async def test_a_sound_store_passes_and_is_left_as_it_was() -> None:
    """Every required property holds, the rounds are counted, and no object stays."""
    store = stacked(memory_store())
    report = await check_store(store, rounds=5, writers=3, large_bytes=1000)
    assert report.may_commit, report.failures
    assert report.rounds == 4 * 5
    races = {result.name: result.race for result in report.results if result.race}
    assert {(race.rounds, race.writers, race.body_bytes) for race in races.values()} == {
        (5, 3, 64),
        (5, 3, 1000),
    }
    assert [meta.key async for meta in store.list()] == []


async def test_the_short_form_races_small_bodies_for_fewer_rounds() -> None:
    """Two races of io.check_short_rounds; everything else is tried as in the long form."""
    store = stacked(memory_store())
    short = await check_store(store, short=True)
    assert [result.race.rounds for result in short.results if result.race] == [20, 20]
    long = await check_store(store, rounds=1, large_bytes=100)
    only_in_long = {result.name for result in long.results} - {result.name for result in short.results}
    assert only_in_long == {f"{CREATE}, large bodies", f"{REPLACE}, large bodies"}


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("verb", sorted(CHECKS))
async def test_a_condition_without_effect_is_named(verb: str, short: bool) -> None:
    """A store that ignores one of the conditions fails that one as ignored, and not the other."""
    store = stacked(UnsafeStore(memory_store(), ignores=[verb]))
    report = await check_store(store, short=short, rounds=3)
    failed = {result.name.removesuffix(", large bodies"): result.reason for result in report.failures}
    assert failed.pop("create with an empty body", "ignored") == "ignored"
    assert failed == {CHECKS[verb]: "ignored"}


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("verb", sorted(CHECKS))
async def test_a_condition_that_fails_writers_who_meet_is_named(verb: str, short: bool) -> None:
    """A store that looks first and writes later passes when asked one by one, and fails the race."""
    store = stacked(UnsafeStore(memory_store(), races=[verb]))
    report = await check_store(store, short=short, rounds=5, large_bytes=None if short else 1000)
    names = [CHECKS[verb]] if short else [CHECKS[verb], f"{CHECKS[verb]}, large bodies"]
    assert [(result.name, result.reason) for result in report.failures] == [(name, "raced") for name in names]


@pytest.mark.parametrize("verb", sorted(CHECKS))
async def test_a_store_that_fails_in_a_few_rounds_of_a_hundred_is_found(verb: str) -> None:
    """As many rounds as the long form has find what goes wrong in some of them."""
    store = stacked(UnsafeStore(memory_store(), races=[verb], rate=0.01, seed=3))
    report = await check_store(store, large_bytes=0)
    (failure,) = report.failures
    assert failure.race is not None
    assert (failure.name, failure.race.rounds) == (CHECKS[verb], 100)
    assert 0 < failure.race.bad_rounds <= 15
    assert f"{failure.race.bad_rounds} of 100 rounds went wrong" in failure.detail


class Gateway(UnsafeStore):
    """A gateway whose writers never meet each other; those of two gateways to the same objects do."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner, races=tuple(CHECKS))
        self._lock = asyncio.Lock()

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        async with self._lock:
            return await super().put_if_absent(key, data, token=token, timed=timed)

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        async with self._lock:
            return await super().put_if_match(key, data, version=version, token=token)


async def test_two_gateways_to_one_storage_are_raced_against_each_other() -> None:
    """Each gateway passes alone; a check that is given both finds that they do not know of each other."""
    shared = memory_store()
    one, two = stacked(Gateway(shared)), stacked(Gateway(shared))
    for alone in (one, two):
        assert (await check_store(alone, rounds=5, large_bytes=0)).may_commit
    report = await check_store(one, others=[two], rounds=5, large_bytes=0)
    assert {result.name: result.reason for result in report.failures} == {CREATE: "raced", REPLACE: "raced"}


async def test_another_place_is_no_second_way() -> None:
    """An endpoint that leads elsewhere is noticed: what is written by one is not read by the other."""
    report = await check_store(
        stacked(memory_store()), others=[stacked(memory_store())], rounds=2, large_bytes=0
    )
    assert "read after write" in [result.name for result in report.failures]


async def test_progress_is_told_round_by_round() -> None:
    """Whoever watches sees each race by name, up to its last round."""
    told: list[Progress] = []
    await check_store(stacked(memory_store()), rounds=3, large_bytes=100, progress=told.append)
    assert {one.step for one in told if (one.done, one.total) == (3, 3)} == {
        CREATE,
        REPLACE,
        f"{CREATE}, large bodies",
        f"{REPLACE}, large bodies",
    }


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"writers": 1}, {"large_bytes": -1}, {"rounds": True}])
async def test_numbers_that_race_nothing_are_refused(wrong: dict[str, int]) -> None:
    """The error names the argument and its bound, before anything is written."""
    store = RecordingStore(memory_store())
    with pytest.raises(InvalidInputError, match=f"{next(iter(wrong))} is a whole number from"):
        await check_store(store, **wrong)  # type: ignore[arg-type]
    assert store.calls == []


# ------------------------------------------------------------------ connect(check=True)


async def test_a_checked_lake_opens_on_a_sound_store() -> None:
    """connect(check=True) goes on after a check that passes, and leaves nothing of it."""
    store = stacked(memory_store())
    async with Lake(store, check=True) as lake:
        await lake.create_database("sales")
    assert not [meta.key async for meta in store.list("_lakehouse_check/")]


@pytest.mark.parametrize("how", ["ignores", "races"])
@pytest.mark.parametrize("verb", sorted(CHECKS))
async def test_a_checked_lake_refuses_a_store_that_fails(verb: str, how: str) -> None:
    """connect(check=True) raises an error of kind unsafe-store that names what failed and what to do."""
    store = stacked(UnsafeStore(memory_store(), **{how: [verb]}))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=CHECKS[verb]) as refused:
        async with Lake(store, check=True):
            pass
    assert refused.value.kind == "unsafe-store"
    assert CHECKS[verb] in refused.value.context["failures"]
    assert "docs/reference/stores.md" in refused.value.message
