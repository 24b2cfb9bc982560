"""From what botocore and aiohttp say to what the engine says. One table, one place.

Classification is by HTTP status and S3 error code of the original answer, never by the
``OSError`` that s3fs makes of it: that one is the same for a lost race, a bad range and
malformed XML (and differs between MinIO and AWS for the same lost race).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp
import botocore.exceptions as boto

from lakehouse.errors import (
    ConflictError,
    InternalError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)

__all__ = ["classify", "is_bad_range", "translate"]

_CREDENTIALS = {
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "XAdminUserNotFound",  # versitygw's, with the status of an object that is not there
}
_SKEW = {"RequestExpired", "RequestTimeTooSkewed"}
_REGION = {"IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect"}
_THROTTLED = {
    "RequestLimitExceeded",
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "Throttling",
    "TooManyRequests",
}


def classify(
    status: int, code: str, message: str, *, verb: str, key: str, url: str, region: str | None = None
) -> LakehouseError:
    """The engine's error for an answer of the store."""
    where = f"{verb} of {key!r} at {url}" if key else f"{verb} at {url}"
    told = f"the store says {status} {code}" + (f": {message}" if message else "")
    facts: dict[str, Any] = {"key": key, "verb": verb, "url": url, "status": status, "code": code}
    if code == "NoSuchBucket":
        return NotFoundError(
            f"{where}: the bucket does not exist. Create it, or check the URL.",
            kind="missing-bucket",
            **facts,
        )
    if (
        code in _REGION
        or status in (301, 307)
        or (code == "AuthorizationHeaderMalformed" and "region" in message)
    ):
        hint = f" (the store names {region!r})" if region else ""
        return InvalidInputError(
            f"{where}: the bucket is in another region{hint}. Set client_kwargs={{'region_name': …}} "
            f"in the storage options, or AWS_REGION. {told}",
            kind="wrong-region",
            **facts,
        )
    if code in _SKEW:
        return PermissionDeniedError(
            f"{where}: this machine's clock and the store's differ too much. Set the clock (NTP). {told}",
            kind="clock-skew",
            **facts,
        )
    if code in _CREDENTIALS:
        return PermissionDeniedError(
            f"{where}: the credentials are wrong or have expired. Check key, secret and token in the "
            f"storage options or the AWS_ environment. {told}",
            kind="bad-credentials",
            **facts,
        )
    if status in (401, 403):
        return PermissionDeniedError(f"{where}: not allowed for these credentials. {told}", **facts)
    if status == 404:
        return NotFoundError(f"{where}: there is no such object. {told}", **facts)
    if status == 412:
        return ConflictError(f"{where}: the condition does not hold. {told}", **facts)
    if status == 409:
        # S3: two conditional writes met; neither outcome is decided. Worth another attempt.
        return UnavailableError(f"{where}: it met another write under way. {told}", **facts)
    if code in _THROTTLED or status == 429:
        return UnavailableError(
            f"{where}: the store asks for fewer requests. {told}", kind="throttled", **facts
        )
    if code == "RequestTimeout" or status == 408:
        return UnavailableError(f"{where}: the store gave up waiting for us. {told}", kind="timeout", **facts)
    if status >= 500:
        return UnavailableError(f"{where}: the store has trouble. {told}", **facts)
    return InvalidInputError(f"{where}: the store refuses the request. {told}", **facts)


def is_bad_range(error: BaseException) -> bool:
    """Whether the store says that a range begins behind the object's end."""
    return isinstance(error, boto.ClientError) and _status(error.response) == 416


def translate(error: BaseException, *, verb: str, key: str, url: str) -> LakehouseError:
    """The engine's error for whatever came out of botocore, aiobotocore or aiohttp."""
    if isinstance(error, LakehouseError):
        return error
    if isinstance(error, boto.ClientError):
        told: Mapping[str, Any] = error.response.get("Error", {})
        headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        region = headers.get("x-amz-bucket-region") or told.get("Region")
        code, message = str(told.get("Code", "")), str(told.get("Message", ""))
        return classify(_status(error.response), code, message, verb=verb, key=key, url=url, region=region)
    where = f"{verb} of {key!r} at {url}" if key else f"{verb} at {url}"
    facts = {"key": key, "verb": verb, "url": url}
    if isinstance(
        error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.CredentialRetrievalError
    ):
        return PermissionDeniedError(
            f"{where}: no credentials. Give key and secret in the storage options, set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or use anon=True for a public bucket.",
            kind="bad-credentials",
            **facts,
        )
    if _never_sent(error):
        return UnavailableError(
            f"{where}: no connection to the endpoint ({error}). Check endpoint_url and the network.",
            kind="unreachable",
            **facts,
        )
    if isinstance(error, boto.ReadTimeoutError | asyncio.TimeoutError):
        return UnavailableError(f"{where}: no answer in time (io.read_timeout_s).", kind="timeout", **facts)
    if isinstance(error, boto.IncompleteReadError | boto.ResponseStreamingError | aiohttp.ClientPayloadError):
        return UnavailableError(
            f"{where}: the store sent fewer bytes than it announced.", kind="truncated-body", **facts
        )
    if isinstance(error, boto.HTTPClientError | boto.ConnectionError | aiohttp.ClientError | OSError):
        return UnavailableError(f"{where}: the connection broke ({error}).", **facts)
    if isinstance(error, boto.BotoCoreError | ValueError | TypeError):
        return InvalidInputError(f"{where}: the storage options are not usable: {error}", **facts)
    return InternalError(f"{where}: unexpected {type(error).__name__}: {error}", **facts)


def _never_sent(error: BaseException) -> bool:
    """Whether no connection was made, so that the store cannot have seen the request.

    aiobotocore calls a connection that was reset half-way an EndpointConnectionError too;
    only the aiohttp error inside tells the two apart.
    """
    if isinstance(error, boto.EndpointConnectionError | boto.ProxyConnectionError):
        return isinstance(error.kwargs.get("error"), aiohttp.ClientConnectorError | socket.gaierror)
    return isinstance(error, boto.ConnectTimeoutError | boto.SSLError)


def _status(response: Mapping[str, Any]) -> int:
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
