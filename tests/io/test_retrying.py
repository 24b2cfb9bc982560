"""The store that tries again: what it repeats, what it does not, and what it settles."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io import ObjectStore
from lakehouse.io.retrying import RetryingStore
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore
from lakehouse.testing.manual_clock import ManualClock
from lakehouse.testing.stores import RecordingStore, memory_store
from tests.kit.odd_stores import ScriptedStore, quick_policy

AWAY = UnavailableError("away", status=503)

VERBS: dict[str, Callable[[ObjectStore], Awaitable[Any]]] = {
    "get": lambda store: store.get("there"),
    "get_range": lambda store: store.get_range("there", 0, 1),
    "get_suffix": lambda store: store.get_suffix("there", 1),
    "head": lambda store: store.head("there"),
    "list_page": lambda store: store.list_page("th"),
    "put": lambda store: store.put("new", b"x"),
    "put_if_absent": lambda store: store.put_if_absent("new", b"x"),
    "delete": lambda store: store.delete("there"),
    "delete_batch": lambda store: store.delete_batch(["there"]),
    "multipart_start": lambda store: store.multipart_start("new"),
    "multipart_abort": lambda store: store.multipart_abort("new", "none"),
}


async def _retrying(*faults: Fault, attempts: int = 4) -> tuple[RetryingStore, RecordingStore]:
    """A retrying store over a recording one that has the object ``there``."""
    recording = RecordingStore(FaultyStore(memory_store(), faults))
    store = RetryingStore(recording, quick_policy(attempts=attempts))
    await recording.inner.inner.put("there", b"content")  # type: ignore[attr-defined]
    return store, recording


@pytest.mark.parametrize("verb", VERBS)
async def test_what_fails_for_a_passing_reason_is_repeated(verb: str) -> None:
    """Every verb outlasts a store that is away for a moment."""
    store, recording = await _retrying(*[Fault(kind=FaultKind.THROTTLE, verb=verb)] * 3)
    await VERBS[verb](store)
    assert [call.verb for call in recording.calls].count(verb) == 4


@pytest.mark.parametrize("verb", VERBS)
async def test_what_keeps_failing_is_raised(verb: str) -> None:
    """When the policy ends, the last error is the caller's."""
    store, recording = await _retrying(*[Fault(kind=FaultKind.THROTTLE, verb=verb)] * 4)
    with pytest.raises(UnavailableError) as caught:
        await VERBS[verb](store)
    assert caught.value.kind == "throttled"
    assert [call.verb for call in recording.calls].count(verb) == 4


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("404"),
        ConflictError("412"),
        InvalidInputError("400"),
        PermissionDeniedError("403"),
        CorruptionError("crc"),
        InternalError("bug"),
        CommitUnknownError("who knows"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_will_not_change_is_not_repeated(error: LakehouseError) -> None:
    """Only UnavailableError is worth another attempt."""
    recording = RecordingStore(ScriptedStore(memory_store(), "get", [error]))
    with pytest.raises(type(error)):
        await RetryingStore(recording, quick_policy()).get("there")
    assert len(recording.calls) == 1


async def test_success_is_one_request() -> None:
    """A store that answers is asked once, and no clock is waited for."""
    clock = ManualClock(skip=True)
    recording = RecordingStore(memory_store())
    store = RetryingStore(recording, quick_policy(clock=clock))
    await store.put("a", b"x")
    await store.get("a")
    assert recording.kinds() == {"put": 1, "get": 1}
    assert clock.slept == []


async def test_a_slow_failure_is_tried_again() -> None:
    """The deadline counts from the first failure: an attempt that took longer still gets its second."""
    clock = ManualClock(skip=True)

    class Slow(ScriptedStore):
        async def call(self, *args: Any, **more: Any) -> Any:
            await clock.advance(100)
            return await super().call(*args, **more)

    base = memory_store()
    await base.put("there", b"x")
    store = RetryingStore(Slow(base, "get", [AWAY]), quick_policy(clock=clock, deadline_s=30))
    assert (await store.get("there")).data == b"x"


async def test_a_slow_create_is_tried_again() -> None:
    """Conditional puts count their deadline from the first failure too."""
    clock = ManualClock(skip=True)

    class Slow(ScriptedStore):
        async def call(self, verb: str, *args: Any, **more: Any) -> Any:
            if verb == "put_if_absent":
                await clock.advance(100)
            return await super().call(verb, *args, **more)

    store = Slow(memory_store(), "put_if_absent", [AWAY])
    await RetryingStore(store, quick_policy(clock=clock, deadline_s=30)).put_if_absent("new", b"x")


async def test_conditional_puts_are_settled() -> None:
    """A create or replacement whose answer is lost succeeds, without being sent again."""
    store, recording = await _retrying(
        Fault(kind=FaultKind.FAIL_AFTER, verb="put_if_absent"),
        Fault(kind=FaultKind.FAIL_AFTER, verb="put_if_match"),
    )
    created = await store.put_if_absent("new", b"one")
    assert created.version is not None
    replaced = await store.put_if_match("new", b"two", version=created.version)
    assert (await store.get("new", version=replaced.version)).data == b"two"
    assert recording.kinds() == {"put": 2, "get": 3}


async def test_a_lost_race_is_a_conflict() -> None:
    """A create of a taken key loses with the winner at hand, whatever token it carries."""
    store, _ = await _retrying()
    with pytest.raises(ConflictError) as caught:
        await store.put_if_absent("there", b"content")
    assert caught.value.context["winner"].data == b"content"


async def test_a_token_names_the_write() -> None:
    """A create repeated with the caller's token is the same write; without one it is another."""
    store, _ = await _retrying()
    await store.put_if_absent("new", b"x", token="t" * 32)
    await store.put_if_absent("new", b"x", token="t" * 32)
    with pytest.raises(ConflictError):
        await store.put_if_absent("new", b"x")


async def _uploaded(store: ObjectStore) -> tuple[str, list[str]]:
    upload = await store.multipart_start("large")
    return upload, [await store.multipart_part("large", upload, 1, b"part")]


async def test_a_lost_completion_is_found_done() -> None:
    """An upload whose completion was applied and not answered is complete, not missing."""
    store, recording = await _retrying(Fault(kind=FaultKind.FAIL_AFTER, verb="multipart_complete"))
    upload, receipts = await _uploaded(store)
    stored = await store.multipart_complete("large", upload, receipts, size=4)
    assert (stored.size, stored.version) == (4, (await store.head("large")).version)
    assert (await store.get("large")).data == b"part"
    assert [call.verb for call in recording.calls].count("multipart_complete") == 2


async def test_a_lost_completion_is_found_through_more_failures() -> None:
    """Looking for the finished object is tried again like everything else."""
    store, recording = await _retrying(
        Fault(kind=FaultKind.FAIL_AFTER, verb="multipart_complete"),
        Fault(kind=FaultKind.THROTTLE, verb="head"),
    )
    upload, receipts = await _uploaded(store)
    assert (await store.multipart_complete("large", upload, receipts, size=4)).size == 4
    assert recording.kinds()["head"] == 2


async def test_a_completion_that_never_happened_is_repeated() -> None:
    """A completion that did not reach the store is simply sent again."""
    store, _ = await _retrying(Fault(kind=FaultKind.FAIL_BEFORE, verb="multipart_complete"))
    upload, receipts = await _uploaded(store)
    await store.multipart_complete("large", upload, receipts, size=4)
    assert (await store.get("large")).data == b"part"


async def test_an_unknown_upload_is_not_found() -> None:
    """Completing what was never begun fails, even when an object of that key is there."""
    store, _ = await _retrying()
    with pytest.raises(NotFoundError):
        await store.multipart_complete("there", "never-begun", [], size=7)


async def test_an_upload_that_was_thrown_away_is_not_taken_for_done() -> None:
    """When the upload is gone and another object stands there, nothing was completed."""
    store, _ = await _retrying(Fault(kind=FaultKind.FAIL_BEFORE, verb="multipart_complete"))
    upload = await store.multipart_start("there")
    await store.multipart_abort("there", upload)
    with pytest.raises(NotFoundError):
        await store.multipart_complete("there", upload, [], size=4)
    assert (await store.get("there")).data == b"content"


async def test_each_page_and_range_is_tried_again_by_itself() -> None:
    """What is composed of several requests repeats the one that failed, not the whole."""
    store, recording = await _retrying(
        Fault(kind=FaultKind.THROTTLE, verb="list_page"), Fault(kind=FaultKind.THROTTLE, verb="get_range")
    )
    assert [meta.key async for meta in store.list()] == ["there"]
    assert await store.get_ranges("there", [(0, 2), (3, 5)]) == [b"co", b"te"]
    assert recording.kinds() == {"list": 2, "get": 2}


async def test_it_travels_with_its_policy() -> None:
    """A pickled retrying store keeps its bounds."""
    store = RetryingStore(memory_store(), quick_policy(attempts=9))
    copy = pickle.loads(pickle.dumps(store))
    assert copy._policy.attempts == 9
