"""An object store that answers: where it is, how to get in, and buckets for tests in it.

Requests go to the endpoint itself, whatever proxy the environment names, and are not
retried here: whoever waits for a server does so with a limit of its own.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import botocore.config
import botocore.exceptions
import botocore.session

from lakehouse.errors import PermissionDeniedError, UnavailableError

__all__ = ["Kind", "ServerInfo", "create_bucket", "delete_bucket", "fresh_bucket", "wait_until_it_lists"]

Kind = Literal["environment", "docker", "minio", "versitygw", "moto"]
"""Kinds of object stores, by where they come from."""

_DEFAULT_REGION = "us-east-1"
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """An object store that answers: where it is and how to get in."""

    kind: Kind
    endpoint_url: str
    key: str = field(repr=False)
    secret: str = field(repr=False)
    region: str | None = None
    """None unless the store insists on one: s3fs then asks for a location when it creates buckets."""
    note: str
    """Description of the store, for people."""
    passed_over: tuple[tuple[Kind, str], ...] = ()
    """Better kinds that were not to be had, each with the reason."""

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options for fsspec's s3 file system (and ``lakehouse.connect``)."""
        options: dict[str, Any] = {
            "endpoint_url": self.endpoint_url,
            "key": self.key,
            "secret": self.secret,
        }
        if self.region is not None:
            options["client_kwargs"] = {"region_name": self.region}
        return options

    def describe(self) -> str:
        """Returns one line: what runs and where."""
        return f"object store: {self.note} at {self.endpoint_url}"

    def explain(self) -> list[str]:
        """Returns :meth:`describe`, then one line for every better kind that was passed over."""
        return [self.describe(), *(f"  not {kind}: {reason}" for kind, reason in self.passed_over)]


def wait_until_it_lists(
    info: ServerInfo, *, seconds: float, ended: Callable[[], bool] = lambda: False
) -> bool:
    """Waits until the store lists its buckets to these credentials; False when it ended instead.

    MinIO's ``/minio/health/ready`` says yes before the store is initialised, and would say
    yes for a stranger that took the port; a signed listing does neither.
    """
    deadline = time.monotonic() + seconds
    with closing(_client(info)) as client:
        while True:
            problem = _listing_problem(client)
            if ended():
                return False
            if problem is None:
                return True
            if _status(problem) == 403:
                raise PermissionDeniedError(
                    f"{info.note} at {info.endpoint_url} refuses the access key {info.key!r}: {problem}",
                    kind="bad-credentials",
                ) from problem
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{info.note} at {info.endpoint_url} gave no listing within {seconds:g} s: {problem}"
                ) from problem
            time.sleep(_PAUSE_S)


def create_bucket(info: ServerInfo, name: str) -> None:
    """Creates a bucket; one of that name must not exist yet."""
    location: dict[str, Any] = {}
    if info.region not in (None, _DEFAULT_REGION):
        location["CreateBucketConfiguration"] = {"LocationConstraint": info.region}
    with closing(_client(info)) as client:
        client.create_bucket(Bucket=name, **location)


def delete_bucket(info: ServerInfo, name: str) -> None:
    """Deletes a bucket with everything in it; nobody should be writing to it any more."""
    with closing(_client(info)) as client:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
            keys = [{"Key": item["Key"]} for item in page.get("Contents", ())]
            if keys:
                client.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
        client.delete_bucket(Bucket=name)


@contextmanager
def fresh_bucket(info: ServerInfo, prefix: str = "lakehouse") -> Iterator[str]:
    """Makes a bucket of a name nobody else has, and deletes it at the end of the block."""
    name = f"{prefix}-{secrets.token_hex(6)}"
    create_bucket(info, name)
    try:
        yield name
    finally:
        delete_bucket(info, name)


def _listing_problem(client: Any) -> Exception | None:
    try:
        client.list_buckets()
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        problem: Exception = error
        return problem
    return None


def _status(error: Exception) -> int | None:
    if not isinstance(error, botocore.exceptions.ClientError):
        return None
    status: int = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return status


@functools.cache
def _session() -> Any:
    """Returns the one session of the process: reading the service model takes longer than any request."""
    return botocore.session.Session()


def _client(info: ServerInfo) -> Any:
    return _session().create_client(
        "s3",
        endpoint_url=info.endpoint_url,
        aws_access_key_id=info.key,
        aws_secret_access_key=info.secret,
        region_name=info.region or _DEFAULT_REGION,
        config=botocore.config.Config(
            connect_timeout=2.0,
            read_timeout=20.0,
            retries={"total_max_attempts": 1},
            # An empty table, not None: a proxy set in the environment is not for these stores.
            proxies={},
        ),
    )
