"""Creates through obstore, on a real store behind a real TCP proxy: one request, and a known outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lakehouse.config import IoSettings
from lakehouse.errors import CommitUnknownError, ConflictError, NotFoundError, UnavailableError
from lakehouse.ids import new_token
from lakehouse.io import ObjectStore, open_store
from lakehouse.io.proofs.proof import ungated
from lakehouse.testing.endpoint import ServerInfo
from lakehouse.testing.proxy import FaultProxy
from lakehouse.testing.proxy_rules import LoseAnswer, Reset, Rule, on, s3_error

QUICK = IoSettings(retry_base_s=0.01, retry_cap_s=0.05, retry_attempts=4, fast_reads="require")


@pytest.fixture
async def behind(proxy: FaultProxy, minio: ServerInfo, bucket: str) -> AsyncIterator[ObjectStore]:
    """The store as seen through the proxy, its creates not gated: they are what is looked at."""
    options = {**minio.storage_options, "endpoint_url": proxy.url}
    async with open_store(f"s3://{bucket}", storage_options=options, settings=QUICK) as store:
        yield ungated(store)


def sent(proxy: FaultProxy, method: str) -> int:
    """How many requests of a method reached the proxy's socket."""
    return sum(seen.method == method for seen in proxy.requests)


async def test_a_create_is_one_put_of_obstore(proxy: FaultProxy, behind: ObjectStore) -> None:
    """A create that need not be timed is one request, not of botocore's, and carries the token."""
    proxy.add(Rule(match=on("PUT", header="amz-sdk-invocation-id"), action=Reset(), times=None))
    token = new_token()
    await behind.put_if_absent("one", b"segment", token=token, timed=False)
    assert [seen.method for seen in proxy.requests] == ["PUT"]
    found = await behind.get("one")
    assert (found.data, found.token) == (b"segment", token)


async def test_a_create_that_must_be_timed_says_when(behind: ObjectStore) -> None:
    """Commits keep the store's time."""
    assert (await behind.put_if_absent("timed", b"snapshot")).store_time_ms is not None


async def test_our_own_create_is_recognised(proxy: FaultProxy, behind: ObjectStore) -> None:
    """A create that was applied and whose answer was lost succeeds: one PUT, one read-back."""
    proxy.add(Rule(match=on("PUT", "*own"), action=LoseAnswer()))
    assert (await behind.put_if_absent("own", b"segment", timed=False)).size == len(b"segment")
    assert (sent(proxy, "PUT"), sent(proxy, "GET")) == (1, 1)


async def test_a_create_that_never_arrived_is_sent_again(proxy: FaultProxy, behind: ObjectStore) -> None:
    """A connection that breaks before the store has the request costs a read-back and a second PUT."""
    proxy.add(Rule(match=on("PUT", "*again"), action=Reset()))
    await behind.put_if_absent("again", b"segment", timed=False)
    assert (await behind.get("again")).data == b"segment"
    assert sent(proxy, "PUT") == 2


async def test_a_taken_key_is_a_conflict_with_its_winner(proxy: FaultProxy, behind: ObjectStore) -> None:
    """Whoever loses is told who won."""
    await behind.put_if_absent("taken", b"first", timed=False)
    with pytest.raises(ConflictError) as lost:
        await behind.put_if_absent("taken", b"second", timed=False)
    assert lost.value.context["winner"].data == b"first"


async def test_a_refusal_that_was_applied_is_recognised(proxy: FaultProxy, behind: ObjectStore) -> None:
    """An answer of trouble says nothing about the outcome; the object does."""
    proxy.add(Rule(match=on("PUT", "*trouble"), action=s3_error(503, "SlowDown")))
    await behind.put_if_absent("trouble", b"segment", timed=False)
    assert (await behind.get("trouble")).data == b"segment"


async def test_a_store_that_is_away_is_no_unknown_outcome(minio: ServerInfo, bucket: str) -> None:
    """Nothing was sent where no connection was made, and the error says so."""
    options = {**minio.storage_options, "endpoint_url": "http://127.0.0.1:1"}
    async with open_store(f"s3://{bucket}", storage_options=options, settings=QUICK) as store:
        with pytest.raises(UnavailableError) as away:
            await store.put_if_absent("away", b"segment", timed=False)
    assert away.value.kind == "unreachable"


async def test_an_outcome_that_cannot_be_found_out_is_unknown(proxy: FaultProxy, behind: ObjectStore) -> None:
    """Where reading back fails too, CommitUnknownError says so."""
    proxy.add(Rule(match=on("PUT", "*unknown"), action=LoseAnswer()))
    proxy.add(Rule(match=on("GET", "*unknown"), action=Reset(), times=None))
    with pytest.raises(CommitUnknownError):
        await behind.put_if_absent("unknown", b"segment", timed=False)


async def test_a_bucket_that_is_not_there_is_named(minio: ServerInfo) -> None:
    """The error is the same as without obstore."""
    options = minio.storage_options
    async with open_store("s3://no-such-bucket-x", storage_options=options, settings=QUICK) as store:
        with pytest.raises(NotFoundError) as missing:
            await store.put_if_absent("k", b"x", timed=False)
    assert missing.value.kind == "missing-bucket"
