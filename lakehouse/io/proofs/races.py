"""Races for one key under a condition: whether exactly one of many writers wins, and its object stands.

In every round each writer sends a body of its own, all at once, through stores as the engine commits
with them: what a store refuses is read back before it counts as lost. Then the object is read through
one of the stores. :func:`judge_round` says what is wrong with a round; it is pure.

Invariant: a race leaves nothing behind but objects whose late answers were lost; all are under the
prefix it was given.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lakehouse.errors import ConflictError, InvalidInputError, LakehouseError, NotFoundError
from lakehouse.ids import new_token
from lakehouse.io.store import ObjectStore
from lakehouse.io.work.fanout import map_bounded
from lakehouse.io.work.progress import ProgressReporter

__all__ = ["Flaw", "PutCondition", "Race", "RaceTally", "TallyCount", "judge_round", "says_nothing"]

_SPEAKS_OF_THE_CALLER = ("bad-credentials", "missing-bucket", "unreachable", "clock-skew", "wrong-region")


class PutCondition(enum.Enum):
    """Condition that a put asks for."""

    CREATE = "If-None-Match: *"
    """The key is free."""
    REPLACE = "If-Match"
    """The object is still the version that the writer has read."""


class Flaw(enum.Enum):
    """Ways in which a round can be wrong."""

    SEVERAL_WINNERS = "more than one writer succeeded"
    NO_WINNER = "every writer was refused"
    NOT_THE_WINNERS = "the object was not the winner's afterwards"
    UNREADABLE = "the object could not be read afterwards"
    GONE = "a writer was told that the object is not there"
    UNDECIDED = "nobody was told of success, and some writers got no clear answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TallyCount:
    """How often something was wrong."""

    flaw: str
    """Flaw of a round, in words."""
    rounds: int
    """Rounds in which it was so; one round may have several flaws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceTally:
    """Outcomes of the rounds of a race."""

    rounds: int
    writers: int
    """Writers in each round."""
    body_bytes: int
    """Bytes that each of them sent."""
    bad_rounds: int
    """Rounds with at least one flaw."""
    most_winners: int
    """Writers that succeeded in the round in which most did."""
    flaws: tuple[TallyCount, ...] = ()
    """Flaws with their counts, in the order of :class:`Flaw`; empty when every round had one winner."""
    unclear: int = 0
    """Answers that were neither success nor refusal, lost ones say: they prove nothing, for or against."""
    first_error: str | None = None
    """The first answer that was neither success nor a conflict."""

    @property
    def reason(self) -> str | None:
        """``raced`` when the condition fails writers that meet, ``undecided`` when the store did not answer
        well enough to tell; None when all is well."""
        if not self.bad_rounds:
            return None
        return "undecided" if {count.flaw for count in self.flaws} == {Flaw.UNDECIDED.value} else "raced"

    def __str__(self) -> str:
        if not self.bad_rounds:
            lost = f"; {self.unclear} answers were lost on the way" if self.unclear else ""
            return f"passed {self.rounds} rounds of {self.writers} writers{lost}"
        told = []
        for count in self.flaws:
            most = f" (up to {self.most_winners} of {self.writers})"
            told.append(
                f"{count.flaw} in {count.rounds}" + (most if count.flaw == Flaw.SEVERAL_WINNERS.value else "")
            )
        error = f": {self.first_error}" if self.first_error else ""
        return f"{self.bad_rounds} of {self.rounds} rounds went wrong: {'; '.join(told)}{error}"


def says_nothing(error: LakehouseError) -> bool:
    """Whether an error is about the caller's credentials, URL or network, not about what the store can do."""
    return error.kind in _SPEAKS_OF_THE_CALLER


def judge_round(
    answers: Mapping[bytes, LakehouseError | None], seen: bytes | LakehouseError
) -> frozenset[Flaw]:
    """Everything that is wrong with a round.

    Args:
        answers: by the body that a writer sent what it was told; None = success.
        seen: the object afterwards, or why it could not be read.
    """
    winners = [body for body, answer in answers.items() if answer is None]
    flaws: set[Flaw] = set()
    if len(winners) > 1:
        flaws.add(Flaw.SEVERAL_WINNERS)
    if any(isinstance(answer, NotFoundError) for answer in answers.values()):
        flaws.add(Flaw.GONE)
    if not winners:
        flaws.add(Flaw.UNDECIDED if any(map(_is_unclear, answers.values())) else Flaw.NO_WINNER)
    elif isinstance(seen, LakehouseError):
        flaws.add(Flaw.UNREADABLE)
    elif seen not in winners:
        flaws.add(Flaw.NOT_THE_WINNERS)
    return frozenset(flaws)


def _is_unclear(answer: LakehouseError | None) -> bool:
    return answer is not None and not isinstance(answer, ConflictError | NotFoundError)


class Race:
    """A race of many rounds, each for a key of its own.

    Args:
        stores: the writers' ways to the bucket, taken in turn.
        prefix: where the keys are.
        condition: what the puts ask for.
        writers: how many there are in each round.
        body_bytes: what each of them sends.
    """

    def __init__(
        self,
        stores: Sequence[ObjectStore],
        prefix: str,
        condition: PutCondition,
        *,
        writers: int,
        body_bytes: int,
    ) -> None:
        self._stores, self._prefix, self._condition = stores, prefix, condition
        self._writers, self._body_bytes = writers, body_bytes
        self._most_winners = self._unclear = 0
        self._first_error: str | None = None

    async def run(self, rounds: int, reporter: ProgressReporter, step: str) -> RaceTally:
        """Runs the rounds one after the other and counts what went wrong; none ends the race."""
        counts = dict.fromkeys(Flaw, 0)
        bad = 0
        for turn in range(rounds):
            flaws = await self._round(turn)
            bad += bool(flaws)
            for flaw in flaws:
                counts[flaw] += 1
            reporter.step(step, total=rounds)
        return RaceTally(
            rounds=rounds,
            writers=self._writers,
            body_bytes=self._body_bytes,
            bad_rounds=bad,
            most_winners=self._most_winners,
            flaws=tuple(TallyCount(flaw=flaw.value, rounds=count) for flaw, count in counts.items() if count),
            unclear=self._unclear,
            first_error=self._first_error,
        )

    async def _round(self, turn: int) -> Collection[Flaw]:
        key = f"{self._prefix}/{self._condition.name.lower()}-{self._body_bytes}-{turn:05}"
        bodies = [_body(self._body_bytes) for _ in range(self._writers)]
        version: str | None = None
        if self._condition is PutCondition.REPLACE:
            version = await _version_of(self._stores[0], key)
        write = partial(self._answer, key, version)
        lanes = list(enumerate(bodies))
        told = [answer async for answer in map_bounded(write, lanes, self._writers)]
        answers = dict(zip(bodies, told, strict=True))
        reader = self._stores[turn % len(self._stores)]
        try:
            seen: bytes | LakehouseError = (await reader.get(key)).data
        except LakehouseError as error:
            seen = error
        self._most_winners = max(self._most_winners, told.count(None))
        self._unclear += sum(map(_is_unclear, told))
        for problem in (*told, seen):
            self._note(problem)
        await self._stores[0].delete(key)
        return judge_round(answers, seen)

    async def _answer(self, key: str, version: str | None, lane: tuple[int, bytes]) -> LakehouseError | None:
        """Writes once and returns the error that the writer gets; None = success."""
        number, body = lane
        store = self._stores[number % len(self._stores)]
        try:
            if version is not None:
                await store.put_if_match(key, body, version=version)
            else:
                # Every other writer creates as segments of a log are created, which may take another client.
                await store.put_if_absent(key, body, timed=number % 2 == 0)
        except LakehouseError as error:
            return error
        return None

    def _note(self, problem: bytes | LakehouseError | None) -> None:
        """Keeps the first error that is no conflict; raises what no store is to blame for."""
        if not isinstance(problem, LakehouseError) or isinstance(problem, ConflictError):
            return
        if says_nothing(problem) or isinstance(problem, InvalidInputError):
            raise problem
        self._first_error = self._first_error or problem.message


async def _version_of(store: ObjectStore, key: str) -> str:
    """Writes the object that is to be replaced, and gives its version."""
    version = (await store.put(key, b"to be replaced " + new_token().encode())).version
    version = version or (await store.head(key)).version
    if version is None:
        raise InvalidInputError(
            "objects have no versions, so none can be named in a condition", kind="unsupported", key=key
        )
    return version


def _body(size: int) -> bytes:
    """A body that no other writer sends, throughout: a mixture of two is neither."""
    token = new_token().encode()
    return (token * (size // len(token) + 1))[: max(size, len(token))]
