"""Values that are loaded once."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from lakehouse.iceberg.reading.once import Once


async def test_many_who_ask_at_once_share_one_load() -> None:
    """The first to ask for a key loads it, the others wait, and later ones find the value."""
    values: Once[str, int] = Once()
    loads: list[str] = []

    async def load(key: str) -> int:
        loads.append(key)
        await anyio.lowlevel.checkpoint()
        return len(loads)

    found: list[int] = []

    async def ask(key: str) -> None:
        found.append(await values.get(key, lambda: load(key)))

    async with anyio.create_task_group() as group:
        for key in "aabab":
            group.start_soon(ask, key)
    await ask("a")
    assert sorted(loads) == ["a", "b"]
    assert len(found) == 6


async def test_what_failed_is_tried_again() -> None:
    """An error is everybody's own: the next one who asks loads again."""
    values: Once[str, int] = Once()

    async def fail() -> int:
        raise KeyError("x")

    async def load() -> int:
        return 5

    with pytest.raises(KeyError):
        await values.get("a", fail)
    assert await values.get("a", load) == 5
