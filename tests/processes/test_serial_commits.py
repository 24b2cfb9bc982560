"""Commits that meet leave what they would have left one after the other, in the order of their snapshots.

One process commits. Right before one of its requests, each in turn, others commit too. What is left at
the end, and what each of the snapshots on the way holds, is worked out on a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from lakehouse.errors import AlreadyExistsError, InvalidInputError, LakehouseError
from lakehouse.storage.table import Table
from lakehouse.storage.tables.commit_result import CommitResult
from tests.kit.table_operations import LAYOUTS, OPERATIONS, Model, Operation, build, operation, seen
from tests.kit.worlds import StepIn, World, restored, table_of

DECIDE_ON_THE_HEAD = (
    "delete by condition",
    "delete a partition",
    "overwrite a partition",
    "overwrite by condition",
    "insert new keys",
)
"""Operations for which it matters how rows are laid out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a process was told about its call."""

    what: Operation
    answer: CommitResult | LakehouseError


async def told(what: Operation, table: Table) -> Told:
    """Calls, and keeps the answer."""
    try:
        return Told(what=what, answer=await what.run(table))
    except (AlreadyExistsError, InvalidInputError) as error:
        return Told(what=what, answer=error)


async def meet(world: World, model: Model, mine: Operation, others: Sequence[Operation], before: int) -> bool:
    """One call, and others right before the request of that number; False when there is no such request."""
    store = await restored(world)
    hooked = StepIn(store)
    table, other = await table_of(hooked), await table_of(store)
    await table.current_snapshot()
    answers: list[Told] = []

    async def step_in() -> None:
        answers.extend([await told(one, other) for one in others])

    hooked.before(before, "/snapshot/", step_in)
    answer = await told(mine, table)
    if not answers:
        return False
    answers.append(answer)
    fresh, wanted = await table_of(store), model
    for one in sorted(answers, key=_snapshot):
        if _snapshot(one) != _NONE:
            wanted = one.what.on(wanted)
        if one is answer or _snapshot(one) == max(map(_snapshot, answers)):
            found = await seen(fresh, _snapshot(one) or 4)
            assert found == wanted.shown(), (str(mine), list(map(str, others)), before, str(one.what))
    _check_refusals(answers, model)
    return True


_NONE = 0


def _snapshot(one: Told) -> int:
    return one.answer.snapshot if isinstance(one.answer, CommitResult) and one.answer.changed else _NONE


def _check_refusals(answers: Sequence[Told], model: Model) -> None:
    """Who was refused, or changed nothing, would have been so at some moment of its call."""
    for one in answers:
        if _snapshot(one) != _NONE:
            continue
        states = [model]
        for other in sorted(answers, key=_snapshot):
            if other is not one and _snapshot(other) != _NONE:
                states.append(other.what.on(states[-1]))
        assert any(_does_nothing(one, state) for state in states), str(one.what)


def _does_nothing(one: Told, state: Model) -> bool:
    try:
        after = one.what.on(state)
    except LakehouseError as error:
        return isinstance(one.answer, type(error))
    return isinstance(one.answer, CommitResult) and after.shown() == state.shown()


CASES = [
    (layout, mine)
    for layout in LAYOUTS
    for mine in OPERATIONS
    if (layout == "key holds partition" or mine.name in DECIDE_ON_THE_HEAD)
    and (LAYOUTS[layout].get("primary_key") or not mine.needs_key)
]


@pytest.mark.parametrize(("layout", "mine"), CASES, ids=lambda one: str(one).replace(" ", "-"))
async def test_two_commits_leave_what_one_after_the_other_leaves(layout: str, mine: Operation) -> None:
    """Whatever commits in the middle of a call, it comes before the call or after it, and not in between."""
    world, model = await build(layout)
    for other in OPERATIONS:
        if other.needs_key and not model.key:
            continue
        for before in range(9):
            if not await meet(world, model, mine, [other], before):
                assert before
                break


@pytest.mark.parametrize("mine", DECIDE_ON_THE_HEAD)
async def test_a_rollback_in_the_middle_brings_rows_back_for_everybody(mine: str) -> None:
    """Rows that a rollback brings back are seen by a call that had begun before it."""
    world, model = await build("key holds partition")
    back = operation("roll back")
    for others in ([operation("overwrite all"), back], [back, operation("upsert")], [back, operation("tag")]):
        for before in range(9):
            if not await meet(world, model, operation(mine), others, before):
                break
