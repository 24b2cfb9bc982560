"""Gets of single rows, timed one by one, and the sides that every benchmark of them has."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.model import Params, Result
from benchmarks.slate import Slate
from lakehouse.io import Cost
from lakehouse.io import measure as count_requests
from lakehouse.testing.endpoint import ServerInfo

__all__ = ["KEYS", "SLATEDB", "STEP", "VALUE_BYTES", "Gets", "Side", "packed", "slate_side", "wanted_keys"]

SLATEDB = "SlateDB"
KEYS = 50
"""So many that each is in another row group of a million rows."""
STEP = 7
"""From one key of :func:`benchmarks.table_peers.orders` to the next: what is between is absent."""
VALUE_BYTES = 45


@dataclass(slots=True)
class Gets:
    """Gets one after the other, each timed apart."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    """Of all of them, as far as our stores made the requests."""

    async def make(self, get: Callable[[int], Awaitable[Any]], keys: Sequence[int]) -> None:
        """Gets every key."""
        with count_requests() as cost:
            for key in keys:
                cpu, began = time.process_time(), time.perf_counter()
                await get(key)
                self.seconds.append(time.perf_counter() - began)
                self.cpu_seconds.append(time.process_time() - cpu)
        self.cost += cost

    def result(self, side: str, params: Params) -> Result:
        """All gets as samples; requests and bytes are those of one."""
        count = len(self.seconds)
        return Result(
            side=side,
            params=params,
            work=1,
            unit="gets",
            seconds=tuple(self.seconds),
            cpu_seconds=tuple(self.cpu_seconds),
            requests={kind: number / count for kind, number in self.cost.by_kind().items()},
            bytes_read=self.cost.bytes_read / count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One way to get a row by its key."""

    name: str
    get: Callable[[int], Awaitable[Any]]
    forget: Callable[[], Awaitable[None]] | None = None
    """Keeps metadata and nothing else; None = nothing is kept anyway."""
    caches: bool = True
    """Whether it gets a row faster the second time."""


def wanted_keys(rows: int) -> list[int]:
    """Keys spread over the file, none of them in its first piece, which warms the metadata."""
    return [(at + 1) * rows // (KEYS + 1) * STEP for at in range(KEYS)]


def packed(key: int) -> bytes:
    """A key as SlateDB has it."""
    return struct.pack(">q", key)


@contextlib.asynccontextmanager
async def slate_side(server: ServerInfo, bucket: str, keys: Sequence[int]) -> AsyncIterator[Side]:
    """SlateDB with these keys."""
    slate = Slate(server, bucket)
    await slate.fill([packed(key) for key in keys], b"v" * VALUE_BYTES)

    async def get(key: int) -> None:
        assert len(await slate.get(packed(key))) == VALUE_BYTES

    try:
        yield Side(name=SLATEDB, get=get, forget=lambda: slate.reopen(packed(1)))
    finally:
        await slate.close()
