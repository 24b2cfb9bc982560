"""Rules that every store must keep, as a test class to inherit from.

A backend author writes a fixture and two lines of hooks, and gets the tests::

    class TestMyBackend(StoreConformance):
        @pytest.fixture
        async def store(self):
            async with open_store("my://somewhere/empty") as store:
                yield store

        def write_behind(self, key, data): ...   # not through the store under test
        def read_behind(self, key): ...

The hooks go around the store, so that a store which only agrees with itself fails. What a
store does not claim in its ``capabilities`` it must refuse with kind ``unsupported``; the
tests of that verb then check just that.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

import anyio
import pytest

from lakehouse.errors import ConflictError, InvalidInputError, NotFoundError
from lakehouse.ids import new_token
from lakehouse.io.conditional import put_decisively
from lakehouse.io.protocols import ObjectMeta
from lakehouse.io.retry import RetryPolicy
from lakehouse.io.store import ObjectStore

__all__ = ["StoreConformance"]

R = TypeVar("R")
_BODY = bytes(range(256)) * 40


class StoreConformance:
    """Inherit, give it an empty ``store``, and the two hooks."""

    race_rounds = 5
    """Rounds of the create race."""
    racers = 24
    """Creates at once in each round."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        """The store under test, at an empty root; override me."""
        raise NotImplementedError("override the store fixture")

    def write_behind(self, key: str, data: bytes) -> None:
        """Writes an object without the store under test; override me."""
        raise NotImplementedError("override write_behind")

    def read_behind(self, key: str) -> bytes:
        """Reads an object without the store under test; override me."""
        raise NotImplementedError("override read_behind")

    # --- reading ---------------------------------------------------------------------

    async def test_get_returns_what_others_wrote(self, store: ObjectStore) -> None:
        """A whole object written by somebody else is read byte for byte."""
        await anyio.to_thread.run_sync(self.write_behind, "a/b.bin", _BODY)
        fetched = await store.get("a/b.bin")
        assert (fetched.data, fetched.start, fetched.size) == (_BODY, 0, len(_BODY))

    async def test_get_of_an_empty_object(self, store: ObjectStore) -> None:
        """An empty object is an object."""
        await store.put("empty", b"")
        fetched = await store.get("empty")
        assert (fetched.data, fetched.size) == (b"", 0)

    async def test_get_of_nothing_is_not_found(self, store: ObjectStore) -> None:
        """A key without an object is a NotFoundError that names the key."""
        for read in (store.get("no"), store.get_range("no", 0, 1), store.head("no"), store.get_tail("no", 8)):
            with pytest.raises(NotFoundError, match="no") as caught:
                await read
            assert caught.value.kind == "not-found"

    @pytest.mark.parametrize(
        ("start", "end"), [(0, 1), (0, 10_240), (77, 5000), (10_239, 10_240), (10_000, 20_000)]
    )
    async def test_get_range_is_cut_at_the_end(self, store: ObjectStore, start: int, end: int) -> None:
        """A range gives its bytes, where they lie and how large the object is."""
        await store.put("range", _BODY)
        fetched = await store.get_range("range", start, end)
        assert fetched.data == _BODY[start:end]
        assert (fetched.start, fetched.size) == (start, len(_BODY))

    @pytest.mark.parametrize("start", [10_240, 10_241, 1 << 40])
    async def test_get_range_behind_the_end_is_empty(self, store: ObjectStore, start: int) -> None:
        """A range behind the end gives no bytes and the object's real size."""
        await store.put("range", _BODY)
        fetched = await store.get_range("range", start, start + 10)
        assert (fetched.data, fetched.size) == (b"", len(_BODY))

    async def test_get_range_refuses_what_is_no_range(self, store: ObjectStore) -> None:
        """Negative, reversed and empty ranges are errors of the caller."""
        await store.put("range", _BODY)
        for start, end in ((-1, 4), (5, 4), (4, 4)):
            with pytest.raises(InvalidInputError, match="range"):
                await store.get_range("range", start, end)

    @pytest.mark.parametrize("length", [1, 100, 10_240, 50_000])
    async def test_get_tail_with_and_without_the_size(self, store: ObjectStore, length: int) -> None:
        """A tail is the last bytes, whether or not the size is known; all of a smaller object."""
        await store.put("tail", _BODY)
        for size in (None, len(_BODY)):
            fetched = await store.get_tail("tail", length, size=size)
            assert fetched.data == _BODY[-length:]
            assert (fetched.end, fetched.size) == (len(_BODY), len(_BODY))

    @pytest.mark.parametrize("claimed", [0, 1, 10_000, 20_000])
    async def test_get_tail_with_a_wrong_size_shows_the_right_one(
        self, store: ObjectStore, claimed: int
    ) -> None:
        """A size hint that is wrong is found out from the answer."""
        await store.put("tail", _BODY)
        assert (await store.get_tail("tail", 100, size=claimed)).size == len(_BODY)

    async def test_get_tail_of_an_empty_object(self, store: ObjectStore) -> None:
        """The tail of an empty object is empty, not an error."""
        await store.put("empty", b"")
        for size in (None, 0):
            fetched = await store.get_tail("empty", 100, size=size)
            assert (fetched.data, fetched.size) == (b"", 0)

    async def test_get_ranges_keeps_order_and_overlap(self, store: ObjectStore) -> None:
        """Several ranges come in the order asked for, overlapping, empty and cut ones too."""
        await store.put("ranges", _BODY)
        wanted = [(9000, 9100), (0, 10), (5, 15), (300, 300), (10_200, 11_000), (0, 10)]
        assert await store.get_ranges("ranges", wanted) == [_BODY[start:end] for start, end in wanted]

    async def test_head_tells_size_version_and_time(self, store: ObjectStore) -> None:
        """HEAD knows the size, and a version that a read agrees with."""
        await store.put("head", _BODY)
        meta = await store.head("head")
        assert (meta.key, meta.size) == ("head", len(_BODY))
        assert meta.modified_ms is not None
        if meta.version is not None:
            assert meta.version == (await store.get_range("head", 0, 1)).version

    async def test_a_new_content_is_a_new_version(self, store: ObjectStore) -> None:
        """A read that insists on a version refuses the object's successor."""
        await store.put("v", b"one")
        version = (await store.head("v")).version
        if version is None:
            pytest.skip("the store has no versions")
        assert (await store.get("v", version=version)).data == b"one"
        await store.put("v", b"two")
        for read in (store.get("v", version=version), store.get_range("v", 0, 1, version=version)):
            with pytest.raises(ConflictError):
                await read

    # --- listing ---------------------------------------------------------------------

    async def test_list_is_complete_ordered_and_by_text_prefix(self, store: ObjectStore) -> None:
        """A listing holds exactly the keys that begin with the prefix, in key order."""
        keys = ["a", "a-b", "a.c/d", "a/b", "a/b-c", "a/c/d/e", "ab/c", "b/a"]
        for key in reversed(keys):
            await store.put(key.replace("a/", "a_/") if key == "a" else _filed(key), key.encode())
        stored = sorted(_filed(key) for key in keys)
        for prefix in ("", "a", "a_", "a_/", "a_/b", "b/", "nothing"):
            listed = [meta.key async for meta in store.list(prefix)]
            assert listed == [key for key in stored if key.startswith(prefix)]

    async def test_list_starts_behind_a_key(self, store: ObjectStore) -> None:
        """Start-after excludes the key itself, and need not exist."""
        keys = [f"log/{number:03}" for number in range(7)]
        for key in keys:
            await store.put(key, b"x")
        assert [meta.key async for meta in store.list("log/", start_after="log/003")] == keys[4:]
        assert [meta.key async for meta in store.list("log/", start_after="log/0035")] == keys[4:]
        assert [meta.key async for meta in store.list("log/", start_after="log/999")] == []

    async def test_list_pages_join_without_gap(self, store: ObjectStore) -> None:
        """Pages of any size hold every key once, and only the last has no successor."""
        keys = [f"page/{number:03}" for number in range(11)]
        for key in keys:
            await store.put(key, b"x")
        for size in (1, 3, 11, 12):
            seen: list[ObjectMeta] = []
            page: str | None = None
            while True:
                listed = await store.list_page("page/", page=page, limit=size)
                assert len(listed.objects) <= size
                seen += listed.objects
                page = listed.next_page
                if page is None:
                    break
            assert [meta.key for meta in seen] == keys
            assert {meta.size for meta in seen} == {1}

    async def test_list_groups_at_the_delimiter(self, store: ObjectStore) -> None:
        """A listing with a delimiter shows what lies deeper as one prefix."""
        for key in ("d/a/1", "d/a/2", "d/b", "d/c/3"):
            await store.put(key, b"x")
        listed = await store.list_page("d/", delimiter="/")
        assert [meta.key for meta in listed.objects] == ["d/b"]
        assert listed.prefixes == ("d/a/", "d/c/")

    async def test_list_sees_writes_and_deletes_at_once(self, store: ObjectStore) -> None:
        """A listing shows a write that has returned, and no longer shows a delete that has."""
        await store.put("now/1", b"x")
        assert [meta.key async for meta in store.list("now/")] == ["now/1"]
        await store.delete("now/1")
        assert [meta.key async for meta in store.list("now/")] == []

    async def test_list_limit(self, store: ObjectStore) -> None:
        """A limit ends the listing early."""
        for number in range(5):
            await store.put(f"limit/{number}", b"x")
        assert len([meta async for meta in store.list("limit/", limit=3)]) == 3

    # --- writing ---------------------------------------------------------------------

    async def test_put_is_seen_by_others(self, store: ObjectStore) -> None:
        """An object that was put is there for somebody else, whole."""
        stored = await store.put("x/y/z", _BODY)
        assert await anyio.to_thread.run_sync(self.read_behind, "x/y/z") == _BODY
        assert stored.size == len(_BODY)

    async def test_put_replaces(self, store: ObjectStore) -> None:
        """A put replaces what is there, also with something shorter."""
        await store.put("p", _BODY)
        await store.put("p", b"short")
        assert (await store.get("p")).data == b"short"

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    async def test_put_takes_any_buffer(self, store: ObjectStore, kind: Any) -> None:
        """Bytes, bytearrays and memoryviews are written alike."""
        await store.put("buffer", kind(b"content"))
        assert (await store.get("buffer")).data == b"content"

    @pytest.mark.parametrize(
        "key", ["sp ace", "ümlaut/ß", "plus+and&?=#%25", "a=b/c=d", "日本/語", "quote'\""]
    )
    async def test_keys_are_any_text(self, store: ObjectStore, key: str) -> None:
        """Keys survive spaces, percent signs, query characters and any script."""
        await store.put(key, b"x")
        assert (await store.get(key)).data == b"x"
        assert [meta.key async for meta in store.list()] == [key]

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "nul\0", "x" * 1025])
    async def test_bad_keys_are_refused(self, store: ObjectStore, key: str) -> None:
        """Keys that mean something else somewhere are refused before any request."""
        for call in (store.get(key), store.put(key, b""), store.put_if_absent(key, b""), store.delete(key)):
            with pytest.raises(InvalidInputError, match="key"):
                await call

    async def test_delete_is_idempotent(self, store: ObjectStore) -> None:
        """Deleting succeeds when the object is there, and when it is not."""
        await store.put("gone", b"x")
        await store.delete("gone")
        await store.delete("gone")
        assert not await store.exists("gone")

    async def test_delete_many_counts_missing_ones_too(self, store: ObjectStore) -> None:
        """Many keys are deleted in one call, missing ones included."""
        keys = [f"many/{number}" for number in range(7)]
        for key in keys:
            await store.put(key, b"x")
        assert await store.delete_many([*keys, "many/missing"]) == 8
        assert [meta async for meta in store.list("many/")] == []

    # --- conditions ------------------------------------------------------------------

    async def test_create_refuses_a_taken_key(self, store: ObjectStore) -> None:
        """A create of a key that is taken is a ConflictError and changes nothing."""
        await store.put_if_absent("once", b"first")
        with pytest.raises(ConflictError):
            await store.put_if_absent("once", b"second")
        assert await anyio.to_thread.run_sync(self.read_behind, "once") == b"first"

    async def test_create_refuses_a_taken_key_with_an_empty_body(self, store: ObjectStore) -> None:
        """An empty body does not turn a create into an overwrite."""
        await store.put("marker", b"there")
        with pytest.raises(ConflictError):
            await store.put_if_absent("marker", b"")
        assert (await store.get("marker")).data == b"there"

    async def test_create_with_an_empty_body(self, store: ObjectStore) -> None:
        """An empty object can be created, once."""
        await store.put_if_absent("empty", b"")
        with pytest.raises(ConflictError):
            await store.put_if_absent("empty", b"")

    async def test_racing_creates_have_one_winner(self, store: ObjectStore) -> None:
        """Exactly one of several creates at the same time succeeds, and its bytes stay."""
        _needs_proven_commits(store)
        for turn in range(self.race_rounds):
            key = f"race/{turn}"
            bodies = [f"{racer} {new_token()}".encode() for racer in range(self.racers)]
            outcomes = await _all(_attempt(store.put_if_absent(key, body)) for body in bodies)
            assert outcomes.count(True) == 1
            assert (await store.get(key)).data == bodies[outcomes.index(True)]

    async def test_racing_untimed_creates_have_one_winner(self, store: ObjectStore) -> None:
        """Creates whose time does not matter keep the same rule, and the winner's token stays."""
        _needs_proven_commits(store)
        for turn in range(self.race_rounds):
            key = f"untimed/{turn}"
            tokens = [new_token() for _ in range(self.racers)]
            outcomes = await _all(
                _attempt(store.put_if_absent(key, token.encode(), token=token, timed=False))
                for token in tokens
            )
            assert outcomes.count(True) == 1
            fetched = await store.get(key)
            assert fetched.data.decode() == tokens[outcomes.index(True)]
            assert fetched.token in (None, fetched.data.decode())

    async def test_racing_creates_of_equal_bytes_have_one_winner(self, store: ObjectStore) -> None:
        """Creates that carry the same bytes are still different writes."""
        _needs_proven_commits(store)
        outcomes = await _all(_attempt(store.put_if_absent("equal", b"same")) for _ in range(self.racers))
        assert outcomes.count(True) == 1

    async def test_replace_needs_the_current_version(self, store: ObjectStore) -> None:
        """A replacing put succeeds on the current version only, and gives the next."""
        if not store.capabilities.put_if_match:
            with pytest.raises(InvalidInputError) as refused:
                await store.put_if_match("c", b"x", version="1")
            assert refused.value.kind == "unsupported"
            return
        first = (await store.put("c", b"one")).version or (await store.head("c")).version
        assert first is not None
        second = (await store.put_if_match("c", b"two", version=first)).version
        assert second not in (None, first)
        with pytest.raises(ConflictError):
            await store.put_if_match("c", b"three", version=first)
        assert (await store.get("c")).data == b"two"

    async def test_replace_of_nothing_is_not_found(self, store: ObjectStore) -> None:
        """A replacing put does not create."""
        if not store.capabilities.put_if_match:
            pytest.skip("the store has no replacing puts")
        with pytest.raises((NotFoundError, ConflictError)):
            await store.put_if_match("nothing", b"x", version='"0123456789abcdef0123456789abcdef"')
        assert not await store.exists("nothing")

    async def test_a_counter_is_exact(self, store: ObjectStore) -> None:
        """Concurrent increments under If-Match are never lost."""
        if not store.capabilities.put_if_match:
            pytest.skip("the store has no replacing puts")
        await store.put("counter", b"0 start")

        async def count(times: int) -> None:
            while times:
                seen = await store.get("counter")
                assert seen.version is not None
                body = f"{int(seen.data.split()[0]) + 1} {new_token()}".encode()
                times -= await _attempt(store.put_if_match("counter", body, version=seen.version))

        await _all(count(5) for _ in range(6))
        assert int((await store.get("counter")).data.split()[0]) == 30

    async def test_a_token_is_recognised_or_not_kept(self, store: ObjectStore) -> None:
        """A conditional put's token comes back from reads, where the store keeps tokens at all."""
        await store.put_if_absent("token", b"x", token="t" * 32)
        assert (await store.get("token")).token in ("t" * 32, None)
        await store.put("plain", b"x")
        assert (await store.get("plain")).token is None

    async def test_a_repeated_create_with_its_token_succeeds(self, store: ObjectStore) -> None:
        """The same logical write, sent again with its token in its bytes, is recognised as done."""
        body = b"commit " + (token := new_token()).encode()
        policy = RetryPolicy.of(store.settings)
        for _ in range(2):
            stored = await put_decisively(store, "commit", body, token=token, expected=None, policy=policy)
            assert stored.size == len(body)

    # --- large objects ---------------------------------------------------------------

    async def test_an_upload_in_parts_appears_when_complete(self, store: ObjectStore) -> None:
        """Parts sent out of order make one object, which is not there before."""
        if not store.capabilities.multipart:
            with pytest.raises(InvalidInputError) as refused:
                await store.multipart_start("large")
            assert refused.value.kind == "unsupported"
            return
        part = bytes(range(256)) * (5 * 4096)
        upload = await store.multipart_start("large")
        second = await store.multipart_part("large", upload, 2, b"end")
        first = await store.multipart_part("large", upload, 1, part)
        assert not await store.exists("large")
        await store.multipart_complete("large", upload, [first, second], size=len(part) + 3)
        assert (await store.get("large")).data == part + b"end"

    async def test_an_aborted_upload_leaves_nothing(self, store: ObjectStore) -> None:
        """Aborting throws the parts away, and may be done twice."""
        if not store.capabilities.multipart:
            pytest.skip("the store takes no parts")
        upload = await store.multipart_start("aborted")
        await store.multipart_part("aborted", upload, 1, b"x")
        await store.multipart_abort("aborted", upload)
        await store.multipart_abort("aborted", upload)
        assert [meta async for meta in store.list()] == []

    async def test_a_writer_streams(self, store: ObjectStore) -> None:
        """A writer makes one object of many writes."""
        async with store.writer("stream") as writer:
            for number in range(100):
                await writer.write(f"line {number}\n".encode())
        assert (await store.get("stream")).data.count(b"\n") == 100

    # --- travelling ------------------------------------------------------------------

    async def test_it_survives_pickle(self, store: ObjectStore) -> None:
        """A store travels as configuration and connects again where it arrives."""
        await store.put("pickled", b"x")
        async with pickle.loads(pickle.dumps(store)) as copy:  # noqa: S301 - our own bytes
            assert (await copy.get("pickled")).data == b"x"

    async def test_its_repr_holds_no_credentials(self, store: ObjectStore) -> None:
        """The repr says where the store is, and nothing secret."""
        shown = repr(store)
        assert store.url.partition("://")[2].split("/")[0] in shown
        assert "secret" not in shown.lower()

    async def test_another_loop_is_refused_until_closed(self, store: ObjectStore) -> None:
        """A store used on a second event loop says so; closed in between, it just works."""
        copy: ObjectStore = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own bytes

        def on_two_loops() -> None:
            with asyncio.Runner() as first, asyncio.Runner() as second:
                first.run(_put(copy, "loop", b"x"))
                with pytest.raises(InvalidInputError, match="event loop") as caught:
                    second.run(_get(copy, "loop"))
                assert caught.value.kind == "wrong-loop"
                first.run(copy.aclose())
                assert second.run(_get(copy, "loop")) == b"x"
                second.run(copy.aclose())

        await anyio.to_thread.run_sync(on_two_loops)


def _needs_proven_commits(store: ObjectStore) -> None:
    if not store.capabilities.put_if_match:
        pytest.skip("the store does not claim that its conditional puts are atomic")


def _filed(key: str) -> str:
    """Returns the key in a form that a directory tree can hold beside the others."""
    return key.replace("a/", "a_/", 1) if key.startswith("a/") else key


async def _attempt(write: Awaitable[object]) -> bool:
    try:
        await write
    except ConflictError:
        return False
    return True


async def _all(work: Iterable[Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in work]
    return [task.result() for task in tasks]


async def _put(store: ObjectStore, key: str, data: bytes) -> None:
    await store.put(key, data)


async def _get(store: ObjectStore, key: str) -> bytes:
    return (await store.get(key)).data
