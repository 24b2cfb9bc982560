"""Stores around stores, one job each.

The stack, outermost first, and why in this order::

    ProvingStore        no conditional put before the store has shown that it honours conditions; left out
                        where it is safe as it is built
    RetryingStore       tries again; below it, every attempt is visible
    LimitedStore        bounds how many are under way, and how long; waiting to retry keeps no slot
    InstrumentedStore   counts attempts as the backend sees them, without time spent queueing
    (backend)

A decorator overrides :meth:`StoreDecorator.call` and thereby sees every request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from lakehouse.config import IoSettings
from lakehouse.errors import UnavailableError
from lakehouse.io.anchor import Anchor
from lakehouse.io.cost import Cost, active_costs
from lakehouse.io.protocols import Buffer, Capabilities, Fetched, ListPage, ObjectMeta, Stored
from lakehouse.io.store import ObjectStore
from lakehouse.io.work.time_limit import TimeLimit

__all__ = ["InstrumentedStore", "LimitedStore", "StoreDecorator", "find_layer", "innermost"]

R = TypeVar("R")


class StoreDecorator(ObjectStore):
    """Forwards every verb to the store inside; subclasses override :meth:`call`."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner

    @property
    def settings(self) -> IoSettings:  # type: ignore[override]
        """The backend's."""
        return self.inner.settings

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """The backend's."""
        return self.inner.capabilities

    @property
    def url(self) -> str:  # type: ignore[override]
        """The backend's."""
        return self.inner.url

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """One request: ``verb`` on ``key``, sending ``size`` bytes, made by ``request()``."""
        return await request()

    # Verbs in the order of ObjectStore; documented there. Plain functions that hand the coroutine of ``call``
    # on: a request waits in one frame of each layer and not in two.

    def get(self, key: str, *, version: str | None = None) -> Coroutine[Any, Any, Fetched]:
        return self.call("get", key, partial(self.inner.get, key, version=version))

    def get_range(
        self, key: str, start: int, end: int, *, version: str | None = None
    ) -> Coroutine[Any, Any, Fetched]:
        return self.call("get_range", key, partial(self.inner.get_range, key, start, end, version=version))

    def get_suffix(
        self, key: str, length: int, *, version: str | None = None
    ) -> Coroutine[Any, Any, Fetched]:
        return self.call("get_suffix", key, partial(self.inner.get_suffix, key, length, version=version))

    def head(self, key: str) -> Coroutine[Any, Any, ObjectMeta]:
        return self.call("head", key, partial(self.inner.head, key))

    def list_page(
        self,
        prefix: str = "",
        *,
        start_after: str | None = None,
        delimiter: str | None = None,
        page: str | None = None,
        limit: int | None = None,
    ) -> Coroutine[Any, Any, ListPage]:
        request = partial(
            self.inner.list_page, prefix, start_after=start_after, delimiter=delimiter, page=page, limit=limit
        )
        return self.call("list_page", prefix, request)

    def put(self, key: str, data: Buffer) -> Coroutine[Any, Any, Stored]:
        return self.call("put", key, partial(self.inner.put, key, data), len(data))

    def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Coroutine[Any, Any, Stored]:
        request = partial(self.inner.put_if_absent, key, data, token=token, timed=timed)
        return self.call("put_if_absent", key, request, len(data))

    def put_if_match(
        self, key: str, data: Buffer, *, version: str, token: str | None = None
    ) -> Coroutine[Any, Any, Stored]:
        request = partial(self.inner.put_if_match, key, data, version=version, token=token)
        return self.call("put_if_match", key, request, len(data))

    def delete(self, key: str) -> Coroutine[Any, Any, None]:
        return self.call("delete", key, partial(self.inner.delete, key))

    def delete_batch(self, keys: Sequence[str]) -> Coroutine[Any, Any, None]:
        return self.call("delete_batch", keys[0] if keys else "", partial(self.inner.delete_batch, keys))

    def multipart_start(self, key: str) -> Coroutine[Any, Any, str]:
        return self.call("multipart_start", key, partial(self.inner.multipart_start, key))

    def multipart_part(self, key: str, upload: str, number: int, data: Buffer) -> Coroutine[Any, Any, str]:
        request = partial(self.inner.multipart_part, key, upload, number, data)
        return self.call("multipart_part", key, request, len(data))

    def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Coroutine[Any, Any, Stored]:
        request = partial(self.inner.multipart_complete, key, upload, receipts, size=size)
        return self.call("multipart_complete", key, request)

    def multipart_abort(self, key: str, upload: str) -> Coroutine[Any, Any, None]:
        return self.call("multipart_abort", key, partial(self.inner.multipart_abort, key, upload))

    def check_open(self) -> None:
        self.inner.check_open()

    async def endpoint(self) -> str:
        return await self.inner.endpoint()

    def expect_commit(self, spawn: Callable[..., bool] | None = None) -> None:
        self.inner.expect_commit(spawn)

    async def withdraw(self, reason: str) -> None:
        await self.inner.withdraw(reason)

    async def aclose(self) -> None:
        await self.inner.aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"


class InstrumentedStore(StoreDecorator):
    """Counts requests, bytes and time into ``stats`` and every active ``measure`` block.

    Sits right above the backend, so each attempt counts and queueing does not.
    """

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.stats = Cost()
        """Everything since the store was made."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Times and counts the request, failed ones and cancelled ones too."""
        started = time.perf_counter()
        failed = True
        received = 0
        try:
            result = await request()
            failed = False
            if isinstance(result, Fetched):
                received = len(result.data)
            return result
        finally:
            seconds = time.perf_counter() - started
            for cost in (self.stats, *active_costs()):
                cost.record(verb, seconds, bytes_read=received, bytes_written=size, failed=failed)


class LimitedStore(StoreDecorator):
    """Lets at most ``io.max_concurrency`` requests be under way, each for a limited time.

    The limit ``io.request_timeout_s`` is for a store that takes a request and then says
    nothing: it must not hold its caller for ever. Waiting for a slot does not count.
    """

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self._anchor = Anchor(inner.url)
        self._bounds: tuple[asyncio.Semaphore, TimeLimit] | None = None

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Waits for a slot, then makes the request."""
        # Before waiting: slots that are taken elsewhere, in a parent say, are never given back here.
        self._anchor.check()
        if self._bounds is None:
            settings = self.settings
            self._bounds = asyncio.Semaphore(settings.max_concurrency), TimeLimit(settings.request_timeout_s)
        slots, limit = self._bounds
        try:
            async with slots:
                with limit.bounded():
                    return await request()
        except TimeoutError:
            raise UnavailableError(
                f"{verb} of {key!r} at {self.url} took longer than "
                f"io.request_timeout_s = {self.settings.request_timeout_s:g} s",
                kind="timeout",
                key=key,
                verb=verb,
            ) from None

    async def aclose(self) -> None:
        await super().aclose()
        # Both belong to the loop that first waits on them; a reopened store gets new ones.
        self._bounds = None
        self._anchor.weigh()


def innermost(store: ObjectStore) -> ObjectStore:
    """The backend below all decorators."""
    while isinstance(store, StoreDecorator):
        store = store.inner
    return store


def find_layer(store: ObjectStore, kind: type[R]) -> R | None:
    """The outermost decorator of that kind, if the stack has one."""
    layer: ObjectStore | None = store
    while layer is not None:
        if isinstance(layer, kind):
            return layer
        layer = layer.inner if isinstance(layer, StoreDecorator) else None
    return None
