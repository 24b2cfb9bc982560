"""Streaming writes: one PUT or parts, all or nothing, in bounded memory."""

from __future__ import annotations

import array
import asyncio
import itertools
import random
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, NotFoundError, UnavailableError
from lakehouse.io import ObjectStore, ObjectWriter, Stored
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.retrying import RetryingStore
from lakehouse.testing.faults import Fault, FaultKind, FaultyStore
from lakehouse.testing.stores import RecordingStore, memory_store
from tests.kit.odd_stores import OnePieceStore, quick_policy

R = TypeVar("R")

pytestmark = pytest.mark.usefixtures("nothing_left")

SMALL = IoSettings(single_put_max_bytes=100, part_bytes=40, part_concurrency=2)


class UploadsStore(RecordingStore):
    """Knows which uploads were begun and not ended."""

    def __init__(self, bounds: IoSettings = SMALL) -> None:
        super().__init__(memory_store(bounds))
        self.open: set[str] = set()

    async def multipart_start(self, key: str) -> str:
        upload = await super().multipart_start(key)
        self.open.add(upload)
        return upload

    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored:
        stored = await super().multipart_complete(key, upload, receipts, size=size)
        self.open.remove(upload)
        return stored

    async def multipart_abort(self, key: str, upload: str) -> None:
        await super().multipart_abort(key, upload)
        self.open.discard(upload)

    async def is_clean(self) -> bool:
        """No object, and no upload left open."""
        return not await self.exists("k") and not self.open


async def _content(store: ObjectStore) -> bytes:
    return (await store.get("k")).data


async def _write(store: ObjectStore, *chunks: bytes, then: Exception | None = None) -> ObjectWriter:
    """An object of these chunks, or the error with which the block ends."""
    async with store.writer("k") as writer:
        for chunk in chunks:
            await writer.write(chunk)
        if then is not None:
            raise then
    return writer


class GatedStore(StoreDecorator):
    """Parts wait until the gate is open."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.gate = asyncio.Event()
        self.under_way = 0
        self.most = 0

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Holds parts up."""
        if verb == "multipart_part":
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await self.gate.wait()
            finally:
                self.under_way -= 1
        return await request()


# --- one PUT, or parts ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "kinds", "parts"),
    [
        (0, {"put": 1}, []),
        (1, {"put": 1}, []),
        (100, {"put": 1}, []),
        (101, {"post": 2, "put": 3}, [40, 40, 21]),
        (120, {"post": 2, "put": 3}, [40, 40, 40]),
        (121, {"post": 2, "put": 4}, [40, 40, 40, 1]),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["one write", "many writes"])
async def test_the_threshold_is_exact(
    size: int, kinds: dict[str, int], parts: list[int], at_once: bool
) -> None:
    """Up to the threshold an object is one PUT; above it, full parts and a last one of what is left."""
    store, data = UploadsStore(), random.Random(size).randbytes(size)
    async with store.writer("k") as writer:
        for chunk in [data] if at_once else [data[i : i + 1] for i in range(size)]:
            await writer.write(chunk)
    assert store.kinds() == kinds
    assert [call.sent for call in store.calls if call.verb == "multipart_part"] == parts
    assert await _content(store) == data
    assert writer.size == size


@given(
    chunks=st.lists(st.binary(max_size=130), max_size=12),
    single=st.integers(0, 200),
    part=st.integers(1, 90),
    concurrency=st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
async def test_any_writes_make_their_object(
    chunks: list[bytes], single: int, part: int, concurrency: int
) -> None:
    """However bytes are cut into writes, the object is their concatenation."""
    bounds = IoSettings(single_put_max_bytes=single, part_bytes=part, part_concurrency=concurrency)
    store = UploadsStore(bounds)
    async with store.writer("k") as writer:
        for chunk in chunks:
            await writer.write(chunk)
    whole = b"".join(chunks)
    assert await _content(store) == whole
    sent = [call.sent for call in store.calls if call.verb == "multipart_part"]
    assert all(size == bounds.part_bytes for size in sent[:-1])
    assert bool(sent) == (len(whole) > bounds.single_put_max_bytes)


async def test_a_store_without_parts_gets_one_piece() -> None:
    """Where a store takes no parts, an object of any size is one PUT."""
    store = RecordingStore(OnePieceStore(memory_store(SMALL)))
    async with store.writer("k") as writer:
        for _ in range(30):
            await writer.write(bytes(10))
    assert store.kinds() == {"put": 1}
    assert len(await _content(store)) == 300


async def test_the_receipt_is_the_objects() -> None:
    """After the block the writer says what was stored, whole or in parts."""
    for size in (10, 300):
        store = UploadsStore()
        async with store.writer("k") as writer:
            await writer.write(bytes(size))
            assert writer.stored is None
        head = await store.head("k")
        assert writer.stored is not None
        assert (writer.stored.size, writer.stored.version) == (size, head.version)


@pytest.mark.parametrize("size", [30, 250])
async def test_the_callers_buffer_can_be_reused(size: int) -> None:
    """Bytes are taken at the call: what happens to the buffer afterwards does not matter."""
    store = GatedStore(memory_store(SMALL))
    buffer = bytearray(size)
    async with store.writer("k") as writer:
        for value in (1, 2):
            buffer[:] = bytes([value]) * size
            task = asyncio.create_task(writer.write(memoryview(buffer)))
            store.gate.set()
            await task
        buffer[:] = b"x" * size
    assert await _content(store) == b"\1" * size + b"\2" * size


async def test_views_of_wider_items_are_bytes() -> None:
    """A view of numbers is written as the bytes it stands for."""
    store = UploadsStore()
    numbers = array.array("q", range(20))
    async with store.writer("k") as writer:
        await writer.write(memoryview(numbers))
    assert writer.size == 160
    assert await _content(store) == numbers.tobytes()


async def test_parts_under_way_are_bounded() -> None:
    """A write waits while as many parts as allowed are under way."""
    store = GatedStore(memory_store(SMALL))
    async with store.writer("k") as writer:
        writing = asyncio.create_task(writer.write(bytes(1_000)))
        await asyncio.sleep(0.01)
        assert not writing.done()
        assert store.under_way == 2
        store.gate.set()
        await writing
    assert store.most == 2


@pytest.mark.parametrize("step", [1 << 10, 1 << 16, 1 << 24], ids=["1 kB", "64 kB", "16 MB"])
async def test_memory_is_bounded(step: int) -> None:
    """A writer holds the next part and those under way, however much is written in pieces of any size."""
    bounds = IoSettings(single_put_max_bytes=1 << 20, part_bytes=1 << 20, part_concurrency=3)

    class Sink(StoreDecorator):
        async def multipart_part(self, key: str, upload: str, number: int, data: Any) -> str:
            await asyncio.sleep(0)
            return str(number)

        async def multipart_complete(self, *arguments: Any, **named: Any) -> Any:
            return None

    data = bytes(step)
    async with Sink(memory_store(bounds)).writer("k") as writer:
        tracemalloc.start()
        for _ in range((32 << 20) // step):
            await writer.write(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # Three parts under way, one collected and the allowance of a growing buffer.
    assert peak < 6 << 20


# --- all or nothing ------------------------------------------------------------------


@pytest.mark.parametrize("size", [50, 500])
async def test_nothing_is_visible_before_the_end(size: int) -> None:
    """The object appears with the end of the block."""
    store = UploadsStore()
    async with store.writer("k") as writer:
        await writer.write(bytes(size))
        await asyncio.sleep(0.01)
        assert not await store.exists("k")
    assert await store.exists("k")


@pytest.mark.parametrize("size", [50, 500])
async def test_an_error_in_the_block_leaves_nothing(size: int) -> None:
    """An error of the caller throws everything away and goes on."""
    store = UploadsStore()
    with pytest.raises(ZeroDivisionError):
        await _write(store, bytes(size), then=ZeroDivisionError())
    assert await store.is_clean()
    assert store.kinds().get("delete", 0) == (size > 100)


@pytest.mark.parametrize("verb", ["multipart_start", "multipart_part", "multipart_complete"])
@pytest.mark.parametrize("size", [30, 100])
async def test_an_error_of_the_store_leaves_nothing(verb: str, size: int) -> None:
    """When the store fails at whichever step, the error comes out and nothing is left."""
    uploads = UploadsStore()
    with pytest.raises(UnavailableError):
        await _write(FaultyStore(uploads, [Fault(kind=FaultKind.THROTTLE, verb=verb)]), *[bytes(size)] * 10)
    assert await uploads.is_clean()


async def test_an_error_of_the_last_put_comes_out() -> None:
    """When the one PUT fails the block raises, and the writer is closed."""
    uploads = UploadsStore()
    store = FaultyStore(uploads, [Fault(kind=FaultKind.THROTTLE)])
    writer = store.writer("k")
    with pytest.raises(UnavailableError):
        async with writer:
            await writer.write(b"x")
    with pytest.raises(InvalidInputError, match="closed"):
        await writer.write(b"y")
    assert await uploads.is_clean()


async def test_a_failed_part_ends_the_next_write() -> None:
    """A part that failed is heard of at the next part, not at the end of a long upload."""
    store = FaultyStore(memory_store(SMALL), [Fault(kind=FaultKind.THROTTLE, verb="multipart_part")])
    recording = RecordingStore(store)
    with pytest.raises(UnavailableError):
        await _write(recording, *[bytes(40)] * 1_000)
    assert len(recording.calls) < 10


async def test_a_failed_part_is_not_waited_behind_others() -> None:
    """At the end the first error comes out at once, while other parts hang."""

    class Hanging(StoreDecorator):
        async def multipart_part(self, key: str, upload: str, number: int, data: Any) -> str:
            if number == 2:
                raise UnavailableError("part 2")
            await asyncio.Event().wait()
            return ""

    bounds = IoSettings(single_put_max_bytes=50, part_bytes=40, part_concurrency=2)
    with anyio.fail_after(5), pytest.raises(UnavailableError, match="part 2"):
        await _write(Hanging(memory_store(bounds)), bytes(80))


async def test_an_abort_that_fails_keeps_the_callers_error() -> None:
    """When throwing the parts away fails too, the first error is still the one raised."""
    faults = [Fault(kind=FaultKind.THROTTLE, verb=verb) for verb in ("multipart_part", "multipart_abort")]
    with pytest.raises(UnavailableError, match="multipart_part"):
        await _write(FaultyStore(memory_store(SMALL), faults), bytes(200))


async def test_several_failed_parts_are_one_error() -> None:
    """Of parts that fail together one is raised, and no other is reported as overlooked."""
    faults = [Fault(kind=FaultKind.THROTTLE, verb="multipart_part")] * 2
    with pytest.raises(UnavailableError):
        await _write(FaultyStore(memory_store(SMALL), faults), bytes(120))


async def test_a_part_that_fails_when_cancelled_is_not_reported_as_overlooked() -> None:
    """What a part says while it is being thrown away interests nobody."""

    class Grumpy(StoreDecorator):
        async def multipart_part(self, key: str, upload: str, number: int, data: Any) -> str:
            try:
                await asyncio.Event().wait()
            finally:
                raise UnavailableError("cut off")

    store = Grumpy(memory_store(SMALL))
    writer = store.writer("k")
    with anyio.move_on_after(0.01):
        await writer.write(bytes(200))
    await writer.abort()


@pytest.mark.parametrize("anyio_scope", [True, False], ids=["anyio", "asyncio"])
async def test_cancellation_leaves_nothing(anyio_scope: bool) -> None:
    """A writer that is cancelled while parts are under way throws them away."""
    uploads = UploadsStore()
    store = GatedStore(uploads)
    if anyio_scope:
        with anyio.move_on_after(0.01) as scope:
            await _write(store, bytes(1_000))
        assert scope.cancelled_caught
    else:
        task = asyncio.create_task(_write(store, bytes(1_000)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert store.under_way == 0
    assert await uploads.is_clean()


async def test_a_write_that_did_not_end_makes_no_object() -> None:
    """After a write that timed out the block cannot end well: the object would lack bytes."""
    uploads = UploadsStore()
    store = GatedStore(uploads)

    async def write() -> None:
        async with store.writer("k") as writer:
            with anyio.move_on_after(0.01):
                await writer.write(bytes(1_000))
            store.gate.set()

    with pytest.raises(InvalidInputError, match="lack bytes"):
        await write()
    assert await uploads.is_clean()


async def test_a_write_after_one_that_did_not_end_is_refused() -> None:
    """Going on after a failed write is refused at once, not at the end."""
    uploads = UploadsStore()
    writer = FaultyStore(uploads, [Fault(kind=FaultKind.THROTTLE, verb="multipart_start")]).writer("k")
    with pytest.raises(UnavailableError):
        await writer.write(bytes(200))
    with pytest.raises(InvalidInputError, match="did not end"):
        await writer.write(b"more")
    await writer.abort()
    assert await uploads.is_clean()


async def test_at_every_cut_there_is_all_or_nothing() -> None:
    """Whichever request of an upload fails, in whichever way, the object is whole or not there."""
    data = random.Random(0).randbytes(170)
    kinds = (FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.THROTTLE)
    for kind, at in itertools.product(kinds, range(7)):
        store = FaultyStore(memory_store(SMALL), [Fault(kind=kind, at=at)])
        try:
            await _write(store, data)
            assert await _content(store.inner) == data
        except UnavailableError:
            # Completed, and the answer lost: the object is there, whole, and the writer cannot know.
            lost = kind is FaultKind.FAIL_AFTER and store.injected[0].verb == "multipart_complete"
            assert await store.inner.exists("k") == lost
            if lost:
                assert await _content(store.inner) == data


async def test_a_retrying_store_outlasts_faults_at_every_step() -> None:
    """Above a store that tries again, faults at each step of an upload do not show."""
    data = random.Random(1).randbytes(500)
    for seed in range(20):
        faulty = FaultyStore(memory_store(SMALL), seed=seed, rate=0.2)
        await _write(RetryingStore(faulty, quick_policy(attempts=12)), data)
        assert await _content(faulty.inner) == data


# --- by hand -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [50, 500])
async def test_finishing_by_hand(size: int) -> None:
    """Without a block, finish() makes the object, once."""
    store = UploadsStore()
    writer = store.writer("k")
    await writer.write(bytes(size))
    stored = await writer.finish()
    assert stored == writer.stored
    with pytest.raises(InvalidInputError, match="closed"):
        await writer.finish()


async def test_a_failed_finish_can_be_repeated() -> None:
    """A finish whose PUT failed can be tried again with the same bytes."""
    store = FaultyStore(memory_store(SMALL), [Fault(kind=FaultKind.THROTTLE)])
    writer = store.writer("k")
    await writer.write(b"content")
    with pytest.raises(UnavailableError):
        await writer.finish()
    await writer.finish()
    assert await _content(store) == b"content"


async def test_a_failed_part_fails_every_finish() -> None:
    """A finish that cannot succeed says so however often it is tried, and never hangs."""
    faults = [Fault(kind=FaultKind.THROTTLE, verb="multipart_part")]
    writer = FaultyStore(memory_store(SMALL), faults).writer("k")
    await writer.write(bytes(110))
    for _ in range(5):
        with anyio.fail_after(1), pytest.raises(UnavailableError):
            await writer.finish()
    await writer.abort()


async def test_aborting_after_the_end_changes_nothing() -> None:
    """An object that was made stays, and nothing more is asked of the store."""
    store = UploadsStore()
    async with store.writer("k") as writer:
        await writer.write(bytes(200))
    store.clear()
    await writer.abort()
    assert store.calls == []
    assert await store.exists("k")


async def test_finishing_inside_the_block_is_the_end() -> None:
    """A block whose writer was finished, or aborted, inside it does no more."""
    store = UploadsStore()
    async with store.writer("k") as writer:
        await writer.write(b"x")
        await writer.finish()
    assert store.kinds() == {"put": 1}
    async with store.writer("none") as writer:
        await writer.abort()
    with pytest.raises(NotFoundError):
        await store.get("none")


async def test_a_bad_key_is_refused_at_once() -> None:
    """A key that cannot be is refused before anything is written."""
    with pytest.raises(InvalidInputError, match="key"):
        UploadsStore().writer("/bad")


def test_a_writer_needs_no_event_loop_to_be_made() -> None:
    """Making a writer contacts nothing."""
    assert isinstance(memory_store().writer("k"), ObjectWriter)
