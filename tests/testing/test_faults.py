"""The faulty store: every way a real store fails, where it was planned or drawn."""

from __future__ import annotations

import asyncio

import pytest

from lakehouse.errors import ConflictError, NotFoundError, UnavailableError
from lakehouse.io import ObjectStore
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore, PowerCut
from lakehouse.testing.stores import LatencyStore, RecordingStore, memory_store


def _faulty(*faults: Fault) -> FaultyStore:
    return FaultyStore(memory_store(), faults)


async def _content(store: FaultyStore, key: str) -> bytes | None:
    """What is really there."""
    try:
        return (await store.inner.get(key)).data
    except NotFoundError:
        return None


@pytest.mark.parametrize(
    ("kind", "lost", "applied"),
    [
        (FaultKind.FAIL_BEFORE, "timeout", False),
        (FaultKind.FAIL_AFTER, "timeout", True),
        (FaultKind.LANDS_LATER, "timeout", False),
        (FaultKind.CONFLICT, "unavailable", False),
        (FaultKind.THROTTLE, "throttled", False),
        (FaultKind.DUPLICATE, None, True),
        (FaultKind.DELAY, None, True),
    ],
)
async def test_a_fault_of_a_put(kind: FaultKind, lost: str | None, applied: bool) -> None:
    """Each fault answers as it says, and the object is there or not as it says."""
    store = _faulty(Fault(kind=kind))
    if lost is None:
        await store.put("a", b"x")
    else:
        with pytest.raises(UnavailableError) as caught:
            await store.put("a", b"x")
        assert caught.value.kind == lost
    assert await _content(store, "a") == (b"x" if applied else None)


@pytest.mark.parametrize(("kind", "status"), [(FaultKind.CONFLICT, 409), (FaultKind.THROTTLE, 503)])
async def test_refusals_carry_their_status(kind: FaultKind, status: int) -> None:
    """An injected refusal has the status of the real one."""
    with pytest.raises(UnavailableError) as caught:
        await _faulty(Fault(kind=kind)).put("a", b"x")
    assert caught.value.context["status"] == status


async def test_a_fault_happens_once() -> None:
    """A planned fault is used up by the first request it matches."""
    store = _faulty(Fault(kind=FaultKind.FAIL_BEFORE))
    with pytest.raises(UnavailableError):
        await store.put("a", b"x")
    await store.put("a", b"x")
    assert store.planned == []


async def test_a_fault_can_be_aimed() -> None:
    """Number, verb and key each narrow a fault down, and requests it is not meant for pass."""
    aimed = Fault(kind=FaultKind.FAIL_BEFORE, verb="put", key="snapshot/", at=3)
    store = _faulty(aimed)
    await store.put("snapshot/1", b"x")
    await store.put("data/1", b"x")
    await store.get("snapshot/1")
    with pytest.raises(UnavailableError):
        await store.put("snapshot/2", b"x")
    assert store.operations == 4


async def test_what_lands_later_lands_when_told() -> None:
    """A request without an answer is applied by land(), once."""
    store = _faulty(Fault(kind=FaultKind.LANDS_LATER))
    with pytest.raises(UnavailableError):
        await store.put("a", b"late")
    assert await store.land() == 1
    assert await _content(store, "a") == b"late"
    assert await store.land() == 0


async def test_what_lands_on_a_changed_world_is_refused() -> None:
    """A late conditional put meets what is there by then."""
    store = _faulty(Fault(kind=FaultKind.LANDS_LATER))
    with pytest.raises(UnavailableError):
        await store.put_if_absent("a", b"late")
    await store.put("a", b"first")
    assert await store.land() == 1
    assert await _content(store, "a") == b"first"


async def test_a_duplicate_answers_with_its_second_delivery() -> None:
    """A create that is delivered twice is refused by its own first copy."""
    store = _faulty(Fault(kind=FaultKind.DUPLICATE))
    with pytest.raises(ConflictError):
        await store.put_if_absent("a", b"x")
    assert await _content(store, "a") == b"x"


async def test_a_lost_answer_hides_a_refusal() -> None:
    """Fail after says nothing of whether the request was accepted."""
    store = _faulty(Fault(kind=FaultKind.FAIL_AFTER, verb="put_if_absent"))
    await store.put("a", b"there")
    with pytest.raises(UnavailableError):
        await store.put_if_absent("a", b"x")
    assert await _content(store, "a") == b"there"


async def test_a_truncated_read_lacks_its_last_byte() -> None:
    """A truncated read delivers less and says nothing; an empty one stays as it is."""
    store = _faulty(*[Fault(kind=FaultKind.TRUNCATE)] * 2)
    await store.inner.put("a", b"12345")
    await store.inner.put("empty", b"")
    assert (await store.get_range("a", 1, 4)).data == b"23"
    assert (await store.get("empty")).data == b""


@pytest.mark.parametrize("bit", [0, 7, 8, 23, 24 + 5])
async def test_a_bit_flip_changes_one_bit(bit: int) -> None:
    """A flipped read differs in the one bit asked for, modulo its length, and the object does not."""
    store = _faulty(Fault(kind=FaultKind.BIT_FLIP, bit=bit))
    await store.inner.put("a", b"abc")
    read = int.from_bytes((await store.get("a")).data, "little")
    assert read ^ int.from_bytes(b"abc", "little") == 1 << bit % 24
    assert await _content(store, "a") == b"abc"


@pytest.mark.parametrize(
    ("kind", "applied"), [(FaultKind.POWER_CUT_BEFORE, False), (FaultKind.POWER_CUT_AFTER, True)]
)
async def test_a_power_cut_is_the_end(kind: FaultKind, applied: bool) -> None:
    """The request at which the power goes is applied or not, and nothing after it is."""
    store = _faulty(Fault(kind=kind, at=1))
    await store.put("a", b"x")
    with pytest.raises(PowerCut):
        await store.put("b", b"x")
    for _ in range(2):
        with pytest.raises(PowerCut):
            await store.put("c", b"x")
    assert not store.power
    assert [await _content(store, key) for key in "abc"] == [b"x", b"x" if applied else None, None]


async def test_a_power_cut_at_a_refused_request_cuts_the_power() -> None:
    """The power goes whatever the store thought of the request."""
    store = _faulty(Fault(kind=FaultKind.POWER_CUT_AFTER, verb="put_if_absent"))
    await store.put("a", b"x")
    with pytest.raises(PowerCut):
        await store.put_if_absent("a", b"y")
    assert not store.power


def test_a_power_cut_passes_every_handler() -> None:
    """No handler of errors can carry on after a power cut."""
    assert not issubclass(PowerCut, Exception)


async def test_answers_under_way_do_not_reach_a_dead_process() -> None:
    """A request that was sent before the cut and answered after it ends in the cut."""
    slow = LatencyStore(memory_store(), {"put": 0.02})
    store = FaultyStore(slow, [Fault(kind=FaultKind.POWER_CUT_BEFORE, verb="head")])
    under_way = asyncio.create_task(store.put("a", b"x"))
    await asyncio.sleep(0)
    with pytest.raises(PowerCut):
        await store.head("a")
    with pytest.raises(PowerCut):
        await under_way
    assert await _content(store, "a") == b"x"


async def test_a_delayed_request_does_not_outlive_the_power() -> None:
    """A request that was still waiting when the power went never reaches the store."""
    store = _faulty(
        Fault(kind=FaultKind.DELAY, verb="put", seconds=0.02),
        Fault(kind=FaultKind.POWER_CUT_BEFORE, verb="head"),
    )
    waiting = asyncio.create_task(store.put("a", b"x"))
    await asyncio.sleep(0)
    with pytest.raises(PowerCut):
        await store.head("a")
    with pytest.raises(PowerCut):
        await waiting
    assert await _content(store, "a") is None


async def _exercise(store: ObjectStore) -> list[str]:
    """Fifty requests, and what came of each."""
    outcomes = []
    for number in range(50):
        try:
            await (store.put(f"k{number}", b"x") if number % 2 else store.get("there"))
            outcomes.append("ok")
        except UnavailableError as error:
            outcomes.append(error.kind)
    return outcomes


async def test_drawn_faults_repeat_with_their_seed() -> None:
    """The same seed over the same requests injects the same faults, another seed others."""
    injected = []
    for seed in (1, 1, 2):
        store = FaultyStore(memory_store(), seed=seed, rate=0.3)
        await store.inner.put("there", b"x")
        await _exercise(store)
        injected.append(store.injected)
    assert injected[0] == injected[1] != injected[2]
    assert 5 <= len(injected[0]) <= 25


async def test_what_was_injected_can_be_played_again() -> None:
    """The list of faults that happened, planned for a new store, gives the same failures."""
    first = FaultyStore(memory_store(), seed=5, rate=0.3)
    await first.inner.put("there", b"x")
    outcomes = await _exercise(first)
    again = FaultyStore(memory_store(), first.injected)
    await again.inner.put("there", b"x")
    assert await _exercise(again) == outcomes
    assert again.injected == first.injected
    assert outcomes.count("ok") < 50


async def test_without_faults_it_is_not_there() -> None:
    """A faulty store without faults passes every request on, once."""
    recording = RecordingStore(memory_store())
    store = FaultyStore(recording, seed=1, rate=0.0)
    await recording.inner.put("there", b"x")
    assert await _exercise(store) == ["ok"] * 50
    assert len(recording.calls) == store.operations == 50
