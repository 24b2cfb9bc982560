"""Gets, and creates whose time does not matter, through obstore: two to four times the requests per core.

obstore's fsspec file system ignores the create mode and would overwrite, and its receipts do not
say when the store answered; so every other write, and every listing and HEAD, stays on the S3
backend inside. The file system object is obstore's own (``obstore.fsspec``); its bucket store is
asked directly, since the file system's ``cat_file`` gives bytes without size and version.

A create is one request: obstore's own retries are off, and what becomes of an answer that is not
success is decided above, by reading the object (:mod:`lakehouse.io.conditional`).

Whatever obstore cannot classify is asked again from the backend inside, whose errors
are exact: one more request, on failures only.

In a process that was forked from one that used obstore everything goes through the backend inside
(:mod:`lakehouse.io.backends.fast_runtime`).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakehouse.errors import (
    ConflictError,
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    UnavailableError,
)
from lakehouse.io.backends.backend import check_length
from lakehouse.io.backends.fast_runtime import Requests, is_lost, log_loss
from lakehouse.io.backends.s3 import TOKEN_METADATA, S3Backend
from lakehouse.io.backends.s3_errors import classify
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.protocols import Buffer, Fetched, Stored, check_key, check_range

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FastReads", "fast_options"]

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]+)</Code>")
_NO_CONNECTION = re.compile(r"\bkind: Connect\b")
_UNDERSTOOD = {
    "anon": None,
    "client_kwargs": {"region_name": None},
    "config_kwargs": {"connect_timeout": None, "s3": {"addressing_style": None}},
    "endpoint_url": None,
    "key": None,
    "secret": None,
    "token": None,
    "use_ssl": None,
}
"""Options that have a counterpart, as :func:`~lakehouse.io.backends.s3_options.s3_options` writes them."""


def fast_options(backend: S3Backend, environment: Mapping[str, str]) -> dict[str, Any] | None:
    """obstore's configuration for the same bucket, or None when options have no counterpart."""
    options = backend.options.reveal()
    if not _are_understood(options, _UNDERSTOOD):
        return None
    config = options.get("config_kwargs", {})
    endpoint = (
        options.get("endpoint_url")
        or environment.get("AWS_ENDPOINT_URL_S3")
        or environment.get("AWS_ENDPOINT_URL")
    )
    if not endpoint and not options.get("use_ssl", True):
        return None
    key = options.get("key") or environment.get("AWS_ACCESS_KEY_ID")
    secret = options.get("secret") or environment.get("AWS_SECRET_ACCESS_KEY")
    anonymous = bool(options.get("anon"))
    if not anonymous and not (key and secret):
        return None  # profiles, instance roles and the like: botocore's resolution is not ours to repeat
    region = options.get("client_kwargs", {}).get("region_name")
    region = region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region and not endpoint:
        return None
    settings = backend.settings
    virtual = config.get("s3", {}).get("addressing_style") == "virtual"
    chosen = {
        "endpoint": _with_bucket(endpoint, backend.location.bucket) if virtual and endpoint else endpoint,
        "virtual_hosted_style_request": virtual,
        "region": region or "us-east-1",
        "access_key_id": None if anonymous else key,
        "secret_access_key": None if anonymous else secret,
        "session_token": options.get("token") or environment.get("AWS_SESSION_TOKEN"),
    }
    return {
        "config": {
            **{name: value for name, value in chosen.items() if value},
            **({"skip_signature": True} if anonymous else {}),
        },
        "client_options": {
            "allow_http": str(endpoint or "").startswith("http://"),
            "connect_timeout": f"{config.get('connect_timeout', settings.connect_timeout_s)}s",
            "timeout": f"{settings.request_timeout_s}s",
        },
        # Retries are the engine's; a layer that repeats on its own hides what things cost.
        "retry_config": {"max_retries": 0},
    }


def _are_understood(options: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    return all(
        name in known and (known[name] is None or _are_understood(value, known[name]))
        for name, value in options.items()
    )


def _with_bucket(endpoint: str, bucket: str) -> str:
    """The endpoint with the bucket in its host, as obstore wants it; botocore puts it there itself."""
    parts = urlsplit(endpoint)
    return parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl()


class FastReads(StoreDecorator):
    """An S3 backend whose gets, and creates that need not be timed, go through obstore."""

    inner: S3Backend

    def __init__(self, inner: S3Backend, options: dict[str, Any]) -> None:
        super().__init__(inner)
        self._options = options
        self._bucket: Any = None
        self._requests = Requests()

    def _store(self) -> Any:
        self.inner.anchor.check()
        if self._bucket is None:
            from obstore.fsspec import FsspecStore

            fs = FsspecStore("s3", asynchronous=True, skip_instance_cache=True, **self._options)
            self._bucket = fs._construct_store(self.inner.location.bucket)
        return self._bucket

    def _is_slow(self) -> bool:
        """Whether obstore cannot be used in this process."""
        if not is_lost():
            return False
        if self.settings.fast_reads == "require":
            raise InvalidInputError(
                f"io.fast_reads = require, but process {os.getpid()} was forked from one that had loaded "
                "obstore, whose threads a fork leaves behind: start processes by spawn or forkserver, "
                "connect to nothing before the fork, or let io.fast_reads be auto",
                kind="wrong-process",
                url=self.url,
            )
        log_loss()
        return True

    async def get(self, key: str, *, version: str | None = None) -> Fetched:
        return await self._get("get", key, None, version)

    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        check_range(key, start, end)
        return await self._get("get_range", key, (start, end), version)

    async def get_suffix(self, key: str, length: int, *, version: str | None = None) -> Fetched:
        check_range(key, 0, length)
        return await self._get("get_suffix", key, {"suffix": length}, version)

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        if timed or self._is_slow():
            return await super().put_if_absent(key, data, token=token, timed=timed)
        from obstore import put_async

        path = self.inner.location.prefix + check_key(key)
        attributes = {TOKEN_METADATA: token} if token else None
        store = self._store()
        try:
            answer = await self._requests.follow(
                put_async(store, path, bytes(data), attributes=attributes, mode="create", use_multipart=False)
            )
        except Exception as error:
            with self.inner.options.hiding():
                raise self._refused(error, key) from error
        return Stored(key=key, size=len(data), version=answer["e_tag"])

    def _refused(self, error: Exception, key: str) -> LakehouseError:
        """The error of a create; one that cannot be told apart may have been applied."""
        from obstore.exceptions import AlreadyExistsError

        where = f"put_if_absent of {key!r} at {self.url}"
        if isinstance(error, AlreadyExistsError):
            return ConflictError(f"{where}: the condition does not hold", key=key, status=412)
        text = str(error)
        status, code = _STATUS.search(text), _CODE.search(text)
        if status is not None:
            name = code.group(1) if code else ""
            return classify(int(status.group(1)), name, "", verb="put_if_absent", key=key, url=self.url)
        if _NO_CONNECTION.search(text):
            return UnavailableError(f"{where}: the store cannot be reached.", kind="unreachable", key=key)
        return UnavailableError(f"{where}: no answer arrived.", kind="timeout", key=key)

    async def _get(
        self, verb: str, key: str, span: tuple[int, int] | dict[str, int] | None, version: str | None
    ) -> Fetched:
        if self._is_slow():
            return await self._inner_get(key, span, version)
        from obstore import get_async

        options: dict[str, Any] = {"range": span} if span is not None else {}
        if version is not None:
            options["if_match"] = version
        path = self.inner.location.prefix + check_key(key)
        try:
            # Not the methods of the store: they hand out a coroutine instead of the request's future.
            answer = await self._requests.follow(get_async(self._store(), path, options=options or None))
            data = (await self._requests.follow(answer.bytes_async())).to_bytes()
        except Exception as error:
            ours = self._classified(error, verb, key)
            with self.inner.options.hiding():
                # Looks for the next snapshot end in 404s; their long texts say nothing more, and are dropped.
                if isinstance(ours, NotFoundError):
                    raise ours from None
                if ours is not None:
                    raise ours from error
            return await self._inner_get(key, span, version)
        meta, (start, end) = answer.meta, answer.range
        check_length(data, end - start, f"{verb} of {key!r} at {self.url}", key)
        return Fetched(
            key=key,
            data=data,
            start=start,
            size=meta["size"],
            version=meta["e_tag"],
            token=answer.attributes.get(TOKEN_METADATA),
        )

    def _classified(self, error: Exception, verb: str, key: str) -> LakehouseError | None:
        text = str(error)
        status = _STATUS.search(text)
        if status is None:
            return None
        code = _CODE.search(text)
        number = int(status.group(1))
        if number == 416:
            return None
        ours = classify(number, code.group(1) if code else "", "", verb=verb, key=key, url=self.url)
        known = isinstance(ours, NotFoundError | ConflictError | UnavailableError)
        return ours if known else None

    async def _inner_get(
        self, key: str, span: tuple[int, int] | dict[str, int] | None, version: str | None
    ) -> Fetched:
        if span is None:
            return await self.inner.get(key, version=version)
        if isinstance(span, tuple):
            return await self.inner.get_range(key, *span, version=version)
        return await self.inner.get_suffix(key, span["suffix"], version=version)

    async def aclose(self) -> None:
        self._bucket = None
        await self._requests.settle()
        await super().aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner, self._options)
