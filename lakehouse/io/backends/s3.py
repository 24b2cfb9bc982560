"""S3 and everything that speaks its protocol, through s3fs.

s3fs supplies the session: credentials, endpoint, options, the aiobotocore client. The
requests themselves are made with that client (``fs.s3``), because s3fs's file-like verbs
cannot express them: suffix reads, ``If-Match``, the answer's ETag and Date, and errors
that keep their status.

Nothing below this module may send a request twice. A put that is sent again behind our
back meets its own first copy and fails its own condition, so all three retry layers are
off: botocore's (its region redirects too), s3fs's (its wrapper is not used) and
aiohttp's, which repeats PUT on a connection that breaks and can only be told not to in
:class:`_OnceSession`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import functools
import urllib.parse
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import s3fs
from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import AioSession

from lakehouse._version import __version__
from lakehouse.config import IoSettings
from lakehouse.errors import InvalidInputError, NotFoundError, UnavailableError
from lakehouse.io.backends.backend import Listing, StoreBackend, check_length
from lakehouse.io.backends.s3_errors import is_bad_range, translate
from lakehouse.io.location import Location
from lakehouse.io.options import StorageOptions
from lakehouse.io.protocols import (
    Buffer,
    Capabilities,
    Fetched,
    ListPage,
    ObjectMeta,
    Stored,
    check_key,
    check_range,
)

__all__ = ["TOKEN_METADATA", "S3Backend"]

TOKEN_METADATA = "lakehouse-token"  # noqa: S105 - the name of a header, not a secret
"""User metadata under which conditional puts leave their token."""


class _OnceSession(AIOHTTPSession):  # type: ignore[misc]
    """aiobotocore's HTTP session, with aiohttp's silent resend of PUT and GET switched off."""

    async def _get_session(self, proxy_url: str | None) -> Any:
        session = await super()._get_session(proxy_url)
        # No public switch exists; tests/io/test_conditional_lost_ack.py counts requests at the socket.
        session._retry_connection = False
        return session


class S3Backend(StoreBackend):
    """One bucket, or a prefix of one."""

    # Not proven: whoever answers may take conditions and ignore them.
    capabilities = Capabilities(put_if_absent=True, put_if_match=True, suffix_range=True, multipart=True)

    def __init__(
        self, location: Location, options: StorageOptions | None = None, settings: IoSettings | None = None
    ) -> None:
        super().__init__(location, options, settings)
        self._fs: s3fs.S3FileSystem | None = None
        self._client: Any = None

    # --- session -----------------------------------------------------------------

    async def _connected(self) -> Any:
        self.anchor.check()
        if self._client is None:
            fs = self._fs or s3fs.S3FileSystem(**self._session_options())
            self._fs = fs
            self._client = await fs.set_session()
            self._client.meta.events.register_first("needs-retry.s3", _stay_in_the_region)
        return self._client

    def _session_options(self) -> dict[str, Any]:
        options = self.options.reveal()
        settings = self.settings
        config: dict[str, Any] = {
            "connect_timeout": settings.connect_timeout_s,
            "read_timeout": settings.read_timeout_s,
            "max_pool_connections": settings.max_concurrency,
            # Checksums of our own formats cover the bytes; these cost a tenth of a small request.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
            # A fixed one: botocore composes its own anew for each request, a twelfth of the work.
            "user_agent": f"lakehouse/{__version__}",
            **options.pop("config_kwargs", {}),
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "http_session_cls": _OnceSession,
        }
        if "session" not in options and "profile" not in options:
            options["session"] = _session()
        return {
            **options,
            "config_kwargs": config,
            "asynchronous": True,
            "skip_instance_cache": True,
            "use_listings_cache": False,
        }

    @contextlib.asynccontextmanager
    async def _request(self, verb: str, key: str) -> AsyncIterator[Any]:
        """The client, with whatever it raises made one of our errors."""
        try:
            yield await self._connected()
        except Exception as error:
            ours = translate(error, verb=verb, key=key, url=self.url)
            if ours is error:
                raise
            with self.options.hiding():
                raise ours from error

    def _address(self, key: str) -> dict[str, str]:
        return {"Bucket": self.location.bucket, "Key": self.location.prefix + check_key(key)}

    def _arguments(self, method: Any, **arguments: Any) -> dict[str, Any]:
        """The arguments plus what the user told s3fs to add (encryption, requester pays)."""
        assert self._fs is not None
        merged: dict[str, Any] = self._fs._get_s3_method_kwargs(method, **arguments)
        return merged

    async def aclose(self) -> None:
        self.anchor.check()
        fs, self._fs, self._client = self._fs, None, None
        self.anchor.weigh()
        if fs is not None and fs._s3 is not None:
            await fs._s3creator.__aexit__(None, None, None)

    async def endpoint(self) -> str:
        url = urllib.parse.urlsplit(str((await self._connected()).meta.endpoint_url))
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}".rstrip("/").lower()

    # --- reads ---------------------------------------------------------------------

    async def get(self, key: str, *, version: str | None = None) -> Fetched:
        return await self._get("get", key, None, version)

    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        check_range(key, start, end)
        return await self._get("get_range", key, f"bytes={start}-{end - 1}", version)

    async def get_suffix(self, key: str, length: int, *, version: str | None = None) -> Fetched:
        check_range(key, 0, length)
        return await self._get("get_suffix", key, f"bytes=-{length}", version)

    async def _get(self, verb: str, key: str, byte_range: str | None, version: str | None) -> Fetched:
        arguments: dict[str, Any] = self._address(key)
        if byte_range:
            arguments["Range"] = byte_range
        if version:
            arguments["IfMatch"] = version
        async with self._request(verb, key) as client:
            try:
                answer = await client.get_object(**self._arguments(client.get_object, **arguments))
                async with answer["Body"] as body:
                    data: bytes = await body.read()
            except Exception as error:
                if is_bad_range(error):
                    return await self._behind_the_end(client, key, error, version)
                raise
        return self._fetched(verb, key, answer, data)

    def _fetched(self, verb: str, key: str, answer: Mapping[str, Any], data: bytes) -> Fetched:
        start, size = 0, int(answer["ContentLength"])
        check_length(data, size, f"{verb} of {key!r} at {self.url}", key)
        if content_range := answer.get("ContentRange"):
            # "bytes 0-99/1234"; MinIO says "bytes 0--1/0" of an empty object.
            span, _, total = content_range.removeprefix("bytes ").rpartition("/")
            start, size = int(span.split("-", 1)[0]), int(total)
        return Fetched(
            key=key,
            data=data,
            start=start,
            size=size,
            version=answer["ETag"],
            token=answer.get("Metadata", {}).get(TOKEN_METADATA),
            store_time_ms=_store_time(answer),
        )

    async def _behind_the_end(self, client: Any, key: str, error: Exception, version: str | None) -> Fetched:
        """An empty read that says how large the object really is."""
        told = getattr(error, "response", {})
        size = told.get("Error", {}).get("ActualObjectSize")
        etag = version
        if size is None:
            # Not every store tells the size with its refusal.
            meta = await client.head_object(**self._arguments(client.head_object, **self._address(key)))
            size, etag = meta["ContentLength"], meta["ETag"]
        size = int(size)
        return Fetched(
            key=key, data=b"", start=size, size=size, version=etag, store_time_ms=_store_time(told)
        )

    async def head(self, key: str) -> ObjectMeta:
        arguments = self._address(key)
        async with self._request("head", key) as client:
            answer = await client.head_object(**self._arguments(client.head_object, **arguments))
        return ObjectMeta(
            key=key,
            size=int(answer["ContentLength"]),
            version=answer["ETag"],
            modified_ms=_milliseconds(answer["LastModified"]),
            token=answer.get("Metadata", {}).get(TOKEN_METADATA),
            store_time_ms=_store_time(answer),
        )

    async def _list_page(self, asked: Listing) -> ListPage:
        root = self.location.prefix
        arguments: dict[str, Any] = {
            "Bucket": self.location.bucket,
            "Prefix": root + asked.prefix,
            "MaxKeys": asked.limit,
        }
        if asked.start_after is not None:
            arguments["StartAfter"] = root + asked.start_after
        if asked.delimiter is not None:
            arguments["Delimiter"] = asked.delimiter
        if asked.page is not None:
            arguments["ContinuationToken"] = asked.page
        async with self._request("list_page", asked.prefix) as client:
            answer = await client.list_objects_v2(**self._arguments(client.list_objects_v2, **arguments))
        return ListPage(
            objects=tuple(
                ObjectMeta(
                    key=entry["Key"][len(root) :],
                    size=int(entry["Size"]),
                    version=entry.get("ETag"),
                    modified_ms=_milliseconds(entry["LastModified"]),
                )
                for entry in answer.get("Contents", ())
                if not entry["Key"].endswith("/")  # "directory" markers of other programs
            ),
            prefixes=tuple(entry["Prefix"][len(root) :] for entry in answer.get("CommonPrefixes", ())),
            next_page=answer.get("NextContinuationToken") if answer.get("IsTruncated") else None,
        )

    # --- writes ----------------------------------------------------------------------

    async def put(self, key: str, data: Buffer) -> Stored:
        return await self._put("put", key, data)

    async def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Stored:
        return await self._put("put_if_absent", key, data, token, IfNoneMatch="*")

    async def put_if_match(self, key: str, data: Buffer, *, version: str, token: str | None = None) -> Stored:
        if not version:
            raise InvalidInputError(f"put_if_match of {key!r} needs the version to replace", key=key)
        return await self._put("put_if_match", key, data, token, IfMatch=version)

    async def _put(
        self, verb: str, key: str, data: Buffer, token: str | None = None, **condition: str
    ) -> Stored:
        arguments: dict[str, Any] = {**self._address(key), "Body": bytes(data), **condition}
        async with self._request(verb, key) as client:
            arguments = self._arguments(client.put_object, **arguments)
            if token:
                arguments["Metadata"] = {**arguments.get("Metadata", {}), TOKEN_METADATA: token}
            if not condition.keys() <= arguments.keys():
                raise InvalidInputError(
                    "the installed botocore does not know conditional puts: upgrade aiobotocore",
                    kind="unsafe-store",
                )
            answer = await client.put_object(**arguments)
        return Stored(key=key, size=len(data), version=answer["ETag"], store_time_ms=_store_time(answer))

    async def delete(self, key: str) -> None:
        arguments = self._address(key)
        async with self._request("delete", key) as client:
            await client.delete_object(**self._arguments(client.delete_object, **arguments))

    async def delete_batch(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        objects = [{"Key": self._address(key)["Key"]} for key in keys]
        async with self._request("delete_batch", keys[0]) as client:
            answer = await client.delete_objects(
                **self._arguments(
                    client.delete_objects,
                    Bucket=self.location.bucket,
                    Delete={"Objects": objects, "Quiet": True},
                )
            )
            if failed := answer.get("Errors"):
                first = failed[0]
                raise UnavailableError(
                    f"delete_batch at {self.url}: {len(failed)} of {len(keys)} objects were not deleted, as "
                    f"{first.get('Key')!r}: {first.get('Code')} {first.get('Message', '')}",
                    key=first.get("Key"),
                    status=200,
                )

    # --- uploads in parts -----------------------------------------------------------------

    async def multipart_start(self, key: str) -> str:
        arguments = self._address(key)
        async with self._request("multipart_start", key) as client:
            method = client.create_multipart_upload
            answer = await method(**self._arguments(method, **arguments))
        upload: str = answer["UploadId"]
        return upload

    async def multipart_part(self, key: str, upload: str, number: int, data: Buffer) -> str:
        arguments: dict[str, Any] = {**self._address(key), "UploadId": upload, "PartNumber": number}
        async with self._request("multipart_part", key) as client:
            answer = await client.upload_part(
                **self._arguments(client.upload_part, **arguments, Body=bytes(data))
            )
        receipt: str = answer["ETag"]
        return receipt

    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored:
        parts = [{"ETag": receipt, "PartNumber": number} for number, receipt in enumerate(receipts, 1)]
        arguments: dict[str, Any] = {
            **self._address(key),
            "UploadId": upload,
            "MultipartUpload": {"Parts": parts},
        }
        async with self._request("multipart_complete", key) as client:
            method = client.complete_multipart_upload
            answer = await method(**self._arguments(method, **arguments))
        return Stored(key=key, size=size, version=answer.get("ETag"), store_time_ms=_store_time(answer))

    async def multipart_abort(self, key: str, upload: str) -> None:
        arguments = {**self._address(key), "UploadId": upload}
        with contextlib.suppress(NotFoundError):
            async with self._request("multipart_abort", key) as client:
                method = client.abort_multipart_upload
                await method(**self._arguments(method, **arguments))


def _stay_in_the_region(request_dict: dict[str, Any], **_: Any) -> None:
    """Makes botocore believe that it has followed a redirect to another region already.

    Following one costs requests that nobody counts, each time a store is opened, and against
    a store that redirects without saying where to it never ends. The error names the region.
    """
    request_dict.get("context", {}).get("s3_redirect", {})["redirected"] = True


def _session() -> AioSession:
    """A session of its own over the process's one copy of botocore's service models.

    Parsing the models is three quarters of the time it takes to connect, and they never
    change; credentials and settings are resolved per session as always.
    """
    session = AioSession()
    session.register_component("data_loader", _models())
    # Times of answers stay text until somebody wants them: most reads do not.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    return session


@functools.cache
def _models() -> Any:
    return AioSession().get_component("data_loader")


def _milliseconds(moment: str | dt.datetime) -> int | None:
    """A time as headers (RFC 9110) or listings (ISO 8601) write it, or as botocore parsed it."""
    if isinstance(moment, dt.datetime):
        return int(moment.timestamp() * 1000)
    if moment[:1].isdigit():
        return int(dt.datetime.fromisoformat(moment).timestamp() * 1000)
    return _parse_date(moment)


def _store_time(answer: Mapping[str, Any]) -> int | None:
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return _parse_date(date) if date else None


@functools.lru_cache(maxsize=8)
def _parse_date(text: str) -> int | None:
    """Milliseconds; the header has whole seconds, so the same text comes many times."""
    try:
        return int(email.utils.parsedate_to_datetime(text).timestamp() * 1000)
    except ValueError:
        return None
