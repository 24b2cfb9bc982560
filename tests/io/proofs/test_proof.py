"""No conditional put before the store has shown that it honours conditions; and what that costs."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from typing import Any

import pytest

from lakehouse.errors import InvalidInputError, PermissionDeniedError, UnavailableError
from lakehouse.format.metadata.store_proof import (
    PROOF_MS,
    PROOF_PREFIX,
    Binding,
    ProofState,
    StoreProof,
    decode_proof,
    encode_proof,
)
from lakehouse.io import ObjectStore, RetryPolicy, open_store
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.proofs.check import check_store
from lakehouse.io.proofs.proof import ProvingStore, gated, ungated
from lakehouse.io.retrying import RetryingStore
from lakehouse.testing import (
    Fault,
    FaultKind,
    FaultyStore,
    ManualClock,
    PowerCut,
    RecordingStore,
    UnsafeStore,
    memory_store,
)
from tests.kit.timed_store import TimedStore

DAY_MS = 24 * 3600 * 1000


def ignored(creates: bool, replaces: bool) -> list[str]:
    """Verbs whose condition is ignored."""
    return ["put_if_absent"] * creates + ["put_if_match"] * replaces


class Place:
    """A store that may ignore conditions, and processes that come to it one after the other."""

    def __init__(self, *, creates: bool = False, replaces: bool = False) -> None:
        self.clock = ManualClock(skip=True)
        self.base = memory_store()
        self.ignoring = UnsafeStore(self.base, ignores=ignored(creates, replaces))
        self.timed = TimedStore(self.ignoring, self.clock.now_ms())
        self.asked = RecordingStore(self.timed)

    def process(self, store: ObjectStore | None = None) -> ProvingStore:
        """The store as another process opens it."""
        self.asked.clear()
        policy = RetryPolicy(clock=self.clock, attempts=4, base_s=0)
        opened = gated(RetryingStore(store or self.asked, policy), policy)
        assert isinstance(opened, ProvingStore)
        return opened

    def binding(self) -> Binding:
        """What proofs of this place are bound to."""
        return Binding(backend="memory", endpoint="", root=self.base.url)

    async def kept(self) -> StoreProof:
        """The proof in the warehouse."""
        key = self.binding().key
        return decode_proof((await self.base.get(key)).data, key=key)

    async def keep(self, **more: Any) -> None:
        """Leaves a proof in the warehouse."""
        fields: dict[str, Any] = {"state": ProofState.HOLDS, "binding": self.binding(), "token": "0" * 32}
        proof = StoreProof(**{**fields, "time_ms": self.clock.now_ms(), **more})
        await self.base.put(self.binding().key, encode_proof(proof))


async def refusal_of(store: ObjectStore, key: str = "commit") -> InvalidInputError:
    """The error of both conditional puts, which leave nothing behind."""
    for put in (
        lambda: store.put_if_absent(key, b"x"),
        lambda: store.put_if_absent(key, b"x", timed=False),
        lambda: store.put_if_match(key, b"x", version="1"),
    ):
        with pytest.raises(InvalidInputError) as refused:
            await put()
        assert refused.value.kind == "unsafe-store"
    assert not await store.exists(key)
    return refused.value


# --- what it costs ----------------------------------------------------------------


async def test_the_first_commit_of_a_warehouse_proves_the_store() -> None:
    """One read, a create, two puts that must be refused, and the proof is kept; later puts cost nothing."""
    place = Place()
    store = place.process()
    await store.put_if_absent("one", b"1")
    proof = place.binding().key
    assert [(call.verb, call.key) for call in place.asked.calls] == [
        ("get", proof),
        ("put_if_absent", proof),
        ("put_if_absent", proof),
        ("put_if_match", proof),
        ("put_if_match", proof),
        ("put_if_absent", "one"),
    ]
    assert (await place.kept()).state is ProofState.HOLDS
    place.asked.clear()
    two = await store.put_if_absent("two", b"2")
    assert two.version is not None
    await store.put_if_match("two", b"3", version=two.version)
    assert [call.key for call in place.asked.calls] == ["two", "two"]


async def test_the_next_process_reads_the_proof() -> None:
    """With a kept proof the first conditional put of a process costs one read, later ones nothing."""
    place = Place()
    await place.process().put_if_absent("one", b"1")
    for name in ("two", "three"):
        store = place.process()
        await store.put_if_absent(name, b"2")
        assert [call.verb for call in place.asked.calls] == ["get", "put_if_absent"]
        await store.put_if_absent(name + "-again", b"2")
        assert place.asked.kinds() == {"get": 1, "put": 2}


async def test_reads_and_plain_puts_ask_nothing() -> None:
    """Whoever makes no conditional put makes no request for a proof."""
    place = Place(creates=True, replaces=True)
    store = place.process()
    await store.put("data", b"x")
    assert (await store.get("data")).data == b"x"
    assert [call.key for call in place.asked.calls] == ["data", "data"]


@pytest.mark.parametrize("url", ["memory://proven-as-it-is-built", "file:///tmp/proven-as-it-is-built"])
def test_stores_that_are_safe_as_they_are_built_have_no_gate(url: str) -> None:
    """Memory and local files prove nothing and pay nothing."""
    store = open_store(url)
    assert ungated(store) is store


def test_every_store_that_may_ignore_conditions_is_opened_with_a_gate() -> None:
    """S3 and any other scheme of fsspec come with the gate outermost, with obstore too."""
    options = {"endpoint_url": "http://127.0.0.1:1", "key": "k", "secret": "s"}
    for url, more in (("s3://bucket/w", options), ("http://127.0.0.1:1/w", {})):
        assert isinstance(open_store(url, storage_options=more), ProvingStore)


async def test_calls_that_come_together_prove_once() -> None:
    """Conditional puts that begin beside each other share one proof."""
    place = Place()
    store = place.process()
    await asyncio.gather(*(store.put_if_absent(f"key-{number}", b"x") for number in range(8)))
    assert sum(call.key.startswith(PROOF_PREFIX) for call in place.asked.calls) == 5


async def test_a_proof_begun_ahead_is_not_made_twice() -> None:
    """What expect_commit begins beside other work is what the commit waits for."""
    place = Place()
    await place.process().put_if_absent("one", b"1")
    store = place.process()
    tasks: list[asyncio.Task[None]] = []

    def spawn(work: Any, *, optional: bool) -> bool:
        tasks.append(asyncio.ensure_future(work()))
        return True

    store.expect_commit(spawn)
    store.expect_commit(spawn)
    await store.put_if_absent("two", b"2")
    store.expect_commit(spawn)
    await asyncio.gather(*tasks)
    assert len(tasks) == 1
    assert place.asked.kinds() == {"get": 1, "put": 1}


# --- stores that fail ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("creates", "replaces", "said"),
    [(True, True, "If-None-Match"), (True, False, "If-None-Match"), (False, True, "If-Match")],
    ids=["both", "creates", "replaces"],
)
async def test_a_store_that_ignores_a_condition_is_read_only(
    creates: bool, replaces: bool, said: str
) -> None:
    """No conditional put passes, whichever condition is ignored; reads and plain puts go on."""
    place = Place(creates=creates, replaces=replaces)
    await place.base.put("data", b"x")
    store = place.process()
    error = await refusal_of(store)
    assert said in error.message
    assert "check-store" in error.message
    assert (await store.get("data")).data == b"x"
    with pytest.raises(InvalidInputError, match="not committed to"):
        store.expect_commit()


@pytest.mark.parametrize(("creates", "replaces"), [(True, False), (False, True)])
async def test_a_failure_is_kept_for_the_next_process(creates: bool, replaces: bool) -> None:
    """A put that should have been refused has written the failure down itself: others read it and stop."""
    place = Place(creates=creates, replaces=replaces)
    await refusal_of(place.process())
    assert (await place.kept()).state is ProofState.FAILED
    place.ignoring.ignores = ()
    store = place.process()
    await refusal_of(store)
    assert place.asked.kinds() == {"get": 1, "head": 1}


@pytest.mark.parametrize(("creates", "replaces"), [(True, False), (False, True)])
async def test_no_process_believes_a_proof_that_is_not_finished(creates: bool, replaces: bool) -> None:
    """Wherever a process ends that asks a store which ignores a condition, the next one is refused too."""
    ends = 0
    for kind in (FaultKind.POWER_CUT_BEFORE, FaultKind.POWER_CUT_AFTER):
        for step in range(5):
            place = Place(creates=creates, replaces=replaces)
            power = FaultyStore(place.ignoring, [Fault(kind=kind, at=step)])
            with pytest.raises((PowerCut, InvalidInputError)) as end:
                await place.process(power).put_if_absent("one", b"1")
            ends += end.type is PowerCut
            await refusal_of(place.process())
    assert ends >= 5


async def test_a_store_without_conditional_puts_is_refused_unasked() -> None:
    """Where the verbs are missing nothing is asked."""

    class Plain(UnsafeStore):
        @property
        def capabilities(self) -> Any:  # type: ignore[override]
            return dataclasses.replace(super().capabilities, put_if_match=False)

    asked = RecordingStore(Plain(memory_store()))
    with pytest.raises(InvalidInputError, match="no conditional puts") as refused:
        await gated(asked).put_if_absent("k", b"x")
    assert refused.value.kind == "unsafe-store"
    assert asked.calls == []


async def test_a_withdrawn_proof_stops_this_process_and_later_ones() -> None:
    """Whoever comes across an ignored condition later ends the proof for all that begin after it."""
    place = Place()
    store = place.process()
    await store.put_if_absent("one", b"1")
    await store.withdraw("snapshot 7 was overwritten")
    for one in (store, place.process()):
        assert "snapshot 7 was overwritten" in (await refusal_of(one)).message


async def test_passing_the_check_lifts_the_refusal() -> None:
    """A mended store that passes check_store may be committed to, by processes that were refused too."""
    place = Place(creates=True)
    store = place.process()
    await refusal_of(store)
    assert not (await check_store(store, rounds=2, large_bytes=0)).may_commit
    await refusal_of(store)
    place.ignoring.ignores = ()
    assert (await check_store(store, rounds=2, large_bytes=0)).may_commit
    await store.put_if_absent("one", b"1")
    await place.process().put_if_absent("two", b"2")


# --- when a proof counts --------------------------------------------------------------


async def test_a_proof_ends_after_seven_days() -> None:
    """An old proof is made anew with four requests, in a process that lives on as well."""
    place = Place()
    store = place.process()
    await store.put_if_absent("one", b"1")
    await place.clock.advance(PROOF_MS / 1000 + 1)
    place.timed.advance(PROOF_MS / 1000 + 1)
    place.asked.clear()
    await store.put_if_absent("two", b"2")
    assert place.asked.kinds() == {"get": 1, "put": 4}
    assert (await place.kept()).time_ms >= PROOF_MS


@pytest.mark.parametrize(
    "more",
    [
        {"state": ProofState.BEGUN},
        {"binding": Binding(backend="memory", endpoint="http://elsewhere", root="memory://x")},
        {"time_ms": -8 * DAY_MS},
    ],
    ids=["begun", "of another place", "old"],
)
async def test_what_does_not_count_is_made_anew(more: dict[str, Any]) -> None:
    """A proof that was only begun, is of another place, or too old, spares no request."""
    place = Place()
    if "time_ms" in more:
        more = {"time_ms": place.clock.now_ms() + more["time_ms"]}
    await place.keep(**more)
    await place.process().put_if_absent("one", b"1")
    assert place.asked.kinds() == {"get": 1, "put": 4}
    kept = await place.kept()
    assert (kept.state, kept.binding) == (ProofState.HOLDS, place.binding())


async def test_a_damaged_proof_is_made_anew() -> None:
    """Bytes that are no proof neither count nor stand in the way."""
    place = Place()
    await place.base.put(place.binding().key, b"{}")
    await place.process().put_if_absent("one", b"1")
    assert (await place.kept()).state is ProofState.HOLDS


def test_a_time_ahead_of_the_clock_makes_no_proof_count_longer() -> None:
    """A proof counts for seven days at most, whatever its writer's clock said."""
    binding = Binding(backend="s3", endpoint="http://h", root="s3://b")
    proof = StoreProof(state=ProofState.HOLDS, binding=binding, token="t", time_ms=10**15)
    assert proof.holds_for_ms(binding, 0) == PROOF_MS
    assert proof.holds_for_ms(binding, 10**15 + PROOF_MS) == 0


def test_every_way_to_a_place_has_a_proof_of_its_own() -> None:
    """Endpoint, root and backend all tell keys apart."""
    base = Binding(backend="s3", endpoint="http://h", root="s3://b/w")
    others = [
        dataclasses.replace(base, **{name: value})
        for name, value in (("backend", "gs"), ("endpoint", "http://g"), ("root", "s3://b"))
    ]
    assert len({base.key, *(one.key for one in others)}) == 4


# --- stores that are away ---------------------------------------------------------------


@pytest.mark.parametrize("verb", ["get", "put_if_absent", "put_if_match"])
async def test_a_store_that_is_away_for_a_moment_is_asked_again(verb: str) -> None:
    """Throttling and lost answers are no verdict: the question is repeated."""
    for kind in (FaultKind.THROTTLE, FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER):
        place = Place()
        away = FaultyStore(place.ignoring, [Fault(kind=kind, verb=verb)] * 2)
        await place.process(away).put_if_absent("one", b"1")
        assert (await place.base.get("one")).data == b"1"


async def test_a_store_that_stays_away_is_unavailable_not_unsafe() -> None:
    """The error says that the store does not answer, and the next call asks anew."""
    place = Place()
    fault = Fault(kind=FaultKind.THROTTLE, verb="put_if_match", key=PROOF_PREFIX)
    away = FaultyStore(place.ignoring, [fault] * 1_000)
    store = place.process(away)
    with pytest.raises(UnavailableError):
        await store.put_if_absent("one", b"1")
    away.planned.clear()
    await store.put_if_absent("one", b"1")


async def test_credentials_that_may_not_write_are_told_so() -> None:
    """A refused put is a matter of permissions, not of the store's safety."""
    place = Place()

    class ReadOnly(StoreDecorator):
        async def call(self, verb: str, key: str, request: Any, size: int = 0) -> Any:
            if verb.startswith("put"):
                raise PermissionDeniedError("not allowed for these credentials", key=key)
            return await request()

    with pytest.raises(PermissionDeniedError):
        await place.process(ReadOnly(place.ignoring)).put_if_absent("one", b"1")
    await place.process().put_if_absent("one", b"1")
    with pytest.raises(PermissionDeniedError):
        await place.process(ReadOnly(place.ignoring)).put_if_absent("two", b"2")


async def test_processes_that_prove_at_once_all_succeed() -> None:
    """However the requests of two proofs interleave, both processes commit and one proof is kept."""
    place = Place()
    stores = [place.process() for _ in range(4)]
    await asyncio.gather(*(store.put_if_absent(f"of-{at}", b"x") for at, store in enumerate(stores)))
    assert (await place.kept()).state is ProofState.HOLDS


async def test_a_gate_travels_without_its_verdict() -> None:
    """A pickled store asks again where it arrives."""
    place = Place()
    store = gated(place.ignoring)
    await store.put_if_absent("one", b"1")
    copy: ProvingStore = pickle.loads(pickle.dumps(store))
    assert isinstance(copy, ProvingStore)
    recording = RecordingStore(copy.inner)
    await ProvingStore(recording).put_if_absent("two", b"2")
    assert recording.kinds() == {"get": 1, "put": 1}
