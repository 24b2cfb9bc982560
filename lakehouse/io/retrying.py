"""The store that tries again: with jitter, with an end, and never blindly.

Only :class:`UnavailableError` is worth another attempt. Reads, listings, deletes and
plain puts are repeated as they are (a put of a key that nobody else writes is
idempotent). Conditional puts are settled by reading back
(:mod:`lakehouse.io.conditional`), and so is the completion of an upload.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from lakehouse.errors import LakehouseError, NotFoundError, UnavailableError
from lakehouse.ids import new_token
from lakehouse.io.conditional import put_decisively
from lakehouse.io.decorators import StoreDecorator
from lakehouse.io.protocols import Buffer, Stored
from lakehouse.io.retry import Backoff, Contact, RetryPolicy
from lakehouse.io.store import ObjectStore
from lakehouse.log import get_logger

__all__ = ["RetryingStore"]

R = TypeVar("R")
_log = get_logger(__name__)


class RetryingStore(StoreDecorator):
    """Repeats what failed for a passing reason.

    Args:
        inner: the store that makes one attempt.
        policy: how often and how long.
        has_answered: whether the store is known to be there; one that is not is given up sooner.
    """

    def __init__(
        self, inner: ObjectStore, policy: RetryPolicy | None = None, has_answered: bool = False
    ) -> None:
        super().__init__(inner)
        self._policy = policy or RetryPolicy.of(inner.settings)
        self._contact = Contact(has_answered=has_answered)

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Makes the request until it succeeds, fails for good, or the policy ends."""
        backoff: Backoff | None = None
        while True:
            try:
                answer = await request()
            except LakehouseError as error:
                self._contact.hear(error)
                if not isinstance(error, UnavailableError):
                    raise
                backoff = backoff or Backoff(self._policy, self._contact)
                if not await backoff.wait(error):
                    backoff.give_up(error)
                    raise
                _log.info("trying again", verb=verb, key=key, kind=error.kind)
            else:
                self._contact.hear(None)
                return answer

    def put_if_absent(
        self, key: str, data: Buffer, *, token: str | None = None, timed: bool = True
    ) -> Coroutine[Any, Any, Stored]:
        return self._put_decisively(key, data, token=token, expected=None, timed=timed)

    def put_if_match(
        self, key: str, data: Buffer, *, version: str, token: str | None = None
    ) -> Coroutine[Any, Any, Stored]:
        return self._put_decisively(key, data, token=token, expected=version)

    def _put_decisively(
        self, key: str, data: Buffer, *, token: str | None, expected: str | None, timed: bool = True
    ) -> Coroutine[Any, Any, Stored]:
        return put_decisively(
            self.inner,
            key,
            data,
            token=token or new_token(),
            expected=expected,
            policy=self._policy,
            contact=self._contact,
            timed=timed,
        )

    async def multipart_complete(
        self, key: str, upload: str, receipts: Sequence[str], *, size: int
    ) -> Stored:
        attempts = 0

        async def complete() -> Stored:
            nonlocal attempts
            attempts += 1
            try:
                return await self.inner.multipart_complete(key, upload, receipts, size=size)
            except NotFoundError:
                if attempts == 1:
                    raise
                # The upload is gone. Nobody else knows its id, so an earlier attempt made the
                # object; or the bucket's rules threw the parts away, and another object stands there.
                meta = await self.inner.head(key)
                if meta.size != size:
                    raise
                told = meta.store_time_ms if meta.store_time_ms is not None else meta.modified_ms
                return Stored(key=key, size=size, version=meta.version, store_time_ms=told)

        return await self.call("multipart_complete", key, complete)

    def __reduce__(self) -> tuple[Any, ...]:
        # An endpoint that answered here is right elsewhere too.
        return type(self), (self.inner, self._policy, self._contact.has_answered)
