"""A store that fails on purpose: every way a real one does, repeatably.

Faults are either placed (:class:`Fault` says which call) or drawn with a seed and a rate.
What was injected is in ``store.injected``; handing that list to a new store as ``faults``
plays the same failure again. A *power cut* ends the process in the eyes of the store:
from that operation on, nothing reaches it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from lakehouse.errors import LakehouseError, UnavailableError
from lakehouse.io import Fetched, ObjectStore
from lakehouse.io.decorators import StoreDecorator

__all__ = ["Fault", "FaultKind", "FaultyStore", "PowerCut"]

R = TypeVar("R")


class FaultKind(enum.Enum):
    """Kinds of failures of one request."""

    FAIL_BEFORE = "fail before"
    """The request never reaches the store; there is no answer."""
    FAIL_AFTER = "fail after"
    """The request is applied; the answer is lost."""
    LANDS_LATER = "lands later"
    """The request gets no answer now, and is applied when :meth:`FaultyStore.land` is called."""
    DUPLICATE = "duplicate"
    """The request is delivered twice; the answer is the second one's."""
    DELAY = "delay"
    """The answer comes after ``seconds``."""
    CONFLICT = "409"
    """The request is refused with 409 ConditionalRequestConflict."""
    THROTTLE = "503"
    """The request is refused with 503 SlowDown."""
    TRUNCATE = "truncate"
    """A read delivers its bytes without the last one, and says nothing."""
    BIT_FLIP = "bit flip"
    """A read delivers its bytes with one bit wrong."""
    POWER_CUT_BEFORE = "power cut before"
    """The process ends before the request leaves it."""
    POWER_CUT_AFTER = "power cut after"
    """The process ends after the request was applied, before the answer arrives."""


class PowerCut(BaseException):
    """The process is gone: not an ``Exception``, so that no handler can carry on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A planned fault: what goes wrong, and with which request."""

    kind: FaultKind
    at: int | None = None
    """Number of the operation on the store, counted from 0; None = the next that matches."""
    verb: str | None = None
    """Verb that the fault is for, such as ``put_if_absent``; None = any."""
    key: str | None = None
    """Text in the keys that the fault is for; None = any key."""
    seconds: float = 0.0
    """Seconds of a DELAY."""
    bit: int = 0
    """Number of the bit of a BIT_FLIP, modulo the bits that were read."""

    def matches(self, number: int, verb: str, key: str) -> bool:
        """Returns whether the fault is meant for this operation."""
        return (
            self.at in (None, number) and self.verb in (None, verb) and (self.key is None or self.key in key)
        )


class FaultyStore(StoreDecorator):
    """Injects faults into the requests of the store inside.

    Args:
        inner: the store that does the work, usually :func:`lakehouse.testing.memory_store`.
        faults: planned faults; each happens once.
        seed: draws further faults at ``rate`` from ``kinds``.
    """

    def __init__(
        self,
        inner: ObjectStore,
        faults: Iterable[Fault] = (),
        *,
        seed: int | None = None,
        rate: float = 0.0,
        kinds: Iterable[FaultKind] = (
            FaultKind.FAIL_BEFORE,
            FaultKind.FAIL_AFTER,
            FaultKind.CONFLICT,
            FaultKind.THROTTLE,
        ),
    ) -> None:
        super().__init__(inner)
        self.planned = list(faults)
        """Faults that are still to happen."""
        self.injected: list[Fault] = []
        """Faults that happened, each with the number of its operation."""
        self.operations = 0
        """Number of operations so far."""
        self.power = True
        """False after a power cut."""
        self._rng = random.Random(seed)
        self._rate = rate if seed is not None else 0.0
        self._kinds = tuple(kinds)
        self._landing: list[Callable[[], Awaitable[object]]] = []

    async def call(self, verb: str, key: str, request: Callable[[], Awaitable[R]], size: int = 0) -> R:
        """Makes the request, or what the fault makes of it."""
        self._check_power()
        number = self.operations
        self.operations += 1
        fault = self._next_fault(number, verb, key)
        try:
            if fault is None:
                return await request()
            self.injected.append(dataclasses.replace(fault, at=number, verb=verb, key=key))
            return await self._inject(fault, verb, key, request)
        finally:
            self._check_power()  # an answer does not reach a process that has ended meanwhile

    def _check_power(self) -> None:
        if not self.power:
            raise PowerCut

    def _next_fault(self, number: int, verb: str, key: str) -> Fault | None:
        for fault in self.planned:
            if fault.matches(number, verb, key):
                self.planned.remove(fault)
                return fault
        if self._rate and self._rng.random() < self._rate:
            return Fault(kind=self._rng.choice(self._kinds), bit=self._rng.randrange(1 << 20))
        return None

    async def _inject(self, fault: Fault, verb: str, key: str, request: Callable[[], Awaitable[R]]) -> R:
        kind = fault.kind
        facts: dict[str, Any] = {"key": key, "verb": verb, "injected": True}
        if kind is FaultKind.FAIL_BEFORE:
            raise UnavailableError(f"injected: {verb} of {key!r} got no answer", kind="timeout", **facts)
        if kind is FaultKind.LANDS_LATER:
            self._landing.append(request)
            raise UnavailableError(f"injected: {verb} of {key!r} got no answer yet", kind="timeout", **facts)
        if kind is FaultKind.CONFLICT:
            raise UnavailableError(f"injected: 409 on {verb} of {key!r}", status=409, **facts)
        if kind is FaultKind.THROTTLE:
            raise UnavailableError(
                f"injected: 503 on {verb} of {key!r}", kind="throttled", status=503, **facts
            )
        if kind is FaultKind.POWER_CUT_BEFORE:
            self.power = False
            raise PowerCut
        if kind is FaultKind.DELAY:
            await asyncio.sleep(fault.seconds)
            self._check_power()
        if kind is FaultKind.DUPLICATE:
            with contextlib.suppress(LakehouseError):
                await request()
        try:
            result = await request()
        except LakehouseError:
            # Where no answer arrives, a refusal does not arrive either.
            if kind not in (FaultKind.FAIL_AFTER, FaultKind.POWER_CUT_AFTER):
                raise
        else:
            if kind in (FaultKind.TRUNCATE, FaultKind.BIT_FLIP) and isinstance(result, Fetched):
                return _damaged(result, fault)  # type: ignore[return-value]
        if kind is FaultKind.FAIL_AFTER:
            raise UnavailableError(
                f"injected: the answer to {verb} of {key!r} is lost", kind="timeout", **facts
            )
        if kind is FaultKind.POWER_CUT_AFTER:
            self.power = False
            raise PowerCut
        return result

    async def land(self) -> int:
        """Applies the requests that were to land later; says how many."""
        landing, self._landing = self._landing, []
        for request in landing:
            with contextlib.suppress(LakehouseError):  # refused where the world has changed, as it would be
                await request()
        return len(landing)

    def __repr__(self) -> str:
        return f"FaultyStore(operations={self.operations}, injected={self.injected})"


def _damaged(fetched: Fetched, fault: Fault) -> Fetched:
    if not fetched.data:
        return fetched
    if fault.kind is FaultKind.TRUNCATE:
        return dataclasses.replace(fetched, data=fetched.data[:-1])
    data = bytearray(fetched.data)
    bit = fault.bit % (len(data) * 8)
    data[bit // 8] ^= 1 << (bit % 8)
    return dataclasses.replace(fetched, data=bytes(data))
