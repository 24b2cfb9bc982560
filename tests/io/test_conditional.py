"""Conditional puts whose outcome is known: the verdicts, and every fault that can befall one writer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest

from lakehouse.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    FencedError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io import Fetched, ObjectStore, Stored
from lakehouse.io.conditional import Attempt, PutFate, judge, put_decisively
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore, PowerCut
from lakehouse.testing.stores import RecordingStore, memory_store
from tests.kit.odd_stores import HistoryStore, ScriptedStore, TokenlessStore, quick_policy

TOKEN = "0123456789abcdef" * 2
BODY = b"commit " + TOKEN.encode()
KEY = "log/1"
PUTS = ("put_if_absent", "put_if_match")

OURS, LOST, NOT_APPLIED = PutFate.OURS, PutFate.LOST, PutFate.NOT_APPLIED
OVERWRITTEN, GONE, ALIKE = PutFate.OVERWRITTEN, PutFate.GONE, PutFate.ALIKE


def _seen(data: bytes, version: str, token: str | None) -> Fetched:
    return Fetched(key=KEY, data=data, start=0, size=len(data), version=version, token=token)


NOTHING = None
OUR_TOKEN = _seen(BODY, "v2", TOKEN)
OTHER_TOKEN = _seen(BODY, "v2", "f" * 32)
OUR_BYTES = _seen(BODY, "v2", None)
OTHER_BYTES = _seen(b"other", "v2", None)
UNCHANGED = _seen(b"before", "v1", "e" * 32)


# --- the verdict ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "seen", "when_refused", "when_open"),
    [
        # Creates.
        (None, NOTHING, NOT_APPLIED, NOT_APPLIED),
        (None, OUR_TOKEN, OURS, OURS),
        (None, OTHER_TOKEN, LOST, LOST),
        (None, OUR_BYTES, OURS, OURS),
        (None, OTHER_BYTES, LOST, LOST),
        # Replacing puts of version v1.
        ("v1", NOTHING, GONE, OVERWRITTEN),
        ("v1", UNCHANGED, NOT_APPLIED, NOT_APPLIED),
        ("v1", OUR_TOKEN, OURS, OURS),
        ("v1", OTHER_TOKEN, LOST, OVERWRITTEN),
        ("v1", OUR_BYTES, OURS, OURS),
        ("v1", OTHER_BYTES, LOST, OVERWRITTEN),
    ],
)
def test_the_verdict(
    expected: str | None, seen: Fetched | None, when_refused: PutFate, when_open: PutFate
) -> None:
    """What was read back, and whether an attempt may have been applied, decide the outcome."""
    attempt = partial(Attempt, key=KEY, data=BODY, token=TOKEN, expected=expected)
    assert judge(attempt(maybe_applied=False), seen) is when_refused
    assert judge(attempt(maybe_applied=True), seen) is when_open


@pytest.mark.parametrize(
    ("expected", "when_refused", "when_open"), [(None, LOST, ALIKE), ("v1", LOST, OVERWRITTEN)]
)
def test_bytes_that_name_nobody_prove_nothing(
    expected: str | None, when_refused: PutFate, when_open: PutFate
) -> None:
    """Without a token in the store or in the bytes, equal bytes are not taken for ours."""
    attempt = partial(Attempt, key=KEY, data=b"same", token=TOKEN, expected=expected)
    there = _seen(b"same", "v2", None)
    assert judge(attempt(maybe_applied=False), there) is when_refused
    assert judge(attempt(maybe_applied=True), there) is when_open


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_our_bytes_are_ours_in_any_buffer(kind: type) -> None:
    """Bytes are compared by content, whatever buffer they were sent from."""
    attempt = Attempt(key=KEY, data=kind(BODY), token=TOKEN, expected=None)
    assert judge(attempt, OUR_BYTES) is OURS


@pytest.mark.parametrize(
    ("error", "maybe_applied", "may_land"),
    [
        (ConflictError("412"), False, False),
        (FencedError("412"), False, False),
        (NotFoundError("404"), False, False),
        (PermissionDeniedError("403"), False, False),
        (InvalidInputError("400"), False, False),
        (UnavailableError("never sent", kind="unreachable"), False, False),
        (UnavailableError("conditional request conflict", status=409), False, False),
        (UnavailableError("slow down", kind="throttled", status=503), True, False),
        (UnavailableError("internal error", status=500), True, False),
        (UnavailableError("bad gateway", status=502), True, True),
        (UnavailableError("gateway time-out", status=504), True, True),
        (UnavailableError("no answer", kind="timeout"), True, True),
        (UnavailableError("reset"), True, True),
        (InternalError("what was that"), True, True),
        (CorruptionError("not an answer"), True, True),
    ],
)
def test_what_an_error_says_of_its_attempt(
    error: LakehouseError, maybe_applied: bool, may_land: bool
) -> None:
    """Refusals are certain; what the store may have got and not answered is open, and may land later."""
    after = Attempt(key=KEY, data=BODY, token=TOKEN, expected=None).after(error)
    assert (after.maybe_applied, after.may_land) == (maybe_applied, may_land)


def test_doubt_does_not_go_away() -> None:
    """A refusal of a later attempt says nothing of an earlier one that got no answer."""
    attempt = Attempt(key=KEY, data=BODY, token=TOKEN, expected=None)
    attempt = attempt.after(UnavailableError("no answer")).after(PermissionDeniedError("403"))
    assert attempt.maybe_applied
    assert attempt.may_land


# --- one writer under faults ---------------------------------------------------------


@dataclass
class _World:
    """A store with a history, what is below a key in it, and a way to write there."""

    base: ObjectStore
    history: HistoryStore
    expected: str | None
    """Version to replace; None = create."""
    token: str = TOKEN
    body: bytes = BODY

    @classmethod
    async def make(cls, replace: bool, keeps_tokens: bool = True) -> _World:
        base = memory_store()
        expected = (await base.put(KEY, b"before")).version if replace else None
        history = HistoryStore(base if keeps_tokens else TokenlessStore(base))
        return cls(base=base, history=history, expected=expected)

    async def write(self, store: ObjectStore | None = None) -> Stored:
        """Our write, through that store."""
        return await put_decisively(
            store or self.history,
            KEY,
            self.body,
            token=self.token,
            expected=self.expected,
            policy=quick_policy(),
        )

    async def other_writes(self) -> None:
        """Somebody else's write of the same key."""
        if self.expected is None:
            await self.base.put_if_absent(KEY, b"other", token="f" * 32)
        else:
            await self.base.put_if_match(KEY, b"other", version=self.expected, token="f" * 32)

    async def content(self) -> bytes | None:
        """What is there."""
        try:
            return (await self.base.get(KEY)).data
        except NotFoundError:
            return None


REPLACE = pytest.mark.parametrize("replace", [False, True], ids=["create", "replace"])
TOKENS = pytest.mark.parametrize("keeps_tokens", [True, False], ids=["tokens", "no tokens"])
PASSING = [
    FaultKind.FAIL_BEFORE,
    FaultKind.FAIL_AFTER,
    FaultKind.LANDS_LATER,
    FaultKind.DUPLICATE,
    FaultKind.DELAY,
    FaultKind.CONFLICT,
    FaultKind.THROTTLE,
]


@REPLACE
@TOKENS
@pytest.mark.parametrize("kind", PASSING, ids=lambda kind: kind.value)
async def test_a_fault_of_the_put_is_settled(kind: FaultKind, replace: bool, keeps_tokens: bool) -> None:
    """Whatever happens to one put that nobody contests, it succeeds and is applied exactly once."""
    world = await _World.make(replace, keeps_tokens)
    faulty = FaultyStore(world.history, [Fault(kind=kind, verb=PUTS[replace])])
    stored = await world.write(faulty)
    assert await world.content() == BODY
    assert stored.version == (await world.base.head(KEY)).version
    await faulty.land()
    assert await world.content() == BODY
    assert world.history.applied == [TOKEN]


@REPLACE
@TOKENS
async def test_a_storm_of_refusals_is_outlasted(replace: bool, keeps_tokens: bool) -> None:
    """Several 409 and 503 in a row, on puts and on reading back, only take time."""
    world = await _World.make(replace, keeps_tokens)
    storm = [Fault(kind=kind) for kind in (FaultKind.CONFLICT, FaultKind.THROTTLE)] * 2
    await world.write(FaultyStore(world.history, storm))
    assert world.history.applied == [TOKEN]


@REPLACE
@pytest.mark.parametrize("kind", [FaultKind.CONFLICT, FaultKind.THROTTLE], ids=lambda kind: kind.value)
async def test_a_store_that_keeps_refusing_is_unavailable(kind: FaultKind, replace: bool) -> None:
    """When attempts end and the store answered every one with no, the write is known not to be there."""
    world = await _World.make(replace)
    faulty = FaultyStore(world.history, [Fault(kind=kind, verb=PUTS[replace])] * 4)
    with pytest.raises(UnavailableError):
        await world.write(faulty)
    assert faulty.planned == []
    assert world.history.applied == []


@REPLACE
@pytest.mark.parametrize("kind", [FaultKind.FAIL_BEFORE, FaultKind.LANDS_LATER], ids=lambda kind: kind.value)
async def test_silence_to_the_end_is_unknown(kind: FaultKind, replace: bool) -> None:
    """When attempts end without an answer the write may still land, so its outcome is unknown."""
    world = await _World.make(replace)
    faulty = FaultyStore(world.history, [Fault(kind=kind, verb=PUTS[replace])] * 4)
    with pytest.raises(CommitUnknownError) as caught:
        await world.write(faulty)
    assert caught.value.context == {"key": KEY, "token": TOKEN}
    await faulty.land()
    assert world.history.applied == ([TOKEN] if kind is FaultKind.LANDS_LATER else [])


@REPLACE
@TOKENS
@pytest.mark.parametrize("kind", PASSING, ids=lambda kind: kind.value)
async def test_a_fault_of_a_put_that_comes_second(kind: FaultKind, replace: bool, keeps_tokens: bool) -> None:
    """Under any fault a write that was beaten is never reported as done, and never changes the winner's."""
    world = await _World.make(replace, keeps_tokens)
    await world.other_writes()
    faulty = FaultyStore(world.history, [Fault(kind=kind, verb=PUTS[replace])])
    # A replacing put that got no answer may have been there before the other's.
    unknown = replace and kind in (
        FaultKind.FAIL_BEFORE,
        FaultKind.FAIL_AFTER,
        FaultKind.LANDS_LATER,
        FaultKind.THROTTLE,
    )
    with pytest.raises(CommitUnknownError if unknown else ConflictError) as caught:
        await world.write(faulty)
    assert caught.value.kind == ("overwritten" if unknown else "lost-race")
    await faulty.land()
    assert await world.content() == b"other"
    assert world.history.applied == []


async def test_a_conflict_carries_the_winner() -> None:
    """Who loses a race has the winner's object at hand, without another read."""
    world = await _World.make(replace=False)
    await world.other_writes()
    recording = RecordingStore(world.history)
    with pytest.raises(ConflictError) as caught:
        await world.write(recording)
    assert caught.value.context["winner"].data == b"other"
    assert caught.value.context["winner"].token == "f" * 32
    assert recording.kinds() == {"put": 1, "get": 1}


async def test_a_conflict_prints_no_content() -> None:
    """The winner's bytes are carried, not printed."""
    world = await _World.make(replace=False)
    await world.other_writes()
    with pytest.raises(ConflictError) as caught:
        await world.write()
    assert "other" not in repr(caught.value.context["winner"])


@REPLACE
async def test_success_costs_one_request(replace: bool) -> None:
    """Where nothing goes wrong a conditional put is one PUT."""
    world = await _World.make(replace)
    recording = RecordingStore(world.history)
    await world.write(recording)
    assert recording.kinds() == {"put": 1}


@REPLACE
async def test_a_lost_answer_costs_one_read(replace: bool) -> None:
    """A put whose answer is lost is not sent again: reading it back settles it."""
    world = await _World.make(replace)
    recording = RecordingStore(FaultyStore(world.history, [Fault(kind=FaultKind.FAIL_AFTER)]))
    await world.write(recording)
    assert recording.kinds() == {"put": 1, "get": 1}


async def test_a_lost_receipt_is_made_good() -> None:
    """The receipt of a write that was read back says the same as the one that was lost."""
    world = await _World.make(replace=False)
    stored = await world.write(FaultyStore(world.history, [Fault(kind=FaultKind.FAIL_AFTER)]))
    there = await world.base.head(KEY)
    assert (stored.key, stored.size, stored.version) == (KEY, len(BODY), there.version)
    assert stored.store_time_ms is not None


async def test_our_version_overwritten_is_unknown() -> None:
    """When our replacement may have been applied and then replaced, no conflict is claimed."""
    world = await _World.make(replace=True)

    class Overtaken(FaultyStore):
        async def get(self, key: str, *, version: str | None = None) -> Fetched:
            await world.base.put(KEY, b"third")
            return await super().get(key, version=version)

    with pytest.raises(CommitUnknownError) as caught:
        await world.write(Overtaken(world.history, [Fault(kind=FaultKind.FAIL_AFTER)]))
    assert caught.value.kind == "overwritten"
    assert world.history.applied == [TOKEN]


async def test_a_replacement_of_what_is_gone_is_not_found() -> None:
    """A replacing put of a key that was deleted is a NotFoundError, not a conflict."""
    world = await _World.make(replace=True)
    await world.base.delete(KEY)
    with pytest.raises(NotFoundError, match="gone"):
        await world.write()


async def test_a_replacement_that_got_no_answer_and_is_gone_is_unknown() -> None:
    """When the object has gone after a put without an answer, ours may have been there."""
    world = await _World.make(replace=True)
    await world.base.delete(KEY)
    with pytest.raises(CommitUnknownError):
        await world.write(FaultyStore(world.history, [Fault(kind=FaultKind.FAIL_BEFORE)]))


async def test_a_conflict_with_what_is_gone_again_is_tried_again() -> None:
    """A create refused for an object that has been deleted since is sent once more."""
    world = await _World.make(replace=False)
    await world.write(ScriptedStore(world.history, "put_if_absent", [ConflictError("412")]))
    assert world.history.applied == [TOKEN]


@TOKENS
async def test_the_same_write_again_is_recognised(keeps_tokens: bool) -> None:
    """A create sent once more with its token, by any process, succeeds and changes nothing."""
    world = await _World.make(replace=False, keeps_tokens=keeps_tokens)
    first, second = await world.write(), await world.write()
    assert first.version == second.version
    assert world.history.applied == [TOKEN]


async def test_equal_bytes_on_a_store_without_tokens_are_unknown() -> None:
    """A create that got no answer does not take another's equal bytes for its own success."""
    world = await _World.make(replace=False, keeps_tokens=False)
    world.body = b"same"
    await world.base.put(KEY, b"same")
    with pytest.raises(CommitUnknownError, match="who wrote them"):
        await world.write(FaultyStore(world.history, [Fault(kind=FaultKind.FAIL_BEFORE)]))


# --- refusals, and reading back that fails -------------------------------------------


async def test_reading_back_is_tried_again() -> None:
    """A read-back that fails for a passing reason is repeated until it tells."""
    world = await _World.make(replace=False)
    faults = [Fault(kind=FaultKind.FAIL_AFTER), *[Fault(kind=FaultKind.THROTTLE, verb="get")] * 3]
    await world.write(FaultyStore(world.history, faults))
    assert world.history.applied == [TOKEN]


@REPLACE
@pytest.mark.parametrize("kind", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER], ids=lambda kind: kind.value)
async def test_an_unreadable_outcome_is_unknown(kind: FaultKind, replace: bool) -> None:
    """When the object cannot be read back, nothing is claimed."""
    world = await _World.make(replace)
    faults = [Fault(kind=kind, verb=PUTS[replace]), *[Fault(kind=FaultKind.THROTTLE, verb="get")] * 4]
    with pytest.raises(CommitUnknownError, match="reading it back failed"):
        await world.write(FaultyStore(world.history, faults))


async def test_an_unreadable_conflict_is_unknown() -> None:
    """A 412 alone proves no lost race: our own first copy may stand in the way."""
    world = await _World.make(replace=False)
    faults = [Fault(kind=FaultKind.DUPLICATE), *[Fault(kind=FaultKind.THROTTLE, verb="get")] * 4]
    with pytest.raises(CommitUnknownError):
        await world.write(FaultyStore(world.history, faults))
    assert world.history.applied == [TOKEN]


async def test_a_forbidden_write_is_forbidden() -> None:
    """Credentials that allow neither write nor read give the refusal itself, not a riddle."""
    world = await _World.make(replace=False)
    refused = PermissionDeniedError("403", kind="bad-credentials", status=403)
    store = ScriptedStore(world.history, "put_if_absent", [refused])
    with pytest.raises(PermissionDeniedError):
        await world.write(ScriptedStore(store, "get", [PermissionDeniedError("403", status=403)]))


async def test_a_refusal_is_read_back_too() -> None:
    """A write that stands there with our token is done, whatever the last attempt was told."""
    world = await _World.make(replace=False)
    await world.write()
    stored = await world.write(ScriptedStore(world.history, "put_if_absent", [PermissionDeniedError("403")]))
    assert stored.version == (await world.base.head(KEY)).version


@pytest.mark.parametrize("refusal", [PermissionDeniedError("403"), InvalidInputError("400")], ids=repr)
async def test_a_refusal_after_silence_is_unknown(refusal: LakehouseError) -> None:
    """A refused attempt does not settle an earlier one that got no answer."""
    world = await _World.make(replace=False)
    with pytest.raises(CommitUnknownError):
        await world.write(
            ScriptedStore(world.history, "put_if_absent", [UnavailableError("no answer"), refusal])
        )


async def test_a_refusal_after_silence_that_cannot_be_read_back_is_unknown() -> None:
    """A certain refusal is passed on only when no earlier attempt left a doubt."""
    world = await _World.make(replace=False)
    refused = PermissionDeniedError("403", status=403)
    store = ScriptedStore(world.history, "put_if_absent", [UnavailableError("no answer"), refused])
    with pytest.raises(CommitUnknownError):
        await world.write(ScriptedStore(store, "get", [None, refused]))


async def test_a_call_that_is_wrong_is_not_read_back() -> None:
    """What is refused before anything was applied costs no further request."""
    world = await _World.make(replace=False)
    recording = RecordingStore(world.history)
    with pytest.raises(InvalidInputError):
        await put_decisively(recording, "/bad", b"", token=TOKEN, expected=None, policy=quick_policy())
    assert recording.kinds() == {"put": 1}


async def test_an_unreachable_store_is_tried_again() -> None:
    """Where no connection was made nothing needs reading back: the put is sent again."""
    world = await _World.make(replace=False)
    down = [UnavailableError("refused", kind="unreachable")] * 3
    recording = RecordingStore(ScriptedStore(world.history, "put_if_absent", down))
    await world.write(recording)
    assert recording.kinds() == {"put": 4}


async def test_a_store_that_stays_unreachable_is_unavailable() -> None:
    """A put that was never sent is known not to be there."""
    world = await _World.make(replace=False)
    down = [UnavailableError("refused", kind="unreachable")] * 9
    with pytest.raises(UnavailableError) as caught:
        await world.write(ScriptedStore(world.history, "put_if_absent", down))
    assert caught.value.kind == "unreachable"


@REPLACE
async def test_a_missing_bucket_is_said(replace: bool) -> None:
    """A bucket that does not exist is not taken for a free key, nor for an object that is gone."""
    world = await _World.make(replace)
    missing = NotFoundError("no bucket", kind="missing-bucket")
    silent = ScriptedStore(world.history, PUTS[replace], [UnavailableError("no answer")])
    with pytest.raises(NotFoundError) as caught:
        await world.write(ScriptedStore(silent, "get", [missing]))
    assert caught.value.kind == "missing-bucket"


# --- power cuts ----------------------------------------------------------------------


@REPLACE
@TOKENS
@pytest.mark.parametrize("first", [None, *PASSING], ids=lambda kind: kind.value if kind else "quiet")
@pytest.mark.parametrize(
    "cut", [FaultKind.POWER_CUT_BEFORE, FaultKind.POWER_CUT_AFTER], ids=lambda k: k.value
)
async def test_a_power_cut_anywhere_is_settled_by_the_next_process(
    cut: FaultKind, first: FaultKind | None, replace: bool, keeps_tokens: bool
) -> None:
    """At every operation, with any fault before it, a cut leaves all or nothing, and a rerun completes it."""
    for at in range(8):
        world = await _World.make(replace, keeps_tokens)
        faults = [Fault(kind=first, verb=PUTS[replace])] if first else []
        try:
            await world.write(FaultyStore(world.history, [Fault(kind=cut, at=at), *faults]))
        except PowerCut:
            assert await world.content() in (BODY, b"before" if replace else None)
        else:
            break
        await world.write()
        assert await world.content() == BODY
        assert world.history.applied == [TOKEN]
    assert 0 < at < 8
