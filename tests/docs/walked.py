"""A program that makes the five calls of ``docs/walks`` and prints which functions each of them called.

Run it with ``python -m tests.docs.walked``. Functions of the package are noted in whatever thread they run.
Hence a process of its own: threads that were there before would not be seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pyarrow as pa

import lakehouse

__all__ = ["calls_of_walks"]

PACKAGE = str(Path(lakehouse.__file__).parent) + "/"
_COLUMNS = pa.schema(
    [
        pa.field("day", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("item", pa.string()),
        pa.field("price", pa.float64()),
    ]
)


class _Notes:
    """Notes the names of functions that are called while somebody listens."""

    def __init__(self) -> None:
        self._called: set[str] | None = None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and self._called is not None and path.startswith(PACKAGE):
            self._called.add(f"{path.removeprefix(PACKAGE)}:{frame.f_code.co_qualname}")

    @contextlib.contextmanager
    def listening(self) -> Iterator[set[str]]:
        """Gives the names of functions that are called while the block runs."""
        self._called = called = set[str]()
        try:
            yield called
        finally:
            self._called = None


def _rows(first: int) -> pa.Table:
    numbers = range(first, first + 2_000)
    return pa.table(
        {
            "day": [f"2026-01-0{1 + number % 2}" for number in numbers],
            "id": list(numbers),
            "item": [f"item {number % 50}" for number in numbers],
            "price": [number / 4 for number in numbers],
        }
    )


async def calls_of_walks(notes: _Notes) -> dict[str, list[str]]:
    """Makes the calls and returns, by walk, ``path:name`` of every function that was called."""
    found: dict[str, set[str]] = {}
    async with lakehouse.connect("memory://walks") as lake:
        await lake.create_database("shop")
        orders = await lake.create_table(
            "shop.orders",
            _COLUMNS,
            primary_key=["day", "id"],
            partition_by=["day"],
            bucket=2,
            options={"index.min_rows": 1},
            indexes={"item": "inverted", "price": "bloom"},
        )
        await orders.upsert(_rows(0))
        with notes.listening() as found["upsert"]:
            await orders.upsert(_rows(1_000))
        with notes.listening() as found["scan"]:
            await orders.scan(where="item = 'item 7' and price > 10").to_arrow()
        with notes.listening() as found["put"]:
            async with orders.writer() as writer:
                await (await writer.put([{"day": "2026-01-01", "id": 5, "item": "x", "price": 1.0}]))
                await writer.flush()
        with notes.listening() as found["compact"]:
            await orders.compact()
            await orders.compact(full=True)
        with notes.listening() as found["index-metas"]:
            async for _ in lake.index_metas():
                pass
    return {walk: sorted(called) for walk, called in found.items()}


def main() -> None:
    """Prints the calls of all walks as JSON."""
    notes = _Notes()
    threading.setprofile(notes)
    sys.setprofile(notes)
    called = asyncio.run(calls_of_walks(notes))
    sys.setprofile(None)
    sys.stdout.write(json.dumps(called))


if __name__ == "__main__":
    main()
