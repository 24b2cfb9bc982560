"""A streaming writer whose log cannot be written says so, and what becomes of the puts is told truly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from lakehouse.errors import CommitUnknownError, UnavailableError
from lakehouse.io import ObjectStore
from lakehouse.io.decorators import StoreDecorator
from lakehouse.storage.write import log_wait
from lakehouse.testing import ManualClock
from tests.kit.worlds import table_of
from tests.storage.write.test_streaming_writer import made, some

R = TypeVar("R")


class Away(StoreDecorator):
    """A store whose log cannot be written until it is told so."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.is_back = asyncio.Event()
        self.is_back.set()
        self.errors: list[UnavailableError] = []
        """Raised one after the other, the last one for ever."""

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Fails, or waits, where the log is written."""
        if "/wal/" in key and verb == "put_if_absent":
            await self.is_back.wait()
            if self.errors:
                raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        if "/wal/" in key and verb == "get" and self.errors:
            raise self.errors[-1]
        return await request()


def told(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    """The facts of the log lines that begin so."""
    return [one.lakehouse for one in caplog.records if one.getMessage().startswith(message)]  # type: ignore[attr-defined]


async def test_a_writer_says_that_it_waits_and_that_it_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a segment cannot be written there is a WARNING every so often, and one when it is written."""
    monkeypatch.setattr(log_wait, "_FIRST_S", 0)
    monkeypatch.setattr(log_wait, "_AGAIN_S", 0.001)
    caplog.set_level(logging.WARNING, "lakehouse")
    away = Away(await made())
    async with (await table_of(away)).writer() as writer:
        away.is_back.clear()
        first = await writer.put(some((1, "a", 1)))
        while not told(caplog, "the log cannot be written, puts wait"):  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0)
        second = await writer.put(some((2, "a", 1)))
        while len(told(caplog, "the log cannot be written, puts wait")) < 2:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0)
        assert writer.report().waiting_s > 0
        away.is_back.set()
        await first
        await second
        assert writer.report().waiting_s == 0
    lines = told(caplog, "the log cannot be written, puts wait")
    assert (lines[0]["table"], lines[0]["puts"], lines[0]["gives_up_after_s"]) == ("db.t", 1, 300)
    assert len(told(caplog, "the log goes on")) >= 1


async def test_a_writer_that_does_not_wait_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A segment that is written soon leaves no line."""
    async with (await table_of(await made())).writer() as writer:
        await (await writer.put(some((1, "a", 1))))
    assert told(caplog, "the log") == []


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([UnavailableError("no connection", kind="unreachable")], UnavailableError),
        (
            [
                UnavailableError("no answer", kind="timeout"),
                UnavailableError("no connection", kind="unreachable"),
            ],
            CommitUnknownError,
        ),
    ],
    ids=["nothing was sent", "something was sent"],
)
async def test_what_the_acknowledgement_says(
    errors: list[UnavailableError], expected: type[Exception]
) -> None:
    """Where nothing was ever sent the rows are not written; else that is unknown, whatever came later."""
    away = Away(await made())
    writer = (await table_of(away, clock=ManualClock(skip=True))).writer()
    async with writer:
        away.errors = errors
        ack = await writer.put(some((1, "a", 1)))
        with pytest.raises(expected) as caught:
            await ack
        assert type(caught.value) is expected
        away.errors = []
