"""Warehouses on a server of pages, read with one GET each; the session is that of fsspec's file system.

Ranges are asked for and checked: a server that does not know them sends the whole object, of which the
bytes before and behind are dropped as they come. Listings are the links of the server's index pages, and
take a HEAD per object, because pages do not tell sizes; a server without index pages has what is known
by name only: tables opened by name are read, lists of tables are empty or refused.
"""

from __future__ import annotations

import contextlib
import email.utils
import html
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import aiohttp
import yarl

from lakehouse.config import IoSettings
from lakehouse.errors import (
    InvalidInputError,
    LakehouseError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakehouse.io.backends.backend import Listing
from lakehouse.io.backends.files import FsspecBackend, page_of
from lakehouse.io.backends.s3_errors import classify
from lakehouse.io.location import Location
from lakehouse.io.options import StorageOptions
from lakehouse.io.protocols import Fetched, ListPage, ObjectMeta, check_key, check_range
from lakehouse.io.work.fanout import map_bounded

__all__ = ["HttpBackend"]

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")
_HREF = re.compile(r"""<a\s[^>]*?href\s*=\s*["']([^"']*)["']""", re.IGNORECASE)
_DEPTH_MAX = 32
"""Folders in folders that a listing goes into; more are a circle of links."""


class HttpBackend(FsspecBackend):
    """``http://host/warehouse``: read only."""

    def __init__(
        self, location: Location, options: StorageOptions | None = None, settings: IoSettings | None = None
    ) -> None:
        super().__init__(location, options, settings)
        self.capabilities = replace(self.capabilities, suffix_range=True)

    # --- one request ---------------------------------------------------------------

    @asynccontextmanager
    async def _answer(
        self, verb: str, method: str, key: str, headers: dict[str, str] | None = None, *, folder: bool = False
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request, when it is a good one."""
        fs = await self._connected()
        path = key if folder else check_key(key)
        url = yarl.URL(f"{self.url}/{quote(path)}" if path else f"{self.url}/", encoded=True)
        settings = self.settings
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=settings.connect_timeout_s, sock_read=settings.read_timeout_s
        )
        given = {"timeout": timeout, **fs.kwargs}
        given["headers"] = {**given.get("headers", {}), "Accept-Encoding": "identity", **(headers or {})}
        where = f"{verb} of {key!r} at {self.url}"
        try:
            session = await fs.set_session()
            async with session.request(method, url, **given) as answer:
                if answer.status not in (200, 206, 416):
                    raise classify(answer.status, "", answer.reason or "", verb=verb, key=key, url=self.url)
                yield answer
        except LakehouseError:
            raise
        except aiohttp.ClientConnectorError as error:
            raise UnavailableError(
                f"{where}: no connection ({error.os_error.strerror or type(error.os_error).__name__})",
                kind="unreachable",
                key=key,
            ) from None
        except TimeoutError:
            raise UnavailableError(
                f"{where}: no answer in time (io.read_timeout_s)", kind="timeout", key=key
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            # Not the error's own text, which may repeat headers.
            raise UnavailableError(
                f"{where}: the connection broke ({type(error).__name__})", key=key
            ) from None
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{where}: the storage options are not usable: {error}", key=key
            ) from error

    async def get(self, key: str, *, version: str | None = None) -> Fetched:
        async with self._answer("get", "GET", key) as answer:
            return self._fetched(key, answer, await answer.read(), 0, None, version)

    async def get_range(self, key: str, start: int, end: int, *, version: str | None = None) -> Fetched:
        check_range(key, start, end)
        asked = {"Range": f"bytes={start}-{end - 1}"}
        async with self._answer("get_range", "GET", key, asked) as answer:
            if answer.status == 416:
                return await self._behind_the_end(key, answer, version)
            data = await (answer.read() if answer.status == 206 else _part(answer, start, end))
            return self._fetched(key, answer, data, start, end, version)

    async def get_suffix(self, key: str, length: int, *, version: str | None = None) -> Fetched:
        check_range(key, 0, length)
        async with self._answer("get_suffix", "GET", key, {"Range": f"bytes=-{length}"}) as answer:
            if answer.status == 416:
                return await self._behind_the_end(key, answer, version)
            if answer.status == 206:
                return self._fetched(key, answer, await answer.read(), None, None, version)
            size = _length(answer, key, self.url)
            start = max(0, size - length)
            return self._fetched(key, answer, await _part(answer, start, size), start, size, version)

    def _fetched(
        self,
        key: str,
        answer: aiohttp.ClientResponse,
        data: bytes,
        start: int | None,
        end: int | None,
        version: str | None,
    ) -> Fetched:
        """Returns the bytes of an answer if they are those asked for, of the version asked for."""
        seen = _version(answer)
        self._check_version(key, seen, version)
        if answer.status == 206:
            told = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
            if told is None or told[1] is None:
                raise UnavailableError(
                    f"{key!r} at {self.url}: the server sends a part and says not which", key=key
                )
            first, size = int(told[1]), int(told[3])
            wanted = int(told[2]) + 1 - first
        else:
            size = len(data) if end is None else _length(answer, key, self.url)
            first = min(start or 0, size)
            wanted = (size if end is None else min(end, size)) - first
        if len(data) != wanted or (start is not None and first != min(start, size)):
            raise UnavailableError(
                f"{key!r} at {self.url}: {len(data)} of {wanted} bytes arrived",
                kind="truncated-body",
                key=key,
            )
        return Fetched(key=key, data=data, start=first, size=size, version=seen, store_time_ms=_date(answer))

    async def _behind_the_end(self, key: str, answer: Any, version: str | None) -> Fetched:
        told = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
        size = int(told[3]) if told else (await self.head(key)).size
        return Fetched(key=key, data=b"", start=size, size=size, version=version, store_time_ms=_date(answer))

    async def head(self, key: str) -> ObjectMeta:
        async with self._answer("head", "HEAD", key) as answer:
            return ObjectMeta(
                key=key,
                size=_length(answer, key, self.url),
                version=_version(answer),
                modified_ms=_milliseconds(answer.headers.get("Last-Modified")),
                store_time_ms=_date(answer),
            )

    # --- listings --------------------------------------------------------------------

    async def _list_page(self, asked: Listing) -> ListPage:
        prefix, after, by_folder = asked.prefix, asked.after, asked.delimiter == "/"
        folder = prefix.rpartition("/")[0]
        names: list[str] = []
        pending = [f"{folder}/" if folder else ""]
        while pending:
            for name in await self._links_of(pending.pop()):
                is_folder = name.endswith("/")
                if is_folder and not by_folder and (name.startswith(prefix) or prefix.startswith(name)):
                    pending.append(name)
                elif name.startswith(prefix) and name > after and (by_folder or not is_folder):
                    names.append(name)
        metas = (ObjectMeta(key=name, size=0) for name in sorted(names))
        found = page_of(metas, asked)
        keys = [meta.key for meta in found.objects]
        sized = [
            meta async for meta in map_bounded(self._head_if_there, keys, self.settings.ranges_concurrency)
        ]
        objects = tuple(meta for meta in sized if meta is not None)
        return ListPage(objects=objects, prefixes=found.prefixes, next_page=found.next_page)

    async def _head_if_there(self, key: str) -> ObjectMeta | None:
        with contextlib.suppress(NotFoundError):
            return await self.head(key)
        return None

    async def _links_of(self, folder: str) -> list[str]:
        """Keys of what the index page of a folder links to directly; those of folders end with a slash."""
        if folder.count("/") > _DEPTH_MAX:
            raise InvalidInputError(f"{self.url}: index pages are more than {_DEPTH_MAX} deep at {folder!r}")
        page = await self._index_page(folder)
        if page is None and (not folder or await self._index_page("") is None):
            # An answer of "nothing" would be taken for an empty warehouse.
            raise InvalidInputError(
                f"the server of {self.url} shows no index page of {folder or '/'!r}, and listings are made "
                "of their links: turn them on there (autoindex), or read from the store behind it",
                kind="unsupported",
                key=folder,
            )
        found = _names(page, f"{self.url}/{quote(folder)}") if page is not None else ()
        return sorted({f"{folder}{name}" for name in found})

    async def _index_page(self, folder: str) -> str | None:
        """The page, or None when the server has none there."""
        try:
            async with self._answer("list_page", "GET", folder, folder=True) as answer:
                is_page = answer.status == 200 and answer.content_type == "text/html"
                return await answer.text(errors="replace") if is_page else None
        except (NotFoundError, PermissionDeniedError):
            return None


def _names(page: str, url: str) -> Iterator[str]:
    """Names directly below the page's own URL, out of its links."""
    base = yarl.URL(url, encoded=True)
    for link in _HREF.findall(page):
        try:
            target = base.join(yarl.URL(html.unescape(link), encoded=True))
        except ValueError:
            continue
        text = str(target)
        if not text.startswith(url) or target.query_string or target.fragment:
            continue  # a parent, another place, or the same page in another order
        name = unquote(text[len(url) :])
        if name.strip("/") and "/" not in name[:-1]:
            yield name


async def _part(answer: aiohttp.ClientResponse, start: int, end: int) -> bytes:
    """Bytes ``[start, end)`` of a whole object, of which no more is kept."""
    kept, at = bytearray(), 0
    async for piece in answer.content.iter_any():
        kept += piece[max(0, start - at) : max(0, end - at)]
        at += len(piece)
        if at >= end:
            break
    return bytes(kept)


def _length(answer: aiohttp.ClientResponse, key: str, url: str) -> int:
    if answer.content_length is None:
        raise InvalidInputError(
            f"the server does not tell the size of {key!r} at {url}: it must send Content-Length",
            kind="unsupported",
            key=key,
        )
    return answer.content_length


def _version(answer: aiohttp.ClientResponse) -> str | None:
    return answer.headers.get("ETag") or answer.headers.get("Last-Modified")


def _date(answer: aiohttp.ClientResponse) -> int | None:
    return _milliseconds(answer.headers.get("Date"))


def _milliseconds(text: str | None) -> int | None:
    try:
        return int(email.utils.parsedate_to_datetime(text).timestamp() * 1000) if text else None
    except ValueError:
        return None
