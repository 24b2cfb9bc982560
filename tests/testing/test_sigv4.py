"""Requests whose headers a gateway drops are signed again, so that the store takes them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import botocore.config
import botocore.session
import pytest

from lakehouse.errors import FormatError
from lakehouse.testing.endpoint import ServerInfo, fresh_bucket
from lakehouse.testing.http_wire import Request
from lakehouse.testing.proxy import proxy_thread
from lakehouse.testing.proxy_rules import Rule, Strip, on
from lakehouse.testing.sigv4 import without_headers

SECRETS = {"key": "secret"}


def request_of(*headers: str) -> Request:
    """A PUT with these headers."""
    return Request.parse("\r\n".join(["PUT /b/k?x=1 HTTP/1.1", *headers, "", ""]).encode(), 1)


def signed(credential: str) -> str:
    """An Authorization header of that access key."""
    scope = "20260101/us-east-1/s3/aws4_request"
    covered = "host;if-none-match;x-amz-content-sha256;x-amz-date"
    return (
        f"Authorization: AWS4-HMAC-SHA256 Credential={credential}/{scope}, SignedHeaders={covered}, "
        f"Signature={'0' * 64}"
    )


def test_a_request_without_the_header_is_left_alone() -> None:
    """Nothing to drop, nothing to sign."""
    request = request_of("Host: h", signed("key"))
    assert without_headers(request, ("if-none-match",), SECRETS) == request.raw


def test_an_unsigned_request_only_loses_the_header() -> None:
    """Headers are found in any case, and the others stay in their order."""
    request = request_of("Host: h", "IF-None-Match: *", "X: y")
    assert without_headers(request, ("if-none-match",), SECRETS) == request_of("Host: h", "X: y").raw


def test_a_signature_of_an_unknown_key_is_an_error() -> None:
    """A test must not go on with requests that the store refuses for another reason."""
    request = request_of("Host: h", "If-None-Match: *", signed("another"))
    with pytest.raises(FormatError, match="cannot be signed again"):
        without_headers(request, ("if-none-match",), SECRETS)


def test_the_store_takes_what_was_signed_again(object_store_server: ServerInfo) -> None:
    """Behind a gateway that drops If-None-Match the second create overwrites the first."""
    info = object_store_server
    strip = Strip(headers=("if-none-match",), secrets={info.key: info.secret})
    rules = [Rule(match=on("PUT", header="if-none-match"), action=strip, times=None)]
    with fresh_bucket(info) as bucket, proxy_thread(info.endpoint_url, rules=rules) as proxy:
        client: Any = botocore.session.Session().create_client(
            "s3",
            endpoint_url=proxy.url,
            aws_access_key_id=info.key,
            aws_secret_access_key=info.secret,
            region_name=info.region or "us-east-1",
            config=botocore.config.Config(proxies={}, s3={"addressing_style": "path"}),
        )
        with closing(client):
            for body in (b"first", b"second"):
                client.put_object(Bucket=bucket, Key="a b/ü", Body=body, IfNoneMatch="*")
            assert client.get_object(Bucket=bucket, Key="a b/ü")["Body"].read() == b"second"
