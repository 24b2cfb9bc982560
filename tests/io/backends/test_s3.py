"""What goes wrong between us and an S3 store: each has its own clear error, in bounded time.

Answers that MinIO cannot be made to give come from the proxy in front of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from lakehouse.config import IoSettings
from lakehouse.errors import (
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io import ObjectStore, open_store
from lakehouse.io.backends.s3_errors import classify
from lakehouse.testing.endpoint import ServerInfo
from lakehouse.testing.proxy import FaultProxy
from lakehouse.testing.proxy_rules import Action, Rule, Truncate, on, s3_error

BOUNDED_S = 10.0


def settings(fast_reads: str) -> IoSettings:
    """Impatient settings, so that giving up does not take long."""
    return IoSettings(
        fast_reads=fast_reads,
        retry_attempts=3,
        retry_deadline_s=0.5,
        retry_base_s=0.01,
        retry_cap_s=0.02,
        connect_timeout_s=1,
        read_timeout_s=1,
        request_timeout_s=2,
    )


@pytest.fixture(params=["off", "require"], ids=["s3fs", "obstore"])
def bounds(request: pytest.FixtureRequest) -> IoSettings:
    """Everything is tried with s3fs alone and with obstore reading."""
    return settings(request.param)


@contextlib.asynccontextmanager
async def opened(
    minio: ServerInfo, bucket: str, bounds: IoSettings, **changed: Any
) -> AsyncIterator[ObjectStore]:
    """The bucket with some storage options changed."""
    options = {**minio.storage_options, **changed}
    async with open_store(f"s3://{bucket}", storage_options=options, settings=bounds) as store:
        yield store


async def refused(store: ObjectStore, expected: type[LakehouseError], kind: str) -> None:
    """Every kind of request ends in that error, soon, says where, and shows no secret."""
    calls = (
        store.get("some/key"),
        store.get_tail("some/key", 10, size=100),
        store.put("some/key", b"x"),
        store.put_if_absent("some/key", b"x"),
        store.list_page("some/"),
    )
    for call in calls:
        started = time.perf_counter()
        with pytest.raises(expected) as error:
            await call
        assert time.perf_counter() - started < BOUNDED_S
        assert error.value.kind == kind
        assert store.url in str(error.value)
        assert "sesame" not in str(error.value) + repr(error.value)


async def test_wrong_credentials(minio: ServerInfo, bucket: str, bounds: IoSettings) -> None:
    """Unknown keys and wrong secrets are bad credentials, and the secret is not shown."""
    for changed in ({"key": "nobody", "secret": "sesame-open"}, {"secret": "sesame-open"}):
        async with opened(minio, bucket, bounds, **changed) as store:
            await refused(store, PermissionDeniedError, "bad-credentials")


def test_a_key_nobody_has_is_no_missing_object() -> None:
    """versitygw says 404 of an access key it does not know; nothing is concluded about the object."""
    where = {"verb": "get", "key": "some/key", "url": "s3://bucket"}
    error = classify(404, "XAdminUserNotFound", "No user exists", **where)
    assert (type(error), error.kind) == (PermissionDeniedError, "bad-credentials")
    assert isinstance(classify(404, "NoSuchKey", "", **where), NotFoundError)


async def test_no_credentials(monkeypatch: pytest.MonkeyPatch, minio: ServerInfo, bucket: str) -> None:
    """Without any credentials the error says where they may come from."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "nowhere")
    options = {"endpoint_url": minio.endpoint_url}
    async with open_store(f"s3://{bucket}", storage_options=options, settings=settings("auto")) as store:
        with pytest.raises(PermissionDeniedError, match="AWS_ACCESS_KEY_ID"):
            await store.get("x")


async def test_missing_bucket(minio: ServerInfo, bounds: IoSettings) -> None:
    """A bucket that is not there is told apart from an object that is not there."""
    async with opened(minio, "no-such-bucket-here", bounds) as store:
        await refused(store, NotFoundError, "missing-bucket")


async def test_unreachable_endpoint(minio: ServerInfo, bucket: str, bounds: IoSettings) -> None:
    """An endpoint where nobody listens is unreachable, and says so soon."""
    async with opened(minio, bucket, bounds, endpoint_url="http://127.0.0.1:1") as store:
        await refused(store, UnavailableError, "unreachable")


async def test_an_endpoint_that_never_answers(minio: ServerInfo, bucket: str, bounds: IoSettings) -> None:
    """A server that takes requests and says nothing is a time-out, not a hang."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while await reader.read(65536):
                pass
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    quick = IoSettings(
        fast_reads=bounds.fast_reads,
        retry_attempts=1,
        connect_timeout_s=0.3,
        read_timeout_s=0.3,
        request_timeout_s=0.5,
    )
    async with server, opened(minio, bucket, quick, endpoint_url=f"http://127.0.0.1:{port}") as store:
        for call in (store.get("key"), store.put("key", b"x"), store.list_page()):
            started = time.perf_counter()
            with pytest.raises(UnavailableError) as error:
                await call
            assert error.value.kind == "timeout"
            assert time.perf_counter() - started < 3


ANSWERS = [
    (
        s3_error(403, "RequestTimeTooSkewed", "The difference is too large"),
        PermissionDeniedError,
        "clock-skew",
    ),
    (s3_error(301, "PermanentRedirect", "use another endpoint"), InvalidInputError, "wrong-region"),
    (
        s3_error(
            400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'"
        ),
        InvalidInputError,
        "wrong-region",
    ),
    (s3_error(503, "SlowDown", "Please reduce your request rate."), UnavailableError, "throttled"),
    (s3_error(500, "InternalError", "We encountered an internal error"), UnavailableError, "unavailable"),
    (s3_error(403, "AccessDenied", "Access Denied"), PermissionDeniedError, "permission-denied"),
]


@pytest.mark.parametrize(
    ("answer", "expected", "kind"),
    ANSWERS,
    ids=[kind for _, _, kind in ANSWERS[:2]] + ["malformed", "throttled", "internal", "denied"],
)
async def test_answers_of_the_store(
    proxy: FaultProxy,
    minio: ServerInfo,
    bucket: str,
    bounds: IoSettings,
    answer: Action,
    expected: type[LakehouseError],
    kind: str,
) -> None:
    """Clock skew, wrong region, throttling and refusals are told apart by the store's own code."""
    proxy.add(Rule(match=on(), action=answer, times=None))
    async with opened(minio, bucket, bounds, endpoint_url=proxy.url) as store:
        for call in (store.get("key"), store.put("key", b"x"), store.list_page()):
            with pytest.raises(expected) as error:
                await call
            assert error.value.kind == kind


async def test_a_truncated_body_is_read_again(
    proxy: FaultProxy, minio: ServerInfo, bucket: str, bounds: IoSettings
) -> None:
    """A body that ends early is never handed out: it is read again, or reported."""
    async with opened(minio, bucket, bounds, endpoint_url=proxy.url) as store:
        await store.put("body", bytes(50_000))
        proxy.add(Rule(match=on("GET"), action=Truncate(body_bytes=1000)))
        assert len((await store.get("body")).data) == 50_000
        proxy.add(Rule(match=on("GET"), action=Truncate(body_bytes=1000), times=None))
        with pytest.raises(UnavailableError) as error:
            await store.get("body")
        assert error.value.kind in ("truncated-body", "unavailable")


async def test_a_tail_is_one_request_on_the_wire(
    proxy: FaultProxy, minio: ServerInfo, bucket: str, bounds: IoSettings
) -> None:
    """A tail costs one ranged GET with the size known, one suffix GET without, and never a HEAD."""
    async with opened(minio, bucket, bounds, endpoint_url=proxy.url) as store:
        await store.put("tail", bytes(10_000))
        for size, header in ((10_000, "bytes=9900-9999"), (None, "bytes=-100")):
            proxy.forget()
            assert (await store.get_tail("tail", 100, size=size)).size == 10_000
            assert [(seen.method, seen.range) for seen in proxy.requests] == [("GET", header)]


async def test_opening_a_store_costs_no_request(
    proxy: FaultProxy, minio: ServerInfo, bucket: str, bounds: IoSettings
) -> None:
    """Nothing is contacted before the first request, and that is the only one."""
    async with opened(minio, bucket, bounds, endpoint_url=proxy.url) as store:
        assert proxy.requests == []
        with pytest.raises(NotFoundError):
            await store.get("nothing")
    assert len(proxy.requests) == 1
