"""Cost of work: requests by kind, bytes and time, counted where they happen.

An :class:`InstrumentedStore` counts every attempt into its own ``stats`` and into every
:func:`measure` block that surrounds the call, whichever task makes it::

    with measure() as cost:
        await store.get_tail("index.puffin", 8192)
    assert cost.requests == 1
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

__all__ = ["BUCKETS_S", "REQUEST_KINDS", "Cost", "OperationCost", "active_costs", "counting", "measure"]

BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Upper bounds of the latency histogram, seconds; one more bucket is unbounded."""

REQUEST_KINDS: Mapping[str, str] = {
    "get": "get",
    "get_range": "get",
    "get_suffix": "get",
    "head": "head",
    "list_page": "list",
    "put": "put",
    "put_if_absent": "put",
    "put_if_match": "put",
    "multipart_start": "post",
    "multipart_part": "put",
    "multipart_complete": "post",
    "multipart_abort": "delete",
    "delete": "delete",
    "delete_batch": "delete",
}
"""The kind of request (as stores bill them) behind each verb of an object store."""


@dataclass(slots=True)
class OperationCost:
    """Totals of one verb."""

    requests: int = 0
    errors: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    """How many requests fell into each latency bucket."""


@dataclass(slots=True)
class Cost:
    """Requests, bytes and time, by verb. Adds up with ``+``."""

    operations: dict[str, OperationCost] = field(default_factory=dict)

    def record(
        self,
        operation: str,
        seconds: float,
        *,
        bytes_read: int = 0,
        bytes_written: int = 0,
        failed: bool = False,
    ) -> None:
        """Counts one request."""
        entry = self.operations.get(operation)
        if entry is None:
            entry = self.operations[operation] = OperationCost()
        entry.requests += 1
        entry.errors += failed
        entry.bytes_read += bytes_read
        entry.bytes_written += bytes_written
        entry.seconds += seconds
        entry.buckets[bisect.bisect_left(BUCKETS_S, seconds)] += 1

    @property
    def requests(self) -> int:
        """Requests of all kinds, failed ones included."""
        return sum(entry.requests for entry in self.operations.values())

    @property
    def errors(self) -> int:
        """Requests that failed."""
        return sum(entry.errors for entry in self.operations.values())

    @property
    def bytes_read(self) -> int:
        """Payload bytes received."""
        return sum(entry.bytes_read for entry in self.operations.values())

    @property
    def bytes_written(self) -> int:
        """Payload bytes sent."""
        return sum(entry.bytes_written for entry in self.operations.values())

    @property
    def seconds(self) -> float:
        """Time of all requests added up; more than wall time when they overlap."""
        return sum(entry.seconds for entry in self.operations.values())

    def by_kind(self) -> dict[str, int]:
        """Requests by kind: get, head, list, put, post, delete."""
        kinds: dict[str, int] = {}
        for operation, entry in self.operations.items():
            kind = REQUEST_KINDS[operation]
            kinds[kind] = kinds.get(kind, 0) + entry.requests
        return kinds

    def as_dict(self) -> dict[str, object]:
        """For JSON output."""
        return {
            "requests": self.by_kind(),
            "errors": self.errors,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "request_seconds": round(self.seconds, 6),
        }

    def __add__(self, other: Cost) -> Cost:
        total = Cost()
        for source in (self, other):
            for operation, entry in source.operations.items():
                into = total.operations.setdefault(operation, OperationCost())
                into.requests += entry.requests
                into.errors += entry.errors
                into.bytes_read += entry.bytes_read
                into.bytes_written += entry.bytes_written
                into.seconds += entry.seconds
                into.buckets = [a + b for a, b in zip(into.buckets, entry.buckets, strict=True)]
        return total

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.by_kind().items()))
        return f"{kinds or 'no requests'}; {self.bytes_read:,} B read, {self.bytes_written:,} B written"


_active: ContextVar[tuple[Cost, ...]] = ContextVar("lakehouse_cost", default=())


def active_costs() -> tuple[Cost, ...]:
    """The measure blocks around the caller, outermost first."""
    return _active.get()


@contextlib.contextmanager
def measure() -> Iterator[Cost]:
    """Counts what every store does for this block, its tasks and the threads they start."""
    cost = Cost()
    with counting(cost):
        yield cost


@contextlib.contextmanager
def counting(cost: Cost) -> Iterator[None]:
    """Counts into a cost that is there already, such as one that many tasks share.

    The block must not ``yield`` to a caller: it would count that caller's requests too.
    """
    token = _active.set((*_active.get(), cost))
    try:
        yield
    finally:
        _active.reset(token)
