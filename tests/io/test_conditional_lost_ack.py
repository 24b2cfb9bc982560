"""A conditional put whose answer is lost, on a real store behind a real TCP proxy.

The proxy lets the store answer in full and then resets the connection: the write is done
and nobody is told. These tests fail when the read-back is taken out of
``lakehouse.io.conditional``, and when any layer below sends a put twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lakehouse.config import IoSettings
from lakehouse.errors import CommitUnknownError, ConflictError, UnavailableError
from lakehouse.ids import new_token
from lakehouse.io import ObjectStore, open_backend, open_store
from lakehouse.testing.endpoint import ServerInfo
from lakehouse.testing.proxy import FaultProxy
from lakehouse.testing.proxy_rules import Action, Answer, LoseAnswer, Reset, Rule, on, s3_error

QUICK = IoSettings(retry_base_s=0.01, retry_cap_s=0.05, retry_attempts=4, fast_reads="off")


@pytest.fixture
async def behind(proxy: FaultProxy, minio: ServerInfo, bucket: str) -> AsyncIterator[ObjectStore]:
    """The store as seen through the proxy."""
    options = {**minio.storage_options, "endpoint_url": proxy.url}
    async with open_store(f"s3://{bucket}", storage_options=options, settings=QUICK) as store:
        yield store


@pytest.fixture
async def direct(minio: ServerInfo, bucket: str) -> AsyncIterator[ObjectStore]:
    """The same store, undisturbed: another writer."""
    async with open_store(f"s3://{bucket}", storage_options=minio.storage_options, settings=QUICK) as store:
        yield store


def puts(proxy: FaultProxy, key: str) -> int:
    """How many PUT requests for the key reached the proxy's socket."""
    return sum(seen.method == "PUT" and key in seen.target for seen in proxy.requests)


def gets(proxy: FaultProxy, key: str) -> int:
    """How many GET requests for the key reached the proxy's socket."""
    return sum(seen.method == "GET" and key in seen.target for seen in proxy.requests)


async def test_our_own_create_is_recognised(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore
) -> None:
    """A create that was applied and whose answer was lost succeeds: one PUT, one read-back."""
    key, body = f"own-{new_token()}", b"snapshot " + new_token().encode()
    proxy.add(Rule(match=on("PUT", f"*{key}"), action=LoseAnswer()))
    stored = await behind.put_if_absent(key, body)
    assert stored.size == len(body)
    assert stored.version == (await direct.head(key)).version
    assert (puts(proxy, key), gets(proxy, key)) == (1, 1)


async def test_our_own_replace_is_recognised(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore
) -> None:
    """A replacing put that was applied and whose answer was lost succeeds, with its version."""
    key = f"replace-{new_token()}"
    first = await direct.put(key, b"one")
    assert first.version is not None
    proxy.add(Rule(match=on("PUT", f"*{key}"), action=LoseAnswer()))
    stored = await behind.put_if_match(key, b"two", version=first.version)
    assert stored.version == (await direct.head(key)).version != first.version
    assert puts(proxy, key) == 1


async def test_the_same_bytes_of_another_writer_are_not_ours(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore
) -> None:
    """Who wrote an object is told by its token, not by its bytes."""
    key = f"same-{new_token()}"
    await direct.put_if_absent(key, b"same bytes")
    proxy.add(Rule(match=on("PUT", f"*{key}"), action=LoseAnswer()))
    with pytest.raises(ConflictError) as lost:
        await behind.put_if_absent(key, b"same bytes")
    assert lost.value.kind == "lost-race"


async def test_anothers_create_is_a_conflict(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore
) -> None:
    """When another's object stands there, a lost answer is a lost race, and says whose it is."""
    key, theirs = f"theirs-{new_token()}", b"theirs " + new_token().encode()
    await direct.put_if_absent(key, theirs)
    proxy.add(Rule(match=on("PUT", f"*{key}"), action=LoseAnswer()))
    with pytest.raises(ConflictError) as lost:
        await behind.put_if_absent(key, b"ours " + new_token().encode())
    assert lost.value.kind == "lost-race"
    assert lost.value.context["winner"].data == theirs
    assert (await direct.get(key)).data == theirs


@pytest.mark.parametrize(
    "blocked", [Reset(), s3_error(403, "AccessDenied"), Answer(status=500)], ids=["reset", "403", "500"]
)
async def test_an_unreadable_outcome_is_unknown(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore, blocked: Action
) -> None:
    """When the object cannot be read back, the outcome is said to be unknown, and the token is named."""
    key, token = f"unknown-{new_token()}", new_token()
    proxy.add(Rule(match=on("PUT", f"*{key}"), action=LoseAnswer()))
    proxy.add(Rule(match=on("GET", f"*{key}"), action=blocked, times=None))
    with pytest.raises(CommitUnknownError, match=token) as unknown:
        await behind.put_if_absent(key, b"x", token=token)
    assert unknown.value.context["token"] == token
    assert (await direct.get(key)).token == token


@pytest.mark.parametrize(
    "refused",
    [
        Reset(),
        s3_error(503, "SlowDown"),
        s3_error(409, "ConditionalRequestConflict"),
        s3_error(500, "InternalError"),
    ],
    ids=["reset", "503", "409", "500"],
)
async def test_a_create_that_was_not_applied_is_sent_again(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore, refused: Action
) -> None:
    """When nothing stands there, the same bytes go to the same key with the same token."""
    key, token = f"again-{new_token()}", new_token()
    proxy.add(Rule(match=on("PUT", f"*{key}"), action=refused, times=2))
    await behind.put_if_absent(key, b"x", token=token)
    assert (await direct.get(key)).token == token
    assert puts(proxy, key) == 3


async def test_a_forbidden_answer_to_an_applied_create_is_a_success(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore, minio: ServerInfo
) -> None:
    """Even a 403 is read back: what stands there is ours, so the write succeeded."""
    key, token = f"forbidden-{new_token()}", new_token()
    await direct.put_if_absent(key, b"x", token=token)
    proxy.add(Rule(match=on("PUT", f"*{key}"), action=s3_error(403, "AccessDenied")))
    await behind.put_if_absent(key, b"x", token=token)


async def test_a_counter_is_exact_or_says_unknown(
    proxy: FaultProxy, behind: ObjectStore, direct: ObjectStore
) -> None:
    """Increments that believe in success count once each, although every third answer is lost."""
    key = f"counter-{new_token()}"
    await direct.put(key, b"0 start")
    for turn in range(12):
        if turn % 3 == 0:
            proxy.add(Rule(match=on("PUT", f"*{key}"), action=LoseAnswer()))
        seen = await behind.get(key)
        assert seen.version is not None
        value = f"{int(seen.data.split()[0]) + 1} {new_token()}".encode()
        await behind.put_if_match(key, value, version=seen.version)
    assert (await direct.get(key)).data.startswith(b"12 ")


async def test_no_layer_below_sends_a_put_twice(proxy: FaultProxy, minio: ServerInfo, bucket: str) -> None:
    """The bare backend makes one request and reports what came of it: the retries are ours alone."""
    options = {**minio.storage_options, "endpoint_url": proxy.url}
    async with open_backend(f"s3://{bucket}", storage_options=options, settings=QUICK) as backend:
        await backend.put(f"warm-{new_token()}", b"a connection to reuse")
        for action, conditional in ((LoseAnswer(), True), (Reset(), True), (LoseAnswer(), False)):
            key = f"once-{new_token()}"
            proxy.add(Rule(match=on("PUT", f"*{key}"), action=action))
            with pytest.raises(UnavailableError, match="connection broke"):
                await (backend.put_if_absent(key, b"x") if conditional else backend.put(key, b"x"))
            assert puts(proxy, key) == 1
