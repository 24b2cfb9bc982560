"""Races for one key: what is wrong with a round, and what a race adds up to."""

from __future__ import annotations

import pytest

from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io.open import stacked
from lakehouse.io.proofs.races import Flaw, PutCondition, Race, RaceTally, TallyCount, judge_round
from lakehouse.io.work.progress import Progress, ProgressReporter
from lakehouse.testing import Fault, FaultKind, FaultyStore, RecordingStore, UnsafeStore, memory_store

LOST = ConflictError("lost")
LOST_ANSWER = CommitUnknownError("no answer")
GONE = NotFoundError("not there")


@pytest.mark.parametrize(
    ("answers", "seen", "flaws"),
    [
        ((None, LOST, LOST), b"0", set()),
        ((LOST, None, LOST), b"1", set()),
        ((None, None, LOST), b"1", {Flaw.SEVERAL_WINNERS}),
        ((None, None, LOST), b"2", {Flaw.SEVERAL_WINNERS, Flaw.NOT_THE_WINNERS}),
        ((LOST, LOST, LOST), b"0", {Flaw.NO_WINNER}),
        ((None, LOST, LOST), b"1", {Flaw.NOT_THE_WINNERS}),
        ((None, LOST, LOST), b"01", {Flaw.NOT_THE_WINNERS}),
        ((None, LOST, LOST), GONE, {Flaw.UNREADABLE}),
        ((None, GONE, LOST), b"0", {Flaw.GONE}),
        ((None, LOST_ANSWER, LOST), b"0", set()),
        ((None, LOST_ANSWER, LOST), b"1", {Flaw.NOT_THE_WINNERS}),
        ((LOST, LOST_ANSWER, LOST), b"1", {Flaw.UNDECIDED}),
    ],
)
def test_a_round_is_good_with_one_winner_whose_object_stands(
    answers: tuple[LakehouseError | None, ...], seen: bytes | LakehouseError, flaws: set[Flaw]
) -> None:
    """Each way in which a round goes wrong is named, and a lost answer is not one of them."""
    told = {str(number).encode(): answer for number, answer in enumerate(answers)}
    assert judge_round(told, seen) == flaws


@pytest.mark.parametrize(
    ("flaws", "reason"),
    [
        ({}, None),
        ({Flaw.SEVERAL_WINNERS: 10}, "raced"),
        ({Flaw.NOT_THE_WINNERS: 1}, "raced"),
        ({Flaw.UNDECIDED: 2}, "undecided"),
        ({Flaw.UNDECIDED: 2, Flaw.NOT_THE_WINNERS: 1}, "raced"),
    ],
)
def test_the_reason_tells_broken_conditions_from_missing_answers(
    flaws: dict[Flaw, int], reason: str | None
) -> None:
    """Undecided means that nothing worse was seen than rounds in which nobody was told of success."""
    counts = tuple(TallyCount(flaw=flaw.value, rounds=rounds) for flaw, rounds in flaws.items())
    bad = max(flaws.values(), default=0)
    tally = RaceTally(rounds=10, writers=4, body_bytes=64, bad_rounds=bad, most_winners=4, flaws=counts)
    assert tally.reason == reason


async def test_a_sound_store_has_one_winner_in_each_round() -> None:
    """A race on a sound store has no bad round, tells its progress and leaves nothing."""
    store = stacked(memory_store())
    told: list[Progress] = []
    race = Race([store], "here", PutCondition.REPLACE, writers=4, body_bytes=5000)
    tally = await race.run(7, ProgressReporter(told.append), "replace")
    assert (tally.rounds, tally.bad_rounds, tally.most_winners, tally.flaws) == (7, 0, 1, ())
    assert str(tally) == "passed 7 rounds of 4 writers"
    assert [(one.done, one.total) for one in told] == [(turn, 7) for turn in range(1, 8)]
    assert [meta.key async for meta in store.list()] == []


@pytest.mark.parametrize("condition", list(PutCondition))
async def test_every_writer_sends_the_whole_body_at_once(condition: PutCondition) -> None:
    """A round is one conditional put per writer, spread over the stores, of the size asked for."""
    shared = memory_store()
    stores = [RecordingStore(shared) for _ in range(2)]
    race = Race(stores, "here", condition, writers=5, body_bytes=100)
    await race.run(1, ProgressReporter(None), "race")
    verb = "put_if_absent" if condition is PutCondition.CREATE else "put_if_match"
    puts = [[call.sent for call in store.calls if call.verb == verb] for store in stores]
    assert puts == [[100] * 3, [100] * 2]


async def test_bad_rounds_are_counted_with_what_was_wrong() -> None:
    """A store that lets writers pass now and then shows in the tally with rounds and winners."""
    store = stacked(UnsafeStore(memory_store(), races=["put_if_absent"], rate=0.05, seed=1))
    race = Race([store], "here", PutCondition.CREATE, writers=8, body_bytes=64)
    tally = await race.run(40, ProgressReporter(None), "race")
    (several,) = tally.flaws
    assert several.flaw == "more than one writer succeeded"
    assert 0 < several.rounds == tally.bad_rounds < 40
    assert 1 < tally.most_winners < 8
    assert f"{tally.bad_rounds} of 40 rounds went wrong" in str(tally)


async def test_a_lost_answer_is_counted_and_not_held_against_the_store() -> None:
    """A writer that is told nothing proves nothing; the others' round still counts."""
    store = FaultyStore(memory_store(), [Fault(kind=FaultKind.FAIL_BEFORE, verb="put_if_match")])
    race = Race([store], "here", PutCondition.REPLACE, writers=3, body_bytes=64)
    tally = await race.run(2, ProgressReporter(None), "race")
    assert (tally.bad_rounds, tally.unclear, tally.reason) == (0, 1, None)
    assert "1 answers were lost" in str(tally)
    assert "injected" in str(tally.first_error)


async def test_errors_about_the_caller_end_the_race() -> None:
    """Wrong credentials are raised as they are: no store is judged by them."""

    class Refusing(RecordingStore):
        async def put_if_absent(self, *args: object, **options: object) -> object:  # type: ignore[override]
            raise PermissionDeniedError("expired", kind="bad-credentials")

    race = Race([Refusing(memory_store())], "here", PutCondition.CREATE, writers=3, body_bytes=64)
    with pytest.raises(PermissionDeniedError, match="expired"):
        await race.run(1, ProgressReporter(None), "race")


async def test_a_store_that_never_answers_is_undecided() -> None:
    """Rounds without a winner because no answer came are no proof of a broken condition."""

    class Silent(RecordingStore):
        async def put_if_absent(self, *args: object, **options: object) -> object:  # type: ignore[override]
            raise UnavailableError("no answer", kind="timeout")

    race = Race([Silent(memory_store())], "here", PutCondition.CREATE, writers=3, body_bytes=64)
    tally = await race.run(2, ProgressReporter(None), "race")
    assert (tally.reason, tally.unclear) == ("undecided", 6)
    assert tally.first_error == "no answer"
