"""The fault proxy where it is used: beside synchronous code, and before a real store."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Iterator
from typing import Any

import botocore.config
import botocore.exceptions
import botocore.session
import pytest

from lakehouse.errors import InvalidInputError
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.proxy import proxy_process, proxy_thread
from lakehouse.testing.proxy_rules import Answer, LoseAnswer, Pass, Rule, on, s3_error
from tests.kit.owners import eventually, owner


def status_of(url: str) -> int:
    """Status of an unsigned request, sent by synchronous code."""
    with contextlib.closing(
        http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    ) as connection:
        connection.request("GET", "/nobody-is-allowed/this")
        return connection.getresponse().status


def test_a_proxy_in_a_thread_serves_synchronous_code(object_store_server: ServerInfo) -> None:
    """Rules apply and requests are noted beside code that blocks."""
    rules = [Rule(match=on(), action=Answer(status=503))]
    with proxy_thread(object_store_server.endpoint_url, rules=rules) as proxy:
        first, second = status_of(proxy.url), status_of(proxy.url)
        assert first == 503
        assert [seen.status for seen in proxy.requests] == [503, second]


def test_a_proxy_in_a_process_slows_and_counts(object_store_server: ServerInfo) -> None:
    """Requests through another process wait there and are counted there."""
    with proxy_process(object_store_server.endpoint_url, latency_ms=50) as proxy:
        started = time.monotonic()
        assert status_of(proxy.url) in (403, 404)
        assert time.monotonic() - started >= 0.05
        assert proxy.counts() == {"GET": 1}
    with pytest.raises(ConnectionRefusedError):
        status_of(proxy.url)


def test_a_proxy_that_cannot_start_says_so() -> None:
    """A URL that cannot be proxied is refused before a process is started."""
    with pytest.raises(InvalidInputError, match="https://store"), proxy_process("https://store"):
        pass


@pytest.mark.parametrize("forks", ["no", "yes"])
def test_no_proxy_outlives_its_owner(forks: str) -> None:
    """The proxy's process ends when the process that started it is killed, forks of it or not."""
    script = """
import os, sys, time
from lakehouse.testing.proxy import proxy_process
with proxy_process("http://127.0.0.1:9") as proxy:
    if sys.argv[1] == "yes" and os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    print(proxy.url, flush=True)
    sys.stdin.read()
"""
    with owner(script, forks) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert status_of(url) == 502
        process.kill()

        def gone() -> bool:
            try:
                status_of(url)
            except ConnectionRefusedError:
                return True
            except ConnectionError:
                pass  # caught in the act of ending
            return False

        eventually(gone, "the proxy ended")


# ------------------------------------------------------------------ a real client and a real store


@contextlib.contextmanager
def s3_client(url: str, info: ServerInfo) -> Iterator[Any]:
    """An S3 client that signs for ``url`` and does not try again."""
    # botocore, not aiobotocore: aiohttp sends a PUT again by itself when its connection is reset.
    client = botocore.session.Session().create_client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=info.key,
        aws_secret_access_key=info.secret,
        region_name=info.region or "us-east-1",
        config=botocore.config.Config(retries={"total_max_attempts": 1}, proxies={}),
    )
    with contextlib.closing(client):
        yield client


def test_a_signed_write_whose_answer_is_lost_is_there(object_store_server: ServerInfo) -> None:
    """The client cannot know that its conditional write was applied; trying again shows a conflict."""
    lost = Rule(match=on("PUT", "*/commit", header="if-none-match"), action=LoseAnswer())
    with (
        fresh_bucket(object_store_server) as bucket,
        proxy_thread(object_store_server.endpoint_url, rules=[lost]) as proxy,
        s3_client(proxy.url, object_store_server) as client,
    ):
        write = {"Bucket": bucket, "Key": "commit", "Body": b"mine", "IfNoneMatch": "*"}
        with pytest.raises(botocore.exceptions.ConnectionClosedError):
            client.put_object(**write)
        with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
            client.put_object(**write)
        assert client.get_object(Bucket=bucket, Key="commit")["Body"].read() == b"mine"
        noted = [(seen.method, seen.status, seen.action) for seen in proxy.requests]
    assert noted == [("PUT", 200, LoseAnswer()), ("PUT", 412, Pass()), ("GET", 200, Pass())]


def test_an_injected_error_is_one_to_an_s3_client(object_store_server: ServerInfo) -> None:
    """A client reads the code of an injected error as it would the store's own."""
    busy = Rule(match=on(), action=s3_error(503, "SlowDown", "Please reduce your request rate"))
    with (
        proxy_thread(object_store_server.endpoint_url, rules=[busy]) as proxy,
        s3_client(proxy.url, object_store_server) as client,
        pytest.raises(botocore.exceptions.ClientError) as caught,
    ):
        client.put_object(Bucket="any", Key="key", Body=b"x")
    assert caught.value.response["Error"]["Code"] == "SlowDown"
