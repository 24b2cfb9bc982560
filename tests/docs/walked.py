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
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pyarrow as pa

import lakehouse

__all__ = ["Walk", "walks"]

BACKENDS = "io/backends/"
PACKAGE = str(Path(lakehouse.__file__).parent) + "/"
_COLUMNS = pa.schema(
    [
        pa.field("day", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("item", pa.string()),
        pa.field("price", pa.float64()),
    ]
)


@dataclass(slots=True)
class Walk:
    """Findings about one call."""

    called: set[str] = field(default_factory=set)
    """``path:name`` of every function of the package that was called."""
    frames: tuple[str, ...] = ()
    """Functions of the package that waited for a request at once, where they were most; the backend aside."""


class _Notes:
    """Notes the functions that are called while somebody listens."""

    def __init__(self) -> None:
        self._walk: Walk | None = None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        name = _name(frame)
        if event != "call" or self._walk is None or name is None:
            return
        self._walk.called.add(name)
        if name.startswith(BACKENDS):
            above = []
            caller: FrameType | None = frame
            while caller is not None:
                above.append(_name(caller))
                caller = caller.f_back
            frames = tuple(one for one in reversed(above) if one is not None and not one.startswith(BACKENDS))
            self._walk.frames = max(frames, self._walk.frames, key=len)

    @contextlib.contextmanager
    def listening(self) -> Iterator[Walk]:
        """Gives what is found out while the block runs."""
        self._walk = walk = Walk()
        try:
            yield walk
        finally:
            self._walk = None


def _name(frame: FrameType) -> str | None:
    """Names the function of a frame, ``path:name``; None when it is not of the package."""
    path = frame.f_code.co_filename
    return f"{path.removeprefix(PACKAGE)}:{frame.f_code.co_qualname}" if path.startswith(PACKAGE) else None


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


async def walks(notes: _Notes) -> dict[str, Walk]:
    """Makes the calls and returns what was found out, by walk."""
    found: dict[str, Walk] = {}
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
    return found


def main() -> None:
    """Prints what was called as JSON, or with ``--figures`` how much and how deep."""
    notes = _Notes()
    threading.setprofile(notes)
    sys.setprofile(notes)
    found = asyncio.run(walks(notes))
    sys.setprofile(None)
    if "--figures" in sys.argv:
        for name, walk in found.items():
            modules = {one.partition(":")[0] for one in walk.called}
            figures = f"{len(modules):4} modules {len(walk.called):4} functions {len(walk.frames):3} frames"
            sys.stdout.write(f"{name:12}{figures}\n")
    else:
        sys.stdout.write(
            json.dumps({name: (sorted(walk.called), walk.frames) for name, walk in found.items()})
        )


if __name__ == "__main__":
    main()
